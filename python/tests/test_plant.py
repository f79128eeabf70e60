# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Plants in Python and the Gymnasium wrapper."""
import sys
import unittest

import gymnasium
import numpy as np
import preflight
from preflight.plant import Channel, Mechanism, Plant, Pulse, Runner
from support import Case


class Ramp(Plant):
    name = "ramp"
    mechanisms = [Mechanism("a", -1, 1), Mechanism("b", 0, 2)]
    channels = [Channel("x"), Channel("y")]
    calm = True
    resets = 0

    def reset(self, seed, noise):
        self.resets += 1
        self.x = np.random.default_rng(seed).normal(size=2)

    def step(self, delivered):
        self.x = self.x + delivered

    def observe(self):
        return self.x


DRIFT = """
import numpy as np
import preflight


class Drift(preflight.Plant):
    name = "drift"
    mechanisms = [preflight.Mechanism("a", -1, 1), preflight.Mechanism("b", -1, 1)]
    channels = [preflight.Channel("x")]

    def reset(self, seed, noise):
        start = np.random.default_rng([seed, 1]).normal()
        self.load([start], noise, seed)

    def state(self):
        return [self.x]

    def load(self, state, noise, seed):
        self.x, self.rng = float(state[0]), np.random.default_rng(seed)
        self.size = 0.1 if noise else 0.0

    def step(self, delivered):
        self.x += delivered.sum() + self.size * self.rng.normal()

    def observe(self):
        return [self.x]
"""


class PlantTest(Case):
    def test_fault_is_after_the_clip(self):
        trace = Ramp().roll([[5, 5], [0, -1]], gains=[0.5, 2], seed=1)
        steps = np.diff(np.vstack([trace.initial, trace.output]), axis=0)
        np.testing.assert_allclose(steps, [[0.5, 4], [0, 0]], atol=1e-12)

    def test_the_start_is_the_seed(self):
        plant = Ramp()
        one = plant.roll([[0, 1]], seed=2**53 - 1)
        two = plant.roll([[0, 1]], state=one.start)
        self.assertEqual(one.start.tolist(), [2.0**53 - 1])
        self.assertEqual(one.output.tobytes(), two.output.tobytes())

    def test_arrays_are_checked(self):
        plant = Ramp()
        for commands, gains, text in (([[1]], None, "shape"), ([[1, np.nan]], None, "column 1 is"),
                                      ("no", None, "not real numbers"), ([[1, 1]], [1], "gains"),
                                      ([[1, 1]], [1, np.inf], "gains: entry 1 is inf")):
            with self.assertRaisesRegex(ValueError, text):
                plant.roll(commands, gains, seed=0)
        with self.assertRaisesRegex(ValueError, "seed"):
            plant.roll([[0, 0]], seed=-1)

    def test_observations_are_checked(self):
        plant = Ramp()
        plant.step = lambda delivered: setattr(plant, "x", np.array([0, np.nan]))
        with self.assertRaisesRegex(ValueError, "channel 'y' is nan in row 0"):
            plant.roll([[0, 0]], seed=0)
        plant.step = lambda delivered: setattr(plant, "x", np.zeros(3))
        with self.assertRaisesRegex(ValueError, "2 channels"):
            plant.roll([[0, 0]], seed=0)

    def test_a_calm_plant_is_not_run_twice(self):
        plant = Ramp()
        runner = Runner(plant)
        u, g = np.zeros((3, 2)), np.ones(2)
        one = runner.roll(u, g, 5, None, True)
        two = runner.roll(u, g, 9, np.array([5.0]), False)
        self.assertIs(one, two)
        self.assertEqual(plant.resets, 1)
        runner.roll(u, 0.5 * g, 5, None, True)
        self.assertEqual(plant.resets, 2)
        for seed in range(2 * Runner.KEPT):
            runner.roll(u, g, seed, None, True)
        self.assertEqual(len(runner._kept), Runner.KEPT)

    def test_in_process_equals_direct(self):
        plant, machine = Ramp(), preflight.Machine(Ramp())
        u = np.random.default_rng(0).normal(size=(6, 2))
        for seed in (0, 1, 2**53 - 1):
            direct = plant.roll(u, [1, 0.3], seed=seed)
            through = machine.roll(u, [1, 0.3], key=seed << 11)
            for a, b in zip(direct, through):
                self.assertEqual(a.tobytes(), b.tobytes())

    def test_what_disturbs_a_saved_start_has_a_seed(self):
        """The trajectory's own, here and behind the bridge, whatever was drawn before."""
        file = self.folder / "drift.py"
        file.write_text(DRIFT)
        space = {}
        exec(DRIFT, space)
        plant = space["Drift"]()
        here = preflight.Machine(plant)
        there = preflight.Machine(f"exec:{sys.executable} -m preflight.worker {file}:Drift")
        u = np.zeros((4, 2))

        def rolled(machine, key, noise=True):
            return machine.roll(u, key=key << 11, state=[.5], noise=noise).output.tobytes()
        first = {key: rolled(here, key) for key in (1, 2)}
        self.assertNotEqual(first[1], first[2])
        here.roll(u, key=7 << 11, noise=True)
        for key in (2, 1):
            self.assertEqual(rolled(here, key), first[key])
            self.assertEqual(rolled(there, key), first[key])
            direct = plant.roll(u, seed=key, state=[.5], noise=True)
            self.assertEqual(direct.output.tobytes(), first[key])
        self.assertEqual(rolled(here, 1, False), np.full((4, 1), .5).tobytes())

    def test_a_load_without_a_seed_still_works(self):
        class Old(Ramp):
            state_size = 2

            def state(self):
                return self.x

            def load(self, state, noise):
                self.x = np.array(state)
        machine = preflight.Machine(Old())
        self.assertEqual(machine.roll([[0, 1]], state=[3, 4]).output.tolist(), [[3, 5]])

    def test_a_problem_in_python_is_reported(self):
        plant = Ramp()
        machine = preflight.Machine(plant)
        plant.step = lambda delivered: 1 / 0
        with self.assertRaisesRegex(preflight.PreflightError, "python:ramp.*ZeroDivisionError"):
            machine.roll([[0, 0]])
        del plant.step
        machine.roll([[0, 0]])

    def test_descriptions_are_checked(self):
        plant = Ramp()
        plant.mechanisms = [Mechanism("only")]
        with self.assertRaisesRegex(preflight.PreflightError, "must list 2 to"):
            preflight.Machine(plant)
        plant.mechanisms = Ramp.mechanisms
        for pulse in (Pulse([1, 1], steps=4, rows=3), Pulse([1]), Pulse([1, 1], steps=0)):
            plant.probe = pulse
            with self.assertRaisesRegex(preflight.PreflightError, "hello: "):
                preflight.Machine(plant)
        plant.probe = None
        plant.reveal = [-1]
        with self.assertRaisesRegex(preflight.PreflightError, "reveal"):
            preflight.Machine(plant)


