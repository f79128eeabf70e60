#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Model files from the other side: check_model.py PROGRAM MODEL_ROLL.

Written from docs/formats.md alone: the safetensors package reads what the program trained, NumPy in
float64 predicts, and C must agree to float32 accuracy; C reads what is written here; what is wrong
is refused with a reason. Last line: N passed, N failed.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

PROGRAM, ROLL = sys.argv[1:3]
STEPS = 12
count = {True: 0, False: 0}


def ok(good, what):
    count[bool(good)] += 1
    if not good:
        print("FAILED", what)


# --- docs/formats.md in NumPy


class Model:
    def __init__(self, tensors, meta):
        self.t = {k: np.asarray(v, dtype=np.float64) for k, v in tensors.items()}
        n = len(meta["channels"].split(","))
        self.kinds = meta["kinds"].split(",") if "kinds" in meta else ["plain"] * n
        self.lo = np.array([float(v) for v in meta["lo"].split(",")])
        self.hi = np.array([float(v) for v in meta["hi"].split(",")])
        self.relu = meta["activation"] == "relu"
        self.window, self.history = int(meta.get("window", 1)), int(meta.get("history", 1))
        self.members = len({k.split(".")[1] for k in tensors if k.startswith("members.")}) or 1
        self.layers = len({k.split(".")[2] for k in tensors if k.startswith("members.")})

    @staticmethod
    def canonical(q):
        q = q / np.linalg.norm(q)
        sign = np.sign(q[np.nonzero(q)[0][0]])
        return sign * q, sign

    def reading(self, x):
        out, c = [], 0
        while c < len(x):
            if self.kinds[c] == "angle":
                out += [np.sin(x[c]), np.cos(x[c])]
            elif self.kinds[c] == "quaternion":
                out += list(self.canonical(x[c:c + 4])[0])
                c += 3
            else:
                out.append(x[c])
            c += 1
        return out

    def features(self, readings, delivered):
        own = [np.array(self.reading(x)) for x in readings]
        own = [a - b for a, b in zip(own, own[1:])] + own[-1:]
        f = np.concatenate([*own, *delivered])
        return (f - self.t["input.mean"]) / self.t["input.scale"]

    def net(self, member, a):
        if not self.layers:
            return 0
        for layer in range(self.layers):
            name = f"members.{member}.{layer}."
            a = self.t[name + "weight"] @ a + self.t[name + "bias"]
            if layer < self.layers - 1:
                a = np.maximum(a, 0) if self.relu else a / (1 + np.exp(-a))
        return a

    def change(self, member, readings, commands, gains):
        """window x channels"""
        f = self.features(readings, [gains * np.clip(u, self.lo, self.hi) for u in commands])
        change = self.t["change.mean"] + self.t["change.scale"] * self.net(member, f)
        if "change.linear" in self.t:
            change = change + self.t["change.linear"] @ f
        return change.reshape(self.window, -1)

    def apply(self, x, change):
        new, c = x + change, 0
        while c < len(x):
            if self.kinds[c] == "quaternion":
                q, sign = self.canonical(x[c:c + 4])
                q = q + change[c:c + 4]
                new[c:c + 4] = sign * q / np.linalg.norm(q)
                c += 3
            c += 1
        return new

    def roll(self, start, commands, gains):
        start = np.reshape(start, (self.history, -1))
        out = np.empty((self.members, len(gains), len(commands), start.shape[1]))
        for e in range(self.members):
            for h, g in enumerate(gains):
                x = start[-1]
                for t, u in enumerate(commands if self.window == 1 else []):
                    out[e, h, t] = x = self.apply(x, self.change(e, [x], [u], g)[0])
                if self.window > 1:
                    rest = self.history - 1  # nothing was sent before the last reading
                    padded = np.zeros((rest + self.window, len(g)))
                    padded[rest:rest + len(commands)] = commands
                    change = self.change(e, start, padded, g)
                    for t in range(len(commands)):
                        out[e, h, t] = self.apply(x, change[t])
        return out


# --- C on the same request


