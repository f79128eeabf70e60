#!/usr/bin/env bash
# The simulators of power grid, driving and supply chain: tests of their plants, and every suite at
# the quick profile. Last line: N passed, N failed. Installs what it needs into build/domains.
set -u
cd "$(dirname "$0")/.."
root=$PWD venv=$PWD/build/domains wanted=scripts/requirements-domains.txt

skip() { # skip WHY
    echo "SKIPPED power grid, driving and supply chain ($1)"
    if [ -n "${CI:-}" ]; then echo "0 passed, 1 failed"; exit 1; fi
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

install() {
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || return 1
    cmp -s "$wanted" "$venv/installed.txt" && return 0
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" || return 1
    cp "$wanted" "$venv/installed.txt"
}

mkdir -p build
install >build/domains.log 2>&1 || skip "pip could not install $wanted: $(tail -n 1 build/domains.log)"
scripts/build.sh release preflight_cli || { echo "0 passed, 1 failed"; exit 1; }
program=$root/build/release/preflight
export PREFLIGHT_PYTHON=$venv/bin/python PYTHONPATH=$root/python
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd python/tests && "$venv/bin/python" -m unittest -v test_domains >"$folder/tests" 2>&1) &
tests=$!
cd "$folder" || exit 1
passed=0 failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" >log 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 5 log
    fi
}

bench() { # bench SUITE DB THREADS OPTIONS...
    local suite=$1 db=$2 threads=$3
    shift 3
    "$program" bench run "$suite" --profile quick --db "$db" --threads "$threads" "$@"
}

has() { # has SUITE METRIC: its table has the metric for eg-mpt
    "$program" bench table "$1" --profile quick --db all.db --format csv | grep -q ",$2,eg-mpt,"
}

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
