# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's Box2D environments: the validation values, measured with gymnasium 1.4.0 and box2d
2.3.10 by an independent prototype. Other versions give other digits."""
import unittest

import gymnasium
import numpy as np
import preflight
from preflight.box2d import PLANTS
from support import Case

# x_1[0], x_1[last], x_8[0], x_8[last] of the probe on candidate 1 from seed 0, at g 1 and .35;
# |h| and the uncorrected return at .35 per candidate
VALUES = {
    "BipedalWalker-v3": ((-.006181796081, -.1805980206, -.008186471649, -.33309865),
                         (-.00618209783, -.1805316955, -.008859324269, -.4263186753),
                         (4.01053, 9.25958, 3.50815), (.659569, .64457, .663476)),
    "BipedalWalkerHardcore-v3": ((-.006180869881, -.1810138822, -.007337821182, -.2946095169),
                                 (-.006181029603, -.1809499413, -.008837153204, -.426394701),
                                 (4.25126, 9.28381, 3.50941), (.659416, .644543, .663098)),
    "CarRacing-v3": ((23.6455832, .002377043944, 25.79603186, -2.550528049),
                     (23.6455832, .002377043944, 26.12321091, -1.501871586),
                     (1.9835, 5.16114), (.674638, .655431)),
}
CAR = ["throttle", "steer", "brake"]
MECHANISMS = {"CarRacing-v3": CAR, "preflight/SlipperyCarRacing-v3": CAR}


class Box2DTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.plants = {name: make() for name, make in PLANTS.items()}

    def weak(self, plant, pulse, j, gain):
        gains = np.ones(len(plant.mechanisms))
        gains[j] = gain
        return plant.roll(pulse.command(len(gains), j), gains, seed=0).output

    def test_probe_responses(self):
        for name, (nominal, changed, _, _) in VALUES.items():
            plant = self.plants[name]
            for gain, want in ((1, nominal), (.35, changed)):
                x = self.weak(plant, plant.probe, 1, gain)
                got = (x[0, 0], x[0, -1], x[7, 0], x[7, -1])
                np.testing.assert_allclose(
                    got, want, rtol=2e-9, err_msg=f"{name} at {gain} with {plant.version}; the "
                    "values are of gymnasium 1.4.0 and box2d 2.3.10")

    def test_signatures_and_returns(self):
        for name, (_, _, norms, returns) in VALUES.items():
            plant = self.plants[name]
            scale = np.array([c.scale for c in plant.channels])
            n = len(plant.mechanisms)
            free = plant.roll(np.zeros((12, n)), seed=0).output
            for j in range(1, n):
                h = self.weak(plant, plant.probe, j, .35) - self.weak(plant, plant.probe, j, 1)
                reference = self.weak(plant, plant.task, j, 1)
                off = self.weak(plant, plant.task, j, .35) - reference
                nte = np.sum((off / scale)**2) / np.sum(((reference - free) / scale)**2)
                # the scales are printed with five digits
                self.assertAlmostEqual(np.linalg.norm(h / scale) / norms[j - 1], 1, delta=3e-5)
                self.assertAlmostEqual(np.exp(-nte) / returns[j - 1], 1, delta=3e-5)

    def test_passive_is_blind_and_replay_exact(self):
        for name, plant in self.plants.items():
            n = len(plant.mechanisms)
            u = plant.probe.command(n, 0)
            first = plant.roll(u, seed=3)
            for j in range(1, n):
                gains = np.ones(n)
                gains[j] = .15
                self.assertEqual(plant.roll(u, gains, seed=3).output.tobytes(),
                                 first.output.tobytes(), name)
            fresh = PLANTS[name]().roll(u, state=first.start)
            self.assertEqual(fresh.output.tobytes(), first.output.tobytes(), name)

    def test_equal_to_a_new_environment(self):
        """Against plain Gymnasium, every bit."""
        plant = self.plants["BipedalWalkerHardcore-v3"]
        u = plant.probe.command(4, 2)
        env = gymnasium.make("BipedalWalkerHardcore-v3").unwrapped
        env.reset(seed=11)
        want = np.array([env.step(a)[0] for a in u], dtype=np.float64)
        keep = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
        self.assertEqual(plant.roll(u, seed=11).output.tobytes(),
                         np.ascontiguousarray(want[:, keep]).tobytes())

    def test_another_physics(self):
        """Closed forms: a falling hull gains a fifth more speed; a car that does not slip drives
        alike, one that is steered and braked hard does not."""
        plain, heavy = (self.plants[n] for n in ("BipedalWalker-v3",
                                                 "preflight/HeavyBipedalWalker-v3"))
        for plant, gravity in ((plain, -10.), (heavy, -12.)):
            plant.reset(3, False)
            self.assertEqual(tuple(plant.env.world.gravity), (0, gravity))
            body = plant.env.world.CreateDynamicBody(position=(50, 50))
            body.CreateCircleFixture(radius=.1, density=1)
            for _ in range(5):
                plant.env.world.Step(1 / 50, 6, 2)
            self.assertAlmostEqual(body.linearVelocity[1], gravity * 5 / 50, delta=1e-5)
        car, slippery = (self.plants[n] for n in ("CarRacing-v3",
                                                  "preflight/SlipperyCarRacing-v3"))
        u = np.tile([.0, .65, .8], (12, 1))
        self.assertNotEqual(car.roll(u, seed=3).output.tobytes(),
                            slippery.roll(u, seed=3).output.tobytes())
        self.assertEqual({t.road_friction for t in slippery.env.road}, {.8})

    def test_names_and_suggestions(self):
        for name, plant in self.plants.items():
            machine = preflight.Machine(plant)
            self.assertEqual(machine.name, f"gym:{name}")
            self.assertEqual(machine.info["environment"], name)
            self.assertEqual(list(machine.mechanisms), MECHANISMS.get(
                name, ["hip_1", "knee_1", "hip_2", "knee_2"]))
            self.assertTrue(all(c["scale"] > 0 for c in machine.info["channels"]))


if __name__ == "__main__":
    unittest.main()
