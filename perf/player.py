# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The side of a rival in Python that perf/bench.py lets take turns: bench_turns of bench.h."""

import sys
import time


def timed(work):
    """A turn of a piece of work in this process: work() returns how much it did."""
    def turn(seconds):
        amount, begin, cpu = 0, time.perf_counter(), time.process_time()
        while True:
            amount += work()
            spent = time.process_time() - cpu
            if spent >= seconds:
                return amount, spent, time.perf_counter() - begin
    return turn


def play(turn):
    """turn(seconds) returns the amount of work, processor seconds and seconds by the clock."""
    print("ready", flush=True)
    for line in sys.stdin:
        amount, cpu, wall = turn(float(line))
        print(f"turn,{amount:.9g},{cpu:.9g},{wall:.9g}", flush=True)
