#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [TARGET...]: configures if needed and builds, quietly unless something fails.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
dir=build/$preset
mkdir -p build
exec 9>"$dir.lock" # steps of the checks that want the same build take turns
flock 9
# a changed set of libraries reconfigures
found=$(ls /usr/include/yaml.h /usr/include/jansson.h /usr/include/sqlite3.h /usr/include/zip.h /usr/include/expat.h \
    /usr/bin/mpicc 2>/dev/null | tr '\n' ' ' || true)
case $preset in
embedded | board | fuzz) ;; # without MuJoCo
*) found+=$(ls -d build/venv/lib/python3*/site-packages/mujoco/libmujoco.so.* \
    build/venv/lib/python3*/site-packages/gymnasium-*.dist-info 2>/dev/null | tr '\n' ' ' || true) ;;
esac
if [ ! -f "$dir/CMakeCache.txt" ] || [ "$(cat "$dir/.found" 2>/dev/null || true)" != "$found" ]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    cmake --preset "$preset" >"$dir/configure.log" 2>&1 || { cat "$dir/configure.log"; exit 1; }
    printf '%s' "$found" >"$dir/.found"
fi
args=(--build "$dir" -j "${JOBS:-$(nproc)}")
[ $# -gt 0 ] && args+=(--target "$@")
cmake "${args[@]}" >"$dir/build.log" 2>&1 || { grep -E 'error|Error|warning' "$dir/build.log" || tail -n 40 "$dir/build.log"; exit 1; }
