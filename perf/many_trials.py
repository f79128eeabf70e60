#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A database with as many trials as wanted, to see what `preflight bench table` takes on it.

`preflight bench run compact-plants` makes 440 trials of nine methods (eleven plants, two gains, five
seeds); the rest are copies of them under new trial numbers, by SQL on the program's own tables.

Example: perf/many_trials.py build/release/preflight many.db 1000000
         build/release/preflight bench table compact-plants --db many.db
"""

import argparse
import pathlib
import sqlite3
import subprocess
import sys

SUITE = ("compact-plants", "--profile", "paper", "--set", "trials=4", "--set", "episodes=12",
         "--set", "alarm_trials=100")


def copy_trials(path, wanted):
    """Adds copies of all trials until there are `wanted`; gives how many there are."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous=OFF")
    one, last, most = db.execute("SELECT count(*), max(id), max(trial) FROM unit").fetchone()
    bad = db.execute("SELECT count(*) FROM unit WHERE state <> 2").fetchone()[0]
    if bad:
        sys.exit(f"many_trials.py: {path}: {bad} trials are not done; run the suite to its end")
    units = [x[1] for x in db.execute("PRAGMA table_info(unit)")]
    results = [x[1] for x in db.execute("PRAGMA table_info(result)")]
    changed = {"id": "id + k * :last", "trial": "trial + k * :step", "unit": "unit + k * :last"}
    values = {"last": last, "step": most + 1, "copies": max(1, round(wanted / one)), "one": last}
    for table, columns, own in (("unit", units, "id"), ("result", results, "unit")):
        names = ", ".join(columns)
        copies = ", ".join(changed.get(x, x) for x in columns)
        db.execute(
            f"WITH RECURSIVE copy(k) AS (SELECT 1 WHERE :copies > 1 UNION ALL SELECT k + 1 FROM copy"
            f" WHERE k + 1 < :copies) INSERT INTO {table}({names}) SELECT {copies}"
            f" FROM copy CROSS JOIN (SELECT * FROM {table} WHERE {own} <= :one)", values)
    db.commit()
    n = db.execute("SELECT count(*) FROM unit").fetchone()[0]
    db.close()
    return n


def make(program, path, wanted):
    """A new database of about that many trials, a whole number of copies; gives how many."""
    if pathlib.Path(path).exists():
        sys.exit(f"many_trials.py: {path} is there already; name another file")
    done = subprocess.run([str(program), "bench", "run", *SUITE, "--db", str(path)],
                          stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"many_trials.py: {program} bench run failed with status {done.returncode}")
    return copy_trials(path, wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("database", type=pathlib.Path)
    parser.add_argument("trials", type=int)
    arguments = parser.parse_args()
    n = make(arguments.program.resolve(), arguments.database, arguments.trials)
    print(f"{n} trials in {arguments.database}")


if __name__ == "__main__":
    main()
