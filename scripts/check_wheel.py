# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py VERSION PROGRAM: uses the package that is installed in this environment, and the
program that it carries, as their users do; PROGRAM is one built from the tree, to compare with.
Prints nothing and ends with 0, or says what failed."""

import os
import pathlib
import subprocess
import sys

import preflight

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/tests"))
from tank import Tank

VERSION, BUILT = sys.argv[1:]
COMMAND = pathlib.Path(sys.executable).parent / "preflight"  # of this environment
SMALL = ["--set", "episodes=20", "--set", "alarm_trials=100"]


def run(*words, program=COMMAND, status=0):
    done = subprocess.run([str(program), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    assert done.returncode == status, f"{' '.join(words)}: {done.returncode}, not {status}: {said}"
    return said


def the_package():
    where = pathlib.Path(preflight.__file__)
    assert pathlib.Path(sys.prefix) in where.parents, f"{where} is not of this environment"
    assert preflight.__version__ == VERSION, preflight.__version__
    kit = preflight.Kit.calibrate("quad_tank", episodes=20, alarm_trials=100)
    kit.save("python.kit")
    ready = kit.check(fault={1: 0.35}, seed=7)
    assert ready["standby_1"]["correction"][0] > 2 and ready["standby_1"]["rehearsed"], ready
    mine = preflight.Kit.calibrate(Tank(), episodes=20, alarm_trials=100)
    found = mine.evaluate(Tank(), faults=[None, {"cooler": 0.4}], trials=5)
    assert found["cooler:0.4"]["named"] == 5 and found.false_go == 0, str(found)


def the_program():
    assert run("--version") == f"preflight {VERSION}\n"
    assert "What really happens when it is flown" in run("demo")
    assert "compact-plants" in run("bench", "list")
    run("calibrate", "quad_tank", "-o", "own.kit", *SMALL)
    run("calibrate", "quad_tank", "-o", "built.kit", *SMALL, program=BUILT)
    kits = [pathlib.Path(name).read_bytes() for name in ("python.kit", "own.kit", "built.kit")]
    assert kits[0] == kits[1] == kits[2], "the kits of package, its program and the tree differ"
    run("bench", "run", "mechanism", "--profile", "quick", "--db", "m.db")
    said = run("doctor", "hopper", status=3)
    assert "built without MuJoCo (packages have none)" in said and said.count("\n") == 1, said
    # plants in Python run in the environment of the command: it has this package, but not gymnasium
    assert "preflight-readiness[gym]" in run("list", "gym:Pendulum-v1", status=3)
    os.environ["PATH"] = ""
    assert preflight.bench.program().endswith("preflight/bin/preflight")


the_package()
the_program()
subprocess.run([sys.executable, "-m", "pip", "check", "-q"], check=True, stdout=subprocess.DEVNULL)
