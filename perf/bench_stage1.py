#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""One stage-1 opportunity in NumPy: the yardstick for bench_stage1.c.

Reads a problem that `bench_stage1 turns` wrote, checks that the vectorised implementation, a
slow loop and the C session choose the same probes and end with the same belief and severity, then
takes turns as perf/bench.py asks for them.

Usage: bench_stage1.py terms|posteriors|groups PROBLEM
"""

import math
import sys

import numpy as np

from player import play, timed


class Problem:
    def __init__(self, path):
        data = np.fromfile(path, dtype=np.float64)
        head = [int(x) for x in data[:9]]
        self.m, probes, targets, rows, chan, bins, grid, variants, self.round = head
        self.hazard, self.g_cal = float(data[9]), float(data[10])
        self.at, self.data = 11, data
        m, window = self.m, (rows, chan)
        # the targets of probe q are first[q] to first[q + 1], their mechanisms from 1
        self.first = self.take(probes + 1).astype(int).tolist()
        self.mechanism = self.take(targets).astype(int)
        self.scale = self.take(chan)
        self.grid = self.take(grid)
        self.prior = self.take(m + 1)
        self.weight = self.take(m)
        self.charge = self.take(probes)
        self.edges = self.take(targets, bins - 1)
        self.p0 = self.take(targets, bins)
        self.p1 = self.take(targets, bins)
        self.m0 = self.take(targets)
        self.m1 = self.take(targets)
        self.sigma = self.take(targets)
        self.nominal = self.take(probes, *window)
        self.changed = self.take(targets, *window)
        self.response = self.take(probes, variants, *window)
        self.variants = variants
        # per probe: the one window of a pulse, or the windows of all targets
        self.changed_of = [
            self.changed[a] if b == a + 1 else self.changed[a:b]
            for a, b in zip(self.first, self.first[1:])
        ]
        # what the C session made of it
        self.c_probes = self.take(self.round + 1).astype(int).tolist()
        self.c_belief = self.take(m + 1)
        self.c_severity = self.take(m, grid)
        assert self.at == data.size

    def take(self, *shape):
        n = math.prod(shape)
        part = self.data[self.at : self.at + n].reshape(shape).copy()
        self.at += n
        return part


class Vectorised:
    """Everything a session with one pulse per candidate does per opportunity, as whole-array
    operations."""

    def __init__(self, problem, tensor=False):
        p = self.p = problem
        self.expected = (1 - p.grid) / (1 - p.g_cal)
        # fixed by the kit, so computed once
        self.ratio = p.p1 / p.p0
        self.log_ratio = np.log(self.ratio)
        self.difference = p.p1 - p.p0
        # p(c | i) for every target, category and hypothesis
        self.likelihood = np.repeat(p.p0[:, :, None], p.m + 1, axis=2)
        for t, mechanism in enumerate(p.mechanism):
            self.likelihood[t, :, mechanism] = p.p1[t]
        self.value = self.value_tensor if tensor else self.value_terms

    def reset(self):
        p = self.p
        self.belief = p.prior.copy()
        self.severity = np.full((p.m, p.grid.size), 1 / p.grid.size)
        self.evidence = np.zeros(p.m)
        self.count = np.zeros(p.m, dtype=int)
        self.peak = 0.0

    def ask(self):
        p, b = self.p, self.belief
        leak = p.hazard * b[0]
        b[0] -= leak
        b[1:] += leak / p.m
        return int(np.argmax(np.rint(self.value(b) / p.charge * 1e12)))

    def value_terms(self, b):
        """Expected reduction of the task-weighted risk, O(bins) per probe."""
        p = self.p
        bj = b[1:]
        weighted = p.weight * bj
        own = weighted * (1 - bj)
        square = weighted * bj
        others = (square.sum() - square) * bj
        total = p.p0 + self.difference * bj[:, None]
        gain = self.difference * others[:, None] + p.p1 * own[:, None]
        return own - (p.p0 * gain / total).sum(axis=1)

    def value_tensor(self, b):
        """The same by posteriors of every probe, category and hypothesis, as in the paper."""
        p = self.p
        joint = self.likelihood * b
        total = joint.sum(axis=2)
        posterior = joint[:, :, 1:] / total[:, :, None]
        after = ((posterior * (1 - posterior)) @ p.weight * total).sum(axis=1)
        bj = b[1:]
        return (p.weight * bj * (1 - bj)).sum() - after

    def tell(self, q, response, nominal, changed):
        p = self.p
        for x in (response, nominal, changed):
            if not np.isfinite(x).all():
                raise ValueError("not finite")
        residual = ((response - nominal) / p.scale).ravel()
        signature = ((changed - nominal) / p.scale).ravel()
        energy = signature @ signature
        product = residual @ signature
        score = product / math.sqrt(energy)
        z = (product / energy - p.m0[q]) / (p.m1[q] - p.m0[q])
        category = np.searchsorted(p.edges[q], score)
        belief = self.belief
        belief[q + 1] *= self.ratio[q, category]
        belief /= belief.sum()
        self.evidence[q] = max(0, self.evidence[q] + self.log_ratio[q, category])
        self.count[q] += 1
        if self.difference[q, category] > 0:
            away = (z - self.expected) / p.sigma[q]
            severity = self.severity[q]
            with_prior = np.log(severity) - 0.5 * away * away
            severity[:] = np.exp(with_prior - with_prior.max())
            severity /= severity.sum()
        self.peak = max(self.peak, belief[1:].sum())


class Groups(Vectorised):
    """The same where a probe has several targets: scores from the Gram matrix of their signatures,
    and the values of a probe's targets added."""

    def __init__(self, problem):
        super().__init__(problem)
        p = problem
        self.starts = np.array(p.first[:-1])
        self.candidate = p.mechanism - 1
        self.rows = [np.arange(a, b) for a, b in zip(p.first, p.first[1:])]
        self.columns = [p.mechanism[rows] for rows in self.rows]

    def value_terms(self, b):
        p = self.p
        weighted = p.weight * b[1:]
        square = weighted * b[1:]
        others = square.sum() - square
        at = self.candidate
        bj = b[1:][at]
        own = (weighted * (1 - b[1:]))[at]
        total = p.p0 + self.difference * bj[:, None]
        gain = self.difference * (others[at] * bj)[:, None] + p.p1 * own[:, None]
        return np.add.reduceat(own - (p.p0 * gain / total).sum(axis=1), self.starts)

    def match(self, response, nominal, changed):
        """Score and least-squares coefficient of every target, and which are usable."""
        p = self.p
        residual = ((response - nominal) / p.scale).ravel()
        signatures = ((changed - nominal) / p.scale).reshape(len(changed), -1)
        gram = signatures @ signatures.T
        norm = np.sqrt(gram.diagonal())
        inverse = np.linalg.inv(gram / norm / norm[:, None])
        remaining = 1 / np.sqrt(inverse.diagonal())
        solution = inverse @ (signatures @ residual / norm)
        return solution * remaining, solution / norm, remaining >= 0.01

    def tell(self, q, response, nominal, changed):
        p, rows, columns = self.p, self.rows[q], self.columns[q]
        for x in (response, nominal, changed):
            if not np.isfinite(x).all():
                raise ValueError("not finite")
        score, coefficient, usable = self.match(response, nominal, changed)
        if not usable.all():
            rows, columns = rows[usable], columns[usable]
            score, coefficient = score[usable], coefficient[usable]
        category = (p.edges[rows] < score[:, None]).sum(axis=1)
        belief, at = self.belief, columns - 1
        belief[columns] *= self.ratio[rows, category]
        belief /= belief.sum()
        self.evidence[at] = np.maximum(0, self.evidence[at] + self.log_ratio[rows, category])
        self.count[at] += 1
        gate = self.difference[rows, category] > 0
        if gate.any():
            rows, at = rows[gate], at[gate]
            z = (coefficient[gate] - p.m0[rows]) / (p.m1[rows] - p.m0[rows])
            away = (z[:, None] - self.expected) / p.sigma[rows, None]
            with_prior = np.log(self.severity[at]) - 0.5 * away * away
            severity = np.exp(with_prior - with_prior.max(axis=1, keepdims=True))
            self.severity[at] = severity / severity.sum(axis=1, keepdims=True)
        self.peak = max(self.peak, belief[1:].sum())


