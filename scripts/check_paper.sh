#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# docs/paper.md maps the paper to the code: every label of data/paper_labels.csv has a row with at least
# one function, suite or test (or "not computed"), every function named is defined in the file beside
# it, every suite exists and every suite is on the page; labels in comments of the code are the
# paper's. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
page=docs/paper.md
. scripts/counting.sh

# a definition starts in the first column and is no declaration, which ends in a semicolon
defined() { # defined NAME FILE...: the files that define it
    awk -v name="$1" '
        FNR == 1 { head = "" }
        /^[A-Za-z_]/ && !/^#/ { head = "" }
        /^[A-Za-z_ ]/ && (head != "" || $0 ~ "^[A-Za-z_][A-Za-z0-9_ *]*[ *]" name "\\(") {
            head = head $0
            if (head ~ /;/) { head = "" }
        }
        /^{/ { if (head != "") { print FILENAME } head = "" }' "${@:2}" | sort -u
}

while IFS=, read -r label kind part; do
    row=$(grep -F "| \`$label\` |" "$page")
    [ "$(grep -c . <<<"$row")" = 1 ] && grep -qE '`(src|tests|suites)/|not computed' <<<"$row"
    ok $? "$kind $label ($part) has one row in $page that says where"
done < <(tail -n +2 data/paper_labels.csv)

while read -r name file; do
    [ -n "$(defined "$name" "$file" 2>/dev/null)" ]
    ok $? "$page: $name is not defined in $file; it is in: $(defined "$name" $(find src tests -name '*.c') | tr '\n' ' ')"
done < <(grep -oE '`[a-z0-9_]+` \(`[^`]+`' "$page" | tr -d '`(' | sort -u)

for suite in $(grep -oE 'suites/[a-z0-9-]+\.yaml' "$page" | sort -u); do
    [ -f "$suite" ]
    ok $? "$page: there is no $suite"
done
for suite in suites/*.yaml; do
    grep -qF "$suite" "$page"
    ok $? "$suite is missing in $page"
done
for label in $(sed -n 's/^eq:\(.*\),equation,main$/\1/p' data/paper_labels.csv); do
    grep -rqE "(Eq\.|,| and|^ *//) $label\b" include src tests
    ok $? "no comment in the code names Eq. $label"
done
for label in $(grep -rhoE 'Eq\. [a-z0-9_]+' include src tests | sed 's/Eq\. //' | sort -u); do
    grep -qE "^eq:$label," data/paper_labels.csv
    ok $? "a comment names Eq. $label, which the paper does not have"
done
counts
