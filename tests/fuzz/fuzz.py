#!/usr/bin/env python3
"""Makes a target's first inputs and runs it on them and what libFuzzer makes of them.

Usage: fuzz.py PROGRAM FOLDER_FOR_FINDINGS [SECONDS]    5 seconds; with SOUNDER_EXHAUSTIVE=1, 600
"""
import gzip, io, json, math, os, struct, subprocess, sys, tempfile, zipfile


def safetensors(header, payload=b""):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + payload


def tensor(kind, shape, begin, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def idx(sizes, payload):
    return bytes([0, 0, 8, len(sizes)]) + b"".join(struct.pack(">I", size) for size in sizes) + payload


def npy(kind, shape, payload):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + payload


def archive(method, *arrays):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        for name, content in zip(("x_train", "y_train", "x_test", "y_test", "client_train", "client_test", "mean", "std"), arrays):
            file.writestr(name + ".npy", content)
    return packed.getvalue()


def users(x, y):
    return json.dumps({"users": ["a", "b"], "user_data": {user: {"x": x, "y": y} for user in "ab"}}).encode()


def packet(payload, descriptors=0):
    return struct.pack("<HB", len(payload), descriptors) + payload


def notice(kind, status, text):
    return struct.pack("<QII", 0x32726564736f7572, kind, status) + text + b"\0"


MODEL = safetensors({"__metadata__": {"sounder.model": "relu; linear 3"}, "a": tensor("U8", [0, 9], 0, 0),
                     "conv1.weight": tensor("F32", [2, 1, 2, 4], 0, 64), "b": tensor("I64", [2], 64, 80)}, bytes(80))
IMAGES, LABELS = idx([3, 2, 2], bytes(range(12))), idx([3], b"\0\1\2")
PIXELS = [npy("|u1", "(3, 2, 2)", bytes(range(12))), npy("<i8", "(3,)", struct.pack("<3q", 0, 1, 1)), npy("|u1", "(1, 2, 2)", bytes(4)),
          npy("|u1", "(1,)", b"\1")]
NUMBERS = [npy("<f8", "(2, 2)", struct.pack("<4d", 1, 2, 3, 4)), npy("<f4", "(2, 1)", struct.pack("<2f", 1, -1)),
           npy("<f4", "(1, 2)", struct.pack("<2f", 5, 6)), npy("<f4", "(1,)", struct.pack("<f", 1)),
           npy("<i4", "(2,)", struct.pack("<2i", 1, 0)), npy("|u1", "(1,)", b"\1"), npy("<f4", "(2,)", struct.pack("<2f", 1, 2)),
           npy("<f4", "(2,)", struct.pack("<2f", 1, 2))]
SEEDS = {
    "zip": [archive(method, *arrays) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for arrays in (PIXELS, NUMBERS)],
    "arrays": [b"|||".join(PIXELS), b"|||".join(NUMBERS)],
    "cifar": [b"\0" + bytes(3073) + b"|||\1" + bytes(3072), b"\1" + bytes(3074) + b"|||\3\7" + bytes(3072)],
    "csv": [b"\na,b,label,client\n1,2.5,0,0\n-1e3,4,1,1\n|||a,b,label,client\n0,0,1,0\n", b"\ntarget,x\r\n1,2\r\n|||target,x\r\n\"3\", 4\r\n",
            b"\n,a,label\n0,1,0\n|||Unnamed: 0;a;label\n", b"\n# made\n\"a, m\",label,\n|||1,2,3\n1e39,\"1,000\"\n",
            b"label=kind text=one-hot missing=drop normalize=yes\na;b;kind\n1;red;x\n?;blue;y\n3;\"a \"\"b\"\"\n;\";x\n4;red;y\n",
            b"header=no label=3 client=1 test-fraction=0.5 shape=1x1\n1,2,0\n2,3,1\n1,4,0\n2,5,1\n", b"target='a b' without=c test-fraction=1\na b\tc\td\n1\tx\ttrue\n"],
    "text": [b"the cat sat on the mat|||the dog sat|||{\"length\": 3, \"step\": 2}", b"abcab;cabac;x;aaaa|||bca;ccc;;abcabc|||{\"length\":2,\"separator\":\";\"}",
             b"x" * 90 + b"|||" + b"y" * 81 + b"###y\n\\x00\nx\n", b"abcab|||caca|||{\"length\": 2}###c\n\\xff\nb\na\nthe\n"],
    "leaf": [users([[1, 2.5], [3, 4]], [0, 1]) + b"|||" + users([[1, 2]], [1]), users([1.5], [0.5]) + b"|||" + users([1], [2.0]),
             users(["to be", "or no"], [" ", "t"]) + b"|||" + users(["\u00e9t\u00e9s "], ["b"]), users([["1", "no!"], ["2", "Yes, 007"]], [0, 1]) + b"|||" + users([["3", ""]], [1]),
             users(["to be", "or no"], [" ", "t"]) + b"|||" + users(["toobe"], ["b"]) + "### \nt\no\nb\ne\nr\nn\n\u00e9\n7\n".encode()],
    "safetensors": [MODEL, safetensors({}), safetensors({"a": tensor("F64", [1], 0, 8)}, bytes(8))],
    "checkpoint": [safetensors({"__metadata__": {"sha256": "0" * 64, "rounds_done": "1"},
                                "conv1.weight": tensor("F32", [4, 1, 2, 2], 0, 64)}, bytes(64)), MODEL],
    "idx": [IMAGES, LABELS, gzip.compress(IMAGES), gzip.compress(bytes(70000)), idx([65535] * 3, b"")],
    "dataset": [struct.pack("<IIiiiiII", 0x53444e53, 1, 1, 2, 2, 3, 2, 2) + bytes(1200) + b"\1"],
    "spec": [b"\1\x1c\x1c\x0a" + text for text in (
        b"conv 10 5; pool 2; relu; dropout2d 0.5; conv 20 5 pad 2; relu; linear 50; dropout 0.5; linear 10", b"lenet",
        b"conv 1048576 255 pad 254; linear classes", b"resnet8",
        b"conv 8 3x5 stride 2x1 pad 1x2 groups 1 dilation 2 as a; groupnorm 4; relu as b; conv 8 1 from a; add b; concat a; layernorm; "
        b"avgpool 2 stride 1; globalpool; leakyrelu 0.1; linear classes", b"embedding 9 4; positions as e; attention 2 causal; add e; lstm 3 last; linear classes")],
    "form": [b"\1dirichlet alpha=0.1 form=plain minimum=1", b"\1pathological classes=2 mode=deterministic", b"\1file:a b",
             b"\1sizes law=zipf", b"\0quadratics a=1,2,3 b=0.5 samples=4,4,6", b"\0synthetic-fedprox alpha=1 beta=1 users=30 iid=yes",
             b"\0fcube users=4", b"\0synthetic-leaf classes=5"],
    "recipe": [b"\x63\x09\x13" + text for text in (
        b"fedprox mu=0.1", b"local scaffold; server scaffold lr=1", b"fedadam lr=0.03 tau=1e-2; combine mean weights=uniform",
        b"send clip 2; send qsgd levels=15; combine krum byzantine=1", b"dp-fedavg noise=1.1; server momentum 0.9",
        b"send clip norm=1; combine mean uniform; release tree epsilon=8 delta=1e-5", b"hogwild", b"optimizer adam; personal norms",
        b"fedsa-lora", b"ffa-lora names=8")],
    "attack": [b"\x09\x14" + text for text in (b"label-flip from=1 to=7|0.2", b"sign-flip 3|0,3,7", b"gaussian deviation=2|1.0",
                                               b"alie|0.4", b"ipm scale=0.5|19")],
    "options": [b'model: "conv 16 3 pad 1; relu; linear 10"\nclients: 100\nclients-per-round: 10\npartition: dirichlet\n'
                b"alpha: 0.1\n", b'algorithm: ssgd batch=global\nout: "x y: #"\nmomentum: 0.9\nlr: 1e-3\n',
                b"algorithm: hogwild update=atomic data=shard\ntrace: t.json\n"],
    "command_lines": [b"\0--standalone\n-n\n4\n--\nprogram\nargument", b"\0--nnodes=2\n--node_rank\n1\n-r\n0:1,2:3\n-t3\n-m\nx",
                      b"\1--workers\n3\n--clients=8\n--model\nlenet\n--out\nx\n--quiet", b"\2m.safetensors\n--data\nx"],
    "trainer": [b"\3\0{\"progress\":1}\n{\"turn\":1,\"loss_sum\":2.5,\"samples\":0,\"steps\":3,\"travel\":0.5}",
                b"\1\4{\"turn\":1,\"loss_sum\":null,\"samples\":4,\"hits\":3,\"counted\":1,\"metrics\":{\"f1\":[1,2]}}",
                b"\5\1{\"turn\":1,\"samples\":1}", b"\1\0{\"error\":\"ValueError: no\",\"fatal\":1}", b"\3\0{\"turn\":1,\"kept\":[\"bn.mean\",\"n\"]}", b"\2\0{\"ready\":1,\"pid\":7}",
                b"\2\0{\"ready\":\"1\"}", b"\x09\4{\"turn\":1,\"samples\":4,\"answers\":4}", b"\x09\4{\"turn\":1,\"samples\":4,\"answers\":3}",
                b"\0\14{\"tensors\":[[\"fc.weight\",[2,5]],[\"fc.bias\",[1]],[\"scale\",[]]],\"forks\":1}"],
    "rendezvous": [packet(notice(0, 0, b"ranks 1, 2")), packet(notice(1, 3, b"no")) + packet(b"x", 3),
                   packet(notice(2, 0, b""), 5) + packet(notice(2, 0, b""), 11)],
}


def main():
    program, findings = map(os.path.abspath, sys.argv[1:3])
    seconds = sys.argv[3] if len(sys.argv) > 3 else "600" if os.environ.get("SOUNDER_EXHAUSTIVE") == "1" else "5"
    name = os.path.basename(program).removeprefix("fuzz_")
    os.makedirs(findings, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # targets write files
        os.mkdir(os.path.join(folder, "corpus"))
        for i, seed in enumerate(SEEDS[name]):
            with open(os.path.join(folder, "corpus", str(i)), "wb") as file:
                file.write(seed)
        done = subprocess.run([program, "corpus", f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                               "-max_len=8192", "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-"],
                              cwd=folder, env={**os.environ, "SOUNDER_CACHE": "off"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace").splitlines()
    told = [line for line in text if line.startswith("stat::") or "DONE" in line]  # the latter: what was covered
    print("\n".join(text[-60:] if done.returncode else told))
    return done.returncode


sys.exit(main())
