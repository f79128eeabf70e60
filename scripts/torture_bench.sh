#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_bench.sh [short|full]: `bench run` killed at random moments, 5 or 1,000 times, each time going
# on from its database. After every kill the database is whole, no result that it had is gone or
# changed, and none is there twice; a run that reaches the end has the table of an undisturbed one.
# A run that ends by itself with anything but 0 has failed. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
build release preflight_cli
kills=5
[ "${1:-short}" = full ] && kills=1000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/many.yaml" <<'Y'
id: many
title: trials to be killed
environments: [pump_tank, dc_servo]
methods: [random, eg-mpt]
gains: [.2, .35, .5]
sigma: .06
seeds: 3
trials: 40
Y
python3 - "$PWD/build/release/preflight" "$work" "$kills" <<'P'
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

program, work, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
profile = "quick" if kills < 10 else "standard"
random.seed(1)


def call(verb, db, *more):
    return [program, "bench", verb, f"{work}/many.yaml", "--db", f"{work}/{db}", "--profile", profile, *more]


def run(db):
    return subprocess.run(call("run", db, "--threads", "2"), capture_output=True, text=True)


def table(db):
    return subprocess.run(call("table", db, "--format", "csv"), capture_output=True, text=True).stdout


def results(db):
    """All rows of finished trials, and what is wrong with the file. A copy is opened: what the kill left in the
    log beside the database is for preflight to recover, not for us."""
    if not os.path.exists(f"{work}/{db}"):
        return {}, "ok"
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{work}/copy{end}"):
            os.unlink(f"{work}/copy{end}")
        if os.path.exists(f"{work}/{db}{end}"):
            shutil.copyfile(f"{work}/{db}{end}", f"{work}/copy{end}")
    handle = sqlite3.connect(f"{work}/copy")
    try:
        if not handle.execute("SELECT 1 FROM sqlite_master WHERE name='result'").fetchone():
            return {}, "ok"
        rows = {}
        for row in handle.execute("SELECT u.environment, u.setting, u.seed, u.trial, r.* FROM result r JOIN unit u"
                                  " ON u.id = r.unit WHERE u.state = 2"):
            key = row[:4] + (row[5],)  # r.unit is row[4], r.method row[5]
            if key in rows:
                return rows, f"{key} is there twice"
            rows[key] = row[6:]
        return rows, handle.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        handle.close()


start = time.monotonic()
ended = run("whole.db")
length = time.monotonic() - start
whole, state = results("whole.db")
passed = failed = finished = 0
if ended.returncode or state != "ok" or not whole:
    print("FAILED the undisturbed run:", ended.stderr[:300])
    print("0 passed, 1 failed")
    sys.exit(1)
wanted, before, db, number = table("whole.db"), {}, "killed0.db", 0
done = refused = recovered = 0
while done < kills and refused < 5:
    with open(f"{work}/said", "w+") as said:
        child = subprocess.Popen(call("run", db, "--threads", "2"), stdout=subprocess.DEVNULL, stderr=said)
        time.sleep(random.random() ** 2 * length)
        child.send_signal(signal.SIGKILL)
        code = child.wait()
        said.seek(0)
        last_words = said.read()
    done += code == -signal.SIGKILL
    refused += code not in (0, -signal.SIGKILL)
    wal = f"{work}/{db}-wal"
    recovered += os.path.exists(wal) and os.path.getsize(wal) > 0
    after, state = results(db)
    wrong = [] if state == "ok" else [f"the database: {state}"]
    if code not in (0, -signal.SIGKILL):
        wrong.append(f"the run ends with {code}: {last_words[:200]}")
    wrong += [f"{key} is lost" for key in before if key not in after]
    wrong += [f"{key} has changed" for key in before if key in after and after[key] != before[key]]
    wrong += [f"{key} is not what it is undisturbed" for key in after if after[key] != whole.get(key)]
    before = after
    if code == 0 or done == kills:  # it was faster, or this is the end: it must reach the same table
        ended = run(db)
        after, state = results(db)
        if ended.returncode or state != "ok" or after != whole or table(db) != wanted:
            wrong.append(f"the run that goes on ends with {ended.returncode}, or with another table: {ended.stderr[:200]}")
        number += 1
        finished += 1
        before, db = {}, f"killed{number}.db"
    for what in wrong[:3]:
        print(f"FAILED kill {done}: {what}")
    passed, failed = (passed, failed + 1) if wrong else (passed + 1, failed)
print(f"{done} kills, {recovered} with a log to recover, {finished} databases that reached the end,"
      f" {len(whole)} results each")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
P
