"""What ONNX's nodes move or take a part of, where it becomes a layer: the first or last step of a sequence, a part of the channels, two axes that
change places, and groups of channels in turn. Only the node that takes such a value tells that it must be one."""
import numpy as np

from .onnx_layers import Layer


def _within(part, at):
    """Where among the numbers of a part, which ascend, those of the array are; None: they are others."""
    numbers = part.ravel()
    if at.size != numbers.size or not np.array_equal(np.sort(at, None), numbers):
        return None
    return np.searchsorted(numbers, at)


def part_of_layer(walk, layer, at):
    """(layer, at) of a layer that gives the part; None: no layer does."""
    (channels, steps, columns), whole = layer.out, layer.space.whole
    if channels == 1 and steps > 1:
        for word, step in (("first", 0), ("last", -1)):
            found = _within(whole[:, :, step], at)
            if found is not None:
                return walk.insert(word, layer, (columns, 1, 1)), found
        return None
    count = whole.size // at.size if at.size and whole.size % at.size == 0 else 1
    for number in range(1, count + 1) if count > 1 and channels % count == 0 else ():
        own = channels // count
        found = _within(whole[:, (number - 1) * own:number * own], at)
        if found is not None:
            return walk.insert(f"chunk {number} {count}", layer, (own, steps, columns)), found
    return None


def _turned(walk, layer):
    """What the layer gives as a transpose would order it: (samples, rows, columns), and the layer's shape then."""
    channels, rows, columns = layer.out
    first, second = (rows, columns) if channels == 1 else (channels, rows * columns)
    return walk.order((first, second)).transpose(0, 2, 1), (1, second, first)


def turned(walk, layer, at):
    """(layer, at) of a transpose, if that is how the values lie; as they were given: they lie otherwise."""
    order, out = _turned(walk, layer)
    if at.shape != order.shape or not np.array_equal(at, order) or 1 in out[1:]:
        return layer, at
    return walk.insert("transpose", layer, out), walk.order(out[1:])


def shuffled(walk, layer, at):
    """The layer that gives an image whose channels lie as groups in turn."""
    channels, rows, columns = layer.out
    if at.shape != (walk.samples, *layer.out) or channels < 2:
        return layer, at
    apart = int(at[0, 1, 0, 0]) // (rows * columns)
    if apart < 2 or channels % apart:
        return layer, at
    order = walk.order(layer.out).reshape(walk.samples, channels // apart, apart, rows, columns).swapaxes(1, 2).reshape(at.shape)
    if not np.array_equal(at, order):
        return layer, at
    return walk.insert(f"shuffle {channels // apart}", layer, layer.out), walk.order(layer.out)


def with_channels_last(walk, layer, at):
    """The layer that gives an image that lies with its channels last; None: it lies otherwise."""
    if at.ndim != 4 or at.shape[1] * at.shape[2] == 1:
        return None
    layer, at = shuffled(walk, layer, at.transpose(0, 3, 1, 2))
    return layer if np.array_equal(at, walk.order(layer.out)) else None
