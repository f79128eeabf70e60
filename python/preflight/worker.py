# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The other end of the process bridge: a plant behind JSON lines.

    python -m preflight.worker gym:BipedalWalker-v3
    python -m preflight.worker my_plant.py:Rooms
    python -m preflight.worker my_package.plants:Rooms

The real standard output is moved aside before the plant's code is imported, since libraries print;
what they print goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any, BinaryIO, Optional

if __name__ == "__main__":  # before NumPy or anything else that may print
    _OUT: Optional[int] = os.dup(1)
    os.dup2(2, 1)
else:
    _OUT = None

import numpy as np

try:
    import orjson
except ImportError:  # plain JSON says the same, more slowly
    orjson = None

from preflight.domain import DOMAINS, DomainPlant, domain_plant, reply_of
from preflight.plant import Plant, Runner, hello_text


def load(spec: str) -> Plant:
    """The plant that a spec names: gym:ID, module:attribute or file.py:attribute, where the
    attribute is a plant or something that makes one when called."""
    if spec in DOMAINS:
        return domain_plant(spec)
    kind, _, name = spec.rpartition(":") if not spec.startswith("gym:") else ("gym", "", spec[4:])
    if kind == "gym":
        from preflight.gym import gym_plant
        return gym_plant(name)
    if not kind or not name:
        raise ValueError(f"{spec!r}: say gym:ID, module:attribute or file.py:attribute")
    if kind.endswith(".py"):
        module_spec = importlib.util.spec_from_file_location("preflight_plant", kind)
        if module_spec is None or not os.path.exists(kind):
            raise ValueError(f"{kind}: there is no such file")
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[module_spec.name] = module
        module_spec.loader.exec_module(module)  # type: ignore[union-attr]
    else:
        module = importlib.import_module(kind)
    made = getattr(module, name)
    plant = made if isinstance(made, Plant) else made()
    if not isinstance(plant, Plant):
        raise TypeError(f"{spec}: {name} gives {type(plant).__name__}, not a preflight.Plant")
    return plant


def answer(runner: Runner, request: dict) -> dict:
    """One trajectory."""
    plant = runner.plant
    if isinstance(plant, DomainPlant):
        return plant.answer(request)
    if "task" in request:
        raise ValueError("this plant offers no closed loops")
    commands = np.array(request["commands"], float).reshape(-1, len(plant.mechanisms))
    trace = runner.roll(commands, np.array(request["gains"], float), int(request.get("seed", 0)),
                        request.get("state"), bool(request.get("noise", False)))
    return reply_of(request, trace)


def describe_problem(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


_PLAIN = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=np.ndarray.tolist).encode


def _encode(message: dict) -> bytes:
    """Doubles with all their bits, arrays as lists. Those of a trajectory are finite."""
    if orjson is not None:
        return orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
    return (_PLAIN(message) + "\n").encode("ascii")


_decode = json.loads if orjson is None else orjson.loads


def _say(out: int, message: dict) -> None:
    data = _encode(message)
    while data:
        data = data[os.write(out, data):]


def _talk(plant: Plant, requests: BinaryIO, out: int) -> None:
    runner = Runner(plant)
    for line in requests:
        if not line.strip():
            continue
        request = _decode(line)
        if request["op"] == "hello":
            _say(out, json.loads(hello_text(plant)))
            continue
        try:
            reply = answer(runner, request)
        except Exception as problem:  # of this trajectory; the next one may be fine
            reply = {"id": request.get("id"), "error": describe_problem(problem)}
        _say(out, reply)


def _take_input() -> BinaryIO:
    """The requests, out of reach of libraries: one that reads standard input must not eat any."""
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def _take_output() -> int:
    """The real standard output; what is printed from now on goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def serve(plant: Plant) -> None:
    """Answers requests on standard input until it ends. For the last line of a plant's own file:
    `if __name__ == "__main__": preflight.serve(Rooms())`."""
    _talk(plant, _take_input(), _take_output())


def main(spec: str, out: Optional[int] = None) -> None:
    """Serves the plant of a spec. What goes wrong before is the answer to the hello."""
    requests = _take_input()
    out = _take_output() if out is None else out
    if spec.startswith("method:"):
        from preflight.method import talk
        talk(spec[len("method:"):], requests, out)
        return
    try:
        plant: Any = load(spec)
    except Exception as problem:
        requests.readline()
        _say(out, {"error": describe_problem(problem)})
        return
    _talk(plant, requests, out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m preflight.worker gym:ID | module:attribute | file.py:attribute")
    main(sys.argv[1], _OUT)
