#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Whole runs of `preflight bench run compact-plants`, each from an empty database.

Takes turns as perf/bench.py asks for them: the dc_servo part with two methods, two seeds, one thread.
With `paper` it runs all at the paper's scale, on two threads, and prints lines `name,value,unit`.

Usage: command_turns.py PROGRAM FOLDER [paper]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from player import play

SEEDS, TRIALS, GAINS, METHODS = 2, 40, 2, "bayes-risk,eg-mpt"


def peak_memory(pid):
    """MB so far, 0 where the system does not tell. The ru_maxrss of a child counts its parent's."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmHWM:\s*(\d+) kB", text).group(1)) * 1024 / 1e6
    except (OSError, AttributeError):
        return 0.0


def spend(command):
    """Seconds by the clock, processor seconds and peak memory in MB of one command."""
    begin = time.perf_counter()
    log = tempfile.TemporaryFile("w+")
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=log)
    done, memory = 0, 0.0
    while not done:
        memory = peak_memory(child.pid) or memory
        time.sleep(0.01)
        done, status, usage = os.wait4(child.pid, os.WNOHANG)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    log.seek(0)
    said = (log.read().strip().splitlines() or ["it says nothing"])[-1]
    log.close()
    if child.returncode != 0:
        words = " ".join(str(c) for c in command)
        sys.exit(f"command_turns.py: {words} failed with status {child.returncode}: {said}")
    return seconds, usage.ru_utime + usage.ru_stime, memory


def run(program, folder, *arguments):
    """The same of a run of the suite."""
    database = pathlib.Path(folder) / "bench.db"
    spent = spend([program, "bench", "run", "compact-plants", "--db", database, *arguments])
    for end in ("", "-wal", "-shm"):
        pathlib.Path(f"{database}{end}").unlink(missing_ok=True)
    return spent


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: command_turns.py PROGRAM FOLDER [paper]")
    program, folder = sys.argv[1:3]
    if len(sys.argv) == 4:
        wall, processor, memory = run(program, folder, "--profile", "paper", "--threads", "2")
        print(f"wall,{wall:.6g},s\nprocessor,{processor:.6g},s\nmemory,{memory:.6g},MB")
        return

    def turn(_):
        wall, processor, _ = run(program, folder, "--profile", "paper", "--threads", "1", "--set",
                                 "environments=[dc_servo]", "--set", f"seeds={SEEDS}",
                                 "--set", f"methods=[{METHODS}]")
        return SEEDS * TRIALS * GAINS * 2, processor, wall
    play(turn)


if __name__ == "__main__":
    main()
