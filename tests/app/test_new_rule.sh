#!/bin/sh
# tools/new-rule: what it writes builds, and exactly the new test fails.
# Usage: test_new_rule.sh SOURCE_FOLDER BUILD_FOLDER (below the source folder)
# The new files lie over the source folder, which stays as it is, in a mount of this test's own, so that only what they
# change is compiled; where the system allows no such mount, a copy of the tree is built.
set -eu
source=$1 built=$2
fail() {
    echo "$1" >&2
    exit 1
}
must() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }; }

# try BUILD_FOLDER: in the current folder, which has both rules.
try() {
    must cmake --build "$1" --parallel 2 --target test_rules test_server_trial test_local_trial sounder
    must "$1/tests/test_rules"
    for new in server local; do # what is not written yet changes nothing
        if "$1/tests/test_${new}_trial" >"$work/log" 2>&1; then fail "test_${new}_trial passes before the rule is written"; fi
        grep -q "one_weight_moves_as_the_paper_says" "$work/log"
        "$1/sounder" train --data synthetic:1x8x8:80:20 --model "linear 10" --clients 2 --rounds 1 --device cpu --quiet \
            --algorithm "$new trial" --out "$work/$new"
    done
    words=$(sed -n 's/.* run it: build-ci.sounder //p' "$work/steps") # the command of the printed steps, word for word
    eval "'$1/sounder' $words --rounds 1 --device cpu --quiet --out '$work/as-printed'"
}

if [ "${3-}" = over ]; then # this script again, in the mount
    work=$4
    try "$built"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/copy"
(cd "$source" && tar -cf - --exclude='./build*' --exclude=./.git --exclude=./runs .) | tar -xf - -C "$work/copy"
(cd "$work/copy" && tools/new-rule server trial) >"$work/steps"
grep -q '0. once: tools/test' "$work/steps" || fail "no word of tools/test before there is a build-ci/"
(cd "$work/copy" && tools/new-rule local trial) >/dev/null
for again in "server trial" "server Trial" "client x" ""; do
    # shellcheck disable=SC2086
    if (cd "$work/copy" && tools/new-rule $again) 2>/dev/null; then fail "accepted: tools/new-rule $again"; fi
done

# over COMMAND...: runs it where the copy lies over the source folder.
over() {
    mkdir -p "$work/over"
    # shellcheck disable=SC2016 # the inner shell's variables
    unshare --map-root-user --mount sh -c 'set -eu
        mount -t tmpfs tmpfs "$1/over"
        mkdir "$1/over/new" "$1/over/work"
        mount -t overlay -o "userxattr,lowerdir=$1/copy:$2,upperdir=$1/over/new,workdir=$1/over/work" overlay "$2"
        cd "$2"
        shift 2
        "$@"' over "$work" "$source" "$@"
}
if over true 2>/dev/null; then
    over sh "$0" "$source" "$built" over "$work"
else
    cd "$work/copy"
    must cmake -S . -B build -G Ninja -DSOUNDER_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug
    try "$work/copy/build"
fi
