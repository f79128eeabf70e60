#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What a fault does to a controller: Gymnasium's pendulum, swung up and held by a rule of two lines,
healthy and with faults of its motor and of its sensors.

    pip install .[gym] && python3 examples/faulty_gym.py
"""
import gymnasium
import numpy as np

import preflight

FAULTS = [None, {"motor": 0.5}, {"motor": {"delay": 3}}, {"motor": {"dead_band": 1.5}},
          {"speed": "frozen"}, {"speed": {"delay": 3}}, {"sine": {"noise": 2}},
          {"motor": {"intermittent": 0}}]


def torque(cosine, sine, speed):
    """Near the top a spring and a damper, else energy is pumped in."""
    energy = speed**2 / 6 + 5 * (cosine - 1)
    near = cosine > 0.9
    return -12 * sine - 3 * speed if near else -2.0 * np.sign(energy * speed + 1e-9)


def fly(env, seed):
    """The return of one episode, and how much of its last 50 steps the pendulum is upright."""
    seen, total, upright, over = env.reset(seed=seed)[0], 0.0, [], False
    while not over:
        action = np.clip(torque(*seen), -2, 2)
        seen, reward, _, over, _ = env.step(np.array([action], np.float32))
        total += reward
        upright.append(np.cos(env.unwrapped.state[0]) > 0.9)  # what is true, not what is read
    return total, np.mean(upright[-50:])


if __name__ == "__main__":
    print(f"{'fault':32}{'return':>8}{'upright':>9}")
    for fault in FAULTS:
        env = preflight.faults(gymnasium.make("Pendulum-v1"), fault, actions=["motor"],
                               observations=["cosine", "sine", "speed"], scale=1)
        total, upright = np.mean([fly(env, seed) for seed in range(10)], axis=0)
        print(f"{', '.join(env.fault_texts) or 'healthy':32}{total:8.0f}{upright:9.0%}")
