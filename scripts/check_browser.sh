#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_browser.sh: makes sheets and reports and looks at them in Debian's Chromium: no request, no
# message, the certificate's numbers, accessibility (axe), light and dark, a phone, A4. Installs what
# it needs: chromium, and a Python environment in build/browser. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh

debian "pages in a browser" "command -v chromium" chromium
if ! cmp -s scripts/requirements-browser.txt build/browser/.requirements; then
    rm -rf build/browser
    mkdir -p build
    python3 -m venv build/browser && build/browser/bin/pip install -q --disable-pip-version-check \
        --require-hashes -r scripts/requirements-browser.txt >/dev/null 2>&1 || skip "pages in a browser" "no Python environment"
    cp scripts/requirements-browser.txt build/browser/.requirements
fi
build release preflight_cli

program=$PWD/build/release/preflight root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sheet() { # sheet NAME KIT OPTIONS...
    local name=$1 kit=$2
    shift 2
    "$program" check "$kit" --report "$folder/$name.html" --certificate "$folder/$name.json" "$@" >/dev/null
    echo $? >"$folder/$name.status"
    [ "$(cat "$folder/$name.status")" -le 1 ] || echo "no sheet $name"
}
make_pages() {
    cd "$folder" || return 1
    "$program" calibrate attitude -o a.kit >/dev/null
    "$program" audit a.kit --sessions 10 >/dev/null
    sheet healthy a.kit
    sheet lost a.kit --fault 3:0.35
    sheet dead a.kit --fault 3:0
    sheet sick a.kit --fault 3:saturation=.4
    "$program" calibrate dc_servo --set rehearse=none -o unrehearsed.kit >/dev/null
    sheet unrehearsed unrehearsed.kit
    "$program" calibrate dc_servo --set field=false -o paper.kit >/dev/null 2>&1 && sheet paper paper.kit
    "$program" demo --report demo.html >/dev/null
    "$program" kit report a.kit -o kit.html
    quick=(--set episodes=20)
    "$program" calibrate "exec:python3 $root/tests/many_joints.py 17" --probes single "${quick[@]}" \
        --set alarm_trials=50 -o sixteen.kit >/dev/null 2>&1
    sheet sixteen sixteen.kit --allow-exec --fault 2:.5
    sheet sixteen_sick sixteen.kit --allow-exec --fault 2:saturation=.2 --fault 5:.1
    # a wide machine whose names are meant to break a page
    cat >wide.yaml <<'YAML'
probes:
  - {name: "<first>", pulse: {mechanism: 1, amplitude: 1, steps: 4}}
  - {name: second, pulse: {mechanism: 2, amplitude: 1, steps: 4}}
tasks:
  - {name: "<img src=x onerror=alert(1)>", mechanisms: [1]}
  - {name: two, mechanisms: [2], fallback: "<b>stop</b>"}
YAML
    "$program" calibrate "exec:python3 $root/tests/many_joints.py 256 awkward" --config wide.yaml "${quick[@]}" \
        --set alarm_trials=20 --set posterior=transport --set rehearse=none --set grid=2 -o wide.kit >/dev/null 2>&1
    sheet wide wide.kit --allow-exec --fault 2:.3
    "$program" kit report wide.kit -o wide_kit.html
    "$program" bench run directional --profile quick --db b.db >/dev/null 2>&1
    "$program" bench report --profile quick --db b.db -o results >/dev/null
}
make_pages
cd "$root" || exit 1
wanted=(demo.html kit.html wide_kit.html results/{index,directional,fidelity}.html)
for name in healthy lost dead sick unrehearsed paper sixteen sixteen_sick wide; do
    wanted+=("$name.html" "$name.json" "$name.status") # a sheet, its certificate, what check ended with
done
build/browser/bin/python tests/browser.py "$folder" "$(command -v chromium)" "${wanted[@]}"
