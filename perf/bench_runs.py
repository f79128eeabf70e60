#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Whole runs of `preflight bench run compact-plants`: threads, memory, growth of the cost.

Every run starts from an empty database, so calibration is part of it. Threads are compared by wall
time, everything else by the processor time of one thread.

Example: perf/bench_runs.py build/release/preflight
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROWTH_PLANT = "quad_tank"
TRIALS = (40, 80, 160)
GRIDS = (9, 17, 33)


def peak_memory(pid):
    """MB so far, 0 where the system does not tell. The ru_maxrss of a child counts its parent's."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmHWM:\s*(\d+) kB", text).group(1)) * 1024 / 1e6
    except (OSError, AttributeError):
        return 0.0


def run(program, threads, *arguments):
    """Wall seconds, processor seconds and peak memory in MB of one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "bench", "run", "compact-plants", "--threads", str(threads),
                   "--db", str(pathlib.Path(folder) / "bench.db"), *arguments]
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done, memory = 0, 0.0
        while not done:
            memory = peak_memory(child.pid) or memory
            time.sleep(0.01)
            done, status, usage = os.wait4(child.pid, os.WNOHANG)
        seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"bench_runs.py: {' '.join(command)} failed with status {child.returncode}")
    if memory == 0:
        memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    return seconds, usage.ru_utime + usage.ru_stime, memory


def show(name, value, unit):
    print(f"{name},{value:.6g},{unit}", flush=True)


def environments():
    text = (ROOT / "suites/compact-plants.yaml").read_text(encoding="utf-8")
    return re.findall(r"\w+", re.search(r"^environments: \[(.+?)\]", text, re.M | re.S).group(1))


def measure_threads(program, profile):
    for threads in (1, 2):
        wall, processor, memory = run(program, threads, "--profile", profile)
        show(f"compact_plants_{threads}_threads_wall", wall, "s")
        show(f"compact_plants_{threads}_threads_processor", processor, "s")
        show(f"compact_plants_{threads}_threads_memory", memory, "MB")


def alone(plant):
    """A suite of one plant; with --only every claim would also walk over the others' units."""
    return "--set", f"environments=[{plant}]"


def measure_growth(program):
    part = ("--profile", "standard", "--only", "seed=0")
    for plant in environments():
        _, processor, _ = run(program, 1, *part, *alone(plant))
        show(f"run_{plant}", processor, "s")
    plant = alone(GROWTH_PLANT)
    for grid in GRIDS:
        _, processor, _ = run(program, 1, *part, *plant, "--set", f"grid={grid}")
        show(f"run_{grid}_gains", processor, "s")
    for trials in TRIALS:
        _, processor, _ = run(program, 1, "--profile", "paper", *plant, "--set", "seeds=1",
                              "--set", f"trials={trials}")
        show(f"run_{trials}_trials", processor, "s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--profile", default="standard", choices=("quick", "standard", "paper"),
                        help="scale of the comparison of threads (default standard)")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    measure_growth(program)
    measure_threads(program, arguments.profile)


if __name__ == "__main__":
    main()
