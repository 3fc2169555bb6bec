#!/usr/bin/env python3
"""Makes a target's first inputs and runs it on them and what libFuzzer makes of them.

Usage: fuzz.py PROGRAM FOLDER_FOR_FINDINGS [SECONDS]    5 seconds; with SOUNDER_EXHAUSTIVE=1, 600
"""
import gzip, io, json, math, os, struct, subprocess, sys, tempfile, zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runs"))
from onnx_bytes import model, node, tensor as onnx_tensor


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
def graphs():
    """Small nets with each op that is read."""
    real, ends = (lambda name, *shape: onnx_tensor(name, shape, [0.5] * math.prod(shape))), [node("Flatten", "p", "f"), node("Gemm", "f h", "y", transB=1)]
    shapes = [onnx_tensor("s3", [3], [0, 2, -1]), onnx_tensor("s2", [2], [-1, 16]), onnx_tensor("axes", [2], [2, 3]), onnx_tensor("one", [1], [1], "numbers")]
    first = node("Conv", "x w b", "c", pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=1, strides=[2, 2], dilations=[1, 1])
    weights = [real("w", 4, 1, 3, 3), real("b", 4), real("g", 2), real("h", 3, 4), real("k", 4, 1, 1), *shapes]
    norm = [node("Reshape", "c s3", "r"), node("InstanceNormalization", "r g g", "i"), node("Shape", "c", "z"), node("Reshape", "i z", "j"),
            node("Mul", "j k", "m"), node("Add", "m k", "a")]
    yield [first, *norm, node("Relu", "a", "n"), node("Add", "n a", "q"), node("GlobalAveragePool", "q", "p"), *ends], weights
    yield [first, node("BatchNormalization", "c b b b b", "n"), node("Concat", "n n", "q", axis=1), node("MaxPool", "q", "o", kernel_shape=[2, 2], strides=[2, 2]),
           node("Pad", "o pads", "d"), node("AveragePool", "d", "p", kernel_shape=[4, 4]), node("Flatten", "p", "f"), node("MatMul", "f t", "y")], \
          [*weights, onnx_tensor("pads", [8], [0, 0, 1, 1, 0, 0, 1, 1]), real("t", 8, 3)]
    yield [node("Flatten", "x", "f"), node("Gemm", "f h", "l"), node("Tanh", "l", "t"), node("Dropout", "t", "d"), node("Clip", "d", "o", min=0.0, max=6.0),
           node("LeakyRelu", "o", "e"), node("Softmax", "e", "y", axis=1)], [real("h", 64, 3)]
    yield [node("GroupNormalization", "x g g", "n", num_groups=1), node("Unsqueeze", "u one", "v"), node("Constant", "", "half", value_float=0.5),
           node("ReduceMean", "n axes", "p"), node("Squeeze", "p axes", "f"), node("Transpose", "h", "i", perm=[1, 0]), node("LayerNormalization", "f u u", "q"),
           node("Slice", "axes one one", "cut"), node("Gather", "axes one", "axis", axis=0), node("MatMul", "q i", "y")], \
          [real("g", 1), real("u", 1), real("h", 3, 1), *shapes]
    letters = [node("Flatten", "x", "f"), node("Cast", "f", "i", to=7), node("Gather", "t i", "e"), node("Transpose", "e", "s", perm=[1, 0, 2])]
    ones = [onnx_tensor("u", [1], [1]), onnx_tensor("z", [1], [0]), onnx_tensor("l", [], [-1])]
    lstm = [real("t", 9, 3), real("w", 1, 8, 3), real("v", 1, 8, 2), real("r", 1, 8, 2), real("b", 1, 16), real("h", 3, 2), real("m", 2, 2), real("g", 2), *ones]
    yield [*letters, node("Shape", "e", "n"), node("Gather", "n z", "k"), node("Concat", "u k u", "o", axis=0), node("ConstantOfShape", "o", "q", value=onnx_tensor("", [1], [0.0])),
           node("Slice", "q z u z", "a"), node("LSTM", "s w r b - a q", "c d", hidden_size=2, direction="forward", activations=["Sigmoid", "Tanh", "Tanh"], layout=0),
           node("Squeeze", "c u", "p"), node("LSTM", "p v r b", "- j", hidden_size=2), node("Concat", "d j", "J", axis=0), node("Gather", "J l", "E"), node("Gemm", "E h", "y", transB=1)], lstm
    yield [*letters, node("Expand", "zero u", "q"), node("LSTM", "s w r b - q q", "c", hidden_size=2), node("Squeeze", "c u", "p"), node("MatMul", "p m", "k"), node("Add", "k g", "n"),
           node("LayerNormalization", "n g g", "o", axis=-1), node("Relu", "o", "r0"), node("Transpose", "r0", "r1", perm=[1, 0, 2]), node("Slice", "r1 l1 end u u", "r2"), node("Unsqueeze", "r2 u", "r3"),
           node("Squeeze", "r3", "r4"), node("Gemm", "r4 h", "y", transB=1)], [*lstm, onnx_tensor("zero", [1, 1, 2], [0.0, 0.0]), onnx_tensor("l1", [1], [-1]), onnx_tensor("end", [1], [2**62])]
    yield [*letters, node("MatMul", "e m3", "a"), node("Add", "a e", "c"), node("LayerNormalization", "c k k", "d"), node("Flatten", "d", "p"), node("Gemm", "p q", "y")], \
          [*lstm, real("m3", 3, 3), real("k", 3), real("q", 192, 3)]
    yield [*letters, node("Slice", "w0 z u z", "a"), node("Slice", "w0 u end z", "c"), node("Concat", "c a a c", "d", axis=0), node("Unsqueeze", "d z", "v0"), node("Shape", "x", "k", start=0, end=1),
           node("Mul", "two u", "o"), node("Add", "o z", "o1"), node("Div", "o1 u", "o2"), node("Sub", "o2 z", "o3"), node("Concat", "k o3", "j", axis=0), node("LSTM", "s v0 r b", "- g0", hidden_size=2), node("Reshape", "g0 j", "p"), node("Gemm", "p h", "y", transB=1)], \
          [*lstm, real("w0", 4, 3), onnx_tensor("two", [1], [2]), onnx_tensor("end", [1], [2**62])]
    parts = [node("MatMul", "e w6", "p"), node("Add", "p b6", "p1"), node("Split", "p1", "q k v", axis=-1, num_outputs=3)]
    heads = [*parts, *[node("Reshape", f"{name} halves", name + "1") for name in "qkv"], node("Transpose", "q1", "q2", perm=[0, 2, 1, 3]), node("Transpose", "k1", "k2", perm=[0, 2, 3, 1]), node("Transpose", "v1", "v2", perm=[0, 2, 1, 3])]
    seen = [node("Softmax", "c2", "c3", axis=-1), node("MatMul", "c3 v2", "o"), node("Transpose", "o", "o1", perm=[0, 2, 1, 3]), node("Reshape", "o1 whole", "o2"), node("MatMul", "o2 m2", "o3"),
            node("Add", "o3 g", "o4"), node("Flatten", "o4", "o5"), node("Gemm", "o5 q2w", "y")]
    pieces = [real("t", 9, 2), real("w6", 2, 6), real("b6", 6), real("m2", 2, 2), real("g", 2), real("q2w", 128, 3), onnx_tensor("halves", [4], [0, 64, 2, 1]), onnx_tensor("whole", [3], [0, 0, -1]),
              onnx_tensor("square", [2], [64, 64]), onnx_tensor("below", [], [-math.inf]), onnx_tensor("one", [], [1.0]), *ones]
    yield [*letters[:3], *heads, node("MatMul", "q2 k2", "c"), node("Mul", "c one", "c1"), node("Expand", "below square", "n"), node("Trilu", "n u", "n1", upper=1), node("Add", "c1 n1", "c2"), *seen], pieces
    yield [*letters[:3], *parts[:2], node("Reshape", "p1 apart", "a"), node("Unsqueeze", "a z", "a1"), node("Transpose", "a1", "a2", perm=[3, 1, 2, 0, 4]), node("Squeeze", "a2 three", "a3"),
           *[node("Gather", f"a3 at{part}", name, axis=0) for part, name in enumerate("qkv")], *heads[3:], node("MatMul", "q2 k2", "c"), node("Div", "c one", "c2"), *seen], \
          [*pieces, onnx_tensor("apart", [4], [-1, 64, 3, 2]), onnx_tensor("three", [1], [3]), *[onnx_tensor(f"at{part}", [], [part]) for part in range(3)]]
    yield [*letters[:3], node("Range", "z0 n u0", "j"), node("Gather", "places j", "p", axis=0), node("Add", "e p", "a"), node("MatMul", "a m3", "b"), node("Add", "b k", "c"), node("Add", "c whole", "d"),
           node("Cast", "four", "l1", to=1), node("Sqrt", "l1", "l2"), node("Div", "one l2", "l3"), node("Mod", "four n", "o"), node("Flatten", "d", "f"), node("Gemm", "f q", "y")], \
          [real("t", 9, 3), real("places", 70, 3), real("m3", 3, 3), real("k", 3), real("whole", 1, 64, 3), real("q", 192, 3), real("one", 1), onnx_tensor("z0", [], [0]), onnx_tensor("u0", [], [1]),
           onnx_tensor("n", [], [64]), onnx_tensor("four", [1], [4])]
    yield [*letters, node("ReduceMean", "e", "a", axes=[-1]), node("Sub", "e a", "c"), node("Pow", "c two", "d"), node("ReduceMean", "d", "v0", axes=[-1]), node("Add", "v0 small", "r0"),
           node("Sqrt", "r0", "r1"), node("Div", "c r1", "n"), node("Mul", "n k", "n1"), node("Add", "n1 k", "n2"), node("Flatten", "n2", "p"), node("Gemm", "p q", "y")], \
          [*lstm, real("k", 3), real("q", 192, 3), onnx_tensor("two", [], [2.0]), onnx_tensor("small", [], [1e-5])]


