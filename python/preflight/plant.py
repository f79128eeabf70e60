# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Plants: what is acted on. A plant of one's own is a subclass of `Plant` with three methods.

    >>> import numpy as np
    >>> class Cart(Plant):
    ...     name = "cart"
    ...     dt = 0.1
    ...     mechanisms = [Mechanism("main", -1, 1), Mechanism("left", -1, 1)]
    ...     channels = [Channel("speed")]
    ...     def reset(self, seed, noise):
    ...         self.v = np.random.default_rng(seed).normal(0, 0.02)
    ...     def step(self, delivered):
    ...         self.v += 0.1 * (delivered[0] - 0.8 * delivered[1])
    ...     def observe(self):
    ...         return [self.v]
    >>> trace = Cart().roll([[0, 0.5], [0, 0.5]], gains=[1, 0.5], seed=3)
    >>> trace.output.shape
    (2, 1)
"""

from __future__ import annotations

import collections
import functools
import inspect
import json
import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

PROTOCOL = 1
SEED_LIMIT = 2**53  # seeds are integers that every JSON reader keeps


@dataclass(frozen=True)
class Mechanism:
    """Something that a command acts through; limits in the command's unit, infinite if unknown."""

    name: str
    lo: float = -math.inf
    hi: float = math.inf


@dataclass(frozen=True)
class Channel:
    """Something observed. scale: what it is divided by (0: found by calibration);
    kind: plain, angle (rad) or quaternion, which matters to learned models."""

    name: str
    scale: float = 0.0
    kind: str = "plain"


