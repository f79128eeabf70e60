#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What docs/machines.md says of a model file, done with MuJoCo's own Python package, for
tests/test_mujoco_file.c: mujoco_file_fixture.py OUT.json

For each model the holding control, the state at rest, and the channels of a run from there in which
every mechanism has a gain of its own. Numbers keep all their bits.
"""

import json
import os
import sys

import mujoco
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STATE = mujoco.mjtState.mjSTATE_INTEGRATION
ROWS = 12

# file, keyframe, servos (hold their length), motors that carry weight (actuator, dof), integrators
# with a position servo, and which actuators lose force
MODELS = {
    "mixed.xml": ("home", [2], [], [4], [2, 4, 5]),
    "mixed.xml#bent": ("bent", None, [], [4], [2, 4, 5]),
    "crane.xml": (None, [], [(1, 1)], [], [1]),
}


def state_of(model, data):
    state = np.empty(mujoco.mj_stateSize(model, STATE))
    mujoco.mj_getState(model, data, state, STATE)
    return state


def present(model, data, a):
    return -(model.actuator_biasprm[a, 0] + model.actuator_biasprm[a, 1]
             * data.actuator_length[a]) / model.actuator_gainprm[a, 0]


def at_rest(model, key, servos, motors, integrators):
    data = mujoco.MjData(model)
    if key is None:
        mujoco.mj_resetData(model, data)
    else:
        mujoco.mj_resetDataKeyframe(model, data, model.key(key).id)
    mujoco.mj_forward(model, data)
    hold = np.zeros(model.nu) if servos is not None else model.key(key).ctrl.copy()
    for a in servos or []:
        hold[a] = present(model, data, a)
    for a, dof in motors:
        load = data.qfrc_bias[dof] - data.qfrc_passive[dof]
        hold[a] = load / (model.actuator_gear[a, 0] * model.actuator_gainprm[a, 0])
    data.ctrl[:] = hold
    for a in integrators:
        data.act[model.actuator_actadr[a]] = present(model, data, a)
    skip = max(1, round(.02 / model.opt.timestep))
    began = data.time
    step = 0
    while data.time - began < 2:
        mujoco.mj_step(model, data, nstep=skip)
        if np.abs(data.qvel).max() < .01 and step * skip * model.opt.timestep >= .1:
            break
        step += 1
    return hold, state_of(model, data), skip


def channels(model, data):
    if model.nsensor:
        mujoco.mj_forward(model, data)
        return data.sensordata[1:].tolist()  # the clock comes first
    return [*data.qpos[2:].tolist(), *data.qvel.tolist()]


def run(model, state, hold, skip, force):
    """Actuator a is asked for .1 + .05 a, falling row by row, and has gain .3 + .1 a."""
    data = mujoco.MjData(model)
    gains = np.array([.3 + .1 * a for a in range(model.nu)])
    weak = model.__copy__()
    weak.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
    for a in force:
        if weak.actuator_gaintype[a] == mujoco.mjtGain.mjGAIN_MUSCLE:
            weak.actuator_gainprm[a, 2] *= gains[a]
            weak.actuator_biasprm[a, 2] *= gains[a]
        else:
            weak.actuator_gainprm[a] *= gains[a]
            weak.actuator_biasprm[a] *= gains[a]
    mujoco.mj_setState(weak, data, state, STATE)
    rows = []
    for r in range(ROWS):
        for a in range(model.nu):
            command = (.1 + .05 * a) * (1 - r / ROWS)
            share = 1 if a in force else gains[a]
            data.ctrl[a] = hold[a] + share * command
        mujoco.mj_step(weak, data, nstep=skip)
        rows.append(channels(weak, data))
    return rows


def main():
    out = os.path.abspath(sys.argv[1])
    os.chdir(os.path.dirname(out))  # MuJoCo leaves its log in the current folder
    found = {"mujoco": mujoco.mj_versionString(), "systems": {}}
    for name, (key, servos, motors, integrators, force) in MODELS.items():
        path = os.path.join(HERE, "models", name.split("#")[0])
        model = mujoco.MjModel.from_xml_path(path)
        hold, state, skip = at_rest(model, key, servos, motors, integrators)
        found["systems"][name] = {"hold": hold.tolist(), "rest": state.tolist(),
                                  "rows": run(model, state, hold, skip, force)}
    with open(out, "w", encoding="ascii") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
