# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Grid2Op's L2RPN NeurIPS 2020 grid as a plant, on the data inside the package.

Six redispatchable generators, one per ramp rate: unit 3 balances, the five others are the
candidates. Commands are increments in MW per step; what a candidate delivers, unit 3 takes back, so
that the sum of what is delivered is zero. A start is (chronic, step).
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Sequence

import numpy as np

from preflight.domain import DomainPlant, Flight, Forecast, Task
from preflight.plant import Channel, Mechanism, Pulse, Trace

UNITS = (3, 0, 10, 16, 20, 21)  # native indices
CHRONICS, LAST_START = 2, 848
ACTIVE, ROWS = 6, 12  # steps of a task: raised, then held
SHARE = .5  # of the ramp: amplitude of probes and tasks
ANCHOR = .35  # gain whose prediction is simulated
RMS_MW = 1.04  # pooled rms nominal pulse response of the line flows


def headroom_shortfall(dispatched: float, requested: float) -> float:
    """Undelivered share of a request.

    >>> headroom_shortfall(3.0, 4.0), headroom_shortfall(5.0, 4.0)
    (0.25, 0.0)
    """
    return max(0.0, 1.0 - dispatched / requested)


def ramp_infeasible(asked: float, limits: Sequence[float]) -> tuple:
    """Share of the steps in which more is asked than the limit of the step, and the excess share
    of what is asked.

    >>> ramp_infeasible(4.0, [4.0, 2.0, 4.0, 3.0])
    (0.5, 0.1875)
    """
    limits = np.asarray(limits, dtype=np.float64)
    return (float((asked > limits).mean()),
            float(np.maximum(0.0, asked - limits).sum() / (asked * len(limits))))


def tracking_return(response: np.ndarray, reference: np.ndarray, free: np.ndarray) -> float:
    """exp(-NTE) on the line flows.

    >>> tracking_return(np.array([1.]), np.array([2.]), np.array([0.])) == math.exp(-.25)
    True
    """
    error = float(np.square(response - reference).sum() / np.square(reference - free).sum())
    return math.exp(-min(error, 10.0))


