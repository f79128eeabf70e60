#!/bin/sh
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The core must run on a board: checks that BUILD_DIR/libpreflight.a asks its surroundings for
# nothing but libm, mem* and str*, runs the embedded example, and prints code sizes. Where the example
# is an image for a board (preset `board`), so is the archive, and QEMU runs it.
#
# usage: scripts/check_embedded.sh BUILD_DIR
set -u

build=${1:?usage: scripts/check_embedded.sh BUILD_DIR}
archive=$build/libpreflight.a
tools=
if [ -f "$build/embedded_example.elf" ]; then tools=arm-none-eabi-; fi
passed=0
failed=0

verdict() { # STATUS TEXT
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok    $2"
    else
        failed=$((failed + 1))
        echo "FAIL  $2"
    fi
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

# all that the library may ask for; whatever else turns up fails
libm='cbrt|ceil|exp|expm1|fabs|floor|fmax|fmin|isfinite|isnan|log|log10|log1p|pow|round|sqrt|trunc'
libc='memchr|memcmp|memcpy|memmove|memset|strchr|strcmp|strlen|strncmp'
# the compiler's own: stack guard, kind of processor, addresses, arithmetic of small processors
compiler='__stack_chk_fail|__cpu_model|_GLOBAL_OFFSET_TABLE_'
compiler="$compiler|__aeabi_[a-z0-9]+|__[a-z0-9]+[sdt][if][2-4]"

if [ ! -f "$archive" ]; then
    verdict 1 "$archive is not there: cmake --build $build first"
    finish
fi
if ! ${tools}nm -u "$archive" >/dev/null 2>&1; then
    verdict 1 "${tools}nm cannot read $archive"
    finish
fi

# symbols that no object of the archive defines
defined=$(${tools}nm -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
outside=$(${tools}nm -u "$archive" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u |
    awk -v have="$defined" 'BEGIN { n = split(have, a, "\n"); for (i = 1; i <= n; i++) d[a[i]] = 1 }
                            !($0 in d)')
if [ -z "$defined" ]; then
    verdict 1 "$archive defines something"
    finish
fi
stray=$(printf '%s\n' "$outside" | grep -Ev "^($libm|$libc|$compiler)?\$")
echo "asks for: $(printf '%s ' $outside)"
if [ -n "$stray" ]; then
    for symbol in $stray; do
        where=$(${tools}nm -Au "$archive" 2>/dev/null | awk -v s="$symbol" '$NF == s { print $1 }' |
            sed 's/:$//; s/.*[:\/]//' | tr '\n' ' ')
        echo "      $symbol in $where"
    done
    verdict 1 "no allocator, stdio, thread or file symbol"
else
    verdict 0 "no allocator, stdio, thread or file symbol"
fi

# nothing that changes between calls may live in the library
data=$(${tools}nm -g "$archive" 2>/dev/null | awk '$2 ~ /^[BDC]$/ { print $3 }')
locals=$(${tools}nm "$archive" 2>/dev/null | awk '$2 ~ /^[bc]$/ { print $3 }')
[ -z "$data$locals" ]
verdict $? "no global variables${data:+: $data}${locals:+: $locals}"

# the example, in whichever place this build keeps it
example=$build/embedded_example
[ -x "$example" ] || example=$build/examples/embedded_example
runner=
if [ -n "$tools" ]; then
    example=$build/embedded_example.elf
    runner=scripts/run_board.sh
fi
if [ -x "$example" ]; then
    output=$($runner "$example")
    status=$?
    printf '%s\n' "$output" | sed 's/^/      /'
    verdict $status "embedded_example runs"
    printf '%s\n' "$output" | grep -q ALARM && printf '%s\n' "$output" | grep -q '^rehearsal .*as predicted' &&
        printf '%s\n' "$output" | grep -q '^task .*: go'
    verdict $? "embedded_example goes through alarm, rehearsal and readiness"
else
    verdict 1 "embedded_example is built"
fi

${tools}size -t "$archive" 2>/dev/null | awk 'NR == 1 || /TOTALS/'
finish
