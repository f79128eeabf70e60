#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Records what the program computes and compares it later: kits, sessions, journals, tables.
# Uses the program and the names of its suites alone, so it survives a move of the sources.
# Last line: N same, N close, N different.
set -u

usage() {
    cat <<'HELP'
usage: scripts/freeze.sh record DIR [PROGRAM] [options]
       scripts/freeze.sh compare DIR [PROGRAM] [options]
       scripts/freeze.sh list

record fills DIR with what PROGRAM (default build/release/preflight) computes. compare computes it
again and prints one line per item: `same`, `close (1.2e-13)` or `DIFFERENT`, and the item's name.

  --all           the long set too: all plants, methods and suites (minutes; else about a minute)
  --only WORD     only the parts whose name contains WORD; may be repeated; sees the long set too
  --tolerance T   largest relative difference of a number that counts as close
                  (default 1e-9 in tables of suites, 1e-12 elsewhere; 0: equal to the bit)
  --threads N     worker threads (default 1); the results are the same for any number
  --numbers       compare: leaves out checksums of files and hashes of suites, which change with a
                  version, a format or a setting; what they hold is compared in the other items
  --keep DIR      compare: leaves what was computed now in DIR, to look at with diff -r

A part is a folder of DIR. Its items:
  kit.sha256, model.sha256   checksum of the file; changes with the version and the file format
  kit.json, kit.txt          what `kit show` says; without version and checksum
  calibrate.txt, check.txt, check.json, journal.jsonl, replay.txt, explain.txt, serve.jsonl
                             what the commands print; the journal without the kit inside it
  table.csv, verify.txt      `bench table --format csv` of a quick run, `bench verify` of a sample
  config.txt                 config hash of the suite; changes with the settings
Versions, checksums, paths and config hashes in texts are replaced by a word. A relative difference
is taken against max(|a|, |b|, 0.001). A DIR belongs to one machine: another processor rounds
differently. Exit status 0 if nothing is different, 1 if something is, 2 usage, 3 nothing to compare.
HELP
}

