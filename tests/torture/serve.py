#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""serve.py PROGRAM WORK REQUESTS: a server under bad clients and a plant that dies.

WORK has kits a.kit and rig.kit, `session.journal` (a check with a.kit) and `dying.py` (the plant of rig.kit, which
ends now and then). One server answers REQUESTS lines over its socket. Sessions are those of the journal, with bad
lines between their requests: after every bad line the session must go on as if it had not come. Clients leave in
the midst, send half a line, knock while another one is served, or take no replies until the server must wait for
them. At the end the memory and the descriptors of the server are what they were early on, and every journal that
it wrote replays and has what its client was told. Another server drops clients that stay and take no replies.
Prints counts; last line: N passed, N failed.
"""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

program, work, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
full = wanted > 100000
random.seed(1)
counts = {"requests": 0, "bad lines": 0, "sessions": 0, "left in the midst": 0, "turned away": 0,
          "deaf": 0, "dropped": 0, "plant died": 0}
failures = []


def bad(what):
    failures.append(what)
    print("FAILED", what[:300])


def entries(path):
    with open(path) as file:
        lines = file.read().splitlines()[1:]
    return [json.loads(line) for line in lines]


recorded = [(json.dumps(e["request"]), e["reply"]) for e in entries(f"{work}/session.journal")]


def garbage():
    """A line that must be refused in every state of a session."""
    request = json.loads(random.choice(recorded)[0])
    kind = random.randrange(12)
    if random.random() < .003:
        return b"x" * 3_000_000  # longer than any request for this kit
    if kind == 0:
        return b"x" + bytes(random.randrange(1, 256) for _ in range(random.randrange(200))).replace(b"\n", b"x")
    if kind == 1:
        text = json.dumps(request)
        return text[:random.randrange(1, len(text))].encode()
    if kind == 2:
        return b"[" * random.randrange(20, 20000)
    if kind == 3:
        return b'{"op":"' + b"a" * random.randrange(1, 100000) + b'"}'
    if kind == 4:
        return json.dumps(request["op"]).encode()
    if kind == 5:
        request["surplus"] = 1
    elif kind == 6:
        request["op"] = random.choice(["", "Tell", "quit", 1, None])
    elif kind == 7:
        return json.dumps({"op": "tell", "probe": random.choice([-1, 99, 1.5, "0"]), "response": [[0, 0]]}).encode()
    elif kind == 8:
        return json.dumps({"op": "tell", "probe": 0, "response": [[1e999, 0]] * 8}).encode()
    elif kind == 9:
        return b'{"op":"tell","op":"ask"}'
    elif kind == 10:
        return json.dumps({"op": "hello", "protocol": random.choice([0, 3, "2", None, [2]])}).encode()
    else:
        return b'{"op":"ask","\xff":0}'
    return json.dumps(request).encode()


# replies to so many are far more than a socket holds, so the server waits for who does not take them
DEAF = 1000


class Client:
    def __init__(self, path):
        self.accepted, self.deaf = 0, False  # replies that we read and that say ok
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, line):
        self.socket.sendall(line + b"\n")
        counts["requests"] += 1

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\n"):
            return None
        reply = json.loads(line)
        self.accepted += reply["ok"]
        return reply

    def turn_deaf(self):
        """One write, which fits: what does not fit is the answer."""
        self.socket.sendall(b'{"op":"readiness"}\n' * DEAF)
        self.deaf = True
        counts["deaf"] += 1

    def close(self):
        self.file.close()
        self.socket.close()


def bad_line(client):
    client.send(garbage())
    counts["bad lines"] += 1
    reply = client.reply()
    if not reply or reply["ok"] or not reply["error"]["message"]:
        bad(f"a bad line is answered with {reply}")


def whole_session(client, asked=lambda n: recorded[n], noise=.4):
    for n in range(len(recorded)):
        while random.random() < noise:
            bad_line(client)
        line, expected = asked(n)
        client.send(line.encode())
        reply = client.reply()
        if reply != expected:
            bad(f"request {n} is answered with {str(reply)[:200]}, not {str(expected)[:200]}")
            return
    counts["sessions"] += 1


def knock(path):
    other = Client(path)
    reply = other.reply()
    counts["turned away"] += 1
    if not reply or reply["error"]["code"] != "busy":
        bad(f"a second client is told {reply}")
    other.close()


def leave(client):
    """In the midst of a session, of a line, or with replies not taken."""
    for n in range(random.randrange(len(recorded))):
        client.send(recorded[n][0].encode())
        client.reply()
    how = random.randrange(3)
    if how == 0:
        client.socket.sendall(b'{"op":"te')
    elif how == 1:
        client.socket.shutdown(socket.SHUT_WR)
    else:
        client.turn_deaf()
    counts["left in the midst"] += 1


class Server:
    all = []

    def __init__(self, name, kit, *arguments, tries=1):
        """tries: a server refuses to start where its plant dies before its hello."""
        self.path = f"{work}/{name}"
        while not self.start(kit, arguments):
            tries -= 1
            if tries == 0:
                raise SystemExit(f"the server ends: {open(f'{work}/said').read()}\n0 passed, 1 failed")
        time.sleep(.1)  # it listens

    def start(self, kit, arguments):
        self.process = subprocess.Popen([program, "serve", f"{work}/{kit}", "--socket", self.path, "--seed", "1",
                                         *arguments], stderr=open(f"{work}/said", "wb"))
        self.all.append(self.process)
        while not os.path.exists(self.path):
            if self.process.poll() is not None:
                return False
            time.sleep(.01)
        return True

    def state(self):
        """Kilobytes in memory, open descriptors."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            resident = int(file.read().split()[1]) * 4
        return resident, len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        start = time.time()
        status = self.process.wait(timeout=60)
        if status != 143:
            bad(f"SIGTERM ends it with {status} after {time.time() - start:.1f} s")
        if os.path.exists(self.path):
            bad("its socket is left")


