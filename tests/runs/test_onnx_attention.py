"""Attentions in ONNX's files, in the forms that exporters and people give them: each is one layer, with the same weights.

Usage: test_onnx_attention.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no onnx)
"""
import math, sys, unittest

from onnx_case import LETTERS, OnnxCase, node, numbers, sounder, tensor, whole
from test_init import safetensors

# Of sequences of six whole numbers: a table's rows e, two heads of two values, and a linear layer of all that they give.
STEPS, WIDTH, HEADS = 6, 4, 2
TABLE, HEAD, HEAD_BIAS = numbers(256 * WIDTH, 20, -1, 1), numbers(10 * STEPS * WIDTH, 21), numbers(10, 22)
IN, IN_BIAS, OUT, OUT_BIAS = numbers(3 * WIDTH * WIDTH, 23, -1, 1), numbers(3 * WIDTH, 24), numbers(WIDTH * WIDTH, 25), numbers(WIDTH, 26)
ATTENTION = {"attention1.in_proj_weight": ([12, 4], IN), "attention1.in_proj_bias": ([12], IN_BIAS), "attention1.out_proj.weight": ([4, 4], OUT),
             "attention1.out_proj.bias": ([4], OUT_BIAS)}
WEIGHTS = {"embedding1.weight": ([256, 4], TABLE), **ATTENTION, "fc1.weight": ([10, 24], HEAD), "fc1.bias": ([10], HEAD_BIAS)}


def turned(values, rows, columns):
    return [values[r * columns + c] for c in range(columns) for r in range(rows)]


def behind(summand, steps=STEPS):
    """A mask: what is added to the score of each step (row) with each other one."""
    return [summand if column > row else 0.0 for row in range(steps) for column in range(steps)]


TENSORS = [tensor("table", [256, 4], TABLE), tensor("h", [10, 24], HEAD), tensor("hb", [10], HEAD_BIAS), tensor("in", [4, 12], turned(IN, 12, 4)), tensor("inb", [12], IN_BIAS),
           *[tensor(f"w{part}", [4, 4], turned(IN[16 * part:16 * part + 16], 4, 4)) for part in range(3)], *[tensor(f"b{part}", [4], IN_BIAS[4 * part:4 * part + 4]) for part in range(3)],
           tensor("o", [4, 4], OUT), tensor("ot", [4, 4], turned(OUT, 4, 4)), tensor("ob", [4], OUT_BIAS), tensor("root", [], [math.sqrt(2)]), tensor("half", [1], [2 ** -0.25]),
           tensor("minus", [1, 1, 6, 6], behind(-math.inf)), tensor("large", [6, 6], behind(-1e30)), tensor("none", [1, 6, 6], [0.0] * 36)]
EMBED = [node("Cast", "x", "i", to=7), node("Gather", "table i", "e")]
END = [node("Flatten", "given", "f"), node("Gemm", "f h hb", "y", transB=1)]
SPLIT = whole("split", [0, STEPS, HEADS, 2])
BY_STEP = dict(perm=[0, 2, 1, 3])
SCALED = [node("MatMul", "q k", "scores"), node("Div", "scores root", "scaled")]
SEEN = [node("Softmax", "scaled", "shares", axis=-1), node("MatMul", "shares v", "seen")]
JOINED = [node("Transpose", "seen", "seen1", **BY_STEP), whole("joined", [0, 0, -1]), node("Reshape", "seen1 joined", "seen2")]
GIVEN = [node("MatMul", "seen2 ot", "given0"), node("Add", "given0 ob", "given")]


def layers_of_their_own(of="eee"):
    """Queries, keys and values by three linear layers."""
    for part, (name, order) in enumerate(zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))):
        yield from (node("MatMul", f"{of[part]} w{part}", name + "0"), node("Add", f"b{part} {name}0", name + "1"), node("Reshape", f"{name}1 split", name + "2"),
                    node("Transpose", name + "2", name, perm=order))


