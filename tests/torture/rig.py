#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The rig of examples/record.py behind exec:, for edited kits that were made from its recordings."""
import json
import random
import sys

HELLO = {
    "protocol": 1, "name": "rig", "version": "1", "dt": 0.1, "state_size": 2,
    "mechanisms": [{"name": f"u{j}", "lo": -5, "hi": 5} for j in range(3)],
    "channels": ["roll_rate", "yaw_rate"],
}
EFFECT = [(0.5, 0.5), (0.9, 0.1), (0.2, 1.1)]  # per unit command


def roll(request):
    noise = random.Random(request.get("seed", 0))
    start = x = list(request.get("state") or [0.0, 0.0])
    shake = (0.002, 0.01) if request["noise"] else (0, 0)
    output = []
    for command in request["commands"]:
        sent = [g * min(5.0, max(-5.0, u)) for g, u in zip(request["gains"], command)]
        x = [v + sum(0.1 * s * e[c] for s, e in zip(sent, EFFECT)) + noise.gauss(0, 1) * shake[0]
             for c, v in enumerate(x)]
        output.append([v + noise.gauss(0, 1) * shake[1] for v in x])
    return {"id": request["id"], "start": start, "initial": start, "output": output}


for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps(HELLO if message["op"] == "hello" else roll(message)), flush=True)
