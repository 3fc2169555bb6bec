"""Nets of sequences in ONNX's files: what they compute is what the same weights compute in the net they are read as.

Usage: test_onnx_sequences.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no onnx)
"""
import sys, unittest

from onnx_case import LETTERS, OnnxCase, node, numbers, tensor, whole
from runs import parse_safetensors
from test_init import safetensors

# Of sequences of six whole numbers: a table's rows, two LSTMs of five units over them, and a layer of each step.
HEAD_BIAS = numbers(10, 7)
TABLE, UNITS = numbers(256 * 4, 20, -1, 1), 5
GATES = {f"lstm{layer}.{name}_l0": (shape, numbers(shape[0] * (shape[1] if len(shape) > 1 else 1), 10 * layer + place))
         for layer, inputs in ((3, 4), (4, UNITS)) for place, (name, shape) in enumerate(
             (("weight_ih", [20, inputs]), ("weight_hh", [20, UNITS]), ("bias_ih", [20]), ("bias_hh", [20])))}
EACH, EACH_BIAS, ROW_GAIN, ROW_SHIFT = numbers(16, 50), numbers(4, 51), numbers(4, 52, 0.5, 1.5), numbers(4, 53)
LAST, ALL = numbers(10 * UNITS, 54), numbers(10 * 24, 55)
PLACES = numbers(8 * 4, 60)


def reordered(values):
    """The gates input, forget, cell, output as ONNX has them: input, output, forget, cell."""
    block = len(values) // 4
    return [value for gate in (0, 3, 1, 2) for value in values[gate * block:(gate + 1) * block]]


