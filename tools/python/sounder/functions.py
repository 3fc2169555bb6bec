"""Functions of each value by itself: what Sounder's layer lists, PyTorch and ONNX call them. A new one is a row of FUNCTIONS."""
import math
from typing import Callable, NamedTuple, Optional

import numpy as np

from .onnx_layers import Layer


class Number(NamedTuple):
    """A function's number: its name in PyTorch and in ONNX, and its value where none is given."""
    torch: str
    onnx: str
    preset: float


class Function(NamedTuple):
    """only: settings of PyTorch's module and of ONNX's op that can have one value. attributes: more of the op's. text_of(name, module),
    read(walk) and write(writer, layer, shape) are for functions that need more than a word and a number."""
    word: str
    module: str  # of torch.nn
    calls: tuple  # functions and methods of PyTorch
    op: str  # of ONNX
    number: Optional[Number] = None
    only: dict = {}
    attributes: str = ""
    text_of: Optional[Callable] = None
    read: Optional[Callable] = None  # False: another row reads its op
    write: Optional[Callable] = None

    @property
    def presets(self):
        """The arguments of PyTorch's function after the first, in their order."""
        return {**({self.number.torch: self.number.preset} if self.number else {}), **self.only, "inplace": False}

    @property
    def op_attributes(self):
        return " ".join([self.attributes, *self.only, *([self.number.onnx] if self.number else [])])

    def text(self, number):
        return f"{self.word} {number}" if self.number else self.word

    def read_op(self, walk):
        """The layer that a node of an ONNX graph is."""
        if self.read:
            return self.read(walk)
        for what, only in self.only.items():
            if walk.node.text(what, only) != only:
                walk.refuse(f"its {what} is {walk.node.text(what, only)}; only {only} is a layer here")
        return add_function(walk, self.text(np.float32(walk.attribute(self.number.onnx, self.number.preset)) if self.number else None))

    def write_op(self, writer, layer, shape):
        """What the layer gives in an ONNX graph."""
        if self.write:
            return self.write(writer, layer, shape)
        numbers = {self.number.onnx: float(layer.numbers[0]) if layer.numbers else self.number.preset} if self.number else {}
        return writer.same(self.op, layer, shape, **numbers)


def add_function(walk, text):
    """A layer that takes and gives one value at a time, wherever the values lie."""
    layer, at = walk.find()
    return walk.add(Layer(text, layer, layer.out, is_each=True), at)


def number_of(walk, which, name, preset):
    """An input or, in old files, an attribute."""
    return walk.reals(which, 1).item() if walk.has(which) else walk.attribute(name, preset)


def _read_clip(walk):
    low, high = number_of(walk, 1, "min", -math.inf), number_of(walk, 2, "max", math.inf)
    if low == 0 and (high == 6 or high > 3e38):
        return add_function(walk, "relu6" if high == 6 else "relu")
    walk.find()
    return walk.refuse(f"clips to {low:g} ... {high:g}; only 0 ... 6 is a layer here")


def _write_clip(writer, layer, shape):
    return writer.same("Clip", layer, shape, writer.constant("zero", 0), writer.constant("six", 6))


def _write_gelu(writer, layer, shape):
    """By the error function, as PyTorch's exporters do: ONNX's Gelu is younger than the opset."""
    name, _, rank = writer.results[layer.sources[0]]
    share = writer.node("Add", [writer.node("Erf", [writer.node("Div", [name, writer.constant("root", math.sqrt(2))])]), writer.constant("one", 1)])
    return writer.node("Mul", [writer.node("Mul", [name, share]), writer.constant("half", 0.5)]), shape, rank


def _write_silu(writer, layer, shape):
    """As a product: ONNX has no op for it."""
    name, _, rank = writer.results[layer.sources[0]]
    return writer.node("Mul", [name, writer.node("Sigmoid", [name])]), shape, rank


def _read_hard_sigmoid(walk):
    alpha, beta = walk.attribute("alpha", 0.2), walk.attribute("beta", 0.5)
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        walk.find()
        walk.refuse(f"its slope is {alpha:g} and its value at 0 {beta:g}; only 1/6 and 0.5 is a layer here")
    return add_function(walk, "hardsigmoid")


def _write_hard_sigmoid(writer, layer, shape):
    return writer.same("HardSigmoid", layer, shape, alpha=1 / 6, beta=0.5)


def _text_of_prelu(name, module):
    return "prelu shared" if module.num_parameters == 1 else "prelu"


def _read_prelu(walk):
    """The slopes are of any shape that ONNX spreads over the values; they must be the same for all values of a channel."""
    layer, at = walk.find()
    slope = walk.reals(1)
    if slope.size == 1:
        return walk.add(Layer("prelu shared", layer, layer.out, None, "prelu", {"weight": slope.reshape(1)}, is_each=True), at)
    spread = np.broadcast_to(slope[0] if slope.ndim == at.ndim else slope, at.shape[1:])
    channels, weight = at[0] // math.prod(layer.out[1:]), np.zeros(layer.out[0], np.float32)
    weight[channels] = spread
    if not np.array_equal(weight[channels], spread):
        walk.refuse(f"its slopes differ within a channel; a prelu here has one for each of its {layer.out[0]} channels")
    return walk.add(Layer("prelu", layer, layer.out, None, "prelu", {"weight": weight}), at)


def _write_prelu(writer, layer, shape):
    _, _, rank = writer.results[layer.sources[0]]
    writer.begin("prelu")
    slopes = 1 if layer.text.split()[1:2] == ["shared"] else shape[0]
    return writer.same("PRelu", layer, shape, writer.weight("weight", slopes, seen=(slopes, *(1,) * (rank - 2))))


FUNCTIONS = (
    Function("relu", "ReLU", ("relu", "relu_"), "Relu"),
    Function("relu6", "ReLU6", ("relu6",), "Clip", attributes="min max", read=_read_clip, write=_write_clip),
    Function("leakyrelu", "LeakyReLU", ("leaky_relu",), "LeakyRelu", Number("negative_slope", "alpha", 0.01)),
    Function("tanh", "Tanh", ("tanh",), "Tanh"),
    Function("sigmoid", "Sigmoid", ("sigmoid",), "Sigmoid"),
    Function("elu", "ELU", ("elu",), "Elu", Number("alpha", "alpha", 1.0)),
    Function("silu", "SiLU", ("silu",), "Sigmoid", write=_write_silu, read=False),
    Function("hardsigmoid", "Hardsigmoid", ("hardsigmoid",), "HardSigmoid", attributes="alpha beta", read=_read_hard_sigmoid, write=_write_hard_sigmoid),
    Function("hardswish", "Hardswish", ("hardswish",), "HardSwish"),
    Function("prelu", "PReLU", (), "PRelu", text_of=_text_of_prelu, read=_read_prelu, write=_write_prelu),
    Function("gelu", "GELU", ("gelu",), "Gelu", only={"approximate": "none"}, write=_write_gelu),
)
BY_WORD = {function.word: function for function in FUNCTIONS}
