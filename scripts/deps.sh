#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# deps.sh [system|python|release]: installs what the full build and the tests use, where that is possible:
# Debian packages (system), and a pinned Python environment in build/venv (python); or what `make deb` and its
# test use beside that (release). Quick and silent
# when all is present; one line and on without it when the machine is offline, not Debian or not ours.
set -u
cd "$(dirname "$0")/.."
what=${1:-all}

packages=(gcc libc6-dev make cmake pkg-config clang clang-format libclang-rt-14-dev libyaml-dev
          libjansson-dev libzip-dev libexpat1-dev libsqlite3-dev libopenblas-dev libopenmpi-dev openmpi-bin gnuplot-nox
          locales openssh-client python3 python3-venv)
if [ "$what" = release ]; then packages+=(dpkg-dev debhelper fakeroot lintian debootstrap); fi
missing=()
[ "$what" = python ] || for p in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "deps: going on without ${missing[*]} (not root, or no apt-get)"
    else
        log=$(mktemp)
        echo "deps: installing ${missing[*]}"
        if ! { timeout 600 apt-get update -qq &&
               DEBIAN_FRONTEND=noninteractive timeout 1200 apt-get install -y -qq \
                   --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
            echo "deps: going on without some of ${missing[*]} ($(tail -n 1 "$log"))"
        fi
        rm -f "$log"
    fi
fi

# The Python environment is rebuilt when the list of versions changes.
stamp=build/venv/.requirements
if [ "$what" != system ] && [ "$what" != release ] && ! cmp -s scripts/requirements.txt "$stamp" 2>/dev/null; then
    rm -rf build/venv
    mkdir -p build
    if python3 -m venv build/venv >/dev/null 2>&1 &&
       timeout 900 build/venv/bin/pip install -q --disable-pip-version-check \
           --require-hashes -r scripts/requirements.txt >/dev/null 2>&1; then
        cp scripts/requirements.txt "$stamp"
    else
        echo "deps: going on without the Python environment (no MuJoCo systems, no \`make bench\`, a part of \`make check\`)"
        rm -rf build/venv
    fi
fi
exit 0
