#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# wheel.sh: `make wheel`. From a copy of the sources the sdist, from the sdist the wheel, both in an environment
# of their own, build/release-tools, with the tools of scripts/requirements-release.txt and nothing else.
# auditwheel puts libyaml, jansson and SQLite into the wheel and names it after the oldest C library that it
# runs with. Both end in build/dist.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "make wheel: $1" >&2; exit 1; }
tools=$PWD/build/release-tools work=$PWD/build/wheel dist=$PWD/build/dist

for header in yaml.h jansson.h sqlite3.h; do # a wheel without them could not do what it says
    [ -e "/usr/include/$header" ] || fail "/usr/include/$header is missing; run \`make deps\`"
done
if ! cmp -s scripts/requirements-release.txt "$tools/.requirements"; then
    rm -rf "$tools"
    python3 -m venv "$tools" && timeout 900 "$tools/bin/pip" install -q --disable-pip-version-check \
        --require-hashes -r scripts/requirements-release.txt || fail "the tools cannot be installed"
    cp scripts/requirements-release.txt "$tools/.requirements"
fi

rm -rf "$work"
scripts/source.sh build/wheel/source
SOURCE_DATE_EPOCH=$(sed -n 2p "$work/source/COMMIT")
export SOURCE_DATE_EPOCH
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
# not in an environment that build makes: there nothing would be pinned by hash
"$tools/bin/python" -I -m build --no-isolation --config-setting=cmake.define.PF_NO_OPENBLAS=ON \
    --config-setting=cmake.define.PF_NO_FMU=ON \
    --config-setting=cmake.define.PF_TREE=/nonexistent --outdir "$work/built" "$work/source" \
    >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "the sdist or the wheel is not built"; }
PATH=$tools/bin:$PATH auditwheel repair --wheel-dir "$work/repaired" "$work"/built/*.whl >"$work/audit" 2>&1 ||
    { tail -n 20 "$work/audit"; fail "auditwheel cannot make a wheel for other machines"; }
mkdir -p "$dist"
rm -f "$dist"/preflight_readiness-*
cp "$work"/built/*.tar.gz "$work"/repaired/*.whl "$dist"
(cd "$dist" && ls -l preflight_readiness-* | awk '{ printf "build/dist/%s: %.1f MB\n", $9, $5 / 1e6 }')
