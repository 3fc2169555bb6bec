"""ONNX's ops of two values and more: sums, joins, what becomes part of weights, and the steps to gelu."""
import math

import numpy as np

from .onnx_layers import Layer, Places, of_outputs, spread
from .onnx_norms import norm_step
from .onnx_sequences import change_scores, is_heads
from .onnx_values import compute, is_constant, limited


def _join(walk, word, layers, at, out):
    (first, second) = layers
    if walk.input_layer in layers:
        walk.refuse("takes the net's input besides what a layer gives; Sounder has no name for that")
    return walk.add(Layer(word, first, out, second), at)


def _sum(walk):
    (a, at), (b, other) = walk.find(0), walk.find(1)
    if a.out != b.out or not np.array_equal(at, other):
        walk.refuse("adds samples of different shapes, or that lie otherwise")
    is_newer = a in walk.layers and b in walk.layers and walk.layers.index(a) >= walk.layers.index(b)
    return _join(walk, "add", (a, b) if is_newer else (b, a), at, a.out)


def _product(walk):
    """Of two layers' values, or of channels and a factor for each."""
    (a, at), (b, other) = walk.find(0), walk.find(1)
    if a.out != b.out or not np.array_equal(at, other):
        wide, narrow, at, other = (a, b, at, other) if a.size >= b.size else (b, a, other, at)
        if narrow.out != (wide.out[0], 1, 1) or not np.array_equal(at, walk.order(wide.out)) or not np.array_equal(other, walk.order(narrow.out)):
            walk.refuse("multiplies samples of different shapes, or that lie otherwise")
        return _join(walk, "mul", (narrow, wide), at, wide.out)
    return _join(walk, "mul", (b, a) if a in walk.layers and b in walk.layers and walk.layers.index(b) > walk.layers.index(a) else (a, b), at, a.out)


def _join_channels(walk, layer, at, which, axis):
    """The layer, and one more input of the node after its channels."""
    other, also = walk.find(which)
    are_images = np.array_equal(at, walk.order(layer.out)) and np.array_equal(also, walk.order(other.out))
    are_vectors = layer.out[1:] == (1, 1) and \
        all(np.array_equal(lies, walk.order((of.size,))) for lies, of in ((at, layer), (also, other)))
    if axis not in (1, 1 - at.ndim) or not (are_images or are_vectors):
        walk.refuse(f"joins along axis {axis}; here channels are joined: of images or vectors")
    if layer.out[1:] != other.out[1:]:
        walk.refuse("its inputs do not fit each other")
    out = (layer.out[0] + other.out[0], *layer.out[1:])
    at = walk.order(out) if are_images else walk.order(out[:1])
    return _join(walk, "concat", (layer, other), at, out), at


def _are_states(spaces, values):
    """Whether all values are states of recurrent layers, with their one direction in front."""
    return all(space is not None and space.layer.kind in ("lstm", "gru") for space in spaces) and \
        all(value.at.ndim == 3 and len(value.at) == 1 for value in values)


def _concat(walk):
    """Channels of images or vectors, one after the other; or the states of lstms, of which one is taken then; or
    constants."""
    values, axis = [walk.value(which) for which in range(len(walk.node.inputs))], walk.attribute("axis", 0)
    if all(map(is_constant, values)):
        limited(walk, [sum(value.size for value in values)])
        return np.concatenate(values, axis)
    if axis == 0 and _are_states([walk.space_of(value) for value in values], values):
        return Places(np.concatenate([value.at for value in values]))
    layer, at = walk.find()
    for which in range(1, len(values)):
        given, at = _join_channels(walk, layer, at, which, axis)
        layer = walk.layers[-1]
    return given


def _is_near(constant, number):
    return constant.dtype == np.float32 and constant.size == 1 and abs(constant.item() - number) < 1e-3


# The constants on the way from x to x (1 + erf(x / sqrt 2)) / 2, by kind of the other input and op.
_GELU_NUMBERS = {("layer", "Div"): math.sqrt(2), ("layer", "Mul"): math.sqrt(0.5), ("erf", "Add"): 1,
                 ("twice", "Div"): 2, ("twice", "Mul"): 0.5}


