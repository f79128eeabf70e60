# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Kits: everything calibrated offline and fixed before use."""

from __future__ import annotations

import ctypes
import functools
import json
import math
import operator
import os
import warnings
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from preflight._library import PROGRESS, WHY, Plan, PreflightError, interruptible, library
from preflight._show import Column, Shown, Table
from preflight.machine import Fault, Machine
from preflight.plant import Plant, whole
from preflight.progress import Progress, Report, finish, reporter

Path = Union[str, "os.PathLike[str]"]
Config = Union[None, Path, Mapping[str, Any]]

# columns of the tables of a kit
PROBES = (Column("probe", "name", "probe"), Column("mechanism", "name", "mechanism"),
          Column("rows", "whole", "rows"), Column("charge", "number", "charge"),
          Column("separation", "number", "separation, sd"))
TASKS = (Column("task", "name", "task"), Column("mechanisms", "names", "uses"),
         Column("reveal", "number", "reveal"), Column("importance", "number", "importance"),
         Column("rehearsals", "whole", "rehearsals"), Column("fallback", "name"))
MECHANISMS = (Column("mechanism", "name"), Column("candidate", "flag"), Column("lo", "number"),
              Column("hi", "number"), Column("prior", "number"))
CHANNELS = (Column("channel", "name"), Column("scale", "number"))


class Probe(NamedTuple):
    """A probe of a kit: `command` is rows x mechanisms, `targets` the mechanisms it excites."""

    index: int
    name: str
    command: Optional[np.ndarray]  # None: the closed loop `policy` of the plant is the probe
    targets: Tuple[int, ...]
    charge: float
    rows: int
    policy: Optional[str] = None