class Loop:
    """The same, one number at a time, written from the equations; projections by least squares."""

    def __init__(self, problem):
        self.p = problem

    def reset(self):
        p = self.p
        self.belief = p.prior.tolist()
        n = p.grid.size
        self.severity = [[1 / n] * n for _ in range(p.m)]

    def risk(self, b):
        return sum(w * x * (1 - x) for w, x in zip(self.p.weight, b[1:]))

    def ask(self):
        p, b = self.p, self.belief
        leak = p.hazard * b[0]
        self.belief = b = [b[0] - leak] + [x + leak / p.m for x in b[1:]]
        best, best_value = -1, -math.inf
        for q, charge in enumerate(p.charge):
            value = sum(self.reduction(b, t) for t in range(p.first[q], p.first[q + 1]))
            value = round(value / charge, 12)
            if value > best_value:
                best, best_value = q, value
        return best

    def reduction(self, b, t):
        """Expected reduction of the risk by a look at target t."""
        p, after = self.p, 0
        for c in range(p.p0.shape[1]):
            joint = [
                x * (p.p1 if i == p.mechanism[t] else p.p0)[t, c] for i, x in enumerate(b)
            ]
            total = sum(joint)
            after += total * self.risk([x / total for x in joint])
        return self.risk(b) - after

    def tell(self, q, response, nominal, changed):
        p = self.p
        scaled = [
            [(x - y) / s for x, y, s in zip(one.flat, nominal.flat, np.tile(p.scale, len(nominal)))]
            for one in (response, *changed.reshape(-1, *nominal.shape))
        ]
        residual, signatures = scaled[0], scaled[1:]
        for k, t in enumerate(range(p.first[q], p.first[q + 1])):
            self.learn(t, residual, signatures[k], free_of(signatures, k))
        total = sum(self.belief)
        self.belief = [x / total for x in self.belief]

    def learn(self, t, residual, signature, freed):
        """What target t says, by its signature freed of the others'."""
        p, j = self.p, self.p.mechanism[t]
        product = sum(x * y for x, y in zip(residual, freed))
        size = math.sqrt(sum(x * x for x in freed))
        if size < 0.01 * math.sqrt(sum(x * x for x in signature)):
            return
        category = sum(edge < product / size for edge in p.edges[t])
        coefficient = product / sum(x * y for x, y in zip(freed, signature))
        z = (coefficient - p.m0[t]) / (p.m1[t] - p.m0[t])
        p0, p1 = p.p0[t, category], p.p1[t, category]
        self.belief[j] *= p1 / p0
        if p1 > p0:
            phi = [
                x * math.exp(-0.5 * ((z - (1 - g) / (1 - p.g_cal)) / p.sigma[t]) ** 2)
                for x, g in zip(self.severity[j - 1], p.grid)
            ]
            self.severity[j - 1] = [x / sum(phi) for x in phi]


