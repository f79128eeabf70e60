#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_mpi.sh [all]: runs under mpirun with two ranks: the rows of one process to the bit, a run that is
# killed and goes on, bad input in one line. With `all` also four ranks, learned models, audits, ranks that
# do not fit together, one that dies, signals, a busy database, and MPICH where it is installed. Last line:
# N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
build release preflight_cli
root=$PWD program=$PWD/build/release/preflight
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip "ranks" "no mpirun: make deps"
[ -e build/release/lib/preflight/preflight_mpi.so ] || skip "ranks" "built without MPI: make deps"
[ "${1:-}" != all ] || (debian MPICH "command -v mpicc.mpich" libmpich-dev mpich) >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

ranks() { # ranks N COMMAND...: preflight under mpirun
    local n=$1
    shift
    timeout 300 "$launcher" -n "$n" "$program" "$@"
}

rows() { # rows DB: all that is stored, to the last bit
    python3 - "$1" <<'P'
import sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as db:
    for row in sorted(db.execute("SELECT * FROM trial_metric")):
        print(*row)
P
}

number() { # number DB SQL
    python3 -c 'import sqlite3, sys; print(sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(sys.argv[2]).fetchone()[0])' "$1" "$2" 2>/dev/null || echo 0
}

same_rows() { # same_rows A B: they have rows, the same
    rows "$1" >a.txt && rows "$2" >b.txt && [ -s a.txt ] && cmp a.txt b.txt
}

says() { # says STATUS WORDS COMMAND...: it ends so, and its only line of ours has the words
    local wanted=$1 words=$2 status lines
    shift 2
    "$@" >said 2>&1
    status=$?
    lines=$(grep -c '^preflight ' said)
    [ "$status" = "$wanted" ] && [ "$lines" = 1 ] && grep -q -e "^preflight .*$words" said && return
    echo "status $status, $lines lines"
    cat said
    return 1
}

rank() { # rank N: the process of a rank below $job
    local pid
    for pid in $(pgrep -P "$job"); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then echo "$pid"; fi
    done
}

until_trials() { # until_trials DB N: so many are done, and the job runs
    local i
    for ((i = 0; i < 600; i++)); do
        [ "$(number "$1" 'SELECT count(*) FROM unit WHERE state = 2')" -lt "$2" ] || return 0
        kill -0 "$job" 2>/dev/null || return 1
        sleep .1
    done
    return 1
}

small=(compact-plants --profile quick)
on=dc_servo,quad_tank,pump_tank # long enough to be stopped on its way
[ "${1:-}" != all ] || on=dc_servo,wind_pitch
long=(compact-plants --profile standard --only environment=$on --progress none)

no_mpi_loaded() { # the program by itself has nothing to do with MPI
    ! ldd "$program" | grep -q libmpi && ! grep -q libmpi <(LD_DEBUG=libs "$program" list plants 2>&1)
}

check "one process" "$program" bench run "${small[@]}" --db one.db
check "two ranks" ranks 2 bench run "${small[@]}" --db two.db
check "two ranks give the rows of one process" same_rows one.db two.db
check "again they have nothing to do" grep -q '(0 now' <(ranks 2 bench run "${small[@]}" --db two.db)
check "a job of one rank" ranks 1 bench run "${small[@]}" --only environment=dc_servo --db alone.db
check "the program alone loads no MPI" no_mpi_loaded
check "an unknown suite is one line" says 3 "there is no suite 'none'" ranks 2 bench run none --db x.db
check "so is a database that cannot be made" says 3 "none/x.db" ranks 2 bench run "${small[@]}" --db none/x.db

killed() { # all processes at once, in the midst of the trials
    "$launcher" -n 3 "$program" bench run "${long[@]}" --db killed.db >killed.log 2>&1 &
    job=$!
    until_trials killed.db 5
    kill -9 "$(rank 0)" "$(rank 1)" "$(rank 2)" "$job"
    wait "$job" 2>/dev/null
    local done_before
    done_before=$(number killed.db 'SELECT count(*) FROM unit WHERE state = 2')
    echo "$done_before trials before the kill"
    [ "$done_before" -ge 5 ] && [ "$(number killed.db 'SELECT count(*) FROM unit WHERE state = 0')" -gt 0 ]
}

