"""ONNX's ops that compute with constants, and those that move values: constants and places alike."""
import numpy as np

from .onnx_file import array_of, package
from .onnx_layers import Places

_MOST = 1 << 26  # numbers of a constant that the file has not itself
_TYPES = {1: np.float32, 6: np.int64, 7: np.int64, 9: np.bool_, 11: np.float32}


def limited(walk, extents):
    """A shape, unless a few bytes of a file would fill the memory."""
    extents = [int(extent) for extent in extents]
    if min(extents, default=1) < 0 or int(np.prod(np.array(extents, np.float64))) > _MOST:
        walk.refuse(f"a constant of {'x'.join(map(str, extents))} numbers; at most {_MOST:,} are made here")
    return extents


def is_constant(value):
    return isinstance(value, np.ndarray)


def _apply(value, move):
    return Places(move(value.at)) if isinstance(value, Places) else move(value)


def _extents(walk, value):
    if not isinstance(value, (Places, np.ndarray)):
        walk.refuse("has no input")
    return np.shape(value.at if isinstance(value, Places) else value)


def part_of(walk, value):
    """A value that was cut out of another: of a layer the last step, or columns for an attention's heads."""
    space = walk.space_of(value)
    if space is None or space.find(value.at) is not None or walk.take_last(space.layer, value.at):
        return value
    layer, (channels, rows, columns) = space.layer, space.layer.out
    if layer.kind == "linear" and layer.is_each and channels == 1 and value.at.size:
        row, column = (value.at - space.base).ravel() // columns, np.unique((value.at - space.base) % columns)
        counts = np.bincount(row, minlength=walk.samples * rows)
        if (counts == len(column)).all() and column[-1] - column[0] + 1 == len(column):
            return value
    walk.find(0, value)  # says what can be taken
    return value


# Moves ----------------------------------------------------------------------------------------------------------------


def _identity(walk):
    _extents(walk, walk.value(0))
    return walk.value(0)


def _reshape(walk):
    value, wanted = walk.value(0), [int(extent) for extent in walk.wholes(1).ravel()]
    before = _extents(walk, value)
    if not walk.attribute("allowzero", 0):
        wanted = [before[d] if extent == 0 and d < len(before) else extent for d, extent in enumerate(wanted)]
    try:
        given = _apply(value, lambda at: at.reshape(wanted))
    except ValueError:
        walk.refuse(f"gives {'x'.join(map(str, before))} numbers the shape {'x'.join(map(str, wanted))}, which has not as many")
    walk.shape_input(given)
    return given


def _flatten(walk):
    value, axis = walk.value(0), walk.attribute("axis", 1)
    extents = _extents(walk, value)
    return _apply(value, lambda at: at.reshape(int(np.prod(extents[:axis], dtype=np.int64)), -1))


def axes_of(walk, rank):
    """An attribute, or in newer files an input; None: not given."""
    axes = walk.attribute("axes")
    axes = walk.wholes(1).ravel().tolist() if axes is None and walk.has(1) else axes
    if axes is not None and any(not -rank <= axis < rank for axis in axes):
        walk.refuse(f"its axes do not fit {rank} dimensions")
    return None if axes is None else tuple(axis % rank for axis in axes)


def _squeeze(walk):
    value = walk.value(0)
    extents = _extents(walk, value)
    axes = axes_of(walk, len(extents))
    for axis in axes or ():
        if extents[axis] != 1:
            walk.refuse(f"dimension {axis} has more than one place")
    return _apply(value, lambda at: at.squeeze(axes))


def _unsqueeze(walk):
    value, axes = walk.value(0), walk.attribute("axes")
    axes = walk.wholes(1).ravel().tolist() if axes is None else axes
    axes = axes_of(walk, len(_extents(walk, value)) + len(axes))
    return _apply(value, lambda at: np.expand_dims(at, axes))


def _transpose(walk):
    value, order = walk.value(0), walk.attribute("perm")
    rank = len(_extents(walk, value))
    if order is not None and sorted(order) != list(range(rank)):
        walk.refuse(f"perm is no order of {rank} dimensions")
    return _apply(value, lambda at: at.transpose(order))


def _slice(walk):
    value = walk.value(0)
    extents = _extents(walk, value)
    starts, ends = walk.wholes(1).ravel(), walk.wholes(2).ravel()
    axes = walk.wholes(3).ravel() if walk.has(3) else range(len(starts))
    steps = walk.wholes(4).ravel() if walk.has(4) else [1] * len(starts)
    cut = [slice(None)] * len(extents)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step < 1 or not -len(extents) <= axis < len(extents):
            walk.refuse(f"cuts by steps of {step}, or dimension {axis} of {len(extents)}")
        cut[axis] = slice(int(start), int(end), int(step))
    return part_of(walk, _apply(value, lambda at: at[tuple(cut)]))


def gather(walk):
    value, axis = walk.value(0), walk.attribute("axis", 0)
    places, extents = walk.wholes(1), _extents(walk, value)
    if not -len(extents) <= axis < len(extents) or ((places < -extents[axis]) | (places >= extents[axis])).any():
        walk.refuse(f"takes places {places.ravel().tolist()[:4]} along axis {axis} of {'x'.join(map(str, extents))}")
    return part_of(walk, _apply(value, lambda at: np.take(at, places, axis)))


