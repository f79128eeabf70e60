#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# source.sh FOLDER: a copy of the sources as they are now, of the files that git knows, in a new FOLDER, for `make
# wheel` and `make deb`. Its file COMMIT says of which commit it is, which the program built there prints, and
# when that was, which is the time that packages give their files.
set -eu
cd "$(dirname "$0")/.."
to=${1:?usage: scripts/source.sh FOLDER}
rm -rf "$to"
mkdir -p "$to"
to=$(cd "$to" && pwd)
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
    # files that are deleted but still known to git are not there to copy
    git ls-files -z --cached | while IFS= read -rd '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done >"$to.files"
    when=$(git log -1 --format=%ct)
else # itself a copy
    find . -path ./build -prune -o -type f -print0 >"$to.files"
    when=$(sed -n 2p COMMIT 2>/dev/null || true)
fi
tar -c --null -T "$to.files" | tar -x -C "$to"
rm "$to.files"
cmake -DSOURCE="$PWD" -DOUTPUT="$to.commit.h" -P cmake/commit.cmake
{
    sed -E 's/.*"(.*)"/\1/' "$to.commit.h"
    echo "${when:-$(stat -c %Y include/preflight/base.h)}"
} >"$to/COMMIT"
rm "$to.commit.h"
