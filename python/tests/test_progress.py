# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Progress of calibrations and experiments: functions, bars, lines, and what they raise."""
import contextlib
import io
import sys
import types
import unittest.mock

import preflight as pf
from preflight import progress
from support import Case

SMALL = {"episodes": 20, "alarm_trials": 100}


class Bar:
    """What tqdm offers, as far as it is used."""

    made = []

    def __init__(self, desc, total, initial, leave):
        self.desc, self.total, self.n, self.open = desc, total, initial, True
        Bar.made.append(self)

    def update(self, n):
        self.n += n

    def close(self):
        self.open = False


class TestProgress(Case):
    def test_a_function_sees_every_stage_and_changes_nothing(self):
        told = []
        kit = pf.Kit.calibrate("dc_servo", progress=lambda *t: told.append(t), **SMALL)
        self.assertEqual(bytes(kit), bytes(pf.Kit.calibrate("dc_servo", **SMALL)))
        stages = {what for what, done, total in told if done == total}
        self.assertLessEqual({"sensitivities", "confirmation", "contract", "episodes", "returns",
                              "looks", "alarm trials", "residuals", "misfits", "sessions",
                              "rehearsals"}, stages)
        self.assertTrue(all(0 < done <= total for _, done, total in told))

    def test_a_plant_in_python(self):
        told = []
        pf.Kit.calibrate(pf.GymPlant("Pendulum-v1", fresh=False), sensor_noise=.25, episodes=8,
                         alarm_trials=20, progress=lambda *t: told.append(t[0]))
        self.assertIn("alarm trials", told)

    def test_what_it_raises_stops_the_calibration(self):
        calls = []

        def report(*told):
            calls.append(told)
            raise RuntimeError("enough")
        with self.assertRaisesRegex(RuntimeError, "enough"):
            pf.Kit.calibrate("dc_servo", episodes=100_000, progress=report)
        self.assertEqual(len(calls), 1)

    def test_true_is_bars_where_tqdm_is(self):
        Bar.made = []
        fake = types.ModuleType("tqdm.auto")
        fake.tqdm = Bar
        with unittest.mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"),
                                                    "tqdm.auto": fake}):
            pf.Kit.calibrate("dc_servo", progress=True, **SMALL)
        self.assertIn("alarm trials", {bar.desc for bar in Bar.made})
        self.assertFalse(any(bar.open for bar in Bar.made))

    def test_true_is_lines_where_it_is_not(self):
        out = io.StringIO()
        with unittest.mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}), \
                unittest.mock.patch.object(progress.Lines, "PAUSE", 0), \
                contextlib.redirect_stderr(out):
            pf.Kit.calibrate("dc_servo", progress=True, **SMALL)
        self.assertIn("alarm trials 100/100\n", out.getvalue())

    def test_anything_else_is_refused(self):
        with self.assertRaisesRegex(TypeError, "progress: 'bar' is neither"):
            pf.Kit.calibrate("dc_servo", progress="bar")

    def test_evaluations(self):
        told = []
        kit = pf.Kit.calibrate("dc_servo", **SMALL)
        options = {"faults": [None, "1:0.5"], "trials": 2}
        found = kit.evaluate(progress=lambda *t: told.append(t), **options)
        self.assertEqual(told, [("faults", 0, 2), ("faults", 1, 2), ("faults", 2, 2)])
        self.assertEqual(found.rows, kit.evaluate(**options).rows)

    def test_experiments(self):
        told = []
        options = {"db": self.folder / "a.db", "profile": "quick",
                   "only": ["environment=dc_servo", "seed=0"]}
        pf.bench.run("compact-plants", progress=lambda *t: told.append(t), **options)
        what, done, total = told[-1]
        self.assertEqual((what, done), ("trials", total))

        def report(*_):
            raise RuntimeError("enough")
        options["db"] = self.folder / "b.db"
        with self.assertRaisesRegex(RuntimeError, "enough"):
            pf.bench.run("compact-plants", progress=report, **options)
        pf.bench.run("compact-plants", **options)  # goes on from there
