#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Runs all speed programs in one go and prints what matters as ratios of the same run.

Appends every figure to perf/results/<processor>.csv. Judges nothing: speed is no test.

Example: cmake --build build/release --target bench_programs && perf/run.py --build build/release
"""

import argparse
import csv
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = (4, 8, 16, 32, 64)
TRIALS_OF_A_SEED = 50  # of one plant: standard profile, two gains


def processor():
    """The processor's name as a file name."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Processor|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    name = found.group(1) if found else "unknown processor"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def version():
    text = (ROOT / "include/preflight/base.h").read_text(encoding="utf-8")
    return re.search(r'define PF_VERSION "(.+?)"', text).group(1)


def commit():
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
            capture_output=True, text=True, check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def numpy_python(build):
    """An interpreter that has NumPy, or None."""
    for path in (build.parent / "venv/bin/python", ROOT / "build/venv/bin/python", sys.executable):
        try:
            done = subprocess.run([str(path), "-c", "import numpy"], capture_output=True)
            if done.returncode == 0:
                return str(path)
        except OSError:
            continue
    return None


def torch_python(build):
    """An interpreter with PyTorch, in an environment of its own that is made when it is missing;
    None where it cannot be had."""
    folder = build.parent / "venv-torch"
    python = folder / "bin/python"
    if not python.exists():
        print("installing PyTorch, a few GB", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "torch", "numpy"],
                       capture_output=True)
    try:
        done = subprocess.run([str(python), "-c", "import torch"], capture_output=True)
    except OSError:
        return None
    return str(python) if done.returncode == 0 else None


def run(rows, command):
    """Adds the lines `name,value,unit` that a program prints."""
    print("running", " ".join(pathlib.Path(c).name for c in command[:2]), file=sys.stderr)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"perf/run.py: {command[0]} failed with status {done.returncode}")
    for line in done.stdout.splitlines():
        name, value, unit = line.split(",")
        rows[name] = (value, unit)


def run_world(rows, program, build):
    """Ours, then PyTorch's in alternation with ours."""
    run(rows, [program])
    python = torch_python(build)
    if python:
        run(rows, [python, ROOT / "perf/bench_world.py", program])
    else:
        print("no PyTorch here, so no ratio to it", file=sys.stderr)


def envpool_python():
    """An interpreter that has EnvPool, in an environment of its own, or None."""
    folder = ROOT / "build/venv-bench"
    python = folder / "bin/python"
    if not python.exists():
        print("installing EnvPool into build/venv-bench", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r",
                        str(ROOT / "perf/requirements.txt")], capture_output=True)
    try:
        done = subprocess.run([str(python), "-c", "import envpool"], capture_output=True)
        return str(python) if done.returncode == 0 else None
    except OSError:
        return None


def run_mujoco(rows, program, python, rounds=4):
    """The best of a few turns of each, so that a slow minute of the machine hits all."""
    if not program.exists():
        print("built without MuJoCo, so no figures of its systems (make deps)", file=sys.stderr)
        return
    commands = [[program, "40"]]
    if python:
        commands.append([python, ROOT / "perf/bench_mujoco.py", "gymnasium"])
    other = envpool_python()
    if other:
        commands.append([other, ROOT / "perf/bench_mujoco.py", "envpool"])
    else:
        print("EnvPool cannot be installed here, so no ratio to it", file=sys.stderr)
    for _ in range(rounds):
        for command in commands:
            found = {}
            run(found, command)
            for name, (value, unit) in found.items():
                best = max if unit == "steps/s" else min
                value = best(float(value), float(rows[name][0])) if name in rows else float(value)
                rows[name] = (f"{value:.6g}", unit)


def run_package(rows, build, python):
    """The Python package, where scripts/check_python.sh has built it."""
    package = ROOT / "build/python-package"
    if not python or not (package / "preflight").exists():
        print("no Python package here, so no figures of it (scripts/check_python.sh)",
              file=sys.stderr)
        return
    os.environ["PYTHONPATH"] = str(package)
    run(rows, [python, "-W", "ignore", ROOT / "perf/bench_python.py", "--build", build])
    del os.environ["PYTHONPATH"]