@dataclass(frozen=True)
class Pulse:
    """A command shape, one mechanism at a time: `steps` rows of its amplitude (a doublet changes
    sign half way), then zeros up to `rows`. amplitude has one entry per mechanism; that of the
    current one (0) is what it does in passive operation."""

    amplitude: Sequence[float]
    steps: int = 8
    rows: Optional[int] = None
    doublet: bool = False

    def command(self, n_mechanisms: int, mechanism: int) -> np.ndarray:
        """rows x mechanisms, zero but for one column.

        >>> Pulse([0, -0.5], steps=4, doublet=True).command(2, 1)[:, 1].tolist()
        [-0.5, -0.5, 0.5, 0.5]
        """
        command = np.zeros((self.rows or self.steps, n_mechanisms))
        command[: self.steps, mechanism] = self.amplitude[mechanism]
        if self.doublet:
            command[self.steps // 2 : self.steps, mechanism] *= -1
        return command

    def describe(self) -> dict:
        return {"steps": int(self.steps), "rows": int(self.rows or self.steps),
                "doublet": bool(self.doublet), "amplitude": [float(a) for a in self.amplitude]}


class Trace(NamedTuple):
    """One trajectory: the start that `roll(state=...)` takes, the channels before the first
    command, and a row of channels after each."""

    start: np.ndarray
    initial: np.ndarray
    output: np.ndarray


def real(values: Any, what: str) -> np.ndarray:
    """Doubles as they are; what only looks like numbers (complex, masked, text) is a ValueError.

    >>> real(np.array([1j]), "gains")
    Traceback (most recent call last):
    ...
    ValueError: gains: not real numbers
    """
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{what}: not numbers ({problem})") from None
    if array.dtype.kind not in "fiub" and array.size:
        raise ValueError(f"{what}: not real numbers")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{what}: some entries are masked")
    return array.astype(np.float64)


def whole(value: Any, limit: int, what: str) -> int:
    """An integer in 0..limit - 1, or a ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{what}: {value!r} is not an integer") from None
    if not 0 <= number < limit:
        raise ValueError(f"{what}: {value} is not in 0..2**{limit.bit_length() - 1} - 1")
    return number


def vector(values: Any, n: int, what: str) -> np.ndarray:
    """n finite doubles, or a ValueError that names what is wrong.

    >>> vector([1, float("nan")], 2, "gains")
    Traceback (most recent call last):
    ...
    ValueError: gains: entry 1 is nan
    """
    array = real(values, what)
    if array.shape != (n,):
        raise ValueError(f"{what}: shape {array.shape}, expected ({n},)")
    if not np.isfinite(array).all():
        i = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{what}: entry {i} is {array[i]}")
    return array


def matrix(values: Any, columns: int, what: str, rows: Optional[int] = None) -> np.ndarray:
    """rows x columns finite doubles (any number of rows if None), or a ValueError.

    >>> matrix([[1, 2, 3]], 2, "commands")
    Traceback (most recent call last):
    ...
    ValueError: commands: shape (1, 3), expected any number of rows of 2
    """
    array = np.ascontiguousarray(real(values, what))
    if array.ndim != 2 or array.shape[1] != columns or rows not in (None, array.shape[0]):
        want = "any number of" if rows is None else rows
        raise ValueError(f"{what}: shape {array.shape}, expected {want} rows of {columns}")
    if not np.isfinite(array).all():
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(array)))
        raise ValueError(f"{what}: row {row}, column {column} is {array[row, column]}")
    return array


class Plant:
    """Base class. Mechanism 0 is the current one, which today's controller uses; the others are the
    candidates, whose command is exactly zero in passive operation.

    Give `name`, `mechanisms`, `channels` and the methods `reset`, `step` and `observe`. The start
    of a trajectory is known by its seed; a plant that can save and load its state says so with
    `state_size`, `state` and `load`. The other attributes are suggestions to `calibrate`.
    """

    name: str = "plant"
    version: str = ""  # of the simulator, for the kit
    title: str = ""
    dt: float = 0.0  # control step in seconds, 0 if unknown
    mechanisms: Sequence[Mechanism] = ()
    channels: Sequence[Channel] = ()
    probe: Optional[Pulse] = None
    task: Optional[Pulse] = None
    reveal: Optional[Sequence[float]] = None  # by candidate
    importance: Optional[Sequence[float]] = None  # by candidate
    calm: bool = False  # nothing random after the reset
    timeout: Optional[float] = None  # seconds for one trajectory behind the bridge
    state_size: int = 1  # 1 unless overridden: the seed
    registered: Optional[str] = None  # name under which the program knows it ("gym:ID")

    _seed: int = 0

    def reset(self, seed: int, noise: bool) -> None:
        """Start anew: equal seeds give equal bits. Without noise the start is the same and nothing
        disturbs what follows."""
        raise NotImplementedError

    def step(self, delivered: np.ndarray) -> None:
        """One control step with what the mechanisms deliver, after limits and gains."""
        raise NotImplementedError

    def observe(self) -> Any:
        """The channels now."""
        raise NotImplementedError

    def state(self) -> Any:
        """`state_size` numbers that `load` takes; asked for right after a reset."""
        return [float(self._seed)]

    def load(self, state: np.ndarray, noise: bool, seed: int) -> None:
        """Start from what `state` gave. What disturbs the machine from there has the seed `seed`,
        which is not that of the start. (A plant known by its seed alone has one for both.)"""
        self._seed = int(state[0])
        self.reset(self._seed, noise)

    def deliver(self, command: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """What reaches the plant: gain times the clipped command. The gain is after the clip: a
        weak actuator is not repaired by a larger limit."""
        lo, hi = self._limits()
        return gains * np.clip(command, lo, hi)

    def _limits(self) -> tuple:
        if getattr(self, "_limits_of", None) is not self.mechanisms:
            self._bounds = (np.array([m.lo for m in self.mechanisms], float),
                            np.array([m.hi for m in self.mechanisms], float))
            self._limits_of = self.mechanisms
        return self._bounds

    def roll(self, commands: Any, gains: Any = None, seed: Optional[int] = None,
             state: Any = None, noise: bool = False, fault: Any = None) -> Trace:
        """One trajectory from a seed or from a saved start. fault: what is wrong with the plant,
        as `Machine.roll` takes it."""
        if fault is not None:
            from preflight.machine import Machine
            seed = 0 if seed is None else whole(seed, SEED_LIMIT, "seed")
            return Machine(self).roll(commands, gains, key=seed << 11, state=state, noise=noise,
                                      fault=fault)
        n = len(self.mechanisms)
        commands = matrix(commands, n, "commands")
        gains = np.ones(n) if gains is None else vector(gains, n, "gains")
        if state is not None:
            state = vector(state, self.state_size, "state")
        seed = 0 if seed is None else whole(seed, SEED_LIMIT, "seed")
        return self.trajectory(commands, gains, seed, state, noise)

    def trajectory(self, commands: np.ndarray, gains: np.ndarray, seed: int,
                   state: Optional[np.ndarray], noise: bool) -> Trace:
        """`roll` with arrays that were checked already."""
        if state is not None and _takes_seed(type(self)):
            self.load(state, noise, seed)
        elif state is not None:
            self.load(state, noise)  # type: ignore[call-arg]
        else:
            self._seed = seed
            self.reset(self._seed, noise)
        start = vector(self.state(), self.state_size, "state()") if self.state_size else np.zeros(0)
        rows = np.empty((len(commands) + 1, len(self.channels)))  # first before any command
        rows[0] = self._observed(len(self.channels))
        if type(self).deliver is Plant.deliver:  # the same for all rows at once
            self._advance(self.deliver(commands, gains), rows)
        else:
            for t, command in enumerate(commands):
                self.step(self.deliver(command, gains))
                rows[t + 1] = self._observed(len(self.channels))
        self._check(rows)
        return Trace(start, rows[0], rows[1:])

    def _advance(self, delivered: np.ndarray, rows: np.ndarray) -> None:
        """Steps through what is delivered, row by row; rows[t + 1] is seen after row t."""
        for t, row in enumerate(delivered):
            self.step(row)
            rows[t + 1] = self._observed(len(self.channels))

    def _observed(self, n_chan: int) -> Any:
        values = self.observe()
        if type(values) is np.ndarray and values.shape == (n_chan,) and values.dtype.kind in "fiu":
            return values
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (n_chan,):
            raise ValueError(f"observe() gave shape {values.shape} for {n_chan} channels")
        return values

    def _check(self, rows: np.ndarray) -> None:
        if np.isfinite(rows).all():
            return
        t, c = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        where = f"in row {t - 1}" if t > 0 else "before the first command"
        raise ValueError(f"channel {self.channels[c].name!r} is {rows[t, c]} {where}")

    def describe(self) -> dict:
        """The plant's hello in the bridge protocol."""
        hello = {"protocol": PROTOCOL, "name": self.name, "version": self.version,
                 "dt": float(self.dt), "state_size": int(self.state_size), "calm": bool(self.calm),
                 "mechanisms": [_mechanism(m) for m in self.mechanisms],
                 "channels": [{"name": c.name, "scale": float(c.scale), "kind": c.kind}
                              for c in self.channels]}
        if self.title:
            hello["title"] = self.title
        for key, pulse in (("probe", self.probe), ("task", self.task)):
            if pulse is not None:
                hello[key] = pulse.describe()
        for key in ("reveal", "importance"):
            if getattr(self, key) is not None:
                hello[key] = [float(v) for v in getattr(self, key)]
        if self.timeout is not None:
            hello["timeout"] = float(self.timeout)
        return hello


@functools.cache
def _takes_seed(plant: type) -> bool:
    """Whether `load` has room for the seed; plants that draw nothing after a start may leave it."""
    try:
        inspect.signature(plant.load).bind(None, None, None, None)
    except TypeError:
        return False
    return True


def _mechanism(m: Mechanism) -> dict:
    entry: dict = {"name": m.name}
    if math.isfinite(m.lo):
        entry["lo"] = float(m.lo)
    if math.isfinite(m.hi):
        entry["hi"] = float(m.hi)
    return entry


def _rolled(plant: Plant) -> Any:
    """A plant with a `roll` of its own, called as `trajectory` is."""
    return lambda commands, gains, seed, state, noise: plant.roll(
        commands, gains, seed=seed, state=state, noise=noise)


class Runner:
    """Runs a plant and keeps the last trajectories of a deterministic one: a prediction from a
    start is the same trajectory as the one that was observed there, and resets are dear."""

    KEPT = 256

    def __init__(self, plant: Plant):
        self.plant = plant
        self._kept: collections.OrderedDict = collections.OrderedDict()

    def roll(self, commands: np.ndarray, gains: np.ndarray, seed: int, state: Any,
             noise: bool) -> Trace:
        """state: the saved start, None: from the seed."""
        plant = self.plant
        seeded = type(plant).load is Plant.load  # the start is the seed
        key = None
        if plant.calm and seeded:
            key = (seed if state is None else int(state[0]), gains.tobytes(), commands.tobytes())
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        roll = plant.trajectory if type(plant).roll is Plant.roll else _rolled(plant)
        trace = roll(commands, gains, seed, None if state is None else np.array(state, float),
                     noise)
        if key is not None:
            self._kept[key] = trace
            if len(self._kept) > self.KEPT:
                self._kept.popitem(last=False)
        return trace


def hello_text(plant: Plant) -> str:
    """`describe()` as JSON; what cannot be written is said here, not in the other process."""
    try:
        return json.dumps(plant.describe(), allow_nan=False)
    except ValueError as problem:
        raise ValueError(f"plant {plant.name}: its description is not finite ({problem})") from None
