# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What a kit is worth: whole checks of machines with faults, and every task flown on the truth."""

from __future__ import annotations

import ctypes
import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Union

import numpy as np

from preflight._library import TRIAL, WHY, Flights, PreflightError, Row, interruptible, library
from preflight._show import Column, Shown, Table
from preflight.machine import Faults, Machine, fault_texts
from preflight.plant import Plant, whole
from preflight.progress import Progress, reported

if TYPE_CHECKING:
    from preflight.kit import Kit, Path

FAULTS = (Column("fault", "name", "the machine has"), Column("trials", "whole", "trials"),
          Column("alarm", "whole", "alarm"), Column("named", "whole", "named"),
          Column("misfit", "whole", "misfit"), Column("gain_error", "number", "gain error"),
          Column("within", "maybe"), Column("probes", "whole"), Column("rehearsals", "whole"),
          Column("tasks", "whole", "tasks"), Column("go", "whole", "go"),
          Column("held_back", "maybe", "held back"), Column("all_go", "whole"),
          Column("below_bound", "whole"), Column("broken", "maybe", "bound broken"),
          Column("broken_upper", "number", "at most"), Column("below_j_min", "whole"),
          Column("false_go", "whole", "false go"), Column("false_go_upper", "number", "at most"),
          Column("promised", "flag"), Column("note", "text", "note"))
TRIALS = (Column("fault", "name"), Column("trial", "whole"), Column("seed", "whole"),
          Column("alarm", "flag"), Column("named", "flag"), Column("misfit", "flag"),
          Column("gain_error", "number"), Column("within", "maybe"), Column("probes", "whole"),
          Column("rehearsals", "whole"), Column("go", "whole"), Column("all_go", "flag"),
          Column("below_bound", "whole"), Column("below_j_min", "whole"),
          Column("false_go", "flag"))
TASKS = (Column("fault", "name"), Column("trial", "whole"), Column("task", "name"),
         Column("decision", "verdict"), Column("lower", "number"), Column("flown", "number"),
         Column("kept", "flag"), Column("met", "flag"))
DECISIONS = ("no-go", "go", "go-if")  # pf_decision
GO = DECISIONS.index("go")
# counts of an audit that are sums over its checks
SUMS = ("alarm", "named", "misfit", "probes", "rehearsals", "go", "all_go", "below_bound",
        "below_j_min", "false_go")


class Evaluation(Shown):
    """Counts by fault: `rows`, `evaluation["healthy"]`. `trials` has every check, `tasks` every
    flight. docs/python.md says what the keys mean; `to_pandas` has the same as columns.

    >>> from preflight import Kit
    >>> kit = Kit.calibrate("dc_servo", episodes=30, alarm_trials=200)
    >>> found = kit.evaluate(faults=[None, {"motor_2": 0.35}], trials=8)
    >>> found["motor_2:0.35"]["named"], found["motor_2:0.35"]["false_go"]
    (8, 0)
    """

    _hidden = ("trials", "tasks")

    def __init__(self, about: Mapping[str, Any], rows: List[Dict[str, Any]],
                 trials: List[Dict[str, Any]], tasks: List[Dict[str, Any]]):
        self.about = dict(about)  # kit (sha256), plant, machine, faults, trials, seed
        self.rows, self.trials, self.tasks = rows, trials, tasks

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """The result of `preflight audit`, KIT.audit.json. It has counts only, so what they do not
        say is unknown, and there are no trials and tasks."""
        with open(path, encoding="utf-8") as file:
            try:
                data = json.load(file)
                if data["format"] != "preflight-audit":
                    raise ValueError("its format is not preflight-audit")
                about = {"kit": str(data["kit"]), "plant": data["plant"],
                         "machine": data["machine"], "faults": int(data["total"]),
                         "trials": int(data["sessions"]), "seed": int(data["seed"])}
                rows = [_audited(entry) for entry in data["entries"]]
            except (KeyError, TypeError, ValueError) as problem:
                raise ValueError(f"{os.fspath(path)}: not the result of an audit "
                                 f"({type(problem).__name__}: {problem})") from None
        return cls(about, rows, [], [])

    @property
    def false_go(self) -> int:
        """Trials with a false go among the faults that a promise is made about."""
        return sum(row["false_go"] for row in self.rows if row["promised"])

    def __getitem__(self, fault: str) -> Dict[str, Any]:
        for row in self.rows:
            if row["fault"] == fault:
                return row
        raise KeyError(f"{fault!r}; the faults are {', '.join(r['fault'] for r in self.rows)}")

    def _tables(self) -> Dict[str, Table]:
        return {"faults": Table(FAULTS, self.rows), "trials": Table(TRIALS, self.trials),
                "tasks": Table(TASKS, self.tasks)}

    def _facts(self) -> Dict[str, Any]:
        return {"kit": self.about["kit"][:12], "machine": self.about["machine"],
                "seed": self.about["seed"], "faults": f"{len(self.rows)} of {self.about['faults']}",
                "trials with a false go": self._verdict()}

    def _verdict(self) -> str:
        promised = [row for row in self.rows if row["promised"] and row["trials"] > 0]
        return f"{self.false_go} of {sum(row['trials'] for row in promised)}"

    def __str__(self) -> str:
        missing = self.about["faults"] - len(self.rows)
        return (f"{Table(FAULTS, self.rows).text()}\n\n{self._verdict()} trials with promised "
                "faults have a false go. \"at most\" is the largest rate that the count before it "
                "is compatible with, at 95 %."
                + (f" {missing} faults of this audit were not tried yet." if missing else ""))

    def __repr__(self) -> str:
        return (f"<Evaluation of kit {self.about['kit'][:12]}: faults {len(self.rows)}, "
                f"trials with a false go {self._verdict()}>")


