#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A method of your own beside the paper's: which probe comes next.

    preflight bench run compact-plants --profile quick --method python:examples/own_method.py:Suspicion
    preflight bench table compact-plants --profile quick
"""


class Suspicion:
    """Probes the likeliest mechanism per charge, and one in five times any."""

    statistic = "matched"  # signed matched score; "norm": the length of the residual
    transport = True       # recovery starts from the transported severity, as in EG-MPT

    def choose(self, belief, probes):
        if self.rng.random() < 0.2:
            return self.rng.choice(probes)
        return max(probes, key=lambda p: sum(belief[j] for j in p.targets) / p.charge)
