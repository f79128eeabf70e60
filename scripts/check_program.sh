#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The program as a person meets it: the bare build on a machine without any library, the examples of
# every --help, an exec: plant in Python; and the speed programs. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/counting.sh

# a compiler, make and cmake alone
cmake -S . -B build/bare -DPF_BARE=ON -DCMAKE_BUILD_TYPE=Release >/dev/null &&
    cmake --build build/bare --target preflight_cli -j "$(nproc)" >"$work/bare.log" 2>&1
ok $? "the bare build"
bare=$root/build/bare/preflight
"$bare" demo >"$work/demo.txt"
ok $? "demo of the bare build"
grep -q 'NO-GO: it returns\|NO-GO because' "$work/demo.txt" && grep -q 'when it is flown' "$work/demo.txt"
ok $? "demo flies the tasks"
"$bare" demo --report "$work/d.html" 2>"$work/err"; [ $? = 3 ] && grep -q jansson "$work/err" && [ ! -e "$work/d.html" ]
ok $? "demo --report without jansson names it"
"$bare" list >/dev/null 2>"$work/err"; [ $? = 3 ] && grep -q 'no experiments' "$work/err"
ok $? "list of the bare build names what is missing"
"$bare" calibrate attitude -o "$work/a.kit" >/dev/null && "$bare" check "$work/a.kit" --journal "$work/j" >/dev/null
ok $? "calibrate and check of the bare build"
"$bare" replay "$work/j" 2>"$work/err"; [ $? = 3 ] && grep -q jansson "$work/err"
ok $? "replay without jansson names it"
echo 'bins: 3' >"$work/b.yaml"
"$bare" calibrate attitude -o "$work/b.kit" --config "$work/b.yaml" 2>"$work/err"; [ $? = 3 ] && grep -q libyaml "$work/err"
ok $? "--config without libyaml names it"
"$bare" calibrate attitude -o "$work/b.kit" --set 'grid=[.2, .35, .5]' 2>"$work/err"; [ $? = 3 ] && grep -q libyaml "$work/err"
ok $? "a list in --set without libyaml names it"
"$bare" calibrate attitude -o "$work/b.kit" --set bins=3 >/dev/null
ok $? "a number in --set needs no libyaml"
"$bare" check "$work/a.kit" --plant exec:true 2>"$work/err"; [ $? = 3 ] && grep -q jansson "$work/err"
ok $? "exec: without jansson names it"

# the full program
scripts/build.sh release preflight_cli
program=$root/build/release/preflight
cd "$work" || exit 1
for command in demo list calibrate design check serve replay explain rollout kit data train model bench; do
    "$program" $command --help | grep -q Example
    ok $? "$command --help has an example"
done
"$program" calibrate attitude -o attitude.kit --set episodes=100 >/dev/null
ok $? "example of calibrate"
"$program" calibrate attitude -o b.full.kit --config b.yaml >/dev/null && cmp -s b.kit b.full.kit
ok $? "the kit with --set is that with --config"
"$program" design attitude -o attitude.probes >/dev/null
ok $? "example of design"
"$program" calibrate attitude -o designed.kit --probes attitude.probes --set episodes=100 >/dev/null
ok $? "calibrate with the library"
cmp -s attitude.kit designed.kit
ok $? "designed in place or from the file, the kit is the same"
"$program" check attitude.kit --fault 3:0.35 --seed 7 --journal run.jsonl >/dev/null
ok $? "example of check"
"$program" replay run.jsonl >/dev/null
ok $? "example of replay"
"$program" explain run.jsonl | grep -q 'ALARM'
ok $? "example of explain"
if "$program" list plants | grep '^mujoco:' | grep -qv 'not in this build'; then
    "$program" demo "mujoco:$root/examples/arm.xml" | grep -q 'shoulder: GO. Send shoulder'
    ok $? "example of a model file"
fi
"$program" kit show attitude.kit --json | python3 -c 'import json, sys; json.load(sys.stdin)'
ok $? "kit show --json is JSON"
echo '{"op":"ask"}' | "$program" serve attitude.kit | grep -q '"ask":"probe"'
ok $? "example of serve"
python3 - >pulse.csv <<'P'
print(",".join(f"u{j}" for j in range(8)))
for _ in range(8):
    print("0,0.26,0,0,0,0,0,0")
P
"$program" rollout attitude --commands pulse.csv --mean-reset --no-noise | tail -n 1 |
    python3 -c '
import sys
got = [float(v) for v in sys.stdin.read().split(",")[1:]]
want = [0.00125349952, 0.00141089319, -0.00257546194, 0.000626614926, 0.000705648137, -0.00128768164]
sys.exit(any(abs(a - b) > 1e-7 * abs(b) for a, b in zip(got, want)))'
ok $? "rollout gives the validation values"
if [ -f "$root/examples/exec_plant.py" ]; then
    "$program" calibrate "exec:python3 $root/examples/exec_plant.py" -o own.kit --set episodes=40 >/dev/null
    ok $? "calibrate on a Python program"
    "$program" check own.kit --allow-exec --fault 2:0.35 >own.txt; [ $? -le 1 ] && grep -q 'ALARM' own.txt
    ok $? "check of a Python program finds the fault"
fi
for seed in "$root"/tests/fuzz/corpus/kit/*; do
    "$program" kit show "$seed" >/dev/null
    ok $? "fuzzing starts from a kit that can be read: ${seed##*/} (else scripts/fuzz_seeds.sh)"
done
# the programs of `make bench`
cd "$root" || exit 1
scripts/build.sh release bench_programs
ok $? "the speed programs are built"
build/release/perf/bench_stage1 | grep -q '^stage1_opportunity_16_candidates,[0-9.]*,ns$'
ok $? "one of them runs"
printf '.01\n.01\n' | build/release/perf/bench_stage1 turns pulses "$work/problem" | grep -c '^turn,[0-9.e+]*,[0-9.]*,[0-9.]*$' | grep -qx 2
ok $? "it takes turns"
counts