def _split(walk):
    value, count = walk.value(0), len(walk.node.outputs)
    extents, axis = _extents(walk, value), walk.attribute("axis", 0)
    if not -len(extents) <= axis < len(extents):
        walk.refuse(f"its axis {axis} does not fit {len(extents)} dimensions")
    sizes = walk.attribute("split") or (walk.wholes(1).ravel().tolist() if walk.has(1) else None)
    if sizes is None and extents[axis] % count == 0:
        sizes = [extents[axis] // count] * count
    if sizes is None or len(sizes) != count or min(sizes) < 1 or sum(sizes) != extents[axis]:
        walk.refuse(f"its parts do not fit {extents[axis]} values")
    ends = np.cumsum(sizes)
    cuts = [(slice(None),) * (axis % len(extents)) + (slice(int(end) - size, int(end)),) for end, size in zip(ends, sizes)]
    return tuple(part_of(walk, _apply(value, lambda at, cut=cut: at[cut])) for cut in cuts)


def _expand(walk):
    value, wanted = walk.value(0), walk.wholes(1).ravel().tolist()
    if not is_constant(value):
        walk.refuse("only constants are repeated")
    return np.broadcast_to(value, np.broadcast_shapes(value.shape, tuple(limited(walk, wanted))))


def _cast(walk):
    value, to = walk.value(0), walk.attribute("to", 0)
    kind = _TYPES.get(to)
    if is_constant(value):
        if kind is None or (kind is np.int64 and value.dtype == np.float32 and not np.array_equal(value, np.trunc(value))):
            walk.refuse(f"makes whole numbers of a constant's, or a type ({to}) that is not read")
        return value.astype(kind)
    space = walk.space_of(value, ("layer", "numbers"))
    if space is not None and kind is np.int64 and space.layer is walk.input_layer:
        if space.kind == "numbers":
            return value
        return walk.step("numbers", space.layer, value.at - space.base)
    if space is None or kind is not np.float32 or space.kind == "numbers":
        walk.refuse(f"makes of samples a type ({to}) that is no float, or floats of whole numbers")
    return value


# Constants ------------------------------------------------------------------------------------------------------------


def _constant(walk):
    of = walk.node.attributes
    if "value" in of:
        return array_of(walk.file.path, of["value"], package())
    for name, kind in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64)):
        if name in of:
            return np.array(of[name], kind)
    return walk.refuse("has no number of a kind that is read")


def _shape(walk):
    extents = np.array(_extents(walk, walk.value(0)), np.int64)
    return extents[walk.attribute("start", 0):walk.attribute("end", len(extents))]


def _constant_of_shape(walk):
    of = walk.node.attributes
    number = array_of(walk.file.path, of["value"], package()).reshape(()) if "value" in of else np.float32(0)
    return np.full(limited(walk, walk.wholes(0).ravel()), number)


def _range(walk):
    start, end, step = (walk.wholes(which).item() for which in range(3))
    if step == 0:
        walk.refuse("counts by steps of 0")
    limited(walk, [max(0, (end - start) // step)])
    return np.arange(start, end, step, dtype=np.int64)


def _trilu(walk):
    value = walk.value(0)
    if not is_constant(value) or value.ndim < 2:
        walk.refuse("its input 1 is no constant matrix")
    diagonal = walk.wholes(1).item() if walk.has(1) else 0
    rows, columns = np.arange(value.shape[-2])[:, None], np.arange(value.shape[-1])
    kept = columns >= rows + diagonal if walk.attribute("upper", 1) else columns <= rows + diagonal
    return np.where(kept, value, value.dtype.type(0))


def _quotient(a, b):
    """Whole numbers are cut off towards zero."""
    if a.dtype == np.float32:
        return a / b
    if not np.all(b):
        raise ZeroDivisionError("a whole number by zero")
    return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


def _rest(a, b):
    if a.dtype != np.float32 and not np.all(b):
        raise ZeroDivisionError("the rest of a division by zero")
    return np.mod(a, b)


COMPUTED = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _quotient, "Mod": _rest, "Pow": np.power, "Sqrt": np.sqrt, "Neg": np.negative,
            "Equal": np.equal, "Less": np.less, "Greater": np.greater, "Not": np.logical_not, "And": np.logical_and, "Where": np.where, "Min": np.minimum, "Max": np.maximum}


def compute(walk):
    """An op of constants alone; None: some of its inputs are none."""
    values = [walk.value(which) for which in range(len(walk.node.inputs))]
    if not values or not all(map(is_constant, values)):
        return None
    count = {"Sqrt": 1, "Neg": 1, "Not": 1, "Where": 3}.get(walk.node.op, 2)
    if len(values) != count or walk.attribute("fmod", 0):
        walk.refuse(f"of {len(values)} constants; {count} are computed with, and a rest has the divisor's sign (fmod 0)")
    limited(walk, np.broadcast_shapes(*(value.shape for value in values)))
    with np.errstate(all="ignore"):
        return np.asarray(COMPUTED[walk.node.op](*values)).astype(values[-1].dtype if walk.node.op not in ("Equal", "Less", "Greater") else np.bool_, copy=False)


def _of_constants(walk):
    given = compute(walk)
    return walk.refuse("what it makes of its inputs is no layer here") if given is None else given


VALUE_OPS = {
    "Identity": (_identity, ""), "Reshape": (_reshape, "allowzero"), "Flatten": (_flatten, "axis"), "Squeeze": (_squeeze, "axes"), "Unsqueeze": (_unsqueeze, "axes"),
    "Transpose": (_transpose, "perm"), "Slice": (_slice, ""), "Split": (_split, "axis num_outputs split"), "Expand": (_expand, ""),
    "Cast": (_cast, "to saturate"), "Constant": (_constant, "value value_float value_floats value_int value_ints"),
    "Shape": (_shape, "end start"), "ConstantOfShape": (_constant_of_shape, "value"), "Range": (_range, ""), "Trilu": (_trilu, "upper"),
    **{op: (_of_constants, "") for op in ("Neg", "Equal", "Less", "Greater", "Not", "And", "Where", "Min", "Max")}, "Mod": (_of_constants, "fmod"),
}