def can_run_suites(program):
    done = subprocess.run([str(program), "bench", "list"], capture_output=True)
    return done.returncode == 0


def time_program(rows, program, repeats=10):
    """The whole command `preflight check` on a kit file, from start to exit."""
    with tempfile.TemporaryDirectory() as folder:
        kit = pathlib.Path(folder) / "attitude.kit"
        done = subprocess.run([str(program), "calibrate", "attitude", "-o", str(kit)],
                              capture_output=True)
        if done.returncode != 0:
            sys.exit(f"perf/run.py: {program} calibrate failed")
        best = float("inf")
        for _ in range(repeats):
            begin = time.perf_counter()
            subprocess.run([str(program), "check", str(kit), "--fault", "5:0.35"],
                           capture_output=True)
            best = min(best, time.perf_counter() - begin)
    rows["check_program"] = (f"{1e3 * best:.6g}", "ms")


def table(rows):
    def value(name):
        return float(rows[name][0])

    c = {m: value(f"stage1_opportunity_{m}_candidates") for m in SIZES}
    yield "one opportunity, 16 candidates", f"{c[16]:.0f} ns", ""
    if "numpy_opportunity_16_candidates" in rows:
        for name, what in (("", "NumPy, same formula"), ("_posteriors", "NumPy, all posteriors")):
            slow = value("numpy_opportunity_16_candidates" + name)
            yield f"  {what} / C", f"{slow / c[16]:.1f} x", "60, aim 100"
    yield from table_groups(value, rows, c[16])
    slope = (c[64] - c[4]) / 60
    yield "  per candidate more", f"{slope:.1f} ns", "constant"
    for m in (8, 16, 32):
        line = c[4] + slope * (m - 4)
        yield f"  {m} candidates / straight line", f"{c[m] / line:.2f}", "about 1"
    kib = value("session_16_candidates_17_gains") / 1024
    yield "session, 16 candidates, 17 gains", f"{kib:.1f} KiB", "below 64"
    one, two = value("calibrate_attitude_1_thread"), value("calibrate_attitude_2_threads")
    yield "attitude kit, 2,000 alarm trials", f"{one:.2f} s", "seconds"
    yield "  1 thread / 2 threads", f"{one / two:.2f} x", "1.8"
    exchange = value("design_exchange_16x8_8_starts")
    yield "exchange, 16 mechanisms x 8 steps", f"{exchange:.2f} s", "seconds"
    yield "attitude library, designed", f"{value('design_attitude_1_thread'):.2f} s", "seconds"
    yield "check on a loaded kit, slowest", f"{value('check_attitude_most'):.2f} ms", "50"
    yield "  as a program", f"{value('check_program'):.2f} ms", ""
    yield from table_plants(value, [x for x in rows if re.fullmatch(r"plant_.+_bare", x)])
    yield from table_mujoco(value, rows)
    yield from table_package(value, rows)
    yield from table_suite(value, rows)
    yield from table_world(value, rows)


def table_groups(value, rows, single):
    """A round that tells a group probe with 16 targets, on a library that has the pulses too."""
    group = value("stage1_group_opportunity_16_targets")
    yield "group probe, 16 targets", f"{group / 1e3:.1f} us", "below 30"
    yield "  / one opportunity", f"{group / single:.1f} x", ""
    if "numpy_group_opportunity_16_targets" in rows:
        slow = value("numpy_group_opportunity_16_targets")
        yield "  NumPy / C", f"{slow / group:.1f} x", ""


