#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_suites.sh [all]: every suite of Gymnasium's systems at the quick profile: classic control;
# those of Box2D on compact plants; MuJoCo on one of its systems, models and kits shared, and a run
# that is killed and goes on ends with the rows of one that was not. With `all` those of MuJoCo on all
# their systems and one on Box2D itself. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
build release preflight_cli
root=$PWD program=$PWD/build/release/preflight
python=$PWD/build/venv/bin/python
[ -x "$python" ] || python=python3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

quick() { # quick VERB SUITE OPTIONS...: on the database of classic control and Box2D
    local verb=$1 suite=$2
    shift 2
    "$program" bench "$verb" "$suite" --profile quick --db classic.db "$@"
}

classic() { # classic SUITE: run, table beside the paper's numbers, figure
    quick run "$1" && quick table "$1" | grep -q '(' && quick figure "$1" -o figures
}

box2d() { # box2d SUITE: its axes on plants that cost nothing
    local other=(--set 'environments=[dc_servo, wind_pitch]' --set sensor_noise=1)
    [ "$1" != cross-physics ] || other+=(--set 'learned_on=[dc_servo, wind_pitch]')
    quick run "$1" "${other[@]}" && quick table "$1" "${other[@]}" &&
        quick figure "$1" -o figures "${other[@]}"
}

check "no-recovery" classic no-recovery
check "directional" classic directional
check "directional again has nothing to do" grep -q '(0 now' <(quick run directional)
check "verify" quick verify directional --sample 6
for suite in cross-physics unseen-severity budget-curves coordinate; do
    check "$suite" box2d "$suite"
done
check "gate-ablation shows them" quick table gate-ablation
part=(cross-physics --set 'environments=[dc_servo, "gym:Nothing-v0"]'
    --set 'learned_on=[dc_servo, "gym:Nothing-v0"]')
check "the rest runs without a backend" refuses 'left out: gym:Nothing-v0' quick run "${part[@]}"
check "its table has the rest" grep -q 'Servo' <(quick table "${part[@]}" 2>&1)

if ! "$program" list plants | grep '^hopper ' | grep -qv 'not here'; then
    echo "SKIPPED suites on MuJoCo (built without it: make deps)"
    if [ -n "${CI:-}" ]; then failed=$((failed + 1)); fi
    echo "$passed passed, $failed failed, 1 skipped"
    [ "$failed" = 0 ]
    exit
fi

bench() { # bench SUITE DB ENVIRONMENT
    "$program" bench run "$1" --profile quick --db "$2" --models "$folder/models" \
        --only environment="$3"
}

rows() { # rows DB: the numbers of its table
    "$program" bench table mujoco-readiness --profile quick --db "$1" --format csv
}

check "mujoco-readiness" bench mujoco-readiness all.db swimmer,hopper
check "mujoco-readiness-twin" bench mujoco-readiness-twin all.db swimmer
check "budget" bench budget all.db hopper
check "severity" bench severity all.db hopper
check "sensitivity" bench sensitivity all.db hopper
check "deadline" bench deadline all.db half_cheetah
check "risk-profiles" bench risk-profiles all.db half_cheetah
check "mujoco-controls" bench mujoco-controls all.db half_cheetah
# what the learned model costs: any of them with a twin and sensor noise
with_twin() {
    "$program" bench run budget --profile quick --db twin.db --only environment=hopper \
        --set predictor=twin --set sensor_noise=.25 &&
        "$program" bench table budget --profile quick --db twin.db >twin.md 2>/dev/null &&
        grep -q 'sensor_noise=0.25, predictor=twin' twin.md
}
check "budget with a twin" with_twin
check "a table of diagnostics" "$program" bench table diagnostics --profile quick --db all.db
check "verify" "$program" bench verify mujoco-readiness --profile quick --db all.db \
    --models "$folder/models" --sample 4

# another model than that of the trials in the database
another_model() {
    mkdir -p others && "$program" train swimmer --profile quick --kind recursive --set rollouts=false --seed 9 \
        -o others/swimmer-quick.model >/dev/null 2>&1 || return 1
    ! "$program" bench run mujoco-readiness --profile quick --db all.db --models others \
        --only environment=swimmer >refused 2>&1 && grep -q 'made with another model' refused
}
check "another model is refused" another_model

