"""Nets of ONNX's files: what they compute is what the same weights compute in the net they are read as.

Usage: test_onnx.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no onnx)
"""
import os, re, subprocess, sys, unittest, warnings

from onnx_case import DATA, LETTERS, OnnxCase, model, node, numbers, onnx, sounder, tensor, whole
from runs import DEADLINE, SOUNDER, parse_safetensors
from test_init import safetensors
from sounder.functions import FUNCTIONS

SHORT = [*DATA, "--quiet", "--clients", "2", "--workers", "1", "--rounds", "1", "--batch-size", "10"]


CONV, CONV_BIAS, SECOND = numbers(4 * 2 * 9, 1), numbers(4, 2), numbers(4 * 4 * 9, 3)
GAIN, SHIFT = numbers(4, 4, 0.5, 1.5), numbers(4, 5)
HEAD, HEAD_BIAS = numbers(10 * 4, 6), numbers(10, 7)
# The text of the net below, and its weights under PyTorch's names.
TEXT = "conv 4 3 pad 1; groupnorm 2; relu as a; conv 4 3 pad 1 nobias; add a; globalpool; linear 10"
WEIGHTS = {"conv1.weight": ([4, 2, 3, 3], CONV), "conv1.bias": ([4], CONV_BIAS), "norm1.weight": ([4], GAIN), "norm1.bias": ([4], SHIFT),
           "conv2.weight": ([4, 4, 3, 3], SECOND), "fc1.weight": ([10, 4], HEAD), "fc1.bias": ([10], HEAD_BIAS)}
BODY = [node("Conv", "n w2", "c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]), node("Add", "c n", "s"), node("GlobalAveragePool", "s", "p")]
FLAT = [node("Flatten", "p", "f", axis=1), node("Gemm", "f h hb", "y", transB=1)]
FIRST = node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1], group=1, kernel_shape=[3, 3])
TENSORS = [tensor("w1", [4, 2, 3, 3], CONV), tensor("b1", [4], CONV_BIAS), tensor("w2", [4, 4, 3, 3], SECOND, "numbers"),
           tensor("h", [10, 4], HEAD), tensor("hb", [10], HEAD_BIAS)]
# As PyTorch's exporters write group normalisation: by instances between reshapes, with shapes that are constants or
# computed, or as an op of its own.
BETWEEN = [node("Reshape", "c1 split", "g1"), node("InstanceNormalization", "g1 ones zeros", "g2", epsilon=1e-5)]
AFFINE = [node("Mul", "g3 gain", "g4"), node("Add", "g4 shift", "g5"), node("Relu", "g5", "n")]
GROUPS = [tensor("split", [3], [0, 2, -1], "numbers"), tensor("ones", [2], [1.0, 1.0]), tensor("zeros", [2], [0.0, 0.0])]
WIDE = [tensor("gain", [4, 1, 1], GAIN), tensor("shift", [4, 1, 1], SHIFT, "numbers")]


FORMS = {
    "constants": ([FIRST, *BETWEEN, node("Reshape", "g2 back", "g3"), *AFFINE, *BODY, *FLAT],
                  [*TENSORS, *GROUPS, *WIDE, tensor("back", [4], [-1, 4, 8, 8])]),
    "computed": ([FIRST, *BETWEEN, node("Shape", "c1", "size"), node("Reshape", "g2 size", "g3"), node("Unsqueeze", "narrow axes", "gain"), *AFFINE, *BODY,
                  node("Shape", "p", "ps"), whole("zero", 0), node("Gather", "ps zero", "count", axis=0), node("Unsqueeze", "count first", "counts"),
                  whole("rest", [-1]), node("Concat", "counts rest", "target", axis=0), node("Reshape", "p target", "f"),
                  node("Transpose", "h", "turned", perm=[1, 0]), node("MatMul", "f turned", "m"), node("Add", "hb m", "y0"), node("LogSoftmax", "y0", "y", axis=1)],
                 [*TENSORS, *GROUPS, WIDE[1], tensor("narrow", [4], GAIN), tensor("axes", [2], [1, 2]), tensor("first", [1], [0])]),
    "newer": ([FIRST, node("GroupNormalization", "c1 narrow narrow_shift", "g5", epsilon=1e-5, num_groups=2), node("Relu", "g5", "n"), *BODY[:2],
               node("ReduceMean", "s image", "f", keepdims=0), FLAT[1]],
              [*TENSORS, tensor("narrow", [4], GAIN), tensor("narrow_shift", [4], SHIFT), tensor("image", [2], [-2, -1])]),
}