class Kit(Shown):
    """A calibrated kit, read-only; any number of sessions and threads may share one.

    >>> kit = Kit.calibrate("attitude", episodes=60)
    >>> kit.plant, kit.predictor, len(kit.probes)
    ('attitude', 'twin', 10)
    >>> kit.probes[0].name, len(kit.probes[0].targets), kit.probes[5].name, kit.probes[5].targets
    ('group_1', 2, 'thruster3', (3,))
    >>> kit.check(fault={"thruster3": 0.35}, seed=7).go
    True
    """

    def __init__(self, data: bytes, allow_exec: bool = False):
        self._data = bytes(data)
        self._allow_exec = allow_exec
        why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        self._handle: Optional[int] = None
        status = library.kit_open(ctypes.byref(handle), self._data, len(self._data), why)
        if status:
            library.fail(status, why)
        self._handle = handle.value
        self._machine: Optional[Machine] = None  # the plant object it was calibrated on

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library.kit_close(self._handle)
            self._handle = None

    # --- where kits come from

    @classmethod
    def load(cls, path: Path, *, allow_exec: bool = False) -> Kit:
        """A kit file, as `preflight calibrate -o` or `save` wrote it. allow_exec: runs the program
        that the kit names (`exec:COMMAND`); without it, give that plant to `check`."""
        with open(path, "rb") as file:
            return cls(file.read(), allow_exec)

    @classmethod
    def calibrate(cls, plant: Union[str, Plant, Machine], *, config: Config = None,
                  method: Optional[str] = None, seed: Optional[int] = None,
                  threads: Optional[int] = None, model: Optional[Path] = None,
                  probes: Union[Path, Sequence[Mapping[str, Any]], None] = None,
                  progress: Progress = None, **settings: Any) -> Kit:
        """Calibrates a kit, as `preflight calibrate` does and to the same bytes.

        plant: a name ("attitude", "gym:BipedalWalker-v3", "exec:./rig"), or a `Plant`, which runs
        in this process and on one thread. config: a YAML file or a mapping with the same keys;
        `settings` are such keys by name (episodes=100, sensor_noise=.25, faults="many"). model: a
        learned model that predicts in place of a copy of the plant. probes: "designed" (group
        probes, designed on what predicts), "single" (one pulse per candidate), a library file
        (`preflight design`) or a list as in a configuration; by default those that the
        configuration lists, else designed ones where the method can read them. progress: a
        function of (what, done, total), or True for bars of tqdm (plain lines without it); what it
        raises stops the calibration.
        """
        report = reporter(progress)
        machine = Machine.of(plant)
        if probes is not None and not isinstance(probes, (str, os.PathLike)):
            settings["probes"], probes = probes, None
        plan, keep = _plan(config, settings, method, seed, model, probes)
        plan.threads = 1 if machine.in_process else threads or 0
        kit = cls(_work(plan, functools.partial(library.calibrate, machine.handle), report))
        del keep
        kit._allow_exec = True  # the caller named the plant
        if machine.in_process:
            kit._machine = machine
        kit._warn_unprobed()
        return kit

    @classmethod
    def from_recordings(cls, recordings: Path, *, config: Config = None,
                        method: Optional[str] = None, seed: Optional[int] = None,
                        threads: Optional[int] = None, progress: Progress = None,
                        **settings: Any) -> Kit:
        """A kit from logged responses of the machine itself, without any simulator
        (`preflight calibrate --recordings`); the file's columns are in docs/formats.md.
        progress: as `calibrate` takes it."""
        report = reporter(progress)
        with open(recordings, "rb") as file:
            csv = file.read()
        plan, keep = _plan(config, settings, method, seed)
        if plan.config is None and (method is not None or seed is not None):
            raise ValueError("method and seed need config or settings with recordings")
        plan.threads = threads or 0
        name = os.fsencode(recordings)
        kit = cls(_work(plan, functools.partial(library.recordings, name, csv, len(csv)), report))
        del keep
        return kit

    def save(self, path: Path) -> None:
        """Writes the kit file, whole or not at all."""
        why = ctypes.create_string_buffer(WHY)
        name = os.fsencode(os.path.abspath(path))
        status = library.kit_save(name, self._data, len(self._data), why)
        if status:
            library.fail(status, why)

    def __bytes__(self) -> bytes:
        return self._data

    def __reduce__(self) -> tuple:
        return Kit, (self._data, self._allow_exec)

    # --- what it holds

    @functools.cached_property
    def info(self) -> Dict[str, Any]:
        """Everything, as `preflight kit show --json` prints it."""
        return library.json(library.kit_json(self._handle))

    @property
    def sha256(self) -> str:
        return self.info["sha256"]

    @property
    def plant(self) -> str:
        return self.info["plant"]

    @property
    def predictor(self) -> str:
        """What predicts: "twin", "ensemble" or "recordings"."""
        return self.info["predictor"]

    @functools.cached_property
    def mechanisms(self) -> Tuple[str, ...]:
        """Names, the current one first."""
        return tuple(m["name"] for m in self.info["mechanisms"])

    @functools.cached_property
    def channels(self) -> Tuple[str, ...]:
        return tuple(c["name"] for c in self.info["channels"])

    @functools.cached_property
    def tasks(self) -> Tuple[str, ...]:
        return tuple(t["name"] for t in self.info["tasks"])

    @functools.cached_property
    def grid(self) -> np.ndarray:
        """The gains that are told apart."""
        return _frozen(self.info["grid"])

    @functools.cached_property
    def probes(self) -> Tuple[Probe, ...]:
        return tuple(Probe(i, p["name"], _frozen(p["command"]) if "command" in p else None,
                           tuple(t["mechanism"] for t in p["targets"]), p["charge"], p["rows"],
                           p.get("policy"))
                     for i, p in enumerate(self.info["probes"]))

    @property
    def state_size(self) -> int:
        """Numbers that a prediction starts from; 0: it needs none."""
        return self.info["state_size"]

    def own_machine(self, given: Optional[Machine] = None) -> Machine:
        """The plant that the kit was made on. A plant of a program in Python is the one that it was
        calibrated on or, for a kit from a file, `given`."""
        if self._machine is not None:
            return self._machine
        if given is not None and given.in_process and given.name == self.plant:
            return given
        if self.plant.startswith("python:"):
            other = "" if given is None else f", which is not {given.name}"
            raise ValueError(f"the kit was calibrated on {self.plant}{other}: a plant of a program "
                             "in Python; give it as plant")
        named = given is not None and given.name == self.plant
        if library.plant_runs_code(self.plant.encode()) and not self._allow_exec:
            if not named:
                raise PreflightError("mismatch", "the kit names a program, which was not run: "
                                     f"{self.plant!r}. To run it, load the kit with "
                                     "allow_exec=True, or give the same words as plant")
            return Machine(self.plant)  # not in a folder that the kit names
        return Machine(self.plant, folder=self.info.get("folder", ""))

    def _warn_unprobed(self) -> None:
        probed = {j for p in self.probes for j in p.targets}
        for j, name in enumerate(self.mechanisms):
            if j > 0 and j not in probed and self.info["require_probe"]:
                warnings.warn(f"no probe has {name!r} for a target: tasks that use it stay no-go",
                              stacklevel=3)

    def mechanism_index(self, mechanism: Union[int, str]) -> int:
        """The index of a mechanism given by index or name."""
        if isinstance(mechanism, str):
            if mechanism not in self.mechanisms:
                raise ValueError(f"mechanism {mechanism!r} is unknown; the kit has "
                                 f"{', '.join(self.mechanisms)}")
            return self.mechanisms.index(mechanism)
        if operator.index(mechanism) not in range(len(self.mechanisms)):
            raise ValueError(f"mechanism {mechanism} is not in 0..{len(self.mechanisms) - 1}")
        return operator.index(mechanism)

    def __repr__(self) -> str:
        return (f"<Kit {self.plant}: {self.predictor}, {len(self.probes)} probes, "
                f"{len(self.tasks)} tasks, {self.sha256[:12]}>")

    # --- how it is shown

    _hidden = ("mechanisms", "channels")

    def _facts(self) -> Dict[str, Any]:
        info = self.info
        return {"plant": self.plant, "predictor": self.predictor,
                "candidates": len(self.mechanisms) - 1, "channels": len(self.channels),
                "alpha": info["alpha"], "j_min": info["j_min"], "sha256": self.sha256[:12]}

    def _tables(self) -> Dict[str, Table]:
        info, names = self.info, self.mechanisms
        probes = [{**p, "probe": p["name"], "mechanism": names[t["mechanism"]],
                   "separation": 1 / t["sigma"] if t["sigma"] > 0 else math.inf}
                  for p in info["probes"] for t in p["targets"]]
        tasks = [{**t, "task": t["name"], "mechanisms": tuple(names[j] for j in t["mechanisms"])}
                 for t in info["tasks"]]
        mechanisms = [{"mechanism": m["name"], "candidate": j > 0,
                       "prior": info["prior"][j] if j else 0.0,  # entry 0 is "nothing changed"
                       "lo": -math.inf if m["lo"] is None else m["lo"],
                       "hi": math.inf if m["hi"] is None else m["hi"]}
                      for j, m in enumerate(info["mechanisms"])]
        channels = [{"channel": c["name"], "scale": c["scale"]} for c in info["channels"]]
        return {"probes": Table(PROBES, probes), "tasks": Table(TASKS, tasks),
                "mechanisms": Table(MECHANISMS, mechanisms), "channels": Table(CHANNELS, channels)}

    # --- what it is for

    def session(self, **options: Any) -> Any:
        """A `Session` on this kit."""
        from preflight.session import Session
        return Session(self, **options)

    def check(self, plant: Union[str, Plant, Machine, None] = None, *,
              fault: Fault = None, seed: int = 0, method: Optional[str] = None,
              model: Optional[Path] = None, accept: Iterable[str] = ()) -> Any:
        """One readiness check of a simulated machine, as `preflight check` does it. fault: what is
        wrong with it (docs/faults.md). {"thruster3": .35} is the gain left of a mechanism, by name
        or index; {"thruster3": {"backlash": .5}}, {"angle_z": "frozen"} and {"effectiveness": .8}
        are others; a list has texts as `--fault` takes them. accept: conditions under which go-if
        counts as go, "not-rehearsed" and "unseen-loss"."""
        from preflight.session import conditions
        accepted = conditions(accept)  # before any probe is run
        session = self.session(method=method, seed=seed, model=model)
        session.run(plant, fault=fault, seed=seed)
        return session.readiness(accepted)

    def evaluate(self, plant: Union[str, Plant, Machine, None] = None, faults: Any = None,
                 trials: int = 60, *, catalogue: Optional[Path] = None, seed: int = 0,
                 model: Optional[Path] = None, threads: Optional[int] = None,
                 progress: Progress = None) -> Any:
        """Checks simulated machines with faults, flies every task with its correction, and counts
        what was found and which verdicts were true: an `Evaluation`.

        plant: the machine, by default the kit's own plant. faults: a list of what `check` takes as
        fault, or a mapping from a name to each; None is a healthy machine. Without faults: those of
        `catalogue`, a YAML file, or of the catalogue of `preflight audit`. trials: checks per
        fault. The same seed gives the same numbers on any number of threads. progress: as of
        `calibrate`."""
        from preflight.evaluate import evaluate
        return evaluate(self, plant, faults, trials, catalogue=catalogue, seed=seed, model=model,
                        threads=threads, progress=progress)


