# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""compare.py HOST FILE.fmu[#STEP]...: trajectories of preflight-fmu and of FMPy, number by number.

The same calls through FMU2Slave and FMU3Slave, a fresh instance for each trajectory. Every bit must be
equal. Prints one line per FMU.
"""
import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys

import fmpy
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave

TRAJECTORIES, ROWS = 12, 40


class Host:
    """preflight-fmu, spoken to as the bridge speaks."""

    def __init__(self, program, file, step):
        self.child = subprocess.Popen([program, file] + ([step] if step else []), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        self.ask({"op": "hello", "protocol": 1})
        self.hello = json.loads(self.child.stdout.readline())
        if "error" in self.hello:
            raise SystemExit(f"{file}: {self.hello['error']}")
        self.n_mech, self.n_chan = len(self.hello["mechanisms"]), len(self.hello["channels"])

    def ask(self, request, raw=b""):
        self.child.stdin.write(json.dumps(request).encode() + b"\n" + raw)
        self.child.stdin.flush()

    def roll(self, commands):
        flat = [1.0] * self.n_mech + [u for row in commands for u in row]
        self.ask({"op": "roll", "id": 1, "rows": len(commands)}, struct.pack(f"{len(flat)}d", *flat))
        reply = json.loads(self.child.stdout.readline())
        if "error" in reply:
            raise SystemExit(reply["error"])
        n = self.n_chan * (1 + len(commands))
        return self.child.stdout.read(8 * n)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def real(variables, causality):
    return [v for v in variables if v.causality == causality and v.type in ("Real", "Float32", "Float64")]


def count(variable, variables):
    n = 1
    for d in getattr(variable, "dimensions", None) or []:
        n *= int(d.start if d.start is not None else d.variable.start)
    return n


class Reference:
    """The same machine in FMPy."""

    def __init__(self, file, step):
        self.model = fmpy.read_model_description(file)
        self.folder = fmpy.extract(file)
        self.three = self.model.fmiVersion.startswith("3")
        self.step = step
        experiment = self.model.defaultExperiment
        self.start = float(experiment.startTime or 0) if experiment else 0.0
        self.tolerance = float(experiment.tolerance) if experiment and experiment.tolerance else None
        everything = self.model.modelVariables
        self.inputs = [(v, count(v, everything)) for v in real(everything, "input")]
        self.outputs = [(v, count(v, everything)) for v in real(everything, "output")]
        self.rest = []
        for v, n in self.inputs:
            given = [float(x) for x in str(v.start).split()]
            self.rest += given if len(given) == n else given * n

    def instance(self):
        kind = FMU3Slave if self.three else FMU2Slave
        fmu = kind(guid=self.model.guid, unzipDirectory=self.folder, instanceName=self.model.modelName,
                   modelIdentifier=self.model.coSimulation.modelIdentifier)
        fmu.instantiate()
        if self.three:
            fmu.enterInitializationMode(tolerance=self.tolerance, startTime=self.start)
        else:
            fmu.setupExperiment(tolerance=self.tolerance, startTime=self.start)
            fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        return fmu

    def read(self, fmu):
        values = []
        for v, n in self.outputs:
            reference = [v.valueReference]
            if not self.three:
                values += fmu.getReal(reference)
            elif v.type == "Float32":
                values += fmu.getFloat32(reference, nValues=n)
            else:
                values += fmu.getFloat64(reference, nValues=n)
        return values

    def write(self, fmu, values):
        for v, n in self.inputs:
            reference, some, values = [v.valueReference], values[:n], values[n:]
            if not self.three:
                fmu.setReal(reference, some)
            elif v.type == "Float32":
                fmu.setFloat32(reference, some)
            else:
                fmu.setFloat64(reference, some)

    def roll(self, commands):
        fmu = self.instance()
        seen = self.read(fmu)
        for i, row in enumerate(commands):
            self.write(fmu, [r + u for r, u in zip(self.rest, row[1:])])
            fmu.doStep(currentCommunicationPoint=self.start + i * self.step,
                       communicationStepSize=self.step)
            seen += self.read(fmu)
        fmu.terminate()
        fmu.freeInstance()
        return struct.pack(f"{len(seen)}d", *seen)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def silence():
    """What an FMU prints in this process is not ours to show."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def compare(program, name):
    file, _, step = name.partition("#")
    host = Host(program, file, step)
    reference = Reference(file, host.hello["dt"])
    draw = random.Random(1)
    equal, moved = 0, set()
    for k in range(TRAJECTORIES):
        rows = []
        for r in range(ROWS):
            pulse = [0.0] + [.2 * draw.uniform(-1, 1) for _ in range(host.n_mech - 1)]
            rows.append(pulse if r < 30 and k > 0 else [0.0] * host.n_mech)
        ours = host.roll(rows)
        with silence():
            theirs = reference.roll(rows)
        equal += ours == theirs
        moved.add(ours)
    host.close()
    reference.close()
    good = equal == TRAJECTORIES and len(moved) > 1
    print(f"{'equal' if good else 'DIFFERS'}: {os.path.basename(file)}, {equal} of {TRAJECTORIES} trajectories of "
          f"{ROWS} steps, {host.n_mech - 1} inputs, {host.n_chan} outputs; {host.hello['about']}")
    return good


def main():
    results = [compare(sys.argv[1], name) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
