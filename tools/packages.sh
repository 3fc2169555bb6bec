# What the build and the tests need from Debian, and how it gets onto the machine. Sourced by the scripts in this folder.
# shellcheck shell=bash disable=SC2034 # the lists are for who sources this

build_packages=(build-essential cmake ninja-build pkg-config libisal-dev libjansson-dev libyaml-dev nettle-dev libxxhash-dev
                libopenblas-dev libncurses-dev libopenmpi-dev openmpi-bin) # the last two: runs on several machines
data_packages=(dataset-fashion-mnist)
test_packages=(libcmocka-dev zlib1g-dev python3 mandoc)
wheel_packages=(python3-venv) # of tools/wheel
cluster_packages=(slurm-wlm munge) # only the test of tools/slurm needs them
parity_packages=(python3-torch python3-numpy) # large; only the comparison with PyTorch needs them
onnx_packages=(python3-onnx) # only the tests of ONNX's files need it
shell_packages=(zsh fish) # only the tests of their completion need them
report_packages=(libjs-chart.js) # of `sounder report`
browser_packages=(chromium) # large; only the test of sounder report needs it
clang_packages=(clang) # large; only the build with Clang needs it

say() { printf '==> %s\n' "$*"; }
stop() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit "${2:-1}"
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
# Without a pipe: a grep that has seen enough ends apt-cache by a signal, which pipefail takes for "no".
has_candidate() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) == *'Candidate: '[0-9]* ]]; }

# Sets as_root to the command that runs another as root, or stops with the line to type and EX_UNAVAILABLE.
find_root() {
    if [ "$(id -u)" = 0 ]; then
        as_root=(env)
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && [ -t 2 ]; }; }; then
        as_root=(sudo env)
    else
        stop "packages are missing; run this as root, then come back:
    apt-get update && apt-get install --no-install-recommends $*" 69
    fi
}

# apt_get ARGUMENT...: quiet, asks nothing, waits for another apt. What it says goes to $apt_log.
apt_get() {
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
        "$@" </dev/null >>"$apt_log" 2>&1
}

# install_packages PACKAGE...: installs those that are missing; touches neither apt nor the network when none is.
install_packages() {
    local package missing=() as_root=() apt_log updated=yes
    command -v dpkg-query >/dev/null || stop "needs Debian or a relative of it; elsewhere install the likes of: $*" 69
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    find_root "${missing[@]}"
    say "installing ${missing[*]}"
    apt_log=$(mktemp)
    apt_get update || updated=no # perhaps one source of many is down: the installation shows whether it mattered
    if ! apt_get install --no-install-recommends "${missing[@]}"; then
        cat "$apt_log" >&2
        rm -f "$apt_log"
        [ $updated = yes ] || printf 'The package lists could not be brought up to date.\n' >&2
        stop "apt-get could not install: ${missing[*]}" 69
    fi
    rm -f "$apt_log"
}

# install_optional WHAT PACKAGE...: what is left out without them
install_optional() {
    local what=$1 package
    shift
    for package in "$@"; do
        if is_installed "$package" || has_candidate "$package"; then
            install_packages "$package"
        else
            say "no $package on this machine: $what is left out"
        fi
    done
}
