#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# fuzz_seeds.sh: makes the corpora anew that a change of format or settings makes unreadable: kits,
# journals, training data, models. `check_program.sh` says when that is due.
set -eu
cd "$(dirname "$0")/.."
scripts/build.sh release preflight_cli
preflight=$PWD/build/release/preflight corpus=$PWD/tests/fuzz/corpus
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >small.yaml <<'Y'
probes:
  - {name: a, pulse: {mechanism: 1, amplitude: 1, steps: 3}}
  - {name: b, pulse: {mechanism: 2, amplitude: 1, steps: 3}}
tasks:
  - {name: run, mechanisms: [1, 2], command: [[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]]}
Y
small=(--threads 1 --set bins=2 --set episodes=20 --set alarm_trials=100 --set members=2 --set grid=2)

# two mechanisms, two channels, 20 runs each healthy and at two gains
awk 'function run(name, m, gain, j,  e, s) {
    for (e = 0; e < 20; e++) { n++; for (s = 1; s <= 3; s++)
        printf "%d,p%d,%s,%s,%d,%.4f,%.4f,0,%d,%d\n", n, j, m, gain, s,
            (j == 1 ? gain * s : 0) + .02 * (rand() - .5), (j == 2 ? gain * s : 0) + .02 * (rand() - .5),
            j == 1, j == 2 } }
BEGIN { srand(1); print "episode,probe,mechanism,gain,step,x,y,u0,u1,u2"
    for (j = 1; j <= 2; j++) { run("p", "", 1, j); run("p", "u" j, .35, j); run("p", "u" j, .8, j) } }' >log.csv

"$preflight" calibrate dc_servo --config small.yaml -o small "${small[@]}"
"$preflight" calibrate dc_servo --config small.yaml -o many --faults many "${small[@]}"
"$preflight" calibrate dc_servo --config small.yaml -o transport --set posterior=transport "${small[@]}"
"$preflight" calibrate --recordings log.csv -o recorded --threads 1
cp small many transport recorded "$corpus/kit/"

for kit in small many; do
    "$preflight" check "$kit" --fault 2:0.35 --seed 3 --journal "$kit.journal" >/dev/null || [ $? = 1 ]
done
"$preflight" check small --journal whole.journal >/dev/null
cp whole.journal "$corpus/journal/whole"
cp small.journal "$corpus/journal/state"
cp many.journal "$corpus/journal/many"

tiny=(--profile quick --threads 1 --set epochs=1 --set members=1 --set layers=1 --set width=2)
"$preflight" train dc_servo -o recursive --kind recursive --set transitions=100 "${tiny[@]}" >/dev/null
"$preflight" train dc_servo -o trajectory --kind trajectory --set transitions=8000 "${tiny[@]}" >/dev/null
cp recursive.data "$corpus/transitions/dc_servo"
cp recursive "$corpus/safetensors/model"
cp trajectory "$corpus/safetensors/trajectory"
ls -l "$corpus"/{kit,journal,transitions,safetensors}