class Journals:
    """Of a server, one of each client. Each replays, and has what its client was told."""

    def __init__(self, name, each):
        self.name, self.each = name, each  # one of so many is replayed
        self.told = {}  # number: replies that say ok, whether there may be more
        self.replayed = self.all = 0

    def heard(self, number, client):
        self.told[number] = client.accepted, client.deaf

    def look(self, busy=None):
        """At those of all clients but the one that may still be served. None is kept."""
        for number in [n for n in self.told if n != busy]:
            accepted, more = self.told.pop(number)
            path = f"{work}/j/{self.name}.{number}"
            if not os.path.exists(path):
                if accepted:
                    bad(f"client {number} was told {accepted} replies and has no journal")
                continue
            self.all += 1
            if self.all % self.each == 0:
                self.replay(path, accepted, more)
            os.unlink(path)

    def replay(self, path, accepted, more):
        self.replayed += 1
        said = subprocess.run([program, "replay", path, "--json"], capture_output=True, text=True)
        events = json.loads(said.stdout)["events"] if said.returncode == 0 else -1
        if events < accepted or (events > accepted and not more):
            bad(f"{path}: {accepted} replies, {events} events: {said.stdout}{said.stderr}")


def state(server, journals, number):
    """Of a server that serves the numbered client and has answered it: only then is it certain to be done with the
    one before."""
    client = Client(server.path)
    client.send(recorded[0][0].encode())
    if client.reply() != recorded[0][1]:
        bad("hello to who looks at the state")
    found = server.state()
    client.close()
    journals.heard(number, client)
    return found


def bad_clients():
    server = Server("door", "a.kit", "--journal", f"{work}/j/one")
    journals = Journals("one", 100 if full else 1)
    early, early_at, number = (0, 0), 200 if full else 50, 0
    while counts["requests"] < wanted and len(failures) < 5:
        number += 1
        client = Client(server.path)
        what = random.randrange(10)
        if what == 0:
            leave(client)
        else:
            if what == 1:
                client.send(b"")  # blank lines have no reply
                client.send(recorded[0][0].encode())
                if client.reply() != recorded[0][1]:
                    bad("hello")
                knock(server.path)
                client.send(b'{"op":"reset"}')
                client.reply()
            whole_session(client)
        client.close()
        journals.heard(number, client)
        if number == early_at - 1:
            number += 1
            early = state(server, journals, number)
        if number % 100 == 0:
            journals.look(busy=number)
    late = state(server, journals, number + 1)
    server.end()
    journals.look()
    print(f"memory {early[0]} kB after {early_at} clients, {late[0]} kB after {number + 1};"
          f" descriptors {late[1]}; {journals.replayed} of {journals.all} journals replayed")
    if os.listdir(f"{work}/j"):
        bad(f"journals of nobody: {os.listdir(f'{work}/j')[:5]}")
    if late[0] > early[0] + 2000 or late[1] > early[1]:
        bad(f"it grows: {early} to {late}")