# LEVEL NAME FUNCTION ARGUMENTS...; FUNCTION writes the items of the part into the folder it is given
parts() {
    cat <<'PARTS'
fast attitude                 kit "1:0.35 4:0.2 7:0.8" attitude
fast attitude-many            kit "2:0.5 3:0.35,5:0.5 1:0.2,4:0.35,6:0.65" attitude --faults many
fast attitude-single          kit "1:0.35 5:0.5" attitude --probes single --seed 3
fast attitude-sept            kit "3:0.35" attitude --method sept --seed 3
fast attitude-weighted        kit "2:0.35" attitude --set weighting=shrunk
fast attitude-settings        kit "3:0.35 4:0.1" attitude --set bins=4 --set grid=9 --set hazard=.01 --set stop=break --set alpha=.05 --set j_min=.9 --set budget.stage1=5 --set every_severity=false --set require_probe=false
fast quadrotor                kit "1:0.35 3:0.65" quadrotor
fast dc_servo                 kit "1:0.35 2:0.5" dc_servo
fast dc_servo-many            kit "1:0.35,3:0.5" dc_servo --faults many --set weighting=shrunk
fast pendulum                 kit "2:0.4" pendulum
fast swimmer                  kit "1:0.35" swimmer --set sensor_noise=.25 --set episodes=20 --set alarm_trials=100
fast exec-rig                 kit "2:0.35" "exec:python3 ../rig.py plant" --set episodes=20 --set alarm_trials=200
fast recordings               recordings
fast recordings-many          recordings --faults many
fast recordings-group         recordings --set bins=3 --seed 2
fast model-dc_servo           model "1:0.35 2:0.5" dc_servo
fast design                   design attitude
fast serve                    serve attitude
fast rollout                  rollout "attitude 8" "quadrotor 4" "dc_servo 4" "acrobot 3"
fast demo                     demo
fast compact-plants           suite compact-plants compact-ranks
fast directional              suite directional
fast group-compact            suite group-compact
fast ladder                   suite ladder per-family
fast many-faults              suite many-faults
fast mechanism                suite mechanism
fast no-recovery              suite no-recovery
fast swimmer-suite-twin       suite mujoco-readiness-twin -- --only environment=swimmer
fast swimmer-suite-ensemble   suite mujoco-readiness -- --only environment=swimmer
all  compact-severity         suite compact-severity
all  aircraft                 kit "1:0.35 2:0.5" aircraft
all  battery                  kit "1:0.35 2:0.5" battery
all  building                 kit "1:0.35 2:0.5" building
all  pump_tank                kit "1:0.35 2:0.5" pump_tank
all  quad_tank                kit "1:0.35 2:0.5" quad_tank
all  reaction_wheel           kit "1:0.35 2:0.5" reaction_wheel
all  wind_pitch               kit "1:0.35 2:0.5" wind_pitch
all  wood_berry               kit "1:0.35 2:0.5" wood_berry
all  acrobot                  kit "1:0.35" acrobot
all  cartpole                 kit "1:0.35" cartpole
all  battery-many             kit "1:0.35,3:0.5" battery --faults many
all  wood_berry-weighted      kit "2:0.35" wood_berry --set weighting=shrunk --faults many
all  half_cheetah             kit "5:0.35" half_cheetah --set sensor_noise=.25 --set episodes=20 --set alarm_trials=200
all  attitude-random          kit "3:0.35" attitude --method random
all  attitude-bayes-risk      kit "3:0.35" attitude --method bayes-risk
all  attitude-bandit-qcd      kit "3:0.35" attitude --method bandit-qcd
all  attitude-asid-fim        kit "3:0.35" attitude --method asid-fim
all  attitude-opax            kit "3:0.35" attitude --method opax
all  attitude-task-oed        kit "3:0.35" attitude --method task-oed
all  attitude-no-gate         kit "3:0.35" attitude --method eg-mpt:no-gate
all  attitude-no-transport    kit "3:0.35" attitude --method eg-mpt:no-transport
all  attitude-uniform         kit "3:0.35" attitude --method eg-mpt:uniform
all  attitude-neither         kit "3:0.35" attitude --method eg-mpt:neither
all  attitude-group           kit "3:0.35" attitude --method group
all  attitude-group-random    kit "3:0.35" attitude --method group:random
all  model-sensed             model "1:0.35 2:0.5" dc_servo --set sensed_start=true
all  model-attitude-many      model "1:0.35,4:0.5" attitude --faults many
all  design-battery           design battery --set design.at_once=2 --set design.target=8
all  mujoco-readiness         suite mujoco-readiness
all  mujoco-readiness-twin    suite mujoco-readiness-twin
all  budget                   suite budget diagnostics
all  deadline                 suite deadline
all  group-readiness          suite group-readiness
all  group-readiness-twin     suite group-readiness-twin -- --only environment=hopper,swimmer
all  mujoco-controls          suite mujoco-controls
all  risk-profiles            suite risk-profiles
all  sensitivity              suite sensitivity
all  severity                 suite severity
PARTS
}

