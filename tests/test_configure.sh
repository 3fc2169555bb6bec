#!/bin/sh
# What a user without the tests' packages types, `cmake -S . -B build`, configures: the tests are left out, with one line.
# Usage: test_configure.sh SOURCE_FOLDER
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# without WHAT ASSIGNMENT...: configures with those variables in the environment.
without() {
    what=$1
    shift
    rm -rf "$work/build"
    env "$@" cmake -S "$source" -B "$work/build" -DSOUNDER_CUDA=OFF -DSOUNDER_MPI=OFF >"$work/log" 2>&1 ||
        { echo "FAILED: without $what it does not configure"; cat "$work/log"; exit 1; }
    [ "$(grep -c '^-- Tests: left out' "$work/log")" = 1 ] || { echo "FAILED: without $what"; cat "$work/log"; exit 1; }
}

mkdir "$work/packages"
for folder in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
    [ ! -d "$folder" ] || find "$folder" -name '*.pc' ! -name cmocka.pc -exec ln -sf {} "$work/packages" \;
done
without cmocka PKG_CONFIG_LIBDIR="$work/packages"
without "a C++ compiler" CXX=/nonexistent/c++
echo "both configured"
