#!/bin/sh
# What a user types, `cmake -S . -B build`, configures on every machine: without the tests' packages the tests are left out,
# and without an nvcc that serves the machine's GPU the program is built for the CPU, with one line each.
# Usage: test_configure.sh SOURCE_FOLDER
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CMAKE_CUDA_ARCHITECTURES CUDACXX CUDAFLAGS CUDAHOSTCXX CONDA_PREFIX PYTHONPATH

refuse() {
    echo "FAILED: $1"
    cat "$work/log"
    exit 1
}

# Stand-ins: nvidia-smi of a machine with $GPUS, and nvcc of $CUDA, which refuses the host's compiler if $GNU is set; with
# $REAL it is that nvcc, but for the GPUs that it knows.
mkdir "$work/bin" "$work/packages"
cat >"$work/bin/nvidia-smi" <<'END'
#!/bin/sh
[ -n "${GPUS:-}" ] || exit 9
printf '%s\n' $GPUS
END
cat >"$work/bin/nvcc" <<'END'
#!/bin/sh
case $CUDA in
    11*) known="35 50 60 61 70 72 75 80 86 87 89 90" ;;
    12*) known="50 60 61 70 72 75 80 86 87 89 90 90a" ;;
    13*) known="75 80 86 87 88 89 90 100 110 103 120 121" ;;
esac
[ "$1" = --list-gpu-arch ] || [ -z "${REAL:-}" ] || exec "$REAL" "$@"
case $1 in
    --version) echo "Cuda compilation tools, release $CUDA, V$CUDA.1" ;;
    --list-gpu-arch) printf 'compute_%s\n' $known ;;
    *)
        [ -z "${GNU:-}" ] || echo 'crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 11 are not supported!' >&2
        [ -z "${GNU:-}" ]
        ;;
esac
END
chmod +x "$work/bin/nvidia-smi" "$work/bin/nvcc"
PATH="$work/bin:$PATH"

# choose WORDS ASSIGNMENT...: what is built for with those variables in the environment, or why nothing is.
cat >"$work/choose.cmake" <<END
include("$source/src/base/find_cuda.cmake")
sounder_choose_nvcc()
message("\${sounder_architectures}: \${sounder_why_not}")
END
choose() {
    words=$1
    shift
    (cd "$work" && env CUDACXX="$work/bin/nvcc" "$@" cmake -P choose.cmake) >"$work/log" 2>&1 || refuse "choosing with $*"
    grep -qF "$words" "$work/log" || refuse "not '$words' with $*"
}
for cuda in 11.8 12.4 13.0; do
    choose "75;80;90: " CUDA=$cuda GPUS=
    choose ": this machine's GPU has compute capability 6.1, and the code needs 7.0" CUDA=$cuda GPUS=6.1
    choose "90: " CUDA=$cuda GPUS="6.1 9.0 9.0"
    choose ": $work/bin/nvcc does not work here (crt/host_config.h:132:2: error: #error -- unsupported GNU version!" CUDA=$cuda GPUS=9.0 GNU=12
done
choose "70: " CUDA=11.8 GPUS=7.0
choose "70: " CUDA=12.4 GPUS=7.0
choose ": CUDA 13.0 has no code for this machine's GPU (compute capability 7.0); install CUDA 12" CUDA=13.0 GPUS=7.0
choose "90-virtual: " CUDA=11.8 GPUS=12.0
choose "90-virtual: " CUDA=12.4 GPUS=12.0
choose "120: " CUDA=13.0 GPUS=12.0
choose "121: " CUDA=13.0 GPUS=12.1
choose "; for an NVIDIA GPU \`pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cublas\`" CUDA=11.2 GPUS=9.0
choose ": $work/none does not run; " CUDACXX="$work/none" GPUS=9.0