def gates(layer):
    """ONNX's three tensors of an LSTM."""
    (shape, input), (state_shape, state), (_, first), (_, second) = (GATES[f"lstm{layer}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return [tensor(f"W{layer}", [1, *shape], reordered(input)), tensor(f"R{layer}", [1, *state_shape], reordered(state)),
            tensor(f"B{layer}", [1, 40], reordered(first) + reordered(second))]


def lstm_weights(layer, number, bias=True):
    """The same under PyTorch's names, as the net's lstm of that number."""
    return {name.replace(f"lstm{layer}", f"lstm{number}"): (shape, values if bias or "bias" not in name else [0.0] * 20)
            for name, (shape, values) in GATES.items() if name.startswith(f"lstm{layer}.")}


def parts(x, axes, square=node("Pow", "d square", "p")):
    """What LayerNormalization is before opset 17, but for factors and shifts."""
    return [node("ReduceMean", x, "mean", axes=axes), node("Sub", x + " mean", "d"), node("Constant", "", "square", value_float=2.0), square,
            node("ReduceMean", "p", "v0", axes=axes, keepdims=1), node("Constant", "", "tiny", value_float=1e-5), node("Add", "v0 tiny", "v1"), node("Sqrt", "v1", "v2"), node("Div", "d v2", "q")]


EMBED = [node("Cast", "x", "i", to=7), node("Gather", "table i", "e")]
ZEROS = [node("Shape", "e", "size"), whole("zero", 0), node("Gather", "size zero", "n1"), whole("first", [0]), whole("one", [1]), whole("units", [UNITS]),
         node("Unsqueeze", "n1 first", "n2"), node("Concat", "one n2 units", "begin", axis=0), node("ConstantOfShape", "begin", "z0", value=tensor("", [1], [0.0])),
         node("Slice", "z0 first one first", "z")]
TURN, SQUEEZE = node("Transpose", "e", "t", perm=[1, 0, 2]), node("Squeeze", "a one", "b")
HEAD_OF_LAST = node("Gemm", "f h hb", "y", transB=1)
SEQUENCE = [tensor("table", [256, 4], TABLE), *gates(3), *gates(4), tensor("h", [10, UNITS], LAST), tensor("hb", [10], HEAD_BIAS), tensor("no", [1, 2, UNITS], [0.0] * 10),
            tensor("m", [4, 4], [EACH[4 * o + i] for i in range(4) for o in range(4)]), tensor("mb", [4], EACH_BIAS), tensor("g", [4], ROW_GAIN), tensor("s", [4], ROW_SHIFT),
            tensor("ha", [10, 24], ALL), tensor("k", [UNITS, UNITS], numbers(25, 56)), tensor("three", [3], [1, 1, UNITS])]
WIDE = numbers(150, 58)
FINISH = {"fc1.weight": ([10, UNITS], LAST), "fc1.bias": ([10], HEAD_BIAS)}
BOTH = {"embedding1.weight": ([256, 4], TABLE), **lstm_weights(3, 1), **lstm_weights(4, 2), **FINISH}
DEEP = "embedding 256 4; lstm 5; lstm 5 last; linear 10"
# Name: the input's shape, how the model is written else, its nodes, the net here and its weights.
SEQUENCES = {
    "steps of their own": (["n", 6], {}, [
        *EMBED, node("MatMul", "e m", "m1"), node("Add", "mb m1", "m2"), node("LayerNormalization", "m2 g s", "m3", axis=-1, epsilon=1e-5), node("Tanh", "m3", "m4"),
        node("Add", "e m4", "m5"), node("Flatten", "m5", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4 as e; linear 4 each; layernorm each; tanh; add e; linear 10",
        {"embedding1.weight": ([256, 4], TABLE), "fc1.weight": ([4, 4], EACH), "fc1.bias": ([4], EACH_BIAS), "norm1.weight": ([4], ROW_GAIN),
         "norm1.bias": ([4], ROW_SHIFT), "fc2.weight": ([10, 24], ALL), "fc2.bias": ([10], HEAD_BIAS)}),
    "a normalisation in parts": (["n", 6], {}, [
        *EMBED, *parts("e", [-1]), node("Mul", "q g", "q1"), node("Add", "q1 s", "q2"), node("MatMul", "q2 m", "m1"), node("Flatten", "m1", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4; layernorm each; linear 4 each; linear 10",
        {"embedding1.weight": ([256, 4], TABLE), "norm1.weight": ([4], ROW_GAIN), "norm1.bias": ([4], ROW_SHIFT), "fc1.weight": ([4, 4], EACH), "fc1.bias": ([4], [0.0] * 4),
         "fc2.weight": ([10, 24], ALL), "fc2.bias": ([10], HEAD_BIAS)}),
    "one of all steps in parts": (["n", 6], {}, [
        *EMBED, *parts("e", [1, 2], node("Mul", "d d", "p")), node("Flatten", "q", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4; layernorm; linear 10",
        {"embedding1.weight": ([256, 4], TABLE), "norm1.weight": ([1, 6, 4], [1.0] * 24), "norm1.bias": ([1, 6, 4], [0.0] * 24), "fc1.weight": ([10, 24], ALL), "fc1.bias": ([10], HEAD_BIAS)}),
    "positions": (["n", 6], {}, [
        *EMBED, node("Add", "first6 e", "p1"), node("Relu", "p1", "p2"), node("Add", "p2 whole6", "p3"), node("Flatten", "p3", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4; positions; relu; positions; linear 10", {"embedding1.weight": ([256, 4], TABLE), "positions1.weight": ([6, 4], PLACES[:24]), "positions2.weight": ([6, 4], PLACES[8:]),
                                                                   "fc1.weight": ([10, 24], ALL), "fc1.bias": ([10], HEAD_BIAS)}),
    "positions that are counted": (["n", 6], {}, [
        *EMBED, node("Shape", "e", "size"), whole("one", 1), node("Gather", "size one", "steps"), whole("zero", 0), whole("third", 3), whole("second", 2), node("Mod", "third second", "step"), node("Range", "zero steps step", "numbers"),
        node("Gather", "places numbers", "p"), node("Unsqueeze", "numbers zero", "numbers1"), node("Gather", "places numbers1", "q"),
        node("MatMul", "e m", "m1"), node("Add", "m1 p", "p1"), node("Relu", "p1", "r1"), node("Add", "q r1", "p2"), node("Add", "e p2", "p3"), node("Flatten", "p3", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4 as e; linear 4 each; positions; relu; positions; add e; linear 10", {"embedding1.weight": ([256, 4], TABLE), "fc1.weight": ([4, 4], EACH), "fc1.bias": ([4], [0.0] * 4), "positions1.weight": ([6, 4], PLACES[:24]), "positions2.weight": ([6, 4], PLACES[:24]),
                                                                            "fc2.weight": ([10, 24], ALL), "fc2.bias": ([10], HEAD_BIAS)}),
    "as PyTorch writes it": (["n", 1, 1, 6], {}, [
        whole("flat", [0, -1]), node("Reshape", "x flat", "x1"), node("Cast", "x1", "i", to=7), EMBED[1], *ZEROS, TURN, node("LSTM", "t W3 R3 B3 - z z", "a a1 a2", hidden_size=UNITS), SQUEEZE,
        node("LSTM", "b W4 R4 B4 - z z", "c c1 c2", hidden_size=UNITS), node("Squeeze", "c one", "d"), node("Transpose", "d", "d1", perm=[1, 0, 2]), whole("last", -1),
        node("Gather", "d1 last", "f", axis=1), HEAD_OF_LAST], DEEP, BOTH),
    "as PyTorch 2 writes it": (["n", 6], {}, [
        *EMBED, TURN, node("LSTM", "t W3 R3 B3 - no no", "a", hidden_size=UNITS), node("Transpose", "a", "a1", perm=[0, 2, 1, 3]), node("Shape", "a1", "size"),
        whole("zero", [0]), whole("one", [1]), whole("two", [2]), whole("three1", [3]), whole("four", [4]), whole("open", [-1]), node("Slice", "size zero one", "steps"),
        node("Slice", "size one two", "n1"), node("Slice", "size two three1", "ways"), node("Slice", "size three1 four", "values"), node("Mul", "ways values", "width"),
        node("Reshape", "width open", "width1"), node("Concat", "steps n1 width1", "wanted", axis=0), node("Reshape", "a1 wanted", "b"),
        node("LSTM", "b W4 R4 B4", "c", hidden_size=UNITS), node("Transpose", "c", "c1", perm=[0, 2, 1, 3]), whole("fixed", [6, -1, UNITS]), node("Reshape", "c1 fixed", "d"),
        node("Transpose", "d", "d1", perm=[1, 0, 2]), whole("last", -1), node("Gather", "d1 last", "f", axis=1), HEAD_OF_LAST], DEEP, BOTH),
    "by its states": ([1, 6], {}, [
        *EMBED, TURN, node("Expand", "no three", "z"), node("LSTM", "t W3 R3 B3 - z no", "a a1", hidden_size=UNITS, direction="forward"), node("Squeeze", "a", "b", axes=[1]),
        node("LSTM", "b W4 R4 B4", "- c1", hidden_size=UNITS, activations=["Sigmoid", "Tanh", "Tanh"]), node("Concat", "a1 c1", "states", axis=0), whole("second", 1),
        node("Gather", "states second", "f"), HEAD_OF_LAST], DEEP, BOTH),
    "by one state, of whole numbers": (["n", 6], {"kind": 7}, [
        node("Gather", "table x", "e", axis=0), TURN, node("LSTM", "t W3 R3", "a a1", hidden_size=UNITS), whole("first", [0]), node("Squeeze", "a1 first", "f"), HEAD_OF_LAST],
        "embedding 256 4; lstm 5 last; linear 10", {"embedding1.weight": ([256, 4], TABLE), **lstm_weights(3, 1, bias=False), **FINISH}),
    "one state in another shape": (["n", 6], {}, [
        *EMBED, TURN, node("LSTM", "t W3 R3 B3", "a a1", hidden_size=UNITS), node("Shape", "x", "n1", start=0, end=1), whole("units", [UNITS]), node("Concat", "n1 units", "wanted", axis=0),
        node("Reshape", "a1 wanted", "f"), HEAD_OF_LAST], "embedding 256 4; lstm 5 last; linear 10", {"embedding1.weight": ([256, 4], TABLE), **lstm_weights(3, 1), **FINISH}),
    "gates that no exporter ordered": (["n", 6], {}, [
        *[node("Slice", f"{name} at{start} at{end} first", f"{name}{start}") for name in ("w_ih", "w_hh", "b_ih", "b_hh") for start, end in ((0, 5), (5, 15), (15, 20))],
        *[node("Concat", f"{name}0 {name}15 {name}5", f"{name}_sorted", axis=axis) for name, axis in (("w_ih", 0), ("w_hh", -2), ("b_ih", 0), ("b_hh", -1))],
        node("Concat", "b_ih_sorted b_hh_sorted", "b", axis=0), *[node("Unsqueeze", f"{name} first", f"{name}_of_one") for name in ("w_ih_sorted", "w_hh_sorted", "b")],
        node("Slice", "wide at5 at10 one", "head"), *EMBED, TURN, node("LSTM", "t w_ih_sorted_of_one w_hh_sorted_of_one b_of_one", "- a1", hidden_size=UNITS),
        node("Squeeze", "a1 first", "f"), node("Transpose", "head", "head1"), node("Gemm", "f head1 hb", "y")],
        "embedding 256 4; lstm 5 last; linear 10", {"embedding1.weight": ([256, 4], TABLE), **lstm_weights(3, 1), "fc1.weight": ([10, 5], [value for o in range(10) for value in WIDE[15 * o + 5:15 * o + 10]]), "fc1.bias": ([10], HEAD_BIAS)}),
    "all steps in rows": (["n", 6], {}, [
        *EMBED, whole("rows", [-1, 4]), node("Reshape", "e rows", "r"), node("Gemm", "r m mb", "r1"), node("Tanh", "r1", "r2"), whole("back", [-1, 6, 4]), node("Reshape", "r2 back", "r3"), TURN,
        node("Transpose", "r3", "r4", perm=[1, 0, 2]), node("LSTM", "r4 W3 R3 B3", "- a1", hidden_size=UNITS), node("Transpose", "a1", "a2", perm=[1, 0, 2]), whole("plain", [0, -1]),
        node("Reshape", "a2 plain", "f"), HEAD_OF_LAST], "embedding 256 4; linear 4 each; tanh; lstm 5 last; linear 10",
        {"embedding1.weight": ([256, 4], TABLE), "fc1.weight": ([4, 4], EACH), "fc1.bias": ([4], EACH_BIAS), **lstm_weights(3, 1), "fc2.weight": FINISH["fc1.weight"], "fc2.bias": FINISH["fc1.bias"]}),
    "sizes that are computed": (["n", 6], {}, [
        *EMBED, node("Shape", "e", "size"), whole("zero", [0]), whole("one", [1]), whole("two", [2]), node("Gather", "size zero", "n1"), node("Gather", "size one", "steps"), node("Gather", "size two", "width"),
        node("Mul", "steps width", "all"), node("Div", "all one", "all1"), node("Add", "all1 two", "more"), node("Sub", "more two", "all2"), node("Mul", "one n1", "n2"), node("Concat", "n2 all2", "plain", axis=0),
        node("Reshape", "e plain", "f"), node("Gemm", "f ha hb", "y", transB=1)],
        "embedding 256 4; linear 10", {"embedding1.weight": ([256, 4], TABLE), "fc1.weight": ([10, 24], ALL), "fc1.bias": ([10], HEAD_BIAS)}),
    "steps first": (["n", 1, 6], {}, [
        whole("one", [1]), node("Squeeze", "x one", "x1"), node("Transpose", "x1", "x2", perm=[1, 0]), node("Cast", "x2", "i", to=6), EMBED[1],
        node("LSTM", "e W3 R3 B3", "a", hidden_size=UNITS), SQUEEZE, node("Relu", "b", "r"), node("Dropout", "r", "r1"), node("MatMul", "r1 k", "r2"), whole("five", [5]), whole("six", [2**62]), whole("zeroth", [0]),
        node("Slice", "r2 five six zeroth", "f0"), node("Squeeze", "f0 zeroth", "f"), HEAD_OF_LAST],
        "embedding 256 4; lstm 5 last; relu; dropout 0.5; linear 5; linear 10",
        {"embedding1.weight": ([256, 4], TABLE), **lstm_weights(3, 1), "fc1.weight": ([5, 5], [numbers(25, 56)[5 * i + o] for o in range(5) for i in range(5)]), "fc1.bias": ([5], [0.0] * 5),
         "fc2.weight": FINISH["fc1.weight"], "fc2.bias": FINISH["fc1.bias"]}),
    "rows of an image": (["n", 1, 1, 6], {}, [
        node("Squeeze", "x one", "x1"), node("Transpose", "x1", "t", perm=[1, 0, 2]), node("LSTM", "t W9 R4 B4", "- a1", hidden_size=UNITS), node("Gather", "a1 last", "f"), HEAD_OF_LAST],
        "lstm 5 last; linear 10", {**lstm_weights(4, 1), "lstm1.weight_ih_l0": ([20, 6], numbers(120, 57)), **FINISH}),
}
EXTRA = {"positions": [tensor("first6", [1, 6, 4], PLACES[:24]), tensor("whole6", [6, 4], PLACES[8:])], "positions that are counted": [tensor("places", [8, 4], PLACES)],
         "gates that no exporter ordered": [
    *[tensor(name, *GATES[f"lstm3.{full}_l0"]) for name, full in (("w_ih", "weight_ih"), ("w_hh", "weight_hh"), ("b_ih", "bias_ih"), ("b_hh", "bias_hh"))], tensor("wide", [10, 15], WIDE),
    *[tensor(f"at{place}", [1], [place]) for place in (0, 5, 10, 15, 20)], tensor("first", [1], [0]), tensor("one", [1], [-1])],
         "rows of an image": [tensor("one", [1], [1]), tensor("last", [], [-1]), tensor("W9", [1, 20, 6], reordered(numbers(120, 57)))]}


class OnnxSequences(OnnxCase):
    def test_sequences_compute_what_the_same_layers_do(self):
        for name, (shape, kind, nodes, text, weights) in SEQUENCES.items():
            with open(self.path("same.safetensors"), "wb") as file:
                file.write(safetensors(weights))
            want = self.evaluate("same.safetensors", "--model", text, data=LETTERS)
            self.write("sequence.onnx", nodes, [*SEQUENCE, *EXTRA.get(name, [])], shape, **kind)
            self.assertEqual(self.evaluate("sequence.onnx", data=LETTERS), want, name)

    def test_training_begins_from_it(self):
        shape, kind, nodes, text, weights = SEQUENCES["as PyTorch writes it"]
        self.write("sequence.onnx", nodes, SEQUENCE, shape, **kind)
        with open(self.path("same.safetensors"), "wb") as file:
            file.write(safetensors(weights))
        short = [*LETTERS, "--quiet", "--clients", "2", "--workers", "1", "--rounds", "1", "--batch-size", "10"]
        trained, read = [], self.read("sequence.onnx")
        for run, model in (("file", [read[0], "--init", read[1]]), ("layers", [text, "--init", "same.safetensors"])):
            self.train(*short, "--model", *model, "--out", run)
            with open(self.path(run, "model.safetensors"), "rb") as file:
                trained.append(parse_safetensors(file.read())[1])
        self.assertEqual(*trained)
        self.assertNotEqual(trained[0]["lstm1.weight_hh_l0"][1], weights["lstm1.weight_hh_l0"][1])

    def test_sequences_that_no_layer_makes_are_named_by_node_and_op(self):
        """Middles of a net between the embedding's rows, e and t, and its last linear layer, which takes f."""
        def lstm(inputs="t W3 R3 B3", outputs="a", **more):
            return node("LSTM", inputs, outputs, "rnn.3", **{"hidden_size": UNITS, **more})

        def of(op, inputs, outputs, **more):
            return node(op, inputs, outputs, "rnn.3", **more)
        plain = node("LSTM", "t W3 R3 B3", "a a1 a2", "before", hidden_size=UNITS)
        cases = {
            "its direction is bidirectional; an lstm here reads forward": [lstm(direction="bidirectional")],
            "its activations are not Sigmoid, Tanh and Tanh": [lstm(activations=["Sigmoid", "Tanh", "Relu"])],
            "layout and input_forget must be 0": [lstm(layout=1)],
            "its attribute clip is not read": [lstm(clip=1.0)],
            "its input 6 is more than zeros to begin with": [lstm("t W3 R3 B3 - ones")],
            "its input 5 is more than zeros to begin with": [lstm("t W3 R3 B3 one")],
            "its input 8 is more than zeros to begin with": [lstm("t W3 R3 B3 - - - no")],
            "its last cells .output 3. are taken": [lstm(outputs="a a1 a2"), node("Gather", "a2 last", "f")],
            "takes .steps, samples, values. and hidden_size": [lstm("e W3 R3 B3")],
            "its input 2 is no constant of floating-point numbers, or not 64": [lstm(hidden_size=4)],
            "its input 4 is no constant of floating-point numbers, or not 40": [lstm("t W3 R3 ones")],
            "its weights are not .1, 20, 4. and .1, 20, 5.": [lstm("t turned R3 B3")],
            "takes a part of its input; here the first or last step of a sequence": [of("Gather", "e both", "f", axis=1)],
            "or a run of the outputs of a linear layer of each step": [of("Slice", "e zeroth two one", "f")],
            "joins along axis 1; here channels are joined": [plain, of("Concat", "a1 a1", "f", axis=1)],
            "joins along axis 0; here channels are joined": [plain, of("Concat", "a1 e", "f", axis=0)],
            "its input 2 is not the net's input": [of("Gather", "table x", "f")],
            "is no embedding, which takes rows of a matrix": [of("Gather", "m i", "f", axis=1)],
            "cannot be computed here: shape mismatch": [of("Expand", "ones both", "f")],
            "axis is 1; here all values of a sample or of a row are normalised": [of("LayerNormalization", "t g s", "f", axis=1)],
            "its constant cannot become part of the weights": [node("MatMul", "e m", "r"), of("Add", "r column", "f")],
            "what it makes of its two inputs is no layer": [of("Add", "e column", "f")],
            "what it makes of its two inputs is no layer here": [of("Mul", "e places", "f")],
            "what it makes of its two inputs is no": [node("Transpose", "e", "e1", perm=[1, 0, 2]), of("Add", "e1 places", "f")],
            "its constant cannot become part of the weights of the layer": [node("LayerNormalization", "e whole", "r", axis=1), of("Add", "r across", "f")],
            "takes places .0, 6. along axis 0 of 6x4": [of("Gather", "places beyond", "f")],
            "of 3 constants; 2 are computed with": [of("Min", "one two both1", "f")],
            "does not fit a vector of 4 values": [of("MatMul", "e h", "f")],
            "takes images, but its input is a sequence": [of("GlobalAveragePool", "e", "f")],
            "joins along axis 2; here channels are joined": [of("Concat", "e e", "f", axis=2)],
            "gives 6x2x4 numbers the shape 1x2, which has not as many": [of("Reshape", "t both", "f")],
            "those of the last dimensions parts of a normalisation": [of("ReduceMean", "e", "f", axes=[1])],
            "and those of the last dimensions parts": [of("ReduceMean", "e", "f", axes=[2], keepdims=0)],
            "what it makes of its inputs is no layer": [node("ReduceMean", "e", "mean", axes=[-1]), node("Relu", "e", "r"), of("Sub", "r mean", "f")],
            "what it makes of its inputs is no layer here": [*parts("e", [2])[:2], node("Constant", "", "three4", value_float=3.0), of("Pow", "d three4", "f")],
            "epsilon is 2; normalisation here adds a number": [*parts("e", [2])[:5], node("Constant", "", "wide", value_float=2.0), of("Add", "v0 wide", "f")],
            "axis is 1; here all values of a sample or of a row": [node("Transpose", "e", "turned_e", perm=[1, 0, 2]), *parts("turned_e", [1, 2])[:-1], of("Div", "d v2", "f")],
            "cannot be computed here: all the input array dimensions": [of("Concat", "m h", "f", axis=0)],
            "gives 1x2x5 numbers the shape 1x2": [plain, of("Reshape", "a1 both", "f")],
            "gives 2x6x4 numbers the shape 4, which has not as many": [node("Shape", "e", "size"), node("Gather", "size zeroth", "n1"), node("Add", "n1 two", "n2"), of("Reshape", "e n2", "f")],
            "cannot be computed here: a whole number by zero": [of("Div", "two zeroth", "f")],
            "perm is no order of 3 dimensions": [of("Transpose", "e", "f", perm=[0, 0, 2])],
            "more than one place": [of("Squeeze", "e one", "f")],
            "its constant cannot become part of the weights of": [node("MatMul", "e m", "r"), of("Add", "r deep", "f")],
            "that is no float, or floats of whole numbers": [of("Cast", "i", "f", to=1)],
        }
        more = [tensor("ones", [1, 2, UNITS], [1.0] * 10), tensor("turned", [1, 4, 20], [0.5] * 80), tensor("places", [6, 4], PLACES[:24]), tensor("column", [6, 1], PLACES[:6]), tensor("whole", [6, 4], PLACES[:24]), tensor("across", [6, 1, 4], PLACES[:24]), tensor("beyond", [2], [0, 6]), tensor("last1", [1], [-1]), tensor("both1", [1], [1]), tensor("both", [2], [1, 2]),
                tensor("one", [1], [1]), tensor("two", [1], [2]), tensor("last", [], [-1]), tensor("zeroth", [1], [0]), tensor("nothing", [0, 4], []), tensor("deep", [1, 1, 1, 4], EACH_BIAS)]
        for sentence, middle in cases.items():
            self.write("bad.onnx", [*EMBED, TURN, *middle, HEAD_OF_LAST], [*SEQUENCE, *more], ["n", 6])
            self.assertRegex(self.refused("bad.onnx"), f'bad.onnx: node "rnn.3" .[A-Za-z]+.: .*{sentence}')
        for sentence, end in {"bad.onnx: corrupt: node 3 of the graph has no op, or gives nothing": node("Relu", "e", "-"),
                              "bad.onnx: what the graph gives, y, is not what its last layer gives": node("Transpose", "y0", "y", perm=[1, 0])}.items():
            self.write("bad.onnx", [*EMBED, end] if "corrupt" in sentence else [*EMBED, node("Flatten", "e", "f"), node("Gemm", "f all", "y0"), end], [*SEQUENCE, tensor("all", [24, 10], numbers(240, 61))], ["n", 6])
            self.assertIn(sentence, self.refused("bad.onnx"))


if __name__ == "__main__":
    unittest.main(argv=["test_onnx_sequences.py"] + sys.argv[3:], verbosity=2)
