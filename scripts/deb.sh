#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# deb.sh: `make deb`. Completes debian/ in a copy of the sources, builds the source package and the packages there,
# and has lintian judge them: an error or a warning fails. They end in build/dist. What depends on the version comes
# from include/preflight/base.h: the names of the libraries' packages, their symbols files, the changelog.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "make deb: $1" >&2; exit 1; }
work=$PWD/build/deb dist=$PWD/build/dist
for tool in dpkg-buildpackage dh lintian; do
    command -v $tool >/dev/null || fail "$tool is missing; run \`scripts/deps.sh release\` as root on Debian"
done
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)
so=${version%.*} # of the SONAME: a minor version of 0.x may break
source=$work/preflight-$version

symbols() { # symbols LIBRARY PACKAGE PATTERN: its symbols file, of the rows whose library fits
    printf '%s.so.%s %s%s #MINVER#\n* Build-Depends-Package: libpreflight-dev\n' "$1" "$so" "$2" "$so"
    awk -v which="$3" '!/^#/ && $2 ~ which { print " " $1 "@Base " $3 }' debian/symbols
}

rm -rf "$work"
scripts/source.sh "build/deb/preflight-$version"
(
    cd "$source"
    for template in debian/*.in; do
        file=${template%.in}
        sed "s/@SOVERSION@/$so/g" "$template" >"${file/@SOVERSION@/$so}"
        rm "$template"
    done
    symbols libpreflight libpreflight '^core$' >"debian/libpreflight$so.symbols"
    symbols libpreflight_lab libpreflight-lab . >"debian/libpreflight-lab$so.symbols"
    rm debian/symbols
    cat >debian/changelog <<C
preflight ($version) unstable; urgency=medium

  * Version $version. CHANGELOG.md says what is new.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(date -u -R -d "@$(sed -n 2p COMMIT)")
C
    DEB_BUILD_OPTIONS="noautodbgsym parallel=${JOBS:-$(nproc)} ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -us -uc \
        >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "not built; build/deb/log has all"; }
)
lintian --allow-root --fail-on error,warning "$work"/preflight_*.changes >"$work/lintian" 2>&1 ||
    { cat "$work/lintian"; fail "lintian finds errors or warnings"; }
mkdir -p "$dist"
rm -f "$dist"/*.deb "$dist"/preflight_[0-9]*
find "$work" -maxdepth 1 -type f -name '*preflight*_*' -exec cp {} "$dist" \;
(cd "$dist" && ls -l ./*.deb | awk '{ sub(/^\.\//, "", $9); printf "build/dist/%s: %.2f MB\n", $9, $5 / 1e6 }')
