# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: one readiness check, in the shape of ask and tell."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from preflight._library import WHY, Desk, PreflightError, array_at, library
from preflight.kit import Kit, Path, Probe
from preflight.machine import Fault, Faults, Machine
from preflight.plant import Plant, real, vector, whole

# the structs of binding.h that are read after every call
_ASK = struct.Struct("@6id")
_AFTER = struct.Struct("@2id")
_READING = struct.Struct("@5i4x2d")
_ask, _tell = library.session_ask, library.session_tell


def _bytes(address: int, size: int) -> ctypes.Array:
    return (ctypes.c_char * size).from_address(address)


class Ask:
    """What to do next: run a probe, or nothing more (`done`, `why`)."""

    __slots__ = ("gains", "probe", "stage", "value", "why")

    def __init__(self, probe: Optional[Probe], stage: int, value: Optional[float],
                 why: Optional[str], gains: Optional[np.ndarray] = None):
        self.probe = probe  # None when done
        self.stage = stage  # 1 or 2
        self.value = value  # per charge; None where the method has none
        self.why = why  # when done: ready, budget or no-alarm
        # in stage 2 with several faults: what all mechanisms but the target at hand have in its
        # predictions
        self.gains = gains

    @property
    def done(self) -> bool:
        return self.probe is None

    @property
    def command(self) -> np.ndarray:
        """rows x mechanisms to send to the machine."""
        if self.probe is None:
            raise AttributeError("the session is done: there is no command")
        return self.probe.command

    def __repr__(self) -> str:
        if self.probe is None:
            return f"<Ask: done, {self.why}>"
        return f"<Ask: probe {self.probe.index} {self.probe.name}, stage {self.stage}>"


class Reading(NamedTuple):
    """What stage 1 read from a response about one target."""

    mechanism: int
    score: Optional[float]
    category: Optional[int]
    coordinate: Optional[float]
    gate: bool
    plausible: bool


class Told(NamedTuple):
    """What a response taught. belief: probability of "nothing changed" and of each candidate;
    joint and mean_gain in stage 2 only."""

    probe: int
    stage: int
    targets: Tuple[Reading, ...]
    belief: np.ndarray
    change: float
    alarm: bool
    joint: Optional[np.ndarray] = None
    mean_gain: Optional[np.ndarray] = None


