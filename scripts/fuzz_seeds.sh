#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# fuzz_seeds.sh: makes the corpora anew that a change of format or settings makes unreadable: kits,
# journals, training data, models, databases and what else the program writes. `check_program.sh` says when that is due.
set -eu
cd "$(dirname "$0")/.."
scripts/build.sh release preflight_cli
root=$PWD preflight=$PWD/build/release/preflight corpus=$PWD/tests/fuzz/corpus
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
cat >attitude.yaml <<'Y'
tasks:
  - {name: run, mechanisms: [1, 2], command: [[0, .1, .1, 0, 0, 0, 0, 0], [0, .1, .1, 0, 0, 0, 0, 0]]}
Y
cat >tiny.yaml <<'Y'
id: tiny
title: four trials
environments: [pump_tank]
methods: [random, eg-mpt]
gains: [.35]
sigma: .06
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
mkdir -p "$corpus"/{model,checkpoint,library,audit,catalogue,database,fmu,hello,part,settings,suite,zip}
cp recursive trajectory "$corpus/model/"

"$preflight" design dc_servo -o "$corpus/library/designed" --threads 1 >/dev/null
cat >"$corpus/library/written" <<'Y'
plant: dc_servo
mechanisms: [motor_0, motor_1, motor_2, motor_3]
probes:
  - {name: a, pulse: {mechanism: 1, amplitude: .5, steps: 3, rows: 6}, charge: .1}
  - {name: b, command: [[0, .1, .2, 0], [0, 0, .1, .3]], targets: [motor_1, motor_2]}
Y

cat >"$corpus/catalogue/two" <<'Y'
entries: [{name: healthy, fault: none}, {name: half, fault: gain, value: .5}]
Y
cp "$root/data/catalogue.yaml" "$corpus/catalogue/shipped"
"$preflight" calibrate attitude -o attitude.kit --config attitude.yaml "${small[@]}" >/dev/null
"$preflight" audit attitude.kit -o "$corpus/audit/whole" --catalogue "$corpus/catalogue/two" --sessions 4 --seed 1 \
    --threads 1 >/dev/null
"$preflight" audit attitude.kit -o rules --catalogue "$corpus/catalogue/two" --sessions 2 --rules --threads 1 >/dev/null
cp rules "$corpus/audit/rules"

cp "$root"/suites/{compact-plants,coordinate,many-faults,mechanism,verdict}.yaml "$corpus/suite/"
cp tiny.yaml "$corpus/suite/"
"$preflight" bench run tiny.yaml --db tiny.db --profile quick --threads 1 >/dev/null 2>&1

cp "$corpus/config/design.yaml" "$corpus/settings/design"
printf 'alpha: .05\n\0bins=4\0budget.stage1=3\0prior=[.9,.05,.05]\0method=sept\0rehearse=none\0' >"$corpus/settings/overrides"
printf 'epochs: 3\nwidth: 8\n\0layers=2\0kind=best\0held_out=.2\0' >"$corpus/settings/training"
{
    echo '{"op":"hello"}'
    echo '{"op":"roll","id":1,"seed":3,"gains":[1,1,1,1],"commands":[[0,1,0,0],[0,1,0,0],[0,0,0,0]],"noise":true}'
} | python3 "$root/examples/exec_plant.py" >"$corpus/hello/rooms" || true

python3 - "$corpus" tiny.db <<'P'
import hashlib
import json
import sqlite3
import struct
import sys

corpus, database = sys.argv[1:]

# an FMU of either version, and their archives
import io
import zipfile

scalar = ('<ScalarVariable name="%s" valueReference="%d" causality="%s"><Real declaredType="T" start="%g" '
          'min="-2" max="3"/></ScalarVariable>')
two = ('<?xml version="1.0" encoding="UTF-8"?>\n<fmiModelDescription fmiVersion="2.0" modelName="m" guid="{1}">\n'
       '<CoSimulation modelIdentifier="m" canGetAndSetFMUstate="true"/>\n<TypeDefinitions><SimpleType name="T">'
       '<Real min="-1" max="2"/></SimpleType></TypeDefinitions>\n<DefaultExperiment startTime="0" stopTime="1" '
       'stepSize="1e-2" tolerance="1e-6"/>\n<ModelVariables>\n' + scalar % ("u[1]", 1, "input", .5) + "\n" +
       scalar % ("y", 2, "output", 0) + "\n</ModelVariables></fmiModelDescription>\n")
