# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Any Gymnasium environment as a plant."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from preflight.plant import Channel, Mechanism, Plant, Pulse

Environment = Union[str, Callable[[], Any]]


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ImportError("gymnasium is missing: pip install gymnasium "
                          "(or preflight-readiness[gym])") from None
    return gymnasium


def _again(gymnasium: Any, made: Any, make: Callable[[], Any]) -> Callable[[], Any]:
    """Makes a registered environment anew as `make` does inside its wrappers, which are not used
    here: a sixth more trajectories of Pendulum per second."""
    spec = getattr(made, "spec", None)
    entry = getattr(spec, "entry_point", None)
    if entry is None or spec.additional_wrappers:
        return make
    creator = entry if callable(entry) else gymnasium.envs.registration.load_env_creator(entry)

    def again() -> Any:
        env = creator(**copy.deepcopy(spec.kwargs))
        env.unwrapped.spec = spec
        return env
    return again


class GymPlant(Plant):
    """A Gymnasium environment, unwrapped: no time limit, termination and reward are ignored.

    env: an id, or something that makes the environment when called.

    What the actions become, unless `mechanisms` and `action` say otherwise:

    - Box with two or more numbers: one mechanism each. `order` lists the native indices that are
      mechanisms, the current one first (default: all, as they come); the others stay at `rest`.
      `limits` replaces the action space's, as (lo, hi) per mechanism.
    - Box with one number: there is no current actuator, and its two directions are the mechanisms:
      none (always 0), plus and minus, commands 0..1 of the native limits.
    - Discrete: an action is taken or not, so strength is how often. Mechanisms are none and every
      action but `idle`, commands 0..1: a share of the steps in which the action is taken, the
      others being idle (an accumulator decides, nothing is random). A weak mechanism misses
      steps. Needs `idle`, the action that does nothing. Use long pulses, or better `action`.

    mechanisms, action: mechanisms of your own and the function from what they deliver (an array,
    after limits and gains) to the native action.
    observe: which channels: indices of the flattened observation, or a function of (env,
    observation); default all of it. names: of the channels.
    probe, task: `Pulse`; default a hold of a quarter of the range over 8 steps.
    Steps that draw random numbers (from the environment's `np_random`) disturb the machine; what is
    predicted for it then has draws of its own.
    fresh: make a new environment for every trajectory, so that equal seeds give equal bits
    whatever the environment keeps. False is faster where `reset(seed)` is exact.

    >>> plant = GymPlant("Pendulum-v1")
    >>> [m.name for m in plant.mechanisms], len(plant.channels)
    (['none', 'plus', 'minus'], 3)
    >>> plant.roll([[0, 0.25, 0]], seed=0).output.round(4).tolist()
    [[0.645, 0.7641, 0.1832]]
    """

    calm = True
    _actions: Optional[Callable[[np.ndarray], Any]] = None  # of a whole trajectory at once

    def __init__(self, env: Environment, *, order: Optional[Sequence[int]] = None,
                 limits: Optional[Sequence] = None, rest: float = 0.0,
                 idle: Optional[int] = None, mechanisms: Optional[Sequence[Mechanism]] = None,
                 action: Optional[Callable[[np.ndarray], Any]] = None,
                 observe: Union[Sequence[int], Callable[[Any, Any], Any], None] = None,
                 names: Optional[Sequence[str]] = None, probe: Optional[Pulse] = None,
                 task: Optional[Pulse] = None, fresh: bool = True, name: Optional[str] = None,
                 dt: Optional[float] = None, timeout: Optional[float] = None):
        gymnasium = _gymnasium()
        self._make = ((lambda: gymnasium.make(env, disable_env_checker=True))
                      if isinstance(env, str) else env)
        self._fresh = fresh
        self._used = False
        self.env = self._make().unwrapped
        if isinstance(env, str):
            self._make = _again(gymnasium, self.env, self._make)
        self.name = name or (env if isinstance(env, str) else type(self.env).__name__)
        self.version = f"gymnasium {gymnasium.__version__}"
        self.dt = self._control_step() if dt is None else dt
        self.timeout = timeout
        self.probe, self.task = probe, task
        if action is not None:
            if mechanisms is None:
                raise ValueError("action: give mechanisms with it, the current one first")
            self.mechanisms, self._action = list(mechanisms), action
        else:
            self._from_space(gymnasium.spaces, order, limits, rest, idle)
            if mechanisms is not None:
                raise ValueError("mechanisms: give action with it, from what they deliver to the "
                                 "native action")
        if isinstance(env, str) and self._is_default(order, limits, rest, idle, action, observe,
                                                     names, probe, task, name, dt):
            self.registered = f"gym:{env}"
        self._choose_channels(gymnasium.spaces, observe, names)
        self.calm = not self._draws()

    @staticmethod
    def _is_default(order: Any, limits: Any, rest: float, *others: Any) -> bool:
        return order is None and limits is None and rest == 0 and all(o is None for o in others)

    def _control_step(self) -> float:
        step = getattr(self.env, "dt", None)
        if isinstance(step, (int, float)) and math.isfinite(step) and step > 0:
            return float(step)
        fps = getattr(self.env, "metadata", {}).get("render_fps")
        return 1.0 / fps if fps else 0.0

    # --- from commands to actions

    def _from_space(self, spaces: Any, order: Any, limits: Any, rest: float, idle: Any) -> None:
        space = self.env.action_space
        if isinstance(space, spaces.Box) and math.prod(space.shape) >= 2:
            self._from_box(space, order, limits, rest)
        elif isinstance(space, spaces.Box):
            self._from_direction(space)
        elif isinstance(space, spaces.Discrete) and idle is not None:
            self._from_discrete(space, int(idle))
        elif isinstance(space, spaces.Discrete):
            raise ValueError(f"{self.name}: its actions are discrete; say which one is idle, or "
                             "give mechanisms and action")
        else:
            raise ValueError(f"{self.name}: actions {space} have no default; give mechanisms and "
                             "action")

    def _from_box(self, space: Any, order: Any, limits: Any, rest: float) -> None:
        lo, hi = space.low.ravel().astype(float), space.high.ravel().astype(float)
        index = np.array(range(len(lo)) if order is None else order, int)
        if len(index) < 2 or len(set(index)) < len(index) or not set(index) <= set(range(len(lo))):
            raise ValueError(f"order: {list(index)} must be two or more different actions of "
                             f"0..{len(lo) - 1}, the current one first")
        bounds = [(lo[i], hi[i]) for i in index] if limits is None else list(limits)
        if len(bounds) != len(index):
            raise ValueError(f"limits: {len(bounds)} pairs for {len(index)} mechanisms")
        self.mechanisms = [Mechanism(f"action{i}", float(a), float(b))
                           for i, (a, b) in zip(index, bounds)]
        shape, n = space.shape, len(lo)

        def actions(delivered: np.ndarray) -> np.ndarray:
            native = np.full((len(delivered), n), rest)
            native[:, index] = delivered
            return native.reshape((len(delivered), *shape))
        self._actions = actions
        self._action = lambda delivered: actions(delivered[None])[0]

    def _from_direction(self, space: Any) -> None:
        lo, hi = float(space.low.ravel()[0]), float(space.high.ravel()[0])
        if not (math.isfinite(lo) and math.isfinite(hi) and lo < 0 < hi):
            raise ValueError(f"{self.name}: its one action has limits {lo}..{hi}; give mechanisms "
                             "and action")
        self.mechanisms = [Mechanism("none", 0, 0), Mechanism("plus", 0, 1),
                           Mechanism("minus", 0, 1)]
        shape = space.shape

        def actions(delivered: np.ndarray) -> np.ndarray:
            values = hi * delivered[:, 1] + lo * delivered[:, 2]
            return values.reshape((-1, *(1 for _ in shape)))
        self._actions = actions
        self._action = lambda delivered: actions(delivered[None])[0]

    def _from_discrete(self, space: Any, idle: int) -> None:
        first = int(space.start)
        if not first <= idle < first + int(space.n):
            raise ValueError(f"idle: {idle} is not an action of {space}")
        taken = [a for a in range(first, first + int(space.n)) if a != idle]
        self.mechanisms = [Mechanism("none", 0, 0),
                           *(Mechanism(f"action{a}", 0, 1) for a in taken)]

        def action(delivered: np.ndarray) -> int:
            self._due = self._due + delivered
            j = int(np.argmax(self._due[1:])) + 1
            if self._due[j] < 1 - 1e-9:
                return idle
            self._due[j] -= 1
            return taken[j - 1]
        self._action = action

    # --- from observations to channels

    def _choose_channels(self, spaces: Any, observe: Any, names: Any) -> None:
        space = self.env.observation_space
        boxed = isinstance(space, spaces.Box)

        def flat(obs: Any) -> np.ndarray:
            if boxed and type(obs) is np.ndarray and obs.ndim == 1:
                return obs
            return np.asarray(obs if boxed else spaces.flatten(space, obs), np.float64).ravel()
        if callable(observe):
            self._channels = lambda obs: np.asarray(observe(self.env, obs), np.float64).ravel()
        elif observe is not None:
            index = np.array(observe, int)
            self._channels = lambda obs: flat(obs)[index]
        else:
            index = None
            self._channels = flat
        self._begin(0)
        n = len(self._channels(self._seen))
        if names is not None and len(names) != n:
            raise ValueError(f"names: {len(names)} for {n} channels")
        label = "channel" if callable(observe) else "obs"
        which = range(n) if callable(observe) or index is None else index
        self.channels = [Channel(c) for c in (names or [f"{label}{i}" for i in which])]

    # --- the plant

    def _begin(self, seed: int) -> None:
        if self._fresh and self._used:
            self.env.close()
            self.env = self._make().unwrapped
        self._used = True
        self._due = np.zeros(len(self.mechanisms))
        self._seen = self.env.reset(seed=seed)[0]

    def reset(self, seed: int, noise: bool) -> None:
        self._begin(seed)
        if not self.calm and not noise:
            # a prediction must not know what disturbs the machine that it is compared with
            self.env.np_random = np.random.default_rng([seed, 1])

    def _draws(self) -> bool:
        """Whether steps draw random numbers; the seed of a start then is not all that matters."""
        def dice() -> str:
            generator = getattr(self.env, "np_random", None)
            return repr(getattr(getattr(generator, "bit_generator", None), "state", None))
        self._begin(0)
        before = dice()
        lo, hi = self._limits()
        for _ in range(3):
            self.step(np.clip(np.zeros(len(lo)), lo, hi))
        return dice() != before

    def step(self, delivered: np.ndarray) -> None:
        self._seen = self.env.step(self._action(delivered))[0]

    def observe(self) -> np.ndarray:
        return self._channels(self._seen)

    def _advance(self, delivered: np.ndarray, rows: np.ndarray) -> None:
        if type(self).step is not GymPlant.step or type(self).observe is not GymPlant.observe:
            super()._advance(delivered, rows)
            return
        step, channels, shape = self.env.step, self._channels, rows.shape[1:]
        actions = self._actions(delivered) if self._actions else map(self._action, delivered)
        for t, action in enumerate(actions):
            seen = channels(step(action)[0])
            if seen.shape != shape:
                raise ValueError(f"{seen.shape} observations for {shape[0]} channels")
            rows[t + 1] = seen


