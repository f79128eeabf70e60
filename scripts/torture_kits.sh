#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_kits.sh [short|full]: no kit with an edited field says go for a dead actuator. Calibrates kits, edits
# every field of each in one place at a time, seals them again, and checks machines without each actuator in
# turn (tests/torture/kits.c). full: more kits and elements, minutes each. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
scripts/build.sh release preflight_cli torture_kits || exit 1
program=build/release/preflight torture=build/release/torture_kits
work=build/torture
mkdir -p "$work"
passed=0 failed=0

torture() { # torture KIT PLANT EACH [OPTIONS]: EACH elements of each field
    local line
    echo "== $*"
    "$torture" "$work/$1.kit" "${@:2}" >"$work/$1.txt" || true
    grep -E '^ *(go|broke):|^[0-9]+ edits|are lost' "$work/$1.txt"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$work/$1.txt" || echo "0 passed, 1 failed")
    passed=$((passed + $(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$line")))
    failed=$((failed + $(sed -E 's/^[0-9]+ passed, ([0-9]+) failed.*/\1/' <<<"$line")))
}
make_kit() { # make_kit KIT ARGUMENTS...: calibrates it
    "$program" calibrate "${@:2}" -o "$work/$1.kit" --progress none >/dev/null || failed=$((failed + 1))
}

make_kit dc_servo dc_servo
torture dc_servo dc_servo 1 --list
if [ "${1:-}" = full ]; then
    for plant in attitude quad_tank wood_berry aircraft cartpole pump_tank reaction_wheel; do
        make_kit $plant $plant
        torture $plant $plant 6 --list
    done
    torture dc_servo dc_servo 4 --accept --list
    make_kit many attitude --faults many
    torture many attitude 4 --list
    "$program" train dc_servo -o "$work/servo.model" --profile quick --progress none >/dev/null 2>&1
    make_kit learned dc_servo --predictor "ensemble:$work/servo.model"
    torture learned dc_servo 2 --model "$work/servo.model" --list
    python3 examples/record.py >"$work/log.csv"
    make_kit recorded --recordings "$work/log.csv"
    torture recorded "exec:python3 tests/torture/rig.py" 1 --list
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
