#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# One hash of whole runs (calibrate, check, certificate, journal, a suite of native plants), equal for gcc and clang, dev and
# release, 1 and 2 threads on this machine. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
builds=(dev release)
command -v clang >/dev/null && builds+=(clang)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=

run_hash() { # run_hash PROGRAM THREADS
    local program=$1 threads=$2
    ( cd "$work" && rm -f ./* &&
      "$program" calibrate attitude -o a.kit --threads "$threads" >/dev/null &&
      "$program" calibrate attitude -o s.kit --threads "$threads" --method sept --seed 3 >/dev/null &&
      for fault in 1:0.2 3:0.35 5:0.5 7:0.8; do
          "$program" check a.kit --fault $fault --seed 11 --json --journal "j$fault" >"c$fault"
          "$program" check s.kit --fault $fault --seed 12 --json >"d$fault"
      done
      # every compact plant, in step: the configuration (which has a hash of responses) and all numbers
      "$program" bench run compact-plants --profile quick --db b.db --threads "$threads" --progress none >b.run 2>&1 &&
      sed -i 's/ [0-9.]* s)//' b.run &&
      "$program" bench table compact-plants --profile quick --db b.db --format csv >b.csv &&
      rm -f b.db* && cat ./* | sha256sum )
}

for build in "${builds[@]}"; do
    build "$build" preflight_cli
    for threads in 1 2; do
        hash=$(run_hash "$PWD/build/$build/preflight" "$threads")
        [ -z "$first" ] && first=$hash
        [ -n "$hash" ] && [ "$hash" = "$first" ]
        ok $? "$build with $threads threads: $hash, not $first"
    done
done
echo "hash ${first%% *} from ${builds[*]} with 1 and 2 threads"
counts
