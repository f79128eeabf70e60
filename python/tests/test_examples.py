# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The worked examples of README and docs/python.md, kept working."""
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import unittest

import preflight as pf
from support import PROGRAM, ROOT, Case, children, preflight

EXAMPLES = ROOT / "examples"


def python(*arguments, **options):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class ExamplesTest(Case):
    def test_a_plant_in_c(self):
        program = os.path.join(os.path.dirname(PROGRAM), "examples", "hello_example")
        done = subprocess.run([program], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"task right +(go|NO-GO) +return >= .*strength 0\.[23]")

    def test_a_gymnasium_environment(self):
        text = python(EXAMPLES / "gym_plant.py")
        self.assertRegex(text, r"(?m)^action1 +1\.\d+ .* go$")
        self.assertRegex(text, r"(?m)^action2 +[23]\.\d+ .* go$")

    def test_an_environment_with_faults(self):
        text = python(EXAMPLES / "faulty_gym.py")
        self.assertRegex(text, r"(?m)^healthy +-1\d\d +100%$")
        self.assertRegex(text, r"(?m)^speed:frozen +-\d{4} +\d\d%$")

    def test_an_exec_plant(self):
        self.assertLessEqual(len((EXAMPLES / "exec_plant.py").read_text().splitlines()), 41)
        kit = self.folder / "rooms.kit"
        command = f"exec:{sys.executable} {EXAMPLES}/exec_plant.py"
        preflight("calibrate", command, "-o", kit, "--set", "alarm_trials=50", "--set",
                  "episodes=20")
        text = preflight("check", kit, "--allow-exec", "--fault", "heater_b:0.35", status=None)
        self.assertRegex(text, r"(?m)^heater_b +(GO|GO-IF) +x 2\.\d+ ")
        self.assertEqual(children(), [])

    def test_serve_driven_from_python(self):
        log, kit = self.folder / "log.csv", self.folder / "rig.kit"
        log.write_text(python(EXAMPLES / "record.py"))
        preflight("calibrate", "--recordings", log, "-o", kit)
        text = python(EXAMPLES / "drive.py", kit, "--program", PROGRAM, "--gain", "right=0.35")
        self.assertRegex(text, r"right +go +at least [\d.]+, correction [23]\.\d+ .*: apart")

    def test_python_in_the_documents(self):
        """Every Python block of docs/python.md and README.md, one after the other."""
        for name in ("docs/python.md", "README.md"):
            blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
            self.assertGreater(len(blocks), 0, name)
            space = {"__name__": "documents"}
            here = os.getcwd()
            os.chdir(self.folder)
            try:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    for block in blocks:
                        exec(compile(block, name, "exec"), space)
                self.assertNotIn("no-go", printed.getvalue())
            finally:
                os.chdir(here)

    def test_the_notebook(self):
        """Its cells as plain Python; `make check-all` runs it in Jupyter. It keeps no output."""
        notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
        space = {"__name__": "notebook"}
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))
                exec(compile("".join(cell["source"]), "notebook", "exec"), space)
        self.assertTrue(space["ready"].go)
        self.assertEqual(space["found"].false_go, 0)

    def test_names_are_exported(self):
        for name in pf.__all__:
            self.assertTrue(hasattr(pf, name), name)
        listed = python("-c", "import preflight; print(*dir(preflight))").split()
        for name in (*pf.__all__, "bench", "box2d", "gym", "plot", "__version__"):
            self.assertIn(name, listed)
        with self.assertRaises(AttributeError):
            pf.nonesuch  # noqa: B018


if __name__ == "__main__":
    unittest.main()
