#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What the installed Gymnasium does, for tests/test_classic.c: classic_fixture.py OUT.json

For each classic-control system the start of reset(seed=0) and of reset(seed=3000), runs of 200
random commands (two directions in [0, 1]; native actions among them) from given states with the
state after each step, and the sum of native rewards of a run. Numbers keep all their bits.
"""

import json
import sys
import warnings

import gymnasium
import numpy as np

STEPS = 200
SYSTEMS = {"pendulum": "Pendulum-v1", "acrobot": "Acrobot-v1", "cartpole": "CartPole-v1"}
LIMIT = {"pendulum": 2.0, "acrobot": 1.0, "cartpole": 10.0}


def step(env, name, push):
    """One native step under a signed force or torque."""
    if name == "pendulum":
        return env.step(np.array([push]))
    if name == "acrobot":
        env.AVAIL_TORQUE = [push, push, push]
        return env.step(0)
    env.steps_beyond_terminated = None  # stepping on after the end is what is asked for
    env.force_mag = push
    return env.step(1)


def commands(rng, kind):
    """Both directions at random, one at a time, or the native extremes."""
    u = rng.uniform(0, 1, (STEPS, 2))
    if kind == 1:
        u[np.arange(STEPS), rng.integers(0, 2, STEPS)] = 0
    if kind == 2:
        side = rng.integers(0, 2, STEPS)
        u = np.stack([side == 0, side == 1], axis=1).astype(float)
    return u


def one_run(env, name, kind):
    rng = np.random.default_rng(kind + 1)
    env.reset(seed=kind + 1)
    state = [float(x) for x in env.state]
    u = commands(rng, kind)
    steps, score = [], 0.0
    for plus, minus in u:
        found = step(env, name, LIMIT[name] * (float(plus) - float(minus)))
        score += float(found[1])
        steps.append([float(x) for x in env.state])
    return {"state": state, "commands": u.tolist(), "steps": steps, "score": score}


def start(env, seed):
    env.reset(seed=seed)
    return [float(x) for x in env.state]


def main():
    warnings.simplefilter("ignore")
    found = {"gymnasium": gymnasium.__version__, "numpy": np.__version__, "systems": {}}
    for name, ident in SYSTEMS.items():
        env = gymnasium.make(ident).unwrapped
        found["systems"][name] = {"start": start(env, 0), "task_start": start(env, 3000),
                                  "runs": [one_run(env, name, kind) for kind in range(3)]}
        env.close()
    with open(sys.argv[1], "w", encoding="ascii") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
