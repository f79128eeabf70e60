#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh SECONDS: every fuzz target on its corpus and then for SECONDS on new inputs, a small reader
# for half as long. Findings are left in build/fuzz/findings. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
seconds=${1:-5}
if ! command -v clang >/dev/null; then
    echo "fuzz: needs clang and libclang-rt-14-dev"
    echo "0 passed, 1 failed"
    exit 1
fi
build fuzz fuzz_targets
mkdir -p build/fuzz/findings
small=' audit catalogue checkpoint database fmu hello library model part settings suite zip '
for program in build/fuzz/tests/fuzz/fuzz_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    name=$(basename "$program")
    seed=tests/fuzz/corpus/${name#fuzz_}
    [ "$name" = fuzz_kit_raw ] && seed=tests/fuzz/corpus/kit
    time=$seconds
    if [[ $small == *" ${name#fuzz_} "* ]]; then time=$(((seconds + 1) / 2)); fi
    new=build/fuzz/corpus/$name
    mkdir -p "$new"
    # the corpus alone first: every input that ever mattered
    if "$program" -runs=0 -timeout=20 -artifact_prefix=build/fuzz/findings/ "$seed" >"build/fuzz/$name.log" 2>&1 &&
       "$program" -max_total_time="$time" -timeout=20 -rss_limit_mb=4096 -print_final_stats=0 \
           -artifact_prefix=build/fuzz/findings/ "$new" "$seed" >>"build/fuzz/$name.log" 2>&1; then
        ok 0 "$name"
    else
        ok 1 "$name"
        grep -E 'ERROR|SUMMARY|runtime error|Test unit' "build/fuzz/$name.log" | head -n 5
    fi
done
counts
