#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# symbols.sh BUILD_DIR: debian/symbols as it must be for a build: every exported function, the library that has
# it (lab has those of the core too) and the version that it came with. `make deb` makes the symbols files of the
# packages from it. A function that a version had goes only when the minor version rises, which is in the names
# of the libraries. symbols.sh --write BUILD_DIR: writes it.
set -eu
cd "$(dirname "$0")/.."
write=
if [ "${1:-}" = --write ]; then write=1; shift; fi
build=${1:?usage: scripts/symbols.sh [--write] BUILD_DIR}
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)
exported() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u; }

table=$(
    echo "# function library since: made by scripts/symbols.sh"
    {
        grep -v '^#' debian/symbols 2>/dev/null | sed 's/^/was /'
        exported "$build/lib/libpreflight.so" | sed 's/^/core /'
        exported "$build/lib/libpreflight_lab.so" | sed 's/^/lab /'
    } | awk -v version="$version" '
        function minor(v) { sub(/\.[0-9]+$/, "", v); return v }
        # those of an earlier minor version are all new in the first of this one
        $1 == "was" { if (minor($4) == minor(version)) { since[$2] = $4; in_core[$2] = $3 == "core" }; next }
        $1 == "core" { core[$2]; next }
        {
            print $2, ($2 in core ? "core" : "lab"), ($2 in since ? since[$2] : version)
            # what left the core is gone for who links it alone
            if (!in_core[$2] || $2 in core) delete since[$2]
        }
        END {
            for (name in since) if (since[name] != version) {
                print "scripts/symbols.sh: " name " was in " since[name] " and is gone: raise the minor version" >"/dev/stderr"
                gone = 1
            }
            exit gone
        }'
)
if [ -n "$write" ]; then echo "$table" >debian/symbols; else echo "$table"; fi
