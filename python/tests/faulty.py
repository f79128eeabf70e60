# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A plant behind the bridge that goes wrong: faulty.py MODE [MARK]

Without MARK it goes wrong whenever mechanism 1 has the gain .27; with it, at the second trajectory
of the first process that finds no such file.
"""
import json
import os
import random
import signal
import sys
import time

MODE, MARK = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
HELLO = {
    "protocol": 1, "name": "faulty", "version": "1", "dt": 0.1, "state_size": 2, "timeout": 1.0,
    "mechanisms": [{"name": n, "lo": -1, "hi": 1} for n in ("main", "left", "right")],
    "channels": [{"name": "x", "scale": 0.05}, {"name": "y", "scale": 0.05}],
    "probe": {"steps": 4, "amplitude": [0.2, 0.3, 0.3]},
    "task": {"steps": 4, "rows": 6, "amplitude": [0, 0.25, 0.25]},
}
EFFECT = [(0.05, 0.05), (0.30, 0.04), (0.03, 0.25)]


def roll(request):
    noise = random.Random(request.get("seed", 0))
    start = request.get("state") or [noise.gauss(0, 0.05), noise.gauss(0, 0.05)]
    x, output = list(start), []
    for command in request["commands"]:
        v = [g * min(1.0, max(-1.0, u)) for g, u in zip(request["gains"], command)]
        for c in (0, 1):
            x[c] += sum(a * e[c] for a, e in zip(v, EFFECT)) - 0.1 * x[c]
        shake = [noise.gauss(0, 0.02) if request["noise"] else 0.0 for _ in x]
        output.append([a + b for a, b in zip(x, shake)])
    return {"id": request["id"], "start": start, "initial": start, "output": output}


def misbehave(reply):
    if MODE == "hang":
        time.sleep(1000)
    elif MODE == "deaf":  # hangs and does not hear SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    elif MODE == "die":
        os._exit(7)
    elif MODE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE == "garbage":
        print("Traceback (most recent call last): oh dear", flush=True)
        return None
    elif MODE == "short":
        reply["output"] = reply["output"][:-1]
    elif MODE == "wide":
        reply["output"][0].append(0.0)
    elif MODE == "nan":
        reply["output"][1][0] = float("nan")
    elif MODE == "error":
        return {"id": reply["id"], "error": "the rig is being painted"}
    elif MODE == "stranger":
        reply["id"] += 1000
    return reply


def is_time(request, count):
    if MARK is None:
        return abs(request["gains"][1] - 0.27) < 1e-12
    if count == 2 and not os.path.exists(MARK):
        open(MARK, "w").close()
        return True
    return False


count = 0
for line in sys.stdin:
    message = json.loads(line)
    if message["op"] == "hello":
        print(json.dumps(HELLO), flush=True)
        continue
    count += 1
    reply = roll(message)
    if is_time(message, count):
        reply = misbehave(reply)
    if reply is not None:
        print(json.dumps(reply), flush=True)
