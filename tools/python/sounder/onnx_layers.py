"""What a graph of ONNX's has become so far: layers, and places in what they give.

A graph is read by an example: some samples, each value of them a place, a whole number of its own. A node that moves values
moves places, as NumPy does it; a node that computes is a layer if the places that it takes lie as the layer takes them.
"""
import math

import numpy as np

_BITS = 40  # of a place within its space
_BIASED = ("conv", "fc")  # may have a bias or none


class Layer:
    """text: its words, without names. source, other: layers that it takes; out: what it gives of a sample, (channels, rows,
    columns). word, tensors: what its weights are called, and {part: array}. per: what each of the weight's first extents is of:
    "channel", "column" or "value" of what it gives, or "": none of them, a factor cannot become part of it. is_each: what it gives
    in a row depends on that row alone. takers: how many layers take what it gives."""

    def __init__(self, text, source, out, other=None, word="", tensors=None, per="", is_each=False, has_bias=False):
        self.text, self.source, self.other, self.out = text, source, other, tuple(map(int, out))
        self.word, self.tensors, self.per, self.is_each, self.has_bias = word, tensors or {}, per, is_each, has_bias
        self.takers, self.gives_last, self.space = 0, False, None

    @property
    def words(self):
        """With the word of a layer that has no bias of its own."""
        return f"{self.text} nobias" if self.word in _BIASED and not self.has_bias else self.text

    @property
    def parts(self):
        return [(part, array) for part, array in self.tensors.items() if self.has_bias or self.word not in _BIASED or part != "bias"]

    @property
    def kind(self):
        return self.text.split()[0] if self.text else ""

    @property
    def size(self):
        return math.prod(self.out)

    def scale(self, gain, shift):
        """It gives then gain times what it gave, plus shift, for each of its outputs; None: 1, or 0."""
        weight, bias = self.tensors["weight"], self.tensors["bias"]
        if gain is not None:
            self.tensors["weight"] = weight * gain.reshape(gain.shape + (1,) * (weight.ndim - gain.ndim))
            self.tensors["bias"] = bias = bias * gain
        if shift is not None:
            self.tensors["bias"], self.has_bias = bias + shift, True

    def keep_last(self):
        """From all steps to the last alone."""
        words = self.text.split()
        self.text = " ".join([word for word in words if word != "each"] + ["last"] * (words[0] in ("lstm", "gru")))
        self.out, self.is_each, self.gives_last = (self.out[2], 1, 1), False, True
        self.per = "channel" if self.per == "column" else self.per
        self.space.keep_last()


class Space:
    """Places of one kind: "layer", what a layer gives, or a step on the way to one, of which handlers know more (about)."""

    def __init__(self, number, kind, layer, samples, shape, about):
        self.kind, self.layer, self.shape, self.about = kind, layer, tuple(shape), about
        self.base = number << _BITS
        self.whole = self.base + np.arange(samples * math.prod(shape)).reshape(samples, *shape)
        self.taken = layer.space.whole if layer.space and kind != "layer" else self.whole

    @property
    def is_current(self):
        """Whether the layer gives what it gave when this was made of it."""
        return self.layer.space is not None and self.layer.space.whole is self.taken

    def keep_last(self):
        self.whole = self.taken = self.whole[:, :, -1:, :]

    def find(self, at):
        """Where among its places those of the array are, from 0 on; None: some are not, or some of them are missing."""
        places = self.whole.ravel()
        if at.size != places.size:
            return None
        found = np.searchsorted(places, at)
        fits = np.array_equal(places[np.minimum(found, places.size - 1)], at) and np.bincount(found.ravel(), minlength=places.size).max() == 1
        return found if fits else None


class Places:
    """A value that is no constant: the place of each of its numbers; -1: a zero of a border."""

    def __init__(self, at):
        self.at = at


def number_of_space(value):
    """None: places of several spaces, or of a border."""
    numbers = value.at >> _BITS
    return int(numbers.flat[0]) if numbers.size and numbers.flat[0] >= 0 and (numbers == numbers.flat[0]).all() else None


def spread(at, constant, shape):
    """A constant's number for each value of samples of a shape, (samples, *shape); None: it has not one for each."""
    if constant.dtype != np.float32 or constant.ndim > at.ndim or any(own not in (1, there) for own, there in zip(constant.shape[::-1], at.shape[::-1])):
        return None
    spread_out = np.empty(at.size, np.float32)
    spread_out[at.ravel()] = np.broadcast_to(constant, at.shape).ravel()
    return spread_out.reshape(-1, *shape)


def are_rows(at, columns):
    """Whether the places are rows of so many columns each, in order, whichever rows these are."""
    is_begun = at.shape[-1] == columns and not (at[..., 0] % columns).any()
    return is_begun and np.array_equal(at, at[..., :1] + np.arange(columns))


def of_outputs(numbers, layer):
    """The numbers as they belong to the weights of the layer; None: they do not."""
    if numbers is None or not layer.per:
        return None
    own = {"channel": numbers[:1, :, :1, :1], "column": numbers[:1, :1, :1], "value": numbers[:1]}[layer.per]
    return own.reshape(layer.tensors["bias"].shape) if (numbers == own).all() else None


def text_of(layers):
    """The layer list. A layer that is not taken by the next one alone has a name."""
    names = {}

    def name(layer):
        return names.setdefault(layer, f"a{layers.index(layer) + 1}")

    texts = []
    for before, layer in zip([None, *layers], layers):
        words = [layer.words]
        if layer.other is not None:
            words.append(name(layer.other))
        if before is not None and layer.source is not before:
            words.append(f"from {name(layer.source)}")
        texts.append(" ".join(words))
    return "; ".join(text + (f" as {names[layer]}" if layer in names else "") for text, layer in zip(texts, layers))


def tensors_of(layers):
    """[(word, [(part, array)])] of the layers that have weights."""
    return [(layer.word, layer.parts) for layer in layers if layer.tensors]
