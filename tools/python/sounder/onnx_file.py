"""Files of ONNX's: their nodes, constants and input, as far as the package onnx reads them and their bytes are there."""
import math
import os

import numpy as np

from .command import Error

_MOST = 1 << 26  # values of the input


def package():
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
    except ImportError as missing:
        raise Error(f"files of ONNX's: {missing}; install the package: apt install python3-onnx, or pip install onnx") from missing
    return onnx


def is_onnx(net):
    """Whether it is the path of such a file."""
    return isinstance(net, (str, os.PathLike)) and os.fspath(net).endswith(".onnx")


class Node:
    """op, name (or that of what it gives), inputs and outputs by name ("": left out), attributes as Python's values."""

    def __init__(self, message, onnx):
        self.op, self.inputs, self.outputs = message.op_type, list(message.input), list(message.output)
        self.is_standard = message.domain in ("", "ai.onnx")
        self.name = message.name or next(filter(None, self.outputs), "")
        self.attributes = {of.name: onnx.helper.get_attribute_value(of) if of.type != onnx.AttributeProto.UNDEFINED else None for of in message.attribute}

    def text(self, name, preset):
        return self.attributes[name].decode(errors="replace") if name in self.attributes else preset


def _load(path, onnx):
    try:
        if not os.path.isfile(path):
            open(path, "rb").close()  # says why not
            raise Error(f"{path}: no ONNX file: no regular file")
        with open(path, "rb") as file:
            content = file.read()
    except OSError as problem:
        raise Error(f"{path}: {problem.strerror}") from problem
    if not content:
        raise Error(f"{path}: no ONNX file: empty")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as problem:  # of whichever protobuf there is
        raise Error(f"{path}: no ONNX file, or a damaged one: {problem}") from problem
    if not model.HasField("graph"):
        raise Error(f"{path}: no ONNX file, or a damaged one: it has no graph")
    return model.graph


def _holds(size, offset, length):
    """Whether a file of this size has the bytes that a model's texts name; without a length the rest from the offset on."""
    if not offset.isdecimal() or int(offset) > size:
        return False
    return not length or (length.isdecimal() and int(length) <= size - int(offset))


def _fetch(path, tensor, onnx):
    """Numbers that lie in a file beside the model's: no other is read, and of it no more than is there."""
    about = {entry.key: entry.value for entry in tensor.external_data}
    place = about.get("location", "")
    if not place or "/" in place or place == "..":
        raise Error(f"{path}: the numbers of {tensor.name} lie in {place or 'a file without name'}; only files in the "
                    "same folder are read")
    folder = os.path.dirname(path) or "."
    there = os.path.join(os.path.dirname(path), place)
    if not os.path.isfile(there):
        raise Error(f"{there}, which has the numbers of {tensor.name}: no such file")
    size, offset, length = os.path.getsize(there), about.get("offset") or "0", about.get("length") or ""
    if not _holds(size, offset, length):
        raise Error(f"{there}: has {size} bytes, where those of {tensor.name} begin at byte {offset} and are "
                    f"{length or 'the rest'}; export the net again")
    onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
    tensor.data_location = onnx.TensorProto.DEFAULT  # or it is fetched again, from elsewhere


def array_of(path, tensor, onnx):
    """Its numbers: floats of 32 bits, whole numbers of 64, or what it has otherwise."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _fetch(path, tensor, onnx)
    name, count = tensor.name or "a constant", math.prod(tensor.dims)
    try:
        of = getattr(onnx.helper, "tensor_dtype_to_np_dtype", None) or onnx.mapping.TENSOR_TYPE_TO_NP_TYPE.__getitem__  # since 1.13, before
        kind = np.dtype(of(tensor.data_type))
        if tensor.HasField("raw_data") and len(tensor.raw_data) != count * kind.itemsize:
            raise Error(f"{path}: {name} has {len(tensor.raw_data)} bytes instead of {count * kind.itemsize}")
        array = onnx.numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError) as problem:
        raise Error(f"{path}: {name} cannot be read: {problem}") from problem
    return array.astype({"float64": np.float32, "int32": np.int64}.get(array.dtype.name, array.dtype))


class File:
    """nodes; constants by name; input: its name; shape: of a sample (channels, rows, columns); rank: of the input; samples: how
    many it is for, or None; is_whole: the input has whole numbers; output: the name of what the graph gives."""

    def __init__(self, path):
        self.path, onnx = os.fspath(path), package()
        graph = _load(self.path, onnx)
        if len(graph.output) != 1:
            raise Error(f"{self.path}: the graph gives {len(graph.output)} values; a net here gives one")
        self.output, self.nodes = graph.output[0].name, []
        for number, message in enumerate(graph.node):
            if not message.op_type or not any(message.output) or (not message.output[0] and message.op_type not in ("LSTM", "GRU")):
                raise Error(f"{self.path}: corrupt: node {number + 1} of the graph has no op, or gives nothing")
            self.nodes.append(Node(message, onnx))
        self.constants = {}
        for tensor in graph.initializer:
            self.give(self.constants, tensor.name, array_of(self.path, tensor, onnx))
        inputs = [info for info in graph.input if info.name not in self.constants]
        if len(inputs) != 1:
            raise Error(f"{self.path}: the graph takes {', '.join(info.name for info in inputs) or 'nothing'}; a net here takes one input")
        self._take_input(inputs[0], onnx)

    def give(self, values, name, value):
        if name in values:
            raise Error(f"{self.path}: corrupt: {name} is given twice")
        values[name] = value

    def _take_input(self, info, onnx):
        of = info.type.tensor_type
        extents = [extent.dim_value if extent.HasField("dim_value") else None for extent in of.shape.dim]
        said = "x".join("?" if extent is None else str(extent) for extent in extents) or "no extent"
        if len(extents) not in (2, 3, 4) or any(extent is None or extent < 1 for extent in extents[1:]):
            raise Error(f"{self.path}: the input {info.name} is {said}; a net here takes (samples, values), (samples, rows, columns) or (samples, channels, rows, columns), "
                        "all but the first numbers: export it so")
        self.input, self.rank, self.shape = info.name, len(extents), (1, 1, 1, *extents[1:])[-3:]
        self.samples = extents[0] if extents[0] and extents[0] > 0 else None
        if math.prod(extents[1:]) * (self.samples or 1) > _MOST:
            raise Error(f"{self.path}: the input {info.name} is {said}; at most {_MOST:,} values are read: export it for fewer samples, or for any number")
        self.is_whole = of.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