def _frozen(values: Sequence) -> np.ndarray:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def _plan(config: Config, settings: Mapping[str, Any], method: Optional[str], seed: Optional[int],
          model: Optional[Path] = None, probes: Optional[Path] = None) -> Tuple[Plan, list]:
    """The plan, and what it points into."""
    text: Optional[str] = None
    file = "config"
    if config is not None and not isinstance(config, Mapping):
        if settings:
            raise ValueError(f"settings ({', '.join(settings)}) go with a mapping as config, not "
                             "with a file; put them there")
        file = os.fspath(config)
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    elif config or settings:
        # JSON is YAML, and its numbers keep all their bits
        text = json.dumps({**(config or {}), **settings}, default=_plain, allow_nan=False)
    seed = None if seed is None else whole(seed, 2**53, "seed")
    keep = [None if v is None else os.fsencode(v) for v in (file, text, method, model, probes)]
    plan = Plan(*keep, -1 if seed is None else seed, 0, None)
    return plan, keep


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a setting is {type(value).__name__}; give numbers, texts and lists")


def _watch(plan: Plan, report: Optional[Report], stop: Any, raised: List[BaseException]) -> None:
    """Has progress reported. C cannot raise: what the report raises stops the work instead."""
    def progress(what: bytes, done: int, total: int) -> None:
        try:
            if report is not None and not raised:
                report(what.decode("utf-8", "replace"), done, total)
        except BaseException as reason:
            raised.append(reason)
            stop.value = 1
    if report is not None:
        plan.progress = PROGRESS(progress)


def _work(plan: Plan, call: Callable[..., int], report: Optional[Report]) -> bytes:
    """Runs a calibration; Ctrl-C and what the report raises stop it."""
    raised: List[BaseException] = []
    why = ctypes.create_string_buffer(WHY)
    data, size = ctypes.c_void_p(), ctypes.c_size_t()

    def work(stop: ctypes.c_int) -> int:
        plan.stop = ctypes.pointer(stop)
        _watch(plan, report, stop, raised)
        return call(ctypes.byref(plan), ctypes.byref(data), ctypes.byref(size), why)

    try:
        try:
            status = interruptible(work)
        finally:
            finish(report)
        if raised:
            raise raised[0]
        if status:
            library.fail(status, why)
        return ctypes.string_at(data.value, size.value)  # type: ignore[arg-type]
    finally:
        library.free(data)
