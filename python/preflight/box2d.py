# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's Box2D environments as plants: the two walkers and the racing car.

The start is the seed: reset and replay are exact in a new b2World only, so every trajectory begins
with one. Observations are float32 inside; they are widened before anything is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from preflight.plant import Channel, Mechanism, Plant, Pulse

WALKER_CHANNELS = ("hull_angle", "hull_rate", "hull_vx", "hull_vy", "hip_1", "hip_1_speed",
                   "knee_1", "knee_1_speed", "hip_2", "hip_2_speed", "knee_2", "knee_2_speed")
# observations without the contact flags (8, 13) and the lidar (14..23)
WALKER_OBSERVED = np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12])
# rms pulse response over seeds 1000..1039
WALKER_SCALE = (.063151, .025538, .011708, .031412, .12806, .40283, .14148, .57047, .092605,
                .48524, .13734, .74025)
HARDCORE_SCALE = (.063159, .025541, .011705, .031342, .12801, .40264, .1414, .57033, .092579,
                  .48516, .13731, .74013)
CAR_SCALE = (13.003, 26.587, 26.599, 26.822, 26.837, .20622, 1.0519)
GRAVITY = -10.  # of a b2World, which the walkers do not change
CAR_WARM_UP, CAR_THROTTLE = 24, .5  # steps of throttle before a probe


def _versions(gymnasium: Any) -> str:
    import Box2D
    return f"gymnasium {gymnasium.__version__} box2d {Box2D.__version__}"


class Walker(Plant):
    """BipedalWalker-v3 or its hardcore variant. Mechanism 0 is hip_1, the candidates knee_1, hip_2
    and knee_2; a gain scales the torque cap of a speed servo. With another gravity than Gymnasium's
    it is another plant."""

    dt = .02
    calm = True
    mechanisms = [Mechanism(name, -1, 1) for name in ("hip_1", "knee_1", "hip_2", "knee_2")]
    # negative first: the knees start at their upper stop
    probe = Pulse([-.20, -.55, -.55, -.55], steps=8, doublet=True)
    task = Pulse([0, -.25, -.25, -.25], steps=12, doublet=True)

    def __init__(self, hardcore: bool = False, gravity: float = GRAVITY):
        import gymnasium
        from gymnasium.envs.box2d.bipedal_walker import BipedalWalker
        self.name = "BipedalWalkerHardcore-v3" if hardcore else "BipedalWalker-v3"
        self._gravity = gravity
        if gravity != GRAVITY:
            self.name = "preflight/HeavyBipedalWalker-v3"
        self.registered = "gym:" + self.name
        self.title = "Gymnasium's walker, two legs on Box2D" + (", hardcore" if hardcore else "")
        self.version = _versions(gymnasium) + (
            "" if gravity == GRAVITY else f" gravity {gravity:g}")  # a model knows its physics
        scale = HARDCORE_SCALE if hardcore else WALKER_SCALE
        self.channels = [Channel(n, s) for n, s in zip(WALKER_CHANNELS, scale)]
        self.env = BipedalWalker(hardcore=hardcore)
        self._seen = np.zeros(24)

    def reset(self, seed: int, noise: bool) -> None:
        import Box2D
        env = self.env
        env._destroy()
        env.terrain, env.hull, env.world = [], None, Box2D.b2World(gravity=(0, self._gravity))
        self._seen = env.reset(seed=seed)[0]

    def step(self, delivered: np.ndarray) -> None:
        self._seen = self.env.step(delivered)[0]

    def observe(self) -> np.ndarray:
        return np.asarray(self._seen, dtype=np.float64)[WALKER_OBSERVED]


class Car(Plant):
    """CarRacing-v3 by its physics, without the picture. Mechanism 0 is the throttle, the candidates
    steer and brake; a trajectory begins after 24 steps of half throttle. On a road with less grip
    than Gymnasium's it is another plant."""

    name = "CarRacing-v3"
    registered = "gym:CarRacing-v3"
    title = "Gymnasium's racing car on Box2D"
    dt = .02
    calm = True
    mechanisms = [Mechanism("throttle", 0, 1), Mechanism("steer", -1, 1), Mechanism("brake", 0, 1)]
    channels = [Channel(n, s) for n, s in zip(
        ("speed", "wheel_0", "wheel_1", "wheel_2", "wheel_3", "steer_angle", "yaw_rate"),
        CAR_SCALE)]
    probe = Pulse([CAR_THROTTLE, .65, .80], steps=8)
    task = Pulse([0, .25, .25], steps=12)

    def __init__(self, grip: float = 1.) -> None:
        import gymnasium
        from gymnasium.envs.box2d.car_racing import CarRacing
        self._grip = grip
        if grip != 1:
            self.name = "preflight/SlipperyCarRacing-v3"
            self.registered = "gym:" + self.name
        self.version = _versions(gymnasium) + ("" if grip == 1 else f" grip {grip:g}")
        self.env = CarRacing()
        self.env._render = lambda mode: None  # the picture costs 80 times the physics

    def reset(self, seed: int, noise: bool) -> None:
        import Box2D
        env = self.env
        env._destroy()
        env.road, env.car, env.world = [], None, Box2D.b2World((0, 0))
        env.reset(seed=seed)
        for tile in env.road:
            tile.road_friction *= self._grip
        for _ in range(CAR_WARM_UP):
            self.step(np.array([CAR_THROTTLE, 0., 0.]))

    def step(self, delivered: np.ndarray) -> None:
        self.env.step(delivered[[1, 0, 2]])  # native order: steer, throttle, brake

    def observe(self) -> list:
        car = self.env.car
        speed = np.sqrt(np.square(car.hull.linearVelocity[0])
                        + np.square(car.hull.linearVelocity[1]))
        return [float(speed), *(float(w.omega) for w in car.wheels),
                float(car.wheels[0].joint.angle), float(car.hull.angularVelocity)]


PLANTS = {
    "BipedalWalker-v3": lambda: Walker(False),
    "BipedalWalkerHardcore-v3": lambda: Walker(True),
    "CarRacing-v3": Car,
    # the physics that the ensembles of suite cross-physics are learned in
    "preflight/HeavyBipedalWalker-v3": lambda: Walker(gravity=1.2 * GRAVITY),
    "preflight/SlipperyCarRacing-v3": lambda: Car(grip=.8),
}
