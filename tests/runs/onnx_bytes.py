"""ONNX's files, written byte by byte: enough of them for tests that need no library."""
import struct


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """Bytes, texts and messages with their length, whole numbers as they are, floats in four bytes."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, shape, values, form="raw"):
    """form: raw bytes, numbers (packed), or (file, offset) or (file, offset, length): the numbers lie there."""
    whole = all(isinstance(value, int) for value in values) and len(values) > 0
    message = b"".join(field(1, extent) for extent in shape) + field(2, 7 if whole else 1) + field(8, name)
    raw = struct.pack(f"<{len(values)}{'q' if whole else 'f'}", *values)
    if form == "raw":
        return message + field(9, raw)
    if form == "numbers":
        return message + (field(7, b"".join(map(varint, values))) if whole else field(4, raw))
    entries = {"location": form[0], "offset": str(form[1]), "length": str(len(raw) if len(form) < 3 else form[2])}
    return message + b"".join(field(13, field(1, key) + field(2, value)) for key, value in entries.items() if value) + field(14, 1)


def attribute(name, value):
    message = field(1, name)
    if isinstance(value, float):
        return message + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return message + field(3, value) + field(20, 2)
    if isinstance(value, (str, bytes)):
        return message + (field(4, value) + field(20, 3) if isinstance(value, str) else field(5, value) + field(20, 4))
    if value and isinstance(value[0], str):
        return message + b"".join(field(9, text) for text in value) + field(20, 8)
    return message + b"".join(field(8, number) for number in value) + field(20, 7)


def node(op, inputs, outputs, name="", **attributes):
    """inputs and outputs: names, separated by blanks; "-" is one that is left out."""
    return (b"".join(field(1, "" if word == "-" else word) for word in inputs.split()) + b"".join(field(2, "" if word == "-" else word) for word in outputs.split()) +
            field(3, name or op.lower()) + field(4, op) + b"".join(field(5, attribute(*pair)) for pair in attributes.items()))


def info(name, shape, kind=1):
    """shape: numbers, or texts for extents that have a name; kind: 1 of floats, 7 of whole numbers."""
    extents = b"".join(field(1, field(2, e) if isinstance(e, str) else field(1, e)) for e in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, extents)))


def model(nodes, tensors, shape, output="y", kind=1):
    graph = (b"".join(field(1, one) for one in nodes) + field(2, "g") + b"".join(field(5, one) for one in tensors) +
             field(11, info("x", shape, kind)) + field(12, info(output, [])))
    return field(1, 8) + field(2, "a test") + field(7, graph) + field(8, field(1, "") + field(2, 17))