check "it was killed on its way" killed
check "after kill -9 it goes on" ranks 2 bench run "${long[@]}" --db killed.db
check "a run for comparison" "$program" bench run "${long[@]}" --db whole.db
check "with the same rows" same_rows killed.db whole.db

[ "${1:-}" = all ] || { counts; exit; }

# --- four ranks

several=(compact-plants unseen-severity --profile quick --set 'environments=[dc_servo, wind_pitch]' --set sensor_noise=1)
check "two suites in one process" "$program" bench run "${several[@]}" --db several1.db
check "two suites with four ranks" ranks 4 bench run "${several[@]}" --db several4.db
check "they give the same rows" same_rows several1.db several4.db
check "a part by --shard" ranks 4 bench run "${small[@]}" --shard 1/2 --db shard.db
check "the other part in one process" "$program" bench run "${small[@]}" --shard 2/2 --db shard.db
check "both are the whole" same_rows shard.db one.db

if "$program" list plants | grep '^hopper ' | grep -qv 'needs MuJoCo'; then
    learned=(mujoco-readiness --profile quick --only environment=swimmer,hopper)
    mkdir apart
    check "learned models in one process" "$program" bench run "${learned[@]}" --models m1 --db learned1.db
    # the last rank has a folder of its own, as on another machine: models come to it in messages
    check "learned models with four ranks" timeout 600 "$launcher" \
        -n 3 "$program" bench run "${learned[@]}" --models m4 --db learned4.db : \
        -n 1 --wdir "$folder/apart" "$program" bench run "${learned[@]}" --models m4 --db learned4.db
    check "they give the same rows" same_rows learned1.db learned4.db
    check "and the same models" cmp m1/hopper-quick.model m4/hopper-quick.model
    mkdir deep # the last rank has none to make its own folder in
    learned+=(--models deep/m --db unmade.db)
    check "a folder that a rank cannot make is said" says 3 "rank 2 .*'deep/m' cannot be made" timeout 300 "$launcher" \
        -n 2 "$program" bench run "${learned[@]}" : \
        -n 1 --wdir "$folder/apart" "$program" bench run "${learned[@]}"
else
    echo "SKIPPED learned models (built without MuJoCo: make deps)"
    if [ -n "${CI:-}" ]; then failed=$((failed + 1)); fi
fi

printf 'entries:\n  - {name: none, fault: none}\n  - {name: gain 0, fault: gain, value: 0}\n  - {name: delay 2, fault: delay, value: 2}\n' >few.yaml
audit=(audit a.kit --catalogue few.yaml --sessions 12 --progress none)
check "a kit" "$program" calibrate attitude -o a.kit --set episodes=20 --set alarm_trials=40 --progress none
check "an audit in one process" "$program" "${audit[@]}" -o audit1.json
check "an audit with four ranks" ranks 4 "${audit[@]}" -o audit4.json
check "they are the same file" cmp audit1.json audit4.json
check "a kit that is none is one line" says 3 "few.yaml" ranks 4 audit few.yaml

# --- ranks that do not fit together

mixture() { # mixture OPTIONS...: the last rank sees another processor
    sed 's/^model name.*/model name\t: Another Processor/' /proc/cpuinfo >cpuinfo
    timeout 300 "$launcher" --mca btl_vader_single_copy_mechanism none -n 2 "$program" bench run "${small[@]}" "$@" --db mixed.db : \
        -n 1 unshare -rm sh -c "mount --bind '$folder/cpuinfo' /proc/cpuinfo && exec \"\$0\" \"\$@\"" \
        "$program" bench run "${small[@]}" "$@" --db mixed.db
}

if unshare -rm true 2>/dev/null; then
    check "another kind of processor is refused" says 3 "rank 2 .*another kind of processor" mixture
    check "and nothing was written" [ ! -e mixed.db ]
    check "--mixed lets it pass" mixture --mixed
    check "where each trial ran is kept" [ "$(number mixed.db 'SELECT count(DISTINCT machine) FROM unit')" = 2 ]
else
    echo "SKIPPED ranks on two kinds of processors (no user namespaces)"
fi

unequal() { # unequal PROGRAM OPTIONS...: what the last rank runs
    local other=$1
    shift
    timeout 300 "$launcher" -n 2 "$program" bench run "${small[@]}" --db unequal.db : \
        -n 1 "$other" bench run "$@" --db unequal.db
}