main() {
    local mode='' dir='' program='' all=0 tolerance='' keep='' numbers='' only=()
    threads=1
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --all) all=1 ;;
        --numbers) numbers=numbers ;;
        --only | --tolerance | --threads | --keep)
            [ $# -ge 2 ] || refuse "$1 needs a value"
            case $1 in
            --only) only+=("$2") ;;
            --tolerance) tolerance=$2 ;;
            --threads) threads=$2 ;;
            --keep) keep=$2 ;;
            esac
            shift ;;
        -*) refuse "unknown option $1" ;;
        *)  if [ -z "$mode" ]; then mode=$1
            elif [ -z "$dir" ]; then dir=$1
            elif [ -z "$program" ]; then program=$1
            else refuse "one argument too many: $1"; fi ;;
        esac
        shift
    done
    case $mode in
    list) parts | awk '{ print $1, $2 }'; exit 0 ;;
    record | compare) [ -n "$dir" ] || refuse "$mode needs a folder" ;;
    *) refuse "the first argument is record, compare or list" ;;
    esac
    program=${program:-build/release/preflight}
    [ -x "$program" ] || { echo "freeze: $program is not a program; build it first" >&2; exit 3; }
    program=$(realpath "$program")
    if [ "$mode" = record ]; then
        mkdir -p "$dir" || exit 3
    elif [ ! -d "$dir" ]; then
        echo "freeze: there is no record in $dir; use record first" >&2; exit 3
    fi
    dir=$(realpath "$dir")
    [ -z "$keep" ] || { mkdir -p "$keep" && keep=$(realpath "$keep"); } || exit 3

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    helpers
    cd "$work" || exit 3
    machine=$(grep -m1 'model name' /proc/cpuinfo 2>/dev/null)
    if [ "$mode" = record ]; then
        echo "$machine" >"$dir/machine"
    elif [ -f "$dir/machine" ] && [ "$machine" != "$(cat "$dir/machine")" ]; then
        echo "freeze: the record was made on another processor; numbers may differ by rounding" >&2
    fi
    have_mujoco=0
    "$program" list plants --json | grep -q '"name": *"swimmer"[^}]*"available": *true' && have_mujoco=1

    : >counts
    local level name rest
    while read -r level name rest <&3; do
        wanted "$level" "$name" || continue
        if [ "$have_mujoco" = 0 ] && needs_mujoco "$rest"; then
            echo "skipped (no MuJoCo in this program) $name" | tee -a counts
            continue
        fi
        if [ "$mode" = compare ] && [ ! -d "$dir/$name" ]; then
            echo "skipped (not recorded) $name" | tee -a counts
            continue
        fi
        out=$work/now/$name
        rm -rf "$work/run" && mkdir -p "$out" "$work/run" && cd "$work/run" || exit 3
        eval "part_$rest"
        cd "$work" || exit 3
        python3 -I "$work/normalise.py" "$out" "$work" "$program" || exit 3
        if [ "$mode" = record ]; then
            rm -rf "${dir:?}/$name" && cp -r "$out" "$dir/$name" || exit 3
            echo "recorded $name"
        else
            rm -rf "$work/before" && cp -r "$dir/$name" "$work/before" # a newer rule reaches it too
            python3 -I "$work/normalise.py" "$work/before" "$work" "$program" || exit 3
            python3 -I "$work/compare.py" "$work/before" "$out" "$name" "$tolerance" "$numbers" | tee -a counts
            [ -z "$keep" ] || { rm -rf "${keep:?}/$name" && cp -r "$out" "$keep/$name"; }
        fi
    done 3< <(parts)
    [ "$mode" = compare ] || exit 0
    local same close different skipped
    same=$(grep -c '^same ' counts)
    close=$(grep -c '^close ' counts)
    different=$(grep -c '^DIFFERENT ' counts)
    skipped=$(grep -c '^skipped ' counts)
    [ "$skipped" = 0 ] || echo "$skipped parts skipped"
    echo "$same same, $close close, $different different"
    [ "$different" = 0 ] || exit 1
    [ $((same + close)) -gt 0 ] || exit 3
}

refuse() {
    echo "freeze: $1" >&2
    echo "Try scripts/freeze.sh --help." >&2
    exit 2
}

wanted() { # wanted LEVEL NAME
    local word
    [ ${#only[@]} -gt 0 ] || { [ "$1" = fast ] || [ "$all" = 1 ]; return; }
    for word in "${only[@]}"; do
        [[ $2 == *"$word"* ]] && return 0
    done
    return 1
}

needs_mujoco() {
    case $1 in *mujoco* | *swimmer* | *half_cheetah* | "suite budget"* | "suite deadline"* | \
        "suite severity"* | "suite sensitivity"* | "suite risk-profiles"* | "suite group-readiness"*) return 0 ;;
    esac
    return 1
}

run() { # run FILE ARGUMENTS...: standard output, errors and exit status, added to FILE of the part
    local file=$out/$1
    shift
    "$program" "$@" >>"$file" 2>"$work/errors"
    local status=$?
    sed 's/^/error: /' "$work/errors" >>"$file"
    [ "$status" = 0 ] || [ "${file##*.}" = csv ] || echo "exit $status" >>"$file"
    return $status
}

show() { # show KIT
    sha256sum <"$1" >"$out/kit.sha256"
    run kit.txt kit show "$1"
    run kit.json kit show "$1" --json
}

sessions() { # sessions KIT FAULTS [OPTIONS]: healthy, then with each loss; commas join losses
    local kit=$1 seed=10 loss
    local losses="none $2"
    shift 2
    for loss in $losses; do
        local faults=()
        [ "$loss" = none ] || read -r -a faults <<<"--fault ${loss//,/ --fault }"
        seed=$((seed + 1))
        echo "loss $loss seed $seed" | tee -a "$out/check.txt" "$out/explain.txt" >>"$out/replay.txt"
        run check.txt check "$kit" "${faults[@]}" --seed $seed --journal journal --certificate certificate "$@"
        run check.json check "$kit" "${faults[@]}" --seed $seed --json "$@"
        cat certificate >>"$out/certificate.json"
        cat journal >>"$out/journal.jsonl"
        run replay.txt replay journal
        run explain.txt explain journal
        run explain.txt explain certificate
        rm -f journal certificate
    done
}

part_kit() { # part_kit FAULTS PLANT [OPTIONS]
    local faults=$1
    shift
    run calibrate.txt calibrate "$@" -o kit --threads "$threads" && show kit || return
    case $1 in
    exec:*) sessions kit "$faults" --plant "$1" ;; # a kit's own program is run only where it is named
    *) sessions kit "$faults" ;;
    esac
}

