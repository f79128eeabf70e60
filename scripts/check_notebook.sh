#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Runs examples/notebook.ipynb in Jupyter's own kernel: no cell fails, tables and pictures come out
# (scripts/check_notebook.py). Installs the kernel into build/notebook. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
python=$PWD/build/venv/bin/python kernel=$PWD/build/notebook
if ! cmp -s scripts/requirements-notebook.txt "$kernel/.requirements"; then
    rm -rf "$kernel"
    if "$python" -c 'import numpy, pandas, matplotlib' 2>/dev/null &&
       timeout 900 "$python" -m pip install -q --disable-pip-version-check --target "$kernel" \
           --require-hashes -r scripts/requirements-notebook.txt >build/notebook.log 2>&1; then
        cp scripts/requirements-notebook.txt "$kernel/.requirements"
    else
        skip "the notebook" "no build/venv, or no kernel: $(tail -n 1 build/notebook.log 2>/dev/null)"
    fi
fi
build release preflight_python
export PYTHONPATH=$PWD/python:$kernel PREFLIGHT_LIBRARY=$PWD/build/release/libpreflight_python.so
export PYTHONDONTWRITEBYTECODE=1 JUPYTER_PLATFORM_DIRS=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
IPYTHONDIR=$folder JUPYTER_CONFIG_DIR=$folder JUPYTER_DATA_DIR=$folder JUPYTER_RUNTIME_DIR=$folder \
    "$python" scripts/check_notebook.py examples/notebook.ipynb
