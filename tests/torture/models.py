#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""models.py PROGRAM WORK COUNT FILE...: edited machine models. A number, a word, an attribute or an element of an
MJCF or URDF file is changed, doubled or left out; `preflight list mujoco:FILE#KEY` then tells about the machine, in
finite numbers, or refuses it in one line. A key that a shell would run is only a name. Files that are not edited must
be told about. Last line: N passed, N failed."""
import os
import random
import re
import subprocess
import sys

program, work, wanted, files = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
random.seed(1)
NUMBERS = ["0", "-1", "1e308", "1e-308", "nan", "inf", "-0", "1e9", "999999999999", "3 3 3", "", "x"] + [".1", ".5", "1", "2", "30"] * 4
KEYS = [""] * 20 + ["#home", "#0", "#1", "#99", "#-1", "#", "#" + "k" * 300, "#`touch ran`"]


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


def ask(path, key):
    """What is wrong with the answer, and whether the machine was told about."""
    try:
        said = subprocess.run([program, "list", f"mujoco:{path}{key}"], capture_output=True, text=True,
                              timeout=60, cwd=work, errors="replace")
    except subprocess.TimeoutExpired:
        return "it does not end", False
    told = said.returncode == 0
    lines = [line for line in said.stderr.splitlines() if line.startswith("preflight")]
    good = told if not said.stderr else said.returncode == 3
    if not good or len(lines) != (said.returncode == 3):
        return f"status {said.returncode}: {said.stderr[-300:]}", told
    numbers = re.search(r"(?<![\w.])[-+]?(nan|inf|infinity)(?![\w.])", said.stdout, re.IGNORECASE)
    if numbers:
        line = next(line for line in said.stdout.splitlines() if numbers.group() in line)
        return f"it says {line.strip()!r}", told
    if os.path.exists(f"{work}/ran"):
        os.unlink(f"{work}/ran")
        return f"it ran what the key {key!r} says", told
    return None, told


passed, failed, counts = 0, 0, {"told about": 0, "refused": 0, "baits": 0}
if os.path.exists(f"{work}/ran"):
    os.unlink(f"{work}/ran")
for name in files:
    why, told = ask(os.path.abspath(name), "")
    if not told or why:
        failed += 1
        print(f"FAILED {name} as it is: {why or 'refused'}")
    else:
        passed += 1
for i in range(wanted):
    name, key = files[i % len(files)], KEYS[-1] if i % 30 == 0 else random.choice(KEYS)
    with open(name) as file:
        text = edited(file.read())
    path = f"{work}/m.{name.rsplit('.', 1)[1]}"
    with open(path, "w") as file:
        file.write(text)
    why, told = ask(path, key)
    counts["told about" if told else "refused"] += 1
    counts["baits"] += key == KEYS[-1]
    if why:
        failed += 1
        kept = f"{work}/../finding-{failed}.{name.rsplit('.', 1)[1]}"
        print(f"FAILED an edited {name}, key {key[:20]!r}, see {kept}: {why}")
        with open(kept, "w") as file:
            file.write(text)
    else:
        passed += 1
print(f"{len(files)} models as they are, {wanted} edited: {', '.join(f'{n} {what}' for what, n in counts.items())}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
