# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the program, the source folder, commands, processes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PREFLIGHT_PROGRAM", str(ROOT / "build/release/preflight"))
# workers run on the interpreter that runs the tests
os.environ["PREFLIGHT_PYTHON"] = sys.executable
os.environ["PREFLIGHT_PROGRAM"] = PROGRAM


def preflight(*arguments, status=0, **options):
    """Runs the program, expects the exit status, and gives what it printed."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, **options)
    if status is not None and done.returncode != status:
        raise AssertionError(f"preflight {' '.join(map(str, arguments))}: status "
                             f"{done.returncode}: {done.stderr}")
    return done.stdout if status == 0 else done.stdout + done.stderr


def journal(path):
    """Header and events of a journal."""
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return lines[0], lines[1:]


def children():
    """(pid, state, command line) of the processes below this one, zombies too."""
    below = {os.getpid()}
    found = []
    for entry in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if int(parent) in below:
            below.add(entry)
            found.append((entry, state, line.replace("\0", " ")))
    return found


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    maxDiff = 400

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
