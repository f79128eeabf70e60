#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The machinery of `make bench` without its minutes: turns of made-up programs, the table of a recorded
run, broken programs and files, the laws of perf/growth.py. Ends with "N passed, N failed"."""

import csv
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "perf"))
sys.dont_write_bytecode = True
import bench  # noqa: E402
import growth  # noqa: E402
import many_trials  # noqa: E402
import ratios  # noqa: E402

GOLDEN = ROOT / "tests/golden"
HEAD = ["2026-11-19T00:00:00Z", "0.3.0", "abc", "quick", "idle"]
count = {True: 0, False: 0}


def check(good, what):
    count[bool(good)] += 1
    if not good:
        print(f"FAILED {what}")


def refused(kind, call, *wanted):
    """Whether call ends in one line that has all of these words."""
    try:
        call()
    except kind as error:
        return "\n" not in str(error) and all(word in str(error) for word in wanted)
    return False


def player(answer):
    """A program that answers every turn so."""
    return ["sh", "-c", f"echo ready; while read -r seconds; do echo {answer}; done"]


def play(ours, theirs, measure="plant_battery", rival="bare"):
    contest = bench.Contest(measure, rival, ours, theirs, turns=(5, 5))
    return bench.play(contest, True, HEAD)


def check_turns():
    row = play(player("turn,300,1.5,2"), player("turn,100,1,4"))
    check((row.low, row.mid, row.high, row.clock) == (2, 2, 2, 6), "ratios of neighbouring turns")
    check((row.ours, row.theirs, row.turns) == (200, 100, 5), "speeds of both")
    turns = [(x, 1.0, 1.0) for x in (1.0, 2, 3, 4, 5)]
    row = ratios.ratio_row([*HEAD, "", "plant_battery", "bare"], turns, [(1.0, 1.0, 1.0)] * 5, "")
    check((row.low, row.mid, row.high) == (1.5, 3, 4.5), "quartiles")
    good = player("turn,1,1,1")
    for answer, word in (("turn,1,1", "want turn"), ("round,1,1,1", "want turn"),
                         ("turn,nan,1,1", "amount"), ("turn,1,0,1", "processor time"),
                         ("turn,1,1,-2", "the time is"), ("turn,1,x,1", "'x'")):
        for pair in ((player(answer), good), (good, player(answer))):
            check(refused(bench.Broken, lambda pair=pair: play(*pair), "broken line", word),
                  f"the line {answer}")
    dead = ["sh", "-c", "echo ready; echo my reason >&2; exit 3"]
    check(refused(bench.Broken, lambda: play(dead, good), "status 3", "my reason"), "a program that ends")
    check(refused(bench.Broken, lambda: play(["echo", "hello"], good), "want ready", "hello"),
          "a program that is no player")
    check(refused(bench.Broken, lambda: play(["/nowhere/program"], good), "No such file"),
          "a program that is not there")
    check(refused(bench.Broken, lambda: bench.values_of(["echo", "speed,fast,x"]), "broken line"),
          "a value that is no number")
    check(bench.values_of(["echo", "speed,2.5,x"]) == {"speed": 2.5}, "a value")


def shown(path):
    return subprocess.run([sys.executable, str(ROOT / "perf/ratios.py"), str(path)], capture_output=True,
                          text=True)


def check_table(folder):
    done = shown(GOLDEN / "ratios.csv")
    want = (GOLDEN / "ratios.txt").read_text(encoding="utf-8")
    check(done.returncode == 0 and done.stdout == want, "the table of tests/golden/ratios.csv:\n"
          + done.stdout + done.stderr)
    rows = ratios.load(GOLDEN / "ratios.csv")
    kept = folder / "host.csv"
    ratios.save(kept, rows[:2])
    ratios.save(kept, rows[2:])
    check(ratios.load(kept) == rows, "rows that are kept and read again")
    text = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    for broken, word in (("a,b\n", "columns"), (text[1].replace("bare", "bare,1"), "columns"),
                         (text[1].replace(",1.01,", ",nan,"), "nan")):
        bad = folder / "bad.csv"
        bad.write_text("".join([text[0], broken]), encoding="utf-8")
        done = shown(bad)
        check(done.returncode == 1 and done.stderr.count("\n") == 1 and f"{bad}:2:" in done.stderr
              and word in done.stderr and not done.stdout, f"a broken file is refused: {word}")
    aims = ratios.read_aims()
    unknown = ratios.Row(*HEAD, "", "plant_battery", "nobody", 1, *[1.0] * 6, "")
    check(refused(ValueError, lambda: ratios.line(aims, unknown), "nobody"), "a rival without a line")


def check_aims():
    """Every comparison has one line in aims.csv, and every line a comparison."""
    aims = ratios.read_aims()
    bench.libraries = lambda build: ("avx512", "avx2")
    used = {(a["measure"], a["rival"]) for a in aims if a["rival"] == "limit"}
    for quick in (True, False):
        for part in (bench.stage1, bench.plants, bench.suites, bench.mujoco, bench.kits, bench.own_models,
                     bench.worlds):
            for contest in part(pathlib.Path("build"), pathlib.Path("folder"), quick):
                row = ratios.Row(*HEAD, "", contest.measure, contest.rival, 1, *[1.0] * 6, "")
                aim, _ = ratios.aim_of(aims, row)
                used.add((aim["measure"], aim["rival"]))
    used.add(("bridge_*", "direct"))  # needs the Python package
    check(used == {(a["measure"], a["rival"]) for a in aims}, "lines of aims.csv that nothing measures")
    check(len(used) == len(aims), "no line of aims.csv twice")
    check(all((float(a["aim"]) > 0 and a["source"]) if a["aim"] else not a["source"] for a in aims),
          "every aim is a number and says whence it is")


def check_growth(folder):
    for p, a, b in ((1, 0, 2), (1, 50, 3), (2, 10, .5), (.5, 0, 1)):
        found = growth.fit([(x, a + b * x**p) for x in (4, 8, 16, 32, 64)])
        check(abs(found[0] - p) < .02 and found[3] < .01, f"the law {a} + {b} x^{p}: {found}")
    log = folder / "log.csv"
    check(growth.write_recordings(log, 2) == 96 and len(log.read_text().splitlines()) == 97, "recordings")
    check(refused(SystemExit, lambda: many_trials.make("true", log, 10), "is there already"),
          "a database is not overwritten")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_turns()
        check_table(folder)
        check_aims()
        check_growth(folder)
    for path in sorted((ROOT / "perf/results").glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            if next(csv.reader(file)) == list(ratios.FIELDS):
                check(shown(path).returncode == 0, f"{path} can be shown")
    print(f"{count[True]} passed, {count[False]} failed")
    return 1 if count[False] else 0


if __name__ == "__main__":
    sys.exit(main())
