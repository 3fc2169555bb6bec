#!/bin/sh
# Every script that is run by hand says with --help what it is for, and does nothing else. Usage: test_tools.sh SOURCE_FOLDER
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
refuse() {
    echo "FAILED: $1"
    failures=$((failures + 1))
}

# In a copy with nothing but the scripts, whose commands that build, install, train and fetch only note that they were called.
mkdir "$work/bin" "$work/tree" "$work/home"
cp -r "$source/tools" "$work/tree/"
for command in apt-get cmake ctest ninja make nvcc pip curl wget chromium srun sbatch sounder debootstrap unshare; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/called"\n' $command "$work" >"$work/bin/$command"
    chmod +x "$work/bin/$command"
done
find "$work/tree" -type f ! -path '*/__pycache__/*' | sort | xargs md5sum >"$work/before"
cd "$work/home"
find "$work/tree/tools" -type f \( -perm -u+x -o -name '*.sbatch' \) | sort >"$work/scripts"
[ "$(wc -l <"$work/scripts")" -gt 15 ] || refuse "the scripts were not found"
while read -r script; do
    name=${script#"$work/tree/"}
    head -n 1 "$script" | grep -q '^#!' || continue
    grep -q -e '--help' -e argparse "$script" || { refuse "$name knows no --help"; continue; } # it might do what it is for
    runner=
    [ -x "$script" ] || runner=bash
    # shellcheck disable=SC2086 # no word, or one
    env HOME="$work/home" PATH="$work/bin:$PATH" PYTHONDONTWRITEBYTECODE=1 $runner "$script" --help >"$work/out" 2>"$work/err" </dev/null ||
        { cat "$work/err"; refuse "$name --help ends with $?"; }
    grep -qi -e usage -e "$name" -e "$(basename "$name")" "$work/out" || refuse "$name --help says no usage"
done <"$work/scripts"
[ ! -e "$work/called" ] || refuse "--help has called: $(cat "$work/called")"
[ -z "$(ls -A "$work/home")" ] || refuse "--help has left $(ls -A "$work/home")"
find "$work/tree" -type f ! -path '*/__pycache__/*' | sort | xargs md5sum | cmp -s - "$work/before" || refuse "--help has changed the tree"
[ $failures -eq 0 ] && echo 'all passed'
exit $((failures > 0))
