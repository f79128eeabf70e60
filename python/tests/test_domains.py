# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Grid2Op, highway-env and gym-invmgmt as plants: validation values measured by an independent
prototype with the pinned versions, dormancy, twins, native measures on hand-made trajectories."""
import hashlib
import json
import os
import subprocess
import sys
import unittest

import numpy as np
from preflight import driving, grid, inventory
from preflight.domain import DOMAINS, domain_plant, one_weak
from preflight.plant import hello_text

PLANTS = {}


def plant(name):
    if name not in PLANTS:
        PLANTS[name] = domain_plant(name)
    return PLANTS[name]


def passive(p):
    command = np.zeros((p.probe.rows or p.probe.steps, len(p.mechanisms)))
    command[: p.probe.steps, 0] = p.probe.amplitude[0]
    return command


def digest(name):
    """One probe and one contract of a plant, to the bit."""
    p = plant(name)
    n = len(p.mechanisms)
    output = p.roll(p.probe.command(n, 1), one_weak(n, 1, .35), seed=11, noise=True).output
    flight = p.run_task(0, one_weak(n, 1, .35), one_weak(n, 1, 2.0), seed=11)
    told = json.dumps({k: float(v) for k, v in flight.metrics.items()}, sort_keys=True)
    return hashlib.sha256(output.tobytes() + flight.trace.output.tobytes()
                          + told.encode()).hexdigest()


class ContractTest(unittest.TestCase):
    """What every plant of a domain keeps."""

    def test_dormant_to_the_bit(self):
        for name in DOMAINS:
            p = plant(name)
            n = len(p.mechanisms)
            healthy = p.roll(passive(p), seed=3, noise=True).output
            for j in range(1, n):
                weak = p.roll(passive(p), one_weak(n, j, .15), seed=3, noise=True).output
                self.assertEqual(weak.tobytes(), healthy.tobytes(), f"{name}, mechanism {j}")

    def test_effect_on_the_own_probe_alone(self):
        for name in ("highway", "inventory_serial", "inventory_multi"):
            p = plant(name)
            n = len(p.mechanisms)
            for q in range(1, n):
                command = p.probe.command(n, q)
                nominal = p.roll(command, seed=3, noise=True).output
                for j in range(1, n):
                    weak = p.roll(command, one_weak(n, j, .15), seed=3, noise=True).output
                    self.assertEqual((weak != nominal).any(), j == q, f"{name}, {q}, {j}")

    def test_limits_come_before_the_gain(self):
        p = plant("highway")
        p.reset(0, False)
        np.testing.assert_array_equal(
            p.deliver(np.array([0, 7.0, -3.0, .5]), np.array([1, .2, 1, 1])), [0, .2, 0, .5])

    def test_same_bits_in_a_fresh_process(self):
        code = "import sys, test_domains; print(test_domains.digest(sys.argv[1]))"
        folder = os.path.dirname(os.path.abspath(__file__))
        for name in DOMAINS:
            done = subprocess.run([sys.executable, "-c", code, name], capture_output=True,
                                  text=True, cwd=folder, check=True)
            self.assertEqual(done.stdout.split()[-1], digest(name), name)

    def test_hello_can_be_said(self):
        for name in DOMAINS:
            hello = json.loads(hello_text(plant(name)))
            self.assertEqual(hello["name"], name)
            self.assertEqual(hello["metrics"][0], "return")
            self.assertGreaterEqual(len(hello["tasks"]), len(hello["mechanisms"]) - 1)

    def test_missing_package_is_said(self):
        code = ("import sys; sys.modules['gym_invmgmt'] = None\n"
                "from preflight.domain import domain_plant\n"
                "try: domain_plant('inventory_serial')\n"
                "except ImportError as e: print(e)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("needs gym-invmgmt==0.2.1: run `make domains`", done.stdout)


class InventoryTest(unittest.TestCase):
    def otif(self, name, link, gain, correction=1.0, shock=False):
        p = plant(name)
        n = len(p.mechanisms)
        return p.run_task(link - 1 + (n - 1) * shock, one_weak(n, link, gain),
                          one_weak(n, link, correction), seed=0).metrics["otif"]

    def test_services(self):
        for name, link, shock, gains, want in (
                ("inventory_serial", 1, False, (1, .8, .6, .4), (.966667, .916667, .766667, .4)),
                ("inventory_lost_sales", 2, False, (1, .8, .6, .4),
                 (.983333, .966667, .95, .766667)),
                ("inventory_multi", 9, False, (1, .8, .6, .4),
                 (.883333, .883333, .816667, .716667)),
                ("inventory_multi", 1, True, (1, .6), (.933333, .383333))):
            got = [self.otif(name, link, g, shock=shock) for g in gains]
            np.testing.assert_allclose(got, want, atol=1e-6, err_msg=f"{name} {link}")
        self.assertAlmostEqual(self.otif("inventory_serial", 1, .4, 2.5), .966667, 6)

    def test_stocks(self):
        for name, link, gain, want in (
                ("inventory_serial", 0, 1, (6.3, 0, 200)),
                ("inventory_serial", 1, 1, (6.3, 20, 120)),
                ("inventory_multi", 0, 1, (7.52387118, 0, 80, 400, 350, 380)),
                ("inventory_multi", 1, .35, (35.52387118, 0, 52, 400, 350, 380))):
            p = plant(name)
            n = len(p.mechanisms)
            command = p.probe.command(n, link) if link else passive(p)
            last = p.roll(command, one_weak(n, link, gain), seed=0, noise=True).output[-1]
            np.testing.assert_allclose(last, want, atol=1e-8)
        p = plant("inventory_serial")
        mean = p.roll(p.probe.command(3, 1), seed=0, noise=False).output[-1]
        np.testing.assert_allclose(mean, (23.3, 20, 120), atol=.05)

    def test_base_stock_levels(self):
        chain = plant("inventory_serial").chain
        levels = [inventory.base_stock(20.0, h) for h in chain.horizons([2, 1, 0])]
        np.testing.assert_allclose(levels, (254.559, 232.951, 123.300), atol=5e-4)
        self.assertEqual(chain.opening([2, 1, 0]), [124, 110, 22])
        paths = [plant("inventory_multi").chain.path(i) for i in range(1, 11)]
        self.assertEqual(paths, [[1], [2, 0], [3, 1], [4, 0], [5, 0], [6, 1], [7, 2, 0],
                                 [8, 4, 0], [9, 4, 0], [10, 5, 0]])

    def test_twin_is_the_simulator(self):
        for name in ("inventory_serial", "inventory_lost_sales", "inventory_multi"):
            p = plant(name)
            n = len(p.mechanisms)
            for task in range(len(p.tasks)):
                j = task % (n - 1) + 1
                gains, correction = one_weak(n, j, .4), one_weak(n, j, 2.0)
                told = p.run_task(task, gains, correction, seed=5).metrics
                env = p._shocked if task >= n - 1 else p.env
                p.fly(task, gains, correction, True)
                unfilled, beyond = p._twins[j - 1].run(env.D[:, :1].astype(float), gains[None],
                                                       correction, task >= n - 1)
                np.testing.assert_allclose(unfilled[:, 0], env.U[:, 0], atol=1e-9)
                self.assertAlmostEqual(beyond[0], told["beyond"], 12)

    def test_on_time_in_full_by_hand(self):
        unfilled = np.zeros(60)
        unfilled[[3, 17, 59]] = (1, 1e-8, 40)
        self.assertEqual(inventory.on_time_in_full(unfilled), 57 / 60)


class DrivingTest(unittest.TestCase):
    def drive(self, task, gain, correction=1.0):
        return plant("highway").run_task(task - 1, one_weak(4, task, gain),
                                         one_weak(4, task, correction), seed=0).metrics

    def test_pulses(self):
        p = plant("highway")
        command = np.zeros((16, 4))
        command[:8, 0] = .1
        self.assertAlmostEqual(p.roll(command, seed=0).output[-1, 0], 25.8, 9)
        self.assertAlmostEqual(p.env.vehicle.position[0], 262.65586625, 7)
        for j, other, a, column, after8, after16 in ((1, 0, .3, 0, 22.6, 25.0),
                                                     (2, 3, .05, 1, 3.5666818, 3.2000259),
                                                     (3, 2, .05, 1, 4.4333182, 4.7999741)):
            command = np.zeros((16, 4))
            command[:8, j], command[8:, other] = a, a
            output = p.roll(command, seed=0).output
            np.testing.assert_allclose(output[[7, 15], column], (after8, after16), atol=1e-7)
            self.assertLess(abs(output[-1, 2]), 1e-15)  # the heading returns

    def test_scenes(self):
        """crash, time to collision, headway, lower tail, return"""
        c = 1 / .35
        for task, gain, correction, want in (
                (1, 1, 1, (0, 2.92747, 5.11601, 2.93557, 1)),
                (1, .35, 1, (1, 0, 0, .06933, 0)), (1, .35, c, (0, 2.92747, 5.11601, 2.93557, 1)),
                (1, .2, 5, (0, .12049, .24098, .38194, .041)),
                (2, .35, 1, (0, .66725, 9.99713, .76723, .399)),
                (2, .2, 1, (1, 0, 0, 0, 0)), (2, .2, 5, (0, 1.67081, 25.00994, 1.77084, 1.0)),
                (3, .2, 1, (0, .31778, 4.76291, .41777, .137))):
            told = self.drive(task, gain, correction)
            got = [told[k] for k in ("collision", "min_ttc", "min_headway", "tail_ttc", "return")]
            np.testing.assert_allclose(got[:4], want[:4], atol=6e-6, err_msg=f"{task} {gain}")
            self.assertAlmostEqual(got[4], want[4], delta=6e-4)
            p = plant("highway")
            p._start = np.array([0.0])
            seen = p.forecast(task - 1, one_weak(4, task, gain)[None],
                              one_weak(4, task, correction), 0)
            self.assertAlmostEqual(seen.returns[0, 0], told["return"], 9)
            self.assertAlmostEqual(seen.beyond[0], told["beyond"], 12)

    def test_a_crashing_scene_is_not_admitted(self):
        self.assertEqual(plant("highway").scene(13, 3)[0], 1013)

    def test_step_is_the_environments(self):
        p = plant("highway")
        p.reset(7, False)
        for _ in range(3):
            p.step(np.array([0, .4, .1, 0]))
        ours = [(*v.position, v.speed) for v in p.env.road.vehicles]
        p.reset(7, False)
        for _ in range(3):
            p.env.step(np.array([-.4, -.1]))
        self.assertEqual(ours, [(*v.position, v.speed) for v in p.env.road.vehicles])

    def test_probes_do_not_depend_on_traffic(self):
        p = plant("highway")
        for j in range(1, 4):
            command = p.probe.command(4, j)
            one, other = (p.roll(command, seed=s).output for s in (0, 5))
            self.assertEqual(one.tobytes(), other.tobytes())

    def test_gaps_by_hand(self):
        others = np.array([[35.0, 4.0, 0.0, 10.0], [15.0, 8.1, 0.0, 0.0], [-10.0, 4.0, 0.0, 40.0]])
        self.assertEqual(driving.gaps((0.0, 4.0, 0.0, 25.0), others), (2.0, 30.0))
        self.assertEqual(driving.gaps((0.0, 4.0, 0.0, 9.0), others), (10.0, 30.0))
        self.assertEqual(driving.gaps((0.0, 12.0, 0.0, 25.0), others), (10.0, 100.0))
        self.assertEqual(driving.lower_tail(np.array([5.0] * 18 + [1.0, 2.0])), 1.5)
        self.assertEqual(driving.lower_tail(np.array([3.0, 1.0])), 1.0)


class GridTest(unittest.TestCase):
    START = (0.0, 100.0)

    def test_flows(self):
        p = plant("grid2op")
        last = p.roll(np.zeros((8, 6)), state=self.START).output[-1]
        np.testing.assert_allclose(last[[0, 10, 58]], (1.56081, -9.88203, 104.01351), atol=1e-4)
        np.testing.assert_allclose(p._seen.gen_p[[3, 21]], (94.6, 25.0203), atol=1e-4)

    def test_signatures(self):
        p = plant("grid2op")
        free = p.roll(np.zeros((8, 6)), state=self.START).output
        for j, rms, norm, z in ((1, .2709, 3.8251, .7692), (3, .8046, 11.3626, .7692),
                                (5, 1.6655, 23.5413, .7695)):
            command = p.probe.command(6, j)
            one, weak, half = (p.roll(command, one_weak(6, j, g), state=self.START).output
                               for g in (1, .35, .5))
            h = weak - one
            self.assertAlmostEqual(np.sqrt(np.mean((one - free)**2)), rms, delta=6e-5)
            self.assertAlmostEqual(np.linalg.norm(h), norm, delta=6e-5)
            self.assertAlmostEqual(((half - one) * h).sum() / (h * h).sum(), z, delta=6e-5)
            # a prediction on the line
            told = p._trace(command, one_weak(6, j, .5), 0, np.array(self.START), False).output
            self.assertLess(abs(((told - half) * h).sum() / (h * h).sum()), .003)

    def test_tasks(self):
        """return, shortfall, infeasible, excess"""
        p = plant("grid2op")
        for gain, c, want in ((.2, 1, (.5273, .8, 0, 0)), (.2, 5, (.6976, .6, 1, .6)),
                              (.35, 1 / .35, (.9139, .3, 1, .3)), (.5, 2, (1, 0, 0, 0))):
            told = p.run_task(2, one_weak(6, 3, gain), one_weak(6, 3, c), state=self.START).metrics
            got = [told[k] for k in ("return", "shortfall", "ramp_infeasible", "ramp_excess")]
            np.testing.assert_allclose(got, want, atol=1e-4)
            seen = p.forecast(2, one_weak(6, 3, gain)[None], one_weak(6, 3, c), 0).returns[0, 0]
            self.assertAlmostEqual(seen, told["return"], delta=.001)

    def test_measures_by_hand(self):
        self.assertEqual(grid.headroom_shortfall(6.0, 24.0), .75)
        self.assertEqual(grid.ramp_infeasible(2.0, [1.0, 2.0, 3.0, 0.0]), (.5, .375))
        reference, free = np.array([[2.0, 4.0]]), np.zeros((1, 2))
        self.assertEqual(grid.tracking_return(reference, reference, free), 1.0)
        self.assertEqual(grid.tracking_return(free, reference, free), np.exp(-1.0))

    def test_a_bad_state_is_refused(self):
        with self.assertRaisesRegex(ValueError, "step 900"):
            plant("grid2op").load(np.array([0.0, 900.0]), False)


if __name__ == "__main__":
    unittest.main()
