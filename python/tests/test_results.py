# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Results as data frames, and pictures."""
import unittest

import matplotlib
import numpy as np
import preflight as pf
from support import Case, preflight

matplotlib.use("Agg")
import matplotlib.pyplot as plt


class ResultsTest(Case):
    def test_frames(self):
        db = self.folder / "r.db"
        preflight("bench", "run", "compact-plants", "--profile", "quick", "--db", db, "--only",
                  "environment=dc_servo,wood_berry", "--only", "g=0.20")
        trials = pf.bench.trials(db, suite="compact-plants")
        self.assertEqual(list(trials.columns), [
            "suite", "environment", "setting", "method", "seed", "trial", "metric", "value",
            "profile", "config_hash"])
        self.assertEqual(set(trials.environment), {"dc_servo", "wood_berry"})
        one = pf.bench.trials(db, metric="gain_mae", method=["eg-mpt"], environment="dc_servo")
        table = pf.bench.table("compact-plants", db=db, profile="quick")
        row = table[(table.environment == "dc_servo") & (table.metric == "gain_mae")
                    & (table.method == "eg-mpt")]
        self.assertTrue(np.isclose(row["mean"].iloc[0], one.value.mean(), rtol=1e-12))
        self.assertTrue(table.equals(pf.bench.table("compact-plants", db=db)))  # what was run last
        self.assertEqual(len(pf.bench.trials(db, config="none of them")), 0)
        # of two configurations the one run last, as the program has it
        part = ["bench", "run", "compact-plants", "--profile", "quick", "--db", db, "--only",
                "environment=dc_servo", "--only", "g=0.20"]
        preflight(*part, "--set", "alpha=0.2")
        self.assertNotEqual(set(pf.bench.trials(db).config_hash), set(trials.config_hash))
        preflight(*part)
        self.assertEqual(set(pf.bench.trials(db).config_hash), set(trials.config_hash))
        with self.assertRaisesRegex(FileNotFoundError, "no such database"):
            pf.bench.trials(self.folder / "missing.db")
        with self.assertRaisesRegex(ValueError, "nonesuch.*compact-plants"):
            pf.bench.trials(db, suite="nonesuch")
        with self.assertRaisesRegex(RuntimeError, "nonesuch"):
            pf.bench.table("nonesuch", db=db)

    def test_pictures(self):
        kit = pf.Kit.calibrate("attitude", episodes=40, alarm_trials=200)
        session = kit.session().run(fault={"thruster3": .35}, seed=7)
        ready = session.readiness()
        axes = [pf.plot.belief(session), pf.plot.gains(session),
                pf.plot.readiness(ready, j_min=kit.info["j_min"])]
        labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
        self.assertIn("thruster3", labels)
        self.assertEqual(len(axes[2].patches), len(ready.tasks))
        line, = (drawn for drawn in axes[1].lines if drawn.get_label().startswith("thruster3"))
        self.assertLess(abs(line.get_xdata()[np.argmax(line.get_ydata())] - .35), .11)
        for ax in axes:
            ax.figure.savefig(self.folder / "x.png")
        pf.plot.belief(kit.session())  # nothing told yet
        pf.plot.readiness(kit.session().readiness())
        plt.close("all")
        self.assertIn("go", str(ready))
        self.assertIn("7 tasks", repr(ready))


if __name__ == "__main__":
    unittest.main()