class Readiness:
    """The verdict: `tasks` and `mechanisms` as `preflight check --json` has them."""

    def __init__(self, data: Dict[str, Any]):
        self.data = data
        self.alarm: bool = data["alarm"]
        self.charge: float = data["charge"]
        self.tasks: List[Dict[str, Any]] = data["tasks"]
        self.mechanisms: List[Dict[str, Any]] = data["mechanisms"]

    @property
    def go(self) -> bool:
        """Whether every task is go."""
        return all(t["decision"] == "go" for t in self.tasks)

    def __getitem__(self, task: str) -> Dict[str, Any]:
        for entry in self.tasks:
            if entry["name"] == task:
                return entry
        raise KeyError(f"{task!r}; the tasks are {', '.join(t['name'] for t in self.tasks)}")

    def __str__(self) -> str:
        lines = [f"{'task':16} {'correction':>10} {'return':>9} {'at least':>9}  verdict"]
        for t in self.tasks:
            correction = " ".join(f"{c:.3f}" for c in t["correction"])
            numbers = " ".join("        -" if t[k] is None else f"{t[k]:9.3f}"
                               for k in ("mean", "lower"))
            why = "" if t["decision"] == "go" else f" ({t['why']})"
            lines.append(f"{t['name']:16} {correction:>10} {numbers}  {t['decision']}{why}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        ready = sum(t["decision"] == "go" for t in self.tasks)
        return f"<Readiness: {ready} of {len(self.tasks)} tasks go, charge {self.charge:g}>"


class Session:
    """One readiness check on a kit, used by one thread at a time.

    What predicts: with a kit from recordings the kit itself; else `plant`, by default the one the
    kit was calibrated on, or `model`, the file of the learned model it was calibrated with; or
    the caller, who then tells predictions.

    >>> from preflight import Kit
    >>> kit = Kit.calibrate("attitude", episodes=60)
    >>> session = Session(kit, seed=1)
    >>> machine = Machine("attitude")
    >>> for ask in session:
    ...     trace = machine.roll(ask.command, key=len(session.history), noise=True)
    ...     told = session.tell(trace.output, state=trace.start)
    >>> session.ask()
    <Ask: done, ready>
    >>> session.readiness()["thruster3"]["decision"]
    'go'
    """

    def __init__(self, kit: Kit, *, method: Optional[str] = None, seed: int = 0,
                 plant: Union[str, Plant, Machine, None] = None, model: Optional[Path] = None):
        self._handle: Optional[int] = None
        self.kit = kit
        self._why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        name = None if method is None else method.encode()
        seed = whole(seed, 2**64, "seed")
        self._check(library.session_open(ctypes.byref(handle), kit._handle, name, seed, self._why))
        self._handle = handle.value
        self._lock = threading.Lock()
        self._machine = None if plant is None else Machine.of(plant)
        self._predicts = kit.predictor == "recordings"
        self._twin_ready = False
        if model is not None:
            self._check(library.session_model(self._handle, os.fsencode(model), self._why))
            self._twin_ready = True
        elif self._machine is not None and kit.predictor == "twin":
            self._use_twin()
        self._lay_desk()
        self.history: List[Told] = []  # everything told, in order

    def _lay_desk(self) -> None:
        kit = self.kit
        desk = library.session_desk(self._handle).contents
        rows, n_chan = max(p.rows for p in kit.probes), len(kit.channels)
        targets = max(len(p.targets) for p in kit.probes)
        m, grid = len(kit.mechanisms) - 1, len(kit.grid)
        self._desk = desk
        # what is read after every call comes as one piece
        self._asked = _bytes(ctypes.addressof(desk.ask.contents), _ASK.size)
        self._after = _bytes(ctypes.addressof(desk) + Desk.n_readings.offset, _AFTER.size)
        self._readings = _bytes(ctypes.addressof(desk.reading.contents), targets * _READING.size)
        self._response = array_at(desk.response, rows * n_chan)
        self._windows = [self._response[: p.rows * n_chan].reshape(p.rows, n_chan)
                         for p in kit.probes]
        self._start = array_at(desk.start, kit.state_size)
        self._nominal = array_at(desk.nominal, rows * n_chan)
        self._fault = array_at(desk.fault, targets * rows * n_chan)
        self._grid = array_at(desk.grid, targets * grid * rows * n_chan)
        self._belief = array_at(desk.belief, m + 1)
        self._joint = array_at(desk.joint, m, grid)
        self._mean = array_at(desk.mean, m)
        self._gains = array_at(desk.gains, m + 1)
        self._needs = {1: ("nominal", "fault") if kit.info["statistic"] == "matched" else
                       ("nominal",),
                       2: ("healthy", "grid") if kit.info["faults"] == "many" else
                       ("nominal", "grid")}
        self._probes = kit.probes
        self._outstanding = -1
        self._stage = 1

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library.session_close(self._handle)
            self._handle = None

    def _check(self, status: int) -> None:
        if status:
            library.fail(status, self._why)

    def _enter(self) -> None:
        if not self._lock.acquire(False):
            raise RuntimeError("a session belongs to one thread at a time; give each its own")

    # --- ask and tell

    def ask(self) -> Ask:
        """The next probe, or done. Asking again gives the same answer."""
        self._enter()
        try:
            _ask(self._handle)
            done, stage, probe, _, has_value, has_gains, value = _ASK.unpack_from(self._asked)
            if done:
                self._outstanding = -1
                return Ask(None, stage, None, self._desk.ask.contents.why.decode("ascii"))
            self._outstanding, self._stage = probe, stage
            return Ask(self._probes[probe], stage, value if has_value else None, None,
                       self._gains.copy() if has_gains else None)
        finally:
            self._lock.release()

    def __iter__(self) -> Iterator[Ask]:
        """Asks until the session is done; tell each before the next."""
        while True:
            told = len(self.history)
            ask = self.ask()
            if ask.done:
                return
            yield ask
            if len(self.history) == told and self.ask().probe is ask.probe:
                raise RuntimeError(f"{ask!r} was neither told nor skipped")

    def tell(self, response: Any, *, probe: Optional[int] = None, state: Any = None,
             nominal: Any = None, fault: Any = None, grid: Any = None,
             healthy: Any = None) -> Told:
        """The response of the outstanding probe: rows x channels, raw units.

        With a twin or a model give `state`, the start that was saved before the probe, or your own
        predictions, each rows x channels: nominal (gain 1) and in stage 1 fault (per target, at
        g_cal), in stage 2 grid (per target and gain of the grid). With a kit for several faults
        stage 2 needs healthy (per target, at gain 1) in place of nominal, and in both healthy and
        grid the other mechanisms have the `gains` of the ask. A refused call changes nothing.
        """
        self._enter()
        try:
            asked = self._outstanding
            if asked < 0:
                raise PreflightError("wrong-probe", "probe: no probe is outstanding; ask first")
            window = self._windows[asked]
            array = real(response, "response")
            if array.shape != window.shape:
                raise ValueError(f"response: shape {array.shape}, expected {window.shape}")
            window[...] = array  # the core refuses what is not finite
            source = 0
            if not self._predicts:
                source = self._predictions(asked, state, {"nominal": nominal, "fault": fault,
                                                          "grid": grid, "healthy": healthy})
            elif not (state is None and nominal is None and fault is None and grid is None
                      and healthy is None):
                raise ValueError("this kit predicts from its own recordings; give no state or "
                                 "predictions")
            status = _tell(self._handle, asked if probe is None else probe, source, self._why)
            if status:
                library.fail(status, self._why)
            self._outstanding = -1
            told = self._told(asked)
            self.history.append(told)
            return told
        finally:
            self._lock.release()

    def _told(self, probe: int) -> Told:
        n, alarm, change = _AFTER.unpack_from(self._after)
        if self._stage == 1:
            targets = tuple([_reading(_READING.unpack_from(self._readings, i * _READING.size))
                             for i in range(n)])
            return tuple.__new__(Told, (probe, 1, targets, self._belief.copy(), change, alarm != 0,
                                        None, None))
        return Told(probe, 2, (), self._belief.copy(), change, alarm != 0, self._joint.copy(),
                    self._mean.copy())

    def _predictions(self, probe: int, state: Any, given: Dict[str, Any]) -> int:
        """Lays what the caller gave on the desk and says what it is."""
        own = any(prediction is not None for prediction in given.values())
        if state is not None and own:
            raise ValueError("state: give either the start state or predictions")
        if state is None and not own:
            raise PreflightError("missing-prediction",
                                 "state: give the saved start state, or nominal and fault "
                                 "predictions")
        if state is not None:
            self._start[...] = vector(state, len(self._start), "state")
            self._use_twin()
            return 1
        needs = self._needs[self._stage]
        if any(given[name] is None for name in needs):
            raise PreflightError("missing-prediction", f"stage {self._stage} of this kit needs "
                                 f"{' and '.join(needs)} predictions")
        rows, n_chan = self._windows[probe].shape
        n = len(self._probes[probe].targets)
        shapes = {"nominal": (rows, n_chan), "fault": (n, rows, n_chan),
                  "healthy": (n, rows, n_chan), "grid": (n, len(self.kit.grid), rows, n_chan)}
        # healthy lies where stage 1 has fault
        desk = {"nominal": self._nominal, "fault": self._fault, "healthy": self._fault,
                "grid": self._grid}
        for name, prediction in given.items():
            if prediction is not None:
                values = _stack(prediction, shapes[name], name)
                if name in needs:
                    desk[name][: len(values)] = values
        return 2

    def _use_twin(self) -> None:
        if self._twin_ready or self._predicts:
            return
        if self.kit.predictor != "twin":
            raise PreflightError("missing-prediction", "the kit predicts with a learned model; "
                                 "give its file as model")
        if self._machine is None:
            self._machine = self.kit._machine or Machine(self.kit.plant)
        self._check(library.session_twin(self._handle, self._machine.handle, self._why))
        self._twin_ready = True

    def skip(self) -> None:
        """Gives up the outstanding probe, which the machine cannot run: no charge, the opportunity
        counts, and it is not asked again."""
        self._check(library.session_skip(self._handle, self._why))
        self._outstanding = -1

    def stage2(self) -> None:
        """Ends stage 1 now and withdraws an outstanding probe."""
        self._check(library.session_stage2(self._handle, self._why))
        self._outstanding = -1

    def reset(self) -> None:
        """A fresh session on the same kit."""
        library.session_reset(self._handle)
        self._outstanding = -1
        self.history = []

    # --- what is known

    def readiness(self) -> Readiness:
        """Answers as if the session ended now, and changes nothing."""
        return Readiness(library.json(library.session_readiness(self._handle)))

    def joint(self) -> Tuple[float, np.ndarray]:
        """The joint belief: the probability that nothing changed, and candidates x gains."""
        nominal = library.session_joint(self._handle)
        return nominal, self._joint.copy()

    @property
    def stage(self) -> int:
        """1, 2, or 3 when done."""
        return library.session_stage(self._handle)

    @property
    def charge(self) -> float:
        return library.session_charge(self._handle)

    @property
    def threshold(self) -> float:
        """The alarm fires where P(something changed) exceeds it."""
        return library.session_threshold(self._handle)

    # --- a simulated machine

    def run(self, plant: Union[str, Plant, Machine, None] = None, *,
            fault: Fault = None, seed: int = 0) -> Session:
        """Drives the session on a simulated machine to its end, with the random draws of
        `preflight check --seed`. plant: the machine, by default the kit's own plant. fault: what
        is wrong with it, as `Kit.check` takes it."""
        seed = whole(seed, 2**64, "seed")
        if not self._predicts and not self._twin_ready:
            self._use_twin()
        machine = Machine.of(plant) if plant is not None else self._machine
        if machine is None:
            if self._predicts:
                raise ValueError("the kit was calibrated from recordings and names no plant to "
                                 "run; give plant")
            machine = self.kit._machine or Machine(self.kit.plant)
        faults = Faults(machine, fault, self.kit._handle)
        taken = {1: 0, 2: 0}
        while not self.ask().done:
            stage = self._stage
            self._check(library.session_run(self._handle, machine.handle, faults.handle, seed,
                                            taken[stage], self._why))
            taken[stage] += 1
            self._tell_desk()
        return self

    def _tell_desk(self) -> None:
        """Tells the response that `session_run` left on the desk."""
        asked = self._outstanding
        self._check(library.session_tell(self._handle, asked, 0 if self._predicts else 1,
                                         self._why))
        self._outstanding = -1
        self.history.append(self._told(asked))


def _reading(r: tuple) -> Reading:
    mechanism, usable, category, gate, plausible, score, coordinate = r
    if not usable:
        score = category = coordinate = None
    elif coordinate != coordinate:  # NaN: the statistic has none
        coordinate = None
    return tuple.__new__(Reading, (mechanism, score, category, coordinate, gate != 0,
                                   plausible != 0))


def _stack(values: Any, shape: Tuple[int, ...], what: str) -> np.ndarray:
    array = real(values, what)
    if array.shape != shape:
        raise ValueError(f"{what}: shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what}: holds a number that is not finite")
    return array.ravel()
