#!/bin/sh
# Groups by MPI under mpirun. Usage: test_group_mpi.sh TEST_GROUP_MPI; skipped (77) without mpirun or MPI.
set -eu
program=$1
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || true; rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader # one machine: looking for networks takes longer than most scenarios
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl_vader_backing_directory="$work" # for what killed ranks leave
export LSAN_OPTIONS=detect_leaks=0 # MPI's own

# start RANKS SCENARIO ...: their output is in $work/out, the exit code in $code.
start() {
    code=0 ranks=$1
    shift
    timeout --kill-after=5 100 mpirun -np "$ranks" "$program" "$@" >"$work/out" 2>&1 </dev/null || code=$?
    [ "$code" != 77 ] || { echo "skipped: built without MPI"; exit 77; }
}

refuse() {
    echo "FAILED: $1"
    cat "$work/out"
    exit 1
}

# Every rank is done with every scenario.
passes() {
    start "$@"
    [ "$code" = 0 ] && [ "$(grep -c '^done$' "$work/out")" = $(($1 * ($# - 1))) ] || refuse "$*: exit $code"
}

# So many ranks say the words, and stand still.
says() {
    : >"$work/out" # words of the scenario before are none of this one's
    timeout --kill-after=5 100 mpirun -np "$1" "$program" "$2" >"$work/out" 2>&1 </dev/null &
    running=$!
    until [ "$(grep -c "$4" "$work/out")" -ge "$3" ]; do
        kill -0 "$running" 2>/dev/null || refuse "$2 on $1 ranks: too few say '$4'"
        sleep 0.05
    done
    kill "$running"
    wait "$running" || true
    running=
}

# The start of mpirun takes longer than most scenarios: those for one number of ranks share it.
passes 1 everything no-memory
passes 2 everything test arguments
passes 3 everything order divide
passes 4 round exchange any
passes 7 everything
says 2 misfit 2 "rank says MISMATCH: .*rank 0's call 1 is barrier, but rank 1's call 1 is broadcast of 8 f32 from rank 1"
says 2 misfit-message 1 "rank says MISMATCH: .*message 1 to rank 1 is send of 7 f32, but rank 1 called recv of 8 f32"
start 1 no-memory-once # where the group has started MPI itself
[ "$code" = 0 ] && grep -q "^OS: out of memory for a group of 1 ranks$" "$work/out" || refuse "no-memory-once: exit $code"
says 3 late 1 "rank says TIMEOUT: rank [02] waited 0.2 s in barrier .*: rank 1 did not come"
start 3 die
[ "$code" != 0 ] && ! grep -q "was passed" "$work/out" || refuse "mpirun does not end the others when a rank dies"
echo "all groups by MPI are as they should be"
