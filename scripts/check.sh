#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check.sh [all]: what `make check` does, and with `all` what `make check-all` adds. Steps run side by
# side, one per processor (LANES=N: N). ONLY=WORD runs those whose name contains it. Each ends with
# "N passed, N failed"; the sums close it.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ -z "${CI:-}" ]; then unset CI; fi
lanes=${LANES:-$(nproc)}
names=() commands=() passed=0 failed=0
logs=build/check
rm -rf "$logs"
mkdir -p "$logs"

step() { # step NAME COMMAND...: to be run, unless ONLY asks for others
    [[ $1 == *"${ONLY:-}"* || $1 == "Python environment" ]] || return 0
    names+=("$1")
    shift
    commands+=("$*")
}

start() { # start INDEX: in the background; its output, exit status and seconds become files
    {
        TIMEFORMAT='%R %U %S'
        time { eval "${commands[$1]}" >"$logs/$1.log" 2>&1; echo $? >"$logs/$1.code"; }
    } 2>"$logs/$1.time" &
}

finish() { # finish INDEX: shows it and adds its counts
    local name=${names[$1]} log=$logs/$1.log code line wall user system
    code=$(cat "$logs/$1.code" 2>/dev/null || echo 1)
    read -r wall user system <<<"$(tail -n 1 "$logs/$1.time" | grep . || echo 0 0 0)"
    echo "== $name"
    cat "$log"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        echo "$name did not finish (exit status $code)"
        failed=$((failed + 1))
    else
        passed=$((passed + $(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$line")))
        failed=$((failed + $(sed -E 's/^[0-9]+ passed, ([0-9]+) failed.*/\1/' <<<"$line")))
        if [ "$code" != 0 ] && grep -q ', 0 failed' <<<"$line"; then failed=$((failed + 1)); fi
    fi
    echo "== $name: ${wall%.*} s, $(awk "BEGIN { printf \"%.0f\", $user + $system }") s of a processor"
}

run() { # all steps, in their order, a lane each
    local next=0 index gone active=()
    while [ "$next" -lt "${#names[@]}" ] || [ ${#active[@]} -gt 0 ]; do
        while [ ${#active[@]} -lt "$lanes" ] && [ "$next" -lt "${#names[@]}" ]; do
            start "$next"
            active+=("$next")
            next=$((next + 1))
        done
        wait -n
        gone=$? # 127: none is left, so one ended without a word
        for index in "${!active[@]}"; do
            if [ -s "$logs/${active[index]}.time" ] || [ "$gone" = 127 ]; then
                finish "${active[index]}"
                unset "active[index]"
            fi
        done
        active=("${active[@]}")
    done
}

verdict() { # verdict NAME COMMAND...: one test that is a command
    local name=$1
    shift
    if "$@"; then echo "ok $name"; echo "1 passed, 0 failed"; else echo "FAILED $name"; echo "0 passed, 1 failed"; return 1; fi
}

# The Python environment comes with MuJoCo, which the builds look for: they wait for it.
environment() { scripts/deps.sh python; touch "$logs/python"; echo "0 passed, 0 failed"; }
ready() { until [ -e "$logs/python" ]; do sleep .2; done; }

after() { ready && "$@"; }
tests() { # tests PRESET OPTIONS...: the test program of a preset
    local preset=$1
    shift
    ready && scripts/build.sh "$preset" preflight_test && "build/$preset/preflight_test" "$@"
}
embedded() { scripts/build.sh embedded && scripts/check_embedded.sh build/embedded; }
formatted() { clang-format --dry-run -Werror $(git ls-files '*.c' '*.h' 2>/dev/null || find include src tests examples perf -name '*.[ch]'); }
python_style() {
    ready
    if [ -x build/venv/bin/ruff ]; then verdict ruff build/venv/bin/ruff check -q --no-cache; else echo "SKIPPED (no ruff)"; echo "0 passed, 0 failed"; fi
}
paper_scale() { # a whole experiment of the paper, its table and a sample of it again
    ready && scripts/build.sh release preflight_cli || return
    local program=build/release/preflight db=$logs/paper.db suite=compact-plants
    verdict "$suite at paper scale" eval "$program bench run $suite --profile paper --db $db &&
        $program bench table $suite --profile paper --db $db &&
        $program bench verify $suite --profile paper --db $db --sample 50"
}

domains() { # their simulators are several hundred megabytes; one short run of one of them
    ready
    if ! scripts/domains.sh >"$logs/domains" 2>&1; then
        echo "SKIPPED simulators of power grid, driving and supply chain: $(tail -n 1 "$logs/domains")"
        if [ -n "${CI:-}" ]; then echo "0 passed, 1 failed"; return 1; fi
    fi
    scripts/check_domains.sh smoke
}

# Longest first; what needs no Python environment runs while that is installed.
step "Python environment" environment
if [ "${1:-}" = all ]; then
    step "fuzz, 60 s each" scripts/fuzz.sh 60
    step "all tests (asan)" tests asan
    step "threads (tsan)" after scripts/check_threads.sh
    step "unit tests at full size (dev)" tests dev --long
    step "power grid, driving, supply chain" after scripts/check_domains.sh
    step "suites on Gymnasium's systems" after scripts/check_suites.sh all
    step "paper scale" paper_scale
    step "ranks of MPI" after scripts/check_mpi.sh all
    step "pages in a browser" after scripts/check_browser.sh
    step "on a board" scripts/check_board.sh
    step "wheel and sdist" after scripts/check_release.sh wheel
    step "Debian packages" after scripts/check_release.sh deb
    step "notebook" after scripts/check_notebook.sh
    step "machines of other people" after scripts/check_machines.sh
    step "FMUs" after scripts/check_fmu.sh all
else
    step "fuzz, 2 s each" scripts/fuzz.sh 2
    step "core and bad input (asan)" tests asan --asan # the core and what reads foreign bytes
    step "unit tests (dev)" tests dev
    step "power grid, driving, supply chain" domains
    step "suites on Gymnasium's systems" after scripts/check_suites.sh
    step "ranks of MPI" after scripts/check_mpi.sh
    step "FMUs" after scripts/check_fmu.sh
fi
for script in scripts/torture_*.sh; do # what they do at full length: make torture
    name=${script#scripts/torture_}
    step "torture: ${name%.sh}" "$script" short
done
step "Python package" after scripts/check_python.sh
step "program" after scripts/check_program.sh
step "signed files" scripts/check_trust.sh
step "bits of gcc, clang, dev, release" after scripts/same_bits.sh
step "install and consume" after scripts/check_install.sh
step "embedded" embedded
step "models in Python" after scripts/check_model.sh
step "paper to code" scripts/check_paper.sh
step "documents" scripts/check_docs.sh
step "speed comparisons" scripts/check_bench.py
step "Python style" python_style
step "formats of errors" scripts/check_formats.py
step "pins of Python packages" verdict pins scripts/pin.sh --check
if command -v clang-format >/dev/null; then step "format" verdict format formatted; fi

run
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
