#!/usr/bin/env bash
# verdict.sh FOLDER [PLANT...]: the shipped verdict beside the rules of version 0.1 and three
# practitioners' rules, on machines with every fault of the catalogue. Kits and audits go to FOLDER;
# what is there already is not made again. Then docs/results/verdict.md and its figure are written.
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
native=(attitude quadrotor battery wood_berry quad_tank dc_servo reaction_wheel wind_pitch building aircraft pump_tank
        pendulum cartpole acrobot)
mujoco=(hopper half_cheetah ant)
plants=("$@")
[ ${#plants[@]} -gt 0 ] || plants=("${native[@]}" "${mujoco[@]}")
program=build/release/preflight
scripts/build.sh release preflight_cli
mkdir -p "$folder"
for plant in "${plants[@]}"; do
    noise=()
    case " ${mujoco[*]} " in *" $plant "*) noise=(--set sensor_noise=.25) ;; esac
    kit=$folder/$plant.kit old=$folder/$plant.old.kit
    [ -e "$kit" ] || $program calibrate "$plant" "${noise[@]}" -o "$kit" >"$folder/$plant.log"
    [ -e "$old" ] || $program calibrate "$plant" "${noise[@]}" --set posterior=transport --set rehearse=none -o "$old" >/dev/null
    # an audit that is whole is only read again; exit status 1 is a finding, not a failure
    $program audit "$kit" --rules --json >"$folder/$plant.json" || [ $? = 1 ]
    $program audit "$old" --json >"$folder/$plant.old.json" || [ $? = 1 ]
    echo "$plant audited"
done
python3 scripts/verdict.py "$folder" "${plants[@]}"
