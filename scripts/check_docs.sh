#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Relative links in the documents lead somewhere, files that CONTRIBUTING.md and the documents name
# exist, and CITATION.cff has the version of the header. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
for page in *.md docs/*.md docs/results/*.md; do
    [ -f "$page" ] || continue
    folder=$(dirname "$page")
    # [text](file#place), and `folder/file` with no pattern and no NAME in it
    for name in $(grep -oE '\]\([^)#: ]+[)#]' "$page" | tr -d ')#' | sed -E "s,^\]\(,$folder/,") \
                $(grep -oE '`(src|include|tests|scripts|docs|suites|data|examples|cmake|perf|python)/[a-z0-9_./-]+`' "$page" | tr -d '`'); do
        [ -e "$name" ]
        ok $? "$page names $name, which is not there"
    done
done
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)
grep -qx "version: $version" CITATION.cff && grep -q "^## $version\$" CHANGELOG.md
ok $? "CITATION.cff and CHANGELOG.md have the version $version"
counts
