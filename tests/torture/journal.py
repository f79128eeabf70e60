#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""journal.py PROGRAM SHIM WORK short|full: what is left of a journal when anything fails.

WORK has a.kit and the audit of it. Two checks: one whose fault is a gain, and one that no gain explains but the
catalogue does. Ways to fail:
  cut     a power cut: the file ends after any of its bytes (short: some of them). It replays as far as it goes.
  nuls    a power cut whose last record is NULs, or has them in one half, and ends with its newline.
  resume  serve goes on from such a journal; replies and journal become those of the session that was not cut.
  calls   check and serve while every write, sync, rename, close and making of the journal fails, from then on
          (full), alone (once), or with a kill at it (kill). Whatever serve had answered is in the journal.
  memory  check, serve, replay and explain while an allocation fails, and while all do from it on (dry).
Status 0 or 1 means that all outputs are what they are undisturbed. The whole lines of a journal are always the
first lines of the undisturbed one. Prints counts; last line: N passed, N failed.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import threading

program, shim, work = sys.argv[1:4]
full = sys.argv[4] == "full"
random.seed(1)
passed, failed, counts = 0, 0, {}


def judge(kind, problem):
    global passed, failed
    counts[kind] = counts.get(kind, 0) + 1
    if problem:
        failed += 1
        print(f"FAILED {kind}: {problem}"[:600].rstrip())
    else:
        passed += 1


def call(*arguments, say="", **environment):
    return subprocess.run([program, *arguments], input=say, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment}, cwd=work)


def chosen(n, few, many=None):
    """Some of the numbers 1 to n: few of them in short; in full many, or all."""
    most = (many or n) if full else few
    return sorted(random.sample(range(1, n + 1), min(most, n)))


def read(path):
    with open(f"{work}/{path}", "rb") as file:
        return file.read()


def write(path, data):
    with open(f"{work}/{path}", "wb") as file:
        file.write(data)


def head_of(line):
    return {key: value for key, value in json.loads(line).items() if key not in ("machine", "injected")}


class Session:
    """A check that nothing disturbed, and its journal."""

    def __init__(self, name, fault):
        self.fault = ["--seed", "1", "--fault", fault]
        call("check", "a.kit", *self.fault, "--journal", f"{name}.journal")
        self.whole = read(f"{name}.journal")
        self.lines = self.whole.splitlines(keepends=True)
        self.records = [json.loads(line) for line in self.lines[1:]]
        self.requests = [json.dumps(r["request"]) for r in self.records]
        # the session is done with what is told before the first ask that has nothing to ask for
        self.done = [r["reply"].get("ask") == "done" for r in self.records].index(True)

    def records_in(self, data):
        """Records in the beginning of the journal, and whether more than those is in it."""
        whole = data.count(b"\n")
        rest = data[data.rfind(b"\n") + 1:]
        if rest and rest + b"\n" == self.lines[whole]:
            whole, rest = whole + 1, b""  # only the newline is missing
        return whole - 1, bool(rest)

    def is_journal(self, data):
        """Whether this is the whole journal. serve writes the numbers of a request with more digits than check, and
        does not know what machine answers."""
        lines = data.splitlines(keepends=True)
        return (data.endswith(b"\n") and head_of(lines[0]) == head_of(self.lines[0])
                and [json.loads(line) for line in lines[1:]] == self.records)


# --- a power cut

def replayed(path, records, torn, done):
    """What is wrong with the replay of a file with so many records."""
    said = call("replay", path, "--json")
    if said.returncode != 0:
        return f"replay ends with {said.returncode}: {said.stderr}"
    wanted = {"events": records, "equal": True, "cut": torn or not done, "difference": None}
    if json.loads(said.stdout) != wanted:
        return f"{said.stdout.strip()}, not {records} events, cut {wanted['cut']}"
    said = call("replay", path)
    words = [f"is cut off after {records} record"] * torn + ["ends before the session was done"] * (not done)
    fine = said.returncode == 0 and said.stdout.startswith(f"{records} event") and said.stdout.count("\n") == 1 + len(words)
    return None if fine and all(w in said.stdout for w in words) else f"{records} records: it says {said.stdout}"


