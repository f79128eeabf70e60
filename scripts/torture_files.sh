#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_files.sh [short|full]: every kind of file that the program writes, with each call that writes
# it failing in turn, from a full disk on (full), alone (once), with a kill at it (kill), with a kill
# at a random moment (time), with each allocation failing alone (memory), and from one on (dry). Each time:
#   - a command that fails says so with its exit status and a message that names the file;
#   - what stands under the name of an output is the whole new file or what was there before;
#   - a command that says it succeeded has written the file that an undisturbed one writes;
#   - after a kill the same command ends as if nothing had been, and leaves no temporary file.
# full: every call (of more than 200: 200 of them), 150 allocations spread over all, dry from 10 of them on,
# 20 moments;
# short: one or two of each. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
build release preflight_cli
program=$PWD/build/release/preflight
shim=$PWD/build/torture/fail.so
mkdir -p build/torture
cc -shared -fPIC -O1 -o "$shim" tests/torture/fail.c -ldl || { echo "0 passed, 1 failed"; exit 1; }
full=0; [ "${1:-short}" = full ] && full=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
declare -A tries=([full]=0 [once]=0 [kill]=0 [time]=0 [memory]=0 [dry]=0)
RANDOM=1

# --- what is written: command, outputs that appear whole, in the folder `at`
declare -A command outputs
small='--threads 1 --set bins=2 --set episodes=20 --set alarm_trials=100 --set members=2 --set grid=2'
tiny='--profile quick --threads 1 --set epochs=2 --set members=2 --set transitions=400'
command[kit]="calibrate dc_servo -o at/out.kit $small"
outputs[kit]=out.kit
command[part]='calibrate pump_tank -o at/out.kit --threads 1 --set alarm_trials=40000' # long enough for a .part
outputs[part]=out.kit
command[recorded]="calibrate --recordings log.csv -o at/out.kit --threads 1"
outputs[recorded]=out.kit
command[library]='design dc_servo -o at/out.probes --threads 1 --plot at/out.svg'
outputs[library]='out.probes out.svg.gp out.svg'
command[model]="train dc_servo -o at/out.model --kind recursive $tiny --log at/out.csv --plot at/out.png"
outputs[model]='out.model.data out.model' # the log holds seconds
command[best]="train dc_servo -o at/out.model $tiny"
outputs[best]='out.model.data out.model'
command[check]='check small.kit --seed 1 --certificate at/out.json --report at/out.html'
outputs[check]='out.json out.html'
command[audit]='audit small.kit -o at/out.json --sessions 2 --threads 1 --catalogue two.yaml'
outputs[audit]=out.json
command[page]='kit report small.kit -o at/out.html'
outputs[page]=out.html
command[explain]='explain small.journal --html at/out.html'
outputs[explain]=out.html
command[pages]='bench report tiny.yaml --db small.db -o at/pages'
outputs[pages]='pages/tiny.md pages/figures/tiny.svg pages/figures/tiny.png'
command[database]='bench run tiny.yaml --db at/out.db --profile quick --threads 1'
outputs[database]=
kinds="kit recorded library model best check audit page explain pages database"
[ $full = 1 ] && kinds+=' part'

cat >tiny.yaml <<'Y'
id: tiny
title: four trials
environments: [pump_tank]
methods: [random, eg-mpt]
gains: [.35]
sigma: .06
Y
printf 'entries:\n  - {name: healthy, fault: none}\n  - {name: half, fault: gain, value: .5}\n' >two.yaml
awk 'function run(m, gain, j,  e, s) {
    for (e = 0; e < 20; e++) { n++; for (s = 1; s <= 3; s++)
        printf "%d,p%d,%s,%s,%d,%.4f,%.4f,0,%d,%d\n", n, j, m, gain, s,
            (j == 1 ? gain * s : 0) + .02 * (rand() - .5), (j == 2 ? gain * s : 0) + .02 * (rand() - .5),
            j == 1, j == 2 } }
BEGIN { srand(1); print "episode,probe,mechanism,gain,step,x,y,u0,u1,u2"
    for (j = 1; j <= 2; j++) { run("", 1, j); run("u" j, .35, j); run("u" j, .8, j) } }' >log.csv
# shellcheck disable=SC2086
"$program" calibrate dc_servo -o small.kit $small >/dev/null &&
    "$program" check small.kit --seed 1 --journal small.journal >/dev/null &&
    "$program" bench run tiny.yaml --db small.db --profile quick --threads 1 >/dev/null 2>&1 ||
    { echo "FAILED the inputs"; echo "0 passed, 1 failed"; exit 1; }

# --- one try

bad() { # bad WHAT: a check of this try did not hold
    echo "FAILED $kind, $how at ${n}: $1"
    [ -s err ] && head -n 3 err
    good=0
}

# what stood there before, and in every second try of a kind whose outputs may be there: a file
prepare() {
    rm -rf at
    mkdir at
    old=
    case $kind in
    model | best | audit | database | part) ;;
    *) if [ $((n % 2)) = 1 ]; then
        old=yes
        [ "$kind" != pages ] || mkdir -p at/pages/figures
        for output in ${outputs[$kind]}; do echo "old" >"at/$output"; done
    fi ;;
    esac
}

