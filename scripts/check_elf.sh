#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_elf.sh [--paths] FOLDER: every program and library of ours below FOLDER takes libraries from nowhere but
# fixed folders (no entry of its RUNPATH is empty or relative: the loader would look in the current
# folder) and, without --paths, is hardened as cmake/harden.cmake says. Last line: N passed, N failed.
set -u
paths=
if [ "${1:-}" = --paths ]; then paths=1; shift; fi
folder=$(cd "${1:?usage: scripts/check_elf.sh [--paths] FOLDER}" && pwd) || exit 1
. "$(dirname "$0")/counting.sh" || exit 1
found=0
has() { grep -qE -- "$1" <<<"$text"; ok $? "$2"; }

entry='(/[^]:]*|\$ORIGIN(/[^]:]*)?)' # of a RUNPATH
while read -r file; do
    text=$(LC_ALL=C readelf -hdlsW "$file" 2>/dev/null) || continue
    grep -qE 'Type: +(EXEC|DYN)' <<<"$text" || continue
    found=$((found + 1))
    name=${file#"$folder"/}
    paths_of=$(grep -oE '\((RUNPATH|RPATH)\).*' <<<"$text")
    [ -z "$paths_of" ] || grep -qE "\[$entry(:$entry)*\]\$" <<<"$paths_of"
    ok $? "$name takes libraries from fixed folders: $paths_of"
    if [ -n "$paths" ] || [[ $name == *libmujoco* ]]; then continue; fi # MuJoCo is not ours
    has 'Type: +DYN' "$name is at random addresses (PIE)"
    has 'BIND_NOW|Flags:.* NOW' "$name binds when it is loaded (-z now)"
    has 'GNU_RELRO' "$name has tables that become read-only (-z relro)"
    has 'GNU_STACK.* RW +0x' "$name has a stack that is no code"
    has '__stack_chk_fail' "$name has guards on the stack (-fstack-protector-strong)"
    # a module that neither copies nor prints has nothing to check
    grep -qE ' UND (mem|str|v?s?n?f?printf|read|fread)[a-z]*@' <<<"$text" || continue
    has '__[a-z]+_chk@' "$name checks copies (_FORTIFY_SOURCE)"
done < <(find "$folder" -type f -not -path '*/CMakeFiles/*' -not -path '*/share/*' -not -name '*.[ao]')
[ "$found" -ge "${paths:-3}" ] # with --paths whatever is built
ok $? "programs and libraries are in $folder"
counts
