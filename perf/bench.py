#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Compares preflight with NumPy, bare MuJoCo, Gymnasium, EnvPool and PyTorch, in turns.

Two programs take turns, ours and a rival's, about a fifth of a second of the processor each. A ratio is
that of neighbouring turns, so a slow minute of the machine hits both. One table has their quartiles, the
aims of perf/aims.csv and whether they are met; the cheapest comparisons come first. The rows are added
to perf/results/PROCESSOR.csv. Speed is no test: a missed aim does not fail, a broken program does.

--quick takes about two minutes: fewer turns, nothing is installed, nothing is compiled by PyTorch.

Example: scripts/build.sh release bench_programs preflight_cli && perf/bench.py --quick
"""

import argparse
import contextlib
import dataclasses
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import ratios

ROOT = pathlib.Path(__file__).resolve().parent.parent
PERF = ROOT / "perf"
PLANTS = ("attitude", "aircraft", "battery", "building", "dc_servo", "pump_tank", "quad_tank",
          "quadrotor", "reaction_wheel", "wind_pitch", "wood_berry")
SYSTEMS = ("hopper", "half_cheetah", "swimmer", "walker2d", "ant", "humanoid")
QUICK_SYSTEMS = SYSTEMS[:2]  # beside Gymnasium and EnvPool, which take a second each to start
SHAPES = ("113_105", "35_27")
ENVIRONMENTS = ("Pendulum-v1", "BipedalWalker-v3", "CarRacing-v3")
# what keeps each library from AVX-512; ours is told by an argument
AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


@dataclasses.dataclass
class Contest:
    measure: str
    rival: str
    ours: list
    theirs: list
    unit: str = "steps"
    needs: str = ""       # a library, by which the rival's interpreter is found
    library: str = ""
    turns: tuple = (5, 20)  # quick, else
    seconds: float = .2   # of a turn
    environment: dict = dataclasses.field(default_factory=dict)


# --- this host

def processor():
    """The processor's name as a file name."""
    text = ""
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^(?:model name|Processor|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    name = found.group(1) if found else "unknown processor"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def is_shared():
    """Whether others keep more than a quarter of the processors busy."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0)) / 4


def version():
    text = (ROOT / "include/preflight/base.h").read_text(encoding="utf-8")
    return re.search(r'define PF_VERSION "(.+?)"', text).group(1)


def commit():
    with contextlib.suppress(OSError):
        done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
                              capture_output=True, text=True)
        return done.stdout.strip()
    return ""


# --- interpreters

def has(python, module):
    try:
        done = subprocess.run(
            [str(python), "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"],
            capture_output=True)
        return done.returncode == 0
    except OSError:
        return False


# where a library is looked for, how the full run gets it, and what to say to who has none
VENVS = {
    "numpy": ("venv", None, "make deps"),
    "gymnasium": ("venv", None, "make deps"),
    "envpool": ("venv-bench", ("--require-hashes", "-r", str(PERF / "requirements.txt")),
                "make bench installs it into build/venv-bench"),
    "torch": ("venv-torch", ("torch", "numpy"), "make bench installs it into build/venv-torch, 5 GB"),
}


def interpreter(module, build, install):
    """A Python that has the module, or None."""
    name, packages, _ = VENVS[module]
    places = [build.parent / name, ROOT / "build" / name]
    pythons = [place / "bin/python" for place in places] + [sys.executable]
    found = next((p for p in pythons if has(p, module)), None)
    if found or not install or not packages:
        return found
    print(f"installing {module} into {places[0]}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(places[0])], capture_output=True)
    subprocess.run([str(pythons[0]), "-m", "pip", "install", "-q", *packages], capture_output=True)
    return pythons[0] if has(pythons[0], module) else None


# --- taking turns

class Broken(Exception):
    """A program that did not do what it should, in one line."""


class Player:
    """A program that waits for its turns: bench_turns of bench.h and player.py."""

    def __init__(self, command, environment):
        self.name = " ".join(pathlib.Path(str(c)).name for c in command)
        self.log = tempfile.TemporaryFile("w+")
        try:
            self.child = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, text=True,
                                          stdout=subprocess.PIPE, stderr=self.log,
                                          env={**os.environ, **environment})
        except OSError as error:
            raise Broken(f"{self.name}: {error.strerror}") from None
        first = self.read()
        if first != "ready":
            self.close()
            raise Broken(f"{self.name}: want ready, have '{first[:60]}'")

    def read(self):
        text = self.child.stdout.readline()
        if not text:
            self.child.wait()
            self.log.seek(0)
            last = (self.log.read().strip().splitlines() or ["it says nothing"])[-1]
            raise Broken(f"{self.name}: ended with status {self.child.returncode}: {last[:160]}")
        return text.strip()

    def turn(self, seconds):
        try:
            self.child.stdin.write(f"{seconds}\n")
            self.child.stdin.flush()
        except OSError:
            pass  # it ended, and read says how
        try:
            return ratios.parse_turn(self.read())
        except ValueError as error:
            self.close()
            raise Broken(f"{self.name}: {error}") from None

    def close(self):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.log.close()


def play(contest, quick, head):
    with contextlib.ExitStack() as stack:
        sides = []
        for command in (contest.ours, contest.theirs):
            player = Player(command, contest.environment)
            stack.callback(player.close)
            sides.append((player, []))
        for _ in range(contest.turns[0 if quick else 1]):
            for player, turns in sides:
                turns.append(player.turn(contest.seconds))
        return ratios.ratio_row([*head, contest.library, contest.measure, contest.rival],
                                sides[0][1], sides[1][1], contest.unit)


# --- what is compared, the cheapest first; THEIRS stands for an interpreter that has what is needed

THEIRS = object()


def stage1(build, folder, quick):
    program = build / "perf/bench_stage1"
    for measure, rival, kit, way in (("stage1", "numpy", "pulses", "terms"),
                                     ("stage1", "numpy_posteriors", "pulses", "posteriors"),
                                     ("group", "numpy", "groups", "groups")):
        problem = folder / kit
        yield Contest(measure, rival, [program, "turns", kit, problem],
                      [THEIRS, PERF / "bench_stage1.py", way, problem], "opportunities", "numpy")


def plants(build, folder, quick):
    program = build / "perf/bench_plants"
    for plant in PLANTS:
        yield Contest(f"plant_{plant}", "bare", [program, "turns", plant, "predicted"],
                      [program, "turns", plant, "bare"], seconds=.1)
        if not quick:
            yield Contest(f"windy_{plant}", "bare", [program, "turns", plant, "physical"],
                          [program, "turns", plant, "bare_windy"], seconds=.1)


def suites(build, folder, quick):
    program = build / "preflight"
    yield Contest("suite_dc_servo", "numpy",
                  [sys.executable, PERF / "command_turns.py", program, folder],
                  [THEIRS, PERF / "bench_suite.py", program, "--seeds", "2", "--turns"],
                  "trials and methods", "numpy", turns=(4, 10))


def mujoco(build, folder, quick):
    program = build / "perf/bench_mujoco"
    for system in SYSTEMS:
        yield Contest(f"mujoco_{system}", "bare", [program, "turns", system, "roll"],
                      [program, "turns", system, "bare"])
    for rival in ("gymnasium", "envpool"):
        for system in QUICK_SYSTEMS if quick else SYSTEMS:
            yield Contest(f"mujoco_{system}", rival, [program, "turns", system, "roll"],
                          [THEIRS, PERF / "bench_mujoco.py", rival, system], needs=rival)


def packages(build, folder, quick):
    package = ROOT / "build/python-package"
    if quick or not (package / "preflight").exists():
        return
    script = PERF / "bench_python.py"
    for name in ENVIRONMENTS:
        yield Contest(f"bridge_{name}", "direct", [THEIRS, script, "bridge", name, "--build", build],
                      [THEIRS, script, "direct", name], "trajectories", "gymnasium", turns=(5, 5),
                      environment={"PYTHONPATH": str(package)})


def kits(build, folder, quick):
    program = build / "perf/bench_calibrate"
    if not quick:
        yield Contest("kit_attitude", "one_thread", [program, "turns", "2"], [program, "turns", "1"],
                      "kits", turns=(0, 5))


def libraries(build):
    """What the processor has for products: the AVX2 kernels are measured beside those for AVX-512."""
    done = subprocess.run([str(build / "perf/bench_world"), "library"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"bench_world library: ended with status {done.returncode}")
    return ("avx512", "avx2") if done.stdout.split("\n")[1] == "avx512" else ("avx2",)


def worlds(build, folder, quick):
    program, shapes = build / "perf/bench_world", SHAPES[:1] if quick else SHAPES
    found = libraries(build)
    # PyTorch's threads would wait for each other at full speed, which takes time from others here
    patient = {"OMP_WAIT_POLICY": "passive"} if is_shared() else {}
    for library in found:
        own = ["avx2"] if library == "avx2" and len(found) > 1 else []
        limits = {**patient, **(AVX2 if own else {})}
        for shape in shapes:
            for what, unit in (("roll", "steps"), ("train", "samples")):
                figure = f"{what}_{shape}"
                turns = (4 if what == "train" else 5, 12)
                for way in ("eager",) if quick else ("plain", "best"):
                    yield Contest(figure, f"torch_{way}", [program, "turns", figure, *own],
                                  [THEIRS, PERF / "bench_world.py", figure, way], unit, "torch",
                                  library, turns, .5, limits)


def own_models(build, folder, quick):
    program, library = build / "perf/bench_world", libraries(build)[0]
    for shape in () if quick else SHAPES:
        for measure, rival, a, b in (("train", "sgemm", "train_{}", "train_{}_sgemm"),
                                     ("trajectory", "recursive", "roll_{}_trajectory", "roll_{}"),
                                     ("linear", "recursive", "roll_{}_linear", "roll_{}")):
            yield Contest(f"{measure}_{shape}", rival, [program, "turns", a.format(shape)],
                          [program, "turns", b.format(shape)], library=library, turns=(0, 7))


# --- limits: one value instead of turns

def values_of(command, environment=None):
    """The lines `name,value,unit` of a program."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Broken(f"{pathlib.Path(str(command[0])).name}: ended with status {done.returncode}: {last}")
    values = {}
    for text in done.stdout.splitlines():
        parts = text.split(",")
        try:
            values[parts[0]] = ratios.number(parts[1], parts[0])
        except (IndexError, ValueError):
            name = pathlib.Path(str(command[0])).name
            raise Broken(f"{name}: broken line '{text[:60]}': want NAME,VALUE,UNIT") from None
    return values


def limits(build, folder, quick):
    """Measure and value, in the unit of aims.csv."""
    if quick:
        return
    values = values_of([build / "perf/bench_stage1"])
    yield "session", values["session_16_candidates_17_gains"] / 1024
    yield "stage1_field", values["stage1_opportunity_16_candidates_field"] / 1e3
    yield "group_paper", values["stage1_group_opportunity_16_targets"] / 1e3
    yield "check_attitude", values_of([build / "perf/bench_calibrate"])["check_attitude_most"]
    package = ROOT / "build/python-package"
    python = interpreter("gymnasium", build, False)
    if python and (package / "preflight").exists():
        values = values_of([python, "-W", "ignore", PERF / "bench_python.py", "session", "--build", build],
                           {"PYTHONPATH": str(package)})
        try:
            beyond = ratios.number(values["tell_ask_python"] - values["tell_ask_c"], "Python's part of a tell")
        except ValueError as error: # noise
            raise Broken(f"bench_python.py: {error}") from None
        yield "tell_ask_python", beyond
    values = values_of([sys.executable, PERF / "command_turns.py", build / "preflight", folder, "paper"])
    yield "compact_plants_paper", values["processor"]
    yield "compact_plants_memory", values["memory"]


# --- the run

class Bench:
    """A table that grows row by row, and what is said beside it."""

    def __init__(self, build, quick):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.build, self.quick, self.aims = build, quick, ratios.read_aims()
        self.head = [now, version(), commit(), "quick" if quick else "bench",
                     "shared" if is_shared() else "idle"]
        self.rows, self.notes, self.broken, self.pythons = [], [], [], {}

    def add(self, row):
        self.rows.append(row)
        print(ratios.line(self.aims, row), flush=True)

    def python(self, module):
        if module not in self.pythons:
            self.pythons[module] = interpreter(module, self.build, not self.quick)
            if not self.pythons[module]:
                self.notes.append(f"left out: what needs {module}, which is not installed "
                                  f"({VENVS[module][2]})")
        return self.pythons[module]

    def contest(self, contest):
        python = self.python(contest.needs) if contest.needs else None
        if contest.needs and not python:
            return
        for side in (contest.ours, contest.theirs):
            side[:] = [python if part is THEIRS else part for part in side]
        try:
            self.add(play(contest, self.quick, self.head))
        except Broken as error:
            self.broken.append(f"{contest.measure} beside {contest.rival}: {error}")

    def limit(self, measure, value):
        aim = next(a for a in self.aims if a["measure"] == measure and a["rival"] == "limit")
        most = float(aim["limit"])
        self.add(ratios.Row(*self.head, "", measure, "limit", 1, most / value, most / value,
                            most / value, most / value, value, most, aim["unit"]))

    def run(self, folder):
        parts = [stage1, plants, suites, mujoco, kits, own_models, packages, limits, worlds]
        if not (self.build / "perf/bench_mujoco").exists():
            parts.remove(mujoco)
            self.notes.append("left out: MuJoCo's systems, which this build lacks (make deps)")
        for part in parts:
            try:
                for item in part(self.build, folder, self.quick):
                    if isinstance(item, Contest):
                        self.contest(item)
                    else:
                        self.limit(*item)
            except Broken as error:
                self.broken.append(str(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="build folder with the programs (default build/release)")
    parser.add_argument("--quick", action="store_true", help="two minutes instead of an hour")
    parser.add_argument("--no-save", action="store_true", help="print only")
    arguments = parser.parse_args()
    build, begin = arguments.build.resolve(), time.monotonic()
    for name in ("perf/bench_stage1", "perf/bench_plants", "perf/bench_world", "perf/bench_calibrate",
                 "preflight"):
        if not (build / name).exists():
            sys.exit(f"perf/bench.py: {build / name} is not there; build it with\n"
                     f"  scripts/build.sh release bench_programs preflight_cli")
    bench = Bench(build, arguments.quick)
    print(ratios.header())
    with tempfile.TemporaryDirectory() as folder:
        bench.run(pathlib.Path(folder))
    print(ratios.summary(bench.aims, bench.rows))
    if "shared" in bench.head:
        bench.notes.append("others were at work on this host: judge by the ratios, which are by processor"
                           " time, and not by the clock")
    spent = os.times()
    bench.notes.append(f"took {time.monotonic() - begin:.0f} s, "
                       f"{spent.children_user + spent.children_system:.0f} s of a processor")
    if bench.rows and not arguments.no_save:
        path = PERF / "results" / (processor() + ".csv")
        ratios.save(path, bench.rows)
        bench.notes.append(f"added to {path.relative_to(ROOT)}")
    print("\n".join(bench.notes))
    for text in bench.broken:
        print(f"perf/bench.py: {text}", file=sys.stderr)
    return 1 if bench.broken else 0


if __name__ == "__main__":
    sys.exit(main())