# Every place is searched, and a compiler that does not serve is passed over for one that does.
mkdir -p "$work/first" "$work/conda/bin" "$work/site/nvidia/cu13/bin"
printf '#!/bin/sh\nGNU=12 CUDA=11.8 exec "%s" "$@"\n' "$work/bin/nvcc" >"$work/first/nvcc"
chmod +x "$work/first/nvcc"
cp "$work/bin/nvcc" "$work/conda/bin"
cp "$work/bin/nvcc" "$work/site/nvidia/cu13/bin"
cat >>"$work/choose.cmake" <<END
sounder_list_nvccs(all)
message("\${sounder_nvcc} of \${all}")
END
(cd "$work" && PATH="$work/first:$PATH" CUDA=12.4 GPUS=7.0 CONDA_PREFIX="$work/conda" PYTHONPATH="$work/site" cmake -P choose.cmake) >"$work/log" 2>&1
grep -q "^$work/bin/nvcc of $work/first/nvcc;$work/bin/nvcc;.*$work/conda/bin/nvcc;$work/site/nvidia/cu13/bin/nvcc$" "$work/log" ||
    refuse "nvcc is not looked for everywhere"

# configure WHAT ASSIGNMENT...: configures with those variables in the environment, and says once what it does about CUDA.
configure() {
    what=$1
    shift
    rm -rf "$work/build"
    env "$@" cmake -S "$source" -B "$work/build" -DSOUNDER_MPI=OFF >"$work/log" 2>&1 || refuse "$what: it does not configure"
    [ "$(grep -c '^-- CUDA: ' "$work/log")" = 1 ] || refuse "$what: not one line about CUDA"
}
for folder in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
    [ ! -d "$folder" ] || find "$folder" -name '*.pc' ! -name cmocka.pc -exec ln -sf {} "$work/packages" \;
done
configure "without cmocka" PKG_CONFIG_LIBDIR="$work/packages" CUDACXX="$work/bin/nvcc" CUDA=13.0 GPUS=7.0
[ "$(grep -c '^-- Tests: left out' "$work/log")" = 1 ] || refuse "without cmocka"
grep -q '^-- CUDA: building for the CPU only: CUDA 13.0 has no code' "$work/log" || refuse "a GPU that nvcc does not know"
configure "without a C++ compiler" CXX=/nonexistent/c++ CUDACXX="$work/bin/nvcc" CUDA=11.8 GNU=12
[ "$(grep -c '^-- Tests: left out' "$work/log")" = 1 ] || refuse "without a C++ compiler"
grep -q '^-- CUDA: building for the CPU only: .*unsupported GNU version' "$work/log" || refuse "an nvcc that does not compile"
real=$(PATH="${PATH#*:}:/usr/local/cuda/bin" command -v nvcc || true)
if [ -n "$real" ]; then
    configure "with an nvcc" CUDACXX="$work/bin/nvcc" CUDA=12.4 GPUS=12.0 REAL="$real"
    grep -q '^-- CUDA: .*, architectures 90-virtual$' "$work/log" || refuse "a GPU that is newer than nvcc"
fi

# What the user asks for and cannot have is refused in one sentence.
for machine in "GPUS=7.0 CUDA=13.0" "GPUS=6.1 CUDA=12.4" "GNU=12 CUDA=11.8" "CUDACXX=$work/none"; do
    rm -rf "$work/build"
    # shellcheck disable=SC2086 # words
    if env CUDACXX="$work/bin/nvcc" $machine cmake -S "$source" -B "$work/build" -DSOUNDER_CUDA=ON >"$work/log" 2>&1; then
        refuse "SOUNDER_CUDA=ON configures with $machine"
    fi
    [ "$(grep -c 'CMake Error' "$work/log")" = 1 ] || refuse "not one sentence with $machine"
done
rm -rf "$work/build"
rm -f "$work/packages/jansson.pc" "$work/packages/nettle.pc"
if PKG_CONFIG_LIBDIR="$work/packages" cmake -S "$source" -B "$work/build" -DSOUNDER_CUDA=OFF >"$work/log" 2>&1; then
    refuse "it configures without libraries"
fi
tr -s ' \n' ' ' <"$work/log" | grep -q 'does not find: jansson nettle; .* cmake -S tools/bench/card -B build-card' || refuse "libraries that are missing are not named"
echo "all configured"