def _gelu_step(walk, first, second):
    """One step of that way. first: no constant."""
    op, a, b = walk.node.op, walk.value(first), walk.value(second)
    space = walk.space_of(a, ("layer", "erf", "share", "twice"))
    if space is None:
        walk.refuse("what it makes of its two inputs is no layer here")
    number = _GELU_NUMBERS.get((space.kind, op))
    if number is not None and is_constant(b) and _is_near(b, number):
        layer, at = walk.find(first) if space.kind == "layer" else (space.layer, a.at - space.base)
        if space.kind == "twice":
            return walk.add(Layer("gelu", layer, layer.out, is_each=True), at)
        return walk.step("shrunk" if space.kind == "layer" else "share", layer, at)
    if (space.kind, op) == ("share", "Mul") and not is_constant(b) and walk.space_of(b):
        layer, other = walk.find(second)
        if layer is space.layer and np.array_equal(a.at - space.base, other):
            return walk.step("twice", layer, other)
    return walk.refuse("what it makes of its two inputs is no layer here")


def _erf(walk):
    space = walk.space_of(walk.value(0), ("shrunk",))
    if space is None:
        walk.refuse("its input 1 is not x / sqrt 2, as for gelu")
    return walk.step("erf", space.layer, walk.value(0).at - space.base)


def _are_positions(walk, layer, at, constant):
    rows, columns = layer.out[1:]
    return layer.out[0] == 1 and at.ndim > 2 and at.shape[-2:] == (rows, columns) and np.array_equal(at.ravel(), np.arange(at.size)) and \
        constant.ndim > 1 and constant.shape[-2:] == (rows, columns) and constant.size == rows * columns and constant.ndim <= at.ndim and constant.dtype == np.float32


def _add_to_attention(walk, layer, at, constant, is_free):
    """The bias of an attention's last linear layer."""
    width, numbers = layer.out[2], spread(at, constant, layer.out)
    fits = is_free and numbers is not None and constant.size == width and constant.shape[-1] == width
    if not fits or not (numbers == numbers[:1, :1, :1]).all():
        walk.refuse("its constant is no bias of the attention before it")
    layer.tensors["out_proj.bias"] = layer.tensors["out_proj.bias"] + constant.reshape(width)
    layer.has_bias = True
    return walk.changed(layer, at)


def _may_be_bias(layer, own, constant):
    is_of_attention = layer.kind == "attention" and constant.size == layer.out[2]
    return not layer.has_bias and (own is not None or is_of_attention)


def _change(walk, first, constant):
    """A factor or a summand becomes part of the weights before it; a summand of each value of a sequence is positions."""
    layer, at = walk.find(first)
    is_sum, free = walk.node.op == "Add", not layer.takers and walk.is_single(first)
    own = of_outputs(spread(at, constant, layer.out), layer) if free else None
    if is_sum and _are_positions(walk, layer, at, constant) and not _may_be_bias(layer, own, constant):
        tensors = {"weight": constant.reshape(layer.out[1:])}
        return walk.add(Layer("positions", layer, layer.out, None, "positions", tensors), at)
    if is_sum and layer.kind == "attention":
        return _add_to_attention(walk, layer, at, constant, free)
    if own is None and free and layer.per:
        walk.refuse("its constant cannot become part of the weights of the layer before it")
    if own is None:
        return None
    layer.scale(None if is_sum else own, own if is_sum else None)
    return walk.changed(layer, at)


def _are_scores(walk, value):
    return walk.space_of(value, ("scores", "scaled", "shares", "seen")) or is_heads(walk, value)


def _two(walk):
    given = compute(walk)
    if given is not None:
        return given
    a, b = walk.value(0), walk.value(1)
    if not all(isinstance(one, (Places, np.ndarray)) for one in (a, b)):
        walk.refuse("it has not two inputs")
    return norm_step(walk) if walk.space_of(a, ("centred", "variance")) else _of_two(walk, a, b)


def _of_two(walk, a, b):
    """Of places and places, or of places and a constant."""
    op = walk.node.op
    first = 1 if is_constant(a) or walk.space_of(b, ("erf", "share", "twice")) else 0
    value, other = (a, b) if first == 0 else (b, a)
    if is_constant(other) and (first == 0 or op != "Div") and _are_scores(walk, value):
        return change_scores(walk, value, other)
    given = None
    if op != "Div" and walk.space_of(value):
        join = _sum if op == "Add" else _product
        given = _change(walk, first, other) if is_constant(other) else join(walk) if walk.space_of(other) else None
    return _gelu_step(walk, first, 1 - first) if given is None else given


JOIN_OPS = {"Add": (_two, ""), "Mul": (_two, ""), "Div": (_two, ""), "Erf": (_erf, ""), "Concat": (_concat, "axis")}
