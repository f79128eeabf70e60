#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# domains.sh [DIR]: installs Grid2Op, highway-env and gym-invmgmt, as pinned, with our Python package
# into an environment of their own, since their versions and those of build/venv do not go together.
# DIR is build/domains, where a program of this tree looks, or another folder; every program looks
# into $XDG_DATA_HOME/preflight/domains (~/.local/share/preflight/domains). A no-op when present.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/domains} wanted=scripts/requirements-domains.txt

if [ ! -x "$folder/bin/python" ]; then
    mkdir -p "$(dirname "$folder")"
    python3 -m venv "$folder"
fi
if ! cmp -s "$wanted" "$folder/installed.txt"; then
    echo "domains: installing into $folder"
    "$folder/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$wanted"
    cp "$wanted" "$folder/installed.txt"
fi
# a program of this tree runs the package's source, others run this copy
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
rm -rf "$packages/preflight"
mkdir "$packages/preflight"
cp python/preflight/*.py "$packages/preflight"
