#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Control steps per second of the MuJoCo systems in Gymnasium or in EnvPool, on two threads.

Example: bench_mujoco.py gymnasium; bench_mujoco.py envpool. Prints lines `name,value,unit`.
Random commands from resets, 8 steps each, as bench_mujoco.c has them; resets are not counted.
Gymnasium steps one environment in each of two processes, the fastest way it has on two cores;
EnvPool steps a batch on its own two threads. Both also compute observations and rewards.
"""

import multiprocessing
import os
import sys
import time

import numpy as np

SYSTEMS = {"ant": "Ant-v5", "half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5",
           "humanoid": "Humanoid-v5", "swimmer": "Swimmer-v5", "walker2d": "Walker2d-v5"}
THREADS = 2
ROWS = 8
SECONDS = .3
REPEATS = 5


def gymnasium_worker(name, pipe):
    import gymnasium

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # HalfCheetah's file warns
    env = gymnasium.make(SYSTEMS[name]).unwrapped
    rng = np.random.default_rng(0)
    low, high = env.model.actuator_ctrlrange.T
    commands = rng.uniform(low, high, (64, ROWS, env.model.nu))
    env.reset(seed=0)
    pipe.send(0)
    while pipe.recv():
        n, begin, spent = 0, time.perf_counter(), 0.0
        while time.perf_counter() - begin < SECONDS:
            env.reset()
            start = time.perf_counter()
            for u in commands[n // ROWS % 64]:
                env.step(u)
            spent += time.perf_counter() - start
            n += ROWS
        pipe.send(n / spent)


def gymnasium_speed(name):
    workers = []
    for _ in range(THREADS):
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=gymnasium_worker, args=(name, theirs))
        process.start()
        ours.recv()
        workers.append((process, ours))
    best = 0.0
    for _ in range(REPEATS):
        for _, pipe in workers:
            pipe.send(True)
        best = max(best, sum(pipe.recv() for _, pipe in workers))
    for process, pipe in workers:
        pipe.send(False)
        process.join()
    return best


def envpool_speed(name):
    import envpool

    n_env = 8 * THREADS
    env = envpool.make(SYSTEMS[name], env_type="gymnasium", num_envs=n_env, num_threads=THREADS, seed=0)
    env.reset()
    rng = np.random.default_rng(0)
    space = env.action_space
    commands = rng.uniform(space.low, space.high, (64, n_env, *space.shape)).astype(space.dtype)
    best = 0.0
    for _ in range(REPEATS):
        n, begin, spent = 0, time.perf_counter(), 0.0
        while time.perf_counter() - begin < SECONDS:
            env.reset()
            start = time.perf_counter()
            for k in range(ROWS):
                env.step(commands[(n + k) % 64])
            spent += time.perf_counter() - start
            n += ROWS
        best = max(best, n * n_env / spent)
    env.close()
    return best


def main():
    speed = {"gymnasium": gymnasium_speed, "envpool": envpool_speed}[sys.argv[1]]
    os.chdir("/tmp")  # MuJoCo leaves its log in the current folder
    for name in SYSTEMS:
        print(f"mujoco_{name}_{sys.argv[1]}_2_threads,{speed(name):.6g},steps/s", flush=True)


if __name__ == "__main__":
    main()
