#!/bin/sh
# shellcheck disable=SC2046,SC2086 # lists of words
# Turns the boxes into what is installed: one object for libsounder, and headers that can be used outside the tree.
#
#   build.sh OBJECT INCLUDE_FOLDER SOURCE_FOLDER "HEADER ..." ARCHIVE ...     (headers that these include come too)
#
# Names. Only functions that an installed header declares stay visible, and the linker knows them as sounder_NAME, so
# that a program may have a `fail` or a `net_init` of its own. The headers rename them with #pragma redefine_extname, so
# sources use the short names. Headers include each other as <sounder/base/err.h>, so no folder called base, io or nn
# is added to a program's include path. C++ sees extern "C", and plain integers where C has _Atomic ones: only functions
# of the library access those.
set -eu
object=$1 include=$2 source=$3 headers=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${LD:-ld}" -r -o "$work/all.o" --whole-archive "$@"
"${NM:-nm}" -gP "$work/all.o" | awk '$2 ~ /^[A-TV-Z]$/ { print $1 }' >"$work/defined" # not U, v, w: undefined here
: >"$work/public"

rm -rf "$include"
set -- $headers
while [ $# -gt 0 ]; do
    header=$1
    shift
    [ ! -e "$include/sounder/$header" ] || continue
    file=$source/$header
    [ -e "$file" ] || file=$source/src/$header
    set -- "$@" $(sed -n 's/^#include "\(.*\)".*/\1/p' "$file")
    last_include=$(grep -n '^#include\|^#define SOUNDER_.*_H$' "$file" | tail -n 1 | cut -d : -f 1)
    mkdir -p "$include/sounder/$(dirname "$header")"
    awk -v public="$work/public" -v last_include="$last_include" -v last="$(grep -c '' "$file")" '
        function begin_c(    line, word, seen) {
            print "\n#ifdef __cplusplus\n#pragma push_macro(\"_Atomic\")\n#pragma push_macro(\"_Alignas\")"
            print "#undef _Atomic\n#undef _Alignas\n#define _Atomic\n#define _Alignas alignas\nextern \"C\" {\n#endif"
            while ((getline line < FILENAME) > 0) {
                sub(/\/\/.*/, "", line)
                for (; match(line, /[A-Za-z_][A-Za-z_0-9]*/); line = substr(line, RSTART + RLENGTH)) {
                    word = substr(line, RSTART, RLENGTH)
                    if (!(word in defined) || word in seen) continue
                    seen[word]
                    print "#pragma redefine_extname " word " sounder_" word
                    print word >>public
                }
            }
        }
        function end_c() {
            print "#ifdef __cplusplus\n}\n#pragma pop_macro(\"_Alignas\")\n#pragma pop_macro(\"_Atomic\")\n#endif\n"
        }
        NR == FNR { defined[$1]; next }
        FNR == last { end_c() } # before the #endif of the guard
        /^#include "/ { sub(/"/, "<sounder/"); sub(/"/, ">") }
        /^#include <stdatomic.h>/ { $0 = "#ifndef __cplusplus\n" $0 "\n#endif" }
        { print }
        FNR == last_include { begin_c() }' "$work/defined" "$file" >"$include/sounder/$header"
done

sed 's/.*/& sounder_&/' "$work/public" >"$work/renamed"
sed 's/^/sounder_/' "$work/public" >"$work/kept"
"${OBJCOPY:-objcopy}" --redefine-syms="$work/renamed" --keep-global-symbols="$work/kept" "$work/all.o" "$object"
