#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Installs into a fresh folder and builds consumers from it, by CMake and by pkg-config, static and
# shared; a wrong version must fail; every public header compiles alone in C and in C++; MuJoCo is
# found where it was installed. Last line: N passed, ...
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/counting.sh

build release
scripts/check_libraries.sh build/release
ok $? "the shared libraries of the build"
cmake --install build/release --prefix "$work/prefix" >/dev/null
ok $? "cmake --install"
for folder in build/release "$work/prefix"; do
    scripts/check_elf.sh "$folder"
    ok $? "programs and libraries in $folder"
done
for preset in dev asan tsan clang fuzz; do # what there is, when nobody writes it
    [ ! -d "build/$preset" ] || flock "build/$preset.lock" scripts/check_elf.sh --paths "build/$preset"
    ok $? "the RUNPATHs in build/$preset"
done
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)

# what the program says it was built from: a copy knows, a folder of another project's checkout does not
commit_of() { cmake -DSOURCE="$1" -DOUTPUT="$work/commit.h" -P cmake/commit.cmake && cat "$work/commit.h"; }
scripts/source.sh "$work/copy" && [ "$(commit_of "$work/copy")" = "$(commit_of "$PWD")" ]
ok $? "a copy of the sources knows its commit"
commit_of "$PWD/examples" | grep -q 'no commit is known'
ok $? "a checkout that is not ours gives no commit"

cat >"$work/main.c" <<'C'
#include <preflight/preflight.h>
#include <stdio.h>
int main(void)
{
    printf("%s %d methods\n", PF_VERSION, pf_method_count());
    return pf_method_find("eg-mpt") ? 0 : 1;
}
C
cat >"$work/plant.c" <<'C'
#include <preflight/plant.h>
#include <stdio.h>
// Three steps of the plant that is named.
int main(int argc, char **argv)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    double command[3 * PF_MECH_MAX] = {0};
    static double output[3 * 100];
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = 3;
    if (argc != 2 || pf_plant_create(&plant, argv[1], &error) != PF_OK ||
        pf_plant_get_info(plant)->n_chan > 100 ||
        pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, &error) != PF_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s: %.17g\n", pf_plant_get_info(plant)->source, output[0]);
    pf_plant_destroy(plant);
    return 0;
}
C
# --- by CMake: both libraries, static and shared
cat >"$work/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(preflight ${WANTED} REQUIRED)
foreach(target preflight preflight_shared lab lab_shared)
  set(source plant.c)
  if(target MATCHES "^preflight")
    set(source main.c)
  endif()
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE preflight::${target})
endforeach()
C
configure() { # configure VERSION
    cmake -S "$work" -B "$work/build-$1" -DWANTED="$1" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/cmake.log" 2>&1
}
configure "$version" && cmake --build "$work/build-$version" >>"$work/cmake.log" 2>&1
ok $? "consumers through CMake are built: $(tail -n 3 "$work/cmake.log")"
for target in preflight preflight_shared lab lab_shared; do
    "$work/build-$version/$target" attitude >/dev/null
    ok $? "the consumer of preflight::$target runs"
done
! configure 99.0 && grep -q 'version' "$work/cmake.log"
ok $? "a wrong version is refused by CMake"

linked() { # linked PROGRAM LIBRARY: the loader takes LIBRARY from the install, in its versioned name
    env -u LD_LIBRARY_PATH ldd "$1" | grep -q "$2\.so\.${version%.*} => $work/prefix/"
}
linked "$work/build-$version/preflight_shared" libpreflight && linked "$work/build-$version/lab_shared" libpreflight_lab
ok $? "the shared consumers load the installed libraries"
! ldd "$work/build-$version/preflight" "$work/build-$version/lab" | grep -q 'libpreflight'
ok $? "the static consumers load none of ours"

# --- by pkg-config
if command -v pkg-config >/dev/null; then
    libraries=$(dirname "$(find "$work/prefix" -name libpreflight.a)")
    export PKG_CONFIG_PATH=$libraries/pkgconfig
    by_pc() { # by_pc NAME SOURCE FLAGS...: built and run
        local name=$1 source=$2
        shift 2
        cc "$work/$source" "$@" -o "$work/$name" && "$work/$name" attitude >/dev/null
    }
    # the linker prefers the shared library: to link ours statically its file is named
    static() { pkg-config --cflags --libs --static "$1" | sed -E 's/-l(preflight[a-z_]*)/-l:lib\1.a/g'; }
    by_pc pc_core main.c $(pkg-config --cflags --libs preflight) -Wl,-rpath,"$libraries" && linked "$work/pc_core" libpreflight
    ok $? "a consumer through pkg-config, shared"
    by_pc pc_lab plant.c $(pkg-config --cflags --libs preflight-lab) -Wl,-rpath,"$libraries" && linked "$work/pc_lab" libpreflight_lab
    ok $? "a consumer of the plants through pkg-config, shared"
    by_pc pc_core_static main.c $(static preflight) && ! ldd "$work/pc_core_static" | grep -q libpreflight
    ok $? "a consumer through pkg-config, static"
    by_pc pc_lab_static plant.c $(static preflight-lab) && ! ldd "$work/pc_lab_static" | grep -q libpreflight
    ok $? "a consumer of the plants through pkg-config, static"
    ! pkg-config --exists 'preflight >= 99' && ! pkg-config --exists 'preflight-lab >= 99' &&
        pkg-config --exists "preflight = $version" && pkg-config --exists "preflight-lab = $version"
    ok $? "a wrong version is refused by pkg-config"
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

