# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""highway-env's highway-v0 with continuous actions as a plant.

Mechanism 0 is the throttle, the candidates brake, left and right. A start is a traffic scene, known
by its seed. Probes are 16 steps: the mechanism for eight, which are observed, then its opposite for
eight, which bring speed and heading back, are charged and not simulated here: the window is the
driven half, where a fault of the opposite mechanism cannot show.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from preflight.domain import DomainPlant, Flight, Forecast, Task
from preflight.plant import Channel, Mechanism, Pulse, Trace

STEP_S, SUBSTEPS = .2, 3
ACCELERATION, STEERING = 5.0, .05  # m/s2, rad: 6.25 m/s2 lateral at 25 m/s
LENGTH, LANE = 5.0, 4.0  # m, of a vehicle and between lanes
EGO_LANE, EGO_Y, EGO_SPEED = 1, 4.0, 25.0
CLEARED = 200.0  # m ahead in the lanes of a task
TTC_MOST, HEADWAY_MOST = 10.0, 100.0
LEAST_TTC = 1.0  # s, of the healthy policy in an admitted scene
NEXT_SCENE = 1000
REFERENCE_SCENE = 0  # of probes: the ego's response does not depend on traffic
SCALES = (1.514926, .227397, .012624)  # rms nominal pulse response in the window
CONFIG = {"action": {"type": "ContinuousAction", "steering_range": [-STEERING, STEERING],
                     "acceleration_range": [-ACCELERATION, ACCELERATION]},
          "simulation_frequency": 15, "policy_frequency": 5, "initial_lane_id": EGO_LANE,
          "vehicles_count": 20, "duration": 60}
# lead distance m, lead speed m/s, steps, lateral target m (None: stays), lanes cleared
GEOMETRY = ((45.0, 15.0, 40, None, (1,)),
            (60.0, 10.0, 25, 0.0, (1, 0)),
            (60.0, 10.0, 25, 8.0, (1, 2)))


