"""What a graph of ONNX's computes, by NumPy: the ops that nets of sequences are written with, as ONNX's text defines them."""
import struct

import numpy as np


def fields(message):
    """A message's fields: lists by number, of whole numbers, of four bytes, or of bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte, at = message[at], at + 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number - (1 << 64) if number >> 63 else number
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = 4 if key & 7 == 5 else varint()
            value, at = message[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def whole(values):
    """Whole numbers, packed or not."""
    for value in values:
        begin = 0
        for at in range(len(value) if isinstance(value, bytes) else 0):
            if value[at] < 128:
                yield fields(b"\x08" + value[begin:at + 1])[1][0]
                begin = at + 1
        if isinstance(value, int):
            yield value


def tensor(message):
    of = fields(message)
    shape = [*whole(of.get(1, []))]
    return np.frombuffer(of[9][0], {1: "<f4", 7: "<i8"}[of[2][0]]).reshape(shape)


def attributes(node):
    for message in node.get(5, []):
        of = fields(message)
        yield of[1][0].decode(), struct.unpack("<f", of[2][0])[0] if 2 in of else of[3][0] if 3 in of else [*whole(of[8])]


def normalise(x, weight, bias, axis, epsilon):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon) * weight + bias


def softmax(x, axis):
    x = np.exp(x - x.max(axis, keepdims=True))
    return x / x.sum(axis, keepdims=True)


def lstm(x, w, r, b, hidden_size):
    """Gates: input, output, forget, cell. Gives Y and Y_h."""
    h = c = np.zeros((x.shape[1], hidden_size), np.float32)
    steps = []
    for step in x:
        i, o, f, g = np.split(step @ w[0].T + h @ r[0].T + b[0, :4 * hidden_size] + b[0, 4 * hidden_size:], 4, 1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        steps.append(h)
    return np.stack(steps)[:, None], h[None]


OPS = {
    "Add": lambda a, b: a + b, "Mul": lambda a, b: a * b, "MatMul": lambda a, b: a @ b, "Relu": lambda a: np.maximum(a, 0), "Tanh": np.tanh,
    "Cast": lambda a, to: a.astype({7: np.int64}[to]), "Gather": lambda a, b, axis: np.take(a, b, axis), "Flatten": lambda a, axis: a.reshape(len(a), -1),
    "Squeeze": lambda a, axes: a.squeeze(tuple(axes)), "Unsqueeze": lambda a, axes: np.expand_dims(a, tuple(axes)), "Transpose": lambda a, perm: a.transpose(perm),
    "Reshape": lambda a, shape: a.reshape([a.shape[d] if extent == 0 else extent for d, extent in enumerate(shape)]),
    "Gemm": lambda a, w, b, transB: a @ w.T + b, "LayerNormalization": normalise, "Softmax": softmax, "LSTM": lstm, "Expand": lambda a, shape: np.broadcast_to(a, shape),
    "Trilu": lambda a, k, upper: np.where(np.arange(a.shape[1]) >= np.arange(len(a))[:, None] + k, a, np.float32(0)), "Dropout": lambda a, rate: a,
}


def run(path, x):
    """What the graph in the file gives for x."""
    with open(path, "rb") as file:
        graph = fields(fields(file.read())[7][0])
    values = {fields(graph[11][0])[1][0]: x}
    values.update((fields(message)[8][0], tensor(message)) for message in graph[5])
    for message in graph[1]:
        node = fields(message)
        given = OPS[node[4][0].decode()](*(values[name] for name in node[1]), **dict(attributes(node)))
        values.update(zip(node[2], given if isinstance(given, tuple) else (given,)))
    return values[fields(graph[12][0])[1][0]]