run() { # run [VARIABLE=VALUE...]: the command of this kind
    # shellcheck disable=SC2086
    timeout 300 env "$@" "$program" ${command[$kind]} </dev/null >out 2>err
}

is_memory() { [ "$how" = memory ] || [ "$how" = dry ]; }

# an audit is written after every entry and goes on from there
is_new() { cmp -s "at/$1" "ref/$kind/$1"; }
is_old() { if [ -n "$old" ]; then [ "$(cat "at/$1" 2>/dev/null)" = old ]; else [ ! -e "at/$1" ]; fi; }

left_over() { # what an undisturbed command does not leave
    diff <(cd "ref/$kind" && find . ! -name table | sort) <(cd at && find . | sort) | grep '^>' | head -n 1
}

table() { "$program" bench table tiny.yaml --db at/out.db --profile quick --format csv 2>/dev/null; }

# the outputs after a command that ended so; a database is asked once the command ran again
check_outputs() {
    for output in ${outputs[$kind]}; do
        [ "$kind" = audit ] && [ "$1" != 0 ] && python3 -m json.tool at/out.json >/dev/null 2>&1 && continue
        is_new "$output" || { [ "$1" != 0 ] && is_old "$output"; } || bad "$output is neither the old nor the new file"
    done
}

check_again() { # the same command, undisturbed
    run || bad "the next run ends with $?"
    for output in ${outputs[$kind]}; do is_new "$output" || bad "the next run writes another $output"; done
    [ -z "$(left_over)" ] || bad "the next run leaves $(left_over)"
    if [ "$kind" = database ]; then table | cmp -s - ref/database/table || bad "results were lost or changed"; fi
}

try() { # try KIND HOW N
    kind=$1 how=$2 n=$3 good=1
    local status
    prepare
    if [ "$how" = time ]; then
        # shellcheck disable=SC2086
        "$program" ${command[$kind]} </dev/null >out 2>err &
        local child=$!
        sleep "$(awk "BEGIN { print $n / 1000 }")"
        kill -9 $child 2>/dev/null
        wait $child 2>/dev/null
        status=$?
    else
        run LD_PRELOAD="$shim" FAIL_HOW="$how" FAIL_AT="$n" FAIL_FOLDER="$work/at" 2>/dev/null
        status=$?
    fi 2>/dev/null
    check_outputs $status
    case $status in
    0) if [ "$kind" = database ]; then table | cmp -s - ref/database/table || bad "it succeeds without its results"; fi ;;
    137) [ "$how" = kill ] || [ "$how" = time ] || bad "it was killed" ;;
    124) bad "it hangs" ;;
    1 | 3 | 4) grep -q . err || bad "it fails without a word"
        is_memory || grep -q 'at/' err || bad "no message names the file" ;;
    *) bad "it ends with $status" ;;
    esac
    [ "$how" = kill ] || [ "$how" = time ] || [ -z "$(find at -name '*.tmp')" ] || bad "$(find at -name '*.tmp') is left"
    # whatever happened, the same command then ends well
    if [ $status != 0 ] && ! is_memory; then check_again; fi
    tries[$how]=$((tries[$how] + 1))
    if [ $good = 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# --- how often

# the files that an undisturbed command writes, and in `calls` how many calls of this sort it takes
reference() { # reference HOW
    prepare
    run LD_PRELOAD="$shim" FAIL_HOW="$1" FAIL_AT=0 FAIL_COUNT="$work/count" FAIL_FOLDER="$work/at" || {
        bad "the undisturbed command ends with $?"
        failed=$((failed + 1))
    }
    calls=$(cat count)
    rm -rf "ref/$kind"
    mkdir -p ref
    cp -r at "ref/$kind"
    if [ "$kind" = database ]; then table >ref/database/table; fi
}

for kind in $kinds; do
    how=reference n=0 old=
    reference once
    for how in full once kill; do
        if [ $full = 1 ] && [ "$calls" -le 200 ]; then list=$(seq 1 "$calls")
        elif [ $full = 1 ]; then list=$(for _ in $(seq 1 200); do echo $((RANDOM % calls + 1)); done)
        else list=$((RANDOM % calls + 1)); fi
        for at in $list; do try "$kind" $how "$at"; done
    done
    most=400
    if [ "$kind" = part ]; then most=4000; fi
    if [ $full = 1 ]; then for _ in $(seq 1 20); do try "$kind" time $((RANDOM % most)); done
    else try "$kind" time $((RANDOM % 50)); fi
    # allocations: first those of a small number each, then spread over all of them
    kind=$kind how=reference
    case $kind in part | check | explain) continue ;; esac # the latter two: torture_journal.sh
    reference memory
    if [ $full = 1 ]; then step=$((calls / 150 + 1)); else step=$((calls / 2 + 1)); fi
    for at in $(seq $((RANDOM % step + 1)) $step "$calls"); do try "$kind" memory "$at"; done
    dry=1
    if [ $full = 1 ]; then dry=10; fi
    for _ in $(seq 1 $dry); do try "$kind" dry $(((RANDOM * 32768 + RANDOM) % calls + 1)); done
done
for how in full once kill time memory dry; do echo "$how: ${tries[$how]} tries"; done
counts
