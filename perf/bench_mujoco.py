#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Control steps of a MuJoCo system in Gymnasium or in EnvPool, on two threads, in turns as
perf/bench.py asks for them.

Usage: bench_mujoco.py gymnasium|envpool SYSTEM
Random commands from resets, 8 steps each, as bench_mujoco.c has them; resets are not counted.
Gymnasium steps one environment in each of two processes, the fastest way it has on two cores;
EnvPool steps a batch on its own two threads. Both also compute observations and rewards.
"""

import multiprocessing
import os
import sys
import time

import numpy as np

from player import play

SYSTEMS = {"ant": "Ant-v5", "half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5",
           "humanoid": "Humanoid-v5", "swimmer": "Swimmer-v5", "walker2d": "Walker2d-v5"}
THREADS = 2
ROWS = 8


def gymnasium_worker(name, pipe):
    import gymnasium

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # HalfCheetah's file warns
    env = gymnasium.make(SYSTEMS[name]).unwrapped
    rng = np.random.default_rng(0)
    low, high = env.model.actuator_ctrlrange.T
    commands = rng.uniform(low, high, (64, ROWS, env.model.nu))
    env.reset(seed=0)
    pipe.send(0)
    while (seconds := pipe.recv()) is not None:
        n, cpu, wall = 0, 0.0, 0.0
        while cpu < seconds:
            env.reset()
            begin, before = time.perf_counter(), time.process_time()
            for u in commands[n // ROWS % 64]:
                env.step(u)
            cpu += time.process_time() - before
            wall += time.perf_counter() - begin
            n += ROWS
        pipe.send((n, cpu, wall))


def gymnasium_turn(name):
    """Turns of two processes at once."""
    pipes = []
    for _ in range(THREADS):
        ours, theirs = multiprocessing.Pipe()
        multiprocessing.Process(target=gymnasium_worker, args=(name, theirs), daemon=True).start()
        ours.recv()
        pipes.append(ours)

    def turn(seconds):
        for pipe in pipes:
            pipe.send(seconds / THREADS)
        n, cpu, wall = zip(*(pipe.recv() for pipe in pipes))
        # both ran at the same time, each with steps per second of its own
        return sum(n), sum(cpu), sum(n) / sum(a / b for a, b in zip(n, wall))
    return turn


def envpool_turn(name):
    import envpool

    n_env = 8 * THREADS
    env = envpool.make(SYSTEMS[name], env_type="gymnasium", num_envs=n_env, num_threads=THREADS, seed=0)
    env.reset()
    rng = np.random.default_rng(0)
    space = env.action_space
    commands = rng.uniform(space.low, space.high, (64, n_env, *space.shape)).astype(space.dtype)

    def turn(seconds):
        n, cpu, wall = 0, 0.0, 0.0
        while cpu < seconds:
            env.reset()
            begin, before = time.perf_counter(), time.process_time()
            for k in range(ROWS):
                env.step(commands[(n + k) % 64])
            cpu += time.process_time() - before
            wall += time.perf_counter() - begin
            n += ROWS
        return n * n_env, cpu, wall
    return turn


def main():
    ways = {"gymnasium": gymnasium_turn, "envpool": envpool_turn}
    if len(sys.argv) != 3 or sys.argv[1] not in ways or sys.argv[2] not in SYSTEMS:
        sys.exit("usage: bench_mujoco.py gymnasium|envpool SYSTEM")
    os.chdir("/tmp")  # MuJoCo leaves its log in the current folder
    play(ways[sys.argv[1]](sys.argv[2]))


if __name__ == "__main__":
    main()
