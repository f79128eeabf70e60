#!/usr/bin/env bash
# Installs into a fresh folder and builds a consumer from it, by CMake and by pkg-config; a wrong
# version must fail; every public header compiles alone in C and in C++. Last line: N passed, ...
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ok() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $2"; fi; }

scripts/build.sh release || { echo "0 passed, 1 failed"; exit 1; }
cmake --install build/release --prefix "$work/prefix" >/dev/null
ok $? "cmake --install"
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)

cat >"$work/main.c" <<'C'
#include <preflight/preflight.h>
#include <stdio.h>
int main(void)
{
    printf("%s %d methods\n", PF_VERSION, pf_method_count());
    return pf_method_find("eg-mpt") ? 0 : 1;
}
C
consumer() { # consumer VERSION
    mkdir -p "$work/$1"
    cat >"$work/$1/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(preflight $1 REQUIRED)
add_executable(consumer ../main.c)
target_link_libraries(consumer preflight::preflight)
C
    cmake -S "$work/$1" -B "$work/$1/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null 2>&1 &&
        cmake --build "$work/$1/build" >/dev/null 2>&1 && "$work/$1/build/consumer" >/dev/null
}
consumer "$version"
ok $? "a consumer through CMake"
consumer 99.0 && ok 1 "a wrong version must be refused" || ok 0 ""
if command -v pkg-config >/dev/null; then
    flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name preflight.pc)") pkg-config --cflags --libs preflight)
    cc "$work/main.c" $flags -o "$work/by_pc" 2>/dev/null && "$work/by_pc" >/dev/null
    ok $? "a consumer through pkg-config"
fi
for header in "$work"/prefix/include/preflight/*.h; do
    echo "#include \"preflight/$(basename "$header")\"" >"$work/one.c"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/prefix/include" -fsyntax-only "$work/one.c"
    ok $? "$(basename "$header") alone in C"
    if command -v c++ >/dev/null; then
        cp "$work/one.c" "$work/one.cc"
        c++ -std=c++17 -Wall -Wextra -I"$work/prefix/include" -fsyntax-only "$work/one.cc"
        ok $? "$(basename "$header") alone in C++"
    fi
done
for file in bin/preflight share/man/man1/preflight.1 share/bash-completion/completions/preflight \
            share/zsh/site-functions/_preflight; do
    [ -s "$work/prefix/$file" ]
    ok $? "$file is installed"
done
bash -n "$work/prefix/share/bash-completion/completions/preflight"
ok $? "bash completion parses"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
