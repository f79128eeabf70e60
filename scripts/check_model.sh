#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Model files against the safetensors package and NumPy (scripts/check_model.py), in the pinned
# environment build/venv. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
python=build/venv/bin/python
if ! "$python" -c 'import numpy, safetensors' 2>/dev/null; then
    # without the environment this is a skip, in CI a failure
    echo "SKIPPED models in Python (no build/venv with numpy and safetensors)"
    if [ -n "${CI:-}" ]; then echo "0 passed, 1 failed"; exit 1; fi
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
# one after the other: an older build folder learns of model_roll while it builds the first
scripts/build.sh release preflight_cli && scripts/build.sh release model_roll ||
    { echo "0 passed, 1 failed"; exit 1; }
"$python" scripts/check_model.py build/release/preflight build/release/model_roll
