#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A plant behind exec: with as many mechanisms as asked for, which share eight channels.

    many_joints.py N [awkward]

awkward: names with markup, quotes and right-to-left text, which a page must show as they are.
"""
import json
import random
import sys

N = int(sys.argv[1])
AWKWARD = ["<script>alert(1)</script>", '"quoted" & \'more\'', "\u0645\u062d\u0631\u0643", "\u202eback",
           "</td></table><h1>", "a" * 60]


def name(i):
    return f"{AWKWARD[i % len(AWKWARD)]} {i}" if "awkward" in sys.argv else f"joint_{i}"


HELLO = {
    "protocol": 1, "name": name(0) if "awkward" in sys.argv else "many_joints", "version": "1", "dt": 0.1,
    "state_size": 8,
    "mechanisms": [{"name": name(i), "lo": -4, "hi": 4} for i in range(N)],
    "channels": [f"angle of {name(i)}" for i in range(8)],
}


def roll(request):
    noise = random.Random(request.get("seed", 0))
    state = request.get("state") or [noise.gauss(0, 0.1) for _ in range(8)]
    start, output = list(state), []
    for command in request["commands"]:
        pushed = [0.9 * x for x in state]
        for i, u in enumerate(command):
            if u:  # each mechanism moves one channel most, and the next one a little
                v = request["gains"][i] * max(-4.0, min(4.0, u))
                pushed[i % 8] += v
                pushed[(i + 1 + i // 8) % 8] += 0.1 * v
        state = [x + (noise.gauss(0, 0.005) if request["noise"] else 0) for x in pushed]
        output.append([x + (noise.gauss(0, 0.01) if request["noise"] else 0) for x in state])
    return {"id": request["id"], "start": start, "initial": start, "output": output}


for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps(HELLO if message["op"] == "hello" else roll(message)), flush=True)
