#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_board.sh: the embedded example on a Cortex-M4F, in QEMU, against the same on this machine.
# Installs what it needs: Debian's Arm compiler, its C library and QEMU. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh

debian "on a board" 'command -v qemu-system-arm && [ -f "$(arm-none-eabi-gcc -print-file-name=libm.a)" ]' \
    gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
build embedded
build board
python3 tests/board.py build/embedded build/board
