#!/usr/bin/env bash
# check_machines.sh [NAME]: the three worked examples of docs/your-machine.md, from pinned packages in
# build/machines: JSBSim's c172 and PyBullet's iiwa as Python plants, dm_control's fish as a model
# file. What the doctor says, a kit with the configuration that follows, a healthy machine that is go, a
# loss that is named. NAME: cessna, iiwa or fish alone. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/counting.sh
only=${1:-}
root=$PWD place=$PWD/build/machines
python=$place/bin/python

if ! cmp -s scripts/requirements-machines.txt "$place/.requirements"; then
    rm -rf "$place"
    mkdir -p build
    if python3 -m venv "$place" >build/machines.log 2>&1 &&
       timeout 900 "$place/bin/pip" install -q --disable-pip-version-check \
           --require-hashes -r scripts/requirements-machines.txt >>build/machines.log 2>&1; then
        cp scripts/requirements-machines.txt "$place/.requirements"
    else
        skip "the machines of docs/your-machine.md" "no packages: $(tail -n 1 build/machines.log)"
    fi
fi
build release preflight_cli
program=$root/build/release/preflight
export PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

says() { # says WORDS COMMAND...: its output has the words, whatever its exit status
    local words=$1
    shift
    "$@" >said 2>&1
    if tr -s ' \n' ' ' <said | grep -qE -e "$words"; then return 0; fi
    cat said
    return 1
}

machine() { # machine NAME PLANT WORDS MECHANISM OPTIONS...
    local name=$1 plant=$2 words=$3 weak=$4
    shift 4
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    check "$name: what the doctor says" says "$words" "$program" doctor "$plant"
    check "$name: a kit" "$program" calibrate "$plant" -o "$name.kit" --progress none "$@"
    check "$name: a healthy machine is go" "$program" check "$name.kit" --allow-exec --seed 1
    check "$name: a loss is named" says "$weak lost strength" \
        "$program" check "$name.kit" --allow-exec --seed 1 --fault "$weak:0.35"
}

worker="exec:$python -m preflight.worker $root/examples"
packages=$(echo "$place"/lib/python3*/site-packages)
machine cessna "$worker/jsbsim_plant.py:Cessna" 'Task flap can never be go' flap \
    --config "$root/examples/jsbsim.yaml"
machine iiwa "$worker/pybullet_plant.py:Iiwa" 'no noise to calibrate against|sensor_noise' a3 \
    --config "$root/examples/pybullet.yaml"
machine fish "mujoco:$packages/dm_control/suite/fish.xml" 'also one of what is held at rest' fins_flap \
    --config "$root/examples/fish.yaml"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