# verify needs the models of the trials: without them it says so, and recomputes nothing
no_model() {
    ! "$program" bench verify mujoco-readiness --profile quick --db all.db --models nowhere \
        --sample 4 >refused 2>&1 && grep -q 'name that with --models' refused && test ! -e nowhere &&
        ! "$program" bench verify mujoco-readiness --profile quick --db all.db --models others \
        --sample 4 >refused 2>&1 && grep -q 'not in the folder\|made with another model' refused
}
check "verify without the models of the trials" no_model

# two runs that miss the same model: one learns it, the other waits, both end well
two_runs() {
    "$program" bench run mujoco-readiness --profile quick --db both.db --models both-models \
        --only environment=hopper >first 2>&1 &
    first=$!
    "$program" bench run mujoco-readiness --profile quick --db both.db --models both-models \
        --only environment=hopper >second 2>&1 || return 1
    wait "$first" && test -e both-models/hopper-quick.model
}
check "two runs that miss the same model" two_runs

# killed in the training of its models, then among its trials again and again, then run to the end
killed=(bench run mujoco-readiness --profile quick --db killed.db --models killed-models
    --only environment=swimmer,hopper)
"$program" "${killed[@]}" >/dev/null 2>&1 &
child=$!
sleep 1
check "it was killed on its way" kill -9 $child
wait $child 2>/dev/null

among_trials() { # kills it as soon as one more trial is done and another is under way
    "$python" - "$program" "${killed[@]}" <<'P'
import sqlite3, subprocess, sys, time

def count(state):
    try:
        with sqlite3.connect("file:killed.db?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM unit WHERE state = ?", (state,)).fetchone()[0]
    except sqlite3.OperationalError:  # not there yet
        return 0

before = count(2)
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
end = time.monotonic() + 60
while child.poll() is None and time.monotonic() < end and not (count(2) > before and count(1) > 0):
    time.sleep(.001)
child.kill()
signal = -child.wait()
print(f"signal {signal}: {before} trials done before, {count(2)} now, {count(1)} were under way")
sys.exit(not (signal == 9 and 0 < count(2) < 8 and count(1) > 0))
P
}

trials() { # trials DB: the stored rows, to the last bit
    "$python" - "$1" <<'P'
import sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as db:
    for row in sorted(db.execute("SELECT * FROM trial_metric WHERE suite = 'mujoco-readiness'")):
        print(*row)
P
}

hits=0
for _ in 1 2 3; do
    among_trials >>kills && hits=$((hits + 1))
done
check "killed among its trials" [ "$hits" -gt 0 ]
[ "$hits" -gt 0 ] || cat kills
check "after kill -9 it goes on" "$program" "${killed[@]}"
check "the same model after $hits kills" cmp models/hopper-quick.model killed-models/hopper-quick.model
trials all.db >all.txt
trials killed.db >killed.txt
check "the same trials after $hits kills" cmp all.txt killed.txt
check "trials have rows" grep -q 'hopper .* eg-mpt 0 3 selective_return' all.txt
rows all.db >all.csv 2>/dev/null
rows killed.db >killed.csv 2>/dev/null
check "the same table after $hits kills" cmp all.csv killed.csv
check "the table has rows" grep -q eg-mpt all.csv

whole() { # whole SUITE: run, table and a sample again, on all its systems
    local options=("$1" --profile quick --db whole.db --models "$folder/models")
    "$program" bench run "${options[@]}" && "$program" bench table "$1" --profile quick --db whole.db &&
        "$program" bench verify "${options[@]}" --sample 4
}
if [ "${1:-}" = all ]; then
    for suite in mujoco-readiness mujoco-readiness-twin budget severity sensitivity deadline \
                 risk-profiles mujoco-controls group-readiness-twin; do
        check "$suite on all its systems" whole "$suite"
    done
    if "$python" -c 'import gymnasium, Box2D' 2>/dev/null; then
        export PREFLIGHT_PYTHON=$python PYTHONPATH=$root/python
        check "cross-physics on Box2D" whole cross-physics
    fi
fi

counts