def cut(session, n):
    write("cut.journal", session.whole[:n])
    if n < len(session.lines[0]) - 1:
        said = call("replay", "cut.journal")
        word = "line 1" if n > 0 else "empty"
        return None if said.returncode == 3 and word in said.stderr else f"status {said.returncode}: {said.stderr}"
    records, torn = session.records_in(session.whole[:n])
    return replayed("cut.journal", records, torn, records >= session.done)


def cuts(session, many):
    head = len(session.lines[0])
    size = len(session.whole)
    last = len(session.lines[-1])
    # most of a journal is the kit in its header
    wanted = {0, 1, head - 2, head - 1, head, size - last - 1, size - last, size - last + 1, size - 1, size}
    for n in sorted(wanted | set(chosen(size, 10, many)) | {head + n for n in chosen(size - head, 20, many)}):
        problem = cut(session, n)
        judge("cut", problem and f"after {n} of {size} bytes: {problem}")


def goes_on(session, path, kept):
    """serve goes on from a journal with so many records; what is wrong with it."""
    said = call("serve", "a.kit", "--resume", path, say="\n".join(session.requests[kept:]) + "\n")
    if said.returncode != 0 or f"goes on after {kept} record" not in said.stderr:
        return f"serve --resume ends with {said.returncode}: {said.stderr}"
    if [json.loads(line) for line in said.stdout.splitlines()] != [r["reply"] for r in session.records[kept:]]:
        return f"serve --resume after {kept} records gives other replies"
    return None if session.is_journal(read(path)) else f"serve --resume after {kept} records gives another journal"


def resumes(session):
    head, size = len(session.lines[0]), len(session.whole)
    for n in sorted({0, head - 1, head, size - 1, size, *chosen(size, 6, 200),
                     *(head + n for n in chosen(size - head, 10, 1000))}):
        # a last record that lacks only its newline may be kept or asked for again
        problem = resume(session, n, session.whole[:n].count(b"\n") - 1)
        if problem and n > head and session.whole[n:n + 1] == b"\n":
            problem = resume(session, n, session.whole[:n].count(b"\n"))
        judge("resume", problem and f"from {n} of {size} bytes: {problem}")


def resume(session, n, kept):
    write("cut.journal", session.whole[:n])
    if 0 <= kept < len(session.records):
        return goes_on(session, "cut.journal", kept)
    said = call("serve", "a.kit", "--resume", "cut.journal", say="\n".join(session.requests) + "\n")
    word = "the session is done and its verdict was given" if kept >= 0 else "line 1" if n > 0 else "empty"
    fine = said.returncode == 3 and word in said.stderr and not said.stdout
    return None if fine and read("cut.journal") == session.whole[:n] else f"{said.returncode}: {said.stderr}"


def nuls(session):
    """Pages reach the disk out of order: the newline of the last record is there and its bytes are not."""
    places = range(len(session.records)) if full else chosen(len(session.records) - 1, 3)
    for kept in places:
        line = session.lines[1 + kept]
        half = len(line) // 2
        for what, record in (("all", b"\0" * (len(line) - 1) + b"\n"),
                             ("first half", b"\0" * half + line[half:]),
                             ("second half", line[:half] + b"\0" * (len(line) - half - 1) + b"\n")):
            write("nuls.journal", b"".join(session.lines[:1 + kept]) + record)
            problem = replayed("nuls.journal", kept, True, kept >= session.done)
            judge("nuls", problem and f"{what} of record {kept + 1}: {problem}")
            problem = goes_on(session, "nuls.journal", kept)
            judge("nuls", problem and f"{what} of record {kept + 1}: {problem}")


# --- a call or an allocation that fails