def table_world(value, rows):
    """Training and rollouts of the learned model."""
    for shape in ("113_105", "35_27"):
        ours, bare = value(f"train_{shape}"), value(f"train_{shape}_products")
        yield f"training {shape.replace('_', ' to ')}", f"{ours:.0f}", "member samples/s"
        yield "  of the bare products, our kernel", f"{ours / bare:.2f}", ""
        if f"train_{shape}_sgemm" in rows:
            sgemm = ours / value(f"train_{shape}_sgemm")
            yield "  of the bare products, OpenBLAS", f"{sgemm:.2f}", "above .85"
        step = value(f"roll_{shape}")
        for kind in ("trajectory", "linear"):
            yield (f"  rolls, {kind} model / recursive", f"{value(f'roll_{shape}_{kind}') / step:.1f} x",
                   "aim 5")
        for what, aim in (("train", "1.15"), ("roll", "1.5")):
            for against in ("best", "plain"):
                name = f"turns_{what}_{shape}_{against}"
                if f"{name}_mid" in rows:
                    low, mid, high = (value(f"{name}_{part}") for part in ("low", "mid", "high"))
                    yield (f"  {what}, C / PyTorch's {against}", f"{mid:.2f} x",
                           f"aim {aim}; quartiles {low:.2f} {high:.2f}")


def table_mujoco(value, rows):
    names = [x[len("mujoco_"):-len("_roll_2_threads")] for x in rows if x.endswith("_roll_2_threads")]
    if names:
        yield "MuJoCo, 2 threads: roll / bare mj_step", "clock cpu turns", ".97"
    for name in names:
        roll = value(f"mujoco_{name}_roll_2_threads")
        clock = roll / value(f"mujoco_{name}_bare_2_threads")
        cpu = value(f"mujoco_{name}_bare_cpu") / value(f"mujoco_{name}_roll_cpu")
        turns = value(f"mujoco_{name}_roll_over_bare")
        yield f"  {name}, {roll / 1e3:.1f} k steps/s", f"{clock:.2f} {cpu:.2f} {turns:.2f}", ""
        for other in ("gymnasium", "envpool"):
            if f"mujoco_{name}_{other}_2_threads" in rows:
                ratio = roll / value(f"mujoco_{name}_{other}_2_threads")
                yield f"    / {other}", f"{ratio:.2f} x", "above 1"


def table_package(value, rows):
    """The Python package: bridge and session."""
    names = [x[len("gym_"):-len("_ratio")] for x in rows if re.fullmatch(r"gym_.+_ratio", x)]
    if names:
        yield "bridge / the environment stepped directly", "clock cpu", "above .8"
    for name in names:
        clock, cpu = value(f"gym_{name}_ratio"), value(f"gym_{name}_ratio_cpu")
        yield f"  {name}", f"{clock:.2f}  {cpu:.2f}", ""
    if "tell_ask_python" in rows:
        more = value("tell_ask_python") - value("tell_ask_c")
        yield "tell and ask, Python on top of C", f"{more:.1f} us", "10"


def table_plants(value, names):
    yield "roll / bare steps, per second", "calm noisy", "above .8"
    for name in names:
        plant = name[len("plant_"):-len("_bare")]
        calm = value(f"plant_{plant}_predicted") / value(f"plant_{plant}_bare")
        noisy = value(f"plant_{plant}_physical") / value(f"plant_{plant}_bare_windy")
        speed = value(f"plant_{plant}_predicted") / 1e6
        yield f"  {plant}, {speed:.2f} M steps/s", f"{calm:.2f}  {noisy:.2f}", ""


