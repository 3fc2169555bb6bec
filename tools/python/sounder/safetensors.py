"""Files of weights."""
import json
import os
import struct

import numpy as np

_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


def read_safetensors(path):
    """{name: array}, mapped without a copy, and {note: text}."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    mapped = np.memmap(path, mode="r", dtype=np.uint8)
    notes, tensors = header.pop("__metadata__", {}), {}
    for name, about in header.items():
        begin, end = (8 + length + offset for offset in about["data_offsets"])
        tensors[name] = mapped[begin:end].view(_TYPES[about["dtype"]]).reshape(about["shape"])
    return tensors, notes


def write_safetensors(path, tensors):
    """Pairs (name, array of floats) as a file; returns its path."""
    header, payload, begin = {}, [], 0
    for name, values in tensors:
        payload.append(values.tobytes())
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [begin, begin + values.nbytes]}
        begin += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload))
    return os.path.abspath(os.fspath(path))
