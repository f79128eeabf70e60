#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The Python package: builds its wheel, installs it into a folder of its own and runs its tests
# (bits, bridge, faults, leaks, threads, examples) against the program. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
python=${PF_TEST_PYTHON:-$PWD/build/venv/bin/python}
"$python" -c 'import numpy, gymnasium, Box2D, pygame, pandas, matplotlib, scikit_build_core' 2>/dev/null ||
    skip "the Python package" "no build/venv with what scripts/requirements.txt lists: make deps"
build release preflight_cli hello_example
package=$PWD/build/python-package
rm -rf "$package"
if ! CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} "$python" -m pip install -q --disable-pip-version-check \
    --no-build-isolation --no-deps --target "$package" . >build/python.log 2>&1; then
    tail -n 20 build/python.log
    echo "0 passed, 1 failed"
    exit 1
fi
export PYTHONPATH=$package PYTHONWARNINGS=${PYTHONWARNINGS:-ignore::DeprecationWarning}
export PYTHONDONTWRITEBYTECODE=1 PYGAME_HIDE_SUPPORT_PROMPT=1 SDL_VIDEODRIVER=dummy MPLBACKEND=Agg
exec "$python" python/tests/run.py "$@"