def free_of(signatures, k):
    """Signature k minus its least-squares projection on the others."""
    signature = signatures[k]
    if len(signatures) == 1:
        return signature
    columns = np.array(signatures[:k] + signatures[k + 1 :]).T
    return signature - columns @ np.linalg.lstsq(columns, np.array(signature), rcond=None)[0]


def run_round(problem, session, probes=None):
    """Opportunities of a round; probes (if a list) receives what was asked for."""
    session.reset()
    changed = problem.changed_of
    q = session.ask()
    if probes is not None:
        probes.append(q)
    for t in range(problem.round):
        response = problem.response[q, t % problem.variants]
        session.tell(q, response, problem.nominal[q], changed[q])
        q = session.ask()
        if probes is not None:
            probes.append(q)
    return problem.round


def check(problem, session, name):
    probes = []
    run_round(problem, session, probes)
    if probes != problem.c_probes:
        sys.exit(f"bench_stage1.py: {name} and C choose different probes")
    for what, have, want in (
        ("belief", session.belief, problem.c_belief),
        ("severity", session.severity, problem.c_severity),
    ):
        if not np.allclose(have, want, rtol=1e-9, atol=1e-12):
            sys.exit(f"bench_stage1.py: {name} and C have different {what}")


def main():
    ways = {"terms": Vectorised, "posteriors": lambda p: Vectorised(p, tensor=True), "groups": Groups}
    if len(sys.argv) != 3 or sys.argv[1] not in ways:
        sys.exit("usage: bench_stage1.py terms|posteriors|groups PROBLEM")
    problem = Problem(sys.argv[2])
    np.seterr(divide="ignore")  # log of a severity that has become 0
    session = ways[sys.argv[1]](problem)
    check(problem, Loop(problem), "the loop")
    check(problem, session, "NumPy")
    play(timed(lambda: run_round(problem, session)))


if __name__ == "__main__":
    main()
