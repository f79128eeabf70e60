# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: one readiness check, in the shape of ask and tell."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from preflight._library import WHY, Desk, PreflightError, array_at, library
from preflight._show import Column, Shown, Table
from preflight.kit import Kit, Path, Probe
from preflight.machine import Fault, Faults, Machine
from preflight.plant import Plant, real, vector, whole

# the structs of binding.h that are read after every call
_ASK = struct.Struct("@10id")
_AFTER = struct.Struct("@4i3d")
_READING = struct.Struct("@5i4x2d")
_ask, _tell = library.session_ask, library.session_tell
_PROBE, _DONE = 0, 1  # pf_ask_kind
_NEAREST = 4  # PF_PY_NEAREST
CONDITIONS = ("not-rehearsed", "unseen-loss")  # of a go-if

# columns of the tables of a readiness
TASKS = (Column("task", "name", "task"), Column("correction", "number", "correction"),
         Column("mean", "number", "return"), Column("sd", "number"),
         Column("lower", "number", "at least"), Column("rehearsed", "text", "rehearsed"),
         Column("decision", "verdict", "verdict"), Column("go", "flag"), Column("why", "text"),
         Column("reason", "text", "because"), Column("fallback", "name"))
MECHANISMS = (Column("mechanism", "name", "mechanism"),
              Column("p_changed", "number", "P(changed)"),
              Column("mean_gain", "number", "gain if changed"),
              Column("gain_lo", "number", "from"), Column("gain_hi", "number", "to"),
              Column("correction", "number", "correction"), Column("probed", "flag", "probed"))


def _bytes(address: int, size: int) -> ctypes.Array:
    return (ctypes.c_char * size).from_address(address)


class Rehearsal(NamedTuple):
    """The corrected command of one task, or of several at once, that the machine is to run before
    they are go."""

    tasks: Tuple[int, ...]
    names: Tuple[str, ...]
    rows: int
    command: Optional[np.ndarray]  # rows x mechanisms, corrected and within limits
    policy: Optional[str]  # instead of a command: the closed loop of the task
    correction: np.ndarray  # per mechanism: what a policy multiplies its commands by
    # of several tasks: (mechanism, gain) of each prediction in `edges` of a tell
    edges: Tuple[Tuple[int, float], ...]


