# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The program `preflight` that a wheel carries: the command of an environment starts it. It is the
program in C. Plants in Python (gym:ID) run in the environment that the command belongs to."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Optional


def carried() -> Optional[str]:
    """The program inside this package, or None: a source tree has it elsewhere."""
    path = pathlib.Path(__file__).parent / "bin" / "preflight"
    return str(path) if os.access(path, os.X_OK) else None


def main() -> None:
    program = carried()
    if program is None:
        sys.exit(f"preflight: {pathlib.Path(__file__).parent} carries no program: build the "
                 "package with `pip install .` at the root of the source")
    if not os.environ.get("PREFLIGHT_PYTHON"):
        os.environ["PREFLIGHT_PYTHON"] = sys.executable
    os.execv(program, ["preflight", *sys.argv[1:]])
