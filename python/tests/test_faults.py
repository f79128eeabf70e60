# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Fault injection into the bridge: a trajectory fails with its reason, the worker is started again,
the run goes on, nothing hangs past its time-out, no process is left."""
import os
import sys
import time
import unittest
import unittest.mock

import preflight as pf
from support import ROOT, Case, children, preflight

PLANT = f"{sys.executable} {ROOT}/python/tests/faulty.py"
LIMIT = 1.0  # seconds, which the plant asks for in its hello
U = [[0, .5, 0], [.1, 0, -.25], [0, 0, 1]]
SUITE = """id: broken
title: a plant that breaks in some trials
environments: ["exec:{plant}"]
methods: [eg-mpt]
metrics: [detection]
gains: .27
stage2: 1
bins: 5
episodes: 10
seeds: 1
trials: 6
grid: 5
stop: break
table: metrics
"""


class FaultTest(Case):
    def inject(self, mode, reason):
        """Good, bad, good again: with the bits that a plant in order gives."""
        good = pf.Machine(f"exec:{PLANT} good")
        machine = pf.Machine(f"exec:exec {PLANT} {mode} {self.folder}/mark")
        want = [good.roll(U, key=k << 11, noise=True).output.tobytes() for k in (1, 2, 3)]
        self.assertEqual(machine.roll(U, key=1 << 11, noise=True).output.tobytes(), want[0])
        began = time.monotonic()
        with self.assertRaisesRegex(pf.PreflightError, reason) as caught:
            machine.roll(U, key=2 << 11, noise=True)
        self.assertLess(time.monotonic() - began, LIMIT + 4)
        self.assertEqual(caught.exception.code, "plant")
        for k in (2, 3):
            self.assertEqual(machine.roll(U, key=k << 11, noise=True).output.tobytes(), want[k - 1])
        del machine, good
        self.assertEqual(children(), [])

    def test_hangs(self):
        self.inject("hang", "no answer within 1 s")

    def test_hangs_and_ignores_the_signal(self):
        self.inject("deaf", "no answer within 1 s")

    def test_dies(self):
        self.inject("die", "exited with status 7")

    def test_is_killed(self):
        self.inject("killed", "ended by signal 9")

    def test_prints_garbage(self):
        self.inject("garbage", "not a JSON object: Traceback")

    def test_too_few_rows(self):
        self.inject("short", "has 2 rows instead of 3")

    def test_a_row_too_wide(self):
        self.inject("wide", "row 0 of .output. is not a list of 2 numbers")

    def test_nan(self):
        self.inject("nan", "NaN")

    def test_says_it_cannot(self):
        self.inject("error", "the plant reports: the rig is being painted")

    def test_answers_somebody_else(self):
        self.inject("stranger", "is not that of a request")

    def test_limits(self):
        """A limit of the caller's holds for every kind of process, not only for exec:."""
        worker, mark = self.folder / "python", self.folder / "mark"
        worker.write_text(f"#!/bin/sh\nexec {PLANT} hang {mark}\n")
        worker.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PREFLIGHT_PYTHON=str(worker)):
            for name in (f"exec:{worker}", "gym:Pendulum-v1", "grid2op"):
                mark.unlink(missing_ok=True)
                machine = pf.Machine(name)
                machine.roll(U)
                machine.limits(roll=.3)
                with self.assertRaisesRegex(pf.PreflightError, "no answer within 0.3 s"):
                    machine.roll(U)
                machine.limits(roll=20)
                machine.roll(U)  # the limit of the hello stayed
                with self.assertRaisesRegex(ValueError, "no time"):
                    machine.limits(hello=float("nan"))
        del machine
        self.assertEqual(children(), [])

    def test_a_plant_in_python_has_no_limits(self):
        """Whatever it is called: the name of the process that runs the same environment."""
        plant = pf.GymPlant("Pendulum-v1", fresh=False)
        plant.probe = plant.task = pf.Pulse([0, .3, .3], steps=4)
        machine = pf.Machine(plant)
        self.assertEqual(machine.name, "gym:Pendulum-v1")
        settings = {"probes": "single", "sensor_noise": .25, "episodes": 4, "alarm_trials": 20,
                    "grid": 3}
        before = bytes(pf.Kit.calibrate(machine, **settings))
        machine.limits(20, 60)
        self.assertEqual(bytes(pf.Kit.calibrate(machine, **settings)), before)

    def test_the_run_goes_on(self):
        """`bench run` on a plant that breaks in the trials where mechanism 1 is weak."""
        (self.folder / "suites").mkdir()
        (self.folder / "f.py").symlink_to(ROOT / "python/tests/faulty.py")  # names are short
        for mode, reason, counts in (("die", "exited with status 7", (1, 3)), ("nan", "NaN", (2,))):
            (self.folder / "suites/broken.yaml").write_text(
                SUITE.format(plant=f"python3 f.py {mode}"))
            db = self.folder / f"{mode}.db"
            done = {}
            for threads in counts:
                arguments = ["broken", "--profile", "quick", "--data", self.folder, "--db",
                             f"{db}{threads}", "--allow-exec"]
                preflight("bench", "run", *arguments, "--threads", threads, status=1,
                          cwd=self.folder)
                text = preflight("bench", "status", *arguments, status=None, cwd=self.folder)
                self.assertIn(reason, text)
                done[threads] = pf.bench.trials(f"{db}{threads}")[["trial", "metric", "value"]]
            first, last = done[counts[0]], done[counts[-1]]
            self.assertGreater(len(first), 0)
            self.assertTrue(first.equals(last))
            self.assertEqual(children(), [])


if __name__ == "__main__":
    unittest.main()