class Ask:
    """What to do next: run a probe, run a rehearsal, or nothing more (`done`, `why`)."""

    __slots__ = ("gains", "probe", "rehearsal", "stage", "value", "why")

    def __init__(self, probe: Optional[Probe], stage: int, value: Optional[float],
                 why: Optional[str], gains: Optional[np.ndarray] = None,
                 rehearsal: Optional[Rehearsal] = None):
        self.probe = probe  # None when it is no probe
        self.rehearsal = rehearsal  # None when it is none
        self.stage = stage  # 1 look, 2 recover, 3 rehearse
        self.value = value  # per charge; None where the method has none
        self.why = why  # when done: ready, settled, unexplained, budget or no-alarm
        # in stage 2 with several faults: what all mechanisms but the target at hand have in its
        # predictions
        self.gains = gains

    @property
    def done(self) -> bool:
        return self.probe is None and self.rehearsal is None

    @property
    def kind(self) -> str:
        """"probe", "rehearsal" or "done"."""
        return "probe" if self.probe else "rehearsal" if self.rehearsal else "done"

    @property
    def name(self) -> str:
        """The probe, or the tasks that are rehearsed."""
        return self.probe.name if self.probe else "+".join(self._run().names)

    @property
    def command(self) -> np.ndarray:
        """rows x mechanisms to send to the machine."""
        run = self.probe or self._run()
        if run.command is None:
            raise AttributeError(f"{self.name} is the policy {run.policy}: run that" +
                                 ("" if self.probe else " with the correction of the rehearsal"))
        return run.command

    @property
    def tasks(self) -> Tuple[int, ...]:
        """The tasks of a rehearsal."""
        return self.rehearsal.tasks if self.rehearsal else ()

    @property
    def policy(self) -> Optional[str]:
        """The closed loop that a probe or rehearsal runs, if it has no command."""
        run = self.probe or self.rehearsal
        return run.policy if run else None

    @property
    def correction(self) -> Optional[np.ndarray]:
        """Per mechanism, of a rehearsal."""
        return self.rehearsal.correction if self.rehearsal else None

    def _run(self) -> Rehearsal:
        if self.rehearsal is None:
            raise AttributeError("the session is done: there is nothing to run")
        return self.rehearsal

    def __repr__(self) -> str:
        if self.done:
            return f"<Ask: done, {self.why}>"
        if self.probe is None:
            return f"<Ask: rehearsal {self.name}, stage {self.stage}>"
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
    joint and mean_gain in stage 2 only; tasks, passed and distance of a rehearsal, which changes
    no belief. misfit: above 1 the responses so far fit no machine of the model."""

    probe: int  # -1: a rehearsal
    stage: int
    targets: Tuple[Reading, ...]
    belief: np.ndarray
    change: float
    alarm: bool
    misfit: float
    joint: Optional[np.ndarray] = None
    mean_gain: Optional[np.ndarray] = None
    tasks: Tuple[int, ...] = ()
    passed: Optional[bool] = None
    distance: Optional[float] = None


class Readiness(Shown):
    """The verdict: `tasks` and `mechanisms` as `preflight check --json` has them. accept: the
    conditions under which go-if counts as go ("not-rehearsed", "unseen-loss")."""

    def __init__(self, data: Dict[str, Any], accept: Iterable[str] = (),
                 weakened: Iterable[str] = ()):
        self.data = data
        self.accepted = conditions(accept)
        self.alarm: bool = data["alarm"]
        self.explained: bool = data["explained"]  # the alarm
        self.charge: float = data["charge"]
        self.probes: int = data["probes"]
        self.rehearsals: int = data["rehearsals"]
        self.misfit: Dict[str, Any] = data["misfit"]
        self.tasks: List[Dict[str, Any]] = data["tasks"]
        self.mechanisms: List[Dict[str, Any]] = data["mechanisms"]
        self.weakened = tuple(weakened)  # settings of the kit that weaken the verdict, in words

    @property
    def go(self) -> bool:
        """Whether every task is go, or go-if with a condition that was accepted."""
        return all(self._goes(t) for t in self.tasks)

    def _goes(self, task: Dict[str, Any]) -> bool:
        return task["decision"] == "go" or (task["decision"] == "go-if"
                                            and task["why"] in self.accepted)

    def __getitem__(self, task: str) -> Dict[str, Any]:
        for entry in self.tasks:
            if entry["name"] == task:
                return entry
        raise KeyError(f"{task!r}; the tasks are {', '.join(t['name'] for t in self.tasks)}")

    def __str__(self) -> str:
        lines = [f"{'task':16} {'correction':>10} {'return':>9} {'at least':>9} {'rehearsed':>9}  "
                 "verdict"]
        for t in self.tasks:
            correction = " ".join(f"{c:.3f}" for c in t["correction"])
            numbers = " ".join("        -" if t[k] is None else f"{t[k]:9.3f}"
                               for k in ("mean", "lower"))
            reason = f" ({self._reason(t)})" if self._reason(t) else ""
            lines.append(f"{t['name']:16} {correction:>10} {numbers} {t['rehearsed']:>9}  "
                         f"{t['decision']}{reason}")
        return "\n".join(lines)

    def _facts(self) -> Dict[str, Any]:
        ready = sum(self._goes(t) for t in self.tasks)
        alarm = "no" if not self.alarm else "explained" if self.explained else "unexplained"
        return {"tasks go": f"{ready} of {len(self.tasks)}", "alarm": alarm,
                "misfit": f"{self.misfit['value']:.2f}", "probes": self.probes,
                "rehearsals": self.rehearsals, "charge": f"{self.charge:g}"}

    def _tables(self) -> Dict[str, Table]:
        corrections = {j: c for t in self.tasks for j, c in zip(t["mechanisms"], t["correction"])}
        # a task with several mechanisms: the correction that changes most
        tasks = [{**t, "task": t["name"], "go": self._goes(t),
                  "correction": max(t["correction"], key=lambda c: abs(c - 1), default=None),
                  "reason": self._reason(t)} for t in self.tasks]
        mechanisms = [{**m, "mechanism": m["name"], "gain_lo": m["interval"][0],
                       "gain_hi": m["interval"][1], "correction": corrections.get(m["mechanism"])}
                      for m in self.mechanisms]
        return {"tasks": Table(TASKS, tasks), "mechanisms": Table(MECHANISMS, mechanisms)}

    def _reason(self, task: Dict[str, Any]) -> str:
        if task["decision"] == "go":
            return ""
        text = task["why"]
        if "unseen" in task:
            text += ": unless a gain is between {:.2f} and {:.2f}".format(*task["unseen"])
        if self._goes(task):
            text += ", accepted"
        if task["decision"] == "no-go" and task["fallback"] != "uncorrected":
            text += f"; fallback: {task['fallback']}"
        return text

    def __repr__(self) -> str:
        ready = sum(self._goes(t) for t in self.tasks)
        return f"<Readiness: {ready} of {len(self.tasks)} tasks go, charge {self.charge:g}>"


def conditions(accept: Union[str, Iterable[str]]) -> Tuple[str, ...]:
    """The conditions of a go-if that are accepted."""
    words = (accept,) if isinstance(accept, str) else tuple(accept)
    for word in words:
        if word not in CONDITIONS:
            raise ValueError(f"accept: {word!r} is no condition; there are "
                             f"{' and '.join(CONDITIONS)}")
    return words


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
        m, grid, gains = len(kit.mechanisms) - 1, len(kit.grid), desk.n_gains
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
        self._nearest = array_at(desk.nearest, rows * n_chan)
        self._belief = array_at(desk.belief, m + 1)
        self._joint = array_at(desk.joint, m, gains)
        self._mean = array_at(desk.mean, m)
        self._gains = array_at(desk.gains, m + 1)
        self.grid = array_at(desk.joint_grid, gains).copy()  # gains of the joint belief
        matched = kit.info["statistic"] == "matched"
        many = kit.info["faults"] == "many"
        self._needs = {False: ("nominal", "fault") if matched else ("nominal",),
                       True: ("healthy", "grid") if many else ("nominal", "grid")}
        self._probes = kit.probes
        self._outstanding: Optional[Ask] = None
        self._per_gain = False

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
        """The next probe or rehearsal, or done. Asking again gives the same answer."""
        self._enter()
        try:
            _ask(self._handle)
            (kind, stage, probe, rows, has_value, has_gains, per_gain, n_tasks, has_command,
             n_edges, value) = _ASK.unpack_from(self._asked)
            if kind == _DONE:
                self._outstanding = None
                return Ask(None, stage, None, self._desk.ask.contents.why.decode("ascii"))
            self._per_gain = per_gain != 0
            if kind == _PROBE:
                ask = Ask(self._probes[probe], stage, value if has_value else None, None,
                          self._gains.copy() if has_gains else None)
            else:
                ask = Ask(None, stage, None, None, None,
                          self._rehearsal(rows, n_tasks, has_command, n_edges))
            self._outstanding = ask
            return ask
        finally:
            self._lock.release()

    def _rehearsal(self, rows: int, n_tasks: int, has_command: int, n_edges: int) -> Rehearsal:
        """What lies on the desk after an ask."""
        desk, kit = self._desk, self.kit
        n_mech = len(kit.mechanisms)
        tasks = tuple(desk.tasks[:n_tasks])
        command = array_at(desk.command, rows, n_mech).copy() if has_command else None
        edges = array_at(desk.edges, n_edges, 2) if n_edges else ()
        return Rehearsal(tasks, tuple(kit.tasks[t] for t in tasks), rows, command,
                         None if has_command else kit.info["tasks"][tasks[0]]["policy"],
                         array_at(desk.correction, n_mech).copy(),
                         tuple((int(j), float(gain)) for j, gain in edges))

    def __iter__(self) -> Iterator[Ask]:
        """Asks until the session is done; tell each before the next."""
        while True:
            told = len(self.history)
            ask = self.ask()
            if ask.done:
                return
            yield ask
            if len(self.history) == told:
                again = self.ask()
                if again.probe is ask.probe and again.tasks == ask.tasks and not again.done:
                    raise RuntimeError(f"{ask!r} was neither told nor skipped")

    def tell(self, response: Any, *, probe: Optional[int] = None,
             rehearsal: Optional[Iterable[int]] = None, state: Any = None, nominal: Any = None,
             fault: Any = None, grid: Any = None, healthy: Any = None, nearest: Any = None,
             free: Any = None, edges: Any = None) -> Told:
        """The response of the outstanding probe or rehearsal: rows x channels, raw units. `probe`
        or `rehearsal` (its tasks) may say what was run; something else than was asked for is
        refused.

        With a twin or a model give `state`, the start that was saved before the run, or your own
        predictions, each rows x channels: nominal (gain 1) and fault (per target, at g_cal);
        nearest, if you like: at the likeliest gains. Kits without the joint posterior need in
        stage 2 grid (per target and gain of the grid) instead of fault, and those for several
        faults healthy (per target, at gain 1) in place of nominal; in both healthy and grid the
        other mechanisms have the `gains` of the ask.

        Of a rehearsal predict nominal, the uncorrected command on the healthy machine, and free,
        no command at all; of several tasks instead of free edges, the uncorrected command with one
        mechanism at a gain, for each of `ask.rehearsal.edges`. A caller who cannot predict those
        skips: each task is then asked for alone. A refused call changes nothing.
        """
        self._enter()
        try:
            asked = self._outstanding
            if asked is None:
                raise PreflightError("wrong-probe", "tell: nothing is outstanding; ask first")
            if probe is not None and rehearsal is not None:
                raise ValueError("rehearsal: give either a probe or a rehearsal")
            window = self._window(asked)
            array = real(response, "response")
            if array.shape != window.shape:
                raise ValueError(f"response: shape {array.shape}, expected {window.shape}")
            given = {"nominal": nominal, "fault": fault, "grid": grid, "healthy": healthy,
                     "nearest": nearest, "free": free, "edges": edges}
            source = 0
            if not self._predicts:
                source = self._predictions(asked, state, given)
            elif state is not None or any(value is not None for value in given.values()):
                raise ValueError("this kit predicts from its own recordings; give no state or "
                                 "predictions")
            window[...] = array  # the core refuses what is not finite
            if rehearsal is not None or (probe is None and asked.probe is None):
                self._tell_rehearsal(asked.tasks if rehearsal is None else rehearsal, source)
            else:
                told = asked.probe.index if probe is None and asked.probe else probe
                status = _tell(self._handle, told, source, self._why)
                if status:
                    library.fail(status, self._why)
            return self._taken(asked)
        finally:
            self._lock.release()

    def _tell_rehearsal(self, tasks: Iterable[int], source: int) -> None:
        told = [whole(task, 2**31, "rehearsal") for task in tasks]
        self._check(library.session_tell_rehearsal(
            self._handle, (ctypes.c_int32 * len(told))(*told), len(told), source, self._why))

    def _window(self, asked: Ask) -> np.ndarray:
        """Where its response goes on the desk."""
        if asked.probe is not None:
            return self._windows[asked.probe.index]
        return array_at(self._desk.response, asked._run().rows, len(self.kit.channels))

    def _taken(self, asked: Ask) -> Told:
        self._outstanding = None
        told = self._told(asked)
        self.history.append(told)
        return told

    def _told(self, asked: Ask) -> Told:
        n, alarm, passed, _, change, misfit, distance = _AFTER.unpack_from(self._after)
        if asked.stage == 1 and asked.probe is not None:
            targets = tuple([_reading(_READING.unpack_from(self._readings, i * _READING.size))
                             for i in range(n)])
            return tuple.__new__(Told, (asked.probe.index, 1, targets, self._belief.copy(), change,
                                        alarm != 0, misfit, None, None, (), None, None))
        if asked.probe is None:
            return Told(-1, asked.stage, (), self._belief.copy(), change, alarm != 0, misfit,
                        tasks=asked.tasks, passed=passed != 0, distance=distance)
        return Told(asked.probe.index, asked.stage, (), self._belief.copy(), change, alarm != 0,
                    misfit, self._joint.copy(), self._mean.copy())

    def _predictions(self, asked: Ask, state: Any, given: Dict[str, Any]) -> int:
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
        if asked.probe is None:
            return self._predicted_run(asked._run(), given)
        needs = self._needs[self._per_gain]
        if any(given[name] is None for name in needs):
            raise PreflightError("missing-prediction", f"stage {asked.stage} of this kit needs "
                                 f"{' and '.join(needs)} predictions")
        rows, n_chan = self._window(asked).shape
        n = len(asked.probe.targets)
        shapes = {"nominal": (rows, n_chan), "fault": (n, rows, n_chan), "nearest": (rows, n_chan),
                  "healthy": (n, rows, n_chan), "grid": (n, len(self.kit.grid), rows, n_chan)}
        # healthy lies where stage 1 has fault
        desk = {"nominal": self._nominal, "fault": self._fault, "healthy": self._fault,
                "grid": self._grid, "nearest": self._nearest}
        for name, prediction in given.items():
            if prediction is not None and name not in shapes:
                raise ValueError(f"{name}: is of a rehearsal, and a probe was asked for")
            if prediction is not None:
                values = _stack(prediction, shapes[name], name)
                if name in needs or name == "nearest":
                    desk[name][: len(values)] = values
        return 2 + (0 if given["nearest"] is None else _NEAREST)

    def _predicted_run(self, run: Rehearsal, given: Dict[str, Any]) -> int:
        """The same for a rehearsal: one run after the other."""
        shape = (run.rows, len(self.kit.channels))
        other, shapes = ("edges", (len(run.edges), *shape)) if run.edges else ("free", shape)
        if given["nominal"] is None or given[other] is None:
            raise PreflightError("missing-prediction", f"a rehearsal of {len(run.tasks)} "
                                 f"{'tasks' if run.edges else 'task'} needs nominal and {other} "
                                 "predictions")
        for name, prediction in given.items():
            if prediction is not None and name not in ("nominal", other):
                raise ValueError(f"{name}: this rehearsal needs nominal and {other} alone")
        values = np.concatenate([_stack(given["nominal"], shape, "nominal"),
                                 _stack(given[other], shapes, other)])
        array_at(self._desk.runs, len(values))[...] = values
        return 2

    def _use_twin(self, given: Optional[Machine] = None) -> None:
        if self._twin_ready or self._predicts:
            return
        if self.kit.predictor != "twin":
            raise PreflightError("missing-prediction", "the kit predicts with a learned model; "
                                 "give its file as model")
        if self._machine is None:
            self._machine = self.kit.own_machine(given)
        self._check(library.session_twin(self._handle, self._machine.handle, self._why))
        self._twin_ready = True

    def skip(self) -> None:
        """Gives up the outstanding probe, which the machine cannot run: no charge, the opportunity
        counts, and it is not asked again. Of a rehearsal of several tasks each is then asked for
        alone; a task that is given up alone stays not rehearsed."""
        self._check(library.session_skip(self._handle, self._why))
        self._outstanding = None

    def stage2(self) -> None:
        """Ends stage 1 now and withdraws an outstanding probe."""
        self._check(library.session_stage2(self._handle, self._why))
        self._outstanding = None

    def reset(self) -> None:
        """A fresh session on the same kit."""
        library.session_reset(self._handle)
        self._outstanding = None
        self.history = []

    # --- what is known

    def readiness(self, accept: Iterable[str] = ()) -> Readiness:
        """Answers as if the session ended now, and changes nothing. accept: conditions under which
        go-if counts as go."""
        return Readiness(library.json(library.session_readiness(self._handle)), accept,
                         (w["words"] for w in self.kit.info["weakened"]))

    def joint(self) -> Tuple[float, np.ndarray]:
        """The joint belief: the probability that nothing changed, and candidates x gains; the
        gains are `grid`."""
        nominal = library.session_joint(self._handle)
        return nominal, self._joint.copy()

    @property
    def stage(self) -> int:
        """1 look, 2 recover, 3 rehearse, 4 done."""
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
        machine = None if plant is None else Machine.of(plant)
        if not self._predicts and not self._twin_ready:
            self._use_twin(machine)
        machine = machine or self._machine
        if machine is None:
            if self._predicts:
                raise ValueError("the kit was calibrated from recordings and names no plant to "
                                 "run; give plant")
            machine = self.kit.own_machine()
        faults = Faults(machine, fault, self.kit)
        taken = {1: 0, 2: 0, 3: 0}
        ask = self.ask()
        while not ask.done:
            self._check(library.session_run(self._handle, machine.handle, faults.handle, seed,
                                            taken[ask.stage], self._why))
            taken[ask.stage] += 1
            self._tell_desk(ask)
            ask = self.ask()
        return self

    def _tell_desk(self, asked: Ask) -> None:
        """Tells the response that `session_run` left on the desk."""
        source = 0 if self._predicts else 1
        if asked.probe is None:
            self._tell_rehearsal(asked.tasks, source)
        else:
            self._check(library.session_tell(self._handle, asked.probe.index, source, self._why))
        self._taken(asked)


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
