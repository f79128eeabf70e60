#!/usr/bin/env bash
# results.sh SUITE... [--profile P] [--db FILE] [--program FILE] [-- OPTIONS of bench]
# Writes docs/results/SUITE.md and the suite's figure. Runs what the database does not have yet and
# recomputes a sample of what it has, so that the commit in the file is one that gives these numbers.
# The section "Notes" of the file before is kept. With OPTIONS (--set ...) name the file: --name NAME.
set -eu
cd "$(dirname "$0")/.."
profile=paper db=build/results.db program=build/release/preflight name='' suites=() options=()
while [ $# -gt 0 ]; do
    case $1 in
    --profile) profile=$2; shift 2 ;;
    --db) db=$2; shift 2 ;;
    --program) program=$2; shift 2 ;;
    --name) name=$2; shift 2 ;;
    --) shift; options=("$@"); break ;;
    -*) echo "results.sh: unknown option $1" >&2; exit 2 ;;
    *) suites+=("$1"); shift ;;
    esac
done
if [ ${#suites[@]} = 0 ]; then
    echo "results.sh: name a suite" >&2
    exit 2
fi
if [ ${#options[@]} -gt 0 ] && { [ -z "$name" ] || [ ${#suites[@]} != 1 ]; }; then
    echo "results.sh: with options name one suite and the file: --name NAME" >&2
    exit 2
fi

shown=''
for option in "${options[@]}"; do shown+=" $(printf '%q' "$option")"; done
changed=$(git status --porcelain src include suites data | grep -q . && echo ', with changes' || true)
mkdir -p docs/results docs/figures
figures=$(mktemp -d)
trap 'rm -rf "$figures"' EXIT

for suite in "${suites[@]}"; do
    file=docs/results/${name:-$suite}.md
    "$program" bench run "$suite" --profile "$profile" --db "$db" "${options[@]}"
    checked=$("$program" bench verify "$suite" --sample 20 --profile "$profile" --db "$db" "${options[@]}")
    "$program" bench table "$suite" --profile "$profile" --db "$db" "${options[@]}" >"$figures/table"
    "$program" bench figure "$suite" --profile "$profile" --db "$db" "${options[@]}" -o "$figures" >/dev/null
    for ending in svg png; do cp "$figures/$suite.$ending" "docs/figures/${name:-$suite}.$ending"; done
    {
        sed -n '1s/^## /# /p' "$figures/table"
        echo
        echo "| | |"
        echo "|---|---|"
        echo "| command | \`preflight bench run $suite --profile $profile$shown\` |"
        echo "| measured at | commit $(git rev-parse --short=7 HEAD)$changed, $(date +%F) |"
        echo "| checked | ${checked##*: } |"
        echo "| made by | \`scripts/results.sh $suite --profile $profile${name:+ --name $name}${shown:+ --$shown}\` |"
        echo
        echo "![${name:-$suite}](../figures/${name:-$suite}.svg)"
        sed 1d "$figures/table"
        [ ! -f "$file" ] || sed -n '/^## Notes$/,$p' "$file"
    } >"$figures/page"
    # one blank line at most, none at the end
    cat -s "$figures/page" | sed -e '$!b' -e '/^$/d' >"$file"
    echo "$file"
done
