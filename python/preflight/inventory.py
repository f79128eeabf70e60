# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""gym-invmgmt's supply chains as plants: serial with backlog, serial with lost sales, network.

Mechanisms are replenishment links; a supplier's yield multiplies the order. Before the reveal only
link 0, which feeds the retailer, orders; the others are dormant and upstream stocks carry the
demand. A contract is a 60-period deployment fed over one link. Demand is the disturbance: the seed
draws it, without noise it is its mean.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from preflight.domain import DomainPlant, Flight, Forecast, Task
from preflight.plant import Channel, Mechanism, Pulse, Trace

MEAN, PERIODS = 20.0, 60
CAP = 100.0  # pieces per order: five periods of demand
SAFETY = 2.33  # 99 %: the smallest usual factor at which every healthy contract can be certified
SUPPLY = 6000.0  # opening stock of the supplier of a contract's first link
SHOCK_TIME, SHOCK_SIZE = 15, 2.0  # the package's own shock
SHOCK = "shock=demand"
LEAST_UNFILLED = 1e-9


def base_stock(mean: Any, horizon: float) -> Any:
    """Order-up-to level for so many periods of Poisson demand."""
    return mean * horizon + SAFETY * np.sqrt(mean * horizon)


def on_time_in_full(unfilled: np.ndarray) -> Any:
    """Share of the periods (first axis) in which demand and backlog were served in full.

    >>> float(on_time_in_full(np.array([0., 3., 0., 1e-12])))
    0.75
    """
    return (np.asarray(unfilled) <= LEAST_UNFILLED).mean(axis=0)


class Chain:
    """The links of a network, and for each the path of links down to the retailer."""

    def __init__(self, env: Any):
        network = env.network
        self.links = [tuple(link) for link in network.reorder_links]
        self.lead = [int(network.lead_times[link]) for link in self.links]
        self.nodes = list(network.main_nodes)  # managed
        self.column = [network.node_map[node] for node in self.nodes]
        self.native = [float(network.graph.nodes[node].get("I0", 0)) for node in self.nodes]
        self.capacity = {node: float(network.graph.nodes[node]["C"]) for node in network.factory}
        self.raw = set(network.rawmat)
        self.retailer = self.links[0][1]

    def path(self, link: int) -> list:
        """Links from this one to the retailer, the lowest index where there is a choice."""
        path = [link]
        while self.links[path[-1]][1] != self.retailer:
            node = self.links[path[-1]][1]
            path.append(min(i for i, (supplier, _) in enumerate(self.links) if supplier == node))
        return path

    def horizons(self, path: Sequence[int]) -> list:
        """Periods of demand that each link of a path answers for."""
        horizons, total = [], 1.0
        for k in reversed(path):
            total += self.lead[k] + (self.links[k][1] != self.retailer)
            horizons.append(total)
        return horizons[::-1]

    def opening(self, path: Sequence[int]) -> list:
        """Opening stock of every managed node for the contract of a path's first link."""
        levels = [base_stock(MEAN, h) for h in self.horizons(path)] + [0.0]
        stock = dict.fromkeys(self.nodes, 0.0)
        for i, k in enumerate(path):
            stock[self.links[k][1]] = float(math.ceil(levels[i] - levels[i + 1]))
        supplier = self.links[path[0]][0]
        if supplier not in self.raw:
            stock[supplier] = SUPPLY
        return [stock[node] for node in self.nodes]


def mean_demand(t: int, shock: bool) -> float:
    return MEAN * (SHOCK_SIZE if shock and t >= SHOCK_TIME else 1.0)


