# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A method of your own beside those of the paper: a class that chooses the next probe.

    class Cheapest:
        statistic = "matched"      # or "norm"
        transport = False          # True: recovery starts from the transported severity

        def choose(self, belief, probes):
            return min(probes, key=lambda probe: probe.charge)

`belief` is P(nothing changed), then P(each candidate changed). `probes` are those that may be
chosen: each has index, name, charge and targets (mechanisms). An object is made for every session;
`self.rng` is its seeded source of randomness, the only one that a method may use.

    preflight bench run compact-plants --method python:my_method.py:Cheapest
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from typing import Any, Dict, List, NamedTuple, Tuple


class Probe(NamedTuple):
    index: int
    name: str
    charge: float
    targets: Tuple[int, ...]


def load(spec: str) -> type:
    """The class of FILE:CLASS, or an exception that says why it is no method."""
    file, _, name = spec.rpartition(":")
    if not os.path.exists(file):
        raise ValueError(f"{file}: there is no such file")
    module_spec = importlib.util.spec_from_file_location("preflight_method", file)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"{file}: it is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    os.environ["PREFLIGHT_METHOD_WORKER"] = "1"  # a file that runs experiments would run itself
    module_spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise ValueError(f"{file} has no class {name}")
    if not callable(getattr(found, "choose", None)):
        raise ValueError(f"{name} has no method choose(belief, probes)")
    if getattr(found, "statistic", None) not in ("matched", "norm"):
        raise ValueError(f'{name}.statistic must be "matched" or "norm"')
    found()  # it must be makeable without arguments
    return found


def _chosen(answer: Any, probes: List[Probe]) -> int:
    if isinstance(answer, Probe):
        answer = answer.index
    if isinstance(answer, str):
        answer = next((p.index for p in probes if p.name == answer), answer)
    if answer not in [p.index for p in probes]:
        raise ValueError(f"choose returned {answer!r}, which is none of the probes")
    return int(answer)


def answer(method: type, sessions: Dict[str, Any], request: Dict[str, Any]) -> Dict[str, Any]:
    """The reply to one request."""
    if request["op"] == "hello":
        return {"name": method.__name__, "statistic": method.statistic,  # type: ignore[attr-defined]
                "transport": bool(getattr(method, "transport", False))}
    probes = [Probe(p["index"], p["name"], p["charge"], tuple(p["targets"]))
              for p in request["probes"]]
    if request["opportunity"] == 0 or request["session"] not in sessions:
        sessions[request["session"]] = method()
        sessions[request["session"]].rng = random.Random(request["seed"])
    chosen = sessions[request["session"]].choose(request["belief"], probes)
    return {"probe": _chosen(chosen, probes)}


def talk(spec: str, requests: Any, out: int) -> None:
    """Answers lines until they end. What goes wrong is an answer, too."""
    sessions: Dict[str, Any] = {}
    method: Any = None
    for line in requests:
        try:
            method = method or load(spec)
            reply = answer(method, sessions, json.loads(line))
        except Exception as problem:
            reply = {"error": f"{type(problem).__name__}: {problem}"}
        os.write(out, (json.dumps(reply) + "\n").encode())