mkdir -p other/lib && cp "$program" other/preflight && echo >>other/preflight
cp -r "$root/build/release/lib/preflight" other/lib/
check "another build is refused" says 3 "rank 2 .*another build" unequal other/preflight "${small[@]}"
check "even with --mixed" says 3 "rank 2 .*another build" unequal other/preflight "${small[@]}" --mixed
check "another configuration is refused" says 3 "rank 2 .*another configuration" unequal "$program" "${small[@]}" --set alpha=.2
check "what a rank cannot read is said by rank 0" says 3 "rank 2: .*'none'" unequal "$program" none
check "a rank with fewer suites is refused" says 3 "rank 2: " timeout 300 "$launcher" \
    -n 2 "$program" bench run compact-plants unseen-severity --profile quick --db unequal2.db : \
    -n 1 "$program" bench run compact-plants --profile quick --db unequal2.db
check "nothing was written" [ ! -e unequal.db ]

# --- stops

stop() { # stop NAME SIGNAL RANK STATUS: of a run with trials, whose rank gets a signal; it ends so, and goes on
    local name=$1 signal=$2 of=$3 wanted=$4 code before
    "$launcher" -n 4 "$program" bench run "${long[@]}" --db "$name.db" >"$name.log" 2>&1 &
    job=$!
    until_trials "$name.db" 5
    before=$(number "$name.db" 'SELECT count(*) FROM unit WHERE state = 2')
    kill -s "$signal" "$(rank "$of")"
    wait "$job" 2>/dev/null
    code=$?
    cat "$name.log"
    echo "exit status $code after $before trials"
    [ "$code" = "$wanted" ] && [ "$before" -ge 5 ] && grep -c '^preflight bench run: interrupted' "$name.log" | grep -qx 1 &&
        [ "$(number "$name.db" 'SELECT count(*) FROM unit WHERE state = 2')" -ge "$before" ] &&
        [ "$(number "$name.db" 'SELECT count(*) FROM unit WHERE state = 0')" -gt 0 ] &&
        [ "$(number "$name.db" 'SELECT count(*) FROM unit WHERE state = 1')" = 0 ]
}

check "SIGTERM to rank 0 ends it with 143" stop term TERM 0 143
check "SIGINT to rank 0 ends it with 130" stop int INT 0 130
check "a signal to another rank ends it too" stop other INT 2 130
check "a rank that dies ends it" stop dies KILL 3 137
for name in term int other dies; do
    check "then it goes on ($name)" ranks 4 bench run "${long[@]}" --db "$name.db"
    check "with the same rows ($name)" same_rows "$name.db" whole.db
done

busy() { # a database that another process holds for longer than we wait
    "$program" bench run "${small[@]}" --only environment=dc_servo --db busy.db >/dev/null || return 1
    python3 -c 'import sqlite3, time
db = sqlite3.connect("busy.db", isolation_level=None)
db.execute("BEGIN IMMEDIATE")
time.sleep(60)' &
    local holder=$! status
    sleep 1
    says 3 "another process holds it" ranks 3 bench run "${small[@]}" --db busy.db
    status=$?
    kill "$holder"
    wait "$holder" 2>/dev/null
    return "$status"
}

check "a busy database is one line" busy
check "and has lost nothing" same_rows busy.db alone.db

# --- MPICH

mpich() { # the same module for MPICH, and a run under its launcher
    cmake -S "$root" -B "$folder/mpich" -DCMAKE_BUILD_TYPE=Release -DMPI_C_COMPILER=/usr/bin/mpicc.mpich \
        >mpich.log 2>&1 && cmake --build "$folder/mpich" -j 2 --target preflight_cli >>mpich.log 2>&1 &&
        timeout 300 mpirun.mpich -n 3 "$folder/mpich/preflight" bench run "${small[@]}" --db mpich.db
}

if command -v mpicc.mpich >/dev/null && command -v mpirun.mpich >/dev/null; then
    check "built with MPICH" mpich
    check "it gives the same rows" same_rows mpich.db one.db
    check "a launcher of another MPI is refused" says 3 "belongs to another MPI" timeout 60 mpirun.mpich -n 2 \
        "$program" bench run "${small[@]}" --db x.db
else
    echo "SKIPPED MPICH (not installed)"
fi

counts
