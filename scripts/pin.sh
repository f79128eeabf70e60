#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# pin.sh [FILE.in...]: writes beside every list of Python packages (scripts/requirements*.in,
# perf/requirements.in) a .txt with the versions of all that they need and the hashes of their files,
# which is what is installed (pip install --require-hashes). Needs pip-compile of the package pip-tools.
# What a .txt has already keeps its version; remove the line to get a newer one.
# pin.sh --check [FILE.in...]: whether every .txt fits its list, all with hashes and no address.
set -eu
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
[ $# -gt 0 ] || set -- scripts/requirements*.in perf/requirements.in
for list in "$@"; do
    file=${list%.in}.txt
    if [ -z "$check" ]; then
        pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
            --no-emit-index-url --no-emit-trusted-host --no-emit-options --output-file "$file" "$list"
        sed -i "1i # from $(basename "$list") by scripts/pin.sh: pip install --require-hashes -r $file" "$file"
    fi
    awk -v file="$file" '
        /^#/ || /^$/ { next }
        /^[a-zA-Z0-9_.-]+==[a-zA-Z0-9_.+-]+ *\\?$/ {
            if (FILENAME != file) { wanted[$1]; next }
            if (name && !hashes) bad = bad " " name
            name = $1; hashes = 0; delete wanted[$1]; next
        }
        FILENAME == file && /^ +--hash=sha256:[0-9a-f]+ *\\?$/ && name { hashes++; next }
        { bad = bad " " $0 }
        END {
            if (!name || !hashes) bad = bad " " name
            for (w in wanted) bad = bad " " w
            if (bad) { print file ": no such version, no hash, or a line that pip-compile did not write:" bad; exit 1 }
        }' "$list" "$file"
done