SEEDS = {
    "onnx": [model(nodes, tensors, [2, 1, 8, 8]) for nodes, tensors in graphs()],
    "zip": [archive(method, *arrays) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for arrays in (PIXELS, NUMBERS)],
    "arrays": [b"|||".join(PIXELS), b"|||".join(NUMBERS)],
    "cifar": [b"\0" + bytes(3073) + b"|||\1" + bytes(3072), b"\1" + bytes(3074) + b"|||\3\7" + bytes(3072)],
    "csv": [b"a,b,label,client\n1,2.5,0,0\n-1e3,4,1,1\n|||a,b,label,client\n0,0,1,0\n", b"target,x\r\n1,2\r\n|||target,x\r\n\"3\", 4\r\n",
            b",a,label\n0,1,0\n|||Unnamed: 0;a;label\n", b"# made\n\"a, m\",label,\n|||1,2,3\n1e39,\"1,000\"\n"],
    "text": [b"the cat sat on the mat|||the dog sat|||{\"length\": 3, \"step\": 2}", b"abcab;cabac;x;aaaa|||bca;ccc;;abcabc|||{\"length\":2,\"separator\":\";\"}",
             b"x" * 90 + b"|||" + b"y" * 81],
    "leaf": [users([[1, 2.5], [3, 4]], [0, 1]) + b"|||" + users([[1, 2]], [1]), users([1.5], [0.5]) + b"|||" + users([1], [2.0])],
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
        b"send clip norm=1; combine mean uniform; release tree epsilon=8 delta=1e-5", b"hogwild", b"optimizer adam; personal norms")],
    "attack": [b"\x09\x14" + text for text in (b"label-flip from=1 to=7|0.2", b"sign-flip 3|0,3,7", b"gaussian deviation=2|1.0",
                                               b"alie|0.4", b"ipm scale=0.5|19")],
    "options": [b'model: "conv 16 3 pad 1; relu; linear 10"\nclients: 100\nclients-per-round: 10\npartition: dirichlet\n'
                b"alpha: 0.1\n", b'algorithm: ssgd\nglobal-batch: true\nout: "x y: #"\nmomentum: 0.9\nlr: 1e-3\n',
                b"algorithm: hogwild\nhogwild-update: atomic\nhogwild-data: shard\ntrace: t.json\n"],
    "command_lines": [b"\0--standalone\n-n\n4\n--\nprogram\nargument", b"\0--nnodes=2\n--node_rank\n1\n-r\n0:1,2:3\n-t3\n-m\nx",
                      b"\1--workers\n3\n--clients=8\n--model\nlenet\n--out\nx\n--quiet", b"\2m.safetensors\n--data\nx"],
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
