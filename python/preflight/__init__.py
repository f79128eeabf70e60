# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""preflight: is every idle actuator still good enough for every possible job?

    import preflight

    kit = preflight.Kit.calibrate("attitude")
    print(kit.check(fault={"thruster3": 0.35}))

`Kit` is what calibration makes, `Session` one check in the shape of ask and tell, `Evaluation` what
many checks of faulty machines were worth, `Plant` and `GymPlant` machines of your own. `faults`
puts faults on a Gymnasium environment.
`preflight.bench` reads results of experiments into pandas, `preflight.plot` draws. The C library is
loaded when something needs it; a plant's worker does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from preflight._library import PreflightError
    from preflight.evaluate import Evaluation
    from preflight.gym import GymPlant, faults, gym_plant
    from preflight.kit import Kit, Probe
    from preflight.machine import Machine
    from preflight.plant import Channel, Mechanism, Plant, Pulse, Trace
    from preflight.session import Ask, Readiness, Reading, Rehearsal, Session, Told
    from preflight.worker import serve

_HOME = {
    "PreflightError": "_library", "Evaluation": "evaluate", "GymPlant": "gym", "faults": "gym",
    "gym_plant": "gym", "Kit": "kit", "Probe": "kit", "Machine": "machine", "Channel": "plant",
    "Mechanism": "plant", "Plant": "plant", "Pulse": "plant", "Trace": "plant", "Ask": "session",
    "Reading": "session", "Readiness": "session", "Rehearsal": "session", "Session": "session",
    "Told": "session", "serve": "worker",
}
_MODULES = ("bench", "gym", "plot", "box2d")

__all__ = [
    "Ask",
    "Channel",
    "Evaluation",
    "GymPlant",
    "Kit",
    "Machine",
    "Mechanism",
    "Plant",
    "PreflightError",
    "Probe",
    "Pulse",
    "Readiness",
    "Reading",
    "Rehearsal",
    "Session",
    "Told",
    "Trace",
    "faults",
    "gym_plant",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"preflight.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"preflight.{name}")
    if name == "__version__":
        from preflight._library import library
        return library.version().decode("ascii")
    raise AttributeError(f"module 'preflight' has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*__all__, *_MODULES, "__version__",
                   *(n for n in globals() if n.startswith("__"))})
