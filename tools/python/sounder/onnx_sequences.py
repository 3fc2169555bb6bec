"""ONNX's ops of sequences: embeddings, lstms, and the products of heads that are an attention."""
import math

import numpy as np

from .onnx_axes import turned
from .onnx_layers import Layer, Places, are_rows, spread
from .onnx_values import gather, is_constant

_HIDDEN = -1e9  # scores from here on down are none after any softmax
_LSTM_GATES = [0, 2, 3, 1]  # where ONNX has the gates input, forget, cell, output
_GRU_GATES = [1, 0, 2]  # and reset, update, new


def _gather(walk):
    """Places of a value; or the rows of a table that the net's input names: of samples of whole numbers sequences, a row for each."""
    if not is_constant(walk.value(0)) or is_constant(walk.value(1)):
        return gather(walk)
    space = walk.space_of(walk.value(1), ("numbers",))
    if space is None:
        walk.refuse("its input 2 is not the net's input, which alone an embedding reads")
    layer, at, table = space.layer, space.find(walk.value(1).at), walk.reals(0)
    if at is None or table.ndim != 2 or not table.size or walk.attribute("axis", 0) != 0 or (layer.out[0] != 1 and layer.out[1:] != (1, 1)):
        walk.refuse("is no embedding, which takes rows of a matrix by (samples, numbers) of one channel")
    rows, width = table.shape
    made = Layer(f"embedding {rows} {width}", layer, (1, layer.size, width), None, "embedding", {"weight": table})
    return walk.add(made, at[..., None] * width + np.arange(width))


# Long short-term memory and gated recurrent units ---------------------------------------------------------------------


def _check_recurrent(walk, functions):
    text = walk.node.text("direction", "forward")
    if text != "forward":
        walk.refuse(f"its direction is {text}; an {walk.node.op.lower()} here reads forward")
    if walk.attribute("activations", functions) != functions:
        walk.refuse(f"its activations are not {', '.join(name.decode() for name in functions[:-1])} and {functions[-1].decode()}")
    if walk.attribute("layout", 0) or walk.attribute("input_forget", 0):
        walk.refuse("layout and input_forget must be 0")
    for which in range(4, len(walk.node.inputs)):  # lengths of sequences, first states, peepholes
        value = walk.value(which)
        if value is not None and (which not in (5, 6) or not is_constant(value) or value.any()):
            walk.refuse(f"its input {which + 1} is more than zeros to begin with; an lstm here begins with zeros, reads whole sequences and has no peepholes")
    if len(walk.node.outputs) > 2 and walk.uses.get(walk.node.outputs[2]):
        walk.refuse("its last cells (output 3) are taken; an lstm here gives its outputs")


def _recurrent(walk, order):
    """order: where ONNX has the gates that follow each other here."""
    layer, at = walk.find()
    if at.ndim == 3:  # the steps come first
        layer, at = turned(walk, layer, at.swapaxes(0, 1))
        at = at.swapaxes(0, 1)
    word, gates = walk.node.op.lower(), len(order)
    units, (channels, steps, values) = walk.attribute("hidden_size", 0), layer.out
    if channels != 1 or units < 1 or not np.array_equal(at, walk.order((steps, values)).transpose(1, 0, 2)):
        walk.refuse(f"takes (steps, samples, values) and hidden_size, not samples of {'x'.join(map(str, layer.out))} that lie otherwise, or {units} units")
    _check_recurrent(walk, [b"Sigmoid", b"Tanh"] + [b"Tanh"] * (word == "lstm"))
    if word == "gru" and not walk.attribute("linear_before_reset", 0):
        walk.refuse("linear_before_reset is 0; a gru here multiplies the state's product by the reset gate, as PyTorch's does")
    weights = [walk.reals(1, gates * units * values), walk.reals(2, gates * units * units)]
    if [weight.shape[1:] for weight in weights] != [(gates * units, values), (gates * units, units)]:
        walk.refuse(f"its weights are not (1, {gates * units}, {values}) and (1, {gates * units}, {units})")
    biases = walk.reals(3, 2 * gates * units) if walk.has(3) else np.zeros(2 * gates * units, np.float32)
    blocks = [*weights, *biases.reshape(2, gates * units)]
    tensors = {part: np.concatenate([block.reshape(gates, units, -1)[gate] for gate in order]).reshape(block.shape[-2:] if block.ndim == 3 else -1)
               for part, block in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), blocks)}
    given = walk.add(Layer(f"{word} {units}", layer, (1, steps, units), None, word, tensors), walk.order((steps, units)).transpose(1, 0, 2)[:, None])
    return given, Places(given.at[-1])