three = ('<fmiModelDescription fmiVersion="3.0" modelName="m" instantiationToken="{1}">\n<CoSimulation '
         'modelIdentifier="m" canGetAndSetFMUState="true"/>\n<TypeDefinitions><Float64Type name="T" min="-1"/>'
         '</TypeDefinitions>\n<DefaultExperiment stepSize="1"/>\n<ModelVariables>\n<UInt64 name="n" '
         'valueReference="1" causality="structuralParameter" start="3"/>\n<Float64 name="u" valueReference="2" '
         'causality="input" start="1 2 3"><Dimension valueReference="1"/></Float64>\n<Float32 name="w" '
         'valueReference="3" causality="input" start="1" declaredType="T"><Dimension start="2"/></Float32>\n<Int8 '
         'name="i" valueReference="4" causality="input"/>\n<Float64 name="y" valueReference="5" '
         'causality="output"/>\n</ModelVariables></fmiModelDescription>\n')
for name, text in (("two", two), ("three", three)):
    open(f"{corpus}/fmu/{name}", "w").write(text)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED if name == "two" else zipfile.ZIP_STORED) as archive:
        for entry, data in (("modelDescription.xml", text), ("binaries/linux64/m.so", "m" * 300),
                            ("binaries/win64/m.dll", "w"), ("resources/a/b", "")):
            archive.writestr(zipfile.ZipInfo(entry, (2026, 1, 1, 0, 0, 0)), data, archive.compression)
    open(f"{corpus}/zip/{name}", "wb").write(packed.getvalue())

# a database without its kits, in small pages
db = sqlite3.connect(database)
db.execute("DELETE FROM kit")
db.commit()
db.execute("PRAGMA journal_mode=DELETE")
db.execute("PRAGMA page_size=512")
db.execute("VACUUM")
db.close()
open(f"{corpus}/database/tiny", "wb").write(open(database, "rb").read())

# a checkpoint of the member in tests/fuzz/fuzz_checkpoint.c; the target seals it
n, tensors, at, header = 14, [], 0, {}
for name, shape in (("first", [n]), ("history", [2, 3]), ("kept", [n]), ("second", [n]), ("theta", [n])):
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
    tensors += [.125 * i for i in range(count)]
    at += 4 * count
header["__metadata__"] = {"format": "preflight-checkpoint", "training": "fuzz", "member": "0", "epoch": "1",
                          "best_epoch": "1", "turn": "0", "best": "0x1p-3", "finished": "0",
                          "contents_sha256": "0" * 64}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(f"{corpus}/checkpoint/first", "wb").write(struct.pack("<Q", len(text)) + text +
                                               struct.pack(f"<{len(tensors)}f", *tensors))

# parts of the job in tests/fuzz/fuzz_part.c; the target seals them
image = b"PFPART1\n" + bytes(32)
for stage, item, numbers in [(1, i, 3) for i in range(12)] + [(2, i, 1) for i in range(5)]:
    image += struct.pack("<IIQ16s", stage, 8 * numbers, item, bytes(16)) + struct.pack(f"<{numbers}d", *[item] * numbers)
open(f"{corpus}/part/whole", "wb").write(image)
open(f"{corpus}/part/torn", "wb").write(image[:333])

# a hello with everything that one may say, and an answer
everything = {"name": "all", "version": "1", "dt": .1, "state_size": 2, "deterministic": True, "timeout": 5,
              "mechanisms": [{"name": "base", "lo": 0, "hi": 1}, {"name": "lift", "lo": -1, "hi": 1}, "tilt"],
              "channels": [{"name": "angle", "kind": "angle"}, "height"],
              "probe": {"amplitude": .5, "steps": 3, "rows": 5}, "task": {"amplitude": [.1, .2, .3], "steps": 2},
              "reveal": [.5, .5, .5], "importance": [1, 1, 1], "charge": [.1, .1, .1], "sensor_noise": .01,
              "metrics": ["return", "cost"], "draws": 2, "tasks": [{"name": "hold", "mechanisms": [1, 2], "rows": 4}],
              "faults": [{"name": "stick", "on": "mechanism", "least": 0, "most": 1}]}
answer = {"id": 1, "start": [0, 1], "initial": [0, 0], "output": [[0, 1], [1, 2], [2, 3]],
          "metrics": {"return": .9, "cost": 2}, "returns": [[.5, .6], [.7, .8]], "beyond": [0, 1]}
open(f"{corpus}/hello/everything", "w").write(json.dumps(everything) + "\n" + json.dumps(answer) + "\n")
P
du -sh "$corpus"/*
