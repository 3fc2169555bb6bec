"""From a model of Sounder's to a graph of ONNX's, opset 17. What older runtimes have no op for is written as PyTorch's exporters do:
group normalisation by instances between reshapes, gelu by Erf (functions.py)."""
import math
import os

import numpy as np

from .command import Error
from .functions import BY_WORD
from .onnx_file import is_onnx, package
from .safetensors import read_safetensors

_OPSET, _IR_VERSION, _EPSILON = 17, 8, 1e-5
# input, output, forget, cell, where the gates of an lstm here are input, forget, cell, output; update, reset, new, where those of a gru
# are reset, update, new.
_ONNX_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}


def _sides(text):
    rows, _, columns = text.partition("x")
    return [int(rows), int(columns or rows)]


class _Layer:
    """A layer of the list: word, numbers, words that are said with a value (options) or alone (flags); sources: numbers of layers,
    -1 is the input."""

    def __init__(self, text, number, names, classes):
        words = text.split()
        self.text, self.word, self.sources = text.strip(), words[0], [number - 1]
        while len(words) > 2 and words[-2] in ("from", "as"):
            if words[-2] == "as":
                names[words[-1]] = number
            else:
                self.sources = [names[words[-1]]]
            del words[-2:]
        if self.word in ("add", "mul", "concat"):
            self.sources.append(names[words[1]])
            del words[1]
        numbers = [str(classes) if word == "classes" else word for word in words[1:]]
        self.flags = {word for word in numbers if word in ("each", "last", "causal", "nobias", "ceil", "channels")}
        numbers = [word for word in numbers if word not in self.flags]
        at = next((place for place, word in enumerate(numbers) if word.isalpha()), len(numbers))
        self.numbers, self.options = numbers[:at], dict(zip(numbers[at::2], numbers[at + 1::2]))

    @property
    def epsilon(self):
        return float(self.options.get("eps", _EPSILON))

    def window(self, size, stride):
        """kernel, stride, padding and dilation."""
        size = _sides(size)
        return size, *(_sides(self.options.get(word, preset)) for word, preset in (("stride", stride or "x".join(map(str, size))), ("pad", "0"), ("dilation", "1")))


