#!/bin/sh
# The rules of the house that a compiler does not check. Usage: test_architecture.sh SOURCE_FOLDER
#   directions  base <- nn, io, shm, datasets (blind to each other) <- fedavg <- app: no #include any other way; within
#               fedavg: rules <- algorithm, nodes <- memory <- worker <- parent <- gpu; within rules: rule.h, training.h <- sum <-
#               local, server, world; local <- send; world <- combine <- attack; combine, send <- privacy; shm <- shm/group;
#               app/options <- launch, train <- look <- again, help
#   guards      a header's guard is its path: src/app/options/options.h has SOUNDER_APP_OPTIONS_OPTIONS_H
#   parts       a .c file without a header of its name says in line 1 whose part it is: `// Part of rounds.h: ...`
#   lengths     a function has at most 60 lines, a line of comment 120 columns, README.md 200 lines, CONTRIBUTING.md 150
#   roof        git tracks nothing at the top level beside the boxes, the documents, what CMake reads and dotfiles
#   engines     at most 8 lines outside the engines' own files compare an algorithm
#   layers      at most 7 lines of src/nn outside their rows compare a kind of layer
#   kernels     name the threads of their blocks: __launch_bounds__ stands in the line of __global__
# Each rule is first tried on a bad sample, which it must refuse.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rules=$here/architecture.awk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check FOLDER: prints each violation in the tree under FOLDER; fails if there is one.
check() (
    cd "$1"
    find src shm fedavg datasets tests -type f \( -name '*.[ch]' -o -name '*.cu' \) | sort | xargs awk -f "$rules"
)

# refuses WHAT FILE: with the file on stdin, the rules must complain about FILE and WHAT.
refuses() {
    mkdir -p "$work/src/base" "$work/src/nn" "$work/src/app" "$work/shm" "$work/fedavg" "$work/datasets" "$work/tests"
    mkdir -p "$(dirname "$work/$2")"
    cat >"$work/$2"
    if complaints=$(check "$work"); then
        echo "FAILED: accepted: $1 in $2"
        exit 1
    fi
    case $complaints in
        *"$2:"*"$1"*) ;;
        *) echo "FAILED: $2 should break the rule '$1', but: $complaints" && exit 1 ;;
    esac
    rm "$work/$2"
}

long_function() {
    echo "static int $1("
    echo '    int a) {'
    lines=3
    while [ $lines -lt "$2" ]; do
        echo '    a++;'
        lines=$((lines + 1))
    done
    echo '}'
}

