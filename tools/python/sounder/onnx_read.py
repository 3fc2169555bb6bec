"""From a graph of ONNX's to a net's layer list and weights."""
import math

import numpy as np

from .command import Error
from .onnx_axes import part_of_layer, shuffled
from .onnx_file import File
from .onnx_joins import JOIN_OPS
from .onnx_layers import Layer, Places, Space, number_of_space, tensors_of, text_of
from .onnx_norms import NORM_OPS
from .onnx_ops import LAYER_OPS
from .onnx_sequences import SEQUENCE_OPS
from .onnx_values import VALUE_OPS

# Each op: the function that makes of a node what it gives, and the attributes that it reads, or that say nothing here.
_OPS = {**VALUE_OPS, **LAYER_OPS, **NORM_OPS, **SEQUENCE_OPS, **JOIN_OPS}
_MOST = 1 << 28  # places of one value
_NOT_SAMPLES = "not what a layer gives from samples"


class Walk:
    """A graph while its nodes are looked at, in their order: values by name, layers so far, and the node at hand."""

    def __init__(self, file, samples):
        self.file, self.samples, self.node = file, samples, None
        self.layers, self.spaces, self.values = [], [], dict(file.constants)
        self.uses, self.left = {file.output: 1}, {file.output: 1}  # of those left, the ones that ask for a shape count, too
        for node in file.nodes:
            for name in node.inputs:
                self.left[name] = self.left.get(name, 0) + 1
                self.uses[name] = self.uses.get(name, 0) + (node.op != "Shape")
        self.left_out = None
        self.input_layer = Layer("", None, file.shape)
        at = self.space("layer", self.input_layer, file.shape).whole
        at = self.space("numbers", self.input_layer, file.shape).whole if file.is_whole else at
        extents = {2: (-1,), 3: file.shape[1:], 4: file.shape}[file.rank]
        self.values[file.input] = Places(at.reshape(samples, *extents))

    def refuse(self, sentence):
        raise Error(f'{self.file.path}: node "{self.node.name}" ({self.node.op}): {sentence}')

    # What nodes take

    def attribute(self, name, preset=None):
        return self.node.attributes.get(name, preset)

    def has(self, which):
        return which < len(self.node.inputs) and self.node.inputs[which] != ""

    def value(self, which):
        """The node's input, a constant's array or Places; None: left out."""
        if not self.has(which):
            return None
        name = self.node.inputs[which]
        if name not in self.values:
            self.refuse(f"takes {name}, which no node before it gives")
        return self.values[name]

    def reals(self, which, count=None):
        """A constant of floats."""
        value = self.value(which)
        if not isinstance(value, np.ndarray) or value.dtype != np.float32 or (count is not None and value.size != count):
            many = "" if count is None else f", or not {count} of them"
            self.refuse(f"its input {which + 1} is no constant of floating-point numbers{many}")
        return value

    def wholes(self, which):
        value = self.value(which)
        if not isinstance(value, np.ndarray) or value.dtype != np.int64:
            self.refuse(f"its input {which + 1} is no constant of whole numbers")
        return value

    def is_single(self, which):
        """Whether this node alone takes the input."""
        return self.uses[self.node.inputs[which]] == 1

    def space_of(self, value, kinds=("layer",)):
        """None: the value is a constant, of something else, or of a layer that has become another one."""
        number = number_of_space(value) if isinstance(value, Places) else None
        space = self.spaces[number] if number is not None else None
        return space if space and space.kind in kinds and space.is_current else None

    def find(self, which=0, value=None):
        """The layer that gives a value, and which of all that it gives each number of it is."""
        value = self.value(which) if value is None else value
        space = self.space_of(value)
        if space is None:
            self.refuse(f"its input {which + 1} is {_NOT_SAMPLES}")
        at = space.find(value.at)
        if at is None and self.take_last(space.layer, value.at):
            at = space.find(value.at)
        if at is not None:
            return space.layer, at
        return part_of_layer(self, space.layer, value.at) or \
            self.refuse("takes a part of its input; here the first or last step of a sequence, a part of equal parts of the channels, or a run of the outputs of a linear "
                        "layer of each step, for an attention, can be taken")

    def take_last(self, layer, at):
        """An lstm gives its last step alone, and so do layers of each step behind it, up to this one, if nothing takes the others."""
        chain, others = [], 0
        while layer.is_each and layer.kind not in ("lstm", "gru") and layer.takers == others:
            chain.append(layer)
            layer, others = layer.source, 1
        chain.append(layer)
        space = chain[0].space
        if layer.kind not in ("lstm", "gru") or layer.gives_last or layer.takers != others or not np.array_equal(np.sort(at, None), space.whole[:, :, -1].ravel()):
            return False
        for layer in chain:
            layer.keep_last()
        return True

    def order(self, shape):
        """Places of samples of a shape, in order."""
        return np.arange(self.samples * math.prod(shape)).reshape(self.samples, *shape)

    def image(self, which=0, value=None):
        """The layer that gives images, which lie as images do."""
        layer, at = shuffled(self, *self.find(which, value))
        if not np.array_equal(at, self.order(layer.out)):
            lies = "a vector of values" if at.ndim == 2 else "a sequence, or an image that lies otherwise"
            self.refuse(f"takes images, but its input is {lies}")
        return layer

    def shape_input(self, value):
        """Of vectors that the net takes the data have the shape in which its first layer takes them."""
        space, layer = self.space_of(value), self.input_layer
        fits = space is not None and space.layer is layer and not layer.takers and self.file.rank == 2 and value.at.ndim in (3, 4)
        if fits and value.at.shape[0] == self.samples and np.array_equal(value.at.ravel(), space.whole.ravel()):
            layer.out = (1, 1, *value.at.shape[1:])[-3:]
            space.whole = space.taken = space.whole.reshape(self.samples, *layer.out)

    # What they give

    def space(self, kind, layer, shape, **about):
        if self.samples * math.prod(shape) > _MOST:
            self.refuse(f"gives {self.samples * math.prod(shape):,} values for the {self.samples} samples of the file; at most {_MOST:,} are read: export it for fewer, or for any number")
        space = Space(len(self.spaces), kind, layer, self.samples, shape, about)
        self.spaces.append(space)
        if kind == "layer":
            layer.space = space
        return space

    def add(self, layer, at):
        """A layer more; at: which of all that it gives each number of the node's result is."""
        for taken in (layer.source, layer.other):
            if taken is not None:
                taken.takers += 1
        self.layers.append(layer)
        return Places(self.space("layer", layer, layer.out).base + at)

    def insert(self, text, source, out):
        """A layer that moves what another one gives, or gives a part of it: one for all that take that."""
        made = next((layer for layer in self.layers if layer.text == text and layer.source is source), None)
        if made is None:
            made = Layer(text, source, out)
            self.add(made, 0)
        return made

    def step(self, kind, layer, at, **about):
        """The same numbers as of the layer, on the way to another one."""
        return Places(self.space(kind, layer, layer.out, **about).base + at)

    def changed(self, layer, at):
        """The layer, whose weights have changed: the places of what it gave before are no longer its own."""
        return Places(self.space("layer", layer, layer.out).base + at)

    def drop(self, layer):
        self.layers.remove(layer)
        for taken in (layer.source, layer.other):
            if taken is not None:
                taken.takers -= 1
        layer.space = None

    def walk(self):
        for self.node in self.file.nodes:
            handle, attributes = _OPS.get(self.node.op, (None, ""))
            if not handle or not self.node.is_standard:
                self.refuse("there is no such layer here; sounder help models lists what there is")
            for name in self.node.attributes:
                if name not in attributes.split():
                    self.refuse(f"its attribute {name} is not read")
            try:
                given = handle(self)
            except Error:
                raise
            except Exception as problem:  # NumPy's of shapes that do not fit, of attributes of another type, of too little memory
                self.refuse(f"what it computes cannot be computed here: {problem}")
            for name, value in zip(self.node.outputs, given if isinstance(given, tuple) else (given,)):
                if name:
                    self.file.give(self.values, name, value if isinstance(value, Places) else np.asarray(value))
            for name in self.node.inputs:
                self.left[name] -= 1
                if not self.left[name] and name in self.values:
                    self.values[name] = None  # a name that is given twice is still seen
        self.check()

    def check(self):
        given, path = self.values.get(self.file.output), self.file.path
        space = self.space_of(given) if given is not None else None
        if not self.layers or space is None or space.layer is not self.layers[-1] or given.at.shape[0] != self.samples or \
                not np.array_equal(given.at.ravel(), space.whole.ravel()):
            raise Error(f"{path}: what the graph gives, {self.file.output}, is not what its last layer gives")
        for layer in reversed(self.layers[:-1]):
            if not layer.takers:
                self.drop(layer)
        for layer in self.layers[1:]:
            if layer.source is self.input_layer:
                raise Error(f"{path}: the graph's input is taken by \"{layer.text}\", too; a net here takes it in its first layer alone")


def _read(path):
    file, read = File(path), []
    for samples in (file.samples,) if file.samples else (2, 3):
        walk = Walk(file, samples)
        walk.walk()
        read.append((text_of(walk.layers), tensors_of(walk.layers)))
    (text, tensors), (other, others) = read[0], read[-1]
    if text != other or any(not np.array_equal(a, b, equal_nan=True) for (_, one), (_, two) in zip(tensors, others) for (_, a), (_, b) in zip(one, two)):
        raise Error(f"{file.path}: computes something else with two samples than with three; export it for samples of any number")
    return text, tensors, walk.left_out


def read_layers(path):
    """The layer list of the net in the file, and the Softmax at its end that is left out, for a sentence (None: there is none). Error names
    the node that is no layer here."""
    text, _, left_out = _read(path)
    return text, left_out


def read_tensors(path):
    """Its weights: [(word, [(part, array)])], layer after layer."""
    return _read(path)[1]
