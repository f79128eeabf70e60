#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The Python package: the bridge against the same environment stepped directly by as many processes,
and tell + ask in Python against the C calls.

Needs the package and Gymnasium with Box2D. Takes turns as perf/bench.py asks for them. Example:
    PYTHONPATH=build/python-package build/venv/bin/python perf/bench_python.py bridge Pendulum-v1
    ... perf/bench_python.py session: prints lines `name,value,unit`
"""

import argparse
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ["PREFLIGHT_PYTHON"] = sys.executable

import numpy as np  # noqa: E402

import preflight  # noqa: E402
from player import play  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENTS = ("BipedalWalker-v3", "CarRacing-v3", "Pendulum-v1")
STEPS = 8
PULSE = dict(zip(ENVIRONMENTS, ((.55, True), (.65, False), (.25, False))))  # amplitude, doublet
SECONDS = 1.5  # of a turn
PAIRS, PAIR_REPEATS = 2000, 50


def show(name, value, unit):
    print(f"{name},{value:.6g},{unit}", flush=True)


def direct_walker():
    import Box2D
    from gymnasium.envs.box2d.bipedal_walker import BipedalWalker
    env = BipedalWalker()
    u = np.zeros((8, 4))
    u[:4, 1], u[4:, 1] = -.55, .55

    def roll(seed):
        env._destroy()
        env.terrain, env.hull, env.world = [], None, Box2D.b2World()
        env.reset(seed=seed)
        return [env.step(a)[0] for a in u]
    return roll


def direct_car():
    import Box2D
    from gymnasium.envs.box2d.car_racing import CarRacing
    env = CarRacing()
    env._render = lambda mode: None
    u = np.zeros((32, 3))
    u[:24, 1], u[24:, 0] = .5, .65

    def roll(seed):
        env._destroy()
        env.road, env.car, env.world = [], None, Box2D.b2World((0, 0))
        env.reset(seed=seed)
        for a in u:
            env.step(a)
    return roll


def direct_pendulum():
    import gymnasium
    u = np.full((8, 1), .5)

    def roll(seed):
        env = gymnasium.make("Pendulum-v1", disable_env_checker=True).unwrapped
        env.reset(seed=seed)
        return [env.step(a)[0] for a in u]
    return roll


DIRECT = dict(zip(ENVIRONMENTS, (direct_walker, direct_car, direct_pendulum)))


def count(roll, first, stop):
    """Trajectories until the time is up."""
    done = 0
    while time.monotonic() < stop:
        roll(first + done)
        done += 1
    return done


def direct_process(name, first, ready, go, result):
    roll = DIRECT[name]()
    roll(first)
    ready.release()
    go.wait()
    begin = time.process_time()
    done = count(roll, first + 1, time.monotonic() + SECONDS)
    result.put((done, time.process_time() - begin))


def direct(name, workers, base):
    """Trajectories of plain Gymnasium, and the time that they took."""
    context = multiprocessing.get_context("spawn")
    ready, go, result = context.Semaphore(0), context.Event(), context.Queue()
    processes = [context.Process(target=direct_process,
                                 args=(name, base + i * 10**6, ready, go, result))
                 for i in range(workers)]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    go.set()
    total, spent = (sum(v) for v in zip(*(result.get() for _ in processes)))
    for process in processes:
        process.join()
    return total, spent, SECONDS


def worker_seconds():
    """Processor time of the workers so far."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Bridge:
    """As many workers behind the bridge, each talked to by a thread."""

    def __init__(self, name, workers):
        self.machines = [preflight.Machine(f"gym:{name}") for _ in range(workers)]
        amplitude, doublet = PULSE[name]
        self.u = np.zeros((STEPS, len(self.machines[0].mechanisms)))
        self.u[:, 1] = amplitude
        if doublet:
            self.u[: STEPS // 2, 1] *= -1
        for machine in self.machines:
            machine.roll(self.u, key=0)

    def rate(self, base):
        counts = [0] * len(self.machines)
        begin = time.process_time() + worker_seconds()
        stop = time.monotonic() + SECONDS

        def work(i):
            machine = self.machines[i]
            counts[i] = count(lambda seed: machine.roll(self.u, key=seed << 11),
                              base + i * 10**6, stop)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(counts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent = time.process_time() + worker_seconds() - begin
        return sum(counts), spent, SECONDS


def program_rate(build, name, workers):
    """The same, asked for by the program's threads as calibration does it."""
    amplitude, doublet = PULSE[name]
    pulse = (1, amplitude, STEPS, int(doublet))
    done = subprocess.run([str(build / "perf/bench_bridge"), f"gym:{name}",
                           *map(str, (*pulse, workers, SECONDS))],
                          capture_output=True, text=True, check=True)
    clock, cpu = (float(line.split(",")[1]) for line in done.stdout.splitlines())
    return clock * SECONDS, clock * SECONDS / cpu, SECONDS


def turns_of(who, name, workers, build):
    """Every turn has starts of its own."""
    bridge = Bridge(name, workers) if who == "bridge_from_python" else None
    base = [0]

    def turn(_):
        base[0] += 10**8
        if who == "direct":
            return direct(name, workers, base[0])
        return bridge.rate(base[0]) if bridge else program_rate(build, name, workers)
    return turn


def session_seconds(kit):
    """Seconds of the processor per tell and ask, with prepared arrays."""
    responses = [np.array(p["nominal_response"]) for p in kit.info["probes"]]
    session = kit.session()
    best = 1e9
    for _ in range(PAIR_REPEATS):
        pairs, spent = 0, 0.0
        while pairs < PAIRS:
            session.reset()
            ask = session.ask()
            begin = time.process_time()
            while ask.probe is not None:
                session.tell(responses[ask.probe.index])
                ask = session.ask()
                pairs += 1
            spent += time.process_time() - begin
        best = min(best, spent / pairs)
    return best


def compare_session(build):
    with tempfile.TemporaryDirectory() as folder:
        log, path = pathlib.Path(folder) / "log.csv", pathlib.Path(folder) / "r.kit"
        with open(log, "w", encoding="ascii") as file:
            subprocess.run([sys.executable, str(ROOT / "examples/record.py")], stdout=file,
                           check=True)
        kit = preflight.Kit.from_recordings(log)
        kit.save(path)
        done = subprocess.run([str(build / "perf/bench_session"), str(path)], capture_output=True,
                              text=True, check=True)
    in_c = float(done.stdout.split(",")[1])
    in_python = 1e6 * session_seconds(kit)
    show("tell_ask_c", in_c, "us")
    show("tell_ask_python", in_python, "us")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("session", "direct", "bridge", "bridge_from_python"))
    parser.add_argument("environment", nargs="?", choices=ENVIRONMENTS, default=ENVIRONMENTS[-1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if options.what == "session":
        compare_session(options.build)
    else:
        play(turns_of(options.what, options.environment, options.workers, options.build))


if __name__ == "__main__":
    main()
