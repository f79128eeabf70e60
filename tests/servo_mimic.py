#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The plant dc_servo again, from its equations and with randomness of its own, behind exec:.

    servo_mimic.py [MOTOR DEAD_ZONE]    the motor ignores so many volts of every command
"""
import json
import math
import random
import sys

EMF = 7.68e-3 * 70
DRIVE = 0.90 * 0.69 * 70 * 7.68e-3 / 2.6
INERTIA = 4 * 0.9 * 70 * 70 * 4.6e-7 + 5.3e-5
DAMPING = 4 * DRIVE * EMF + 4 * 0.015
STEP, PARTS = 0.01, 20
NOISE = (1.5e-3, 0.05)
MOTOR, ZONE = (int(sys.argv[1]), float(sys.argv[2])) if len(sys.argv) > 2 else (-1, 0.0)

HELLO = {
    "protocol": 1, "name": "servo_mimic", "version": "1", "dt": STEP, "state_size": 2,
    "mechanisms": [{"name": "motor_%d" % j, "lo": -6, "hi": 6} for j in range(4)],
    "channels": [{"name": "angle", "scale": 1.5e-3}, {"name": "speed", "scale": 0.05}],
}


def delivered(motor, gain, command):
    volts = min(6.0, max(-6.0, command))
    if motor == MOTOR:
        volts = math.copysign(max(0.0, abs(volts) - ZONE), volts)
    return gain * volts


def accelerate(speed, volts, wind):
    return (DRIVE * volts - DAMPING * speed - 0.012 * math.tanh(speed / 0.05) + wind) / INERTIA


def advance(angle, speed, volts, wind):
    h = STEP / PARTS
    for _ in range(PARTS):  # Heun's rule, the plant has another
        a = accelerate(speed, volts, wind)
        b = accelerate(speed + h * a, volts, wind)
        angle += h * (speed + h * a / 2)
        speed += h * (a + b) / 2
    return angle, speed


def roll(request):
    rng = random.Random(request.get("seed", 0))
    start = [rng.uniform(-1, 1), rng.gauss(0, 0.02)]
    start = request.get("state") or start
    angle, speed = start
    wind, output = 0.004 * rng.gauss(0, 1), []
    for command in request["commands"]:
        volts = sum(delivered(j, g, u) for j, (g, u) in enumerate(zip(request["gains"], command)))
        angle, speed = advance(angle, speed, volts, wind if request["noise"] else 0.0)
        wind = 0.5 * wind + math.sqrt(0.75) * 0.004 * rng.gauss(0, 1)
        sensed = [rng.gauss(0, sd) if request["noise"] else 0.0 for sd in NOISE]
        output.append([angle + sensed[0], speed + sensed[1]])
    return {"id": request["id"], "start": start, "initial": start, "output": output}


for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps(HELLO if message["op"] == "hello" else roll(message)), flush=True)
