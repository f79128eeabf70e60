#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""One stage-1 opportunity in NumPy: the yardstick for bench_stage1.c.

Reads the problem that `bench_stage1 FILE` wrote, checks that the vectorised implementation, a slow
loop and the C session choose the same probes and end with the same belief and severity, then
prints the time per opportunity in the same way as the C program.
"""

import math
import sys
import time

import numpy as np

ROUNDS_SECONDS = 1.5


class Problem:
    def __init__(self, path):
        data = np.fromfile(path, dtype=np.float64)
        head = [int(x) for x in data[:7]]
        self.m, rows, chan, bins, grid, variants, self.round = head
        self.hazard, self.g_cal = float(data[7]), float(data[8])
        self.at, self.data = 9, data
        m, window = self.m, (rows, chan)
        self.scale = self.take(chan)
        self.grid = self.take(grid)
        self.prior = self.take(m + 1)
        self.weight = self.take(m)
        self.charge = self.take(m)
        self.edges = self.take(m, bins - 1)
        self.p0 = self.take(m, bins)
        self.p1 = self.take(m, bins)
        self.m0 = self.take(m)
        self.m1 = self.take(m)
        self.sigma = self.take(m)
        self.nominal = self.take(m, *window)
        self.changed = self.take(m, *window)
        self.response = self.take(m, variants, *window)
        self.variants = variants
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
    """Everything a session does per opportunity, as whole-array operations."""

    def __init__(self, problem, tensor=False):
        p = self.p = problem
        self.expected = (1 - p.grid) / (1 - p.g_cal)
        # fixed by the kit, so computed once
        self.ratio = p.p1 / p.p0
        self.log_ratio = np.log(self.ratio)
        self.difference = p.p1 - p.p0
        # p(c | i) for every probe, category and hypothesis
        self.likelihood = np.repeat(p.p0[:, :, None], p.m + 1, axis=2)
        for j in range(p.m):
            self.likelihood[j, :, j + 1] = p.p1[j]
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


class Loop:
    """The same, one number at a time, written from the equations."""

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
        for q in range(p.m):
            after = 0
            for c in range(p.p0.shape[1]):
                joint = [x * (p.p1 if i == q + 1 else p.p0)[q, c] for i, x in enumerate(b)]
                total = sum(joint)
                after += total * self.risk([x / total for x in joint])
            value = round((self.risk(b) - after) / p.charge[q], 12)
            if value > best_value:
                best, best_value = q, value
        return best

    def tell(self, q, response, nominal, changed):
        p, product, energy = self.p, 0, 0
        for r in range(response.shape[0]):
            for c in range(response.shape[1]):
                residual = (response[r, c] - nominal[r, c]) / p.scale[c]
                signature = (changed[r, c] - nominal[r, c]) / p.scale[c]
                product += residual * signature
                energy += signature * signature
        score = product / math.sqrt(energy)
        category = sum(edge < score for edge in p.edges[q])
        z = (product / energy - p.m0[q]) / (p.m1[q] - p.m0[q])
        p0, p1 = p.p0[q, category], p.p1[q, category]
        self.belief[q + 1] *= p1 / p0
        total = sum(self.belief)
        self.belief = [x / total for x in self.belief]
        if p1 > p0:
            phi = [
                x * math.exp(-0.5 * ((z - (1 - g) / (1 - p.g_cal)) / p.sigma[q]) ** 2)
                for x, g in zip(self.severity[q], p.grid)
            ]
            self.severity[q] = [x / sum(phi) for x in phi]


def run_round(problem, session, probes=None):
    """Seconds per opportunity; probes (if a list) receives what was asked for."""
    session.reset()
    q = session.ask()
    if probes is not None:
        probes.append(q)
    begin = time.perf_counter()
    for t in range(problem.round):
        response = problem.response[q, t % problem.variants]
        session.tell(q, response, problem.nominal[q], problem.changed[q])
        q = session.ask()
        if probes is not None:
            probes.append(q)
    return (time.perf_counter() - begin) / problem.round


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


def measure(problem, session):
    """The minimum over rounds, after a warm-up."""
    begin, best = time.perf_counter(), math.inf
    while time.perf_counter() - begin < 0.25 * ROUNDS_SECONDS:
        run_round(problem, session)
    begin = time.perf_counter()
    while time.perf_counter() - begin < ROUNDS_SECONDS:
        best = min(best, run_round(problem, session))
    return best


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench_stage1.py PROBLEM")
    problem = Problem(sys.argv[1])
    np.seterr(divide="ignore")  # log of a severity that has become 0
    terms, tensor = Vectorised(problem), Vectorised(problem, tensor=True)
    check(problem, Loop(problem), "the loop")
    check(problem, terms, "NumPy")
    check(problem, tensor, "NumPy with posteriors")
    print(f"numpy_opportunity_16_candidates,{1e9 * measure(problem, terms):.6g},ns")
    print(f"numpy_opportunity_16_candidates_posteriors,{1e9 * measure(problem, tensor):.6g},ns")
    print(f"numpy_version,{np.__version__},")


if __name__ == "__main__":
    main()
