#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# torture.sh [short|full]: every scripts/torture_*.sh. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
log=build/torture/last.log
mkdir -p build/torture
passed=0 failed=0
for script in scripts/torture_*.sh; do
    echo "== $script"
    "$script" "${1:-short}" >"$log" 2>&1
    code=$?
    cat "$log"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    read -r p _ f _ <<<"${line:-0 passed, 1 failed}"
    if [ $code != 0 ] && [ "$f" = 0 ]; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
