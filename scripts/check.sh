#!/usr/bin/env bash
# check.sh: everything `make check` does. Each step ends with "N passed, N failed"; the sums close it.
set -u
cd "$(dirname "$0")/.."
if [ -z "${CI:-}" ]; then unset CI; fi
passed=0 failed=0
mkdir -p build

step() { # step NAME COMMAND...: runs it, shows it, adds its counts
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@" 2>&1 | tee build/step.log
    local code=${PIPESTATUS[0]} line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' build/step.log | tail -n 1)
    if [ -z "$line" ]; then
        echo "$name did not finish (exit status $code)"
        failed=$((failed + 1))
    else
        passed=$((passed + $(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')))
        failed=$((failed + $(echo "$line" | sed -E 's/^[0-9]+ passed, ([0-9]+) failed.*/\1/')))
        if [ "$code" != 0 ] && echo "$line" | grep -q ', 0 failed'; then
            failed=$((failed + 1))
        fi
    fi
    echo "== $name: $((SECONDS - start)) s"
}

verdict() { # verdict NAME COMMAND...: one test that is a command
    local name=$1
    shift
    if "$@"; then echo "ok $name"; echo "1 passed, 0 failed"; else echo "FAILED $name"; echo "0 passed, 1 failed"; return 1; fi
}

unit() { scripts/build.sh dev preflight_test && build/dev/preflight_test; }
# what reads foreign bytes, and the core, under AddressSanitizer and UBSan
asan() { scripts/build.sh asan preflight_test && build/asan/preflight_test --asan; }
embedded() { scripts/build.sh embedded && scripts/check_embedded.sh build/embedded; }
same_bits() { scripts/same_bits.sh; }
formatted() { clang-format --dry-run -Werror $(git ls-files '*.c' '*.h' 2>/dev/null || find include src tests examples bench -name '*.[ch]'); }

# Simulators in Python keep one processor busy; they run beside the tests, which need the other.
beside() { rm -f build/beside.code; (scripts/check_domains.sh >build/beside.log 2>&1; echo $? >build/beside.code) & }
gather() {
    until [ -s build/beside.code ]; do sleep 1; done
    cat build/beside.log
    return "$(cat build/beside.code)"
}

scripts/build.sh release preflight_cli # first, for both
beside
step "unit tests (dev)" unit
step "core and bad input (asan)" asan
step "power grid, driving, supply chain" gather
step "embedded" embedded
step "bits of gcc, clang, dev, release" same_bits
step "install and consume" scripts/check_install.sh
step "program" scripts/check_program.sh
step "models in Python" scripts/check_model.sh
step "suites on Gymnasium's systems" scripts/check_suites.sh
step "Python package" scripts/check_python.sh
if [ -x build/venv/bin/ruff ]; then step "Python style" verdict ruff build/venv/bin/ruff check -q --no-cache; fi
if command -v clang-format >/dev/null; then step "format" verdict format formatted; fi
step "fuzz, 5 s each" scripts/fuzz.sh 5

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
