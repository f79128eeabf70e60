#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""A Cessna 172 of JSBSim, trimmed in level flight. Commands are deviations from that trim. The engine is
what today's flight uses; aileron, elevator, rudder and flaps may have lost authority unnoticed.

    pip install . jsbsim
    preflight doctor "exec:python3 -m preflight.worker examples/jsbsim_plant.py:Cessna"
"""
import jsbsim
import numpy as np

import preflight

STEP, SKIP = 1 / 60, 6  # seconds of a step of JSBSim; its steps in a control step
MECHANISMS = {"throttle": (-0.3, 0.3), "aileron": (-1, 1), "elevator": (-0.5, 0.5), "rudder": (-1, 1),
              "flap": (0, 1)}
CHANNELS = {"roll_rate": "velocities/p-rad_sec", "pitch_rate": "velocities/q-rad_sec",
            "yaw_rate": "velocities/r-rad_sec", "roll": "attitude/phi-rad", "pitch": "attitude/theta-rad",
            "airspeed": "velocities/vc-kts"}
NOISE = np.array([0.005, 0.005, 0.005, 0.003, 0.003, 0.5])  # of its sensors, standard deviations


class Cessna(preflight.Plant):
    name, version, dt = "cessna", jsbsim.__version__, SKIP * STEP
    mechanisms = [preflight.Mechanism(name, *limits) for name, limits in MECHANISMS.items()]
    channels = [preflight.Channel(name) for name in CHANNELS]

    def __init__(self):
        self.sim = jsbsim.FGFDMExec(None)
        self.sim.set_debug_level(0)
        self.sim.load_model("c172p")
        self.sim.set_dt(STEP)

    def reset(self, seed, noise):
        self.rng = np.random.default_rng(seed)
        sim = self.sim
        sim.reset_to_initial_conditions(1)  # else the last trajectory shows in the next one, by 2e-6
        sim["ic/h-sl-ft"] = 4000 + 20 * self.rng.uniform(-1, 1)
        sim["ic/vc-kts"] = 100 + self.rng.uniform(-1, 1)
        sim["ic/phi-deg"] = sim["ic/gamma-deg"] = sim["ic/beta-deg"] = 0
        for name in MECHANISMS:
            sim[f"fcs/{name}-cmd-norm"] = 0
        sim["fcs/mixture-cmd-norm"] = 0.87
        sim["propulsion/set-running"] = -1
        sim.run_ic()
        sim.do_trim(1)  # raises where there is none
        self.trim = np.array([sim[f"fcs/{name}-cmd-norm"] for name in MECHANISMS])
        self.noise = NOISE if noise else 0 * NOISE

    def step(self, delivered):
        for name, trim, more in zip(MECHANISMS, self.trim, delivered):
            self.sim[f"fcs/{name}-cmd-norm"] = trim + more
        for _ in range(SKIP):
            self.sim.run()

    def observe(self):
        return np.array([self.sim[name] for name in CHANNELS.values()]) + self.noise * self.rng.normal(size=6)