def table_suite(value, rows):
    """Whole runs of compact-plants, calibration included."""
    if "suite_numpy_2_methods" in rows:
        c, slow = value("suite_program_2_methods"), value("suite_numpy_2_methods")
        yield "dc_servo suite, 2 methods", f"{c:.2f} ms", "per trial and method"
        yield "  NumPy / C, one core", f"{slow / c:.2f} x", "aim 50"
        yield "  C, all methods of the suite", f"{value('suite_program_all_methods'):.2f} ms", ""
        yield "  results apart at most", f"{value('suite_difference'):.1f} se", "largest of 16"
    if "compact_plants_1_threads_wall" not in rows:
        return
    one, two = (value(f"compact_plants_{n}_threads_wall") for n in (1, 2))
    yield "compact-plants, standard, 2 threads", f"{two:.1f} s", "paper scale: 120 s"
    yield "  1 thread / 2 threads", f"{one / two:.2f} x", "1.8"
    memory = max(value(f"compact_plants_{n}_threads_memory") for n in (1, 2))
    yield "  peak memory", f"{memory:.0f} MB", "500"
    yield "cost of a trial in steps of its plant", "1000 steps", ""
    plants = [x[len("run_"):] for x in rows if f"plant_{x[len('run_'):]}_candidates" in rows]
    for plant in sorted(plants, key=lambda x: value(f"plant_{x}_candidates")):
        m = value(f"plant_{plant}_candidates")
        steps = value(f"run_{plant}") * value(f"plant_{plant}_bare") / TRIALS_OF_A_SEED
        yield f"  {plant}, candidates: {m:.0f}", f"{steps / 1e3:.0f}", "with calibration"
    small, middle, large = (value(f"run_{n}_gains") for n in (9, 17, 33))
    yield "quad_tank, 33 gains / 17 gains", f"{large / middle:.2f} x", "below 2"
    yield "  17 gains / 9 gains", f"{middle / small:.2f} x", "below 2"
    few, some, many = (value(f"run_{n}_trials") for n in (40, 80, 160))
    early, late = (some - few) / 40, (many - some) / 80
    yield "quad_tank, a trial more, 40 to 80", f"{500 * early:.2f} ms", "9 methods, one gain"
    yield "  80 to 160 / 40 to 80", f"{late / early:.2f}", "about 1"


def save(rows):
    """Adds the figures to the processor's file; what was there stays."""
    path = ROOT / "perf/results" / (processor() + ".csv")
    path.parent.mkdir(exist_ok=True)
    new = not path.exists()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open(path, "a", newline="", encoding="ascii") as file:
        out = csv.writer(file, lineterminator="\n")
        if new:
            out.writerow(["time", "version", "commit", "what", "value", "unit"])
        for name, (value, unit) in rows.items():
            out.writerow([now, version(), commit(), name, value, unit])
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="build folder with the programs (default build/release)")
    parser.add_argument("--no-save", action="store_true", help="print only")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    names = ("perf/bench_stage1", "perf/bench_calibrate", "preflight", "perf/bench_plants",
             "perf/bench_world", "perf/bench_design")
    programs = [build / name for name in names]
    for program in programs:
        if not program.exists():
            sys.exit(f"perf/run.py: {program} is not there; build it with\n"
                     f"  cmake --build {build} --target bench_programs preflight_cli")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        problems = [pathlib.Path(folder) / name for name in ("pulses", "groups")]
        run(rows, [programs[0], *problems])
        python = numpy_python(build)
        if python:
            run(rows, [python, ROOT / "perf/bench_stage1.py", *problems])
        else:
            print("no NumPy here, so no ratio to it (make deps)", file=sys.stderr)
    run(rows, [programs[1]])
    run(rows, [programs[5]])
    time_program(rows, programs[2])
    run(rows, [programs[3]])
    run_world(rows, programs[4], build)
    run_mujoco(rows, build / "perf/bench_mujoco", python)
    run_package(rows, build, python)
    if can_run_suites(programs[2]):
        if python:
            run(rows, [python, ROOT / "perf/bench_suite.py", programs[2]])
        run(rows, [sys.executable, ROOT / "perf/bench_runs.py", programs[2]])
    else:
        print("preflight was built without `bench`, so no whole runs", file=sys.stderr)
    print(f"{'':38}{'this run':>12}   wanted")
    for what, measured, wanted in table(rows):
        print(f"{what:38}{measured:>12}   {wanted}")
    if not arguments.no_save:
        print(f"\nadded to {save(rows).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