def heads_of_all_samples():
    """As PyTorch 1's exporter: the steps come first, and (samples, heads) are one dimension."""
    yield from (node("Transpose", "e", "t", perm=[1, 0, 2]), node("MatMul", "t in", "p0"), node("Add", "inb p0", "p"), node("Shape", "t", "size"), whole("zero", 0), whole("one", 1), whole("last", [-1]),
                node("Gather", "size zero", "steps"), node("Gather", "size one", "samples"), whole("heads", HEADS), node("Mul", "samples heads", "all"), whole("first", [0]), node("Unsqueeze", "steps first", "d0"),
                node("Unsqueeze", "all first", "d1"), whole("d2", [2]), node("Concat", "d0 d1 d2", "wanted", axis=0))
    for part, (name, order) in enumerate(zip("qkv", ([1, 0, 2], [1, 2, 0], [1, 0, 2]))):
        yield from (whole(name + "from", [4 * part]), whole(name + "to", [4 * part + 4]), node("Slice", f"p {name}from {name}to last", name + "0"), node("Reshape", f"{name}0 wanted", name + "1"),
                    node("Transpose", name + "1", name + "2", perm=order))
    yield from (node("Div", "q2 root", "q"), node("MatMul", "q k2", "scores"), node("Add", "scores none", "scaled"), node("Softmax", "scaled", "shares", axis=2), node("MatMul", "shares v2", "seen"),
                node("Transpose", "seen", "seen1", perm=[1, 0, 2]), node("Mul", "steps samples", "rows"), node("Unsqueeze", "rows first", "rows1"), whole("four", [WIDTH]),
                node("Concat", "rows1 four", "joined", axis=0), node("Reshape", "seen1 joined", "seen2"), node("Gemm", "seen2 o ob", "given0", transB=1), node("Unsqueeze", "samples first", "d3"),
                node("Concat", "d0 d3 four", "back", axis=0), node("Reshape", "given0 back", "given1"), node("Transpose", "given1", "given", perm=[1, 0, 2]))


def places_of_a_dimension():
    """As PyTorch 2's exporter: queries, keys and values are the places of a dimension, and both factors of the scores are scaled."""
    yield from (node("Transpose", "e", "t", perm=[1, 0, 2]), node("MatMul", "t in", "p0"), node("Add", "p0 inb", "p"), whole("three", [6, -1, 3, 4]), node("Reshape", "p three", "p1"), whole("first", [0]),
                node("Unsqueeze", "p1 first", "p2"), node("Transpose", "p2", "p3", perm=[3, 1, 2, 0, 4]), whole("beforelast", [-2]), node("Squeeze", "p3 beforelast", "p4"), whole("heads", [6, -1, 2]),
                whole("apart", [-1, 2, 6, 2]))
    for part, name in enumerate("qkv"):
        yield from (whole(name + "place", part), node("Gather", f"p4 {name}place", name + "0", axis=0), node("Reshape", f"{name}0 heads", name + "1"), node("Transpose", name + "1", name + "2", perm=[1, 0, 2]),
                    node("Reshape", f"{name}2 apart", name + "3"))
    yield from (whole("matrices", [-1, 6, 2]), node("Reshape", "k3 matrices", "k4"), node("Transpose", "k4", "k5", perm=[0, 2, 1]), whole("back", [-1, 2, 2, 6]), node("Reshape", "k5 back", "k6"),
                node("Mul", "q3 half", "q"), node("Mul", "half k6", "k"), node("MatMul", "q k", "scores"), node("Add", "scores minus", "scaled"), node("Softmax", "scaled", "shares", axis=-1),
                node("MatMul", "shares v3", "seen"), node("Transpose", "seen", "seen1", perm=[2, 0, 1, 3]), whole("rows", [-1, 4]), node("Reshape", "seen1 rows", "seen2"), node("Gemm", "seen2 o ob", "given0", transB=1),
                whole("stepsfirst", [6, -1, 4]), node("Reshape", "given0 stepsfirst", "given1"), node("Transpose", "given1", "given", perm=[1, 0, 2]))


def parts_of_one_layer():
    """Split, and a mask that hides what comes behind."""
    yield from (node("MatMul", "e in", "p0"), node("Add", "p0 inb", "p"), node("Split", "p", "q0 k0 v0", axis=-1, num_outputs=3))
    for name, order in zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
        yield from (node("Reshape", f"{name}0 split", name + "1"), node("Transpose", name + "1", name, perm=order))
    yield from (SCALED[0], node("Div", "scores root", "scores1"), node("Add", "large scores1", "scaled"), *SEEN, *JOINED, *GIVEN)


# Name: the attention's nodes, between e and given; whether it is causal.
FORMS = {
    "three linear layers": ([SPLIT, *layers_of_their_own(), *SCALED, *SEEN, *JOINED, *GIVEN], False),
    "parts of one": ([SPLIT, *parts_of_one_layer()], True),
    "heads of all samples": ([*heads_of_all_samples()], False),
    "places of a dimension": ([*places_of_a_dimension()], True),
}


