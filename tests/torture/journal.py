#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""journal.py PROGRAM SHIM WORK short|full: what is left of a journal when anything fails.

WORK has a.kit and session.journal, a whole check with it. Four ways to fail:
  cut     a power cut: the file ends after any of its bytes (short: 60 of them). It replays as far as it goes.
  resume  serve goes on from a cut journal; its replies are those of the session that was not cut.
  calls   check and serve while every write, sync, rename and close of the journal fails, from then on (full),
          alone (once), or with a kill at it (kill). Whatever serve had answered is in the journal.
  memory  check, serve, replay and explain while an allocation fails. Status 0 means the output is whole.
Prints counts; last line: N passed, N failed.
"""
import json
import os
import random
import shutil
import subprocess
import sys

program, shim, work = sys.argv[1:4]
full = sys.argv[4] == "full"
random.seed(1)
passed, failed, counts = 0, 0, {}


def judge(kind, problem):
    global passed, failed
    counts[kind] = counts.get(kind, 0) + 1
    if problem:
        failed += 1
        print(f"FAILED {kind}: {problem}"[:400])
    else:
        passed += 1


def call(*arguments, say="", **environment):
    return subprocess.run([program, *arguments], input=say, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment}, cwd=work)


def chosen(n, few):
    return range(1, n + 1) if full else sorted(random.sample(range(1, n + 1), min(few, n)))


with open(f"{work}/session.journal", "rb") as file:
    whole = file.read()
lines = whole.splitlines(keepends=True)
records = [json.loads(line) for line in lines[1:]]
requests = [json.dumps(r["request"]) for r in records]


# --- a power cut

def cut(n):
    with open(f"{work}/cut.journal", "wb") as file:
        file.write(whole[:n])
    said = call("replay", "cut.journal")
    if n < len(lines[0]) - 1:
        return said.returncode == 3 and "line 1" in said.stderr or "empty" in said.stderr
    ends = n in (len(whole), len(whole) - 1)
    return said.returncode == 0 and ends == ("cut off" not in said.stdout and "before the session" not in said.stdout)


def cuts():
    for n in [0, 1, *chosen(len(whole), 60), len(lines[0]) - 1, len(lines[0])]:
        judge("cut", None if cut(n) else f"after {n} of {len(whole)} bytes")


def resumes():
    for n in chosen(len(whole), 20):
        if n < len(lines[0]) or (full and n % 17):
            continue
        with open(f"{work}/cut.journal", "wb") as file:
            file.write(whole[:n])
        done = whole[:n].count(b"\n") - 1
        said = call("serve", "a.kit", "--resume", "cut.journal", say="\n".join(requests[done:]) + "\n")
        if done == len(records):
            judge("resume", None if said.returncode == 3 and "is over" in said.stderr else
                  f"a session that is over: {said.returncode} {said.stderr}")
            continue
        replies = [json.loads(line) for line in said.stdout.splitlines()]
        good = said.returncode == 0 and replies == [r["reply"] for r in records[done:]]
        again = call("replay", "cut.journal", "--json")
        good = good and again.returncode == 0 and json.loads(again.stdout)["events"] == len(records)
        judge("resume", None if good else f"from {n} bytes, {done} records: {said.stderr} {again.stdout}")


# --- a call that fails

commands = {"check": ["check", "a.kit", "--seed", "1", "--fault", "2:.5", "--journal", "at/j", "--certificate", "at/c"],
            "serve": ["serve", "a.kit", "--seed", "1", "--journal", "at/j"],
            "resume": ["serve", "a.kit", "--resume", "at/j"]}
talk = "\n".join(requests) + "\n"


def prepare(name):
    shutil.rmtree(f"{work}/at", ignore_errors=True)
    os.mkdir(f"{work}/at")
    if name == "resume":
        with open(f"{work}/at/j", "wb") as file:
            file.write(b"".join(lines[:4]) + lines[4][:20])


def run(name, how, at, **more):
    prepare(name)
    say = {"serve": talk, "resume": "\n".join(requests[3:]) + "\n"}.get(name, "")
    return call(*commands[name], say=say, LD_PRELOAD=shim, FAIL_HOW=how, FAIL_AT=str(at),
                FAIL_FOLDER=f"{work}/at", FAIL_COUNT=f"{work}/count", **more)


def calls_of(name, how):
    run(name, how, 0)
    with open(f"{work}/count") as file:
        return int(file.read())


def journal_problem(name, said):
    """The journal replays as far as it goes, and has what was answered."""
    path = f"{work}/at/j"
    answered = sum('"ok":true' in line for line in said.stdout.splitlines()) if name != "check" else 0
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return f"{answered} replies and no journal" if answered or said.returncode == 0 else None
    again = call("replay", "at/j", "--json")
    if again.returncode != 0:
        return f"the journal does not replay: {again.stderr}{again.stdout}"
    has = json.loads(again.stdout)["events"] - (3 if name == "resume" else 0)
    return f"{answered} replies, {has} in the journal" if has < answered else None


def outcome_problem(name, said, killed):
    if said.returncode in (0, 1):
        if name == "check":
            with open(f"{work}/at/c") as file, open(f"{work}/certificate") as other:
                if file.read() != other.read():
                    return "another certificate"
        with open(f"{work}/at/j", "rb") as file:
            journal = file.read()
        return None if journal == whole else "status 0 without the whole journal"
    if said.returncode == -9:
        return None if killed else "it was killed"
    if said.returncode not in (3, 4):
        return f"it ends with {said.returncode}: {said.stderr}"
    return None if said.stderr else "it fails without a word"


def calls():
    for name in commands:
        n = calls_of(name, "once")
        for how in ("full", "once", "kill"):
            for at in chosen(n, 3):
                said = run(name, how, at)
                what = journal_problem(name, said) or outcome_problem(name, said, how == "kill")
                judge("calls", what and f"{name}, {how} at {at} of {n}: {what}")


def memory():
    for name in commands:
        n = calls_of(name, "memory")
        for at in chosen(n, 5):
            said = run(name, "memory", at)
            what = journal_problem(name, said)
            # a request that memory ran out for is refused, and the client may send it again
            refused = name != "check" and '"ok":false' in said.stdout
            what = what or (None if refused else outcome_problem(name, said, False))
            judge("memory", what and f"{name}, allocation {at} of {n}: {what}")
    for verb in ("replay", "explain"):
        good = call(verb, "session.journal").stdout
        call(verb, "session.journal", LD_PRELOAD=shim, FAIL_HOW="memory", FAIL_AT="0", FAIL_COUNT=f"{work}/count")
        with open(f"{work}/count") as file:
            n = int(file.read())
        for at in chosen(n, 5):
            said = call(verb, "session.journal", LD_PRELOAD=shim, FAIL_HOW="memory", FAIL_AT=str(at),
                        FAIL_COUNT=f"{work}/count")
            fine = said.stdout == good if said.returncode == 0 else said.returncode in (3, 4) and said.stderr
            judge("memory", None if fine else f"{verb}, allocation {at} of {n}: status {said.returncode} {said.stderr}")


def main():
    prepare("check")
    call(*commands["check"])
    shutil.copy(f"{work}/at/c", f"{work}/certificate")
    with open(f"{work}/at/j", "rb") as file:
        if file.read() != whole:
            print("FAILED the same check writes another journal")
            print("0 passed, 1 failed")
            return 1
    cuts()
    resumes()
    calls()
    memory()
    print(", ".join(f"{what}: {n:,} tries" for what, n in counts.items()))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
