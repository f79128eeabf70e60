# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the groups of checks, from the root of the tree: what they count with.
# shellcheck shell=bash
passed=0 failed=0

ok() { # ok STATUS NAME
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $2"; fi
}

check() { # check NAME COMMAND...: it succeeds; else its last words are shown
    local name=$1 words status
    words=$(mktemp)
    shift
    "$@" >"$words" 2>&1
    status=$?
    ok $status "$name"
    [ $status = 0 ] || tail -n 12 "$words"
    rm -f "$words"
}

refuses() { # refuses WORD COMMAND...: it fails and says the word
    local word=$1 words
    shift
    if words=$("$@" 2>&1); then return 1; fi
    grep -q -e "$word" <<<"$words"
}

skip() { # skip WHAT WHY: ends. Where nothing may be left out that is a failure.
    echo "SKIPPED $1 ($2)"
    if [ -n "${CI:-}" ]; then echo "0 passed, 1 failed"; exit 1; fi
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

debian() { # debian WHAT TEST PACKAGES...: installs them unless the test holds; or WHAT is skipped
    local what=$1 test=$2
    shift 2
    if eval "$test" >/dev/null 2>&1; then return; fi
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "$what" "needs $*"
    mkdir -p build
    # one at a time: steps run side by side
    ( flock 9; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" ) \
        9>build/debian.lock >/dev/null 2>&1 || skip "$what" "$* cannot be installed"
}

build() { # build PRESET TARGETS...: or ends
    scripts/build.sh "$@" || { echo "0 passed, 1 failed"; exit 1; }
}

counts() { # the last line; its status is that of the group
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
