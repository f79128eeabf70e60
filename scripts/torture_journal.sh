#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_journal.sh [short|full]: journals that a power cut, a full disk, a kill or a failing allocation
# ends, at every byte, call and allocation (full) or a few of them: each replays as far as it goes, holds what
# was answered, and serve goes on from it; what check, replay and explain say is whole or refused
# (tests/torture/journal.py). Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
build release preflight_cli
program=$PWD/build/release/preflight shim=$PWD/build/torture/journal.so
mkdir -p build/torture
cc -shared -fPIC -O1 -o "$shim" tests/torture/fail.c -ldl || { echo "0 passed, 1 failed"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'entries:\n  - {name: half, fault: gain, value: .5}\n  - {name: lag, fault: lag, value: 2}\n' >"$work/few.yaml"
(cd "$work" && "$program" calibrate dc_servo -o a.kit --threads 1 --set bins=2 --set episodes=20 --set alarm_trials=100 \
    --progress none && "$program" audit a.kit --sessions 2 --threads 1 --catalogue few.yaml --progress none) >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "0 passed, 1 failed"; exit 1; }
python3 tests/torture/journal.py "$program" "$shim" "$work" "${1:-short}"