def lower_tail(ttc: np.ndarray) -> float:
    """Mean of the lowest tenth of the steps, rounded down, at least one.

    >>> lower_tail(np.array([3., 1., 2.] + [10.] * 17))
    1.5
    """
    return float(np.sort(ttc)[:max(1, len(ttc) // 10)].mean())


def gaps(ego: Sequence[float], others: np.ndarray) -> tuple:
    """Time to collision and headway now. ego: x, y, heading, speed; others: a row of x, y, heading,
    speed each.

    >>> gaps((0, 4, 0, 25), np.array([[45., 4., 0., 15.], [20., 8., 0., 0.]]))
    (4.0, 40.0)
    """
    ttc, headway = TTC_MOST, HEADWAY_MOST
    for x, y, heading, speed in others:
        ahead = x - ego[0]
        if ahead > 0 and abs(y - ego[1]) < 2:
            closing = ego[3] * math.cos(ego[2]) - speed * math.cos(heading)
            headway = min(headway, ahead - LENGTH)
            if closing > 0:
                ttc = min(ttc, (ahead - LENGTH) / closing)
    return max(ttc, 0.0), max(headway, 0.0)


def lead_distance(scene: int, task: int) -> float:
    """Of the vehicle put ahead, to its rear; tasks count from 1."""
    draw = np.random.default_rng([scene, task]).random()
    return GEOMETRY[task - 1][0] * (1 + .1 * (2 * draw - 1))


def policy(task: int, x: Any, y: Any, heading: Any, speed: Any, lead_x: Any) -> tuple:
    """Brake, left, right before correction and limits; numbers or arrays."""
    _, lead_speed, _, target, _ = GEOMETRY[task - 1]
    none = 0.0 * x
    if target is None:
        room = np.maximum(lead_x - x - 2 * LENGTH, 1.0)
        return np.maximum(speed - lead_speed, 0.0) ** 2 / (2 * room) / ACCELERATION, none, none
    wanted = np.clip(.02 * (target - y), -.08, .08)
    wheel = .8 * (wanted - heading) * LENGTH / np.maximum(speed, 1.0) / STEERING
    return none, np.maximum(-wheel, 0.0), np.maximum(wheel, 0.0)


class Twin:
    """The ego and the vehicle ahead in closed form, many hypotheses at once."""

    def run(self, task: int, distance: float, gains: np.ndarray, correction: np.ndarray) -> tuple:
        """gains: hypotheses x mechanisms. Smallest time to collision (0 at a crash) and the share
        of the steps whose command asks for more than the limit."""
        _, lead_speed, steps, _, _ = GEOMETRY[task - 1]
        n = len(gains)
        x, y, heading = np.zeros(n), np.full(n, EGO_Y), np.zeros(n)
        speed, lead = np.full(n, EGO_SPEED), np.full(n, distance + LENGTH)
        alive, least, beyond = np.ones(n, bool), np.full(n, TTC_MOST), np.zeros(n)
        taken = np.zeros(n)
        for _ in range(steps):
            taken += alive
            wanted = policy(task, x, y, heading, speed, lead)
            asked = [c * u for c, u in zip(correction[1:], wanted)]
            beyond += alive & (np.maximum.reduce(asked) > 1)
            brake, left, right = (gains[:, j + 1] * np.clip(u, 0, 1) for j, u in enumerate(asked))
            push, wheel = -ACCELERATION * brake, STEERING * (right - left)
            slip = np.arctan(np.tan(wheel) / 2)
            for _ in range(SUBSTEPS):
                dt = STEP_S / SUBSTEPS
                x = x + speed * np.cos(heading + slip) * dt
                y = y + speed * np.sin(heading + slip) * dt
                heading = heading + speed * np.sin(slip) / (LENGTH / 2) * dt
                speed = speed + push * dt
                lead = lead + lead_speed * dt
                alive &= ~((np.abs(lead - x) < LENGTH) & (np.abs(y - EGO_Y) < 2))
            closing = speed * np.cos(heading) - lead_speed
            near = (lead > x) & (np.abs(y - EGO_Y) < 2) & (closing > 0)
            ttc = np.where(near, (lead - x - LENGTH) / np.where(near, closing, 1), TTC_MOST)
            least = np.where(alive, np.minimum(least, np.clip(ttc, 0, TTC_MOST)), 0.0)
        return least, beyond / taken


class Driving(DomainPlant):
    """highway-v0 with 20 vehicles."""

    name = "highway"
    registered = name
    title = "highway-env, highway-v0: brake and steering dormant"
    dt = STEP_S
    calm = True
    charge = .02
    timeout = 300.0
    metrics = ("return", "collision", "min_ttc", "min_headway", "tail_ttc", "beyond")
    mechanisms = [Mechanism(name, 0, 1) for name in ("throttle", "brake", "left", "right")]
    channels = [Channel(n, s) for n, s in zip(("speed", "lateral", "heading"), SCALES)]
    probe = Pulse([.1, .30, .05, .05], steps=8)
    tasks = [Task("brake", (1,), 40), Task("left", (2, 3), 25), Task("right", (2, 3), 25)]

    def __init__(self) -> None:
        super().__init__()
        from importlib.metadata import version

        import gymnasium
        import highway_env  # noqa: F401  registers the environments
        from highway_env.vehicle.kinematics import Vehicle
        self._vehicle = Vehicle
        self.version = " ".join(f"{p} {version(p)}" for p in ("highway-env", "gymnasium", "numpy"))
        self.env = gymnasium.make("highway-v0", config=CONFIG).unwrapped
        self._twin = Twin()
        self._scenes: dict = {}

    # --- probes

    def key(self, seed: int, state: Any, noise: bool) -> Any:
        return None if state is None else ("scene", float(state[0]))

    def _trace(self, commands: np.ndarray, gains: np.ndarray, seed: int, state: np.ndarray,
               noise: bool) -> Trace:
        reference = np.array([float(REFERENCE_SCENE)])
        trace = super()._trace(commands, gains, seed, reference, noise)
        return trace._replace(start=state)

    def reset(self, seed: int, noise: bool) -> None:
        self.env.reset(seed=seed)

    def step(self, delivered: np.ndarray) -> None:
        # env.step without observation and reward, which cost as much as the traffic
        env = self.env
        env.time += 1 / env.config["policy_frequency"]
        env._simulate(np.array([delivered[0] - delivered[1], delivered[3] - delivered[2]]))

    def observe(self) -> Any:
        ego = self.env.vehicle
        return [ego.speed, ego.position[1], ego.heading]

    # --- tasks

    def _place(self, scene: int, task: int) -> None:
        """The scene with the lanes of the task cleared and a slow vehicle ahead."""
        self.env.reset(seed=scene)
        _, lead_speed, _, _, lanes = GEOMETRY[task - 1]
        road, ego = self.env.road, self.env.vehicle
        x = ego.position[0]
        road.vehicles = [v for v in road.vehicles if v is ego or not (
            0 < v.position[0] - x < CLEARED and round(v.position[1] / LANE) in lanes)]
        ahead = x + lead_distance(scene, task) + LENGTH
        lead = self._vehicle(road, [ahead, EGO_Y], 0.0, lead_speed)
        road.vehicles.append(lead)
        self._lead = lead

    def _drive(self, scene: int, task: int, gains: np.ndarray, correction: np.ndarray) -> tuple:
        self._place(scene, task)
        env, steps = self.env, GEOMETRY[task - 1][2]
        ego = env.vehicle
        initial, output = np.array(self.observe()), np.empty((steps, 3))
        ttc, headway, beyond = [], [], 0
        for t in range(steps):
            asked = correction * np.array([0.0, *policy(
                task, ego.position[0], ego.position[1], ego.heading, ego.speed,
                self._lead.position[0])])
            beyond += bool((asked > 1).any())
            self.step(gains * np.clip(asked, 0, 1))
            output[t:] = self.observe()
            others = np.array([[*v.position, v.heading, v.speed]
                               for v in env.road.vehicles if v is not ego])
            now = (0.0, 0.0) if ego.crashed else gaps((*ego.position, ego.heading, ego.speed),
                                                      others)
            ttc.append(now[0])
            headway.append(now[1])
            if ego.crashed:
                break
        told = {"collision": float(ego.crashed), "min_ttc": float(min(ttc)),
                "min_headway": float(min(headway)),
                "tail_ttc": lower_tail(np.array(ttc)), "beyond": beyond / len(ttc)}
        return initial, output, told

    def scene(self, seed: int, task: int) -> tuple:
        """The first admitted scene from a seed on, and the healthy policy's smallest time to
        collision there: found once per (seed, task)."""
        if (seed, task) not in self._scenes:
            scene, ones = seed, np.ones(4)
            while True:
                told = self._drive(scene, task, ones, ones)[2]
                if not told["collision"] and told["min_ttc"] >= LEAST_TTC:
                    break
                scene += NEXT_SCENE
            self._scenes[seed, task] = scene, told["min_ttc"]
        return self._scenes[seed, task]

    def fly(self, task: int, gains: np.ndarray, correction: np.ndarray, noise: bool) -> Flight:
        scene, healthy = self.scene(int(self._start[0]), task + 1)
        initial, output, told = self._drive(scene, task + 1, gains, correction)
        told["return"] = 0.0 if told["collision"] else min(1.0, told["min_ttc"] / healthy)
        return Flight(Trace(np.array(self._start), initial, output), told)

    def forecast(self, task: int, gains: np.ndarray, correction: np.ndarray,
                 seed: int) -> Forecast:
        scene, healthy = self.scene(int(self._start[0]), task + 1)
        least, beyond = self._twin.run(task + 1, lead_distance(scene, task + 1), gains, correction)
        return Forecast(np.minimum(1.0, least / healthy)[None, :], beyond)