class Command:
    """What is run, and what it leaves when nothing fails. sends: how many requests of the session come first;
    None: it is no server."""

    def __init__(self, name, session, arguments, sends=None):
        self.name, self.session, self.arguments, self.sends = name, session, arguments, sends
        self.outputs = {}
        self.good = self.run("once", 0)
        for output in sorted(os.listdir(f"{work}/at")):
            self.outputs[output] = read(f"at/{output}")
        if self.good.returncode not in (0, 1) or ("j" in self.outputs and not session.is_journal(self.outputs["j"])):
            judge("undisturbed", f"{name} ends with {self.good.returncode} or has another journal: {self.good.stderr}")
        again = self.run("once", 0)
        if again.stdout != self.good.stdout or any(read(f"at/{o}") != data for o, data in self.outputs.items()):
            judge("undisturbed", f"{name} writes something else the next time")

    def run(self, how, at):
        shutil.rmtree(f"{work}/at", ignore_errors=True)
        os.mkdir(f"{work}/at")
        environment = {"LD_PRELOAD": shim, "FAIL_HOW": how, "FAIL_AT": str(at), "FAIL_FOLDER": f"{work}/at",
                       "FAIL_COUNT": f"{work}/count"}
        if self.name == "resume":
            write("at/j", b"".join(self.session.lines[:4]) + self.session.lines[4][:20])
        if self.sends is None:
            return call(*self.arguments, **environment)
        return converse(self.arguments, self.session.requests[self.sends:], environment)

    def calls(self, how):
        self.run(how, 0)
        return int(read("count"))

    def held(self):
        """Whole lines of the journal, which are the first of the undisturbed one; -1: they are not."""
        if not os.path.exists(f"{work}/at/j"):
            return 0
        data = read("at/j")
        whole = data[:data.rfind(b"\n") + 1]
        return whole.count(b"\n") if self.outputs["j"].startswith(whole) else -1


def converse(arguments, requests, environment):
    """A client of serve. A request that is refused is sent again, twice; then the client leaves."""
    with open(f"{work}/said", "w+") as said:
        child = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                                 text=True, cwd=work, env={**os.environ, **environment})
        late = threading.Timer(120, child.kill)
        late.start()
        replies, refused, all_heard = [], 0, True
        for request in requests:
            for _ in range(3):
                line = tell(child, request)
                if not line or '"ok":true' in line:
                    break
                refused += 1
            if not line or '"ok":true' not in line:
                all_heard = False
                break
            replies.append(json.loads(line))
        try:
            child.stdin.close()
        except BrokenPipeError:
            pass
        rest = child.stdout.read()
        child.returncode = child.wait()
        child.stdout.close()
        child.hung = not late.is_alive()
        late.cancel()
        said.seek(0)
        child.stdout, child.stderr = "".join(json.dumps(r) + "\n" for r in replies) + rest, said.read()
        child.replies, child.refused, child.all_heard = replies, refused, all_heard
        return child


