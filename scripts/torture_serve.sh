#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_serve.sh [short|full]: one server answers 4,000 or 1,000,000 requests of clients that send garbage
# between the requests of a session, leave in its midst, knock while another is served and take no replies;
# another server drops clients that stay and take none, and another has a plant that dies
# (tests/torture/serve.py). Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
build release preflight_cli
program=$PWD/build/release/preflight
requests=4000
[ "${1:-short}" = full ] && requests=1000000
work=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)/torture.XXXXXX") # a sync costs nothing there
trap 'rm -rf "$work"' EXIT
sed 's/^for line in sys.stdin:/import os\nlife = random.Random(os.getpid())\nfor line in sys.stdin:\n    if life.random() < .05: os._exit(9)/' \
    tests/torture/rig.py >"$work/dying.py"
small="--threads 1 --set bins=2 --set episodes=20 --set alarm_trials=100 --progress none"
# shellcheck disable=SC2086
"$program" calibrate "exec:python3 tests/torture/rig.py" -o "$work/rig.kit" $small >"$work/log" 2>&1 &&
    "$program" calibrate dc_servo -o "$work/a.kit" $small >"$work/log" 2>&1 &&
    "$program" check "$work/a.kit" --seed 1 --fault 2:.5 --journal "$work/session.journal" >"$work/log" 2>&1 || { cat "$work/log"; echo "0 passed, 1 failed"; exit 1; }
python3 tests/torture/serve.py "$program" "$work" $requests