class Clipped(Plant):
    """Clips what reaches it at `clip`, whatever its limits say."""

    name = "clipped"
    channels = [Channel("x"), Channel("y")]

    def __init__(self, limit, task, clip=1.):
        self.mechanisms = [Mechanism(n, -limit, limit) for n in ("main", "left", "right")]
        self.probe = Pulse([0, .25, .25], steps=4)
        self.task = Pulse([0, task, task], steps=4)
        self.clip = clip

    def reset(self, seed, noise):
        self.rng = np.random.default_rng(seed)
        self.x, self.noise = self.rng.normal(0, .02, 2), .02 * noise

    def step(self, delivered):
        v = np.clip(delivered, -self.clip, self.clip)
        self.x = .9 * self.x + [.3 * v[1] + .04 * v[2], .03 * v[1] + .25 * v[2]]

    def observe(self):
        return self.x + self.noise * self.rng.normal(size=2)


class ShareTest(Case):
    """A plant may not call a correction harmless that sends too much."""

    def calibrate(self, *arguments, name=None, **options):
        plant = Clipped(*arguments, **options)
        plant.registered = name
        return preflight.Kit.calibrate(plant, probes="single", sensor_noise=.25, episodes=6,
                                       alarm_trials=20, grid=5)

    def test_a_plant_that_clips_within_its_limits_is_refused(self):
        for name in (None, "gym:Clipped-v0"):
            with self.assertRaisesRegex(preflight.PreflightError, "the limits that it clips at"):
                self.calibrate(2., 1., name=name)

    def test_a_plant_that_clips_at_its_limits_is_not(self):
        """A task below them, at them, and at limits that were rounded to single precision."""
        self.calibrate(2., .5)
        self.calibrate(1., 1.)
        self.calibrate(float(np.float32(.4)), .4, clip=.4)


