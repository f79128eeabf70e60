# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments with something wrong: the wrapper that `preflight.faults` puts on."""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import gymnasium
import numpy as np

from preflight._library import WHY, Body, library
from preflight.kit import Kit, Path
from preflight.machine import Fault, fault_texts, hold_faults
from preflight.plant import SEED_LIMIT, vector


class Faulty(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """What `preflight.faults` makes; it explains the arguments. `fault_texts` says what is wrong,
    `mechanisms` and `channels` are the names of the components."""

    def __init__(self, env: Any, fault: Fault = None, *, actions: Optional[Sequence[str]] = None,
                 observations: Optional[Sequence[str]] = None,
                 scale: Union[float, Sequence[float], None] = None,
                 kit: Union[Kit, Path, None] = None):
        self._handle: Optional[int] = None
        about = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        low, high = _limits(env.action_space, about, "actions", "act on")
        _limits(env.observation_space, about, "observations", "are read from")
        gymnasium.utils.RecordConstructorArgs.__init__(
            self, fault=fault, actions=actions, observations=observations, scale=scale, kit=kit)
        gymnasium.Wrapper.__init__(self, env)
        self.mechanisms = _names(actions, len(low), "action")
        self.channels = _names(observations, math.prod(env.observation_space.shape), "observation")
        n = len(self.channels)
        if scale is None or np.ndim(scale) == 0:
            scale = np.full(n, 0.0 if scale is None else scale)
        self._about, self._bounds = about, (low, high)
        self._scale = vector(scale, n, "scale").copy()
        if (self._scale < 0).any():
            raise ValueError("scale: a size is not negative")
        self._kit = Kit.load(kit) if isinstance(kit, (str, os.PathLike)) else kit
        if not isinstance(self._kit, (Kit, type(None))):
            raise TypeError(f"kit: a Kit or the path of one, not {type(kit).__name__}")
        self._seed: Optional[int] = None
        self._episode = 0
        if self._kit is not None:
            self._check_kit(self._kit)
        self.fault_texts: List[str] = fault_texts(self, fault)
        self._open()

    def _check_kit(self, kit: Kit) -> None:
        for what, own, its in (("actions", self.mechanisms, kit.mechanisms),
                               ("observations", self.channels, kit.channels)):
            if own != its:
                raise ValueError(f"kit: its {what} are {', '.join(its)}, here they are "
                                 f"{', '.join(own)}; name them with {what}=, or give scale instead")

    def _open(self) -> None:
        low, high = self._bounds
        mechanisms, channels = _texts(self.mechanisms), _texts(self.channels)
        body = Body(self._about.encode(), len(mechanisms), len(channels), mechanisms, channels,
                    low.ctypes.data, high.ctypes.data, self._scale.ctypes.data)
        self._handle = hold_faults(library.steps_open, ctypes.byref(body), self._kit,
                                   self.fault_texts)

    def __del__(self) -> None:
        # __init__ may have failed before there was one; at exit modules may be empty
        handle, close = self.__dict__.get("_handle"), getattr(library, "steps_close", None)
        if handle and close:
            close(handle)
            self._handle = None

    # a copy goes on where the trajectory is

    def __getstate__(self) -> Dict[str, Any]:
        size = library.steps_save(self._handle, None)
        bytes_ = ctypes.create_string_buffer(size)
        library.steps_save(self._handle, bytes_)
        return {**self.__dict__, "_handle": bytes_.raw}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _handle=None)
        self._open()
        why = ctypes.create_string_buffer(WHY)
        status = library.steps_load(self._handle, state["_handle"], len(state["_handle"]), why)
        if status:
            library.fail(status, why)

    # --- the environment

    def reset(self, *, seed: Optional[int] = None,
              options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        library.steps_reset(self._handle, self._key(seed))
        return self._read(observation), info

    def _key(self, seed: Optional[int]) -> int:
        """The random stream of an episode: with a seed that of a plant with this seed, else the
        next one since the last seed."""
        if seed is not None:
            self._seed, self._episode = int(seed) % SEED_LIMIT, 0
            return self._seed << 11
        if self._seed is None:
            self._seed = int(np.random.SeedSequence().entropy) % SEED_LIMIT  # type: ignore[arg-type]
        self._episode += 1
        episode = np.random.SeedSequence([self._seed, self._episode])
        return int(episode.generate_state(1, np.uint64)[0])

    def step(self, action: Any) -> Tuple[Any, Any, bool, bool, Dict[str, Any]]:
        given = np.asarray(action)
        shape = self.action_space.shape
        if given.dtype.kind not in "fiu" or given.shape != shape:
            raise ValueError(f"action: {action!r}; give numbers of shape {shape}")
        command = vector(given.ravel(), len(self.mechanisms), "action").copy()
        library.steps_act(self._handle, command.ctypes.data)
        kind = given.dtype if given.dtype.kind == "f" else self.action_space.dtype
        observation, *rest = self.env.step(command.reshape(shape).astype(kind))
        return (self._read(observation), *rest)

    def _read(self, observation: Any) -> np.ndarray:
        seen = np.asarray(observation)
        values = np.array(seen, np.float64).ravel()
        if len(values) != len(self.channels):
            raise ValueError(f"{self._about} gave {len(values)} observations, its space has "
                             f"{len(self.channels)}")
        library.steps_read(self._handle, values.ctypes.data)
        kind = seen.dtype if seen.dtype.kind == "f" else self.observation_space.dtype
        return values.reshape(seen.shape).astype(kind)


def _limits(space: Any, about: str, what: str, verb: str) -> Tuple[np.ndarray, np.ndarray]:
    """Bounds of a space of real numbers, component by component; any other space is refused."""
    boxed = isinstance(space, gymnasium.spaces.Box)
    if boxed and space.dtype.kind == "f":
        return space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    name = type(space).__name__ + (f" of {space.dtype}" if boxed else "")
    nested = isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple))
    hint = ("; flatten them first (gymnasium.wrappers.FlattenObservation)"
            if nested and what == "observations" else "")
    raise ValueError(f"{about}: its {what} are a {name}; faults {verb} a Box of real numbers, "
                     f"whose components can lose strength or drift{hint}")


def _names(given: Optional[Sequence[str]], n: int, what: str) -> Tuple[str, ...]:
    if given is None:
        return tuple(f"{'obs' if what == 'observation' else what}{i}" for i in range(n))
    names = tuple(given)
    texts = all(isinstance(name, str) and name for name in names)
    if isinstance(given, str) or not texts or len(names) != n or len(set(names)) < n:
        raise ValueError(f"{what}s: {given!r} must be {n} different names, one for each component")
    return names


def _texts(names: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(names))(*(n.encode() for n in names))
