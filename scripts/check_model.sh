#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Model files against the safetensors package and NumPy (scripts/check_model.py), in the pinned
# environment build/venv. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
python=build/venv/bin/python
"$python" -c 'import numpy, safetensors' 2>/dev/null ||
    skip "models in Python" "no build/venv with numpy and safetensors"
# one after the other: an older build folder learns of model_roll while it builds the first
build release preflight_cli
build release model_roll
"$python" scripts/check_model.py build/release/preflight build/release/model_roll