class GymTest(Case):
    def test_two_directions_of_one_action(self):
        plant = preflight.GymPlant("Pendulum-v1")
        env = gymnasium.make("Pendulum-v1").unwrapped
        seen = [env.reset(seed=4)[0]]
        for f in (0.5, -1.0, 2.0):
            seen.append(env.step(np.array([f]))[0])
        trace = plant.roll([[0, 0.25, 0], [0, 0, 0.5], [0, 3, 0]], seed=4)
        want = np.array(seen, dtype=np.float64)
        self.assertEqual(trace.initial.tobytes(), want[0].tobytes())
        self.assertEqual(trace.output.tobytes(), want[1:].tobytes())

    def test_order_limits_and_channels(self):
        plant = preflight.GymPlant("BipedalWalker-v3", order=[2, 0], limits=[(-1, 1), (-0.5, 0.5)],
                                   observe=[4, 9], names=["hip_1", "hip_2"])
        self.assertEqual([m.name for m in plant.mechanisms], ["action2", "action0"])
        self.assertIsNone(plant.registered)
        env = gymnasium.make("BipedalWalker-v3").unwrapped
        env.reset(seed=1)
        want = env.step(np.array([0.5 * 0.25, 0, 0.3, 0]))[0].astype(np.float64)[[4, 9]]
        got = plant.roll([[0.3, 0.9]], gains=[1, 0.25], seed=1).output[0]
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_a_discrete_action_is_taken_or_not(self):
        taken = []
        plant = preflight.GymPlant("Acrobot-v1", idle=1)
        step = plant.env.step
        plant._fresh = False
        plant.env.step = lambda action: taken.append(action) or step(action)
        plant.roll([[0, 0.5, 0]] * 6, seed=0)
        plant.roll([[0, 0, 1]] * 4, gains=[1, 1, 0.5], seed=0)
        self.assertEqual(taken, [1, 0, 1, 0, 1, 0] + [1, 2, 1, 2])

    def test_an_action_of_ones_own(self):
        plant = preflight.GymPlant(
            "CartPole-v1", mechanisms=[Mechanism("none", 0, 0), Mechanism("right", 0, 1)],
            action=lambda v: int(v[1] > 0.5), observe=lambda env, seen: [seen[1], env.force_mag],
            fresh=False)
        self.assertEqual(plant.roll([[0, 1]], seed=0).output.shape, (1, 2))

    def test_refusals(self):
        for arguments, text in (({}, "idle"), ({"idle": 9}, "not an action"),
                                ({"action": int}, "mechanisms"),
                                ({"idle": 0, "mechanisms": [Mechanism("a")]}, "action"),
                                ({"idle": 0, "names": ["x"]}, "names")):
            with self.assertRaisesRegex(ValueError, text):
                preflight.GymPlant("CartPole-v1", **arguments)
        with self.assertRaisesRegex(ValueError, "order"):
            preflight.GymPlant("BipedalWalker-v3", order=[0, 7])

    def test_a_fresh_environment_forgets(self):
        plant = preflight.GymPlant("BipedalWalker-v3")
        u = np.zeros((8, 4))
        u[:, 1] = 0.4
        first = plant.roll(u, seed=3).output
        plant.roll(u[:, ::-1], seed=9)
        self.assertEqual(plant.roll(u, seed=3).output.tobytes(), first.tobytes())

    def test_steps_that_draw(self):
        self.assertTrue(preflight.GymPlant("Pendulum-v1").calm)
        plant = preflight.GymPlant(Windy)
        self.assertFalse(plant.calm)
        u = np.zeros((4, 2))
        seen = plant.roll(u, seed=5, noise=True)
        again = plant.roll(u, state=seen.start, noise=True)
        expected = plant.roll(u, state=seen.start, noise=False)
        self.assertEqual(seen.output.tobytes(), again.output.tobytes())
        self.assertEqual(seen.initial.tobytes(), expected.initial.tobytes())
        # the prediction does not know the wind
        self.assertTrue((np.abs(seen.output - expected.output) > 1e-3).any())


class Windy(gymnasium.Env):
    """A point that two actions push and the wind moves."""

    action_space = gymnasium.spaces.Box(-1, 1, (2,))
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=2)
        return self.x.copy(), {}

    def step(self, action):
        self.x = self.x + action + .1 * self.np_random.normal(size=2)
        return self.x.copy(), 0.0, False, False, {}


if __name__ == "__main__":
    unittest.main()
