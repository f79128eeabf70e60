# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Plants as the C library holds them: built-in ones, processes behind the bridge, and Python's."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import os
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from preflight._library import ROLL, WHY, array_at, library
from preflight.plant import Plant, Runner, Trace, hello_text, matrix, vector, whole

# what `fault=` takes: {"thruster3": .35}, {"thruster3": "backlash=.5"}, {"thruster3": {"backlash":
# .5, "delay": 1}}, {"angle_z": "frozen"}, {"effectiveness": .8}, or texts as `--fault` takes them
Fault = Union[None, str, Mapping[Union[int, str], Any], Sequence[str]]


class Machine:
    """A plant by name ("attitude", "gym:BipedalWalker-v3", "exec:./rig"), or a `Plant`.

    Used by one thread at a time. folder: where an `exec:` command runs if the files that it names
    are there and not in the current folder.

    >>> machine = Machine("attitude")
    >>> machine.mechanisms[:2], machine.channels[0], machine.state_size
    (('thruster0', 'thruster1'), 'angle_x', 6)
    >>> machine.roll(np.zeros((3, 8)), key=5).output.shape
    (3, 6)
    """

    def __init__(self, plant: Union[str, Plant], *, folder: str = ""):
        self.handle: Optional[int] = None
        self.in_process = not isinstance(plant, str)
        why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        if isinstance(plant, str):
            status = library.plant_open(ctypes.byref(handle), plant.encode(),
                                        os.fsencode(folder), why)
        elif isinstance(plant, Plant):
            self._callback = ROLL(_caller(plant))
            name = plant.registered or f"python:{plant.name}"
            status = library.plant_wrap(ctypes.byref(handle), name.encode(),
                                        hello_text(plant).encode(), self._callback, why)
        else:
            raise TypeError(f"a plant is a name or a preflight.Plant, not {type(plant).__name__}")
        if status:
            library.fail(status, why)
        self.handle = handle.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            library.plant_close(self.handle)
            self.handle = None

    @classmethod
    def of(cls, plant: Union[str, Plant, Machine]) -> Machine:
        return plant if isinstance(plant, Machine) else cls(plant)

    @functools.cached_property
    def info(self) -> Dict[str, Any]:
        return library.json(library.plant_json(self.handle))

    @property
    def name(self) -> str:
        return self.info["name"]

    @functools.cached_property
    def mechanisms(self) -> tuple:
        return tuple(m["name"] for m in self.info["mechanisms"])

    @functools.cached_property
    def channels(self) -> tuple:
        return tuple(c["name"] for c in self.info["channels"])

    @property
    def state_size(self) -> int:
        return self.info["state_size"]

    def limits(self, hello: Optional[float] = None, roll: Optional[float] = None) -> None:
        """Seconds that a process plant has for its hello, whenever one is started from now on, and
        for one trajectory; None leaves a limit as it is. Other plants have no limits."""
        for seconds in (hello, roll):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise ValueError(f"limits: {seconds} s is no time")
        library.plant_limits(self.handle, -1 if hello is None else hello,
                             -1 if roll is None else roll)

    def roll(self, commands: Any, gains: Any = None, *, key: int = 0, state: Any = None,
             noise: bool = False, fault: Fault = None) -> Trace:
        """One trajectory. key: 64 bits that name the random stream; a plant in Python or behind
        the bridge gets the upper 53 of them as its seed. fault: what is wrong with the plant, its
        sensors included (docs/faults.md)."""
        n_mech, n_chan = len(self.mechanisms), len(self.channels)
        commands = matrix(commands, n_mech, "commands")
        gains = None if gains is None else vector(gains, n_mech, "gains")
        begin = None if state is None else vector(state, self.state_size, "state")
        start, initial = np.zeros(self.state_size), np.zeros(n_chan)
        output = np.zeros((len(commands), n_chan))
        why = ctypes.create_string_buffer(WHY)
        faults = Faults(self, fault)
        status = library.plant_roll(
            self.handle, whole(key, 2**64, "key"), _address(begin), _address(gains),
            faults.handle, _address(commands), len(commands), noise, _address(start),
            _address(initial), _address(output), why)
        if status:
            library.fail(status, why)
        return Trace(start, initial, output)