class Twin:
    """The package's arithmetic on one contract for many columns (hypothesis, draw) at once."""

    def __init__(self, chain: Chain, link: int, backlog: bool):
        self.chain, self.backlog = chain, backlog
        self.path = chain.path(link)
        self.horizons = chain.horizons(self.path)
        self.order = sorted(range(len(self.path)), key=lambda i: self.path[i])
        self.receiver = [chain.links[k][1] for k in self.path]
        self.supplier = [chain.links[k][0] for k in self.path]

    def _ship(self, i: int, wanted: np.ndarray, stock: dict, capacity: dict) -> np.ndarray:
        """What a supplier sends of an order, from the stock before deliveries."""
        supplier = self.supplier[i]
        if supplier in self.chain.raw:
            return wanted
        sent = np.minimum(wanted, stock[supplier])
        if supplier in capacity:
            sent = np.minimum(sent, capacity[supplier])
            capacity[supplier] = capacity[supplier] - sent
        stock[supplier] = stock[supplier] - sent
        return sent

    def run(self, demand: np.ndarray, gains: np.ndarray, correction: np.ndarray,
            shock: bool) -> tuple:
        """demand: periods x columns, gains: columns x links. Unfilled demand, periods x columns,
        and the share of the orders that ask for more than the cap."""
        n, links = demand.shape[1], range(len(self.path))
        stock = {node: np.full(n, s) for node, s in
                 zip(self.chain.nodes, self.chain.opening(self.path))}
        sent = np.zeros((len(self.path), len(demand), n))
        transit = [np.zeros(n) for _ in links]
        owed, unfilled, beyond = np.zeros(n), np.empty(demand.shape), np.zeros(n)
        for t in range(len(demand)):
            mean = mean_demand(t, shock)
            orders, position = [None] * len(self.path), -owed if self.backlog else np.zeros(n)
            for i in reversed(links):
                position = position + stock[self.receiver[i]] + transit[i]
                asked = correction[self.path[i]] * np.maximum(
                    0.0, base_stock(mean, self.horizons[i]) - position)
                beyond += asked > CAP
                orders[i] = gains[:, self.path[i]] * np.clip(asked, 0.0, CAP)
            left = dict(stock)
            capacity = dict(self.chain.capacity)
            for i in self.order:
                sent[i, t] = self._ship(i, orders[i], left, capacity)
            for i in links:
                lead = self.chain.lead[self.path[i]]
                arrived = sent[i, t - lead] if t >= lead else 0.0
                left[self.receiver[i]] = left[self.receiver[i]] + arrived
                transit[i] = transit[i] + sent[i, t] - arrived
            wanted = demand[t] + owed if self.backlog else demand[t]
            sold = np.minimum(wanted, left[self.chain.retailer])
            left[self.chain.retailer] = left[self.chain.retailer] - sold
            unfilled[t] = wanted - sold
            owed = unfilled[t]
            stock = left
        return unfilled, beyond / (len(demand) * len(self.path))