class Grid(DomainPlant):
    """l2rpn_neurips_2020_track1 without opponent and without disconnection by overflow."""

    name = "grid2op"
    registered = name
    title = "Grid2Op, L2RPN NeurIPS 2020: five dormant generators"
    dt = 300.0
    calm = True
    state_size = 2
    timeout = 300.0
    metrics = ("return", "shortfall", "ramp_infeasible", "ramp_excess", "beyond")

    def __init__(self) -> None:
        super().__init__()
        from importlib.metadata import version
        self.version = " ".join(f"{p} {version(p)}" for p in ("grid2op", "lightsim2grid"))
        self.env = self._make()
        names = [str(self.env.name_gen[u]) for u in UNITS]
        self.ramp = np.array([float(self.env.gen_max_ramp_up[u]) for u in UNITS])
        self.mechanisms = [Mechanism(n, -r, r) for n, r in zip(names, self.ramp)]
        self.channels = [Channel(f"flow_{i}", RMS_MW) for i in range(self.env.n_line)]
        # the balancing unit follows its schedule in passive operation
        self.probe = Pulse([0.0, *(SHARE * self.ramp[1:])], steps=8, doublet=True)
        # the same as the tasks below, open loops that a kit can cut at the limits
        self.task = Pulse([0.0, *(SHARE * self.ramp[1:])], steps=ACTIVE, rows=ROWS)
        self.tasks = [Task(n, (j,), ROWS) for j, n in enumerate(names) if j > 0]
        self._idle = self.env.action_space({})

    @staticmethod
    def _make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import grid2op
            from grid2op.Action import DontAct
            from grid2op.Chronics import MultifolderWithCache
            from grid2op.Opponent import BaseOpponent, NeverAttackBudget
            from grid2op.Parameters import Parameters
            from lightsim2grid import LightSimBackend
            p = Parameters()
            p.NO_OVERFLOW_DISCONNECTION = True
            p.ALLOW_DISPATCH_GEN_SWITCH_OFF = True
            p.IGNORE_MIN_UP_DOWN_TIME = True
            env = grid2op.make(
                "l2rpn_neurips_2020_track1", test=True, backend=LightSimBackend(), param=p,
                chronics_class=MultifolderWithCache,
                opponent_class=BaseOpponent, opponent_action_class=DontAct,
                opponent_budget_class=NeverAttackBudget, opponent_init_budget=0.,
                opponent_budget_per_ts=0.)
            # both chronics read once: a reset reads files otherwise, two thirds of a trajectory
            env.chronics_handler.real_data.set_filter(lambda name: True)
            env.chronics_handler.real_data.reset()
            return env

    # --- probes

    def start(self, seed: int) -> Sequence[float]:
        rng = np.random.default_rng(seed)
        return [float(rng.integers(CHRONICS)), float(rng.integers(1, LAST_START + 1))]

    def _trace(self, commands: np.ndarray, gains: np.ndarray, seed: int, state: np.ndarray,
               noise: bool) -> Trace:
        """What happens is simulated; a prediction (no noise) at a gain between lies on the line
        through those at 1 and at ANCHOR, from which the simulator departs by .003 of z at most."""
        weak = np.flatnonzero(gains != 1)
        if noise or len(commands) == 0 or len(weak) != 1 or gains[weak[0]] == ANCHOR:
            return super()._trace(commands, gains, seed, state, noise)
        anchor = gains.copy()
        anchor[weak] = ANCHOR
        one = super()._trace(commands, np.ones(len(gains)), seed, state, noise)
        far = super()._trace(commands, anchor, seed, state, noise)
        share = (1 - gains[weak[0]]) / (1 - ANCHOR)
        return one._replace(output=one.output + share * (far.output - one.output))

    def reset(self, seed: int, noise: bool) -> None:
        self.load(np.array(self.start(seed)), noise)

    def load(self, state: np.ndarray, noise: bool) -> None:
        chronic, step = int(state[0]), int(state[1])
        if not (0 <= chronic < CHRONICS and 1 <= step <= LAST_START):
            raise ValueError(f"state: chronic {chronic}, step {step} is not in 0..{CHRONICS - 1}, "
                             f"1..{LAST_START}")
        self._at = (chronic, step)
        self._seen = self.env.reset(seed=0, options={"time serie id": chronic, "init ts": step})

    def state(self) -> Any:
        return [float(v) for v in self._at]

    def step(self, delivered: np.ndarray) -> None:
        # a unit cannot move faster than it can ramp, whatever its gain
        moved = np.clip(delivered, -self.ramp, self.ramp)
        action = self._idle
        if moved.any():
            increments = np.zeros(self.env.n_gen)
            increments[list(UNITS[1:])] = moved[1:]
            increments[UNITS[0]] = moved[0] - moved[1:].sum()
            action = self.env.action_space({"redispatch": increments})
        self._seen, _, done, info = self.env.step(action)
        if done or info["is_illegal"] or info["is_ambiguous"] or info["exception"]:
            raise RuntimeError(f"grid2op refused a step from chronic {self._at[0]}, step "
                               f"{self._at[1]}: {info['exception']}")

    def observe(self) -> Any:
        return self._seen.p_or

    # --- tasks

    def _raise(self, j: int, gain: float, correction: float) -> tuple:
        """Unit j raised and held: flows by step, dispatch at the end, limit before each active
        step."""
        asked, unit = correction * SHARE * self.ramp[j], UNITS[j]
        command, gains = np.zeros(len(UNITS)), np.ones(len(UNITS))
        gains[j] = gain
        self.load(self._start, False)
        flows, limits = np.empty((ROWS, len(self.channels))), []
        for t in range(ROWS):
            command[j] = asked if t < ACTIVE else 0.0
            if t < ACTIVE:
                limits.append(min(float(self._seen.gen_margin_up[unit]), self.ramp[j]))
            self.step(self.deliver(command, gains))
            flows[t] = self.observe()
        return flows, float(self._seen.actual_dispatch[unit]), limits

    def _free(self) -> tuple:
        """Flows before and without any command."""
        self.load(self._start, False)
        initial, flows = np.array(self.observe(), float), np.empty((ROWS, len(self.channels)))
        for t in range(ROWS):
            self.step(np.zeros(len(UNITS)))
            flows[t] = self.observe()
        return initial, flows

    def fly(self, task: int, gains: np.ndarray, correction: np.ndarray, noise: bool) -> Flight:
        j, start = task + 1, tuple(self._start)
        initial, free = self.remember((start, "free"), self._free)
        reference = self.remember((start, j, 1.0, 1.0), lambda: self._raise(j, 1.0, 1.0))[0]
        gain, c = float(gains[j]), float(correction[j])
        flows, dispatched, limits = self.remember((start, j, gain, c),
                                                  lambda: self._raise(j, gain, c))
        amplitude = SHARE * self.ramp[j]
        infeasible, excess = ramp_infeasible(c * amplitude, limits)
        told = {"return": tracking_return(flows, reference, free),
                "shortfall": headroom_shortfall(dispatched, ACTIVE * amplitude),
                "ramp_infeasible": infeasible, "ramp_excess": excess,
                "beyond": float(c * amplitude > self.ramp[j])}
        return Flight(Trace(np.array(self._start), initial, flows), told)

    def forecast(self, task: int, gains: np.ndarray, correction: np.ndarray,
                 seed: int) -> Forecast:
        """The closed form: the return depends on the delivered share alone."""
        j = task + 1
        asked = correction[j] * SHARE
        share = gains[:, j] * min(asked, 1.0) / SHARE
        return Forecast(np.exp(-np.square(1 - share))[None, :],
                        np.full(len(gains), float(asked > 1.0)))