def tell(child, request):
    """The whole line that answers; None: there is none any more."""
    try:
        child.stdin.write(request + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        return None
    line = child.stdout.readline()
    return line if line.endswith("\n") else None


def journal_problem(command, said):
    """The journal replays as far as it goes, begins as the undisturbed one, and has what was answered."""
    if "j" not in command.outputs:
        return None
    answered = len(said.replies) if command.sends is not None else 0
    if not os.path.exists(f"{work}/at/j") or os.path.getsize(f"{work}/at/j") == 0:
        return f"{answered} replies and no journal" if answered or said.returncode in (0, 1) else None
    lines = command.held()
    if lines < 0:
        return "the journal is not the beginning of the undisturbed one"
    again = call("replay", "at/j", "--json")
    if again.returncode != 0:
        return f"the journal does not replay: {again.stderr}{again.stdout}"
    has = json.loads(again.stdout)["events"] - (command.sends or 0)
    if command.sends is not None:
        wanted = [r["reply"] for r in command.session.records[command.sends:]][:answered]
        if said.replies != wanted:
            return f"the {answered} replies are not those of the undisturbed session"
    return f"{answered} replies, {has} in the journal" if has < answered else None


def outcome_problem(command, said, how):
    """Success means that everything is as it is undisturbed; a failure says so, and leaves no half a page."""
    good = command.good
    if getattr(said, "hung", False):
        return "it hangs"
    for output, data in command.outputs.items():
        if output != "j" and os.path.exists(f"{work}/at/{output}") and read(f"at/{output}") != data:
            what = difference(read(f"at/{output}").decode(), data.decode())
            return f"status {said.returncode} with another {output} than undisturbed: {what}"
    if said.returncode == -9:
        return None if how == "kill" else "it was killed"
    if said.returncode in (0, 1):
        if command.sends is not None and how in ("memory", "dry") and not said.all_heard:
            return None if said.refused else "it ends without the replies"
        if said.returncode != good.returncode:
            return f"status {said.returncode}, undisturbed {good.returncode}"
        if said.stdout != good.stdout:
            return f"status {said.returncode} with another output than undisturbed: {difference(said.stdout, good.stdout)}"
        lacks = [o for o, data in command.outputs.items()
                 if not os.path.exists(f"{work}/at/{o}") or read(f"at/{o}") != data]
        return f"status {said.returncode} without the whole {lacks}" if lacks else None
    if said.returncode not in (3, 4):
        return f"it ends with {said.returncode}: {said.stderr}"
    return None if said.stderr else "it fails without a word"


def difference(got, wanted):
    """The first line that differs."""
    a, b = got.splitlines() + [""], wanted.splitlines() + [""]
    for x, y in zip(a, b):
        if x != y:
            at = max(0, len(os.path.commonprefix([x, y])) - 20)
            return f"{x[at:at + 60]!r}, not {y[at:at + 60]!r}"
    return f"{len(a)} lines, not {len(b)}"


def calls(commands):
    for command in commands:
        n = command.calls("once")
        for at in chosen(n, 8):
            held = 0
            for how in ("kill", "full", "once"):
                said = command.run(how, at)
                lines = command.held()
                what = journal_problem(command, said) or outcome_problem(command, said, how)
                # records that were written before the call that fails are there, whatever comes after; a journal
                # that could not be started, of a header alone, may be taken back
                held = lines if how == "kill" and lines > 1 else held
                what = what or (f"{lines} lines in the journal, {held} were" if lines < held else None)
                judge("calls", what and f"{command.name}, {how} at {at} of {n}: {what}")


def memory(commands, few):
    for command in commands:
        n = command.calls("memory")
        for how, places in (("memory", chosen(n, few)), ("dry", chosen(n, 5, 20))):
            for at in places:
                said = command.run(how, at)
                what = journal_problem(command, said) or outcome_problem(command, said, how)
                judge(how, what and f"{command.name}, allocation {at} of {n}: {what}")


def main():
    gain, lag = Session("session", "2:.5"), Session("lag", "1:lag=2")
    check = ["--journal", "at/j", "--certificate", "at/c"]
    written = [Command("check", gain, ["check", "a.kit", *gain.fault, *check]),
               Command("check of a lag", lag, ["check", "a.kit", *lag.fault, *check]),
               Command("serve", gain, ["serve", "a.kit", "--seed", "1", "--journal", "at/j"], 0),
               Command("resume", gain, ["serve", "a.kit", "--resume", "at/j"], 3)]
    told = [Command("check --report", lag, ["check", "a.kit", *lag.fault, "--report", "at/r.html"]),
            Command("replay", gain, ["replay", "session.journal"]),
            Command("explain", lag, ["explain", "lag.journal"]),
            Command("explain --html", lag, ["explain", "lag.journal", "--html", "at/e.html"])]
    certificate = json.loads(written[1].outputs["c"])
    if not certificate["looks_like"] or not certificate["audit"]:
        judge("undisturbed", "the second check is like nothing in the catalogue, or its kit not audited")
    for session, many in ((gain, None), (lag, 2000)):
        cuts(session, many)
        nuls(session)
        resumes(session)
    calls(written)
    memory(written + told, 20)
    print(", ".join(f"{what}: {n:,} tries" for what, n in counts.items()))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
