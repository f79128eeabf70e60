#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_threads.sh [PRESET]: every command that starts threads, under ThreadSanitizer, with one thread and with
# four: no race, and the same bytes. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
preset=${1:-tsan}
scripts/build.sh "$preset" preflight_cli || exit 1
program=$PWD/build/$preset/preflight
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TSAN_OPTIONS="halt_on_error=1 exitcode=66"
small=(--set episodes=20 --set alarm_trials=40 --progress none)
passed=0 failed=0

note() { # note NAME STATUS
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        echo "FAILED $1"
        tail -n 40 "$work/log"
    fi
}

# both NAME FILE COMMAND...: the command with one thread and with four, whose FILE must be the same.
both() {
    local name=$1 file=$2 threads status=0
    shift 2
    for threads in 1 4; do
        mkdir -p "$work/$threads"
        (cd "$work/$threads" && "$program" "$@" --threads $threads) >"$work/log" 2>&1 || status=1
        [ $status = 0 ] || break
    done
    if [ $status = 0 ] && [ "$file" != - ]; then cmp "$work/1/$file" "$work/4/$file" >"$work/log" 2>&1 || status=1; fi
    note "$name" $status
}

# same NAME COMMAND...: says the same of what one thread and four have written.
same() {
    local name=$1 threads
    shift
    for threads in 1 4; do (cd "$work/$threads" && "$program" "$@") >"$work/said.$threads" 2>"$work/log"; done
    cmp "$work/said.1" "$work/said.4" >>"$work/log" 2>&1 && [ -s "$work/said.1" ]
    note "$name" $?
}

# stopped NAME SIGNAL STATUS COMMAND...: a signal in its midst, the exit status, and no race. Its
# progress tells when all threads are at work: seconds do not, on a busy machine.
stopped() {
    local name=$1 signal=$2 wanted=$3 code tenths=0
    shift 3
    (cd "$work" && exec "$program" "$@" --progress json) >"$work/log" 2>&1 &
    until grep -q '"alarm trials","done":[1-9]' "$work/log" || ! kill -0 $! || [ $((tenths += 1)) -gt 3000 ]; do
        sleep .1
    done
    kill -s "$signal" $!
    wait $!
    code=$?
    [ $code = "$wanted" ]
    note "$name" $?
}

csv=$work/log.csv
python3 examples/record.py >"$csv"
printf 'entries:\n  - {name: gain 0, fault: gain, value: 0}\n  - {name: delay 2, fault: delay, value: 2}\n' >"$work/few.yaml"

both "probes are designed" p.lib design dc_servo -o p.lib --set design.starts=4 --progress none
both "a kit is calibrated" a.kit calibrate dc_servo -o a.kit "${small[@]}"
both "a kit is calibrated from recordings" r.kit calibrate --recordings "$csv" -o r.kit --progress none
both "a model is trained" a.model train dc_servo -o a.model --profile quick --set epochs=3 --set transitions=3000 --set members=2 --progress none
both "a kit is calibrated with a learned model" l.kit calibrate dc_servo --predictor ensemble:a.model -o l.kit "${small[@]}"
both "a kit is audited" a.json audit a.kit --catalogue "$work/few.yaml" --sessions 2 -o a.json --progress none
both "a suite runs" - bench run compact-plants --profile quick --only environment=dc_servo --db b.db --progress none
same "and its table is the same" bench table compact-plants --db b.db
if ls -d build/venv/lib/python3*/site-packages/mujoco >/dev/null 2>&1; then
    both "a kit of a MuJoCo system is calibrated" h.kit calibrate hopper -o h.kit --probes single --set sensor_noise=.25 "${small[@]}"
fi
stopped "a signal ends a run" INT 130 calibrate attitude -o s.kit --set alarm_trials=1000000 --threads 4
stopped "so does the other one" TERM 143 calibrate attitude -o t.kit --set alarm_trials=1000000 --threads 4
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