class Onnx(OnnxCase):
    def reference(self):
        with open(self.path("reference.safetensors"), "wb") as file:
            file.write(safetensors(WEIGHTS))
        return self.evaluate("reference.safetensors", "--model", TEXT)

    def test_a_file_computes_what_its_weights_do_in_the_net_it_is_read_as(self):
        want = self.reference()
        for name, (nodes, tensors) in FORMS.items():
            self.assertEqual(self.evaluate(self.write(f"{name}.onnx", nodes, tensors)), want, name)
        # Of vectors that a file takes the data have the shape that it gives them.
        nodes, tensors = FORMS["newer"]
        flat = [node("Reshape", "x0 image0", "x1"), node("Conv", "x1 w1 b1", "c1", pads=[1, 1, 1, 1], kernel_shape=[3, 3]), *nodes[1:]]
        self.write("flat.onnx", [node("Identity", "x", "x0"), *flat], [*tensors, tensor("image0", [4], [-1, 2, 8, 8])], shape=["n", 128])
        self.assertEqual(self.evaluate("flat.onnx"), want)
        # A file for one sample at a time says 1 where others name the extent.
        self.assertEqual(self.evaluate(self.write("one.onnx", *FORMS["constants"], shape=[1, 2, 8, 8])), want)

    def test_a_softmax_that_is_left_out_is_told(self):
        head = [node("Flatten", "x", "f0"), node("Gemm", "f0 h hb", "y0", transB=1)]
        tensors = [tensor("h", [10, 128], numbers(1280, 12)), TENSORS[-1]]
        for op in ("Softmax", "LogSoftmax"):
            self.write("end.onnx", [*head, node(op, "y0", "y", "end", axis=1)], tensors)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.assertEqual(sounder.layers(self.path("end.onnx")), "linear 10")
            told = " ".join(str(one.message) for one in told)
            self.assertRegex(told, 'end.onnx: node "end": a Softmax at the end is left out, since the loss' if op == "Softmax" else "^$")

    def test_windows_and_borders_are_those_of_the_file(self):
        head = numbers(10 * 4 * 49, 10)
        with open(self.path("windows.safetensors"), "wb") as file:
            file.write(safetensors({**dict(list(WEIGHTS.items())[:2]), "fc1.weight": ([10, 196], head), "fc1.bias": ([10], HEAD_BIAS)}))
        self.write("windows.onnx", [FIRST, node("MaxPool", "c1", "m", kernel_shape=[2, 2]), node("Pad", "m border", "b"),
                                    node("AveragePool", "b", "p", kernel_shape=[3, 3], strides=[1, 1]), node("LeakyRelu", "p", "f0", alpha=0.2), node("Flatten", "f0", "f"), FLAT[1]],
                   [*TENSORS[:2], tensor("border", [8], [0, 0, 1, 1, 0, 0, 1, 1]), tensor("h", [10, 196], head), TENSORS[-1]])
        self.assertEqual(self.evaluate("windows.onnx"), self.evaluate("windows.safetensors", "--model", "conv 4 3 pad 1; pool 2 stride 1; avgpool 3 stride 1 pad 1; leakyrelu 0.2; linear 10"))
        head = numbers(10 * 4 * 48, 11)
        with open(self.path("sides.safetensors"), "wb") as file:
            file.write(safetensors({**dict(list(WEIGHTS.items())[:2]), "fc1.weight": ([10, 192], head), "fc1.bias": ([10], HEAD_BIAS)}))
        self.write("sides.onnx", [FIRST, node("MaxPool", "c1", "p", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 0, 1, 0]), node("Flatten", "p", "f"), FLAT[1]],
                   [*TENSORS[:2], tensor("h", [10, 192], head), TENSORS[-1]])
        self.assertEqual(self.evaluate("sides.onnx"), self.evaluate("sides.safetensors", "--model", "conv 4 3 pad 1; pool 3 stride 1 pad 1x0; linear 10"))

    def test_numbers_may_lie_in_a_file_beside_it(self):
        nodes, tensors = FORMS["newer"]
        outside = [tensor("w1", [4, 2, 3, 3], CONV, ("net.data", 8)), *tensors[1:]]
        self.write("net.onnx", nodes, outside)
        self.assertIn("net.data, which has the numbers of w1: no such file", self.refused("net.onnx"))
        with open(self.path("net.data"), "wb") as file:
            file.write(bytes(8) + TENSORS[0][-4 * len(CONV):])
        self.assertEqual(self.evaluate("net.onnx"), self.reference())
        self.write("rest.onnx", nodes, [tensor("w1", [4, 2, 3, 3], CONV, ("net.data", 8, "")), *tensors[1:]])
        self.assertEqual(self.evaluate("rest.onnx"), self.reference())
        # A length is no reason to ask for memory.
        for offset, length in ((8, 8_000_000_000), (400, 8), (8, "x"), ("-8", 8), (2**63, 8)):
            self.write("long.onnx", nodes, [tensor("w1", [2_000_000_000], CONV, ("net.data", offset, length)), *tensors[1:]])
            self.assertIn(f"net.data: has 296 bytes, where those of w1 begin at byte {offset} and are {length}; export the net again",
                          self.refused("long.onnx"))
        self.write("short.onnx", nodes, [tensor("w1", [4, 2, 3, 3], CONV, ("net.data", 8, 4)), *tensors[1:]])
        self.assertIn("short.onnx: w1 has 4 bytes instead of 288", self.refused("short.onnx"))
        self.write("out.onnx", nodes, [tensor("w1", [4, 2, 3, 3], CONV, ("/etc/passwd", 0)), *tensors[1:]])
        self.assertIn("only files in the same folder are read", self.refused("out.onnx"))

    def test_groups_may_share_a_factor_and_a_shift(self):
        nodes, tensors = FORMS["newer"]
        for name, gain, shift in (("groups", [0.5, 2.0], [1.0, -1.0]), ("channels", [0.5, 0.5, 2.0, 2.0], [1.0, 1.0, -1.0, -1.0])):
            of = {"narrow": gain, "narrow_shift": shift}
            self.write(name + ".onnx", nodes, [*TENSORS, *(tensor(key, [len(value)], value) for key, value in of.items()), tensors[-1]])
        self.assertEqual(self.evaluate("groups.onnx"), self.evaluate("channels.onnx"))

    def test_batch_normalisations_go_on_from_the_statistics_of_the_file(self):
        """On images, behind a convolution and before everything, and on vectors."""
        text = "batchnorm; conv 4 3 pad 1; batchnorm; relu as a; conv 4 3 pad 1 nobias; add a; globalpool; linear 4; batchnorm; linear 10"
        weights, tensors = {}, [*TENSORS]
        for number, channels in (1, 2), (2, 4), (3, 4):
            for place, (name, low, high) in enumerate((("weight", 0.5, 1.5), ("bias", -0.4, 0.4), ("running_mean", -0.4, 0.4), ("running_var", 0.5, 2))):
                weights[f"norm{number}.{name}"] = [channels], numbers(channels, 10 * number + place, low, high)
                tensors.append(tensor(f"n{number}{place}", *weights[f"norm{number}.{name}"]))
        square = [4, 4], numbers(16, 90)
        weights |= {name: value for name, value in WEIGHTS.items() if "conv" in name}
        weights |= {"fc1.weight": square, "fc1.bias": ([4], CONV_BIAS), "fc2.weight": WEIGHTS["fc1.weight"], "fc2.bias": WEIGHTS["fc1.bias"]}
        with open(self.path("weights.safetensors"), "wb") as file:
            file.write(safetensors(weights))
        nodes = [node("BatchNormalization", "x n10 n11 n12 n13", "x0", momentum=0.9), node("Conv", "x0 w1 b1", "c1", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
                 node("BatchNormalization", "c1 n20 n21 n22 n23", "b", epsilon=1e-5, training_mode=0), node("Relu", "b", "n"), *BODY,
                 node("Flatten", "p", "f0"), node("Gemm", "f0 q b1", "f1"), node("BatchNormalization", "f1 n30 n31 n32 n33", "f"), FLAT[1]]
        self.write("batch.onnx", nodes, [*tensors, tensor("q", [4, 4], [square[1][4 * i + o] for o in range(4) for i in range(4)])])
        self.assertEqual(self.evaluate("batch.onnx"), self.evaluate("weights.safetensors", "--model", text))
        self.assertEqual(self.told, [])
        read, weights_read = self.read("batch.onnx")
        self.train(*SHORT, "--model", read, "--init", weights_read, "--lr", "0.1", "--out", "file")
        self.train(*SHORT, "--model", text, "--init", "weights.safetensors", "--lr", "0.1", "--out", "layers")
        self.assertEqual(self.tensors("file"), self.tensors("layers"))
        self.assertNotEqual(self.tensors("file")["norm2.running_mean"][1], tuple(weights["norm2.running_mean"][1]))

    def test_factors_become_weights_and_norms_have_numbers_of_their_own(self):
        mean, variance = numbers(4, 8), numbers(4, 9, 0.5, 2)
        rest = [node("Relu", "g5", "n"), *BODY, *FLAT]
        statistics = [tensor("g", [4], GAIN), tensor("t", [4], SHIFT), tensor("m", [4], mean), tensor("v", [4], variance)]
        self.write("batch.onnx", [FIRST, node("BatchNormalization", "c1 g t m v", "g5", epsilon=0.01), *rest], [*TENSORS, *statistics])
        factor = [g / (v + 0.01) ** 0.5 for g, v in zip(GAIN, variance)]
        self.write("plain.onnx", [FIRST, node("Mul", "c1 k", "c2"), node("Add", "c2 o", "g5"), *rest],
                   [*TENSORS, tensor("k", [4, 1, 1], factor), tensor("o", [4, 1, 1], [s - m * f for s, m, f in zip(SHIFT, mean, factor)])])
        (loss, hits), (plain, plain_hits) = self.evaluate("batch.onnx"), self.evaluate("plain.onnx")
        self.assertIn("batchnorm eps 0.01;", self.read("batch.onnx")[0])
        self.assertAlmostEqual(loss, plain, 5)
        self.assertEqual(hits, plain_hits)
        self.assertNotAlmostEqual(loss, self.reference()[0], 3)
        self.write("slow.onnx", [FIRST, node("BatchNormalization", "c1 g t m v", "g5", momentum=0.99), *rest], [*TENSORS, *statistics])
        self.assertIn("batchnorm momentum 0.01;", self.read("slow.onnx")[0])
        self.assertEqual(self.told, [])

    def test_training_begins_from_it(self):
        self.reference()
        self.write("net.onnx", *FORMS["constants"])
        self.train(*SHORT, "--model", TEXT, "--init", "reference.safetensors", "--rounds", "2", "--out", "layers")
        text, weights = self.read("net.onnx")
        self.train(*SHORT, "--model", text, "--init", weights, "--out", "file")
        self.train("file/config.yaml", "--rounds", "2", "--quiet", "--out", "repeated")
        os.remove(weights)  # a run that has a checkpoint needs it no more
        self.train("--resume", "file", "--rounds", "2", "--quiet")
        want = self.tensors("layers")
        for run in ("file", "repeated"):
            self.assertEqual(self.tensors(run), want, run)

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def test_a_model_that_is_exported_is_read_as_the_same_net(self):
        for name, text in {"all": "conv 4 3 stride 2 pad 1 groups 2; groupnorm 2; gelu as a; conv 4 3 pad 1; leakyrelu 0.2; dropout2d 0.5; add a; concat a; "
                                  "layernorm; avgpool 3 stride 1 pad 1; leakyrelu 0; linear 12; tanh; dropout 0.25; layernorm as b; sigmoid; add b; relu; linear classes",
                           "functions": "conv 4 3; " + "; ".join(function.word for function in FUNCTIONS) + "; linear classes",
                           "excited": "conv 4 3 pad 1 nobias; groupnorm 2; silu as a; globalpool; conv 2 1; hardswish; linear 4; hardsigmoid; mul a as b; droppath 0.2; conv 4 3 pad 1; "
                                      "mul b; globalpool 2; linear classes",
                           "one": "linear classes", "pixel": "conv 10 1; globalpool", "pixel.norm": "conv 4 3; globalpool; layernorm; groupnorm 1; linear classes",
                           "batch": "conv 4 3; batchnorm; tanh; linear 20; batchnorm; gelu; linear classes",
                           "channels": "conv 8 3 as a; chunk 1 2; tanh as b; chunk 2 2 from a; conv 4 3 pad 1 groups 4 nobias; concat b; shuffle 2; layernorm channels eps 1e-06; gelu; "
                                       "conv 6 1; batchnorm eps 0.001 momentum 0.02; pool 3 stride 2 ceil; groupnorm 2 eps 0.01; transpose; linear 5 each nobias; "
                                       "layernorm each eps 0.0001; mean; linear classes",
                           "letters.gru": "embedding 256 4; gru 5; gru 6 as g; mean; linear 5 as l; last from g; linear 5 nobias; add l as m; first from g; linear 5; add m; tanh; linear classes",
                           "letters.lines": "embedding 256 6; transpose; conv1d 8 3 pad 1 nobias; batchnorm; relu; conv1d 6 2 stride 2 groups 2; tanh; transpose; gru 4 last; linear classes",
                           "letters": "embedding 256 4; lstm 5; lstm 5 last; layernorm; linear classes",
                           "letters.steps": "embedding 256 4 as e; layernorm each; linear 4 each; tanh; add e; layernorm; linear classes",
                           "letters.mixed": "embedding 256 4 as e; conv 2 3 pad 1; relu; linear 4 each; layernorm each; conv 1 1; add e; batchnorm; concat e; groupnorm 2; conv 1 1; "
                                            "lstm 3; groupnorm 1; dropout 0.25 as l; linear 3 each; gelu; add l; concat l; globalpool; linear classes",
                           "letters.two": "embedding 256 4 as e; lstm 4; concat e; linear classes",
                           "letters.rows": "lstm 3 as l; lstm 3; add l; batchnorm; concat l; linear classes"}.items():
            data = LETTERS if "letters" in name else DATA
            self.train(*SHORT, *data, "--model", text, "--out", name, "--lr", "0.1")
            sounder.Run(self.path(name)).export_onnx(self.path(name + ".onnx"))
            onnx.checker.check_model(self.path(name + ".onnx"), full_check=True)
            self.assertEqual(self.evaluate(name + ".onnx", data=data), self.evaluate(name, data=data), name)
        self.train(*SHORT, "--model", "linear 4; linear 3 each; linear classes", "--out", "odd")
        for run, file, sentence in (("odd", "a.onnx", 'a.onnx: "linear 3 each" has no op in ONNX that takes what it takes'), ("all", "a.txt", "ends in .onnx"),
                                    ("none", "a.onnx", "none"), ("all", "no/a.onnx", "no/a.onnx")):
            with self.assertRaisesRegex(sounder.Error, sentence):
                sounder.Run(self.path(run)).export_onnx(self.path(file))

    def test_what_the_program_says_to_type_instead_does_what_it_says(self):
        def typed(*arguments):
            done = subprocess.run([SOUNDER, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 64, done.stderr)
            command = re.search("python3 -c '([^']*)'", done.stderr).group(1).replace("RUN", "run")
            return subprocess.run([sys.executable, "-c", command], cwd=self.folder.name, env={**os.environ, "PYTHONPATH": os.path.abspath(sys.argv[2])}, check=True, capture_output=True, text=True).stdout.strip()
        want = self.reference()
        self.write("net.onnx", *FORMS["constants"])
        for arguments in (["train", "--model", "net.onnx"], ["train", *SHORT, "--model", TEXT, "--init", "net.onnx", "--out", "refused"], ["eval", "net.onnx", *DATA]):
            text = typed(*arguments)
            self.assertEqual(self.evaluate("net.safetensors", "--model", text), want)
            os.remove(self.path("net.safetensors"))
        self.assertFalse(os.path.exists(self.path("refused")))
        self.train(*SHORT, "--model", TEXT, "--out", "run")
        typed("export", "run", "--onnx", "net.onnx")
        self.assertEqual(self.evaluate("net.onnx"), self.evaluate("run"))

    def test_what_is_not_supported_is_named_by_node_and_op(self):
        nodes, tensors = FORMS["newer"]
        last = nodes[-1]
        cases = {
            "no such layer here": [node("Softplus", "c1", "g5", "act.3"), *nodes[2:]],
            "its attribute mode is not read": [node("Relu", "c1", "g5", "act.3", mode=1), *nodes[2:]],
            "takes nothing, which no node before it gives": [node("Relu", "nothing", "g5", "act.3"), *nodes[2:]],
            "its padding is not the same on both sides": [node("MaxPool", "c1", "g5", "act.3", kernel_shape=[3, 3], pads=[0, 1, 1, 1])],
            "its input 5 is no constant of floating-point numbers, or not 4 of them": [node("BatchNormalization", "c1 narrow narrow_shift narrow three", "g5", "act.3", epsilon=0.1)],
            "it normalises each value of an image; .* each of its 4 channels": [node("Flatten", "c1", "f0"), node("BatchNormalization", "f0 narrow narrow_shift narrow narrow", "g5", "act.3")],
            "its momentum is 1; the running statistics": [node("BatchNormalization", "c1 narrow narrow_shift narrow narrow", "g5", "act.3", momentum=1.0)],
            "epsilon is 2": [node("GroupNormalization", "c1 narrow narrow_shift", "g5", "act.3", num_groups=2, epsilon=2.0)],
            "3 groups of 4 channels": [node("GroupNormalization", "c1 narrow narrow_shift", "g5", "act.3", num_groups=3)],
            "takes images, but its input is a sequence, or an image that lies otherwise": [node("Reshape", "c1 odd", "g4"), node("MaxPool", "g4", "g5", "act.3", kernel_shape=[2, 2])],
            "gives 2x4x8x8 numbers the shape 2x2x8x8, which has not as many": [node("Reshape", "c1 half", "g5", "act.3")],
            "does not fit a vector of 256 values": [node("Flatten", "c1", "f1"), node("Gemm", "f1 h", "g5", "act.3", transB=1)],
            "is a layer here only at the end": [node("Softmax", "c1", "g5", "act.3")],
            "what it makes of its two inputs is no layer": [node("Relu", "c1", "r"), node("Mul", "r h", "g5", "act.3")],
            "cannot become part of the weights": [node("Mul", "c1 h", "g5", "act.3")],
            "clips to -1 ... 1;": [node("Clip", "c1", "g5", "act.3", min=-1.0, max=1.0)],
        }
        for sentence, middle in cases.items():
            self.write("bad.onnx", [FIRST, *middle, node("GlobalAveragePool", "g5", "f0"), node("Flatten", "f0", "f"), last],
                       [*tensors, tensor("odd", [4], [0, 2, 8, 16]), tensor("half", [4], [0, 2, 8, 8]), tensor("three", [3], [1.0] * 3)])
            self.assertRegex(self.refused("bad.onnx"), f'bad.onnx: node "act.3" .[A-Za-z]+.: .*{sentence}')

    def test_weights_that_have_taken_a_factor_in_are_no_ones_from_before(self):
        """By other names of the same value: each is taken once, so that a factor could become part of the weights."""
        scaled = [node("Identity", "c1", "a"), node("Identity", "c1", "b")]
        head = [node("GlobalAveragePool", "g5", "p"), *FLAT]
        gelu = [*scaled, node("Div", "a root", "e0"), node("Erf", "e0", "e1"), node("Add", "e1 one", "e2"), node("Identity", "a", "a1"), node("Mul", "a1 e2", "e3")]
        for last, middle in {"g5": [*scaled, node("Mul", "b k", "m"), node("Relu", "a", "g5", "act.3")],
                             "half": [*gelu, node("Mul", "b k", "m"), node("Mul", "e3 half", "g5", "act.3")]}.items():
            self.write("twice.onnx", [FIRST, *middle, *head], [*TENSORS, *(tensor(name, [], [value]) for name, value in (("root", 2**0.5), ("one", 1.0), ("half", 0.5))),
                                                              tensor("k", [4, 1, 1], GAIN)])
            self.assertRegex(self.refused("twice.onnx"), 'twice.onnx: node "act.3" .[A-Za-z]+.: ', last)

    def test_a_file_that_is_damaged_or_does_not_fit_is_refused(self):
        nodes, tensors = FORMS["newer"]
        self.write("net.onnx", nodes, tensors)
        with open(self.path("net.onnx"), "rb") as file:
            content = file.read()
        for name, content, sentence in (
                ("cut.onnx", content[:-40], "no ONNX file, or a damaged one"), ("empty.onnx", b"", "no ONNX file: empty"), ("none.onnx", None, "none.onnx: No such file"),
                ("few.onnx", model(nodes, [tensor("w1", [4, 2, 3, 3], CONV[:-1]), *tensors[1:]], ["n", 2, 8, 8]), "w1 has 284 bytes instead of 288"),
                ("other.onnx", model(nodes, tensors, ["n", 3, 8, 8]), "does not fit an image of 3 channels"),
                ("unknown.onnx", model(nodes, tensors, ["n", "c", 8, 8]), "the input x is [?]x[?]x8x8; a net here takes"),
                ("two.onnx", model([*nodes, nodes[1]], tensors, ["n", 2, 8, 8]), "g5 is given twice"),
                ("open.onnx", model(nodes[:-1], tensors, ["n", 2, 8, 8]), "what the graph gives, y, is not")):
            if content is not None:
                with open(self.path(name), "wb") as file:
                    file.write(content)
            self.assertRegex(self.refused(name), sentence)

    def test_a_file_whose_shapes_hold_for_one_number_of_samples_is_refused(self):
        nodes, tensors = FORMS["newer"]
        for sentence, middle in {"gives 3x4 numbers the shape 2x4, which has not as many": node("Reshape", "f0 two", "f", "act.3"),
                                 "takes a part of its input": node("Slice", "f0 zero end zero", "f", "act.3")}.items():
            self.write("two.onnx", [*nodes[:-2], node("ReduceMean", "s image", "f0", keepdims=0), middle, nodes[-1]],
                       [*tensors, tensor("two", [2], [2, 4]), tensor("zero", [1], [0]), tensor("end", [1], [2])])
            self.assertRegex(self.refused("two.onnx"), f'two.onnx: node "act.3" .[A-Za-z]+.: {sentence}')


if __name__ == "__main__":
    unittest.main(argv=["test_onnx.py"] + sys.argv[3:], verbosity=2)
