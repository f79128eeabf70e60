#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_libraries.sh BUILD_DIR: what the shared libraries of a build export is what include/preflight
# declares, their names carry the version, and no number depends on the locale. Last line: N passed, N
# failed.
set -u
build=$(cd "${1:?usage: scripts/check_libraries.sh BUILD_DIR}" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/counting.sh

exported() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u; }

for header in include/preflight/*.h; do echo "#include \"$PWD/$header\""; done >"$work/all.c"
gcc -std=c11 -Iinclude -fsyntax-only -aux-info "$work/declared.txt" "$work/all.c" &&
    sed -nE 's,^/\* [^ ]*include/preflight/[a-z_]+\.h:[0-9]+:N[A-Z] \*/ extern .*[ *](pf_[a-z0-9_]+) \(.*,\1,p' \
        "$work/declared.txt" | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 50 ]
ok $? "functions are declared in include/preflight"

exported "$build/lib/libpreflight_lab.so" >"$work/lab"
exported "$build/lib/libpreflight.so" >"$work/core"
diff "$work/declared" "$work/lab" >"$work/differ"
ok $? "libpreflight_lab.so exports (>) what the headers declare (<): $(grep '^[<>]' "$work/differ" | tr '\n' ' ')"
nm -g --defined-only "$build/libpreflight.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u |
    comm -12 - "$work/declared" | diff - "$work/core" >"$work/differ"
ok $? "libpreflight.so exports (>) the declared functions of the core (<): $(grep '^[<>]' "$work/differ" | tr '\n' ' ')"
cat "$work/lab" "$work/core" | grep -v '^pf_[a-z0-9]' >"$work/strange"
[ $? = 1 ] && [ -s "$work/core" ]
ok $? "every exported symbol starts with pf_: $(tr '\n' ' ' <"$work/strange")"
echo "exported: $(wc -l <"$work/core") functions of the core, $(wc -l <"$work/lab") with the lab"

scripts/symbols.sh "$build" >"$work/symbols" && diff debian/symbols "$work/symbols" >"$work/differ"
ok $? "debian/symbols is not (<) what the libraries export (>); run scripts/symbols.sh --write $build: $(grep '^[<>]' "$work/differ" | tr '\n' ' ')"

minor=$(sed -nE 's/#define PF_VERSION "([0-9]+\.[0-9]+)\..*"/\1/p' include/preflight/base.h)
for library in libpreflight libpreflight_lab; do
    readelf -d "$build/lib/$library.so" | grep -q "soname: \[$library.so.$minor\]"
    ok $? "$library.so has the SONAME $library.so.$minor"
done

# only src/host/text.c and json.c read and print numbers, in the C locale
nm -A "$build/libpreflight_lab.a" "$build/libpreflight_bench.a" 2>/dev/null |
    grep -E ' U _*(strto[fdl]d?|ato[fl]|vs?n?printf(_chk)?|json_load[a-z_]*|json_dump[a-z_]*|localeconv|setlocale)$' |
    grep -vE ':(text|json)\.c\.o:|strtol$' >"$work/numbers"
[ $? = 1 ]
ok $? "a number is read or printed in the caller's locale: $(tr -s ' ' <"$work/numbers" | tr '\n' ';')"
git ls-files 'src/*.c' 'python/binding/*.c' 2>/dev/null | grep -v '^src/cli/' | xargs -r grep -Pzoc \
    '\b(s?n?printf|fprintf|s?scanf)\((?:[^;"]|"(?:[^"\\]|\\.)*")*?"(?:[^"\\]|\\.)*%[-+ #0-9.*]*l?[aefgAEFG](?:[^;"]|"(?:[^"\\]|\\.)*")*;' |
    grep -v ':0$' >"$work/numbers"
[ $? = 1 ]
ok $? "a number is printed with snprintf and the like, not with pf__print: $(tr '\n' ' ' <"$work/numbers")"
counts