def deaf_clients(wanted_deaf):
    """A client that stays and takes no replies is dropped, and the next one served. Where the machine is so busy
    that the next one is dropped too, another one comes."""
    server = Server("patient", "a.kit", "--idle", "2", "--journal", f"{work}/j/deaf")
    journals, number = Journals("deaf", 1), 0
    while counts["dropped"] < wanted_deaf and len(failures) < 5:
        number += 1
        client, its_number = Client(server.path), number
        client.turn_deaf()
        after = Client(server.path)
        after.send(recorded[0][0].encode())
        reply = after.reply()  # it comes when the deaf one was dropped
        number += 1
        while reply and not reply["ok"] and reply["error"]["code"] in ("idle", "busy") and number < 20 * wanted_deaf:
            if reply["error"]["code"] == "idle":
                journals.heard(number, after)
                number += 1
            after.close()
            time.sleep(.1)
            after = Client(server.path)
            after.send(recorded[0][0].encode())
            reply = after.reply()
        if reply != recorded[0][1]:
            bad(f"after a deaf client the next one is told {str(reply)[:200]}")
        while client.reply():  # what the socket held
            pass
        if client.accepted == 0 or client.accepted >= DEAF:
            bad(f"the server did not wait for a deaf client, who was told {client.accepted} replies")
        client.close()
        after.close()
        journals.heard(its_number, client)
        journals.heard(number, after)
        counts["dropped"] += 1
    server.end()
    journals.look()


def survive(client):
    """A session to its end. A request during which the plant died succeeds when it is sent again."""
    for _ in range(100):
        client.send(b'{"op":"ask"}')
        ask = client.reply()
        if not ask or ask.get("ask") in (None, "done"):
            break
        rows = ask["rows"] if "rows" in ask else len(ask["command"])
        tell = {"op": "tell", "response": [[.01 * random.random(), .01] for _ in range(rows)], "state": [0, 0]}
        tell.update({"probe": ask["probe"]} if ask["ask"] == "probe" else {"rehearsal": ask["tasks"]})
        reply = None
        for _ in range(50):
            client.send(json.dumps(tell).encode())
            reply = client.reply()
            if not reply or reply["ok"]:
                break
            counts["plant died"] += 1
            if reply["error"]["code"] != "plant":
                break
        if not reply or not reply["ok"]:
            bad(f"the request does not succeed: {reply}")
            return
    if not ask or ask.get("ask") != "done":
        bad(f"the session ends with {ask}")
    client.send(b'{"op":"readiness"}')
    reply = client.reply()
    if not reply or not reply["ok"] or not reply["tasks"]:
        bad(f"readiness after the session: {reply}")


def dying_plant(sessions):
    """The twin ends in the midst of a request now and then; the same request then succeeds."""
    server = Server("dying", "rig.kit", "--plant", f"exec:python3 {work}/dying.py", tries=20)
    dead_at_once = 0  # in a row
    while sessions > 0 and len(failures) < 5:
        client = Client(server.path)
        client.send(b'{"op":"hello","protocol":2}')
        reply = client.reply()
        if reply and not reply["ok"] and reply["error"]["code"] == "not-started":
            counts["plant died"] += 1  # before its own hello
            client.close()
            dead_at_once += 1
            if dead_at_once > 20:
                bad(f"it never starts: {reply}")
                break
            continue
        dead_at_once = 0
        sessions -= 1
        if not reply or not reply["ok"]:
            bad(f"hello is answered with {reply}")
        survive(client)
        counts["sessions"] += 1
        client.close()
    server.end()


os.makedirs(f"{work}/j", exist_ok=True)
try:
    bad_clients()
    deaf_clients(50 if full else 2)
    dying_plant(300 if full else 2)
finally:
    for process in Server.all:
        process.kill()
print(", ".join(f"{n:,} {what}" for what, n in counts.items()))
print(f"{int(not failures)} passed, {len(failures)} failed")
sys.exit(len(failures) > 0)
