# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Plants as the C library holds them: built-in ones, processes behind the bridge, and Python's."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from typing import Any, Dict, Optional, Union

import numpy as np

from preflight._library import ROLL, WHY, array_at, library
from preflight.plant import Plant, Runner, Trace, hello_text, matrix, vector, whole


class Machine:
    """A plant by name ("attitude", "gym:BipedalWalker-v3", "exec:./rig"), or a `Plant`.

    Used by one thread at a time.

    >>> machine = Machine("attitude")
    >>> machine.mechanisms[:2], machine.channels[0], machine.state_size
    (('thruster0', 'thruster1'), 'angle_x', 6)
    >>> machine.roll(np.zeros((3, 8)), key=5).output.shape
    (3, 6)
    """

    def __init__(self, plant: Union[str, Plant]):
        self.handle: Optional[int] = None
        self.in_process = not isinstance(plant, str)
        why = ctypes.create_string_buffer(WHY)
        handle = ctypes.c_void_p()
        if isinstance(plant, str):
            status = library.plant_open(ctypes.byref(handle), plant.encode(), why)
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
             noise: bool = False) -> Trace:
        """One trajectory. key: 64 bits that name the random stream; a plant in Python or behind
        the bridge gets the upper 53 of them as its seed."""
        n_mech, n_chan = len(self.mechanisms), len(self.channels)
        commands = matrix(commands, n_mech, "commands")
        gains = None if gains is None else vector(gains, n_mech, "gains")
        begin = None if state is None else vector(state, self.state_size, "state")
        start, initial = np.zeros(self.state_size), np.zeros(n_chan)
        output = np.zeros((len(commands), n_chan))
        why = ctypes.create_string_buffer(WHY)
        status = library.plant_roll(
            self.handle, whole(key, 2**64, "key"), _address(begin), _address(gains),
            _address(commands), len(commands), noise, _address(start), _address(initial),
            _address(output), why)
        if status:
            library.fail(status, why)
        return Trace(start, initial, output)


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
            begin = array_at(start, n_start).copy() if start else seed
            with lock:
                trace = runner.roll(array_at(commands, rows, n_mech).copy(),
                                    array_at(gains, n_mech).copy(), begin, bool(start),
                                    bool(noise))
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
