#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_domains.sh [smoke]: the simulators of power grid, driving and supply chain. Tests of their
# plants, and every suite at the quick profile; the program has to find them by itself. Installs what
# it needs as `make domains` does. smoke: one suite where they are installed, and what is said where
# they are not. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
root=$PWD python=$PWD/build/domains/bin/python smoke=
[ "${1:-}" != smoke ] || smoke=1

mkdir -p build
if [ -z "$smoke" ]; then
    scripts/domains.sh >build/domains.log 2>&1 || skip "power grid, driving and supply chain" "make domains failed: $(tail -n 1 build/domains.log)"
fi
build release preflight_cli
program=$root/build/release/preflight
unset PREFLIGHT_PYTHON PYTHONPATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

bench() { # bench SUITE DB THREADS OPTIONS...
    local suite=$1 db=$2 threads=$3
    shift 3
    "$program" bench run "$suite" --profile quick --db "$db" --threads "$threads" "$@"
}

has() { # has SUITE METRIC: its table has the metric for eg-mpt
    "$program" bench table "$1" --profile quick --db all.db --format csv | grep -q ",$2,eg-mpt,"
}

missing() { # a Python without the simulators, with and without our package
    PREFLIGHT_PYTHON=$1 PYTHONPATH=$2 "$program" bench run grid --profile quick --db none.db 2>&1 |
        grep -q 'run `make domains`'
}

copied() { # the copy of the package that programs without this tree run
    "$python" -c 'import preflight; assert "site-packages" in preflight.__file__, preflight.__file__'
}

if [ -x "$root/build/venv/bin/python" ]; then
    check "without the simulators" missing "$root/build/venv/bin/python" "$root/python"
    check "without our package" missing "$root/build/venv/bin/python" ''
fi
if [ -n "$smoke" ]; then
    [ ! -x "$python" ] || check "inventory" bench inventory all.db 1 --only environment=inventory_serial --only g=.4
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
    exit
fi

(cd "$root/python/tests" && PYTHONPATH=$root/python "$python" -m unittest -v test_domains >"$folder/tests" 2>&1) &
tests=$!
check "the package's copy" copied
check "inventory" bench inventory all.db 1 --only environment=inventory_serial --only g=.4
check "its measures" has inventory otif
check "the same with two workers" bench inventory two.db 2 --only environment=inventory_serial \
    --only g=.4
for db in all two; do
    "$program" bench table inventory --profile quick --db $db.db --format csv >$db.csv 2>/dev/null
done
check "to the last digit" cmp all.csv two.csv
check "verify" "$program" bench verify inventory --profile quick --db all.db --sample 2
check "driving" bench driving all.db 1 --only g=.35 --set 'methods=[random, eg-mpt]'
check "its measures" has driving min_ttc
check "grid" bench grid all.db 1 --only g=.35 --set 'methods=[eg-mpt, "eg-mpt:neither"]'
check "its measures" has grid asked_shortfall

wait $tests
code=$?
ok=$(grep -c ' \.\.\. ok$' tests)
bad=$(grep -cE ' \.\.\. (FAIL|ERROR)$' tests)
if [ $code != 0 ]; then
    [ "$bad" = 0 ] && bad=1
    tail -n 30 tests
fi
echo "$((passed + ok)) passed, $((failed + bad)) failed"
[ $((failed + bad)) = 0 ]
