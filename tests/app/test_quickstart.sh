#!/bin/sh
# tools/quickstart in a tree of its own, where packages and build are there already. Usage: test_quickstart.sh SOURCE SOUNDER
# shellcheck disable=SC2015,SC2016 # a refusal ends the script; sed shall expand nothing
set -eu
source=$1
sounder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refuse() {
    echo "FAILED: $1"
    cat "$work/log"
    exit 1
}

mkdir -p "$work/tree/tools" "$work/tree/build" "$work/bin" "$work/elsewhere"
cp "$source/tools/quickstart" "$work/tree/tools/"
sed 's/^install_packages() {/& echo "$*" >>"$asked"; return; /' "$source/tools/packages.sh" >"$work/tree/tools/packages.sh"
ln -s "$sounder" "$work/tree/build/sounder"
printf '#!/bin/sh\necho "$@" >>"%s"\necho "[9/200] Building C object a.c.o"\necho "[ 40%%] Building b.c.o"\necho "-- CUDA: as configured"\n' "$work/built" >"$work/bin/cmake"
chmod +x "$work/bin/cmake"
export asked="$work/asked" PATH="$work/bin:$PATH"
quickstart() { "$work/tree/tools/quickstart" "$@" >"$work/log" 2>&1; }
small="--data synthetic:1x8x8:64:16 --model softmax --rounds 1"

quickstart --help || refuse "--help fails"
grep -q '^Usage: tools/quickstart' "$work/log" || refuse "--help gives no help"
[ ! -e "$asked" ] && [ ! -e "$work/built" ] || refuse "--help installs or builds"

cd "$work/elsewhere"
echo 'lr: 0.02' >experiment.yaml
# shellcheck disable=SC2086 # words
quickstart experiment.yaml $small --out mine || refuse "a run with a folder and a file of the user's"
[ -e "$asked" ] && [ -e "$work/built" ] || refuse "nothing was installed or built"
grep -q '^    \[9/200\]$' "$work/log" && grep -q '^    \[ 40%\]$' "$work/log" || refuse "no word of how far the build is"
grep -q '^==> CUDA: as configured$' "$work/log" || refuse "no word of what the build is for"
grep -q 'libjs-chart\.js' "$asked" || refuse "no report without another package"
grep -q '^lr: 0.02' mine/config.yaml || refuse "the folder or the file was sought elsewhere"
if grep -q '^workers: ' mine/config.yaml; then refuse "a number of workers that nobody asked for"; fi
# shellcheck disable=SC2086
quickstart $small --workers 2 --out=two || refuse "another number of workers"
grep -q '^workers: 2' two/config.yaml && ! grep -q warning "$work/log" || refuse "not two workers"
quickstart --resume two --rounds 2 || refuse "a run that is continued"
[ ! -e "$work/tree/runs" ] || refuse "a folder was made that nobody asked for"

# Several in one second, here made sure of by a clock that stands still.
printf '#!/bin/sh\necho 20260101-000000\n' >"$work/bin/date"
chmod +x "$work/bin/date"
for name in quickstart-20260101-000000 quickstart-20260101-000000-2; do
    # shellcheck disable=SC2086
    quickstart $small || refuse "a run without a folder"
    [ -e "$work/tree/runs/$name/model.safetensors" ] || refuse "no $name"
done
if quickstart --data nothing; then refuse "a data set that is not there"; fi
[ "$(find "$work/tree/runs" -mindepth 1 -maxdepth 1 | wc -l)" = 2 ] || refuse "a folder without a run is left"

# Its own experiment has clients and a momentum, whatever says where, how long and by how many workers, which it leaves to
# the machine; an experiment of the user's has its own.
rm "$work/tree/build/sounder"
printf '#!/bin/sh\necho "asked for $*"\n' >"$work/tree/build/sounder"
chmod +x "$work/tree/build/sounder"
for words in "" "--rounds 6" "--workers 2 --out=here" "--quiet --out here"; do
    # shellcheck disable=SC2086
    quickstart $words || refuse "its own experiment with $words"
    grep -q '^asked for train --clients 4 --momentum 0.5' "$work/log" || refuse "no clients or momentum with $words"
done
for words in experiment.yaml "--lr 0.1" "--rounds 6 --algorithm fedprox" "--momentum 0" "--resume two --rounds 6"; do
    # shellcheck disable=SC2086
    quickstart $words || refuse "an experiment of $words"
    if grep '^asked for' "$work/log" | grep -q -e '--clients\|momentum 0.5'; then refuse "clients or a momentum that $words does not ask for"; fi
done

# What is optional is found in a long answer, too, to scripts in which a broken pipe is a failure.
printf '#!/bin/sh\necho "  Candidate: 1.13"\nseq 100000\n' >"$work/bin/apt-cache"
chmod +x "$work/bin/apt-cache"
bash -c 'set -euo pipefail; . "$1"; has_candidate anything' sh "$source/tools/packages.sh" || refuse "a package that can be had is not found"
printf '#!/bin/sh\necho "  Candidate: (none)"\n' >"$work/bin/apt-cache"
if bash -c '. "$1"; has_candidate anything' sh "$source/tools/packages.sh"; then refuse "a package is found that cannot be had"; fi
echo "all checks passed"
