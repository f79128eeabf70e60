# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Whole checks of machines with faults, the truth flown: against the program, checks by hand and a
plant whose returns have a closed form."""
import math
import signal
import unittest

import numpy as np
import preflight as pf
from preflight.plant import Channel, Mechanism, Plant, Pulse
from support import Case, preflight

CATALOGUE = """entries:
  - {name: healthy, fault: none}
  - {name: weak, fault: gain, from: .15, to: .95}
  - {name: play, fault: backlash, value: .5}
  - {name: frozen, fault: frozen, on: channel}
  - {name: sometimes, fault: intermittent, value: .3, promised: false}
  - {name: two, fault: gain, value: .35, second: .8}
"""


class Sum(Plant):
    """Adds up what is delivered: a task of four steps moves by 1, 2, 3, 4. At gain g with
    correction c it moves by g c times that, one step late by 0, c, 2 c, 3 c. Its return is exp of
    minus the squares that it misses over the squares of what it should do."""

    name = "sum"
    mechanisms = [Mechanism(n, -9, 9) for n in ("main", "left", "right")]
    channels = [Channel("x", scale=.1), Channel("y", scale=.1)]
    probe = Pulse([0, .5, .5], steps=4)
    task = Pulse([0, 1, 1], steps=4)
    calm = True
    fails_below = 0.0

    def reset(self, seed, noise):
        self.x = np.random.default_rng(seed).normal(0, .1, 2)

    def step(self, delivered):
        if delivered[2] and abs(delivered[2]) < self.fails_below:
            raise RuntimeError("the right one fell off")
        self.x = self.x + [delivered[1] + .1 * delivered[0], delivered[2]]

    def observe(self):
        return self.x


class EvaluateTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.servo = pf.Kit.calibrate("dc_servo", episodes=30, alarm_trials=200)
        cls.sum = pf.Kit.calibrate(Sum(), episodes=20, alarm_trials=50, sensor_noise=.1)

    def test_the_counts_of_the_program(self):
        """`preflight audit` on the same seeds, and any number of threads."""
        catalogue, kit = self.folder / "mine.yaml", self.folder / "servo.kit"
        catalogue.write_text(CATALOGUE)
        self.servo.save(kit)
        preflight("audit", kit, "--catalogue", catalogue, "--sessions", 6, "--seed", 5)
        told = pf.Evaluation.load(f"{kit}.audit.json")
        found = [self.servo.evaluate(catalogue=catalogue, trials=6, seed=5, threads=n)
                 for n in (1, 3)]
        self.assertEqual(found[0].rows, found[1].rows)
        self.assertEqual(found[0].tasks, found[1].tasks)
        self.assertEqual([r["fault"] for r in told.rows],
                         ["healthy", "weak", "play", "frozen", "sometimes", "two"])
        for row, want in zip(found[0].rows, told.rows):
            self.assertEqual({k: v for k, v in row.items() if want[k] is not None},
                             {k: v for k, v in want.items() if v is not None})
        self.assertEqual([told["sometimes"]["promised"], told["weak"]["promised"]], [False, True])
        self.assertGreater(found[0]["frozen"]["held_back"], 0)
        self.assertEqual(found[0].false_go, sum(r["false_go"] for r in found[0].rows
                                                if r["fault"] != "sometimes"))
        self.assertEqual(len(self.servo.evaluate(trials=1).rows), 45)  # what the program has

    def test_checks_by_hand(self):
        """Each trial is a check with its seed."""
        faults = {"healthy": None, "weak": {"motor_2": .35}, "play": {1: {"backlash": .5}},
                  "two": ["1:.5", "3:.6"], "blind": {"angle": "frozen"}}
        truth = {"weak": {"motor_2": .35}, "two": {"motor_1": .5, "motor_3": .6}}
        blamed = {"weak": ["motor_2"], "play": ["motor_1"], "two": ["motor_1", "motor_3"]}
        found = self.servo.evaluate(faults=faults, trials=3)
        self.assertEqual(len(found.trials), 15)
        for trial in found.trials:
            name = trial["fault"]
            ready = self.servo.check(fault=faults[name], seed=trial["seed"])
            named = [m["name"] for m in ready.mechanisms if m["p_changed"] > .5]
            self.assertEqual(trial["alarm"], ready.alarm)
            self.assertEqual(trial["named"], named == blamed.get(name, []))
            self.assertEqual((trial["probes"], trial["rehearsals"]),
                             (ready.probes, ready.rehearsals))
            errors = [abs(m["mean_gain"] - truth[name][m["name"]]) for m in ready.mechanisms
                      if m["name"] in truth.get(name, {})]
            if errors:
                self.assertAlmostEqual(trial["gain_error"], sum(errors) / len(errors), 12)
            else:
                self.assertTrue(math.isnan(trial["gain_error"]))
            flights = [t for t in found.tasks
                       if (t["fault"], t["trial"]) == (name, trial["trial"])]
            self.assertEqual([f["task"] for f in flights], list(self.servo.tasks))
            for flight in flights:
                said = ready[flight["task"]]
                self.assertEqual(flight["decision"], said["decision"])
                self.assertEqual(flight["lower"], said["lower"])
        mean = np.mean([t["gain_error"] for t in found.trials if t["fault"] == "weak"])
        self.assertAlmostEqual(found["weak"]["gain_error"], mean, 12)

    def test_returns_in_closed_form(self):
        """Of every task, refused ones too, and what is counted from them."""
        faults = {"weak": {"right": .3}, "late": {"left": {"delay": 1}}}
        found = self.sum.evaluate(faults=faults, trials=6)
        seeds = {(t["fault"], t["trial"]): t["seed"] for t in found.trials}
        way, j_min = np.arange(1, 5), self.sum.info["j_min"]
        held_back = dict.fromkeys(faults, 0)
        for flight in found.tasks:
            fault, task = flight["fault"], flight["task"]
            said = self.sum.check(fault=faults[fault],
                                  seed=seeds[fault, flight["trial"]])[task]
            moved = way - 1 if (fault, task) == ("late", "left") else way
            moved = moved * said["correction"][0]
            moved = moved * (.3 if (fault, task) == ("weak", "right") else 1)
            want = math.exp(-((moved - way) ** 2).sum() / (way ** 2).sum())
            self.assertAlmostEqual(flight["flown"], want, 12)
            self.assertEqual(flight["kept"], want >= said["lower"])
            self.assertEqual(flight["met"], want >= j_min)
            held_back[fault] += said["decision"] != "go" and want >= j_min
        self.assertEqual({f: found[f]["held_back"] for f in faults}, held_back)
        self.assertEqual(held_back["late"], 6)  # .875 would do, but nobody could know
        self.assertEqual(found["weak"]["go"], 12)

    def test_a_false_go(self):
        """A loss in half of the runs: each toss is seen or not, and the flight tosses its own."""
        found = self.sum.evaluate(faults=["right:intermittent=.2"], trials=40)
        row, flights = found.rows[0], [f for f in found.tasks if f["decision"] == "go"]
        false = {f["trial"] for f in flights if f["flown"] < self.sum.info["j_min"]}
        broken = {f["trial"] for f in flights if f["flown"] < f["lower"]}
        self.assertGreater(len(false), 0)
        self.assertEqual((row["false_go"], row["broken"]), (len(false), len(broken)))
        self.assertEqual(found.false_go, len(false))
        self.assertEqual(row["go"], len(flights))
        # the limit is the rate at which so few have a probability of 5 %
        p = row["false_go_upper"]
        self.assertAlmostEqual(sum(math.comb(40, k) * p ** k * (1 - p) ** (40 - k)
                                   for k in range(len(false) + 1)), .05, 9)

    def test_another_machine(self):
        """The kit's plant predicts, the machine is what is checked and flown."""
        worn = Sum()
        worn.step = lambda delivered: Sum.step(worn, np.multiply(delivered, [1, .4, 1]))
        found = self.sum.evaluate(worn, [None], trials=3)
        self.assertEqual([r["fault"] for r in found.rows], ["healthy"])
        self.assertEqual(found["healthy"]["named"], 0)  # the left one is not what it was
        for trial in found.trials:
            ready = self.sum.check(worn, seed=trial["seed"])
            self.assertEqual(trial["go"], sum(t["decision"] == "go" for t in ready.tasks))
        self.assertEqual(self.sum.evaluate(faults=[None], trials=3)["healthy"]["named"], 3)

    def test_limits(self):
        """Clopper-Pearson, one-sided at 95 %: 0 of n is 1 - .05 ** (1 / n)."""
        row = self.servo.evaluate(faults=["2:.35"], trials=9)["2:.35"]
        self.assertEqual((row["false_go"], row["broken"]), (0, 0))
        self.assertAlmostEqual(row["false_go_upper"], 1 - .05 ** (1 / 9), 9)
        self.assertAlmostEqual(row["broken_upper"], 1 - .05 ** (1 / 9), 9)

    def test_a_machine_that_fails(self):
        """Its row says so; where every row does there is no result."""
        brittle = Sum()
        brittle.fails_below = .3
        found = self.sum.evaluate(brittle, {"fine": None, "weak": {"right": .1}}, trials=2)
        self.assertEqual([r["trials"] for r in found.rows], [2, 0])
        self.assertRegex(found["weak"]["note"], "the machine failed.*fell off")
        self.assertEqual(found["weak"]["false_go_upper"], 1)
        self.assertEqual({t["fault"] for t in found.trials}, {"fine"})
        with self.assertRaisesRegex(pf.PreflightError, "no fault could be tried.*fell off"):
            self.sum.evaluate(brittle, {"weak": {"right": .1}}, trials=2)

    def test_what_a_plant_cannot_have(self):
        one = self.folder / "two.yaml"
        one.write_text("entries: [{name: healthy, fault: none}, "
                       "{name: slow, fault: time_constant, value: 2, on: plant}]")
        found = self.sum.evaluate(catalogue=one, trials=2)
        self.assertEqual(found["slow"]["trials"], 0)
        self.assertRegex(found["slow"]["note"], "not covered: ")
        self.assertIn("not covered", str(found))

    def test_refusals(self):
        kit = self.servo
        for arguments, text in (
                ({"faults": {"motor_2": .35}}, "'motor_2' is 0.35, which is no fault; give a list"),
                ({"faults": {"motor_2": {"backlash": .5}}}, "names of yours"),
                ({"faults": []}, "there are none"),
                ({"faults": ["2:.35", "2:.35"]}, "twice"),
                ({"faults": {"": None}}, "no name"),
                ({"faults": {"odd": {"motor_9": .5}}}, "'odd': .*motor_9"),
                ({"faults": [{"motor_2": "slack=1"}]}, "slack"),
                ({"faults": [3]}, "0 is 3, which is no fault"),
                ({"faults": [b"2:.5"]}, "no fault"),
                ({"faults": 5}, "5 is no list"),
                ({"faults": [None], "catalogue": "x"}, "either"),
                ({"faults": [None], "trials": 0}, "trials"),
                ({"faults": [None], "trials": 2.5}, "trials"),
                ({"faults": [None], "seed": -1}, "seed")):
            with self.assertRaisesRegex(ValueError, text):
                kit.evaluate(**{"trials": 1, **arguments})
        with self.assertRaisesRegex(pf.PreflightError, "the number of channels"):
            kit.evaluate("attitude", [None], 1)
        with self.assertRaises(FileNotFoundError):
            kit.evaluate(catalogue=self.folder / "none.yaml")
        bad = self.folder / "bad.yaml"
        bad.write_text("entries: [{name: a, fault: slack}]")
        with self.assertRaisesRegex(pf.PreflightError, "bad.yaml.*slack"):
            kit.evaluate(catalogue=bad)
        paper = pf.Kit.calibrate("dc_servo", episodes=10, alarm_trials=20, field=False,
                                 probes="single")
        with self.assertRaisesRegex(pf.PreflightError, "paper's rules"):
            paper.evaluate(faults=[None], trials=1)
        with self.assertRaisesRegex(KeyError, "healthy"):
            kit.evaluate(faults=[None], trials=1)["nonesuch"]

    def test_files_that_are_no_audit(self):
        path = self.folder / "x.json"
        for text in ("", "[]", "{}", '{"format":"other"}',
                     '{"format":"preflight-audit","kit":"","plant":"","sessions":1,"seed":0,'
                     '"entries":[{}]}'):
            path.write_text(text)
            with self.assertRaisesRegex(ValueError, "x.json: not the result of an audit"):
                pf.Evaluation.load(path)

    def test_an_audit_that_was_stopped(self):
        """It is not taken for a whole one."""
        path = self.folder / "a.json"
        path.write_text('{"format":"preflight-audit","kit":"ab","plant":"p","machine":"p, 1",'
                        '"sessions":2,"seed":0,"total":3,"entries":[{"fault":"slow","covered":false,'
                        '"promised":true,"broke":true,"why":"it fell"}]}')
        found = pf.Evaluation.load(path)
        self.assertIn("2 faults of this audit were not tried yet", str(found))
        self.assertIn("<bdi>1 of 3</bdi>", found._repr_html_())
        self.assertEqual(found["slow"]["note"], "the machine failed: it fell")
        self.assertEqual(len(found.to_pandas("trials")), 0)

    def test_ctrl_c_stops_it(self):
        def interrupt(*_):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, .2)
            with self.assertRaises(KeyboardInterrupt):
                self.servo.evaluate(faults=[None], trials=1_000_000)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    unittest.main()
