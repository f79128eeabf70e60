#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# pin.sh [FILE.in...]: writes beside every list of Python packages (scripts/requirements*.in,
# perf/requirements.in) a .txt with the versions of all that they need and the hashes of their files,
# which is what is installed (pip install --require-hashes). Needs pip-compile of the package pip-tools.
# What a .txt has already keeps its version; remove the line to get a newer one.
# A list that begins with "# alone" is taken as it is, without what its packages ask for; "# source:" names
# those of which the source is wanted.
# pin.sh --check [FILE.in...]: whether every .txt fits its list, all with hashes and no address.
set -eu
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
[ $# -gt 0 ] || set -- scripts/requirements*.in perf/requirements.in

alone() { # alone LIST FILE: a package that is new has the hash of the one file that pip takes here
    local folder name hash
    folder=$(mktemp -d)
    touch "$2"
    grep -v '^#' "$1" | sort | while read -r name; do
        awk -v name="$name" '/^[^ ]/ { on = $1 == name } on' "$2" >"$folder/block"
        if [ ! -s "$folder/block" ]; then
            pip download --quiet --no-deps $(sed -n 's/^# source: //p' "$1" | sed 's/[^ ]*/--no-binary &/g') \
                --dest "$folder/files" "$name" || exit 1
            hash=$(sha256sum "$folder"/files/* | cut -d' ' -f1)
            rm -r "$folder/files"
            printf '%s \\\n    --hash=sha256:%s\n' "$name" "$hash" >"$folder/block"
        fi
        cat "$folder/block"
    done >"$folder/all" && mv "$folder/all" "$2"
    rm -r "$folder"
}

for list in "$@"; do
    file=${list%.in}.txt
    if [ -z "$check" ] && grep -q '^# alone' "$list"; then
        alone "$list" "$file"
    elif [ -z "$check" ]; then
        pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
            --no-emit-index-url --no-emit-trusted-host --no-emit-options --output-file "$file" "$list"
    fi
    if [ -z "$check" ]; then
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