class Inventory(DomainPlant):
    """Base of the three. State: nothing but the demand is random, and the seed draws it."""

    scenario, backlog = "serial", True
    rms = 40.0  # pieces, of the nominal pulse response: the scale of every channel
    dt = 0.0
    state_size = 1
    draws = 64
    KEPT = 4000
    metrics = ("return", "otif", "beyond")

    def __init__(self) -> None:
        super().__init__()
        from importlib.metadata import version

        import gym_invmgmt
        self._core = gym_invmgmt.CoreEnv
        self.env = self._make(False)
        self._shocked = self._make(True)
        self.chain = Chain(self.env)
        links = range(len(self.chain.links))
        self.version = " ".join(f"{p} {version(p)}" for p in ("gym-invmgmt", "numpy", "scipy"))
        self.mechanisms = [Mechanism(f"link_{i}", 0, CAP) for i in links]
        self.channels = [Channel(f"stock_{node}", self.rms) for node in self.chain.nodes]
        # passive operation is the retailer's own base stock, below
        self.probe = Pulse([0.0] + [20.0] * (len(links) - 1), steps=4, rows=8)
        plain = [Task(f"link_{i}", sorted(k for k in self.chain.path(i) if k > 0), PERIODS)
                 for i in links[1:]]
        self.tasks = plain + [Task(f"{t.name} {SHOCK}", t.mechanisms, t.rows) for t in plain]
        self._level = base_stock(MEAN, self.chain.horizons([0])[0])
        self._twins = [Twin(self.chain, i, self.backlog) for i in links[1:]]

    def _make(self, shock: bool) -> Any:
        demand = {"type": "stationary", "base_mu": 20, "use_goodwill": False}
        if shock:
            demand.update(type="shock", shock_time=SHOCK_TIME, shock_mag=SHOCK_SIZE)
        return self._core(self.scenario, backlog=self.backlog, num_periods=PERIODS,
                          demand_config=demand)

    # --- probes

    def start(self, seed: int) -> Sequence[float]:
        return [0.0]

    def key(self, seed: int, state: Any, noise: bool) -> Any:
        return None if noise else ("mean",)

    def _open(self, env: Any, stock: Sequence[float], noise: bool) -> None:
        for node, amount in zip(self.chain.nodes, stock):
            env.network.graph.nodes[node]["I0"] = amount
        env.demand_engine.noise_scale = 1.0 if noise else 0.0
        env.reset(seed=self._seed)

    def reset(self, seed: int, noise: bool) -> None:
        self._seed = seed
        self._open(self.env, self.chain.native, noise)

    def load(self, state: Any, noise: bool) -> None:
        self._open(self.env, self.chain.native, noise)

    def state(self) -> Any:
        return [0.0]

    def _owed(self, env: Any) -> float:
        return float(env.U[env.period - 1, 0]) if self.backlog and env.period > 0 else 0.0

    def deliver(self, command: np.ndarray, gains: np.ndarray) -> np.ndarray:
        env, column = self.env, self.env.network.node_map[self.chain.retailer]
        position = env.X[env.period, column] + env.Y[env.period, 0] - self._owed(env)
        ordered = command.copy()
        ordered[0] += max(0.0, self._level - position)
        return super().deliver(ordered, gains)

    def step(self, delivered: np.ndarray) -> None:
        self.env.step(delivered)

    def observe(self) -> Any:
        return self.env.X[self.env.period, self.chain.column]

    # --- contracts

    def _variant(self, task: int) -> tuple:
        """The twin of a task, and whether it is under the shock."""
        n = len(self._twins)
        return self._twins[task % n], task >= n

    def _flight(self, task: int, gains: np.ndarray, correction: np.ndarray, seed: int,
                state: np.ndarray, noise: bool) -> Flight:
        if not 0 <= task < len(self.tasks):
            raise ValueError(f"task: {task} is not one of {len(self.tasks)}")
        path = self._variant(task)[0].path
        self._seed = seed
        return self.remember((seed, noise, task, gains[path].tobytes(), correction[path].tobytes()),
                             lambda: self.fly(task, gains, correction, noise))

    def fly(self, task: int, gains: np.ndarray, correction: np.ndarray, noise: bool) -> Flight:
        twin, shock = self._variant(task)
        env = self._shocked if shock else self.env
        self._open(env, self.chain.opening(twin.path), noise)
        output, beyond = np.empty((PERIODS, len(self.channels))), 0
        initial = env.X[0, self.chain.column].copy()
        for t in range(PERIODS):
            position, asked = -self._owed(env), np.zeros(len(self.mechanisms))
            mean = env.demand_engine.get_current_mu(t)
            for k, horizon in zip(reversed(twin.path), reversed(twin.horizons)):
                column = env.network.node_map[self.chain.links[k][1]]
                position += env.X[t, column] + env.Y[t, k]
                asked[k] = correction[k] * max(0.0, base_stock(mean, horizon) - position)
            beyond += int((asked > CAP).sum())
            env.step(gains * np.clip(asked, 0.0, CAP))
            output[t] = env.X[t + 1, self.chain.column]
        served = float(on_time_in_full(env.U[:, 0]))
        trace = Trace(np.array([0.0]), initial, output)
        return Flight(trace, {"return": served, "otif": served,
                              "beyond": beyond / (PERIODS * len(twin.path))})

    def forecast(self, task: int, gains: np.ndarray, correction: np.ndarray,
                 seed: int) -> Forecast:
        twin, shock = self._variant(task)
        # hypotheses that agree on the path are one
        rows, which = np.unique(gains[:, twin.path], axis=0, return_inverse=True)
        full = np.ones((len(rows), gains.shape[1]))
        full[:, twin.path] = rows
        demand = self._draw(seed, shock)
        n, draws = len(rows), demand.shape[1]
        unfilled, beyond = twin.run(np.repeat(demand, n, axis=1), np.tile(full, (draws, 1)),
                                    correction, shock)
        served = on_time_in_full(unfilled).reshape(draws, n)
        which = np.asarray(which).ravel()
        return Forecast(served[:, which], beyond.reshape(draws, n).mean(axis=0)[which])

    def _draw(self, seed: int, shock: bool) -> np.ndarray:
        """periods x draws; the shock doubles the mean of the same stream."""
        mean = [mean_demand(t, shock) for t in range(PERIODS)]
        rng = np.random.default_rng([seed, 64])
        return rng.poisson(mean, (self.draws, PERIODS)).T.astype(float)


class Serial(Inventory):
    name = "inventory_serial"
    registered = name
    title = "gym-invmgmt, serial supply chain with backlog"


class LostSales(Inventory):
    name = "inventory_lost_sales"
    registered = name
    title = "gym-invmgmt, serial supply chain with lost sales"
    backlog = False


class MultiEchelon(Inventory):
    name = "inventory_multi"
    registered = name
    title = "gym-invmgmt, multi-echelon network"
    scenario = "network"
    rms = 28.0