class _Fault(NamedTuple):
    """What is wrong with the machines of a row; keep: what its handles belong to."""

    name: str
    promised: bool
    row: Row
    keep: Any


class _Catalogue:
    """The entries of a catalogue; without a file those of `preflight audit`."""

    def __init__(self, path: Optional[Path]):
        self.handle: Optional[int] = None
        text: Optional[bytes] = None
        if path is not None:
            with open(path, "rb") as file:
                text = file.read()
        why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        status = library.catalogue_open(ctypes.byref(handle), os.fsencode(path or ""), text,
                                        len(text or b""), why)
        if status:
            library.fail(status, why)
        self.handle = handle.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            library.catalogue_close(self.handle)
            self.handle = None

    def faults(self) -> Iterator[_Fault]:
        promised, entry = ctypes.c_int(), 0
        while True:
            name = library.catalogue_entry(self.handle, entry, ctypes.byref(promised))
            if name is None:
                return
            yield _Fault(name.decode(), promised.value != 0, Row(name, None, self.handle, entry),
                         self)
            entry += 1


def _listed(kit: Kit, machine: Machine, faults: Any) -> Iterator[_Fault]:
    """The caller's own faults, checked before anything is run."""
    if isinstance(faults, str):
        faults = [faults]
    if not isinstance(faults, (Mapping, list, tuple)):
        raise ValueError(f"faults: {faults!r} is no list of faults, nor a mapping from names to "
                         "them")
    named = isinstance(faults, Mapping)
    for key, fault in faults.items() if named else enumerate(faults):
        if not (fault is None or isinstance(fault, (str, Mapping, list, tuple))):
            raise ValueError(f"faults: {key!r} is {fault!r}, which is no fault; give a list as "
                             "[{\"valve\": 0.5}], or names as {\"worn\": {\"valve\": 0.5}}")
        name = key if named else ", ".join(fault_texts(machine, fault)) or "healthy"
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"faults: {name!r} is no name")
        try:
            held = Faults(machine, fault, kit)
        except ValueError as problem:
            where = named and name in machine.mechanisms + machine.channels
            hint = "; the keys of faults are names of yours, a list needs none" if where else ""
            raise ValueError(f"faults: {name!r}: {problem}{hint}") from None
        yield _Fault(name, True, Row(name.encode(), held.handle, None, 0), held)


class _Evaluator:
    """A kit with machines and what predicts, one of each per thread."""

    def __init__(self, kit: Kit, machine: Machine, twin: Optional[Machine], model: Optional[Path],
                 threads: Optional[int]):
        self.handle: Optional[int] = None
        self._keep = kit, machine, twin
        why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        in_process = machine.in_process or (twin is not None and twin.in_process)
        status = library.evaluator_open(
            ctypes.byref(handle), kit._handle, machine.handle, twin and twin.handle,
            None if model is None else os.fsencode(model), 1 if in_process else threads or 0, why)
        if status:
            library.fail(status, why)
        self.handle = handle.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            library.evaluator_close(self.handle)
            self.handle = None

    def run(self, fault: _Fault, found: np.ndarray, flights: Dict[str, np.ndarray],
            seed: int) -> Optional[str]:
        """One row into arrays; what is returned says why there is none."""
        why = ctypes.create_string_buffer(WHY)
        into = Flights(*(flights[k].ctypes.data for k in ("decision", "lower", "flown")))
        status = interruptible(lambda stop: library.evaluate(
            self.handle, ctypes.byref(fault.row), len(found), seed, ctypes.byref(stop),
            found.ctypes.data, ctypes.byref(into), why))
        code = library.status(status).decode("ascii") if status else ""
        if code in ("unsupported", "plant"):
            what = "not covered" if code == "unsupported" else "the machine failed"
            return f"{what}: {why.value.decode('utf-8', 'replace')}"
        if status:
            library.fail(status, why)
        return None


def _machines(kit: Kit, plant: Union[str, Plant, Machine, None], model: Optional[Path]) -> tuple:
    """The machine, and what predicts unless that is the machine, the model or the kit itself."""
    if kit.predictor == "recordings" and plant is None:
        raise ValueError("the kit was calibrated from recordings and names no plant to run; give "
                         "plant")
    if kit.predictor == "ensemble" and model is None:
        raise PreflightError("missing-prediction", "the kit predicts with a learned model; give "
                             "its file as model")
    given = None if plant is None else Machine.of(plant)
    own = None if given is not None and kit.predictor != "twin" else kit.own_machine(given)
    return (own, None) if given is None else (given, own)


