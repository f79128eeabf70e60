#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""models.py PROGRAM WORK COUNT FILE...: edited machine models. A number, a word, an attribute or an element of an
MJCF or URDF file is changed, doubled or left out; `preflight list mujoco:FILE#KEY` then tells about the machine or
refuses it in one line. Last line: N passed, N failed."""
import os
import random
import re
import subprocess
import sys

program, work, wanted, files = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
random.seed(1)
NUMBERS = ["0", "-1", "1e308", "1e-308", "nan", "inf", "-0", "1e9", "999999999999", "3 3 3", "", "x"] + [".1", ".5", "1", "2", "30"] * 4
KEYS = [""] * 20 + [ "#home", "#0", "#1", "#99", "#-1", "#", "#" + "k" * 300, "#`touch ran`"]


def edited(text):
    for _ in range(random.choice([1, 1, 1, 1, 2])):
        kind = random.randrange(6)
        numbers = list(re.finditer(r"(?<=[\" ])-?[\d.]+(?=[\" ])", text))
        attributes = list(re.finditer(r' [a-z]+="[^"]*"', text))
        elements = list(re.finditer(r"<[a-zA-Z]+[^<>]*/>", text))
        if kind <= 1 and numbers:
            at = random.choice(numbers)
            text = text[:at.start()] + random.choice(NUMBERS) + text[at.end():]
        elif kind == 2 and attributes:
            at = random.choice(attributes)
            text = text[:at.start()] + text[at.end():]
        elif kind == 3 and attributes:
            at, by = random.choice(attributes), random.choice(attributes).group()
            text = text[:at.start()] + " " + at.group().split("=")[0].strip() + "=" + by.split("=", 1)[1] + text[at.end():]
        elif kind == 4 and elements:
            at = random.choice(elements)
            text = text[:at.start()] + text[at.end():]
        elif elements:
            at, to = random.choice(elements), random.choice(elements)
            text = text[:to.end()] + at.group() + text[to.end():]
    return text


passed, failed, told = 0, 0, 0
for i in range(wanted):
    name = files[i % len(files)]
    with open(name) as file:
        text = edited(file.read())
    path = f"{work}/m.{name.rsplit('.', 1)[1]}"
    with open(path, "w") as file:
        file.write(text)
    try:
        said = subprocess.run([program, "list", f"mujoco:{path}{random.choice(KEYS)}"], capture_output=True, text=True,
                              timeout=60, cwd=work, errors="replace")
        good = said.returncode == 0 if not said.stderr else said.returncode == 3
        lines = [line for line in said.stderr.splitlines() if line.startswith("preflight")]
        good = good and len(lines) == (said.returncode == 3)
        why = f"status {said.returncode}: {said.stderr[-300:]}"
    except subprocess.TimeoutExpired:
        good, why = False, "it does not end"
    told += good and said.returncode == 0
    passed, failed = passed + good, failed + (not good)
    if not good:
        kept = f"{work}/../finding-{failed}.{name.rsplit('.', 1)[1]}"
        print(f"FAILED an edited {name}: {why}")
        with open(kept, "w") as file:
            file.write(text)
print(f"{wanted} edited models, {told} told about, the others refused")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
