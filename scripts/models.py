#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What twenty public models give: whether each loads, calibrates within a limit, and how often a
loss to .35 is found and named. Prints the table of docs/results/public-models.md.

    scripts/models.py                    # installs the packages, runs what is not there yet, small ones first
    scripts/models.py --only fish,hand   # these alone; what ran into the limit goes on
    scripts/models.py --table            # the table of what is there

Kits and one JSON file per model lie in build/models. Remove a file to measure its model anew.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("PREFLIGHT_PROGRAM", ROOT / "build/release/preflight")
PLACE = ROOT / "build/models"
REQUIREMENTS = ROOT / "scripts/requirements-models.txt"
CHECKS = 20  # of each loss
SETTINGS = {"episodes": 30, "alarm_trials": 100}  # the rest as it comes
SUITE, ROBOSUITE = "dm_control/suite", "robosuite/models/assets/robots"
HANDS, URDF = "gymnasium_robotics/envs/assets", "pybullet_data"
MODELS = {  # small machines first
    "pendulum": f"{SUITE}/pendulum.xml",
    "reacher": f"{SUITE}/reacher.xml",
    "point_mass": f"{SUITE}/point_mass.xml",
    "ball_in_cup": f"{SUITE}/ball_in_cup.xml",
    "finger": f"{SUITE}/finger.xml",
    "walker": f"{SUITE}/walker.xml",
    "cheetah": f"{SUITE}/cheetah.xml",
    "fish": f"{SUITE}/fish.xml",
    "kuka": f"{URDF}/kuka_iiwa/model.urdf",
    "iiwa": f"{ROBOSUITE}/iiwa/robot.xml",
    "kinova3": f"{ROBOSUITE}/kinova3/robot.xml",
    "ur5e": f"{ROBOSUITE}/ur5e/robot.xml",
    "panda": f"{ROBOSUITE}/panda/robot.xml",
    "minitaur": f"{URDF}/quadruped/minitaur.urdf",
    "a1": f"{URDF}/a1/a1.urdf",
    "humanoid": f"{SUITE}/humanoid.xml",
    "quadruped": f"{SUITE}/quadruped.xml",
    "hand": f"{HANDS}/hand/reach.xml",
    "adroit": f"{HANDS}/adroit_hand/adroit_relocate.xml",
    "dog": f"{SUITE}/dog.xml",
}


def packages():
    """The folder of the packages, installed if they are not."""
    venv, stamp = PLACE / "venv", PLACE / "venv/.requirements"
    if not stamp.exists() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/pip"), "install", "-q", "--disable-pip-version-check",
                        "--require-hashes", "-r", str(REQUIREMENTS)], check=True)
        stamp.write_bytes(REQUIREMENTS.read_bytes())
    return next(venv.glob("lib/python3*/site-packages"))