class OnnxAttention(OnnxCase):
    def test_each_form_computes_what_the_layer_does(self):
        with open(self.path("same.safetensors"), "wb") as file:
            file.write(safetensors(WEIGHTS))
        want = [self.evaluate("same.safetensors", "--model", f"embedding 256 4; attention 2{causal}; linear 10", data=LETTERS) for causal in ("", " causal")]
        self.assertNotEqual(*want)
        for name, (nodes, causal) in FORMS.items():
            self.write("attention.onnx", [*EMBED, *nodes, *END], TENSORS, ["n", 6])
            self.assertEqual(self.evaluate("attention.onnx", data=LETTERS), want[causal], name)

    def test_a_file_for_a_number_of_samples_says_how_many_heads_they_have_together(self):
        nodes = [SPLIT, *layers_of_their_own(), whole("together", [6, 6, 2]), whole("turned", [6, 2, 6]), node("Reshape", "q together", "qt"), node("Reshape", "k turned", "kt"),
                 node("Reshape", "v together", "vt"), node("MatMul", "qt kt", "scores"), node("Div", "scores root", "scaled"), SEEN[0], node("MatMul", "shares vt", "seen0"), whole("apart", [3, 2, 6, 2]),
                 node("Reshape", "seen0 apart", "seen"), *JOINED, *GIVEN]
        results = []
        for of_their_own in (nodes, FORMS["three linear layers"][0]):
            self.write("attention.onnx", [*EMBED, *of_their_own, *END], TENSORS, [3, 6])
            results.append(self.evaluate("attention.onnx", data=LETTERS))
        self.assertEqual(*results)

    def test_one_head_needs_no_dimension_of_its_own_and_one_sample_may_be_said(self):
        ones, results = [tensor("heads", [4], [1, 6, 2, 2]), tensor("whole", [3], [1, 6, 4])], []
        alone = [*[one for part, name in enumerate("qkv") for one in (node("MatMul", f"e w{part}", name + "0"), node("Add", f"b{part} {name}0", name))], node("Transpose", "k", "kt", perm=[0, 2, 1]),
                 node("MatMul", "q kt", "scores"), whole("two", [2]), node("Constant", "", "half1", value_float=0.5), node("Mul", "scores half1", "scaled"), *SEEN, node("MatMul", "seen ot", "given0"), GIVEN[1]]
        with open(self.path("same.safetensors"), "wb") as file:
            file.write(safetensors(WEIGHTS))
        self.write("attention.onnx", [*EMBED, *alone, *END], TENSORS, [1, 6])
        self.assertEqual(self.evaluate("attention.onnx", data=LETTERS), self.evaluate("same.safetensors", "--model", "embedding 256 4; attention 1; linear 10", data=LETTERS))
        for split in (SPLIT, node("Identity", "heads", "split")):
            joined = [JOINED[0], node("Reshape", "seen1 whole", "seen2")]
            self.write("attention.onnx", [*EMBED, split, *layers_of_their_own(), *SCALED, *SEEN, *joined, *GIVEN, *END], [*TENSORS, *ones], [1, 6])
            results.append(self.evaluate("attention.onnx", data=LETTERS))
        self.assertEqual(results, [self.evaluate("same.safetensors", "--model", "embedding 256 4; attention 2; linear 10", data=LETTERS)] * 2)

    def test_what_a_run_exports_is_read_as_the_same_net(self):
        for number, net in enumerate(("embedding 256 8; positions as e; attention 2; add e; layernorm; linear 10", "embedding 256 6 as e; attention 6; attention 1 causal; add e; lstm 5 last; linear 10",
                                      "embedding 256 4 as e; linear 4 each; attention 2 causal as f; linear 4 each; gelu; add f; add e; linear 10",
                                      "embedding 256 4; layernorm; positions; attention 2; positions; linear 3 each; positions; layernorm each; positions; linear 10")):
            run = f"run{number}"
            self.train(*LETTERS, "--model", net, "--clients", "2", "--workers", "1", "--rounds", "1", "--batch-size", "10", "--quiet", "--out", run)
            sounder.Run(self.path(run)).export_onnx(self.path(run + ".onnx"))
            self.assertEqual(self.evaluate(run + ".onnx", data=LETTERS), self.evaluate(run, data=LETTERS))

    def test_heads_that_make_no_attention_are_named_by_node_and_op(self):
        def of(op, inputs, outputs, **more):
            return node(op, inputs, outputs, "rnn.3", **more)
        start, plain = [SPLIT, *layers_of_their_own()], "is no attention here: queries, keys and values are runs"
        cases = {
            plain: [*start, of("MatMul", "q q", "scores")],
            plain + " of outputs": [*start, *SCALED, of("Softmax", "scaled", "shares", axis=1)],
            plain + " of outputs of": [*start, *SCALED, SEEN[0], of("MatMul", "shares k", "seen")],
            plain + " of outputs of linear": [*start, *SCALED, SEEN[0], node("Mul", "v root", "vs"), of("MatMul", "shares vs", "seen")],
            plain + " of outputs of linear layers": [*start, *SCALED, *SEEN, node("Transpose", "seen", "seen1", perm=[0, 2, 3, 1]), *JOINED[1:], of("MatMul", "seen2 ot", "given")],
            plain + " of outputs of linear layers of": [*start, *SCALED, *SEEN, *JOINED, of("MatMul", "seen2 in", "given")],
            plain + " of outputs of linear layers of each": [SPLIT, *layers_of_their_own("eee"), node("Relu", "q1", "late"), *SCALED, *SEEN, *JOINED, of("MatMul", "seen2 ot", "given")],
            plain + " of outputs of linear layers of each step": [SPLIT, node("MatMul", "e ot", "z"), *layers_of_their_own("eze"), *SCALED, *SEEN, *JOINED, of("MatMul", "seen2 ot", "given")],
            plain + ".*, each head's values one run": [*start, of("Add", "q root", "scores")],
            "its scores are multiplied by 1; here it is 1 / sqrt.2., 2 values being a head's": [*start, node("MatMul", "q k", "scaled"), *SEEN, *JOINED, of("MatMul", "seen2 ot", "given")],
            plain + " of outputs of .*": [*start, *SCALED, node("Add", "scaled large", "masked"), of("Mul", "masked root", "more")],
            plain + " of outputs .*": [*start, *SCALED, of("Add", "scaled deep", "masked")],
            plain + " of .*": [*start, *SCALED, of("Softmax", "scaled", "shares")],
            plain + " of outputs of .*, each": [*start, of("MatMul", "q e", "scores")],
            "its mask is none that hides from each step what comes behind.*": [*start, *SCALED, node("Transpose", "scaled", "lying", perm=[0, 1, 3, 2]), of("Add", "lying large", "masked")],
            "here it is 1 / sqrt.2., 2 values": [*start, node("MatMul", "q k", "scores"), node("Div", "scores nan", "scaled"), *SEEN, *JOINED, of("MatMul", "seen2 ot", "given")],
            "its constant is no bias of the attention.*": [*start, *SCALED, *SEEN, *JOINED, GIVEN[0], whole("third", [3]), node("Unsqueeze", "given0 third", "given1"), of("Add", "given1 ob", "given")],
            "its input 3 is no row of 4 numbers": [*start, *SCALED, *SEEN, *JOINED, whole("rows", [-1, 4]), node("Reshape", "seen2 rows", "seen3"), of("Gemm", "seen3 o column", "given", transB=1)],
            "makes whole numbers of a constant's": [of("Cast", "root", "one", to=7)],
            "its mask is none that hides from each step what comes behind it": [*start, *SCALED, of("Add", "scaled window", "masked")],
            "its mask is none that hides": [*start, *SCALED, of("Add", "scaled small", "masked")],
            "its mask is none": [*start, *SCALED, of("Add", "scaled ob", "masked")],
            "takes a part of its input; .* or a run of the outputs of a linear layer of each step, for an attention": [*start, whole("second", 1), of("Gather", "q second", "f", axis=2)],
            "takes a part of its input": [of("Split", "e", "p1 p2", axis=-1)],
            "its parts do not fit 4 values": [*start[:3], whole("sizes", [2, 3]), of("Split", "q1 sizes", "p1 p2", axis=-1)],
            "gives 2x6x4 numbers the shape 2x6x3x2, which has not as many": [*start[:3], whole("heads", [0, 6, 3, 2]), of("Reshape", "q1 heads", "p1")],
            "perm is no order of 4 dimensions": [*start, of("Transpose", "q", "p1", perm=[0, 1, 2, 2])],
            "dimension 1 has more than one place": [*start, whole("second", [1]), of("Squeeze", "q second", "p1")],
            "its constant is no bias of the attention before it": [*start, *SCALED, *SEEN, *JOINED, GIVEN[0], of("Add", "given0 inb", "given")],
            "its input 1 is not what a layer gives from samples": [*start, *SCALED, *SEEN, *JOINED, *GIVEN, of("Relu", "q1", "late")],
        }
        more = [tensor("window", [6, 6], [-math.inf if abs(i // 6 - i % 6) > 1 else 0.0 for i in range(36)]), tensor("small", [6, 6], behind(-1.0)), tensor("minusone", [], [-math.inf]),
                tensor("deep", [1, 1, 1, 6, 6], behind(-math.inf)), tensor("nan", [], [math.nan]), tensor("column", [4, 1], OUT_BIAS)]
        for sentence, middle in cases.items():
            self.write("bad.onnx", [*EMBED, *middle, node("Identity", "e", "given"), *END], [*TENSORS, *more], ["n", 6])
            self.assertRegex(self.refused("bad.onnx"), f'bad.onnx: node "rnn.3" .[A-Za-z]+.: .*{sentence}', middle[-1])


if __name__ == "__main__":
    unittest.main(argv=["test_onnx_attention.py"] + sys.argv[3:], verbosity=2)