def roll_in_c(path, start, commands, gains):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(f"{len(commands)} {len(gains)}\n")
        for row in [np.ravel(start), *commands, *gains]:
            f.write(" ".join(repr(float(v)) for v in row) + "\n")
        f.flush()
        run = subprocess.run([ROLL, str(path), f.name], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def compare(path, model, start, commands, gains, what):
    """Both roll the same request; differences in units of how far each channel goes."""
    code, out, err = roll_in_c(path, start, commands, gains)
    ok(code == 0, f"{what}: C loads and predicts ({err.strip()})")
    if code != 0:
        return
    want = model.roll(start, commands, gains)
    got = np.array(out.split(), dtype=np.float64).reshape(want.shape)
    last = np.reshape(start, (model.history, -1))[-1]
    size = np.maximum(np.abs(want - last).max(axis=(0, 1, 2)), 1e-9)
    worst = float((np.abs(got - want) / size).max())
    print(f"  {what}: largest difference {worst:.2g} of the response")
    ok(worst < 2e-6, f"{what}: C and NumPy agree")
    ok(model.layers == 0 or want.std(axis=0).max() > 0, f"{what}: the members differ")
    ok(np.abs(want[:, 0] - want[:, 1]).max() > 1e-6 * size.max(), f"{what}: a gain matters")


def trained(work, plant, start_sd, rng, kind="recursive"):
    path = work / f"{plant}-{kind}.model"
    run = subprocess.run([PROGRAM, "train", plant, "-o", str(path), "--profile", "quick", "--set",
                          "epochs=15", "--kind", kind], capture_output=True, text=True)
    ok(run.returncode == 0, f"train {plant}: {run.stderr.strip()}")
    with safe_open(path, framework="np") as f:
        meta = f.metadata()
        tensors = {k: f.get_tensor(k) for k in f.keys()}
    ok(meta["format"] == "preflight-model" and meta["version"] == "1" and meta["plant"] == plant,
       f"{plant}: the package reads the metadata")
    ok(all(t.dtype == np.float32 and np.isfinite(t).all() for t in tensors.values()),
       f"{plant}: the package reads finite float32 tensors")
    model = Model(tensors, meta)
    ok(model.layers == 0 or model.members == 2 and model.layers == 3 and
       tensors["members.1.1.weight"].shape == (64, 64), f"{plant}: names and shapes are documented")
    ok((model.window > 1) == (kind == "trajectory"), f"{plant}: its kind")
    n_mech = len(model.lo)
    commands = rng.uniform(model.lo - .3, model.hi + .3, (STEPS, n_mech))  # some beyond the limits
    gains = np.ones((3, n_mech))
    gains[1, 1], gains[2, 2] = .35, 0
    start = rng.normal(0, start_sd, model.history * len(model.kinds))
    compare(path, model, start, commands, gains, path.stem)
    if model.window > 1:
        compare(path, model, start, commands[:5], gains, f"{path.stem}, five steps of the window")
    code, _, _ = roll_in_c(path, start * np.nan, commands, gains)
    ok(code == 3, f"{plant}: a start that is not a number is refused")


# --- models made here


META = {"format": "preflight-model", "version": "1", "plant": "own", "channels": "a,w,x,y,z,p",
        "kinds": "angle,quaternion,quaternion,quaternion,quaternion,plain",
        "mechanisms": "left,right,up", "lo": "-1,-inf,0", "hi": "1,inf,inf", "activation": "silu"}
N_IN, N_CHAN, WIDTH = 7 + 3, 6, 9


def own_tensors(rng, members, hidden, N_IN=N_IN, N_CHAN=N_CHAN):
    def draw(*shape):
        return rng.normal(0, .3, shape).astype(np.float32)

    t = {"input.mean": draw(N_IN), "input.scale": 1 + np.abs(draw(N_IN)),
         "change.mean": draw(N_CHAN), "change.scale": draw(N_CHAN)}
    sizes = [N_IN] + [WIDTH] * hidden + [N_CHAN]
    for e in range(members):
        for layer in range(hidden + 1):
            # as in the state_dict of an nn.Sequential of nn.Linear
            t[f"members.{e}.{layer}.weight"] = draw(sizes[layer + 1], sizes[layer])
            t[f"members.{e}.{layer}.bias"] = draw(sizes[layer + 1])
    return t


def made_here(work, rng):
    start = np.array([3.0, -.1, .9, .2, -.4, 1.5])  # the quaternion of no length one, negative
    for activation in ["silu", "relu"]:
        for hidden in [1, 3]:
            path = work / f"own-{activation}-{hidden}.model"
            tensors, meta = own_tensors(rng, 3, hidden), {**META, "activation": activation}
            save_file(tensors, path, metadata=meta)
            commands = rng.uniform(-2, 2, (STEPS, 3))
            gains = np.array([[1, 1, 1], [.35, 1, 1], [1, 1.4, 0]])
            compare(path, Model(tensors, meta), start, commands, gains, path.stem)


def windows_made_here(work, rng):
    window, history = 4, 2
    n_in, n_out = history * 7 + (history - 1 + window) * 3, window * N_CHAN
    start = np.array([[2.0, -.3, .8, .1, -.4, 1.2], [3.0, -.1, .9, .2, -.4, 1.5]])
    for hidden in [0, 2]:
        path = work / f"window-{hidden}.model"
        shapes = {"N_IN": n_in, "N_CHAN": n_out}
        tensors = own_tensors(rng, 2 if hidden else 0, hidden, **shapes)
        tensors["change.linear"] = rng.normal(0, .1, (n_out, n_in)).astype(np.float32)
        meta = {**META, "window": str(window), "history": str(history)}
        save_file(tensors, path, metadata=meta)
        commands = rng.uniform(-2, 2, (window, 3))
        gains = np.array([[1, 1, 1], [.35, 1, 1], [1, 1.4, 0]])
        compare(path, Model(tensors, meta), start, commands, gains, path.stem)
        code, _, err = roll_in_c(path, start, np.zeros((window + 1, 3)), gains)
        ok(code == 3 and "predicts 4 steps at once, not 5" in err, f"a longer window: {err.strip()}")
    for key, value in (("window", "0"), ("window", "x"), ("history", "99"), ("window", "1")):
        save_file(tensors, path, metadata={**meta, key: value})
        code, _, err = roll_in_c(path, start, commands, gains)
        ok(code == 3, f"refuses {key} {value}: {err.strip()}")


def refused(work, rng):
    good = own_tensors(rng, 2, 2)
    path = work / "bad.model"

    def expect(what, part, tensors, meta=META):
        save_file(tensors, path, metadata=meta)
        code, _, err = roll_in_c(path, np.ones(6), np.zeros((1, 3)), np.ones((1, 3)))
        ok(code == 3 and part in err, f"refuses {what}: status {code}, {err.strip()}")

    def without(name):
        return {k: v for k, v in good.items() if k != name}

    save_file(good, path, metadata=META)
    code, _, err = roll_in_c(path, np.ones(6), np.zeros((1, 3)), np.ones((1, 3)))
    ok(code == 0, f"the file before it is spoilt loads: {err}")
    expect("a wrong name", "members.0.1.bias", without("members.0.1.bias") |
           {"members.0.1.offset": good["members.0.1.bias"]})
    expect("a missing tensor", "change.mean", without("change.mean"))
    expect("an extra tensor", "tensors", good | {"optimizer.step": np.ones(1, np.float32)})
    for name in ["members.1.0.weight", "input.scale", "members.0.2.bias", "change.scale"]:
        wide = np.ones([d + 1 for d in good[name].shape], np.float32)
        expect(f"another shape of {name}", name, good | {name: wide})
    expect("a transposed weight", "members.0.0.weight", good |
           {"members.0.0.weight": np.ascontiguousarray(good["members.0.0.weight"].T)})
    for dtype in [np.float64, np.float16, np.int32]:
        expect(np.dtype(dtype).name, "change.mean",
               good | {"change.mean": good["change.mean"].astype(dtype)})
    spoilt = good["members.1.1.weight"].copy()
    spoilt[2, 3] = np.nan
    expect("a NaN", "members.1.1.weight", good | {"members.1.1.weight": spoilt})
    expect("an input scale of zero", "input.scale", good | {"input.scale": 0 * good["input.scale"]})
    for key in ["format", "version", "plant", "channels", "mechanisms", "lo", "hi", "activation"]:
        expect(f"no {key}", key, good, {k: v for k, v in META.items() if k != key})
    expect("activation gelu", "silu or relu", good, {**META, "activation": "gelu"})
    expect("version 2", "version 2", good, {**META, "version": "2"})
    expect("no metadata", "format", good, None)


def main():
    rng = np.random.default_rng(20240917)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        trained(work, "dc_servo", .5, rng)
        trained(work, "attitude", 1e-3, rng)
        for plant, sd in (("dc_servo", .5), ("building", 1), ("reaction_wheel", .01)):
            trained(work, plant, sd, rng, "trajectory")
        made_here(work, rng)
        windows_made_here(work, rng)
        refused(work, rng)
    print(f"{count[True]} passed, {count[False]} failed")
    return count[False] != 0


if __name__ == "__main__":
    sys.exit(main())
