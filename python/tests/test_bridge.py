# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The bridge in order: answers, kits, numbers of workers, messages about what is missing."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import preflight as pf
from preflight import worker
from support import ROOT, Case, children, preflight

SMALL = {"sensor_noise": .25, "episodes": 6, "alarm_trials": 20, "grid": 5}
SET = [x for k, v in SMALL.items() for x in ("--set", f"{k}={v}")]


class BridgeTest(Case):
    def test_answers_equal_a_direct_run(self):
        """Random commands, gains and seeds, all three Box2D plants and a plain one."""
        rng = np.random.default_rng(5)
        for name in ("BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3",
                     "Pendulum-v1"):
            plant, machine = pf.gym_plant(name), pf.Machine(f"gym:{name}")
            n = len(plant.mechanisms)
            for _ in range(3):
                u, gains = rng.uniform(-1.2, 1.2, (12, n)), rng.uniform(0, 1.5, n)
                seed = int(rng.integers(2**53))
                direct = plant.roll(u, gains, seed=seed)
                through = machine.roll(u, gains, key=seed << 11)
                again = machine.roll(u, gains, state=through.start)
                for a, b, c in zip(direct, through, again):
                    self.assertEqual(a.tobytes(), b.tobytes(), name)
                    self.assertEqual(a.tobytes(), c.tobytes(), name)

    def test_both_ways_of_writing_say_the_same(self):
        """With orjson and without it every double keeps its bits."""
        rng = np.random.default_rng(9)
        values = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500),
                                 [0, -0.0, 5e-324, 1.7976931348623157e308, 1, 1e22, .1]])
        message = {"id": 7, "output": values.reshape(-1, 3)}
        spoken = [worker._encode(message)]
        fast, worker.orjson = worker.orjson, None
        try:
            spoken.append(worker._encode(message))
        finally:
            worker.orjson = fast
        self.assertIsNotNone(fast)
        for line in spoken:
            self.assertEqual(line[-1:], b"\n")
            heard = json.loads(line)
            self.assertEqual(heard["id"], 7)
            self.assertEqual(np.array(heard["output"]).tobytes(), message["output"].tobytes())

    def test_the_package_runs_fmus(self):
        """All of this FMU is in order but its library: what is in the package found that out."""
        if not (Path(pf.__file__).parent / "libexec/preflight/preflight-fmu").exists():
            self.skipTest("built without libzip or expat")
        path = self.folder / "two.fmu"
        path.write_bytes((ROOT / "tests/fuzz/corpus/zip/two").read_bytes())
        with self.assertRaisesRegex(pf.PreflightError, "its library cannot be loaded: binaries"):
            pf.Machine(f"fmu:{path}")

    def test_kits_do_not_depend_on_workers(self):
        """The program with one and three workers, and the same plant in this process."""
        kits = []
        for threads in (1, 3):
            path = self.folder / f"{threads}.kit"
            preflight("calibrate", "gym:Pendulum-v1", "-o", path, "--threads", threads, *SET)
            kits.append(path.read_bytes())
        kits.append(bytes(pf.Kit.calibrate(pf.GymPlant("Pendulum-v1", fresh=False), **SMALL)))
        self.assertEqual(kits[0], kits[1])
        self.assertEqual(kits[0], kits[2])
        self.assertEqual(children(), [])

    def test_a_walker_is_checked(self):
        """Calibrated here, checked by the program through the bridge: the same verdict."""
        kit = pf.Kit.calibrate("gym:BipedalWalker-v3", probes="single", budget={"stage1": 4},
                               tasks=[{"name": "swing", "mechanisms": ["hip_2"]}], **SMALL)
        path = self.folder / "w.kit"
        kit.save(path)
        self.assertEqual(kit.plant, "gym:BipedalWalker-v3")
        scales = [c["scale"] for c in kit.info["channels"]]
        self.assertEqual(scales[0], .063151)
        text = preflight("check", path, "--fault", "hip_2:0.35", "--seed", 1, "--json", status=None)
        self.assertIn('"hip_2"', text)
        ready = kit.check(pf.gym_plant("BipedalWalker-v3"), fault={"hip_2": .35}, seed=1)
        want = json.loads(text)
        self.assertEqual(ready.data, {k: want[k] for k in ready.data})
        changed = {m["name"]: m["p_changed"] for m in ready.mechanisms}
        self.assertEqual(max(changed, key=changed.get), "hip_2")

    def test_libraries_may_print(self):
        """At import, while making the plant and while it runs; and they may read."""
        (self.folder / "noisy.py").write_text(
            "import os, sys\nimport numpy as np\nimport preflight\n"
            "print('at import'); os.write(1, b'raw\\n'); print(repr(sys.stdin.read(5)))\n"
            "class Noisy(preflight.Plant):\n"
            "    name = 'noisy'\n"
            "    mechanisms = [preflight.Mechanism('a', -1, 1), preflight.Mechanism('b', -1, 1)]\n"
            "    channels = [preflight.Channel('x')]\n"
            "    def reset(self, seed, noise):\n"
            "        print('reset'); self.x = 0.0\n"
            "    def step(self, v):\n"
            "        os.system('echo step'); self.x += v.sum()\n"
            "    def observe(self):\n"
            "        return [self.x]\n")
        machine = pf.Machine(f"exec:{sys.executable} -m preflight.worker "
                             f"{self.folder}/noisy.py:Noisy 2>/dev/null")
        self.assertEqual(machine.roll([[.5, .25]] * 2).output.tolist(), [[.75], [1.5]])

    def test_what_is_missing_is_said(self):
        empty = self.folder / "empty.csv"
        empty.write_text("u0,u1\n0,0\n")
        for python, plant, text in (
                ("/nonexistent/python", "gym:CartPole-v1", "set PREFLIGHT_PYTHON"),
                ("/usr/bin/python3", "gym:CartPole-v1", "no package preflight-readiness"),
                (sys.executable, "gym:Nonesuch-v0", "Nonesuch"),
                (sys.executable, "gym:CartPole-v1", "say which one is idle"),
                (sys.executable, "gym:a b", "give a Gymnasium id"),
                (sys.executable, "gym:", "give a Gymnasium id")):
            if python == "/usr/bin/python3" and (not os.path.exists(python) or subprocess.run(
                    [python, "-c", "import preflight"], capture_output=True).returncode == 0):
                continue
            got = preflight("rollout", plant, "--commands", empty, status=3,
                            env={**os.environ, "PREFLIGHT_PYTHON": python})
            self.assertIn(text, got)

    def test_worker_specs(self):
        for spec, text in (("nothing", "say gym:ID"), ("/no/such/file.py:x", "no such file"),
                           ("json:dumps", "missing 1 required|TypeError"),
                           ("math:nothing", "no attribute")):
            with self.assertRaisesRegex(pf.PreflightError, text):
                pf.Machine(f"exec:{sys.executable} -m preflight.worker {spec}")
        machine = pf.Machine(f"exec:{sys.executable} -m preflight.worker "
                             f"{ROOT}/examples/gym_plant.py:plant")
        self.assertEqual(machine.mechanisms, ("action0", "action1", "action2"))
        self.assertEqual(machine.channels, ("forward", "sideways", "yaw_rate"))


if __name__ == "__main__":
    unittest.main()
