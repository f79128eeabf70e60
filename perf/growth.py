#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""How cost grows with candidates, rows, gains, trials, recordings, trials in a database and ranks.

Times each at several sizes, by processor time (stage 1: the best of many rounds), fits a + b x^p, draws
docs/results/figures/growth.svg and growth.png, and adds the figures to perf/results/growth-PROCESSOR.csv.
Ranks are timed by the clock, and only where they are given and the processors are free.

Example: perf/growth.py build/release            every figure but ranks: half an hour
         perf/growth.py build/release --only rows,gains --no-save
         perf/growth.py build/release --only ranks --ranks 1,2,4
"""

import argparse
import csv
import datetime
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import bench
import command_turns
import many_trials

ROOT = bench.ROOT
FIGURES = ROOT / "docs/results/figures"
PLANT = ("--set", "environments=[quad_tank]", "--threads", "1")
TABLE_TRIALS = (440, 4400, 44000, 132000)


# --- what is measured: each yields size, cost and unit

def stage1(program, pattern):
    for name, value in program.items():
        if name.startswith("stage1_opportunity_") and name.endswith(pattern):
            yield int(name.split("_")[2]), value, "ns"


def candidates(build, folder, options):
    yield from stage1(bench.values_of([build / "perf/bench_stage1"]), "_candidates")


def rows(build, folder, options):
    yield from stage1(bench.values_of([build / "perf/bench_stage1", "rows"]), "_rows")


def gains(build, folder, options):
    for n in (9, 17, 33, 65, 129, 255):
        _, cpu, _ = command_turns.run(build / "preflight", folder, "--profile", "standard", *PLANT,
                                      "--only", "seed=0", "--set", f"grid={n}")
        yield n, cpu, "s"


def trials(build, folder, options):
    for n in (20, 40, 80, 160, 320, 640):
        _, cpu, _ = command_turns.run(build / "preflight", folder, "--profile", "paper", *PLANT,
                                      "--set", "seeds=1", "--set", f"trials={n}")
        yield n, cpu, "s"


def write_recordings(path, n):
    """A log as examples/record.py makes it, with n episodes per probe and gain; gives its rows."""
    draw, lines, episode = random.Random(1), [], 0
    for probe, effect in (("left", (.9, .1)), ("right", (.2, 1.1))):
        for gain in (1.0, .65, .35):
            for _ in range(n):
                x = [0.0, 0.0]
                weak = "" if gain == 1 else "u1" if probe == "left" else "u2"
                for step in range(1, 9):
                    x = [v + .05 * e * gain + draw.gauss(0, .002) for v, e in zip(x, effect)]
                    y = ",".join(f"{v + draw.gauss(0, .01):.5f}" for v in x)
                    u = (.5 * gain, 0.0) if probe == "left" else (0.0, .5 * gain)
                    lines.append(f"{episode},{probe},{weak},{gain},{step},{y},0.0,{u[0]},{u[1]}\n")
                episode += 1
    path.write_text("episode,probe,mechanism,gain,step,roll_rate,yaw_rate,u0,u1,u2\n" + "".join(lines),
                    encoding="ascii")
    return len(lines)


def recordings(build, folder, options):
    for n in (40, 160, 640, 2560):
        log, kit = pathlib.Path(folder) / "log.csv", pathlib.Path(folder) / "rig.kit"
        size = write_recordings(log, n)
        _, cpu, _ = command_turns.spend([build / "preflight", "calibrate", "--recordings", log,
                                         "-o", kit])
        kit.unlink()
        yield size, cpu, "s"


def table(build, folder, options):
    """Processor time and memory of `bench table` over the trials in a database; two series."""
    most = options.table_trials
    for n in [x for x in TABLE_TRIALS if x < most] + [most]:
        database = pathlib.Path(folder) / f"{n}.db"
        n = many_trials.make(build / "preflight", database, n)
        _, cpu, memory = command_turns.spend([build / "preflight", "bench", "table", "compact-plants",
                                              "--format", "csv", "--db", database])
        database.unlink()
        yield n, cpu, "s"
        yield n, memory, "MB"


def ranks(build, folder, options):
    """The suite at standard scale on N processes of MPI."""
    if not options.ranks:
        return
    if not shutil.which("mpirun"):
        raise bench.Broken("ranks: there is no mpirun here (apt-get install openmpi-bin)")
    for n in options.ranks:
        database = pathlib.Path(folder) / f"ranks{n}.db"
        wall, _, _ = command_turns.spend(
            ["mpirun", "--allow-run-as-root", "-n", str(n), build / "preflight", "bench", "run",
             "compact-plants", "--threads", "1", "--db", database])
        yield n, wall, "s"


SERIES = {"candidates": candidates, "rows": rows, "gains": gains, "trials": trials,
          "recordings": recordings, "table": table, "ranks": ranks}


# --- the law

def least_squares(points, p):
    """a, b >= 0 of a + b x^p by relative errors, and the largest of these."""
    s = [sum(w) for w in zip(*(((1 / y**2), x**p / y**2, x**(2 * p) / y**2, 1 / y, x**p / y)
                               for x, y in points))]
    determinant = s[0] * s[2] - s[1] * s[1]
    a, b = 0.0, s[4] / s[2]
    if determinant > 1e-12 * s[0] * s[2]:
        a, b = (s[2] * s[3] - s[1] * s[4]) / determinant, (s[0] * s[4] - s[1] * s[3]) / determinant
        if a < 0:
            a, b = 0.0, s[4] / s[2]
        if b < 0:
            a, b = s[3] / s[0], 0.0
    errors = [(a + b * x**p) / y - 1 for x, y in points]
    return sum(e * e for e in errors), a, b, max(abs(e) for e in errors)


def fit(points):
    """The a + b x^p with the least squared relative errors: p, a, b and its largest error."""
    best = min((*least_squares(points, p / 100), p / 100) for p in range(5, 301))
    return best[4], best[1], best[2], best[3]


def series_of(lines):
    """{(figure, unit): points}, in the order of measuring."""
    found = {}
    for figure, x, y, unit in lines:
        found.setdefault((figure, unit), []).append((x, y))
    return found


def report(lines):
    print(f"{'cost over':<14}{'sizes':<18}{'cost':<24}{'p of a + b x^p':<16}off by at most")
    for (figure, unit), points in series_of(lines).items():
        sizes = f"{points[0][0]} to {points[-1][0]}"
        cost = f"{points[0][1]:.4g} to {points[-1][1]:.4g} {unit}"
        if len(points) < 4:
            print(f"{figure:<14}{sizes:<18}{cost:<24}too few sizes")
            continue
        p, _, _, worst = fit(points)
        print(f"{figure:<14}{sizes:<18}{cost:<24}{p:<16.2f}{100 * worst:.0f} %")


def draw(lines, folder):
    """The picture, if gnuplot is here and nothing is missing."""
    found = series_of(lines)
    data = pathlib.Path(folder) / "growth.dat"
    blocks = []
    for (figure, unit), points in found.items():
        p, a, b, _ = fit(points) if len(points) >= 4 else (1, 0, 0, 0)
        blocks.append(f'"{figure}" "{unit}" {p:.2f} {a:.6g} {b:.6g}\n'
                      + "".join(f"{x} {y:.6g}\n" for x, y in points))
    data.write_text("\n\n".join(blocks), encoding="ascii")
    for ending in ("svg", "png"):
        done = subprocess.run(["gnuplot", "-e", f"DATA='{data}'; ENDING='{ending}'; "
                               f"PICTURE='{FIGURES / 'growth'}.{ending}'; N={len(found)}",
                               str(bench.PERF / "growth.gp")], capture_output=True, text=True)
        if done.returncode != 0:
            raise bench.Broken(f"gnuplot: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")


def save(lines):
    path = bench.PERF / "results" / f"growth-{bench.processor()}.csv"
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = not path.exists()
    with open(path, "a", newline="", encoding="ascii") as file:
        out = csv.writer(file, lineterminator="\n")
        if new:
            out.writerow(["time", "version", "commit", "host", "over", "size", "cost", "unit"])
        for figure, x, y, unit in lines:
            out.writerow([now, bench.version(), bench.commit(),
                          "shared" if bench.is_shared() else "idle", figure, x, f"{y:.5g}", unit])
    return path


def load(path):
    """The last measurement of every figure."""
    with open(path, newline="", encoding="ascii") as file:
        kept = list(csv.DictReader(file))
    last = {row["over"]: row["time"] for row in kept}
    return [(r["over"], int(r["size"]), float(r["cost"]), r["unit"]) for name in SERIES for r in kept
            if r["over"] == name and r["time"] == last[name]]


def measure(build, folder, options):
    for name in options.only:
        for x, y, unit in SERIES[name](build, folder, options):
            print(f"  {name} {x}: {y:.4g} {unit}", file=sys.stderr, flush=True)
            yield name, x, y, unit


def names(text):
    found = text.split(",")
    if not set(found) <= set(SERIES):
        raise argparse.ArgumentTypeError(f"want names of {', '.join(SERIES)}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="build folder with the programs")
    parser.add_argument("--only", type=names, default=list(SERIES), help="such as rows,gains")
    parser.add_argument("--ranks", type=lambda t: [int(x) for x in t.split(",")], default=[])
    parser.add_argument("--table-trials", type=int, default=1_000_000, help="most trials of a database")
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument("--draw", action="store_true", help="draw what is kept, measure nothing")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            if options.draw:
                lines = load(bench.PERF / "results" / f"growth-{bench.processor()}.csv")
            else:
                lines = list(measure(options.build.resolve(), folder, options))
            report(lines)
            if not options.no_save and not options.draw:
                lines = load(save(lines))
            if not options.no_save:
                draw(lines, folder)
    except (bench.Broken, OSError) as error:
        sys.exit(f"perf/growth.py: {error}")


if __name__ == "__main__":
    main()
