#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""All tests of the Python package and the examples in its docstrings: run.py [NAME...]

Runs against the installed package. Last line: N passed, N failed.
"""
import doctest
import importlib
import os
import sys
import time
import unittest

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
MODULES = ("plant", "machine", "kit", "session", "evaluate", "gym")
TESTS = ("test_plant", "test_box2d", "test_session", "test_bridge", "test_faults",
         "test_results", "test_examples", "test_many", "test_methods", "test_evaluate", "test_show",
         "test_progress", "test_gym_faults", "test_saved")


class Result(unittest.TextTestResult):
    """Says how long a slow test took."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        took = time.monotonic() - self.began
        if took > 2:
            print(f"   {test.id()} took {took:.1f} s", flush=True)
        super().stopTest(test)


def suite(names):
    loader = unittest.TestLoader()
    tests = unittest.TestSuite()
    for name in TESTS:
        tests.addTests(loader.loadTestsFromName(name))
    for name in MODULES:
        tests.addTests(doctest.DocTestSuite(importlib.import_module(f"preflight.{name}")))
    if not names:
        return tests
    return unittest.TestSuite(t for group in tests for t in _flat(group)
                              if any(n in t.id() for n in names))


def _flat(tests):
    if isinstance(tests, unittest.TestSuite):
        for test in tests:
            yield from _flat(test)
    else:
        yield tests


def main():
    runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=0)
    result = runner.run(suite(sys.argv[1:]))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    for test, why in result.skipped:
        print(f"SKIPPED {test.id()}: {why}")
    if skipped and os.environ.get("CI"):
        failed, skipped = failed + skipped, 0
    passed = result.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