part_model() { # part_model FAULTS PLANT [OPTIONS]
    local faults=$1 plant=$2
    shift 2
    run train.txt train "$plant" -o model --profile quick --threads "$threads"
    sha256sum <model >"$out/model.sha256"
    sha256sum <model.data >"$out/data.sha256"
    run model.json model show model --json
    run model.json model assess model --json
    run data.json data show model.data --json
    run calibrate.txt calibrate "$plant" --predictor ensemble:model -o kit --threads "$threads" "$@" &&
        show kit && sessions kit "$faults" --model model
}

part_recordings() { # part_recordings [OPTIONS]
    if [ $# = 0 ]; then
        python3 -I "$work/rig.py" record >log.csv
    else
        python3 -I "$work/rig.py" record both >log.csv
        cat >config.yaml <<'CONFIG'
plant: rig
mechanisms: [{name: u0, lo: -2, hi: 2}, {name: u1, lo: -2, hi: 2}, {name: u2, lo: -2, hi: 2}]
channels: [{name: roll_rate}, {name: yaw_rate}]
probes:
  - {name: left, pulse: {mechanism: u1, amplitude: .5, steps: 8}}
  - {name: right, pulse: {mechanism: u2, amplitude: .5, steps: 8}}
  - {name: both, targets: [u1, u2], command: [[0, .5, .5], [0, .5, .5], [0, .5, .5], [0, .5, .5], [0, .5, .5], [0, .5, .5], [0, .5, .5], [0, .5, .5]]}
CONFIG
        set -- --config config.yaml "$@"
    fi
    run calibrate.txt calibrate --recordings log.csv -o kit "$@" && show kit || return
    local gains
    for gains in "1 1" "1 0.35" "0.5 1" "0.65 0.35"; do
        # shellcheck disable=SC2086
        python3 -I "$work/rig.py" drive "$program" kit $gains >>"$out/serve.jsonl" 2>&1
        cat journal >>"$out/journal.jsonl"
        run replay.txt replay journal
        run explain.txt explain journal
        rm -f journal
    done
    sessions kit "1:0.35 2:0.2" --plant "exec:python3 ../rig.py plant"
}

part_design() { # part_design PLANT [OPTIONS]
    run design.txt design "$@" -o library --threads "$threads"
    run design.json design "$@" -o library --threads "$threads" --json
    cp library "$out/library.yaml"
    run calibrate.txt calibrate "$1" --probes library -o kit --threads "$threads" && show kit
}

part_serve() { # part_serve PLANT: requests without a machine, wrong ones among them
    run calibrate.txt calibrate "$1" -o kit --threads "$threads" --set episodes=20 --set alarm_trials=200
    printf '%s\n' '{"op":"hello"}' '{"op":"ask"}' '{"op":"skip"}' '{"op":"ask"}' '{"op":"tell","probe":99}' \
        '{"op":"tell","probe":0,"response":[[1]]}' '{"op":"stage2"}' '{"op":"ask"}' '{"op":"readiness"}' \
        'nonsense' '{"op":"fly"}' '{"op":"reset","seed":4}' '{"op":"ask"}' '{"op":"readiness"}' |
        run serve.jsonl serve kit --seed 5
}

part_rollout() { # part_rollout "PLANT MECHANISMS"...
    local plant count seed
    for plant in "$@"; do
        read -r plant count <<<"$plant"
        python3 -I "$work/rig.py" commands "$count" >commands.csv
        for seed in 0 1; do
            run rollout.csv rollout "$plant" --commands commands.csv --seed $seed
            run rollout.csv rollout "$plant" --commands commands.csv --seed $seed --fault 1:0.35 --what state
        done
        run rollout.csv rollout "$plant" --commands commands.csv --mean-reset --no-noise
    done
}

part_demo() {
    run demo.txt demo
    run demo.txt demo dc_servo --gain 0.35 --mechanism motor_2 --seed 2
}

part_suite() { # part_suite SUITE [SHOWS_ITS_TRIALS...] [-- OPTIONS of run]
    local suite=$1 shown=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        shown+=("$1")
        shift
    done
    [ $# = 0 ] || shift
    # learned models are the same for all suites of a run
    run run.txt bench run "$suite" --profile quick --db db --models "$work/models" --threads "$threads" "$@"
    sed -i 's/, [0-9.]* s)/)/; /^error: /d' "$out/run.txt" # without the time and the progress
    run table.csv bench table "$suite" --profile quick --db db --format csv
    local other
    for other in "${shown[@]}"; do
        run "table-$other.csv" bench table "$other" --profile quick --db db --format csv
    done
    run status.json bench status "$suite" --profile quick --db db --json
    run verify.txt bench verify "$suite" --profile quick --db db --sample 10 --threads "$threads" --models "$work/models"
    grep -o '[^a-z]config [0-9a-f]*' "$out/verify.txt" >"$out/config.txt"
}

helpers() {
    cat >"$work/rig.py" <<'RIG'
# A rig with two idle actuators and two sensors: it records itself, is a plant behind exec:, or runs
# the probes that `serve` asks for.
import json
import random
import subprocess
import sys

EFFECT = {1: (0.9, 0.1), 2: (0.2, 1.1)}  # mechanism -> effect of a unit command on the two sensors


def roll(commands, gains, noise, start=(0.0, 0.0)):
    x, y = start
    rows = []
    for u in commands:
        for j, (a, b) in EFFECT.items():
            x += a * gains[j] * u[j] * 0.1
            y += b * gains[j] * u[j] * 0.1
        if noise:
            x += noise.gauss(0, 0.002)
            y += noise.gauss(0, 0.002)
        rows.append([x + noise.gauss(0, 0.01), y + noise.gauss(0, 0.01)] if noise else [x, y])
    return rows


def record(*more):
    print("episode,probe,mechanism,gain,step,roll_rate,yaw_rate,u0,u1,u2")
    noise, episode = random.Random(1), 0
    for j, probe in ((1, "left"), (2, "right")) + tuple((j, name) for name in more for j in (1, 2)):
        for gain in (1.0, 0.65, 0.35):
            for _ in range(40):
                u = [0.0, 0.5, 0.5] if probe in more else [0.0, 0.0, 0.0]
                u[j] = 0.5 * gain
                weak = "" if gain == 1 else f"u{j}"
                for step, row in enumerate(roll([u] * 8, [1, 1, 1], noise)):
                    print(f"{episode},{probe},{weak},{gain},{step + 1},{row[0]:.5f},{row[1]:.5f},{u[0]},{u[1]},{u[2]}")
                episode += 1


def plant():
    hello = {"protocol": 1, "name": "rig", "version": "1", "dt": 0.1, "state_size": 2,
             "mechanisms": [{"name": f"u{j}", "lo": -2, "hi": 2} for j in range(3)],
             "channels": ["roll_rate", "yaw_rate"]}
    for line in sys.stdin:
        message = json.loads(line)
        reply = hello
        if message["op"] != "hello":
            noise = random.Random(message.get("seed", 0)) if message["noise"] else None
            start = message.get("state") or [0.0, 0.0]
            reply = {"id": message["id"], "start": start, "initial": start,
                     "output": roll(message["commands"], message["gains"], noise, start)}
        print(json.dumps(reply), flush=True)


def drive(program, kit, *gains):
    noise, gains = random.Random(1), [1.0] + [float(g) for g in gains]
    server = subprocess.Popen([program, "serve", kit, "--journal", "journal", "--seed", "3"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def request(**message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
        print(line, end="")
        return json.loads(line)

    while (ask := request(op="ask")).get("ask") == "probe":
        request(op="tell", probe=ask["probe"], response=roll(ask["command"], gains, noise))
    request(op="readiness")
    server.stdin.close()
    server.wait()


def commands(count):
    draw = random.Random(2)
    print(",".join(f"u{j}" for j in range(int(count))))
    for _ in range(20):
        print(",".join(f"{draw.uniform(0, 0.3):.3f}" for _ in range(int(count))))


{"record": record, "plant": plant, "drive": drive, "commands": commands}[sys.argv[1]](*sys.argv[2:])
RIG
    cat >"$work/normalise.py" <<'NORMALISE'
# Takes out of texts what may change although the results do not.
import json
import pathlib
import re
import sys

folder, work, program = sys.argv[1:]


def kit(line):
    """A kit's keys in order, without the format and without what newer programs say a second time."""
    try:
        shown = json.loads(line)
    except ValueError:
        return line
    again = ("version", "field", "episodes", "alarm_trials", "seed")
    return json.dumps({k: v for k, v in shown.items() if k not in again}, sort_keys=True)


for path in sorted(pathlib.Path(folder).iterdir()):
    if path.suffix == ".sha256":
        path.write_text(path.read_text().split()[0] + "\n")
        continue
    text = path.read_text(errors="replace")
    text = text.replace(work, "WORK").replace(program, "preflight")
    if path.suffix == ".jsonl":
        text = re.sub(r'"kit": ?"[A-Za-z0-9+/=]{65,}"', '"kit":"KIT"', text)
    if path.name == "kit.json":
        text = "\n".join(kit(line) for line in text.splitlines()) + "\n"
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)
    text = re.sub(r"\b[0-9a-f]{16}\.\.\.", "SHA256...", text)
    text = re.sub(r'(preflight"?: ?"?|preflight )\d+\.\d+\.\d+', r"\1VERSION", text)
    if path.name != "config.txt":
        text = re.sub(r'(config(_hash)?"?:? ?"?)[0-9a-f]{16}\b', r"\1HASH", text)
    text = re.sub(r"(session( takes)? +)\d+ bytes", r"\1N bytes", text)
    text = re.sub(r"\b\d+-byte kit", "N-byte kit", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?", "DATE", text)
    path.write_text(text)
NORMALISE
    cat >"$work/compare.py" <<'COMPARE'
# One line per item of a part: equal bytes, else equal words and numbers that are close.
import pathlib
import re
import sys

before, now, part, tolerance, numbers = sys.argv[1:]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])|(?<![\w.])[-+]?\.\d+(?:[eE][-+]?\d+)?")


def difference(a, b):
    """Largest relative difference of the numbers, or where the words differ."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        for n, (x, y) in enumerate(zip(a.splitlines() + [""], b.splitlines() + [""]), 1):
            if NUMBER.sub("#", x) != NUMBER.sub("#", y):
                at = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
                cut = slice(max(0, at - 20), at + 40)
                return None, f"line {n}: was '{x[cut]}', is '{y[cut]}'"
        return None, "lines are missing or new"
    largest, where = 0.0, ""
    for x, y in zip(NUMBER.finditer(a), NUMBER.finditer(b)):
        if x.group() == y.group():
            continue
        p, q = float(x.group()), float(y.group())
        d = abs(p - q) / max(abs(p), abs(q), 1e-3)
        if d > largest:
            largest = d
            where = f"line {a.count(chr(10), 0, x.start()) + 1}: was {x.group()}, is {y.group()}"
    return largest, where


names = {p.name for folder in (before, now) for p in pathlib.Path(folder).iterdir()}
for name in sorted(names):
    paths = [pathlib.Path(folder) / name for folder in (before, now)]
    item = f"{part}/{name}"
    if numbers and (name.endswith(".sha256") or name == "config.txt"):
        continue
    if not all(p.exists() for p in paths):
        print(f"DIFFERENT {item}  ({'missing now' if paths[0].exists() else 'not in the record'})")
        continue
    a, b = (p.read_text() for p in paths)
    if a == b:
        print(f"same {item}")
    elif paths[0].suffix == ".sha256":
        print(f"DIFFERENT {item}")
    else:
        allowed = float(tolerance) if tolerance else 1e-9 if name.startswith("table") else 1e-12
        largest, where = difference(a, b)
        if largest is not None and largest <= allowed:
            print(f"close ({largest:.1e}) {item}")
        elif largest is not None:
            print(f"DIFFERENT {item}  (numbers by {largest:.1e}, {where})")
        else:
            print(f"DIFFERENT {item}  ({where})")
COMPARE
}

main "$@"; exit