def call(arguments, limit_s):
    """Exit status (None: not within the limit), output, seconds of a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    limit = (int(limit_s), int(limit_s) + 5)
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], cwd=PLACE, text=True, capture_output=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    stopped = done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    return None if stopped else done.returncode, done.stdout, done.stderr, spent


def audited(name, fault, checks, options):
    """Counts of an audit with one entry, or why there are none."""
    (PLACE / "one.yaml").write_text(f"entries:\n  - {{name: one, {fault}}}\n")
    code, out, err, _ = call(
        ["audit", f"{name}.kit", "--catalogue", "one.yaml", "--sessions", checks, "--threads",
         options.threads, "--progress", "none", "--replace", "--json"], options.limit)
    if code not in (0, 1):
        return {"why": err.strip().splitlines()[-1] if code else "the audit did not end"}
    return json.loads(out)["entries"][0]


def loaded(plant):
    """What `list` says of it, or why it does not load."""
    code, out, err, _ = call(["list", plant], 120)
    if code != 0:
        return {"why": err.strip()}
    return {"candidates": len(re.findall(r"^ +\d+ ", out, re.MULTILINE)) - 1,
            "force": len(re.findall(r"^ +\d+ .* force ", out, re.MULTILINE)),
            "rests": "does not come to rest" not in out}


def calibrated(name, plant, options, before):
    """Seconds, and how many mechanisms have no probe; or why there is no kit."""
    part = PLACE / f"{name}.kit.part"
    if "calibration_s" not in before:  # of a run that was killed, or of an earlier version
        part.unlink(missing_ok=True)
    went_on = part.exists()
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    code, out, err, seconds = call(
        ["calibrate", plant, "-o", f"{name}.kit", *settings, "--threads", options.threads,
         "--progress", "none"], options.limit)
    seconds += before.get("calibration_s", 0) if went_on else 0
    if code is None:
        return {"calibration_s": seconds, "why": f"no kit after {seconds:.0f} s of a processor"}
    (PLACE / f"{name}.log").write_text(err + out)
    if code != 0:
        return {"calibration_s": seconds, "why": err.strip().splitlines()[-1]}
    return {"calibration_s": seconds, "unprobed": len(re.findall("no probe looks at '", err)),
            "unrehearsed": len(re.findall("^task .* cannot be rehearsed", out, re.MULTILINE))}


def known(name):
    """What is known of it so far."""
    path = PLACE / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(name, found):
    (PLACE / f"{name}.json").write_text(json.dumps(found, indent=1))


def measure(name, plant, options):
    """Everything about one model, from where the last run ended."""
    found = known(name)
    if "candidates" in found and "unprobed" not in found:
        found.pop("why", None)
        found.update(calibrated(name, plant, options, found))
        keep(name, found)
    if "unprobed" in found:
        found["loss"] = audited(name, "fault: gain, value: .35", CHECKS * found["candidates"], options)
        found["healthy"] = audited(name, "fault: none", CHECKS, options)
    keep(name, found)
    return found


def is_done(name):
    """Whether its row is there."""
    found = known(name)
    return "why" in found or "healthy" in found


def row(name, found):
    """One line of the table."""
    cells = [name, f"`{found['model']}`"]
    if "candidates" not in found:
        return cells + ["-", "-", "-", found["why"]]
    cells += [f"{found['candidates']} ({found['force']})", "yes" if found["rests"] else "no"]
    cells += [f"{found['calibration_s']:.0f}" if "unprobed" in found else "-"]
    if "healthy" not in found:
        return cells + [found.get("why", "not measured")]
    loss, healthy = found["loss"], found["healthy"]
    if "why" in loss:
        return cells + [loss["why"]]
    n = loss["sessions"]
    named = f"{loss['named'] / n:.3f}"
    return cells + [f"**{named}**" if is_good(found) else named, f"{loss['alarm'] / n:.2f}",
                    f"{loss['go'] / n / loss['tasks']:.2f}", str(loss["go"]),
                    str(loss["below_bound"]), str(loss["below_j_min"]),
                    "-" if "why" in healthy else f"{healthy['all_go'] / healthy['sessions']:.2f}"]


def is_good(found):
    """Whether at least .95 of the losses were named."""
    loss = found.get("loss", {})
    return "named" in loss and loss["named"] >= .95 * loss["sessions"]


def table():
    """What is there, as Markdown."""
    head = ["model", "file", "actuators (lose force)", "rests", "kit, s of a processor", "named", "alarm", "go",
            "flown", "below bound", "below j_min", "healthy all go"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    good = n = 0
    for name in MODELS:
        found = known(name)
        if found:
            n += 1
            good += is_good(found)
            cells = row(name, found)
            print("| " + " | ".join(cells + [""] * (len(head) - len(cells))) + " |")
    print(f"\n{good} of {n} have at least .95 found and named.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--limit", type=float, default=240,
                        help="seconds of a processor for a calibration, and for an audit (240)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else list(MODELS)
    for name in set(names) - set(MODELS):
        parser.error(f"no model is called {name}")
    folder = None if options.table else packages()
    for name in MODELS:
        if folder and "candidates" not in known(name):
            keep(name, {"model": MODELS[name], **loaded(f"mujoco:{folder / MODELS[name]}")})
    for name in names:
        if folder and (options.only or not is_done(name)):
            found = measure(name, f"mujoco:{folder / MODELS[name]}", options)
            print(" ".join(row(name, found)), file=sys.stderr, flush=True)
    table()


if __name__ == "__main__":
    main()