class _Writer:
    """The graph as it grows. A layer's result has a name, a shape (channels, rows, columns) of a sample, and so many dimensions: 4 as
    images, 3 as sequences, 2 as vectors. Methods that are called as layers are return what they give, or None: ONNX has no op."""

    def __init__(self, path, weights, shape):
        self.path, self.weights, self.onnx = path, weights, package()
        self.nodes, self.constants, self.counts = [], [], {}
        self.results = {-1: ("x", tuple(shape), 4)}

    # Nodes and constants

    def node(self, op, inputs, gives="", **attributes):
        """Returns the name of what it gives."""
        name = f"{op}{len(self.nodes) + 1}"
        gives = gives or f"{op.lower()}_{len(self.nodes) + 1}"
        self.nodes.append(self.onnx.helper.make_node(op, inputs, gives if isinstance(gives, list) else [gives], name, **attributes))
        return gives

    def constant(self, name, values, kind=np.float32):
        if all(tensor.name != name for tensor in self.constants):
            self.constants.append(self.onnx.numpy_helper.from_array(np.array(values, kind, order="C"), name))
        return name

    def wholes(self, what, values):
        return self.constant(f"{what}_{len(self.nodes) + 1}", values, np.int64)

    def begin(self, word):
        """Of a layer with weights: those of the next one of its kind."""
        self.counts[word] = self.counts.get(word, 0) + 1
        self.ordinal = f"{word}{self.counts[word]}"

    def tensor(self, part, *shape):
        name = f"{self.ordinal}.{part}"
        if name not in self.weights:
            raise Error(f"{self.path}: the model has no {name}")
        if self.weights[name].shape != shape:
            raise Error(f"{self.path}: {name} is {'x'.join(map(str, self.weights[name].shape))}, not {'x'.join(map(str, shape))}")
        return np.array(self.weights[name], np.float32)

    def weight(self, part, *shape, seen=None):
        """The constant's name; seen: its shape in the graph."""
        values = self.tensor(part, *shape)
        return self.constant(f"{self.ordinal}.{part}", values if seen is None else values.reshape(seen))

    def product(self, of, part, outs, ins, bias):
        """Each step's values by a weight (outs, ins), which is (ins, outs) here, plus a bias if there is one."""
        turned = self.constant(f"{self.ordinal}.{part}.turned", self.tensor(part, outs, ins).T)
        product = self.node("MatMul", [of, turned])
        return self.node("Add", [product, self.weight(bias, outs)]) if bias else product

    def seen(self, source, rank):
        """What a layer gives, with so many dimensions; None: it cannot be had."""
        name, shape, before = self.results[source]
        if before == rank:
            return name
        if rank == 2:
            return self.node("Flatten", [name], axis=1)
        if before == 2 or shape[0] != 1:
            return None
        return self.node("Squeeze" if rank == 3 else "Unsqueeze", [name, self.wholes("second", [1])])

    # Layers of images

    def windows(self, op, layer, shape, of, kernel, stride, pad, dilation=(1, 1), **more):
        extents = [(extent + 2 * around - (side - 1) * apart - 1) // step + 1 for extent, side, step, around, apart in zip(shape[1:], kernel, stride, pad, dilation)]
        return self.node(op, of, kernel_shape=kernel, strides=stride, pads=pad * 2, **more), extents

    def conv(self, layer, shape):
        self.begin("conv")
        of, (outs, size) = self.seen(layer.sources[0], 4), (int(layer.numbers[0]), layer.numbers[1])
        kernel, stride, pad, dilation = layer.window(size, "1")
        groups = int(layer.options.get("groups", 1))
        if of is None:
            return None
        inputs = [of, self.weight("weight", outs, shape[0] // groups, *kernel), *([] if "nobias" in layer.flags else [self.weight("bias", outs)])]
        name, extents = self.windows("Conv", layer, shape, inputs, kernel, stride, pad, dilation, dilations=dilation, group=groups)
        return name, (outs, *extents), 4

    def conv1d(self, layer, shape):
        """Between reshapes from and to images of one row."""
        self.begin("conv")
        name, outs, size = self.results[layer.sources[0]][0], int(layer.numbers[0]), int(layer.numbers[1])
        channels, columns = shape[0] * shape[1], shape[2]
        stride, pad, dilation, groups = (int(layer.options.get(word, preset)) for word, preset in (("stride", 1), ("pad", 0), ("dilation", 1), ("groups", 1)))
        of = self.node("Reshape", [name, self.wholes("lines", [-1, channels, columns])])
        inputs = [of, self.weight("weight", outs, channels // groups, size), *([] if "nobias" in layer.flags else [self.weight("bias", outs)])]
        of = self.node("Conv", inputs, kernel_shape=[size], strides=[stride], pads=[pad] * 2, dilations=[dilation], group=groups)
        left = (columns + 2 * pad - (size - 1) * dilation - 1) // stride + 1
        return self.node("Reshape", [of, self.wholes("row", [-1, outs, 1, left])]), (outs, 1, left), 4

    def chunk(self, layer, shape):
        (name, _, rank), (number, count) = self.results[layer.sources[0]], map(int, layer.numbers)
        own = shape[0] // count
        if rank == 3:
            return None
        ends = [self.wholes(what, [value]) for what, value in (("start", (number - 1) * own), ("end", number * own), ("axis", 1))]
        return self.node("Slice", [name, *ends]), (own, *shape[1:]), rank

    def shuffle(self, layer, shape):
        """Channels as (groups, channels of a group), turned."""
        name, groups = self.results[layer.sources[0]][0], int(layer.numbers[0])
        of = self.node("Reshape", [name, self.wholes("groups", [-1, groups, shape[0] // groups, *shape[1:]])])
        of = self.node("Transpose", [of], perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", [of, self.wholes("image", [-1, *shape])]), shape, 4

    def pool(self, layer, shape):
        of, (kernel, stride, pad, _) = self.seen(layer.sources[0], 4), layer.window(layer.numbers[0], None)
        if of is None:
            return None
        more = {"count_include_pad": 1} if layer.word == "avgpool" else {}
        name, extents = self.windows("AveragePool" if more else "MaxPool", layer, shape, [of], kernel, stride, pad, **more)
        if "ceil" in layer.flags and not more:  # an average's windows all fit
            self.nodes[-1].attribute.append(self.onnx.helper.make_attribute("ceil_mode", 1))
            spare = [(extent + 2 * around - side) % step for extent, side, step, around in zip(shape[1:], kernel, stride, pad)]
            extents = [count + (left > 0 and count * step < extent + around) for count, left, step, extent, around in zip(extents, spare, stride, shape[1:], pad)]
        return name, (shape[0], *extents), 4

    avgpool = pool

    def globalpool(self, layer, shape):
        of, grid = self.seen(layer.sources[0], 4), _sides(layer.numbers[0]) if layer.numbers else [1, 1]
        if of is None or grid == [1, 1]:
            return of and (self.node("GlobalAveragePool", [of]), (shape[0], 1, 1), 4)
        if shape[1] % grid[0] or shape[2] % grid[1]:
            return None
        each = [extent // parts for extent, parts in zip(shape[1:], grid)]
        return self.node("AveragePool", [of], kernel_shape=each, strides=each), (shape[0], *grid), 4

    def groupnorm(self, layer, shape):
        self.begin("norm")
        name, _, rank = self.results[layer.sources[0]]
        channels, groups = shape[0], int(layer.numbers[0])
        if groups == 1 and shape[1:] == (1, 1):
            return self.whole_norm(layer, shape)
        back = self.wholes("by_channel", [-1, *shape])
        of = name if rank != 2 else self.node("Reshape", [name, back])
        of = self.node("Reshape", [of, self.wholes("by_group", [0, groups, -1])])
        of = self.node("InstanceNormalization", [of, self.constant(f"ones{groups}", np.ones(groups)), self.constant(f"zeros{groups}", np.zeros(groups))], epsilon=layer.epsilon)
        of = self.node("Mul", [self.node("Reshape", [of, back]), self.weight("weight", channels, seen=(channels, 1, 1))])
        return self.node("Add", [of, self.weight("bias", channels, seen=(channels, 1, 1))]), shape, 4

    def whole_norm(self, layer, shape):
        name, _, rank = self.results[layer.sources[0]]
        own, seen = shape if shape[1] * shape[2] > 1 else shape[:1], shape[1:] if rank == 3 else shape if rank == 4 else shape[:1]
        return self.node("LayerNormalization", [name, *(self.weight(part, *own, seen=seen) for part in ("weight", "bias"))], axis=1, epsilon=layer.epsilon), shape, rank

    def layernorm(self, layer, shape):
        self.begin("norm")
        name, _, rank = self.results[layer.sources[0]]
        if "channels" in layer.flags:
            of = self.node("Reshape", [name, self.wholes("image", [-1, *shape])]) if rank != 4 else name
            of = self.node("Transpose", [of], perm=[0, 2, 3, 1])
            of = self.node("LayerNormalization", [of, self.weight("weight", shape[0]), self.weight("bias", shape[0])], axis=-1, epsilon=layer.epsilon)
            return self.node("Transpose", [of], perm=[0, 3, 1, 2]), shape, 4
        if "each" not in layer.flags:
            return self.whole_norm(layer, shape)
        if rank == 2:
            return None
        return self.node("LayerNormalization", [name, self.weight("weight", shape[2]), self.weight("bias", shape[2])], axis=-1, epsilon=layer.epsilon), shape, rank

    def batchnorm(self, layer, shape):
        self.begin("norm")
        _, _, rank = self.results[layer.sources[0]]
        of = self.seen(layer.sources[0], 2 if rank == 2 else 4)
        parts = [self.weight(part, shape[0]) for part in ("weight", "bias", "running_mean", "running_var")]
        return self.node("BatchNormalization", [of, *parts], epsilon=layer.epsilon, momentum=1 - float(layer.options.get("momentum", 0.1))), shape, 2 if rank == 2 else 4

    # Functions and joins

    def same(self, op, layer, shape, *more, **attributes):
        name, _, rank = self.results[layer.sources[0]]
        return self.node(op, [name, *more], **attributes), shape, rank

    def dropout2d(self, layer, shape):
        """Nothing but in training."""
        return self.same("Identity", layer, shape)

    droppath = dropout2d

    def dropout(self, layer, shape):
        return self.same("Dropout", layer, shape, self.constant(f"rate{layer.numbers[0]}", float(layer.numbers[0])))

    def add(self, layer, shape):
        (_, _, rank), (_, other, also) = (self.results[source] for source in layer.sources)
        rank = 4 if rank == 3 and layer.word == "concat" else rank
        if (rank == 2) != (also == 2):
            return None
        inputs = [self.seen(source, rank) for source in layer.sources]
        if None in inputs:
            return None
        if layer.word == "add":
            return self.node("Add", inputs), shape, rank
        return self.node("Concat", inputs, axis=1), (shape[0] + other[0], *shape[1:]), rank

    concat = add

    def mul(self, layer, shape):
        """Of values, or of channels and a factor for each; as images, unless both lie alike."""
        results = [self.results[source] for source in layer.sources]
        ranks = {rank for _, _, rank in results}
        shape = max((of for _, of, _ in results), key=math.prod)
        if len(ranks) == 1 and results[0][1] == results[1][1]:
            return self.node("Mul", [name for name, _, _ in results]), shape, ranks.pop()
        inputs = [self.node("Reshape", [name, self.wholes("image", [-1, *of])]) if rank == 2 else self.seen(source, 4)
                  for source, (name, of, rank) in zip(layer.sources, results)]
        return (self.node("Mul", inputs), shape, 4) if None not in inputs else None

    # Products, and layers of sequences

    def linear(self, layer, shape):
        self.begin("fc")
        outs, (name, _, rank) = int(layer.numbers[0]), self.results[layer.sources[0]]
        if "each" in layer.flags:
            return None if rank == 2 else (self.product(name, "weight", outs, shape[2], "" if "nobias" in layer.flags else "bias"), (*shape[:2], outs), rank)
        of, bias = self.seen(layer.sources[0], 2), [] if "nobias" in layer.flags else [self.weight("bias", outs)]
        return self.node("Gemm", [of, self.weight("weight", outs, math.prod(shape)), *bias], transB=1), (outs, 1, 1), 2

    def embedding(self, layer, shape):
        self.begin("embedding")
        rows, width = map(int, layer.numbers)
        numbers = self.node("Cast", [self.seen(layer.sources[0], 2)], to=self.onnx.TensorProto.INT64)
        return self.node("Gather", [self.weight("weight", rows, width), numbers], axis=0), (1, math.prod(shape), width), 3

    def positions(self, layer, shape):
        self.begin("positions")
        of = self.seen(layer.sources[0], 3)
        return of and (self.node("Add", [of, self.weight("weight", *shape[1:])]), shape, 3)

    def lstm(self, layer, shape):
        self.begin(layer.word)
        units, (_, steps, values), of, order = int(layer.numbers[0]), shape, self.seen(layer.sources[0], 3), _ONNX_GATES[layer.word]
        if of is None:
            return None
        gates = len(order)
        parts = [self.tensor(part, gates * units, *ins) for part, ins in (("weight_ih_l0", (values,)), ("weight_hh_l0", (units,)), ("bias_ih_l0", ()), ("bias_hh_l0", ()))]
        w, r, *biases = (part.reshape(gates, units, -1)[order].reshape(1, gates * units, -1) for part in parts)
        inputs = [self.constant(f"{self.ordinal}.{name}", values) for name, values in (("W", w), ("R", r), ("B", np.concatenate(biases, 1).reshape(1, -1)))]
        of, last, gives = self.node("Transpose", [of], perm=[1, 0, 2]), "last" in layer.flags, f"{self.ordinal}_gives"
        own = {"linear_before_reset": 1} if layer.word == "gru" else {}
        self.node(layer.word.upper(), [of, *inputs], ["", gives] if last else [gives], hidden_size=units, **own)
        plain = self.node("Squeeze", [gives, self.wholes("direction", [0 if last else 1])])
        return (plain, (units, 1, 1), 2) if last else (self.node("Transpose", [plain], perm=[1, 0, 2]), (1, steps, units), 3)

    gru = lstm

    def mean(self, layer, shape):
        of = self.seen(layer.sources[0], 3)
        return of and (self.node("ReduceMean", [of], axes=[1], keepdims=0), (shape[2], 1, 1), 2)

    def first(self, layer, shape):
        return self.step(layer, shape, "first", 0)

    def last(self, layer, shape):
        return self.step(layer, shape, "last", shape[1] - 1)

    def step(self, layer, shape, name, number):
        of = self.seen(layer.sources[0], 3)
        return of and (self.node("Gather", [of, self.wholes(name, number)], axis=1), (shape[2], 1, 1), 2)

    def transpose(self, layer, shape):
        """Of images the rows and columns become one dimension, the steps."""
        rows, columns = shape[1:] if shape[0] == 1 else (shape[0], math.prod(shape[1:]))
        of = self.seen(layer.sources[0], 3) if shape[0] == 1 else self.node("Reshape", [self.results[layer.sources[0]][0], self.wholes("planes", [-1, rows, columns])])
        return of and (self.node("Transpose", [of], perm=[0, 2, 1]), (1, columns, rows), 3)

    def attention(self, layer, shape):
        self.begin("attention")
        (_, steps, width), heads, of = shape, int(layer.numbers[0]), self.seen(layer.sources[0], 3)
        if of is None:
            return None
        parts = self.product(of, "in_proj_weight", 3 * width, width, "in_proj_bias")
        parts = self.node("Reshape", [parts, self.wholes("heads", [0, steps, 3, heads, width // heads])])
        parts = self.node("Transpose", [parts], perm=[2, 0, 3, 1, 4])
        queries, keys, values = (self.node("Gather", [parts, self.wholes("part", part)], axis=0) for part in range(3))
        scores = self.node("MatMul", [queries, self.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        scores = self.node("Mul", [scores, self.constant(f"scale{width // heads}", 1 / math.sqrt(width // heads))])
        if "causal" in layer.flags:
            never = self.node("Expand", [self.constant("minus_infinity", -math.inf), self.wholes("square", [steps, steps])])
            scores = self.node("Add", [scores, self.node("Trilu", [never, self.wholes("above", 1)], upper=1)])
        seen = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), values])
        seen = self.node("Reshape", [self.node("Transpose", [seen], perm=[0, 2, 1, 3]), self.wholes("joined", [0, steps, width])])
        return self.product(seen, "out_proj.weight", width, width, "out_proj.bias"), shape, 3

    # The file

    def write(self, text, classes):
        names, helper = {}, self.onnx.helper
        for number, words in enumerate(text.split(";")):
            layer = _Layer(words, number, names, classes)
            shape = self.results[layer.sources[0]][1]
            result = BY_WORD[layer.word].write_op(self, layer, shape) if layer.word in BY_WORD else getattr(self, layer.word)(layer, shape)
            if result is None:
                raise Error(f"{self.path}: \"{layer.text}\" has no op in ONNX that takes what it takes")
            self.results[number] = result
        output = self.seen(number, 2)
        shape = self.results[-1][1]
        inputs, outputs = (helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, ["n", *extents]) for name, extents in (("x", shape), (output, (classes,))))
        graph = helper.make_graph(self.nodes, "net", [inputs], [outputs], self.constants)
        model = helper.make_model(graph, producer_name="sounder", opset_imports=[helper.make_opsetid("", _OPSET)])
        model.ir_version = _IR_VERSION
        return model.SerializeToString()


def export_onnx(path, model):
    """Writes a file of ONNX's, which has the net and the weights of a model's file, and returns its path."""
    path = os.fspath(path)
    if not is_onnx(path):
        raise Error(f"{path}: needs a name that ends in .onnx")
    try:
        weights, notes = read_safetensors(model)
    except OSError as problem:
        raise Error(f"{model}: {problem.strerror}") from problem
    if not {"sounder.model", "sounder.input", "sounder.classes"} <= set(notes):
        raise Error(f"{model} does not say which net it is, for samples of which shape: its notes sounder.model, sounder.input and sounder.classes, which Sounder writes, are missing")
    content = _Writer(path, weights, map(int, notes["sounder.input"].split("x"))).write(notes["sounder.model"], int(notes["sounder.classes"]))
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError as problem:
        raise Error(f"{path}: {problem.strerror}") from problem
    return os.path.abspath(path)