def evaluate(kit: Kit, plant: Union[str, Plant, Machine, None], faults: Any, trials: int, *,
             catalogue: Optional[Path], seed: int, model: Optional[Path],
             threads: Optional[int], progress: Progress) -> Evaluation:
    """`Kit.evaluate`."""
    if faults is not None and catalogue is not None:
        raise ValueError("give either faults or catalogue")
    if whole(trials, 2**20, "trials") < 1:
        raise ValueError("trials: give at least one")
    seed = whole(seed, 2**53, "seed")
    machine, twin = _machines(kit, plant, model)
    wanted = list(_Catalogue(catalogue).faults() if faults is None
                  else _listed(kit, machine, faults))
    names = [f.name for f in wanted]
    twice = [n for n in names if names.count(n) > 1]
    if twice or not names:
        raise ValueError(f"faults: {twice[0]!r} is there twice; give a mapping with a name for "
                         "each" if twice else "faults: there are none")
    evaluator = _Evaluator(kit, machine, twin, model, threads)
    about = {"kit": kit.sha256, "plant": kit.plant, "machine": machine.name,
             "faults": len(wanted), "trials": trials, "seed": seed}
    result = Evaluation(about, [], [], [])
    for fault in reported(wanted, "faults", progress):
        found = np.zeros(trials, TRIAL)
        shape = trials, len(kit.tasks)
        flights = {"decision": np.zeros(shape, np.int32), "lower": np.zeros(shape),
                   "flown": np.zeros(shape)}
        note = evaluator.run(fault, found, flights, seed)
        if note is None:
            _keep(result, kit, fault.name, found, flights)
        done = found[:0] if note else found
        result.rows.append(_row(fault, kit, done, flights, note or ""))
    if all(row["trials"] == 0 for row in result.rows):
        raise PreflightError("plant", f"no fault could be tried; {result.rows[0]['note']}")
    return result


def _row(fault: _Fault, kit: Kit, found: np.ndarray, flights: Dict[str, np.ndarray],
         note: str) -> Dict[str, Any]:
    n = len(found)
    row: Dict[str, Any] = {k: int(found[k].sum()) for k in SUMS}
    gains = found["within"] >= 0
    errors = found["gain_error"][~np.isnan(found["gain_error"])]
    good = (flights["decision"] != GO) & (flights["flown"] >= kit.info["j_min"])
    row.update(fault=fault.name, trials=n, promised=fault.promised, note=note,
               tasks=n * len(kit.tasks), held_back=int(good[:n].sum()),
               within=int(found["within"][gains].sum()) if gains.any() else None,
               gain_error=float(errors.mean()) if len(errors) else None,
               broken=int((found["below_bound"] > 0).sum()))
    return _with_limits(row)


def _with_limits(row: Dict[str, Any]) -> Dict[str, Any]:
    """The largest rates that the counts are compatible with; of none tried everything is."""
    for count in ("broken", "false_go"):
        known = row[count] is not None
        row[f"{count}_upper"] = library.upper(row[count], row["trials"]) if known else None
    return row


def _audited(entry: Mapping[str, Any]) -> Dict[str, Any]:
    """An entry of an audit's file as a row."""
    covered = entry["covered"]
    row: Dict[str, Any] = {k: int(entry[k]) if covered else 0 for k in SUMS}
    trials = int(entry["sessions"]) if covered else 0
    what = "the machine failed" if entry.get("broke") else "not covered"
    row.update(fault=str(entry["fault"]), trials=trials, promised=bool(entry["promised"]),
               note="" if covered else f"{what}: {entry['why']}",
               tasks=trials * int(entry["tasks"]) if covered else 0, held_back=None,
               within=entry.get("within"), gain_error=None, broken=None)
    return _with_limits(row)


def _keep(result: Evaluation, kit: Kit, name: str, found: np.ndarray,
          flights: Dict[str, np.ndarray]) -> None:
    """Every check and every flight, for data frames."""
    j_min = kit.info["j_min"]
    for i, one in enumerate(found):
        trial: Dict[str, Any] = {"fault": name, "trial": i}
        for column in TRIALS[2:]:
            value = one[column.key].item()
            trial[column.key] = bool(value) if column.kind == "flag" else value
        trial["within"] = None if trial["within"] < 0 else trial["within"]
        result.trials.append(trial)
        for t, task in enumerate(kit.tasks):
            lower, flown = float(flights["lower"][i, t]), float(flights["flown"][i, t])
            result.tasks.append({
                "fault": name, "trial": i, "task": task, "lower": lower, "flown": flown,
                "decision": DECISIONS[flights["decision"][i, t]],
                "kept": not flown < lower, "met": not flown < j_min})
