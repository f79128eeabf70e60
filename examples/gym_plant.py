#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A Gymnasium environment of one's own, checked in ten lines: a hovercraft with a main fan, which
today's work uses, and two side thrusters, which may have lost strength unnoticed.

    pip install .[gym] && python3 examples/gym_plant.py
    preflight calibrate "exec:python3 -m preflight.worker examples/gym_plant.py:plant" \\
        --set sensor_noise=.25 -o hover.kit
"""
import gymnasium
import numpy as np

import preflight


class Hovercraft(gymnasium.Env):
    """State: forward speed, sideways speed, yaw rate. Actions: fan, left and right thruster."""

    action_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(0, 0.05, 3)
        return self.x.copy(), {}

    def step(self, action):
        fan, left, right = action
        force = np.array([fan, 0.4 * (left - right), 0.9 * left + 0.7 * right])
        self.x = self.x + 0.1 * (force - 0.3 * self.x - 0.2 * self.x * np.abs(self.x))
        return self.x.copy(), 0.0, False, False, {}


def plant():
    return preflight.GymPlant(Hovercraft, names=["forward", "sideways", "yaw_rate"], dt=0.1)


if __name__ == "__main__":
    kit = preflight.Kit.calibrate(plant(), sensor_noise=0.25, alarm_trials=200)
    print(kit.check(fault={"action2": 0.35}, seed=2))  # in secret, the right one has 35 % left