# Attention ------------------------------------------------------------------------------------------------------------
# Queries, keys and values are runs of outputs of linear layers of each step. Their products have places of their own: scores and
# shares (samples, heads, steps, steps), what is seen (samples, steps, all heads' values).


def _no_attention(walk):
    walk.refuse("is no attention here: queries, keys and values are runs of outputs of linear layers of each step of one sequence, each head's values one run, in "
                "(samples, heads, steps, values)")


def is_heads(walk, value):
    """Whether it is a part of what a linear layer of each step gives, or all of it in another order than that of rows."""
    space = walk.space_of(value, ("layer", "scaled"))
    if space is None or space.kind == "scaled":
        return space is not None
    layer = space.layer
    if layer.kind != "linear" or not layer.is_each or layer.out[0] != 1 or value.at.ndim < 3:
        return False
    at, columns = value.at - space.base, layer.out[2]
    return at.shape[-1] != columns or not np.array_equal(at, at[..., :1] + np.arange(columns)) or bool((at[..., 0] % columns).any())


class _Heads:
    """A value as heads: layer, scale, and of each head its sample, its first output and how many values it has."""

    def __init__(self, walk, value, turned=False):
        space = walk.space_of(value, ("layer", "scaled"))
        at = value.at if space is None else value.at - space.base
        if space is None or space.layer.kind != "linear" or not space.layer.is_each or space.layer.out[0] != 1 or at.ndim < 3 or at.min() < 0:
            _no_attention(walk)
        self.layer, self.scale, self.shape = space.layer, space.about.get("scale", 1.0), at.shape[:-2]
        _, steps, columns = self.layer.out
        at = at.swapaxes(-1, -2) if turned else at
        self.width = at.shape[-1]
        at = at.reshape(-1, *at.shape[-2:])
        first = at[:, :1, :1]
        if at.shape[1] != steps or not np.array_equal(at, first + np.arange(steps)[:, None] * columns + np.arange(self.width)) or (first // columns % steps).any():
            _no_attention(walk)
        first = first.ravel()
        self.samples, outputs = first // (steps * columns), first % columns
        self.first = int(outputs.min())
        self.heads, rest = np.divmod(outputs - self.first, self.width)
        if rest.any() or (outputs + self.width > columns).any():
            _no_attention(walk)

    @property
    def part(self):
        return self.layer, self.layer.space.whole, self.first


def head_product(walk):
    shares = walk.space_of(walk.value(0), ("shares",))
    return _multiply_values(walk, shares) if shares else _multiply_queries(walk)


def _multiply_queries(walk):
    queries, keys = _Heads(walk, walk.value(0)), _Heads(walk, walk.value(1), turned=True)
    heads, steps = int(queries.heads.max()) + 1, queries.layer.out[1]
    of = queries.samples * heads + queries.heads
    fits = queries.width == keys.width and queries.shape == keys.shape and np.array_equal(queries.samples, keys.samples) and np.array_equal(queries.heads, keys.heads)
    if not fits or not np.array_equal(np.sort(of), np.arange(walk.samples * heads)) or keys.layer.out[1] != steps:
        _no_attention(walk)
    scores = walk.space("scores", queries.layer, (heads, steps, steps), parts=[queries.part, keys.part], width=queries.width, scale=queries.scale * keys.scale, causal=False)
    at = of[:, None] * steps * steps + np.arange(steps * steps)
    return Places(scores.base + at.reshape(*queries.shape, steps, steps))


def _rebased(walk, space, value, kind, **about):
    made = walk.space(kind, space.layer, space.shape, **{**space.about, **about})
    return Places(value.at - space.base + made.base)


def _hides(numbers):
    """Whether a mask of (..., steps, steps) hides from each step what comes behind it, or nothing; None: neither."""
    mask = numbers.reshape(-1, *numbers.shape[-2:])
    behind = np.triu(np.ones(mask.shape[1:], bool), 1)
    if (mask != mask[:1]).any() or mask[0][~behind].any():
        return None
    return True if behind.any() and (mask[0][behind] <= _HIDDEN).all() else None if mask[0].any() else False


def _mask_scores(walk, space, value, constant):
    at = space.find(value.at)
    mask = None if at is None else spread(at, constant, space.shape)
    hides = None if mask is None else _hides(mask)
    if hides is None:
        walk.refuse("its mask is none that hides from each step what comes behind it")
    return _rebased(walk, space, value, "scores", causal=space.about["causal"] or hides)


def change_scores(walk, value, constant):
    """Scores times or divided by a number, or with a mask."""
    op, space = walk.node.op, walk.space_of(value, ("layer", "scaled", "scores"))
    if space is None or constant.ndim > value.at.ndim or constant.dtype != np.float32:
        _no_attention(walk)
    if op == "Add" and space.kind == "scores":
        return _mask_scores(walk, space, value, constant)
    if op == "Add" or constant.size != 1 or space.about.get("causal"):
        _no_attention(walk)
    scale, factor = space.about.get("scale", 1.0), constant.item()
    if op != "Mul":
        factor = 1 / factor if factor else math.inf
    return _rebased(walk, space, value, "scores" if space.kind == "scores" else "scaled", scale=scale * factor)


def softmax_of_scores(walk):
    value = walk.value(0)
    space = walk.space_of(value, ("scores",))
    axis = walk.attribute("axis", 0)  # without it files before opset 13 mean another one
    if space is None or axis not in (-1, value.at.ndim - 1) or walk.node.op != "Softmax" or \
            not are_rows(value.at - space.base, space.shape[2]):
        _no_attention(walk)
    return _rebased(walk, space, value, "shares")


def _multiply_values(walk, space):
    shares, values = walk.value(0).at - space.base, _Heads(walk, walk.value(1))
    heads, steps, _ = space.shape
    width, shape = space.about["width"], shares.shape
    shares = shares.reshape(-1, *shape[-2:])
    of = shares[:, 0, 0] // (steps * steps)
    fits = shares.shape[1:] == (steps, steps) and np.array_equal(shares, (of * steps * steps)[:, None, None] + np.arange(steps * steps).reshape(steps, steps))
    if not fits or not np.array_equal(of, values.samples * heads + values.heads) or values.shape != shape[:-2] or values.width != width or values.scale != 1 or \
            not np.array_equal(np.sort(of), np.arange(walk.samples * heads)):
        _no_attention(walk)
    all_values = heads * width
    seen = walk.space("seen", space.layer, (1, steps, all_values), **{**space.about, "parts": [*space.about["parts"], values.part]})
    rows = (values.samples[:, None] * steps + np.arange(steps)) * all_values + values.heads[:, None] * width
    at = rows[:, :, None] + np.arange(width)
    return Places(seen.base + at.reshape(*shape[:-2], steps, width))


def _is_part(part, source, width):
    """Whether a linear layer is one of the three of an attention, and of nothing else."""
    layer, whole, first = part
    is_own = layer.space is not None and layer.space.whole is whole and not layer.takers and layer.source is source
    return is_own and layer.tensors["weight"].shape[1] == width and first + width <= len(layer.tensors["weight"])


def attend(walk, weight, bias):
    """What is seen, by the weight (outs, ins) of the last linear layer: the layer that it all is, instead of the linear
    ones."""
    space = walk.space_of(walk.value(0), ("seen",))
    about, at, (_, steps, width) = space.about, walk.value(0).at - space.base, space.shape
    parts, heads = about["parts"], width // about["width"]
    layers = list(dict.fromkeys(layer for layer, _, _ in parts))
    source = layers[0].source
    lies = at.size == walk.samples * steps * width and at.ndim > 1 and are_rows(at, width)
    lies = lies and np.unique(at).size == at.size
    if not lies or weight.shape != (width, width) or not all(_is_part(part, source, width) for part in parts):
        _no_attention(walk)
    if not abs(about["scale"] * math.sqrt(about["width"]) - 1) <= 1e-4:
        walk.refuse(f"its scores are multiplied by {about['scale']:g}; here it is 1 / sqrt({about['width']}), "
                    f"{about['width']} values being a head's")
    tensors = {f"in_proj_{name}": np.concatenate([layer.tensors[name][first:first + width] for layer, _, first in parts])
               for name in ("weight", "bias")}
    tensors.update({"out_proj.weight": np.ascontiguousarray(weight),
                    "out_proj.bias": np.zeros(width, np.float32) if bias is None else bias})
    for layer in layers:
        walk.drop(layer)
    text = f"attention {heads}" + " causal" * about["causal"]
    return walk.add(Layer(text, source, (1, steps, width), None, "attention", tensors, has_bias=bias is not None), at)


SEQUENCE_OPS = {"Gather": (_gather, "axis"), "LSTM": (lambda walk: _recurrent(walk, _LSTM_GATES), "activations direction hidden_size input_forget layout"),
                "GRU": (lambda walk: _recurrent(walk, _GRU_GATES), "activations direction hidden_size layout linear_before_reset")}
