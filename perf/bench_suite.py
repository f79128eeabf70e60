#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""The dc_servo part of compact-plants in NumPy, vectorised over trials: yardstick for `bench run`.

Two methods, EG-MPT and Bayes-Risk: channels, alarm thresholds, stage 1, one recovery probe,
certificate, returns; protocol sections 1 to 3, plants section 8. Runs the same with the program on
one thread, prints processor time per (trial, method) of both with all calibration, and how far the
results of the two are apart in standard errors of seed means. With --turns NumPy alone takes turns as
perf/bench.py asks for them.

Example: perf/bench_suite.py build/release/preflight
"""

import argparse
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

from player import play  # noqa: E402

METHODS = ("bayes-risk", "eg-mpt")
METRICS = ("detection", "compensation_error", "changed_task_return", "selective_return")
GAINS = (0.20, 0.50)
SEEDS, TRIALS, ALARM_TRIALS, EPISODES, BINS, MEMBERS = 5, 40, 2000, 60, 5, 8
G_CAL, SIGMA, HAZARD, ALARM_RATE = 0.35, 0.06, 0.01, 0.05
ALPHA, J_MIN, TEMPERATURE, PERIOD, M = 0.1, 0.85, 0.05, 5, 3
GRID = np.linspace(0.15, 0.95, 17)
REVEAL = np.array([0.25, 0.35, 0.40])
WEIGHT = REVEAL * np.array([1, 1.4, 2])
CHARGE = 0.08

# --- the plant

EMF = 7.68e-3 * 70
DRIVE = 0.90 * 0.69 * 70 * 7.68e-3 / 2.6
INERTIA = 4 * 0.9 * 70 * 70 * 4.6e-7 + 5.3e-5
DAMPING = (DRIVE * 4 * EMF + 4 * 0.015) / INERTIA
COULOMB = 0.012 / INERTIA
STEP, SUBSTEPS = 0.01 / 5, 5
SCALE = np.array([1.5e-3, 0.05])
PROBE_V, TASK_V, LIMIT_V = 1.0, 1.5, 6.0
ROWS, TASK_ROWS, ACTIVE = 8, 12, 8


def roll(start, volts, wind, rows):
    """Yields angle and speed after each control step; shapes broadcast, wind is rows first or 0."""
    shape = np.broadcast_shapes(start[0].shape, np.shape(volts), np.shape(wind)[1:])
    angle, speed = (np.broadcast_to(x, shape).copy() for x in start)
    for row in range(rows):
        push = (DRIVE / INERTIA) * volts if row < ACTIVE else 0.0
        if np.ndim(wind):
            push = push + wind[row] / INERTIA

        def rate(s):
            return push - DAMPING * s - COULOMB * np.tanh(s * 20)

        for _ in range(SUBSTEPS):
            k1 = rate(speed)
            s2 = speed + (0.5 * STEP) * k1
            k2 = rate(s2)
            s3 = speed + (0.5 * STEP) * k2
            k3 = rate(s3)
            s4 = speed + STEP * k3
            angle += (STEP / 6) * (speed + 2 * (s2 + s3) + s4)
            speed = speed + (STEP / 6) * (k1 + 2 * (k2 + k3) + rate(s4))
        yield angle.copy(), speed


def window(start, volts, wind=0.0):
    """Scaled outputs of a probe, rows and channels first."""
    return np.stack([np.stack((a / SCALE[0], s / SCALE[1]))
                     for a, s in roll(start, volts, wind, ROWS)])


def tracking_error(start, volts, wind, reference, energy):
    total = 0.0
    for (angle, speed), (a, s) in zip(roll(start, volts, wind, TASK_ROWS), reference):
        total = total + ((angle - a) / SCALE[0]) ** 2 + ((speed - s) / SCALE[1]) ** 2
    return total / energy


def draw_start(rng, n):
    return rng.uniform(-1, 1, n), 0.02 * rng.standard_normal(n)


def draw_wind(rng, rows, *shape):
    e = 0.004 * rng.standard_normal((rows, *shape))
    for k in range(1, rows):
        e[k] = 0.5 * e[k - 1] + np.sqrt(0.75) * e[k]
    return e


class Draws:
    """What is random in n physical responses, the same for whichever probe is chosen."""

    def __init__(self, rng, n):
        self.start = draw_start(rng, n)
        self.wind = draw_wind(rng, ROWS, n)
        self.noise = rng.standard_normal((ROWS, 2, n))

    def response(self, delivered, at):
        start = tuple(x[at] for x in self.start)
        clean = window(start, PROBE_V * delivered, self.wind[:, at])
        return start, clean + self.noise[:, :, at]


# --- what a response says

def look(draws, delivered, at):
    """Matched score, coefficient and norm of the responses of trials `at`."""
    start, response = draws.response(delivered, at)
    nominal = window(start, PROBE_V)
    signature = window(start, PROBE_V * G_CAL) - nominal
    residual = response - nominal
    energy = (signature * signature).sum(axis=(0, 1))
    product = (residual * signature).sum(axis=(0, 1))
    norm = np.sqrt((residual * residual).sum(axis=(0, 1)))
    return product / np.sqrt(energy), product / energy, norm


class Channel:
    """The rows of all probes. The three motors are alike and probes share draws, as in C."""

    def __init__(self, rng, matched):
        self.matched = matched
        looks = []
        for gain in (1.0, G_CAL):
            draws = Draws(rng, EPISODES)
            every = np.arange(EPISODES)
            # one motor after the other, as a suite with different motors must
            looks.append([look(draws, np.full(EPISODES, gain), every) for _ in range(M)])
        pick = 0 if matched else 2
        self.edges = np.empty((M, BINS - 1))
        self.p0, self.p1 = np.empty((M, BINS)), np.empty((M, BINS))
        self.m0, self.m1 = np.empty(M), np.empty(M)
        for q in range(M):
            nominal, changed = looks[0][q][pick], looks[1][q][pick]
            pooled = np.concatenate((nominal, changed))
            self.edges[q] = np.quantile(pooled, np.arange(1, BINS) / BINS)
            for row, scores in ((self.p0, nominal), (self.p1, changed)):
                count = np.bincount(np.searchsorted(self.edges[q], scores), minlength=BINS)
                row[q] = (count + 1) / (EPISODES + BINS)
            self.m0[q] = np.median(looks[0][q][1])
            self.m1[q] = np.median(looks[1][q][1])
        self.ratio = self.p1 / self.p0
        self.open = self.p1 > self.p0


# --- stage 1, all trials side by side

EXPECTED = (1 - GRID) / (1 - G_CAL)
LEAK = 1 - (1 - HAZARD) ** PERIOD


class Session:
    def __init__(self, channel, n):
        self.channel = channel
        self.belief = np.zeros((n, M + 1))
        self.belief[:, 0] = 1
        self.severity = np.full((n, M, GRID.size), 1 / GRID.size)

    def choose(self, at):
        c = self.channel
        leak = LEAK * self.belief[at, 0]
        self.belief[at, 0] -= leak
        self.belief[at, 1:] += leak[:, None] / M
        b = self.belief[at, 1:]
        own, square = WEIGHT * b * (1 - b), WEIGHT * b * b
        others = (square.sum(axis=1, keepdims=True) - square) * b
        total = c.p0 + (c.p1 - c.p0) * b[:, :, None]
        gain = (c.p1 - c.p0) * others[:, :, None] + c.p1 * own[:, :, None]
        value = own - (c.p0 * gain / total).sum(axis=2)
        return np.argmax(np.rint(value / CHARGE * 1e12), axis=1)

    def tell(self, at, probe, draws, delivered):
        """Updates trials `at`; returns P(something changed)."""
        c = self.channel
        score, coefficient, norm = look(draws, delivered, at)
        statistic = score if c.matched else norm
        category = (c.edges[probe] < statistic[:, None]).sum(axis=1)
        self.belief[at, probe + 1] *= c.ratio[probe, category]
        self.belief[at] /= self.belief[at].sum(axis=1, keepdims=True)
        if c.matched:
            z = (coefficient - c.m0[probe]) / (c.m1[probe] - c.m0[probe])
            admit = c.open[probe, category]
            rows, which = at[admit], probe[admit]
            away = (z[admit, None] - EXPECTED) / SIGMA
            with np.errstate(divide="ignore"):
                log = np.log(self.severity[rows, which]) - 0.5 * away * away
            phi = np.exp(log - log.max(axis=1, keepdims=True))
            self.severity[rows, which] = phi / phi.sum(axis=1, keepdims=True)
        return self.belief[at, 1:].sum(axis=1)


def draw_reveal(rng, n):
    return rng.integers(35, 46, n)


def threshold(channel, draws, reveal):
    """The smallest value that at most 5 % of the running maxima of nominal trials exceed."""
    n = reveal.size
    session, peak = Session(channel, n), np.zeros(n)
    for k, draw in enumerate(draws):
        at = np.flatnonzero(PERIOD * (k + 1) < reveal)
        probe = session.choose(at)
        change = session.tell(at, probe, draw, np.ones(at.size))
        peak[at] = np.maximum(peak[at], change)
    return np.sort(peak)[n - 1 - int(ALARM_RATE * n)]


# --- trials of one seed, all gains at once

class Law:
    """The draws of a seed's trials, shared by gains (repeated) and methods."""

    def __init__(self, rng):
        copies = len(GAINS)
        def again(x):
            return np.tile(x, copies)
        mechanism = rng.integers(1, M + 1, TRIALS)
        mechanism[rng.permutation(TRIALS)[: TRIALS // 5]] = 0
        self.mechanism = again(mechanism)
        self.tau, self.reveal = again(rng.integers(10, 21, TRIALS)), again(draw_reveal(rng, TRIALS))
        self.gain = np.repeat(GAINS, TRIALS)
        self.n = self.gain.size
        self.draws = [self.tiled(rng) for _ in range(8)]
        self.recovery = self.tiled(rng)
        self.start = tuple(again(x) for x in draw_start(rng, TRIALS))
        self.wind = np.tile(draw_wind(rng, TASK_ROWS, TRIALS), (1, copies))
        self.members = np.tile(draw_wind(rng, TASK_ROWS, MEMBERS, 1, TRIALS), (1, 1, 1, copies))

    @staticmethod
    def tiled(rng):
        draws, copies = Draws(rng, TRIALS), len(GAINS)
        draws.start = tuple(np.tile(x, copies) for x in draws.start)
        draws.wind = np.tile(draws.wind, (1, copies))
        draws.noise = np.tile(draws.noise, (1, 1, copies))
        return draws

    def delivered(self, at, probe, rounds):
        """Gain of the probed motor of trials `at` in a round."""
        hit = (self.mechanism[at] == probe + 1) & (rounds >= self.tau[at])
        return np.where(hit, self.gain[at], 1.0)


def moments(joint, j):
    """E[G] and E[G^2] of candidate j from masses n x M x grid; everywhere else G is 1."""
    mass = joint[:, j]
    rest = 1 - mass.sum(axis=1)
    return mass @ GRID + rest, mass @ (GRID * GRID) + rest


def recover(law, joint, at, alarm):
    """One recovery probe for the trials that raised an alarm."""
    value = np.empty((at.size, M))
    for j in range(M):
        first, second = moments(joint[at], j)
        value[:, j] = WEIGHT[j] * (1 - first * first / second) / CHARGE
    probe = np.argmax(np.rint(value * 1e12), axis=1)
    delivered = law.delivered(at, probe, alarm[at])
    start, response = law.recovery.response(delivered, at)
    # rows x channels x (grid, 1) x trials
    gains = np.append(GRID, 1.0)[:, None]
    predicted = window(start, PROBE_V * gains)
    d = ((response[:, :, None] - predicted) ** 2).mean(axis=(0, 1))
    spread = np.maximum(TEMPERATURE * d.std(axis=0), 1e-12)
    d = ((d - d.min(axis=0)) / (2 * spread)).T
    cost = np.repeat(np.repeat(d[:, -1:, None], M, axis=1), GRID.size, axis=2)
    cost[np.arange(at.size), probe] = d[:, :-1]
    nominal = 1 - joint[at].sum(axis=(1, 2))
    with np.errstate(divide="ignore"):
        log = np.log(joint[at]) - cost
        log_nominal = np.log(np.maximum(nominal, 0)) - d[:, -1]
    most = np.maximum(log.max(axis=(1, 2)), log_nominal)
    mass, none = np.exp(log - most[:, None, None]), np.exp(log_nominal - most)
    joint[at] = mass / (mass.sum(axis=(1, 2)) + none)[:, None, None]


def deploy(law, joint):
    """Selective and changed-task return of what is deployed."""
    reference = list(roll(law.start, TASK_V, 0.0, TASK_ROWS))
    energy = tracking_error(law.start, 0.0, 0.0, reference, 1.0)
    selective, changed_return = np.zeros(law.n), np.ones(law.n)
    for j in range(M):
        first, second = moments(joint, j)
        share = np.minimum(first / second * TASK_V, LIMIT_V) / TASK_V
        # members x (grid, 1) x trials
        gains = np.append(GRID, 1.0)[:, None]
        nte = tracking_error(law.start, TASK_V * gains * share, law.members, reference, energy)
        returns = np.exp(-np.minimum(nte, 10))
        mass = joint[:, j].T
        p = np.concatenate((mass, np.maximum(0, 1 - mass.sum(axis=0))[None]))
        mean = (p * returns).sum(axis=(0, 1)) / MEMBERS
        variance = (p * (returns - mean) ** 2).sum(axis=(0, 1)) / MEMBERS
        go = mean - np.sqrt((1 - ALPHA) / ALPHA * variance) >= J_MIN
        changed = law.mechanism == j + 1
        volts = TASK_V * np.where(go, share, 1) * np.where(changed, law.gain, 1)
        nte = tracking_error(law.start, volts, law.wind, reference, energy)
        realised = np.exp(-np.minimum(nte, 10))
        selective += REVEAL[j] * realised
        changed_return = np.where(changed, realised, changed_return)
    return selective, changed_return


def run_trials(law, channel, limit):
    """Metrics of one method on all trials, by gain: {metric: array of len(GAINS)}."""
    session = Session(channel, law.n)
    alarm = np.zeros(law.n, dtype=int)
    for k, draw in enumerate(law.draws):
        rounds = PERIOD * (k + 1)
        at = np.flatnonzero((rounds < law.reveal) & (alarm == 0))
        if at.size == 0:
            break
        probe = session.choose(at)
        change = session.tell(at, probe, draw, law.delivered(at, probe, rounds))
        alarm[at[change > limit]] = rounds
    broad = np.full_like(session.severity, 1 / GRID.size)
    severity = session.severity if channel.matched else broad
    joint = session.belief[:, 1:, None] * severity
    raised = np.flatnonzero(alarm)
    if raised.size:
        recover(law, joint, raised, alarm)
    selective, changed_return = deploy(law, joint)
    error = np.full(law.n, np.nan)
    for j in range(M):
        first, second = moments(joint, j)
        hit = law.mechanism == j + 1
        error[hit] = np.abs(first / second * law.gain - 1)[hit]
    detected = np.where(law.mechanism > 0, alarm >= law.tau, np.nan)
    values = (detected, error, changed_return, selective)
    return {name: np.nanmean(x.reshape(len(GAINS), TRIALS), axis=1)
            for name, x in zip(METRICS, values)}


def run_seed(seed):
    rng = np.random.default_rng([20, seed])
    state = rng.bit_generator.state
    channels = []
    for method in METHODS:
        rng.bit_generator.state = state  # both statistics from the same episodes
        channels.append(Channel(rng, method == "eg-mpt"))
    draws = [Draws(rng, ALARM_TRIALS) for _ in range(8)]
    reveal = draw_reveal(rng, ALARM_TRIALS)
    limits = [threshold(c, draws, reveal) for c in channels]
    law = Law(rng)
    return [run_trials(law, c, limit) for c, limit in zip(channels, limits)]


def run_numpy(seeds):
    """Processor seconds, and {(metric, method, gain): one mean per seed}."""
    begin = time.process_time()
    results = [run_seed(seed) for seed in range(seeds)]
    seconds = time.process_time() - begin
    return seconds, {(metric, method, gain): np.array([r[m][metric][g] for r in results])
                     for metric in METRICS for m, method in enumerate(METHODS)
                     for g, gain in enumerate(GAINS)}


# --- the program

def run_program(program, seeds, folder, methods):
    """Processor seconds and the database of the same trials by `preflight bench run`.

    A suite of this plant alone: with --only every claim would also walk over the others' units.
    """
    database = pathlib.Path(folder) / f"{len(methods) or 'all'}.db"
    command = [program, "bench", "run", "compact-plants", "--profile", "paper", "--threads", "1",
               "--set", "environments=[dc_servo]", "--set", f"seeds={seeds}", "--db", database]
    if methods:
        command += ["--set", f"methods=[{','.join(methods)}]"]
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"bench_suite.py: {program} bench run failed with status {child.returncode}")
    return usage.ru_utime + usage.ru_stime, database


def seed_means(database):
    """{(metric, method, gain): one mean per seed} of what is in the database."""
    means = {}
    connection = sqlite3.connect(database)
    for metric in METRICS:
        rows = connection.execute(
            f"SELECT method, setting, seed, avg({metric}) FROM result JOIN unit ON unit.id = unit"
            " GROUP BY method, setting, seed ORDER BY seed")
        for method, setting, _, mean in rows:
            gain = float(dict(x.split("=") for x in setting.split(";"))["g"])
            means.setdefault((metric, method, gain), []).append(mean)
    connection.close()
    return {key: np.array(x) for key, x in means.items()}


def compare(ours, theirs, show):
    """The largest difference of two means in standard errors."""
    worst = 0.0
    for key, a in ours.items():
        b = theirs[key]
        error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / a.size + 1e-6)
        away = abs(a.mean() - b.mean()) / error
        worst = max(worst, away)
        if show:
            print(f"{key[0]:20} {key[1]:10} g {key[2]:.2f}  NumPy {a.mean():.3f}  C {b.mean():.3f}"
                  f"  {away:.1f} se", file=sys.stderr)
    return worst


