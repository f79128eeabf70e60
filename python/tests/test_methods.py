# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Methods of a user's own beside those of the suites."""

import os
import pathlib
import subprocess
import sys

import preflight as pf
from support import ROOT, Case, preflight

EXAMPLE = f"python:{ROOT}/examples/own_method.py:Suspicion"
PART = ["compact-plants", "--profile", "quick", "--only", "environment=dc_servo,attitude"]

FILE = '''
class First:
    statistic = "norm"
    def choose(self, belief, probes):
        assert abs(sum(belief) - 1) < 1e-9 and all(p.targets for p in probes)
        return probes[0].name

class Fails:
    statistic = "norm"
    def choose(self, belief, probes):
        raise RuntimeError("no idea")

class Wrong:
    statistic = "norm"
    def choose(self, belief, probes):
        return 99

class Mute:
    statistic = "norm"

class Strange:
    statistic = "odd"
    def choose(self, belief, probes):
        return probes[0]
'''


class Methods(Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "mine.py"
        self.file.write_text(FILE)

    def run_part(self, db, *more, status=0):
        return preflight("bench", "run", *PART, "--db", self.folder / db, *more, status=status)

    def test_a_script_that_would_run_itself(self):
        """Reading the class runs the script again; that call is refused, so nothing multiplies."""
        script = self.folder / "both.py"
        script.write_text("import sys, preflight\n"
                          "class Both:\n    statistic = 'norm'\n"
                          "    def choose(self, belief, probes):\n        return probes[0]\n"
                          "preflight.bench.run('compact-plants', methods=Both, profile='quick',\n"
                          "                    only='environment=dc_servo', db=sys.argv[1])\n")
        done = subprocess.run([sys.executable, script, self.folder / "both.db"], text=True,
                              capture_output=True, timeout=120,
                              env=os.environ)
        self.assertEqual(done.returncode, 1)
        self.assertIn('behind `if __name__ == "__main__":`', done.stderr)

    def test_shared_thresholds_do_not_feel_it(self):
        shared = ("--set", "threshold=shared")
        self.run_part("with.db", "--method", EXAMPLE, *shared)
        self.run_part("plain.db", *shared)
        one, plain = (pf.bench.trials(self.folder / f"{n}.db").drop(columns="config_hash")
                      for n in ("with", "plain"))
        rest = one[one.method != "python:Suspicion"]
        self.assertTrue(plain.reset_index(drop=True).equals(rest.reset_index(drop=True)))

    def test_not_with_the_fields_verdict(self):
        said = preflight("bench", "run", "field-compact", "--profile", "quick", "--db",
                         self.folder / "field.db", "--method", EXAMPLE, status=None)
        self.assertIn("--method: field-compact.yaml has the field's verdict", said)

    def test_same_for_any_threads(self):
        for threads in ("1", "2"):
            self.run_part(f"{threads}.db", "--method", EXAMPLE, "--threads", threads)
        one, two = (pf.bench.trials(self.folder / f"{t}.db") for t in ("1", "2"))
        self.assertTrue((one == two).to_numpy().sum() > 0 and one.equals(two))
        self.assertIn("python:Suspicion", set(one.method))
        # the built-in methods have the numbers that they have without it
        self.run_part("plain.db")
        plain = pf.bench.trials(self.folder / "plain.db").drop(columns="config_hash")
        rest = one[one.method != "python:Suspicion"].drop(columns="config_hash")
        self.assertTrue(plain.reset_index(drop=True).equals(rest.reset_index(drop=True)))
        text = preflight("bench", "verify", *PART[:3], "--db", self.folder / "1.db", "--method",
                         EXAMPLE)
        self.assertIn("0 differ", text)

    def test_from_python(self):
        sys.path.insert(0, str(self.folder))
        try:
            import mine
            table = pf.bench.run("compact-plants", methods=[mine.First], profile="quick",
                                 db=self.folder / "p.db", only=["environment=dc_servo"])
        finally:
            sys.path.remove(str(self.folder))
        own = table[(table.method == "python:First") & (table.environment == "dc_servo")]
        self.assertIn("detection", set(own.metric))
        with self.assertRaisesRegex(ValueError, "top of a file"):
            pf.bench.run("compact-plants", methods=[type("Local", (), {})])

    def test_file_is_part_of_the_experiment(self):
        for _ in range(2):
            self.run_part("f.db", "--method", f"python:{self.file}:First")
            self.file.write_text(FILE + "\n# changed\n")
        self.assertEqual(len(set(pf.bench.trials(self.folder / "f.db", config="all").config_hash)),
                         2)

    def test_refused_before_anything_runs(self):
        for spec, why in ((f"python:{self.file}:Mute", "has no method choose"),
                          (f"python:{self.file}:Strange", "statistic must be"),
                          (f"python:{self.file}:Nobody", "has no class Nobody"),
                          (f"python:{self.folder}/missing.py:First", "missing.py"),
                          ("ruby:x", "is not python:FILE:CLASS")):
            text = self.run_part("r.db", "--method", spec, status=None)
            self.assertIn(why, text)
            self.assertFalse(pathlib.Path(self.folder / "r.db").exists())

    def test_failures_are_trials_that_failed(self):
        for name, why in (("Fails", "no idea"), ("Wrong", "none of the probes")):
            self.run_part(f"{name}.db", "--method", f"python:{self.file}:{name}", status=1)
            text = preflight("bench", "status", *PART[:3], "--db", self.folder / f"{name}.db",
                             status=None)
            self.assertIn(why, text)
