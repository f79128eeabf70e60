# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Plants of a domain of their own: closed-loop tasks with the domain's measures.

Beyond what every plant has, such a plant names tasks (one per candidate, then variants of them),
runs them with a correction, tells what the domain measures, and predicts the return of a task under
many hypotheses at once from a twin of its own.
"""

from __future__ import annotations

import collections
import importlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from preflight.plant import Plant, Trace, vector

# name in the program, (module, attribute), what has to be installed
DOMAINS = {
    "grid2op": ("preflight.grid", "Grid", ("grid2op==1.12.6", "lightsim2grid==1.2.0")),
    "highway": ("preflight.driving", "Driving", ("gymnasium==1.4.0", "highway-env==1.12.1")),
    "inventory_serial": ("preflight.inventory", "Serial", ("gym-invmgmt==0.2.1",)),
    "inventory_lost_sales": ("preflight.inventory", "LostSales", ("gym-invmgmt==0.2.1",)),
    "inventory_multi": ("preflight.inventory", "MultiEchelon", ("gym-invmgmt==0.2.1",)),
}


def domain_plant(name: str) -> DomainPlant:
    """The plant of that name; what is missing is said with the command that installs it."""
    module, attribute, packages = DOMAINS[name]
    try:
        return getattr(importlib.import_module(module), attribute)()
    except ImportError as problem:
        raise ImportError(f"{name} needs {' and '.join(packages)}: run `make domains`, or set "
                          f"PREFLIGHT_PYTHON to a Python that has it ({problem})") from None


@dataclass(frozen=True)
class Task:
    """A closed loop of `rows` steps. mechanisms: indices of those it needs."""

    name: str
    mechanisms: Sequence[int]
    rows: int


class Flight(NamedTuple):
    """One task flown: the trajectory and what the domain measures, `metrics` in the plant's
    order."""

    trace: Trace
    metrics: dict


class Forecast(NamedTuple):
    """Predicted returns, draws x hypotheses, and by hypothesis the share of the commands that ask
    for more than the limit."""

    returns: np.ndarray
    beyond: np.ndarray


class DomainPlant(Plant):
    """Base class. A subclass gives `fly`, `forecast` and the attributes below."""

    tasks: Sequence[Task] = ()
    metrics: Sequence[str] = ("return",)
    sensor_noise: float = .25  # of a channel's scale, on every observed sample
    charge: Optional[float] = None  # of a row of a probe, None: .01
    draws: int = 1  # of the disturbance in a forecast
    KEPT = 20000

    def __init__(self) -> None:
        self._kept: collections.OrderedDict = collections.OrderedDict()

    def fly(self, task: int, gains: np.ndarray, correction: np.ndarray, noise: bool) -> Flight:
        """One task from the start that was just loaded or reset."""
        raise NotImplementedError

    def forecast(self, task: int, gains: np.ndarray, correction: np.ndarray,
                 seed: int) -> Forecast:
        """gains: hypotheses x mechanisms. seed: of the draws."""
        raise NotImplementedError

    def key(self, seed: int, state: Any, noise: bool) -> Optional[tuple]:
        """What a trajectory depends on besides commands and gains; None: it is not kept."""
        return None if state is None else tuple(state)

    def describe(self) -> dict:
        hello = super().describe()
        hello["tasks"] = [{"name": t.name, "mechanisms": [int(j) for j in t.mechanisms],
                           "rows": int(t.rows)} for t in self.tasks]
        hello["metrics"] = list(self.metrics)
        hello["sensor_noise"] = float(self.sensor_noise)
        hello["draws"] = int(self.draws)
        if self.charge is not None:
            hello["charge"] = [float(self.charge)] * (len(self.mechanisms) - 1)
        return hello

    def remember(self, key: Any, make: Any) -> Any:
        """What `make` gave the last time for this key."""
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = make()
            if len(self._kept) > self.KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]

    # --- the bridge

    def _begin(self, request: dict) -> tuple:
        """Seed and state of a request; without a state the seed draws the start."""
        seed = int(request.get("seed", 0))
        state = request.get("state")
        if state is None:
            state = self.start(seed)
        return seed, vector(state, self.state_size, "state")

    def start(self, seed: int) -> Sequence[float]:
        """The start that a seed draws."""
        return [float(seed)]

    def answer(self, request: dict) -> dict:
        """One request of the bridge."""
        n = len(self.mechanisms)
        seed, state = self._begin(request)
        if request["op"] == "forecast":
            gains = np.array(request["gains"], float).reshape(-1, n)
            self._start, self._seed = state, seed
            told = self.forecast(int(request["task"]), gains,
                                 vector(request["correction"], n, "correction"), seed)
            return {"id": request["id"], "returns": np.ascontiguousarray(told.returns, float),
                    "beyond": np.ascontiguousarray(told.beyond, float)}
        noise = bool(request.get("noise", False))
        gains = vector(request["gains"], n, "gains")
        if "task" in request:
            flight = self._flight(int(request["task"]), gains,
                                  vector(request["correction"], n, "correction"), seed, state,
                                  noise)
            reply = reply_of(request, flight.trace)
            reply["metrics"] = {m: float(flight.metrics[m]) for m in self.metrics}
            return reply
        commands = np.array(request["commands"], float).reshape(-1, n)
        return reply_of(request, self._trace(commands, gains, seed, state, noise))

    def _trace(self, commands: np.ndarray, gains: np.ndarray, seed: int, state: np.ndarray,
               noise: bool) -> Trace:
        if len(commands) == 0:  # only where it starts
            return Trace(state, np.zeros(len(self.channels)), np.zeros((0, len(self.channels))))
        self._seed = seed
        key = self.key(seed, state, noise)
        if key is None:
            return self.roll(commands, gains, state=state, noise=noise)
        trace = self.remember((key, commands.tobytes(), gains.tobytes()),
                              lambda: self.roll(commands, gains, state=state, noise=noise))
        return trace._replace(start=state)

    def _flight(self, task: int, gains: np.ndarray, correction: np.ndarray, seed: int,
                state: np.ndarray, noise: bool) -> Flight:
        if not 0 <= task < len(self.tasks):
            raise ValueError(f"task: {task} is not one of {len(self.tasks)}")
        self._start, self._seed = state, seed
        key = self.key(seed, state, noise)
        if key is None:
            return self.fly(task, gains, correction, noise)
        return self.remember((key, task, gains.tobytes(), correction.tobytes()),
                             lambda: self.fly(task, gains, correction, noise))

    def run_task(self, task: int, gains: Any = None, correction: Any = None, seed: int = 0,
                 state: Any = None, noise: bool = True) -> Flight:
        """One task: what `answer` runs, for use from Python."""
        n = len(self.mechanisms)
        seed, state = self._begin({"seed": seed, **({} if state is None else {"state": state})})
        return self._flight(task, np.ones(n) if gains is None else vector(gains, n, "gains"),
                            np.ones(n) if correction is None
                            else vector(correction, n, "correction"), seed, state, noise)


def reply_of(request: dict, trace: Trace) -> dict:
    """The bridge's answer to a roll; arrays in the order they are written in."""
    return {"id": request["id"], "start": np.ascontiguousarray(trace.start, np.float64),
            "initial": np.ascontiguousarray(trace.initial, np.float64),
            "output": np.ascontiguousarray(trace.output, np.float64)}


def one_weak(n: int, mechanism: int, gain: float) -> np.ndarray:
    """Gains 1 but for one mechanism.

    >>> one_weak(3, 1, .35).tolist()
    [1.0, 0.35, 1.0]
    """
    gains = np.ones(n)
    gains[mechanism] = gain
    return gains