def numpy_turn(seeds):
    """All trials of so many seeds, calibration included, whatever it takes."""
    begin = time.perf_counter()
    seconds, _ = run_numpy(seeds)
    return seeds * TRIALS * len(GAINS) * len(METHODS), seconds, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--show", action="store_true", help="both results on standard error")
    parser.add_argument("--turns", action="store_true")
    arguments = parser.parse_args()
    seeds, program = arguments.seeds, arguments.program.resolve()
    trials = seeds * TRIALS * len(GAINS)
    if arguments.turns:
        run_seed(1000)  # warm up
        play(lambda _: numpy_turn(seeds))
        return
    with tempfile.TemporaryDirectory() as folder:
        all_methods, database = run_program(program, seeds, folder, ())
        connection = sqlite3.connect(database)
        results = connection.execute("SELECT count(*) FROM result").fetchone()[0]
        connection.close()
        two_methods, database = run_program(program, seeds, folder, METHODS)
        theirs = seed_means(database)
    run_seed(1000)  # warm up
    numpy_seconds, ours = run_numpy(seeds)
    print(f"suite_numpy_2_methods,{1e3 * numpy_seconds / trials / len(METHODS):.6g},ms")
    print(f"suite_program_2_methods,{1e3 * two_methods / trials / len(METHODS):.6g},ms")
    print(f"suite_program_all_methods,{1e3 * all_methods / results:.6g},ms")
    print(f"suite_difference,{compare(ours, theirs, arguments.show):.6g},se")


if __name__ == "__main__":
    main()
