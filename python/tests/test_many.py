# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Many sessions: no leak, and threads that share a kit."""
import gc
import os
import threading
import tracemalloc
import unittest

import numpy as np
import preflight as pf
from support import Case

SESSIONS = 10_000


def resident():
    """Bytes of memory in use by this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ManyTest(Case):
    @classmethod
    def setUpClass(cls):
        # responses and predictions of one target by hand: what is measured is the session
        cls.kit = pf.Kit.calibrate("attitude", probes="single", episodes=40, alarm_trials=200)
        rng, kit = np.random.default_rng(0), cls.kit
        shape = (kit.probes[0].rows, len(kit.channels))
        cls.response = rng.normal(size=shape) * 1e-3
        cls.told = {"nominal": np.zeros(shape), "fault": rng.normal(size=(1, *shape)) * 1e-3}

    def one(self):
        session = pf.Session(self.kit)
        for _ in range(3):
            session.ask()
            session.tell(self.response, **self.told)
        session.tell if session.ask().done else session.skip()
        return session.readiness().data

    def test_no_leak(self):
        for _ in range(500):
            self.one()
        gc.collect()
        before = resident()
        for _ in range(SESSIONS):
            self.one()
        gc.collect()
        grown = resident() - before
        print(f"   {SESSIONS} sessions: memory grew by {grown / 1024:.0f} KiB")
        # a session of this kit is above 10 KiB: one lost in a hundred would show
        self.assertLess(grown, 2 << 20)

    def test_no_leak_of_python_objects(self):
        for _ in range(50):
            self.one()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            self.one()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self.assertLess(grown, 50_000)

    def test_no_leak_of_kits_and_plants(self):
        data = bytes(self.kit)
        for _ in range(50):
            pf.Kit(data), pf.Machine("attitude")
        gc.collect()
        before = resident()
        for _ in range(2000):
            pf.Kit(data), pf.Machine("attitude")
        gc.collect()
        self.assertLess(resident() - before, 2 << 20)

    def test_no_leak_of_evaluations(self):
        for n in (10, 100):
            gc.collect()
            before = resident()
            for seed in range(n):
                self.kit.evaluate("attitude", [None, {3: .35}], 1, seed=seed, threads=2)
            gc.collect()
        self.assertLess(resident() - before, 2 << 20)

    def test_threads_share_a_kit(self):
        """Sessions of two threads on one kit give what they give alone."""
        faults = [{"thruster3": .35}, {"thruster6": .5}]
        want = [[self.kit.check(fault=f, seed=s).data for s in range(25)] for f in faults]
        got = [[], []]

        def work(i):
            for s in range(25):
                got[i].append(self.kit.check(fault=faults[i], seed=s).data)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, want)

    def test_threads_share_a_plant_in_python(self):
        kit = pf.Kit.calibrate(pf.GymPlant("Pendulum-v1", fresh=False), sensor_noise=.25,
                               episodes=6, alarm_trials=20, grid=5)
        want = [kit.check(fault={"plus": .3}, seed=s).data for s in range(6)]
        got = {}
        threads = [threading.Thread(target=lambda s=s: got.update(
            {s: kit.check(fault={"plus": .3}, seed=s).data})) for s in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([got[s] for s in range(6)], want)

    def test_one_session_in_two_threads_is_refused(self):
        session = pf.Session(self.kit)
        with session._lock, self.assertRaisesRegex(RuntimeError, "one thread at a time"):
            session.ask()


if __name__ == "__main__":
    unittest.main()
