#!/bin/sh
# `cmake --install` into a folder of its own: what lies there works from there, whatever was configured. Programs of
# others find the library with pkg-config and find_package; the packages for Debian hold what they should.
# Usage: test_install.sh BUILD_FOLDER
set -eu
build=$1
guest=$(cd "$(dirname "$0")" && pwd)/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refuse() {
    echo "FAILED: $1"
    exit 1
}
# quietly COMMAND...: its words only if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 </dev/null || {
        cat "$work/log"
        refuse "$*"
    }
}
find_one() { find "$work/prefix" -path "*/$1" | grep . || refuse "$1 is not installed"; }

quietly cmake --install "$build" --prefix "$work/prefix"
sounder=$(find_one bin/sounder)
"$sounder" --version >/dev/null || refuse "the program does not start"
grep -q '^\.TH' "$(find_one man1/sounder.1)" || refuse "no manual page"
bash -n "$(find_one bash-completion/completions/sounder)" || refuse "no completion script"
grep -q '^#compdef sounder' "$(find_one zsh/site-functions/_sounder)" || refuse "no completion script for zsh"
grep -q '^complete -c sounder' "$(find_one fish/vendor_completions.d/sounder.fish)" || refuse "no completion script for fish"

# ranks PROGRAM: three of them meet and add up.
ranks() {
    "$sounder" launch --standalone -n 3 "$1" >"$work/out" || refuse "$1 under sounder launch"
    [ "$(sort "$work/out" | tail -n 1)" = "[2] rank 2 of 3: sum 30" ] || { cat "$work/out"; refuse "$1: another sum"; }
}

# By pkg-config: the shared library in C and C++, the archive in C. Nothing of the library's inside is to be seen.
PKG_CONFIG_PATH=$(dirname "$(find_one pkgconfig/sounder.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir sounder)
strict="-Wall -Wextra -Werror"
# shellcheck disable=SC2046,SC2086 # words
{
    quietly cc $strict "$guest/ranks.c" -o "$work/ranks" $(pkg-config --cflags --libs sounder) "-Wl,-rpath,$libdir"
    ranks "$work/ranks"
    quietly cc $strict "$guest/ranks.c" -o "$work/ranks" $(pkg-config --cflags sounder) "$libdir/libsounder.a" \
        $(pkg-config --static --libs-only-l sounder | sed 's/-lsounder//')
    ranks "$work/ranks"
    sed -n '/^#include <sounder.*group.h>/,/^```/p' "$guest/../../../README.md" | grep -v '^```' >"$work/readme.c"
    quietly cc $strict "$work/readme.c" -o "$work/readme" $(pkg-config --cflags --libs sounder) "-Wl,-rpath,$libdir"
    quietly c++ $strict -xc++ "$work/readme.c" -o "$work/readme" $(pkg-config --cflags --libs sounder) "-Wl,-rpath,$libdir"
    "$sounder" launch --standalone -n 2 "$work/readme" >"$work/out" || refuse "README's program"
    grep -q '^\[1\] rank 1 of 2: 0.5$' "$work/out" || refuse "README's program says something else"
    quietly cc $strict "$guest/../../../tools/python/examples/trainer.c" -o "$work/trainer" $(pkg-config --cflags sounder) -lm
    quietly c++ $strict "$guest/own_data.cpp" -o "$work/own_data" $(pkg-config --cflags --libs sounder) "-Wl,-rpath,$libdir"
    quietly "$work/own_data" "$work/own.safetensors"
    (cd "$libdir/../include" && find sounder -name '*.h' | sed 's/.*/#include <&>/') >"$work/all.c"
    [ "$(grep -c . "$work/all.c")" -gt 15 ] || refuse "headers are missing"
    quietly cc $strict -std=c11 -D_GNU_SOURCE -c "$work/all.c" -o "$work/all.o" $(pkg-config --cflags sounder)
    quietly c++ $strict -std=c++17 -xc++ -c "$work/all.c" -o "$work/all.o" $(pkg-config --cflags sounder)
}
nm -D --defined-only "$libdir/libsounder.so" | grep -v ' sounder_' && refuse "names without a prefix"
nm -g --defined-only "$libdir/libsounder.a" | grep '^[0-9a-f]' | grep -v ' sounder_' && refuse "names without a prefix"

# By find_package.
quietly cmake -S "$guest" -B "$work/guest" -D CMAKE_PREFIX_PATH="$work/prefix" -D CMAKE_C_FLAGS="$strict"
quietly cmake --build "$work/guest"
ranks "$work/guest/ranks"
quietly "$work/guest/own_data" "$work/own.safetensors"

# The package: unpacked somewhere else, the program runs, and what it needs is named.
if command -v dpkg-shlibdeps >/dev/null; then
    quietly cpack --config "$build/CPackConfig.cmake" -B "$work/packages"
    package=$(find "$work/packages" -maxdepth 1 -name 'sounder_*.deb')
    dpkg --field "$package" Depends | grep -q 'libc6.*libisal2.*libjansson4' || refuse "Depends of $package"
    ! dpkg --field "$package" Depends | grep -q mpi || refuse "$package needs MPI"
    quietly dpkg -x "$package" "$work/root"
    for file in bin/sounder libsounder.so.0 libsounder.a sounder/shm/group/group.h pkgconfig/sounder.pc man1/sounder.1 \
        doc/sounder/copyright; do
        find "$work/root/usr" -path "*/$file" | grep -q . || refuse "$package holds no $file"
    done
    quietly "$work/root/usr/bin/sounder" train --data synthetic:1x8x8:64:16 --model softmax --rounds 1 --workers 2 \
        --device cpu --out "$work/packaged"
fi

# The program finds the module for several nodes where it was put. Its own words if it does not: "cannot be loaded".
[ -e "$build/sounder_mpi.so" ] || { echo "built without MPI: there is no module to install"; exit 0; }
find_one sounder/sounder_mpi.so >/dev/null
command -v mpirun >/dev/null || { echo "no mpirun here: the module is not loaded"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # MPI's own
cd "$work"
quietly timeout 100 mpirun -np 2 "$sounder" train --data synthetic:1x8x8:64:16 --model softmax --rounds 1 --workers 1 \
    --device cpu --out run
grep -q "1 worker on each of 2 nodes" "$work/log" || { cat "$work/log"; refuse "these were not two nodes"; }
