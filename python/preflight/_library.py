# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The C library behind the package; the counterpart of python/binding/binding.h."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import threading
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any, Callable, List, Optional

import numpy as np

WHY = 400  # bytes of a message


class PreflightError(Exception):
    """What the C library refused or could not do. `code` is its short name, as "wrong-probe"."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class Ask(Structure):
    _fields_ = [("kind", c_int32), ("stage", c_int32), ("probe", c_int32), ("rows", c_int32),
                ("has_value", c_int32), ("has_gains", c_int32), ("per_gain", c_int32),
                ("n_tasks", c_int32), ("has_command", c_int32), ("n_edges", c_int32),
                ("value", c_double), ("why", c_char_p)]


class Reading(Structure):
    _fields_ = [("mechanism", c_int32), ("usable", c_int32), ("category", c_int32),
                ("gate", c_int32), ("plausible", c_int32), ("score", c_double),
                ("coordinate", c_double)]


class Desk(Structure):
    _fields_ = [("response", c_void_p), ("start", c_void_p), ("nominal", c_void_p),
                ("fault", c_void_p), ("grid", c_void_p), ("nearest", c_void_p),
                ("runs", c_void_p), ("belief", c_void_p), ("joint", c_void_p),
                ("joint_grid", c_void_p), ("mean", c_void_p), ("gains", c_void_p),
                ("command", c_void_p), ("correction", c_void_p), ("edges", c_void_p),
                ("tasks", POINTER(c_int32)), ("reading", POINTER(Reading)),
                ("ask", POINTER(Ask)), ("n_readings", c_int32), ("alarm", c_int32),
                ("passed", c_int32), ("n_gains", c_int32), ("change", c_double),
                ("misfit", c_double), ("distance", c_double)]


PROGRESS = ctypes.CFUNCTYPE(None, c_char_p, c_size_t, c_size_t)


class Plan(Structure):
    _fields_ = [("file", c_char_p), ("config", c_char_p), ("method", c_char_p),
                ("model", c_char_p), ("probes", c_char_p), ("seed", c_double),
                ("threads", c_int), ("stop", POINTER(c_int)), ("progress", PROGRESS)]


class Body(Structure):
    _fields_ = [("name", c_char_p), ("n_mech", c_int), ("n_chan", c_int),
                ("mechanisms", POINTER(c_char_p)), ("channels", POINTER(c_char_p)),
                ("lo", c_void_p), ("hi", c_void_p), ("scale", c_void_p)]


class Row(Structure):
    _fields_ = [("name", c_char_p), ("faults", c_void_p), ("catalogue", c_void_p),
                ("entry", c_int32)]


class Flights(Structure):
    _fields_ = [("decision", c_void_p), ("lower", c_void_p), ("flown", c_void_p)]


# pf_py_trial
TRIAL = np.dtype([("seed", np.uint64), ("gain_error", np.float64)] + [
    (name, np.int32) for name in ("alarm", "misfit", "named", "within", "probes", "rehearsals",
                                  "go", "all_go", "below_bound", "below_j_min", "false_go",
                                  "unused")])

ROLL = ctypes.CFUNCTYPE(c_int, c_uint64, c_void_p, c_int, c_void_p, c_void_p, c_int, c_int,
                        c_void_p, c_void_p, c_void_p, c_void_p)

_TEXT = c_void_p  # texts to be freed come as addresses
_HANDLE = POINTER(c_void_p)
_BYTES = POINTER(c_void_p), POINTER(c_size_t)
FUNCTIONS = {
    "version": (c_char_p,),
    "free": (None, c_void_p),
    "status": (c_char_p, c_int),
    "plant_runs_code": (c_int, c_char_p),
    "plant_open": (c_int, _HANDLE, c_char_p, c_char_p, c_char_p),
    "plant_wrap": (c_int, _HANDLE, c_char_p, c_char_p, ROLL, c_char_p),
    "plant_close": (None, c_void_p),
    "plant_json": (_TEXT, c_void_p),
    "faults_open": (c_int, _HANDLE, c_void_p, c_void_p, POINTER(c_char_p), c_int, c_char_p),
    "faults_close": (None, c_void_p),
    "steps_open": (c_int, _HANDLE, POINTER(Body), c_void_p, POINTER(c_char_p), c_int, c_char_p),
    "steps_close": (None, c_void_p),
    "steps_reset": (None, c_void_p, c_uint64),
    "steps_act": (None, c_void_p, c_void_p),
    "steps_read": (None, c_void_p, c_void_p),
    "steps_save": (c_size_t, c_void_p, c_char_p),
    "steps_load": (c_int, c_void_p, c_char_p, c_size_t, c_char_p),
    "plant_roll": (c_int, c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p, c_int,
                   c_int, c_void_p, c_void_p, c_void_p, c_char_p),
    "plant_limits": (None, c_void_p, c_double, c_double),
    "kit_open": (c_int, _HANDLE, c_char_p, c_size_t, c_char_p),
    "kit_close": (None, c_void_p),
    "kit_json": (_TEXT, c_void_p),
    "kit_save": (c_int, c_char_p, c_char_p, c_size_t, c_char_p),
    "calibrate": (c_int, c_void_p, POINTER(Plan), *_BYTES, c_char_p),
    "recordings": (c_int, c_char_p, c_char_p, c_size_t, POINTER(Plan), *_BYTES, c_char_p),
    "session_open": (c_int, _HANDLE, c_void_p, c_char_p, c_uint64, c_char_p),
    "session_close": (None, c_void_p),
    "session_desk": (POINTER(Desk), c_void_p),
    "session_twin": (c_int, c_void_p, c_void_p, c_char_p),
    "session_model": (c_int, c_void_p, c_char_p, c_char_p),
    "session_ask": (None, c_void_p),
    "session_tell": (c_int, c_void_p, c_int, c_int, c_char_p),
    "session_tell_rehearsal": (c_int, c_void_p, POINTER(c_int32), c_int, c_int, c_char_p),
    "session_skip": (c_int, c_void_p, c_char_p),
    "session_stage2": (c_int, c_void_p, c_char_p),
    "session_reset": (None, c_void_p),
    "session_readiness": (_TEXT, c_void_p),
    "session_joint": (c_double, c_void_p),
    "session_stage": (c_int, c_void_p),
    "session_charge": (c_double, c_void_p),
    "session_threshold": (c_double, c_void_p),
    "session_run": (c_int, c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_char_p),
    "catalogue_open": (c_int, _HANDLE, c_char_p, c_char_p, c_size_t, c_char_p),
    "catalogue_close": (None, c_void_p),
    "catalogue_entry": (c_char_p, c_void_p, c_int, POINTER(c_int)),
    "evaluator_open": (c_int, _HANDLE, c_void_p, c_void_p, c_void_p, c_char_p, c_int, c_char_p),
    "evaluator_close": (None, c_void_p),
    "evaluate": (c_int, c_void_p, POINTER(Row), c_int, c_uint64, POINTER(c_int), c_void_p,
                 POINTER(Flights), c_char_p),
    "upper": (c_double, c_int, c_int),
}


class Library:
    """The functions of binding.h without their prefix."""

    def __init__(self, path: str):
        self._dll = ctypes.CDLL(path)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(self._dll, f"pf_py_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the C library has no function {name}")

    def text(self, address: Optional[int]) -> str:
        """A text that the library handed out."""
        if not address:
            raise MemoryError("out of memory in the C library")
        try:
            return ctypes.string_at(address).decode("utf-8")
        finally:
            self.free(address)

    def json(self, address: Optional[int]) -> Any:
        return json.loads(self.text(address))

    def fail(self, status: int, why: Any) -> None:
        """Raises what a status means; why is the buffer that was passed."""
        text = why.value.decode("utf-8", "replace")
        code = self.status(status).decode("ascii")
        if code == "memory":
            raise MemoryError(text)
        raise PreflightError(code, text)


def interruptible(call: Callable[[c_int], int]) -> int:
    """Runs long work on a thread of its own, so that Ctrl-C stops it: the flag that `call` gets is
    then set, and the interruption is raised once C is back."""
    stop = c_int(0)
    status: List[int] = []
    over = threading.Event()  # a join that is interrupted takes the thread for ended (bpo-45274)

    def work() -> None:
        try:
            status.append(call(stop))
        finally:
            over.set()
    thread = threading.Thread(target=work)
    thread.start()
    interrupted = None
    while not over.is_set():  # C writes to what is ours until then, however often we are called
        try:
            over.wait()
        except BaseException as reason:
            interrupted, stop.value = reason, 1
    thread.join()
    if interrupted is not None:
        raise interrupted
    return status[0]


def array_at(address: Optional[int], *shape: int) -> np.ndarray:
    """A view of the library's memory; its owner must outlive it."""
    n = int(np.prod(shape))
    if not n or not address:
        return np.zeros(shape)
    return np.frombuffer((c_double * n).from_address(address), dtype=np.float64).reshape(shape)


def _find() -> str:
    named = os.environ.get("PREFLIGHT_LIBRARY")
    if named:
        return named
    path = pathlib.Path(__file__).parent / "libpreflight_python.so"
    if not path.exists():
        raise ImportError(f"{path} is missing: build the package with `pip install .` at the root "
                          "of the source, or name the library in PREFLIGHT_LIBRARY")
    return str(path)


library = Library(_find())
