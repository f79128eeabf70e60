#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A plant of one's own behind exec: -- three heaters on two rooms, in forty lines.

    preflight calibrate "exec:python3 examples/exec_plant.py" -o rooms.kit
    preflight check rooms.kit --allow-exec --fault 2:0.35
"""
import json
import random
import sys

HELLO = {
    "protocol": 1, "name": "rooms", "version": "1", "dt": 60.0, "state_size": 2,
    "mechanisms": [{"name": "base", "lo": 0, "hi": 1}, {"name": "heater_a", "lo": 0, "hi": 1},
                   {"name": "heater_b", "lo": 0, "hi": 1}],
    "channels": ["room_a", "room_b"],
}
EFFECT = [(0.05, 0.05), (0.30, 0.04), (0.03, 0.25)]  # kelvin per step at full command


def roll(request):
    noise = random.Random(request.get("seed", 0))
    start = request.get("state") or [noise.gauss(20, 0.5), noise.gauss(20, 0.5)]
    a, b = start
    output = []
    for command in request["commands"]:
        v = [g * min(1.0, max(0.0, u)) for g, u in zip(request["gains"], command)]
        shake = [noise.gauss(0, 0.01), noise.gauss(0, 0.01)] if request["noise"] else [0, 0]
        a, b = (a + 0.05 * (b - a) - 0.01 * (a - 15) + sum(x * e[0] for x, e in zip(v, EFFECT)) + shake[0],
                b + 0.05 * (a - b) - 0.01 * (b - 15) + sum(x * e[1] for x, e in zip(v, EFFECT)) + shake[1])
        sensor = [noise.gauss(0, 0.02), noise.gauss(0, 0.02)] if request["noise"] else [0, 0]
        output.append([a + sensor[0], b + sensor[1]])
    return {"id": request["id"], "start": start, "initial": start, "output": output}


for line in sys.stdin:
    message = json.loads(line)
    reply = HELLO if message["op"] == "hello" else roll(message)
    print(json.dumps(reply), flush=True)
