#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Makes recordings to try `calibrate --recordings` on: a rig with two idle actuators, logged by itself.

A healthy machine records its own faults: commanding g times the pulse shows what a machine at gain g would do.

    python3 examples/record.py > log.csv
    preflight calibrate --recordings log.csv -o rig.kit
"""
import random

random.seed(1)
STEPS, AMPLITUDE = 8, 0.5
EFFECT = {"left": (0.9, 0.1), "right": (0.2, 1.1)}  # per unit command on the two sensors
INDEX = {"left": 1, "right": 2}

print("episode,probe,mechanism,gain,step,roll_rate,yaw_rate,u0,u1,u2")
episode = 0
for probe in EFFECT:
    for gain in (1.0, 0.65, 0.35):
        for _ in range(40):
            x, y = 0.0, 0.0
            for step in range(1, STEPS + 1):
                x += EFFECT[probe][0] * gain * AMPLITUDE * 0.1 + random.gauss(0, 0.002)
                y += EFFECT[probe][1] * gain * AMPLITUDE * 0.1 + random.gauss(0, 0.002)
                u = [0.0, 0.0, 0.0]
                u[INDEX[probe]] = AMPLITUDE * gain
                weak = "" if gain == 1 else f"u{INDEX[probe]}"
                print(f"{episode},{probe},{weak},{gain},{step},{x + random.gauss(0, 0.01):.5f},"
                      f"{y + random.gauss(0, 0.01):.5f},{u[0]},{u[1]},{u[2]}")
            episode += 1
