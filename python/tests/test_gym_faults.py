# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments with faults: the bits of a GymPlant with the same faults, and everything
that Gymnasium expects of a wrapper."""
import copy
import functools
import pickle
import unittest

import gymnasium
import numpy as np
import preflight as pf
from preflight.faulty import Faulty
from support import Case

BOX = gymnasium.spaces.Box
MECHANISM = ("gain", "gain_up", "gain_down", "intermittent", "dead_band", "backlash", "saturation",
             "rate_limit", "lag", "delay", "bias", "stuck")
CHANNEL = ("bias", "scale", "delay", "frozen", "noise", "dropout")
EVERY = [*({"action1": {k: 2 if k == "delay" else .5}} for k in MECHANISM),
         *({"obs1": {k: 2 if k == "delay" else .5 if k != "frozen" else 3}} for k in CHANNEL),
         {"effectiveness": .8}, {"action0": 1.5, "effectiveness": 1.25},
         {"action1": {"lag": 2, "gain": .4}, 2: {"stuck": .1, "delay": 3},
          "obs0": {"noise": 3, "dropout": .3}, "obs2": {"delay": 1, "scale": -1}},
         ["action2:backlash=.3", "obs2:dropout=.5"], "0:.25", None]


class Hover(gymnasium.Env):
    """Three actions, three observations, in doubles."""

    def __init__(self, dtype=np.float64):
        self.action_space = BOX(-1, 1, (3,), dtype)
        self.observation_space = BOX(-np.inf, np.inf, (3,), dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(0, 0.05, 3)
        return self.x.astype(self.observation_space.dtype), {}

    def step(self, action):
        assert action.dtype in (np.float32, np.float64)
        fan, left, right = action
        force = np.array([fan, 0.4 * (left - right), 0.9 * left + 0.7 * right])
        self.x = self.x + 0.1 * (force - 0.3 * self.x)
        return self.x.astype(self.observation_space.dtype), 0.0, False, False, {"true": self.x}


class Nested(Hover):
    observation_space = gymnasium.spaces.Dict({"x": BOX(-1, 1)})

    def __init__(self, what):
        super().__init__()
        setattr(self, what, gymnasium.spaces.Dict({"x": BOX(-1, 1)}))


def flown(env, commands, seed):
    rows = [env.reset(seed=seed)[0]]
    rows += [env.step(u)[0] for u in commands]
    return np.array(rows)


def rolled(plant, commands, seed, fault):
    trace = plant.roll(commands, seed=seed, fault=fault)
    return np.concatenate([[trace.initial], trace.output])


def some(n, rows=24, limit=1.2):
    return np.random.default_rng(5).uniform(-limit, limit, (rows, n))


class GymFaultsTest(Case):
    def test_half_made(self):
        """What __init__ never finished, and what outlives the library, is let go without a word."""
        half = Faulty.__new__(Faulty)
        half.__del__()
        whole = pf.faults(Hover(), None)
        names = type(whole).__del__.__globals__
        library, names["library"] = names["library"], None
        try:
            whole.__del__()
        finally:
            names["library"] = library
        whole.__del__()
        self.assertIsNone(whole.__dict__["_handle"])

    def test_the_bits_of_a_plant(self):
        """Every kind, several together, several seeds; the commands leave the limits."""
        plant = pf.GymPlant(Hover)
        plant.channels = [pf.Channel(c.name, scale=.3) for c in plant.channels]
        for fault in EVERY:
            env = pf.faults(Hover(), fault, scale=.3)
            for seed in (0, 1, 2, 2**53 - 1):
                want = rolled(plant, some(3), seed, fault)
                self.assertEqual(flown(env, some(3), seed).tobytes(), want.tobytes(), fault)
            if fault and "intermittent" not in str(fault):
                sound = rolled(plant, some(3), 0, None)
                self.assertNotEqual(rolled(plant, some(3), 0, fault).tobytes(), sound.tobytes())

    def test_the_bits_of_a_registered_environment(self):
        """Box2D has four actions and reads in floats."""
        fault = {"action1": {"delay": 1}, 2: .35, "obs0": {"noise": 2}, "obs3": "frozen"}
        plant = pf.GymPlant("BipedalWalker-v3")
        plant.channels = [pf.Channel(c.name, scale=1.) for c in plant.channels]
        env = pf.faults("BipedalWalker-v3", fault, scale=1)
        for seed in (3, 4):
            want = rolled(plant, some(4, 12, 1), seed, fault).astype(np.float32)
            have = flown(env, some(4, 12, 1), seed)
            self.assertEqual(have.dtype, np.float32)
            self.assertEqual(have.tobytes(), want.tobytes())

    def test_units_of_a_kit(self):
        settings = {"probes": "single", "sensor_noise": .25, "episodes": 20, "alarm_trials": 20}
        plant = pf.GymPlant(Hover)
        plant.probe = plant.task = pf.Pulse([0, .6, .6], steps=6, rows=8)
        kit = pf.Kit.calibrate(plant, **settings)
        path = self.folder / "hover.kit"
        kit.save(path)
        fault = {"action1": {"saturation": .5}, "obs1": {"bias": 4}}
        u = np.full((2, 3), .5)
        for given in (kit, path, str(path)):
            env = pf.faults(Hover(), fault, kit=given)
            env.reset(seed=1)
            found = env.step(u[0])
            sure = Hover()
            sure.reset(seed=1)
            want = sure.step(np.array([.5, .3, .5]))  # half of .6
            self.assertEqual(found[4]["true"].tobytes(), want[4]["true"].tobytes())
            bias = 4 * .25 * kit.info["channels"][1]["return_scale"]
            self.assertAlmostEqual(found[0][1] - want[0][1], bias, 12)
        with self.assertRaisesRegex(ValueError, "its actions are action0, .*name them with actio"):
            pf.faults(Hover(), fault, kit=kit, actions=["fan", "left", "right"])

    def test_a_healthy_one_changes_nothing(self):
        """To the bit, in the type of the caller."""
        for dtype in (np.float32, np.float64):
            for given in (np.float32, np.float64):
                u = some(3, limit=1).astype(given)
                have, want = flown(pf.faults(Hover(dtype)), u, 2), flown(Hover(dtype), u, 2)
                self.assertEqual((have.dtype, have.tobytes()), (want.dtype, want.tobytes()))
        u = some(1, limit=2).astype(np.float32)
        have = flown(pf.faults("Pendulum-v1", {"action0": 1}), u, 2)
        self.assertEqual(have.tobytes(), flown(gymnasium.make("Pendulum-v1"), u, 2).tobytes())

    def test_names(self):
        env = pf.faults(Hover(), {"left": .5, "yaw": "frozen"}, actions=["fan", "left", "right"],
                        observations=["forward", "sideways", "yaw"])
        other = pf.faults(Hover(), ["1:.5", "obs2:frozen"])
        self.assertEqual(flown(env, some(3), 1).tobytes(), flown(other, some(3), 1).tobytes())
        self.assertEqual(env.fault_texts, ["left:0.5", "yaw:frozen"])

    def test_it_is_a_wrapper(self):
        from gymnasium.utils.env_checker import check_env
        env = pf.faults("Pendulum-v1", {"action0": .5, "obs2": {"delay": 2}},
                        render_mode="rgb_array")
        self.assertIsInstance(env, gymnasium.Wrapper)
        plain = gymnasium.make("Pendulum-v1")
        self.assertEqual((env.action_space, env.observation_space),
                         (plain.action_space, plain.observation_space))
        check_env(env, skip_render_check=True)
        self.assertEqual(env.render_mode, "rgb_array")
        again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        u = some(1)
        self.assertEqual(flown(again, u, 3).tobytes(), flown(env, u, 3).tobytes())
        env.close()

    def test_vectors(self):
        wrap = functools.partial(pf.faults,
                                 fault={"action0": {"intermittent": 0}, "obs0": "frozen"})
        for mode in ("sync", "async"):
            envs = gymnasium.make_vec("Pendulum-v1", 3, vectorization_mode=mode, wrappers=[wrap])
            seen = [envs.reset(seed=[4, 5, 6])[0].copy()]
            seen += [envs.step(np.full((3, 1), 1, np.float32))[0].copy() for _ in range(6)]
            for i in range(3):
                one = flown(wrap("Pendulum-v1"), np.full((6, 1), 1, np.float32), 4 + i)
                self.assertEqual(np.array(seen)[:, i].tobytes(), one.tobytes())
            envs.close()
        with self.assertRaisesRegex(TypeError, "put them on each"):
            pf.faults(gymnasium.make_vec("Pendulum-v1", 2), {"action0": .5})

    def test_copies_go_on(self):
        """In the middle of an episode, with all that faults keep."""
        fault = {"action1": {"delay": 3, "lag": 2}, "obs0": {"noise": 1, "delay": 4},
                 "obs1": {"dropout": .5}, 2: {"intermittent": .2}}
        env = pf.faults(Hover(), fault, scale=1)
        u = some(3)
        flown(env, u[:9], 7)
        twins = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
        want = [env.step(v)[0].tobytes() for v in u[9:]]
        for twin in twins:
            self.assertEqual([twin.step(v)[0].tobytes() for v in u[9:]], want)

    def test_resets_without_a_seed(self):
        """Draws of their own, the same after the same seed."""
        env = pf.faults(Hover(), {"obs0": {"noise": 1}}, scale=1)

        def noise():
            row, info = env.step(np.zeros(3))[0], env.unwrapped.x
            return float(row[0] - info[0])

        def three(seed):
            env.reset(seed=seed)
            found = [noise()]
            for _ in range(2):
                env.reset()
                found.append(noise())
            return found
        first = three(1)
        self.assertEqual(len({*first, *three(2)}), 6)
        self.assertEqual(three(1), first)
        fresh = [pf.faults(Hover(), {"obs0": {"noise": 1}}, scale=1) for _ in range(2)]
        self.assertNotEqual(*(e.reset()[0][0] for e in fresh))

    def test_refusals(self):
        make = pf.faults
        for env, kind, reason in (
                ("CartPole-v1", ValueError, "^CartPole-v1: its actions are a Discrete; faults act"),
                ("CarRacing-v3", ValueError, "observations are a Box of uint8; faults are read"),
                (Nested("observation_space"), ValueError, "observations are a Dict.*Flatten"),
                (Nested("action_space"), ValueError, "Nested: its actions are a Dict; faults"),
                (Hover, TypeError, "an id or a gymnasium.Env, not")):
            with self.assertRaisesRegex(kind, reason) as caught:
                make(env, {"action0": .5})
            self.assertNotIn("\n", str(caught.exception))
        for fault, reason in (
                ({"arm": .5}, "action0, action1, action2.*obs0, obs1, obs2"),
                ({"arm": {"lag": 2}}, "action0, action1, action2.*obs0, obs1, obs2"),
                (.5, "give a mapping such as {'action2': 0.35}"), ({1.5: 1}, "1.5 is no place"),
                ({"action0": {}}, "has no kind"),
                ({3: .5}, "no such mechanism"), ({"action0": "rust"}, "gain, gain_up"),
                ({"obs0": {"bias": 1}}, "give its scale, or a kit"),
                ({"action0": {"delay": 1.5}}, "whole number"), ({"action0": None}, "give a number"),
                (["0:.5", "action0:gain=.3"], "give each kind once")):
            with self.assertRaisesRegex(ValueError, reason):
                make(Hover(), fault)
        with self.assertRaisesRegex(pf.PreflightError, "only its own physics could carry"):
            make(Hover(), {"disturbance": 2})
        for options, reason in (({"scale": [1, 2]}, "scale: shape"), ({"scale": -1}, "scale"),
                                ({"scale": "big"}, "scale"),
                                ({"actions": ["a", "a", "b"]}, "3 different names"),
                                ({"actions": [1, 2, 3]}, "3 different names"),
                                ({"observations": "abc"}, "3 different names")):
            with self.assertRaisesRegex(ValueError, reason):
                make(Hover(), None, **options)
        with self.assertRaisesRegex(TypeError, "kit: a Kit or the path"):
            make(Hover(), None, kit=3)
        with self.assertRaisesRegex(TypeError, "go with an id"):
            make(Hover(), None, render_mode="human")
        env = make(Hover(), {"action0": .5})
        env.reset(seed=0)
        for action, reason in (([0, 0], "shape"), ([0, np.nan, 0], "entry 1 is nan"),
                               (["a", "b", "c"], "give numbers")):
            with self.assertRaisesRegex(ValueError, reason):
                env.step(action)


if __name__ == "__main__":
    unittest.main()
