#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""KUKA's iiwa in PyBullet. The machine's own controller holds a pose and carries the weight. Commands are
torques on top of that, which a weak drive delivers a share of. Its gears have dry friction.

    pip install . pybullet
    preflight doctor "exec:python3 -m preflight.worker examples/pybullet_plant.py:Iiwa"
"""
import numpy as np
import pybullet
import pybullet_data

import preflight

STEP, SKIP = 1 / 240, 12  # seconds of a step of PyBullet; its steps in a control step
HOME = np.array([0, 0.6, 0, -1.2, 0, 0.9, 0])
LIMIT = np.array([60, 60, 40, 40, 12, 12, 1.0])  # of a command, N m
FRICTION = 0.03 * LIMIT  # of the gears
FREQUENCY = 6.0  # of the controller, rad/s
N = len(HOME)


class Iiwa(preflight.Plant):
    name, version, dt = "iiwa", str(pybullet.getAPIVersion()), SKIP * STEP
    mechanisms = [preflight.Mechanism("none", 0, 0)]  # every drive is a candidate
    mechanisms += [preflight.Mechanism(f"a{i + 1}", -most, most) for i, most in enumerate(LIMIT)]
    channels = [preflight.Channel(f"q{i + 1}") for i in range(N)] + [preflight.Channel(f"v{i + 1}") for i in range(N)]
    calm = True  # PyBullet draws nothing: the kit needs sensor_noise

    def __init__(self):
        self.world = pybullet.connect(pybullet.DIRECT)
        self.at = {"physicsClientId": self.world}
        pybullet.setTimeStep(STEP, **self.at)
        pybullet.setGravity(0, 0, -9.81, **self.at)
        self.arm = pybullet.loadURDF(pybullet_data.getDataPath() + "/kuka_iiwa/model.urdf", useFixedBase=True, **self.at)
        self.joints = list(range(N))
        for joint in self.joints:  # that of the file is too much for the flange at this step: it rattles
            pybullet.changeDynamics(self.arm, joint, jointDamping=0, **self.at)
        pybullet.setJointMotorControlArray(self.arm, self.joints, pybullet.VELOCITY_CONTROL,
                                           forces=FRICTION, **self.at)

    def reset(self, seed, noise):
        start = HOME + np.random.default_rng(seed).uniform(-0.02, 0.02, N)
        for joint in self.joints:
            pybullet.resetJointState(self.arm, joint, start[joint], 0, **self.at)

    def state_of(self):
        states = pybullet.getJointStates(self.arm, self.joints, **self.at)
        return np.array([s[0] for s in states]), np.array([s[1] for s in states])

    def step(self, delivered):
        for _ in range(SKIP):
            q, v = self.state_of()
            pull = FREQUENCY**2 * (HOME - q) - 2 * FREQUENCY * v
            torque = delivered[1:] + pybullet.calculateInverseDynamics(
                self.arm, list(q), list(v), list(pull), **self.at)
            pybullet.setJointMotorControlArray(self.arm, self.joints, pybullet.TORQUE_CONTROL, forces=torque, **self.at)
            pybullet.stepSimulation(**self.at)

    def observe(self):
        return np.concatenate(self.state_of())
