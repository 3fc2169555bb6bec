#!/bin/sh
# Comments and help are plain English: no pattern of sentences.txt occurs oftener than its budget there.
# Usage: test_sentences.sh [--lower | --list NUMBER] SOURCE_FOLDER
#   --lower          rewrites budgets that are higher than what is counted
#   --list NUMBER    prints where the pattern of that row (1, 2, ...) occurs
set -eu
mode=check
case $1 in
--lower) mode=lower && shift ;;
--list) mode=list && wanted=$2 && shift 2 ;;
esac
table=$1/tests/sentences.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# comments FOLDER: file:line:comment for each comment in the sources below it.
comments() (
    cd "$1"
    grep -rnoE '(^|[[:space:]])//.*' --include='*.[ch]' --include='*.cu' src shm fedavg datasets
)

# counts: for each row of the table the number of matches in comments and help.
counts() {
    grep -v '^#' "$table" | while IFS='	' read -r _ _ pattern _; do
        echo "$(cut -d: -f3- "$work/comments" | grep -oE -e "$pattern" | wc -l) $(grep -oE -e "$pattern" "$work/help" | wc -l)"
    done
}

# judge: each count against its budget; fails if one is higher.
judge() {
    paste "$work/counts" "$work/budgets" | awk -F '[\t ]' '{
        if ($1 > $3) { print "row " NR ": " $1 " comments, " $3 " are allowed"; bad = 1 }
        if ($2 > $4) { print "row " NR ": " $2 " times in help, " $4 " are allowed"; bad = 1 }
    } END { exit bad }'
}

printf '3 0\n' >"$work/counts"
printf '2\t0\n' >"$work/budgets"
if judge >"$work/said"; then echo "FAILED: accepted a third sentence of two" && exit 1; fi

comments "$1" >"$work/comments"
cp "$1/tests/record/help.txt" "$work/help"
if [ $mode = list ]; then
    pattern=$(grep -v '^#' "$table" | sed -n "${wanted}p" | cut -f3)
    grep -E -e "$pattern" "$work/comments" || true
    grep -nE -e "$pattern" "$work/help" || true
    exit 0
fi
counts >"$work/counts"
grep -v '^#' "$table" | cut -f1,2 >"$work/budgets"
if [ $mode = lower ]; then
    {
        grep '^#' "$table"
        grep -v '^#' "$table" | paste "$work/counts" - | awk -F '\t' -v OFS='\t' '{
            split($1, count, " ")
            print ((count[1] < $2) ? count[1] : $2), ((count[2] < $3) ? count[2] : $3), $4, $5
        }'
    } >"$work/lowered"
    cp "$work/lowered" "$table"
    exit 0
fi
if ! judge; then
    echo "Write it as tests/sentences.txt says; tests/test_sentences.sh --list ROW . shows where. tests/sentences.txt is lowered, never raised."
    exit 1
fi
echo "no sentence more than before"
