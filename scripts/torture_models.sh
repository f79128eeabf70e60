#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture_models.sh [short|full]: 60 or 5,000 edited MJCF and URDF files (tests/torture/models.py). Findings
# are left in build/torture. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
ls -d build/venv/lib/python3*/site-packages/mujoco >/dev/null 2>&1 ||
    skip "edited models" "without MuJoCo: make deps"
build release preflight_cli
count=60
[ "${1:-short}" = full ] && count=5000
mkdir -p build/torture/models
python3 tests/torture/models.py build/release/preflight build/torture/models $count examples/arm.xml tests/models/*.xml tests/models/*.urdf
