# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Kits from files: of a plant that lives in a program in Python, and of a command with relative
paths, checked from another folder."""
import contextlib
import json
import os
import pickle
import shutil
import sys
import unittest

import preflight as pf
from support import ROOT, Case, children, preflight
from tank import Tank

SMALL = {"probes": "single", "episodes": 20, "alarm_trials": 20, "grid": 5}
SET = [x for k, v in SMALL.items() if k != "probes" for x in ("--set", f"{k}={v}")]


class Other(Tank):
    name = "other"


@contextlib.contextmanager
def inside(folder):
    here = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


class SavedTest(Case):
    def test_a_plant_of_a_program(self):
        """Handed to the check, it is what predicts too."""
        kit = pf.Kit.calibrate(Tank(), **SMALL)
        path = self.folder / "tank.kit"
        kit.save(path)
        fault = {"cooler": .4}
        want = str(kit.check(fault=fault, seed=3))
        self.assertIn("cooler", want)
        loaded = pf.Kit.load(path)
        for plant in (Tank(), pf.Machine(Tank())):
            self.assertEqual(str(loaded.check(plant, fault=fault, seed=3)), want)
        session = pf.Session(loaded, plant=Tank()).run(fault=fault, seed=3)
        self.assertEqual(str(session.readiness()), want)
        faults = [None, {"cooler": .4}]
        self.assertEqual(loaded.evaluate(Tank(), faults, 3).rows,
                         kit.evaluate(None, faults, 3).rows)
        for call in (loaded.check, loaded.evaluate, lambda: pf.Session(loaded).run()):
            with self.assertRaisesRegex(ValueError, "on python:tank: .*; give it as plant"):
                call()
        with self.assertRaisesRegex(ValueError, "python:tank, which is not python:other: "):
            loaded.check(Other())
        text = preflight("check", path, status=3)
        self.assertIn("python:tank is a plant of a program in Python", text)

    def test_relative_paths_from_another_folder(self):
        """The command runs where its files are; a copy of them nearby comes first."""
        here, there = self.folder / "it's here", self.folder / "there"
        for folder in (here / "plants", there):
            folder.mkdir(parents=True)
        shutil.copy(ROOT / "examples/exec_plant.py", here / "plants/rooms.py")
        plant = f"exec:{sys.executable} plants/rooms.py"
        preflight("calibrate", plant, "-o", "rooms.kit", "--probes", "single", *SET, cwd=here)
        kit = here / "rooms.kit"
        arguments = ("check", kit, "--fault", "heater_b:.35", "--json", "--allow-exec")
        want = preflight(*arguments, cwd=here, status=None)
        self.assertIn("decision", want)
        self.assertEqual(preflight(*arguments, cwd=there, status=None), want)
        self.assertEqual(json.loads(preflight("kit", "show", kit, "--json"))["folder"], str(here))
        self.assertIn(f"folder         {here}", preflight("kit", "show", kit))
        with inside(there):
            loaded = pf.Kit.load(kit, allow_exec=True)
            verdict = loaded.check(fault={"heater_b": .35})
            self.assertEqual(verdict["heater_b"]["decision"], "go")
            evaluated = loaded.evaluate(faults=[{"heater_b": .35}], trials=2)
            self.assertEqual(evaluated.rows[0]["trials"], 2)
        del loaded
        with inside(here):
            made = pf.Kit.calibrate(plant, **SMALL)
            self.assertEqual(bytes(made), kit.read_bytes())
        # moved as a whole, it runs where it is
        moved = self.folder / "moved"
        shutil.move(here, moved)
        self.assertEqual(preflight("check", moved / "rooms.kit", *arguments[2:], cwd=moved,
                                   status=None), want)
        self.assertIn("rooms.py", preflight("check", moved / "rooms.kit", "--allow-exec", cwd=there,
                                            status=3))
        self.assertEqual(children(), [])

    def test_a_command_of_a_kit_is_not_run(self):
        """Only who allows it, or says the same words, has the program of a kit run."""
        path, ran = self.folder / "rooms.kit", self.folder / "ran"
        plant = f"exec:touch {ran}; exec {sys.executable} {ROOT}/examples/exec_plant.py"
        preflight("calibrate", plant, "-o", path, "--probes", "single", *SET)
        ran.unlink()
        loaded = pf.Kit.load(path)
        for call in (loaded.check, loaded.evaluate, lambda: pf.Session(loaded).run()):
            with self.assertRaisesRegex(pf.PreflightError, "was not run: 'exec:touch .*allow_exec"):
                call()
        self.assertFalse(ran.exists())
        allowed = pf.Kit.load(path, allow_exec=True).check(seed=3)
        want = str(allowed)
        self.assertIn("alarm_trials is 20, not 2000: ", " ".join(allowed.weakened))
        self.assertTrue(ran.exists())
        self.assertEqual(str(loaded.check(plant, seed=3)), want)
        copy = pickle.loads(pickle.dumps(loaded))
        with self.assertRaises(pf.PreflightError):
            copy.check()

    def test_a_command_without_files_has_no_folder(self):
        path = self.folder / "rooms.kit"
        preflight("calibrate", f"exec:{sys.executable} {ROOT}/examples/exec_plant.py", "-o", path,
                  "--probes", "single", *SET, cwd=self.folder)
        self.assertNotIn("folder", pf.Kit.load(path).info)


if __name__ == "__main__":
    unittest.main()
