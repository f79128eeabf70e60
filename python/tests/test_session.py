# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: the same bits from Python, from the C program and from serve; refusals."""
import json
import pickle
import signal
import subprocess
import time
import unittest

import numpy as np
import preflight as pf
from support import PROGRAM, ROOT, Case, journal, preflight


def numbers(told, kit):
    """A Told as serve would answer it."""
    if told.stage == 1:
        return {"targets": [{"mechanism": r.mechanism, "score": r.score, "category": r.category,
                             "coordinate": r.coordinate, "gate": r.gate, "plausible": r.plausible}
                            for r in told.targets],
                "belief": told.belief.tolist(), "change": told.change, "alarm": told.alarm,
                "misfit": told.misfit}
    if told.stage == 3:
        return {"passed": told.passed, "distance": told.distance}
    return {"belief": told.belief.tolist(), "joint": told.joint.tolist(),
            "mean_gain": told.mean_gain.tolist()}


class Serve:
    """`preflight serve` as a child."""

    def __init__(self, kit):
        self.child = subprocess.Popen([PROGRAM, "serve", str(kit)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def request(self, **message):
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()
        reply = json.loads(self.child.stdout.readline())
        if not reply.pop("ok"):
            raise AssertionError(reply)
        return reply

    def close(self):
        self.child.stdin.close()
        self.child.wait(timeout=20)
        self.child.stdout.close()


SMALL = {"seed": 3, "episodes": 40, "alarm_trials": 200}
SET = [x for k, v in SMALL.items() for x in ("--set", f"{k}={v}")]


class SessionTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.kit = pf.Kit.calibrate("attitude", **SMALL)
        cls.single = pf.Kit.calibrate("attitude", probes="single", **SMALL)
        # a short stage 1, so that there is a stage 2
        short = {"faults": "many", "budget": {"stage1": 4, "stage2": 4}}
        cls.many = pf.Kit.calibrate("attitude", **short, **SMALL)
        cls.transport = pf.Kit.calibrate("attitude", posterior="transport", **short, **SMALL)
        cls.servo = pf.Kit.calibrate("dc_servo")

    def save(self, kit=None):
        path = self.folder / "a.kit"
        (kit or self.kit).save(path)
        return path

    def test_kit_equals_the_programs(self):
        path = self.folder / "c.kit"
        preflight("calibrate", "attitude", "-o", path, *SET)
        self.assertEqual(path.read_bytes(), bytes(self.kit))
        self.assertEqual(json.loads(preflight("kit", "show", path, "--json")), self.kit.info)
        self.assertEqual(bytes(pf.Kit.load(path)), bytes(self.kit))
        self.assertEqual(bytes(pickle.loads(pickle.dumps(self.kit))), bytes(self.kit))
        self.assertGreater(max(len(p.targets) for p in self.kit.probes), 1)

    def test_what_is_no_fault_or_seed(self):
        kit = self.kit
        name = kit.mechanisms[1]
        for fault, text in (({1: 1e6}, "from 0 to 1"), ({1: float("nan")}, "finite"),
                            ({1: -.1}, "from 0 to 1"), ({1: .5, name: .5}, "already"),
                            ({"nobody": .5}, "mechanisms: thruster0"), ({99: .5}, "0..7"),
                            ({1: True}, "a number"), ({1: None}, "a number"), ([.5], "texts"),
                            ({1: "frozen"}, "can have: gain"), ("5", "MECHANISM:GAIN"),
                            ({"angle_z": .5}, "can have: bias"), ({1: {"delay": .5}}, "whole"),
                            ({"time_constant": 0}, "from 0.01"), ({1: {"delay": "1"}}, "number")):
            with self.assertRaisesRegex(ValueError, text):
                kit.check(fault=fault)
        for seed in (-1, 2**70, 1.5, "7"):
            with self.assertRaisesRegex(ValueError, "seed"):
                kit.session(seed=seed)

    def test_faults_are_those_of_the_program(self):
        path = self.folder / "faults.kit"
        self.kit.save(path)
        for fault, options in (
                ({3: {"backlash": .5}}, ["3:backlash=.5"]),
                ({"thruster3": "delay=2", "angle_z": "frozen"}, ["3:delay=2", "angle_z:frozen"]),
                ({"effectiveness": 1.25}, ["effectiveness=1.25"]),
                ({"plant": {"coupling": .1}}, ["coupling=.1"]),
                (["5:2", "rate_x:noise=2"], ["5:2", "rate_x:noise=2"]),
                ("3:intermittent=.2", ["3:intermittent=.2"]),
                ({3: {"dead_band": .2, "lag": 2}}, ["3:dead_band=.2", "3:lag=2"])):
            arguments = [x for text in options for x in ("--fault", text)]
            want = json.loads(preflight("check", path, *arguments, "--seed", 5, "--json",
                                        status=None))
            got = self.kit.check(fault=fault, seed=5).data
            self.assertEqual(got["tasks"], want["tasks"])
            self.assertEqual(got["mechanisms"], want["mechanisms"])

    def test_faults_of_a_trajectory(self):
        machine = pf.Machine("attitude")
        u = np.zeros((6, 8))
        u[:, 3] = [.5, .5, .5, 0, 0, 0]
        late = np.roll(u, 2, axis=0)
        want = machine.roll(late, key=3, noise=True).output
        got = machine.roll(u, key=3, noise=True, fault={3: {"delay": 2}}).output
        self.assertEqual(got.tobytes(), want.tobytes())
        got = machine.roll(u, key=3, noise=True, fault={"angle_z": "frozen"})
        self.assertTrue((got.output[:, 2] == got.initial[2]).all())

    def test_what_only_looks_like_a_response(self):
        session = self.kit.session()
        shape = session.ask().probe.command.shape[0], len(session.kit.channels)
        masked = np.ma.masked_array(np.zeros(shape), mask=np.eye(*shape))
        for response, text in ((np.zeros(shape) + 1j, "not real"), (masked, "masked"),
                               (np.full(shape, "1"), "not real"), (np.full(shape, None), "real")):
            with self.assertRaisesRegex(ValueError, text):
                session.tell(response)
        self.assertEqual(len(session.history), 0)

    def test_probes_and_faults_as_the_program_has_them(self):
        """Each kit has the bytes of the program's with the same options."""
        path, library = self.folder / "c.kit", self.folder / "a.probes"
        preflight("design", "attitude", "-o", library, "--seed", 3)
        listed = [{"name": "both", "targets": [1, 2], "command": [[0, 1, .5, *[0] * 5],
                                                                  [0, .5, 1, *[0] * 5]] * 4},
                  *({"name": f"p{j}", "pulse": {"mechanism": j, "amplitude": 1}}
                    for j in range(1, 8))]
        config = self.folder / "c.yaml"
        config.write_text(json.dumps({"probes": listed, **SMALL}))
        for options, arguments in (
                (["--probes", "single"], {"probes": "single"}),
                (["--probes", "designed"], {"probes": "designed"}),
                (["--probes", library], {"probes": library}),
                (["--method", "sept"], {"method": "sept"}),
                (["--set", "design.with_singles=false"], {"design": {"with_singles": False}}),
                (["--faults", "many"], {"faults": "many"}),
                (["--config", config], {"probes": listed})):
            preflight("calibrate", "attitude", "-o", path, *SET, *options)
            kit = pf.Kit.calibrate("attitude", **arguments, **SMALL)
            self.assertEqual(path.read_bytes(), bytes(kit), options)
        self.assertEqual(bytes(self.kit), bytes(pf.Kit.calibrate("attitude", probes=str(library),
                                                                 **SMALL)))
        for arguments, text in (
                ({"probes": self.folder / "none"}, "none"),
                ({"probes": "designed", "method": "sept"}, "cannot read group probes"),
                ({"probes": "single", "config": {"probes": listed}}, "lists `probes`"),
                ({"config": {"plant": "battery"}}, "is for plant battery, not for attitude")):
            with self.assertRaisesRegex(pf.PreflightError, text):
                pf.Kit.calibrate("attitude", **arguments)

    def test_python_c_and_serve_agree_to_the_bit(self):
        """The C program's check, its responses through Python and through serve."""
        norm = pf.Kit.calibrate("attitude", method="sept", **SMALL)  # needs no fault prediction
        for kit, least in ((self.kit, 2), (self.single, 4), (norm, 4)):
            self.compare(kit, least, (("3:0.35", 7), ("5:0.2", 1), ("1:1", 2)))

    def test_several_faults_agree_to_the_bit(self):
        """Also P(anything changed), which is no sum over the mechanisms."""
        cases = (("3:0.35 5:0.5", 7), ("1:.2 2:.3 4:.4", 1), ("1:1", 2))
        self.assertEqual(self.compare(self.many, 2, cases), {1, 2, 3})
        self.assertEqual(self.compare(self.transport, 2, cases), {1, 2, 3})

    def test_predictions_at_the_gains_of_the_ask(self):
        """A caller's own simulator, told of several faults, is the twin to the bit."""
        kit, machine = self.transport, pf.Machine("attitude")
        by_state, own = pf.Session(kit, seed=5), pf.Session(kit, seed=5)
        weak = np.ones(len(kit.mechanisms))
        weak[[3, 5, 6]] = .3, .5, .4
        stages = set()
        for ask in by_state:
            also = own.ask()
            stages.add(ask.stage)
            trace = machine.roll(ask.command, weak, key=len(own.history) << 20, noise=True)

            def predict(j=0, gain=1., others=None, command=ask.command, start=trace.start):
                gains = np.ones(len(kit.mechanisms)) if others is None else others.copy()
                gains[j] = gain
                return machine.roll(command, gains, state=start).output
            if ask.rehearsal:
                given = self.predict_rehearsal(kit, ask, machine, trace.start)
            elif ask.stage == 1:
                self.assertIsNone(ask.gains)
                given = {"nominal": predict(),
                         "fault": [predict(j, kit.info["g_cal"]) for j in ask.probe.targets]}
            else:
                self.assertEqual(also.gains.tolist(), ask.gains.tolist())
                given = {"healthy": [predict(j, 1, ask.gains) for j in ask.probe.targets],
                         "grid": [[predict(j, g, ask.gains) for g in kit.grid]
                                  for j in ask.probe.targets]}
                with self.assertRaisesRegex(pf.PreflightError, "needs healthy and grid"):
                    own.tell(trace.output, nominal=predict(), grid=given["grid"])
                with self.assertRaisesRegex(ValueError, "healthy: shape"):
                    own.tell(trace.output, **{**given, "healthy": given["healthy"][0]})
            want = by_state.tell(trace.output, state=trace.start)
            self.assertEqual(numbers(own.tell(trace.output, **given), kit), numbers(want, kit))
            self.assertLessEqual(want.change, 1)
        self.assertEqual(stages, {1, 2, 3})
        self.assertEqual(own.readiness().data, by_state.readiness().data)

    def predict_rehearsal(self, kit, ask, machine, start):
        """What a caller's own simulator says of a rehearsal: of the uncorrected command."""
        run, n_mech = ask.rehearsal, len(kit.mechanisms)
        asked = np.zeros((run.rows, n_mech))
        for task in run.tasks:
            command = np.array(kit.info["tasks"][task]["command"])
            asked[: len(command)] += command

        def predict(command, j=0, gain=1.):
            gains = np.ones(n_mech)
            gains[j] = gain
            return machine.roll(command, gains, state=start).output
        given = {"nominal": predict(asked)}
        if len(run.tasks) > 1:
            return {**given, "edges": [predict(asked, j, gain) for j, gain in run.edges]}
        return {**given, "free": predict(0 * asked)}

    def compare(self, kit, least, cases):
        """Each check needs so many probes at least; the stages that were seen."""
        path, record, stages = self.save(kit), self.folder / "j", set()
        for faults, seed in cases:
            options = [x for fault in faults.split() for x in ("--fault", fault)]
            preflight("check", path, *options, "--seed", seed, "--journal", record, status=None)
            _, events = journal(record)
            session, served, given = pf.Session(kit, seed=seed), Serve(path), \
                pf.Session(kit, seed=seed)
            self.addCleanup(served.close)
            told = 0
            for event in events:
                request, reply = event["request"], dict(event["reply"])
                reply.pop("ok")
                self.assertEqual(served.request(**request), reply)
                if request["op"] == "ask":
                    self.check_ask(session.ask(), reply)
                    given.ask()
                elif request["op"] == "tell":
                    told += 1
                    what = {k: request[k] for k in ("probe", "rehearsal") if k in request}
                    got = session.tell(request["response"], state=request["state"], **what)
                    own = given.tell(request["response"], **event["predictions"])
                    self.assertEqual(numbers(got, kit), reply)
                    self.assertEqual(numbers(own, kit), reply)
                    stages.add(got.stage)
                elif request["op"] == "readiness":
                    self.assertEqual(session.readiness().data, reply)
                    self.assertEqual(given.readiness().data, reply)
            self.assertGreaterEqual(told, least)
            served.close()
        return stages

    def check_ask(self, ask, reply):
        if reply["ask"] == "done":
            self.assertTrue(ask.done)
            self.assertEqual(ask.why, reply["why"])
            return
        if reply["ask"] == "rehearsal":
            self.assertEqual((ask.kind, ask.stage, list(ask.tasks), ask.command.tolist(),
                              ask.rehearsal.rows, list(ask.rehearsal.names)),
                             tuple(reply[k] for k in ("ask", "stage", "tasks", "command", "rows",
                                                      "names")))
            self.assertEqual([{"mechanism": j, "gain": g} for j, g in ask.rehearsal.edges],
                             reply.get("edges", []))
            return
        self.assertEqual(None if ask.gains is None else ask.gains.tolist(), reply.get("gains"))
        self.assertEqual((ask.stage, ask.probe.index, ask.probe.name, list(ask.probe.targets),
                          ask.command.tolist(), ask.probe.rows, ask.probe.charge, ask.value),
                         tuple(reply[k] for k in ("stage", "probe", "name", "targets", "command",
                                                  "rows", "charge", "value")))

    def test_check_equals_the_programs(self):
        path = self.save()
        for fault, seed in (({"thruster3": .35}, 7), ({5: .2, 2: .8}, 0), ({}, 4)):
            options = [x for j, g in fault.items() for x in ("--fault", f"{j}:{g}")]
            want = json.loads(preflight("check", path, "--seed", seed, "--json", *options,
                                        status=None))
            got = self.kit.check(fault=fault, seed=seed).data
            self.assertEqual(got, {k: want[k] for k in got})

    def test_recordings(self):
        log, path = self.folder / "log.csv", self.folder / "r.kit"
        with open(log, "w", encoding="ascii") as file:
            subprocess.run(["python3", str(ROOT / "examples/record.py")], stdout=file, check=True)
        preflight("calibrate", "--recordings", log, "-o", path)
        kit = pf.Kit.from_recordings(log)
        self.assertEqual(bytes(kit), path.read_bytes())
        rng, session, served = np.random.default_rng(1), kit.session(), Serve(path)
        served.request(op="hello", protocol=2)
        for ask in session:
            reply = served.request(op="ask")
            self.check_ask(ask, reply)
            response = np.cumsum(0.05 * ask.command[:, 1:] @ [[.9, .1], [.2, 1.1]], axis=0)
            response = response + rng.normal(0, .01, response.shape)
            told = session.tell(response)
            what = {"rehearsal": ask.tasks} if ask.rehearsal else {"probe": ask.probe.index}
            reply = served.request(op="tell", response=response.tolist(), **what)
            self.assertEqual(numbers(told, kit), reply)
        self.assertEqual(served.request(op="ask")["ask"], "done")
        self.assertEqual(session.readiness().data, served.request(op="readiness"))
        served.close()
        self.evaluate_recorded(kit)

    def evaluate_recorded(self, kit):
        """A kit that predicts by itself: the machine is named, and nothing else predicts."""
        class Rig(pf.Plant):
            name, calm = "rig", False
            mechanisms = [pf.Mechanism(n) for n in kit.mechanisms]
            channels = [pf.Channel(n) for n in kit.channels]

            def reset(self, seed, noise):
                self.rng, self.noise = np.random.default_rng(seed), .01 * noise
                self.x = np.zeros(2)

            def step(self, delivered):
                self.x = self.x + .1 * np.array(delivered[1:]) @ [[.9, .1], [.2, 1.1]]

            def observe(self):
                return self.x + self.noise * self.rng.normal(size=2)

        with self.assertRaisesRegex(ValueError, "recordings.*give plant"):
            kit.evaluate(faults=[None], trials=1)
        found = kit.evaluate(Rig(), [None, {2: .35}], trials=3)
        for trial in found.trials:
            ready = kit.check(Rig(), fault={2: .35} if "2:" in trial["fault"] else None,
                              seed=trial["seed"])
            self.assertEqual(trial["go"], sum(t["decision"] == "go" for t in ready.tasks))
        self.assertEqual(found["2:0.35"]["named"], 3)
        self.assertGreater(found["2:0.35"]["go"], 0)

    def test_a_learned_model(self):
        """A kit that predicts with a model: the program's bytes and verdict."""
        for plant, kind, readings in (("attitude", "recursive", 1), ("building", "trajectory", 2)):
            model, path = self.folder / plant, self.folder / f"{plant}.kit"
            preflight("train", plant, "-o", model, "--profile", "quick", "--kind", kind)
            preflight("calibrate", plant, "--predictor", f"ensemble:{model}", "-o", path,
                      "--set", "episodes=40", "--set", "alarm_trials=100")
            kit = pf.Kit.calibrate(plant, model=model, episodes=40, alarm_trials=100)
            self.assertEqual(bytes(kit), path.read_bytes())
            self.assertEqual(kit.state_size, readings * len(kit.channels))
            want = json.loads(preflight("check", path, "--model", model, "--fault", "2:0.3",
                                        "--json", status=None))
            got = kit.check(fault={2: .3}, model=model).data
            self.assertEqual(got, {k: want[k] for k in got})
            found = kit.evaluate(faults=[{2: .3}], trials=2, model=model)
            for trial in found.trials:
                ready = kit.check(fault={2: .3}, model=model, seed=trial["seed"])
                self.assertEqual([t["lower"] for t in found.tasks if t["trial"] == trial["trial"]],
                                 [t["lower"] for t in ready.tasks])
            with self.assertRaisesRegex(pf.PreflightError, "model"):
                kit.check()
            with self.assertRaisesRegex(pf.PreflightError, "model"):
                kit.evaluate(faults=[None], trials=1)

    def test_ctrl_c_stops_a_calibration(self):
        """In C threads and in a plant in Python."""
        def interrupt(*_):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for plant in ("quadrotor", pf.GymPlant("Pendulum-v1")):
                signal.setitimer(signal.ITIMER_REAL, .3)
                began = time.monotonic()
                with self.assertRaises(KeyboardInterrupt):
                    pf.Kit.calibrate(plant, episodes=100_000, sensor_noise=1)
                self.assertLess(time.monotonic() - began, 20)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_refusals_change_nothing(self):
        session = pf.Session(self.kit)
        with self.assertRaisesRegex(pf.PreflightError, "ask first"):
            session.tell(np.zeros((8, 6)))
        ask = session.ask()
        good = np.zeros(session._windows[ask.probe.index].shape)
        state = np.zeros(self.kit.state_size)
        bad = good.copy()
        bad[2, 1] = np.nan
        for arguments, kind, text in (
                ((good[:-1],), ValueError, "shape"), (("text",), ValueError, ""),
                ((bad,), pf.PreflightError, "not finite|not-finite|NaN|finite"),
                ((good, {"probe": 99}), pf.PreflightError, "99"),
                ((good, {"state": None}), pf.PreflightError, "state"),
                ((good, {"nominal": good}), ValueError, "either"),
                ((good, {"state": None, "nominal": good}), pf.PreflightError, "fault"),
                ((good, {"state": None, "nominal": good, "fault": [bad]}), ValueError, "fault"),
                ((good, {"state": [1.0]}), ValueError, "state: shape"),
                ((good, {"state": state + np.inf}), ValueError, "state")):
            options = {"state": state, **(arguments[1] if len(arguments) > 1 else {})}
            with self.assertRaisesRegex(kind, text):
                session.tell(arguments[0], **options)
            self.assertEqual(session.ask().probe, ask.probe)
        self.assertEqual((session.charge, session.history), (0, []))
        session.tell(good, state=state)
        self.assertEqual(len(session.history), 1)

    def watched(self, kit, fault, seed):
        """A check, and what the machine gave: (response, start) of each run."""
        session, runs = kit.session(seed=seed), []
        tell = session._tell_desk

        def note(ask):
            runs.append((session._window(ask).copy(), session._start.copy()))
            tell(ask)
        session._tell_desk = note
        return session.run(fault=fault, seed=seed), runs

    def test_a_rehearsal_by_ask_and_tell_is_that_of_check(self):
        """Also through predictions of the caller's, in groups and alone."""
        kit, machine, seen = self.servo, pf.Machine("dc_servo"), set()
        for fault, seed in (({}, 1), ({1: .35}, 2), ({1: {"backlash": .5}}, 0),
                            ({"angle": "frozen"}, 0)):
            check, runs = self.watched(kit, fault, seed)
            by_state, own = kit.session(seed=seed), kit.session(seed=seed)
            for ask, also, (response, start), want in zip(by_state, own, runs, check.history):
                self.assertEqual((also.kind, also.tasks, want.tasks),
                                 (ask.kind, ask.tasks, ask.tasks))
                told = by_state.tell(response, state=start)
                given = {"state": start}
                if ask.kind == "rehearsal":
                    seen.add(len(ask.tasks))
                    self.assertEqual((told.stage, told.probe, told.tasks), (3, -1, ask.tasks))
                    self.assertEqual(ask.correction.shape, (4,))
                    self.assertIsNone(ask.policy)
                    self.assertEqual(ask.command.shape, (ask.rehearsal.rows, 4))
                    given = self.predict_rehearsal(kit, ask, machine, start)
                self.assertEqual(numbers(told, kit), numbers(want, kit))
                self.assertEqual(numbers(own.tell(response, **given), kit), numbers(want, kit))
            ready = kit.check(fault=fault, seed=seed)
            self.assertEqual(by_state.readiness().data, ready.data)
            self.assertEqual(own.readiness().data, ready.data)
            self.assertEqual(len(by_state.history), ready.probes + ready.rehearsals)
        self.assertEqual(seen, {1, 2})
        self.assertEqual([t["why"] for t in ready.tasks], ["misfit"] * 3)
        self.assertIn("apart  no-go (misfit)", str(ready))
        self.assertEqual(ready.misfit["channel"], "angle")

    def test_a_wrong_rehearsal_is_refused(self):
        kit = self.servo
        _, runs = self.watched(kit, {}, 1)
        session = kit.session(seed=1)
        for ask, (response, start) in zip(session, runs):
            if ask.kind == "rehearsal":
                break
            with self.assertRaisesRegex(pf.PreflightError, "probe: -1 was told"):
                session.tell(response, state=start, rehearsal=[0])
            session.tell(response, state=start)
        told, bad = len(session.history), response.copy()
        bad[1, 1] = np.nan
        for arguments, kind, text in (
                ({"rehearsal": [0]}, pf.PreflightError, "another was told"),
                ({"rehearsal": [2, 1, 0]}, pf.PreflightError, "another was told"),
                ({"rehearsal": []}, pf.PreflightError, "another was told"),
                ({"rehearsal": [.5]}, ValueError, "rehearsal"),
                ({"probe": 0}, pf.PreflightError, "a probe was told"),
                ({"probe": 0, "rehearsal": [0, 1, 2]}, ValueError, "either"),
                ({"response": response[:-1]}, ValueError, "shape"),
                ({"response": bad}, pf.PreflightError, "finite"),
                ({"state": None}, pf.PreflightError, "state"),
                ({"state": None, "nominal": response}, pf.PreflightError, "nominal and edges"),
                ({"state": None, "nominal": response, "edges": [response]}, ValueError, "edges"),
                ({"state": None, "nominal": response, "edges": [response] * 4, "free": response},
                 ValueError, "alone")):
            with self.assertRaisesRegex(kind, text):
                session.tell(**{"response": response, "state": start, **arguments})
            self.assertEqual((session.ask().tasks, len(session.history)), (ask.tasks, told))
        self.assertTrue(session.tell(response, state=start, rehearsal=ask.tasks).passed)
        self.assertEqual((session.stage, session.ask().tasks), (3, (2,)))  # no group has them all

    def test_what_is_not_rehearsed_is_go_if(self):
        kit = pf.Kit.calibrate("dc_servo", rehearse="none")
        ready = kit.check(fault={1: .35}, seed=2)
        self.assertEqual({(t["decision"], t["why"], t["rehearsed"]) for t in ready.tasks},
                         {("go-if", "not-rehearsed", "no")})
        self.assertFalse(ready.go)
        self.assertIn("no  go-if (not-rehearsed)", str(ready))
        self.assertEqual((ready.rehearsals, repr(ready)[:26]), (0, "<Readiness: 0 of 3 tasks g"))
        accepted = kit.check(fault={1: .35}, seed=2, accept=["not-rehearsed"])
        self.assertEqual((accepted.go, accepted.data), (True, ready.data))
        self.assertIn("go-if (not-rehearsed, accepted)", str(accepted))
        self.assertFalse(kit.check(fault={1: .35}, seed=2, accept="unseen-loss").go)
        with self.assertRaisesRegex(ValueError, "no condition; there are not-rehearsed and"):
            kit.check(accept=["rehearsed"])
        # a rehearsal that is given up: the group first, then each task alone
        session, skipped = self.servo.session(seed=2), []
        _, runs = self.watched(self.servo, {}, 2)
        for ask in session:
            if ask.kind == "rehearsal":
                skipped.append(ask.tasks)
                session.skip()
            else:
                response, start = runs.pop(0)
                session.tell(response, state=start)
        self.assertEqual(skipped, [(0, 1), (0,), (1,), (2,)])
        self.assertEqual({t["why"] for t in session.readiness().tasks}, {"not-rehearsed"})

    def test_skip_stage2_reset(self):
        session = pf.Session(self.kit)
        first = session.ask()
        session.skip()
        self.assertNotEqual(session.ask().probe.index, first.probe.index)
        session.stage2()
        with self.assertRaisesRegex(pf.PreflightError, "stage"):
            session.stage2()
        session.reset()
        self.assertEqual(session.ask().probe.index, first.probe.index)
        with self.assertRaisesRegex(RuntimeError, "neither told nor skipped"):
            list(session)

    def test_what_is_refused_when_kits_are_made(self):
        with self.assertRaisesRegex(pf.PreflightError, "episodes"):
            pf.Kit.calibrate("attitude", episode=3)
        with self.assertRaisesRegex(pf.PreflightError, "no plant is called"):
            pf.Kit.calibrate("altitude")
        with self.assertRaisesRegex(pf.PreflightError, "unknown"):
            pf.Kit.calibrate("attitude", method="magic")
        with self.assertRaises(pf.PreflightError):
            pf.Kit(bytes(self.kit)[:-1])
        with self.assertRaises(pf.PreflightError):
            pf.Kit(b"")
        with self.assertRaisesRegex(ValueError, "fault x=0.3"):
            self.kit.check(fault={"x": .3})
        with self.assertRaisesRegex(pf.PreflightError, "calibrated for plant attitude"):
            self.kit.check("battery")

    def test_a_probe_that_is_a_closed_loop(self):
        push = [[0, .25, 0]] * 4
        kit = pf.Kit.calibrate("cartpole", config={
            "probes": [{"name": "steady", "policy": "balance_right", "rows": 40,
                        "targets": "right"}],
            "tasks": [{"name": "right", "mechanisms": "right", "command": push}]},
            episodes=40, alarm_trials=100)
        probe = kit.probes[0]
        self.assertEqual((probe.policy, probe.command, probe.rows), ("balance_right", None, 40))
        ask = pf.Session(kit).ask()
        self.assertEqual(ask.policy, "balance_right")
        with self.assertRaisesRegex(AttributeError, "steady is the policy balance_right"):
            _ = ask.command
        ready = kit.check(fault={"right": .35}, seed=3).data
        self.assertGreater(ready["mechanisms"][0]["p_changed"], .9)

    def test_a_config_file_and_a_mapping(self):
        path = self.folder / "c.yaml"
        path.write_text("episodes: 40\nseed: 3\nalarm_trials: 200\n")
        by_file = pf.Kit.calibrate("attitude", config=path)
        by_map = pf.Kit.calibrate("attitude", config={"episodes": np.int64(40), "seed": 3},
                                  alarm_trials=200)
        self.assertEqual(bytes(by_file), bytes(self.kit))
        self.assertEqual(bytes(by_map), bytes(self.kit))


if __name__ == "__main__":
    unittest.main()