def faults(env: Any, fault: Any = None, *, actions: Optional[Sequence[str]] = None,
           observations: Optional[Sequence[str]] = None,
           scale: Union[float, Sequence[float], None] = None, kit: Any = None,
           **options: Any) -> Any:
    """A Gymnasium environment with something wrong: the same environment, whose actions and
    observations pass through faults (docs/faults.md).

    env: an id, which `gymnasium.make` makes with `options`, or an environment. fault: as
    `Kit.check` takes it. Mechanisms are the components of the action (action0, action1, ... or
    numbers), channels those of the observation (obs0, obs1, ...), flattened; `actions` and
    `observations` name them. Both must be a Box of real numbers.

    What bias and noise of a channel count in: a twentieth of `scale`, the size of a change that
    matters (one number, or one per component), or what `kit` says, whose mechanisms and channels
    then have these names. Amplitudes of a mechanism are those of the kit's tasks, else a quarter of
    the range of the action.

    `reset(seed=s)` gives chance the draws that a plant with the seed s has. Later resets without a
    seed have draws of their own, each time the same after the same seed. The action reaches the
    environment in the type that it was given in. Readings may leave the bounds of their space, as
    those of a broken sensor do.

    >>> env = faults("Pendulum-v1", {"action0": 0.5, "obs2": "frozen"})
    >>> start = env.reset(seed=3)[0]
    >>> bool(env.step([1.0])[0][2] == start[2])
    True
    """
    gymnasium = _gymnasium()
    from preflight.faulty import Faulty
    if isinstance(env, str):
        env = gymnasium.make(env, **options)
    elif options:
        raise TypeError(f"faults() got {', '.join(options)}; options of gymnasium.make go with an "
                        "id, not with an environment")
    elif isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError("a vector of environments cannot have faults; put them on each: "
                        "gymnasium.make_vec(id, wrappers=[lambda env: preflight.faults(env, ...)])")
    elif not isinstance(env, gymnasium.Env):
        raise TypeError(f"an environment is an id or a gymnasium.Env, not {type(env).__name__}")
    return Faulty(env, fault, actions=actions, observations=observations, scale=scale, kit=kit)


def gym_plant(env_id: str) -> Plant:
    """The plant behind the name `gym:ID`: as the experiments use it where they do, else a
    `GymPlant` with its defaults."""
    from preflight.box2d import PLANTS
    if env_id in PLANTS:
        return PLANTS[env_id]()
    return GymPlant(env_id)