# MuJoCo: the library and the model files that were installed, not those of the build
installed=$work/prefix/bin/preflight models=$work/prefix/share/preflight/gymnasium
apart() { # apart COMMAND...: in a folder of its own, without the settings of the caller
    (cd "$work" && env -u PREFLIGHT_MODELS -u LD_LIBRARY_PATH "$@")
}
if "$installed" list plants | grep '^hopper ' | grep -qv 'not here'; then
    printf 'u0,u1,u2\n.1,0,.2\n0,.3,0\n0,0,0\n' >"$work/u.csv"
    apart "$PWD/build/release/preflight" rollout hopper --commands u.csv >"$work/built.csv"
    apart "$installed" rollout hopper --commands u.csv >"$work/installed.csv" &&
        cmp -s "$work/built.csv" "$work/installed.csv" && [ "$(wc -l <"$work/built.csv")" = 5 ]
    ok $? "an installed preflight runs on MuJoCo as the built one"
    ldd "$installed" | grep mujoco | grep -q "=> $work/prefix/"
    ok $? "an installed preflight takes the installed MuJoCo"
    for consumer in lab lab_shared; do
        ldd "$work/build-$version/$consumer" | grep mujoco | grep -q "=> $work/prefix/" &&
            PREFLIGHT_MODELS=$models "$work/build-$version/$consumer" hopper | grep -q '^MuJoCo'
        ok $? "the consumer of preflight::$consumer runs on the installed MuJoCo"
    done
    mv "$work/prefix" "$work/moved"
    apart "$work/moved/bin/preflight" rollout hopper --commands u.csv | cmp -s - "$work/built.csv"
    ok $? "moved elsewhere it still does"
    mv "$work/moved" "$work/prefix"
    echo nonsense >"$models/hopper.xml"
    ! apart "$installed" rollout hopper --commands u.csv >/dev/null 2>&1
    ok $? "an installed preflight takes the installed models"
else
    echo "SKIPPED the installed MuJoCo (built without it: make deps)"
    if [ -n "${CI:-}" ]; then failed=$((failed + 1)); fi
fi

# what runs an FMU is found from the installed program and library, wherever they are
if [ -x build/release/preflight-fmu ]; then
    cp tests/fuzz/corpus/zip/two "$work/two.fmu" # all but a library that can be loaded
    finds() { apart "$@" 2>&1 | grep -q 'two.fmu: its library cannot be loaded: binaries/linux64/m.so'; }
    finds "$installed" list fmu:two.fmu && finds "$work/build-$version/lab_shared" fmu:two.fmu
    ok $? "an installed preflight runs FMUs"
    mv "$work/prefix" "$work/moved"
    finds "$work/moved/bin/preflight" list fmu:two.fmu
    ok $? "moved elsewhere it still does"
    mv "$work/moved" "$work/prefix"
else
    echo "SKIPPED installed FMUs (built without libzip or expat: make deps)"
    if [ -n "${CI:-}" ]; then failed=$((failed + 1)); fi
fi

# the installed program draws with the installed templates
if command -v gnuplot >/dev/null; then
    (cd "$work" && "$installed" bench run mechanism --profile quick --db figures.db &&
        "$installed" bench figure mechanism --profile quick --db figures.db -o figures) >"$work/log" 2>&1 &&
        [ -s "$work/figures/mechanism.svg" ] && grep -qF "$work/prefix/share/preflight/suites/figures" "$work/figures/mechanism.gp"
    ok $? "the installed program draws with the installed templates"
fi

# every option of the program in the man page and in both completions
man=$work/prefix/share/man/man1/preflight.1 zsh=$work/prefix/share/zsh/site-functions/_preflight
. "$work/prefix/share/bash-completion/completions/preflight"
ok $? "bash completion loads"
completed() { # completed WORDS...: what bash offers for the last one
    COMP_WORDS=(preflight "$@") COMP_CWORD=$#
    PATH=$work/prefix/bin:$PATH _preflight
    printf '%s\n' "${COMPREPLY[@]}"
}
section() { # section COMMAND FILE: its part of the man page, or of the zsh completion
    sed -nE "/^\.SS $1\$|^    $1\) /,/^\.S[SH] [^$]|;;\$/p" "$2" | tr -d '\\'
}
"$installed" --options >"$work/options"
[ "$(grep -c '^option' "$work/options")" -gt 60 ]
ok $? "preflight --options lists the options"
while IFS= read -r row; do
    command=$(cut -f 2 <<<"$row") option=$(cut -f 4 <<<"$row")
    section "$command" "$man" | grep -qF -- "fB${option}fR"
    ok $? "$command $option in the man page"
    section "$command" "$zsh" | grep -qE -- "'\\*?$option\\["
    ok $? "$command $option in the zsh completion"
    completed "$command" "$option" | grep -qxF -- "$option"
    ok $? "$command $option in the bash completion"
done < <(grep '^option' "$work/options")
if command -v zsh >/dev/null; then zsh -n "$zsh"; ok $? "zsh completion parses"; fi
completed check k --pl | grep -qx -- --plant && completed check --plant atti | grep -qx attitude &&
    completed bench ru | grep -qx run && completed calibrate --faults m | grep -qx many &&
    completed cali | grep -qx calibrate
ok $? "bash completes options, plants, verbs, words and commands"
for key in $("$installed" list settings | cut -d' ' -f1); do
    completed calibrate --set "${key%?}" | grep -qxF "$key="
    ok $? "bash completes --set $key="
done
counts
