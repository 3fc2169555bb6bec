#!/bin/sh
# tools/new-rule in a copy of the tree: what it writes builds, and exactly the new test fails.
# Usage: test_new_rule.sh SOURCE_FOLDER
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$source" && tar -cf - --exclude='./build*' --exclude=./.git --exclude=./runs .) | tar -xf - -C "$work"
cd "$work"
tools/new-rule server trial >steps
grep -q '0. once: tools/test' steps || { echo "no word of tools/test before there is a build-ci/" >&2; exit 1; }
words=$(sed -n 's/.* run it: build-ci.sounder //p' steps)
tools/new-rule local trial >/dev/null
for again in "server trial" "server Trial" "client x" ""; do
    # shellcheck disable=SC2086
    if tools/new-rule $again 2>/dev/null; then echo "accepted: tools/new-rule $again" >&2; exit 1; fi
done
cmake -S . -B build -G Ninja -DSOUNDER_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug >log 2>&1 || { cat log >&2; exit 1; }
cmake --build build --parallel 2 --target test_rules test_server_trial test_local_trial sounder >log 2>&1 || { cat log >&2; exit 1; }
build/tests/test_rules >log 2>&1 || { cat log >&2; exit 1; }
for new in server local; do # what is not written yet changes nothing
    if build/tests/test_${new}_trial >log 2>&1; then echo "test_${new}_trial passes before the rule is written" >&2; exit 1; fi
    grep -q "one_weight_moves_as_the_paper_says" log
    build/sounder train --data synthetic:1x8x8:80:20 --model "linear 10" --clients 2 --rounds 1 --device cpu --quiet \
        --algorithm "$new trial" --out "$new"
done
# The command of the printed steps, word for word.
eval "build/sounder $words --rounds 1 --device cpu --quiet --out as-printed"