echo '#include "nn/net.h"' | refuses 'base may not include nn' src/base/a.c
echo '#include "shm/segment.h"' | refuses 'nn may not include shm' src/nn/a.c
echo '  #  include "../nn/net.h"' | refuses 'by their box' datasets/a.c
echo '#include "src/nn/net.h"' | refuses 'by their box' fedavg/a.c
echo '#include "io/metrics.h"' | refuses 'shm may not include io' shm/deep/a.cu
echo '#include "app/options/options.h"' | refuses 'fedavg/gpu may not include app/options' fedavg/gpu/a.c
echo '#include "fedavg/parent/rounds.h"' | refuses 'datasets may not include fedavg/parent' datasets/a.h
echo '#include "fedavg/memory/layout.h"' | refuses 'fedavg/rules may not include fedavg/memory' fedavg/rules/a.c
echo '#include "fedavg/algorithm/recipe.h"' | refuses 'fedavg/rules/server may not include fedavg/algorithm' fedavg/rules/server/a.h
echo '#include "fedavg/rules/sum/aggregate.h"' | refuses 'fedavg/rules may not include fedavg/rules/sum' fedavg/rules/a.c
echo '#include "fedavg/rules/combine/rows.h"' | refuses 'fedavg/rules/world may not include fedavg/rules/combine' fedavg/rules/world/a.c
echo '#include "fedavg/rules/attack/attack_rules.h"' | refuses 'fedavg/rules/server may not include fedavg/rules/attack' fedavg/rules/server/a.h
echo '#include "fedavg/rules/sum/aggregate.h"' | refuses 'fedavg/nodes may not include fedavg/rules/sum' fedavg/nodes/a.c
echo '#include "fedavg/worker/client.h"' | refuses 'fedavg/memory may not include fedavg/worker' fedavg/memory/a.c
echo '#include "fedavg/parent/rounds.h"' | refuses 'fedavg/worker may not include fedavg/parent' fedavg/worker/a.c
echo '#include "fedavg/gpu/gpu.h"' | refuses 'fedavg/parent may not include fedavg/gpu' fedavg/parent/a.c
echo '#include "shm/group/group.h"' | refuses 'shm may not include shm/group' shm/a.c
echo '#include "app/train/run_metrics.h"' | refuses 'app/options may not include app/train' src/app/options/a.c
echo '#include "app/look/past_run.h"' | refuses 'app/train may not include app/look' src/app/train/a.c
echo '#include "fedavg/a.h"' | refuses 'by their box' fedavg/rules/a.c
printf '#ifndef A_H\n#define A_H\n#endif\n' | refuses 'SOUNDER_APP_A_B_H' src/app/a_b.h
echo 'int x;' | refuses 'SOUNDER_SHM_A_H' shm/a.h
printf '#ifndef SOUNDER_SHM_A_H\n#define SOUNDER_SHM_B_H\n#endif\n' | refuses 'SOUNDER_SHM_A_H' shm/a.h
for i in 1 2 3 4 5 6 7 8 9; do echo "if (engine == ENGINE_WILD) $i;"; done | refuses 'ninth line' src/app/a.c
for i in 1 2 3 4 5 6 7 8; do echo "case LAYER_CONV: // $i"; done | refuses 'eighth line' src/nn/a.c
for i in 1 2 3 4 5; do echo "if (engine_facts[config->engine].buffers) $i;"; done | refuses 'fifth lookup' src/app/a.c
echo 'turn(&config->recipe.parts[PART_SERVER]);' | refuses 'write recipe.server' fedavg/parent/a.c
echo '// The other half of b.h.' | refuses 'no header of this name' shm/a.c
long_function too_long 61 | refuses 'too_long has 61 lines' src/app/a.c
printf '    // %0114d\n' 7 | refuses 'a comment of 121 columns' src/nn/a.cu
echo 'static __global__ void scale(float *values) {' | refuses 'without __launch_bounds__' src/nn/a.cu

# What is just within the rules passes.
echo '// Part of b.h: a sample.' >"$work/src/app/a.c"
long_function long_enough 60 >>"$work/src/app/a.c"
printf '    // %0113d\n' 7 >>"$work/src/app/a.c"
printf 'static const int table[] = {\n    1,\n};\n#include "fedavg/parent/rounds.h"\n#include "b.h"\n' >>"$work/src/app/a.c"
printf '// #include "app/main.h"\n#ifndef SOUNDER_SHM_A_H\n#define SOUNDER_SHM_A_H\n#include "base/err.h"\n#endif\n' \
    >"$work/shm/a.h"
check "$work"

# roof: of the paths on stdin, prints the ones that stand at the top level and do not belong there; fails if there is one.
roof() {
    ! grep -vxE '(src|shm|fedavg|datasets|tests|tools)/.*|\..*|(README|CONTRIBUTING)\.md|LICENSE|CMakeLists\.txt|CMakePresets\.json' |
        sed 's/^/does not belong at the top level: /' | grep .
}

if echo 'net.onnx' | roof >/dev/null; then echo "FAILED: accepted a file on the roof" && exit 1; fi
printf '.ci/run\nLICENSE\nsrc/main.c\n' | roof

# pages FOLDER: the front page has at most 200 lines, the page for contributors 150.
pages() (
    cd "$1"
    wc -l README.md CONTRIBUTING.md | awk '$2 == "README.md" && $1 > 200 || $2 == "CONTRIBUTING.md" && $1 > 150 {
        print $2 " has " $1 " lines"; bad = 1 } END { exit bad }'
)

seq 201 >"$work/README.md"
: >"$work/CONTRIBUTING.md"
if pages "$work" >/dev/null; then echo "FAILED: accepted a front page of 201 lines" && exit 1; fi

check "$1"
pages "$1"
if [ -e "$1/.git" ]; then git -C "$1" ls-files | roof; fi
echo "all rules kept"
