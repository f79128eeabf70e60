# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A plant in Python that is quick to calibrate, for the tests of saved kits and of the wheel."""

import numpy as np
import preflight as pf


class Tank(pf.Plant):
    name, dt = "tank", 1.0
    mechanisms = [pf.Mechanism(n, 0, 1) for n in ("feed", "heater", "cooler")]
    channels = [pf.Channel("level", scale=0.5), pf.Channel("temperature", scale=2.0)]

    def reset(self, seed, noise):
        self.rng = np.random.default_rng(seed)
        self.x = np.array([1.0, 20.0]) + self.rng.normal(0, 0.05, 2)
        self.noise = 0.02 if noise else 0.0

    def step(self, delivered):
        feed, heat, cool = delivered
        self.x += [0.1 * feed - 0.02 * self.x[0], 2 * heat - 1.5 * cool - 0.05 * (self.x[1] - 20)]

    def observe(self):
        return self.x + self.noise * self.rng.normal(size=2)
