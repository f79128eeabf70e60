#!/bin/sh
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# run_board.sh IMAGE [WORD...]: runs an image of the preset `board` in QEMU, with these arguments. Its
# output and exit status are those of the image. One instruction is one nanosecond of the board's
# clock, so that its timer counts instructions.
set -u
image=${1:?usage: scripts/run_board.sh IMAGE [WORD...]}
shift
if [ ! -f "$image" ]; then
    echo "run_board: $image is not there: scripts/build.sh board" >&2
    exit 2
fi
if ! command -v qemu-system-arm >/dev/null; then
    echo "run_board: no qemu-system-arm: install it (Debian: qemu-system-arm)" >&2
    exit 2
fi
words=arg=image
for word in "$@"; do
    words="$words,arg=$word"
done
timeout "${SECONDS_MOST:-60}" qemu-system-arm -M netduinoplus2 -nodefaults -display none -icount shift=0 \
    -chardev stdio,id=out -semihosting-config "enable=on,target=native,chardev=out,$words" \
    -kernel "$image" </dev/null
status=$?
if [ "$status" = 124 ]; then
    echo "run_board: $image did not end within ${SECONDS_MOST:-60} s" >&2
fi
exit "$status"