class Faults:
    """What is wrong with a machine, as the C library holds it. kit: the one whose tasks and noise
    give the units."""

    def __init__(self, machine: Machine, fault: Fault, kit: Any = None):
        self.handle: Optional[int] = None
        texts = fault_texts(machine, fault)
        if texts:
            self.handle = hold_faults(library.faults_open, machine.handle, kit, texts)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            library.faults_close(self.handle)
            self.handle = None


def hold_faults(call: Callable[..., int], of: Any, kit: Any, texts: Sequence[str]) -> Optional[int]:
    """The handle that `faults_open` or `steps_open` gives for texts as `--fault` takes them."""
    why = ctypes.create_string_buffer(WHY)
    handle = ctypes.c_void_p()
    data = [t.encode() for t in texts]
    status = call(ctypes.byref(handle), of, None if kit is None else kit._handle,
                  (ctypes.c_char_p * len(data))(*data), len(data), why)
    if status and library.status(status) == b"bad-argument":
        raise ValueError(why.value.decode("utf-8", "replace"))
    if status:
        library.fail(status, why)
    return handle.value


def fault_texts(machine: Any, fault: Fault) -> List[str]:
    """Faults as `--fault` takes them; `machine` has the names.

    >>> machine = Machine("attitude")
    >>> fault_texts(machine, {"thruster3": .35, 5: {"backlash": .5}, "effectiveness": .8})
    ['thruster3:0.35', '5:backlash=0.5', 'effectiveness=0.8']
    """
    if fault is None:
        return []
    if isinstance(fault, str):
        return [fault]
    if not isinstance(fault, (Mapping, list, tuple)):
        raise ValueError(f"fault: {fault!r}; give a mapping such as {{'{machine.mechanisms[-1]}': "
                         "0.35}, or a list of texts such as '3:0.35'")
    if not isinstance(fault, Mapping):
        return [_text(f, "a fault") for f in fault]
    texts = []
    for place, what in fault.items():
        if not isinstance(place, str) and not hasattr(place, "__index__"):
            raise ValueError(f"fault: {place!r} is no place; give a name, or a mechanism's number")
        if isinstance(what, Mapping) and not what:
            raise ValueError(f"fault: {place!r} has no kind; give one, such as {{'gain': 0.35}}")
        where = place if isinstance(place, str) else str(operator.index(place))
        # {"effectiveness": .8} is of the plant as a whole, what has a place is written with a colon
        named = (not isinstance(place, str) or where in machine.mechanisms + machine.channels
                 or isinstance(what, (str, Mapping)))
        kinds = what.items() if isinstance(what, Mapping) else [(None, what)]
        for kind, value in kinds:
            text = value if isinstance(value, str) and kind is None else _number(value, where)
            text = text if kind is None else f"{kind}={text}"
            texts.append(f"{where}{':' if named else '='}{text}")
    return texts


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"fault: {what} is {value!r}; give texts such as '3:0.35', or a mapping")
    return value


def _number(value: Any, where: str) -> str:
    """A number with all its bits."""
    if isinstance(value, (str, bytes, bool)):
        raise ValueError(f"fault: {where!r} is {value!r}; give a number")
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        raise ValueError(f"fault: {where!r} is {value!r}; give a number") from None


def _address(array: Optional[np.ndarray]) -> Optional[int]:
    return None if array is None else array.ctypes.data


def _caller(plant: Plant) -> Any:
    """The function that C calls for a trajectory of a plant in Python."""
    n_mech, n_chan, n_state = len(plant.mechanisms), len(plant.channels), plant.state_size
    runner = Runner(plant)
    lock = threading.Lock()  # sessions of several threads may share the object

    def roll(seed: int, start: Any, n_start: int, gains: Any, commands: Any, rows: int,
             noise: int, start_out: Any, initial: Any, output: Any, why: int) -> int:
        try:
            state = array_at(start, n_start).copy() if start else None
            with lock:
                trace = runner.roll(array_at(commands, rows, n_mech).copy(),
                                    array_at(gains, n_mech).copy(), seed, state, bool(noise))
            for address, values, n in ((start_out, trace.start, n_state),
                                       (initial, trace.initial, n_chan),
                                       (output, trace.output, rows * n_chan)):
                if n:
                    ctypes.memmove(address, np.ascontiguousarray(values).ctypes.data, 8 * n)
            return 0
        except BaseException as problem:  # nothing may unwind through C
            text = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            data = text.encode("ascii", "replace")[: WHY - 1] + b"\0"
            ctypes.memmove(why, data, len(data))
            return 1

    return roll
