#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Drives `preflight serve` for a machine: asks for a probe or a rehearsal, runs it, tells the response.

Here the machine is the simulated rig of record.py; replace run() by yours.

    python3 examples/drive.py rig.kit --gain right=0.35
"""
import argparse
import json
import random
import subprocess

EFFECT = {1: (0.9, 0.1), 2: (0.2, 1.1)}  # mechanism -> effect on the two sensors
NAMES = {"left": 1, "right": 2}


def run(command, gains):
    """One probe or rehearsal on the rig: a row of sensor values per command row."""
    x = y = 0.0
    rows = []
    for u in command:
        for j, (a, b) in EFFECT.items():
            x += a * gains[j] * u[j] * 0.1
            y += b * gains[j] * u[j] * 0.1
        x += random.gauss(0, 0.002)
        y += random.gauss(0, 0.002)
        rows.append([x + random.gauss(0, 0.01), y + random.gauss(0, 0.01)])
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kit")
    parser.add_argument("--program", default="preflight")
    parser.add_argument("--gain", action="append", default=[], help="left=0.35")
    parser.add_argument("--seed", type=int, default=1, help="of the rig's noise")
    options = parser.parse_args()
    random.seed(options.seed)
    gains = {1: 1.0, 2: 1.0}
    for text in options.gain:
        name, value = text.split("=")
        gains[NAMES[name]] = float(value)
    server = subprocess.Popen([options.program, "serve", options.kit], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)

    def request(**message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        reply = json.loads(server.stdout.readline())
        if not reply["ok"]:
            raise SystemExit(reply["error"]["message"])
        return reply

    request(op="hello", protocol=2)  # protocol 1 knows no rehearsals: nothing would be more than go-if
    while (ask := request(op="ask"))["ask"] != "done":
        what = {"probe": ask["probe"]} if ask["ask"] == "probe" else {"rehearsal": ask["tasks"]}
        request(op="tell", response=run(ask["command"], gains), **what)
    for task in request(op="readiness")["tasks"]:
        print(f"{task['name']:8} {task['decision']:6} at least {task['lower']:.3f}, "
              f"correction {task['correction'][0]:.3f} ({task['why']}, rehearsed: {task['rehearsed']})")
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()
