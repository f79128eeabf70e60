#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What the installed Gymnasium does, for tests/test_mujoco.c: gymnasium_fixture.py OUT.json

For each system qpos and qvel of reset(seed=0), and three runs of 40 random commands from a state in
mid-trajectory, with qpos and qvel after each step. Numbers keep all their bits.
"""

import json
import os
import sys

import gymnasium
import mujoco
import numpy as np

SYSTEMS = {"ant": "Ant-v5", "half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5",
           "humanoid": "Humanoid-v5", "swimmer": "Swimmer-v5", "walker2d": "Walker2d-v5"}
STEPS = 40


def point(env):
    return [*map(float, env.data.qpos), *map(float, env.data.qvel)]


def one_run(env, seed):
    """Ten steps to get under way, then the recorded ones."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    low, high = env.model.actuator_ctrlrange.T
    commands = rng.uniform(low, high, (10 + STEPS, env.model.nu))
    for u in commands[:10]:
        env.step(u)
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, state, kind)
    steps = []
    for u in commands[10:]:
        env.step(u)
        steps.append(point(env))
    return {"seed": seed, "state": state.tolist(), "commands": commands[10:].tolist(),
            "steps": steps}


def main():
    out = os.path.abspath(sys.argv[1])
    os.chdir(os.path.dirname(out))  # MuJoCo leaves its log in the current folder
    found = {"mujoco": mujoco.mj_versionString(), "gymnasium": gymnasium.__version__, "systems": {}}
    for name in SYSTEMS:
        env = gymnasium.make(SYSTEMS[name]).unwrapped
        env.reset(seed=0)
        found["models"] = os.path.dirname(env.fullpath)
        found["systems"][name] = {"start": point(env),
                                  "runs": [one_run(env, seed) for seed in (1, 2, 3)]}
        env.close()
    with open(out, "w", encoding="ascii") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
