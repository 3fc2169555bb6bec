#!/bin/sh
# `cmake --install` into a folder of its own: what lies there works from there, whatever was configured.
# Usage: test_install.sh BUILD_FOLDER
set -eu
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refuse() {
    echo "FAILED: $1"
    exit 1
}
find_one() { find "$work/prefix" -path "*/$1" | grep . || refuse "$1 is not installed"; }

cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
sounder=$(find_one bin/sounder)
"$sounder" --version >/dev/null || refuse "the program does not start"
grep -q '^\.TH' "$(find_one man1/sounder.1)" || refuse "no manual page"
bash -n "$(find_one bash-completion/completions/sounder)" || refuse "no completion script"

# The program finds the module for several nodes where it was put. Its own words if it does not: "cannot be loaded".
[ -e "$build/sounder_mpi.so" ] || { echo "built without MPI: there is no module to install"; exit 0; }
find_one sounder/sounder_mpi.so >/dev/null
command -v mpirun >/dev/null || { echo "no mpirun here: the module is not loaded"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # MPI's own
cd "$work"
timeout 100 mpirun -np 2 "$sounder" train --data synthetic:1x8x8:64:16 --model softmax --rounds 1 --workers 1 --device cpu \
    --out run >"$work/log" 2>&1 </dev/null || { cat "$work/log"; refuse "the installed program on two nodes"; }
grep -q "1 worker on each of 2 nodes" "$work/log" || { cat "$work/log"; refuse "these were not two nodes"; }
