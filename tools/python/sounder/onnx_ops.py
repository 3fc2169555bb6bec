"""ONNX's ops that are layers here: windows, products and functions of one value."""
import numpy as np

from .functions import FUNCTIONS, add_function, number_of
from .onnx_axes import turned, with_channels_last
from .onnx_layers import Layer, Places, are_rows
from .onnx_sequences import attend, head_product, is_heads, softmax_of_scores

# Windows --------------------------------------------------------------------------------------------------------------


def _sides(rows, columns=None):
    return str(rows) if columns in (rows, None) else f"{rows}x{columns}"


def _pad(walk):
    """A border of zeros, which is the padding of the window that takes it."""
    layer = walk.image()
    pads = list(walk.attribute("pads") or walk.wholes(1).ravel().tolist())
    fill = walk.reals(2, 1).item() if walk.has(2) else walk.attribute("value", 0)
    plain = walk.node.text("mode", "constant") == "constant" and fill == 0 and len(pads) == 8 and min(pads) >= 0 and len(walk.node.inputs) < 4
    if not plain or pads[:4] != pads[4:] or any(pads[:2]) or max(pads) > max(layer.out) << 4:
        walk.refuse("only borders of zeros of images are read, the same on both sides")
    return Places(np.pad(walk.value(0).at, [(pad, pad) for pad in pads[:4]], constant_values=-1))


def _bordered(walk):
    """The layer that gives an image, and rows and columns of the border around it."""
    value = walk.value(0)
    if not isinstance(value, Places) or value.at.ndim != 4 or not (value.at < 0).any():
        return walk.image(), (0, 0)
    inside = value.at[0, 0] >= 0
    rows, columns = inside.any(1).argmax(), inside.any(0).argmax()
    return walk.image(0, Places(value.at[:, :, rows:inside.shape[0] - rows, columns:inside.shape[1] - columns])), (int(rows), int(columns))


def _numbers(walk, name, count, preset, least):
    values = list(walk.attribute(name, preset))
    if len(values) != count or min(values) < least:
        walk.refuse(f"{name} is {values}; windows of rows and columns alone are read")
    return values


def _steps(walk, count):
    """(stride, pads, dilation) of windows of so many dimensions."""
    if walk.node.text("auto_pad", "NOTSET") not in ("", "NOTSET"):
        walk.refuse(f"auto_pad is {walk.node.text('auto_pad', '')}; export it with pads that are numbers")
    ones = (1,) * count
    stride, dilation = _numbers(walk, "strides", count, ones, 1), _numbers(walk, "dilations", count, ones, 1)
    pads = _numbers(walk, "pads", 2 * count, (0,) * 2 * count, 0)
    if pads[:count] != pads[count:]:
        walk.refuse("its padding is not the same on both sides")
    if walk.node.op != "Conv" and max(dilation) > 1:
        walk.refuse("a pooling with dilation")
    return stride, pads, dilation


def _window(walk, extents, size, border, preset):
    """Words for stride, padding and dilation, and rows and columns of what the windows leave. preset: the stride without
    a word."""
    stride, pads, dilation = _steps(walk, len(size))
    pad = [own + around for own, around in zip(pads, border)]
    reach = [extent + 2 * more - (side - 1) * apart - 1
             for extent, more, side, apart in zip(extents, pad, size, dilation)]
    if min(reach) < 0:
        walk.refuse(f"its window is larger than the image of {'x'.join(map(str, extents))}")
    settings = ("stride", stride, preset), ("pad", pad, "0"), ("dilation", dilation, "1")
    words = [f" {word} {_sides(*value)}" for word, value, usual in settings if _sides(*value) != usual]
    left = [over // step + 1 for over, step in zip(reach, stride)]
    if walk.attribute("ceil_mode", 0):
        more = [over % step > 0 and windows * step < extent + own
                for over, step, windows, extent, own in zip(reach, stride, left, extents, pad)]
        words, left = [*words, " ceil"] if any(more) else words, [windows + one for windows, one in zip(left, more)]
    return "".join(words), left


def _line(walk):
    """A convolution along the columns of channels of one row, or of rows that are channels then."""
    (layer, at), weight, groups = turned(walk, *walk.find()), walk.reals(1), walk.attribute("group", 1)
    channels, columns = layer.out[0] * layer.out[1], layer.out[2]
    if 1 not in layer.out[:2] or at.shape != (walk.samples, channels, columns) or not np.array_equal(at, walk.order((channels, columns))):
        walk.refuse("takes lines of channels, but its input lies otherwise")
    if not weight.size or groups < 1 or weight.shape[1] * groups != channels or weight.shape[0] % groups:
        walk.refuse(f"its weight does not fit lines of {channels} channels")
    words, left = _window(walk, (columns,), weight.shape[2:], (0,), "1")
    return _convolution(walk, "conv1d", layer, words, groups, (1, *left), walk.order((weight.shape[0], *left)))


def _convolution(walk, word, layer, words, groups, left, at):
    weight, outs = walk.reals(1), len(walk.reals(1))
    bias = walk.reals(2, outs).reshape(outs) if walk.has(2) else np.zeros(outs, np.float32)
    text = f"{word} {outs} {_sides(*weight.shape[2:])}{words}" + (f" groups {groups}" if groups > 1 else "")
    return walk.add(Layer(text, layer, (outs, *left), None, "conv", {"weight": weight, "bias": bias}, "channel", has_bias=walk.has(2)), at)


def _conv(walk):
    weight, groups = walk.reals(1), walk.attribute("group", 1)
    if weight.ndim == 3:
        return _line(walk)
    layer, border = _bordered(walk)
    if weight.ndim != 4 or not weight.size or groups < 1 or weight.shape[1] * groups != layer.out[0] or weight.shape[0] % groups:
        walk.refuse(f"its weight of rank {weight.ndim} does not fit an image of {layer.out[0]} channels")
    words, left = _window(walk, layer.out[1:], weight.shape[2:], border, "1")
    return _convolution(walk, "conv", layer, words, groups, left, walk.order((len(weight), *left)))


def _pool(walk):
    averages = walk.node.op == "AveragePool"
    layer, border = _bordered(walk) if averages else (walk.image(), (0, 0))
    size = _numbers(walk, "kernel_shape", 2, (), 1)
    if len(walk.node.outputs) > 1 or walk.attribute("storage_order", 0):
        walk.refuse("gives places besides values, or storage_order is not 0")
    if averages and any(walk.attribute("pads", ())) and not walk.attribute("count_include_pad", 0):
        walk.refuse("its averages leave the padding out (count_include_pad is 0), here they count it")
    words, left = _window(walk, layer.out[1:], size, border, _sides(*size) if size[0] == size[1] else "")
    out = (layer.out[0], *left)
    return walk.add(Layer(f"{'avgpool' if averages else 'pool'} {_sides(*size)}{words}", layer, out), walk.order(out))


def global_pool(walk, layer, keeps=True):
    out = (layer.out[0], 1, 1)
    return walk.add(Layer("globalpool", layer, out), walk.order(out if keeps else out[:1]))


# Products -------------------------------------------------------------------------------------------------------------


def _of_places(walk, image, weight, bias):
    """A linear layer on the channels of each place: a convolution of single places."""
    outs, places = len(weight), image.out[1:]
    tensors = {"weight": weight.reshape(outs, -1, 1, 1), "bias": _bias_or_zeros(bias, outs)}
    made = Layer(f"conv {outs} 1", image, (outs, *places), None, "conv", tensors, "channel", has_bias=bias is not None)
    return walk.add(made, walk.order((outs, *places)).transpose(0, 2, 3, 1))


def _bias_or_zeros(bias, outs):
    return np.zeros(outs, np.float32) if bias is None else bias


def _linear(walk, weight, bias=None):
    """Of vectors of all values, or of the last dimension at each place of the others. weight: (outs, ins)."""
    layer, at = walk.find()
    is_of_channels = weight.ndim == 2 and weight.shape[1] == at.shape[-1] == layer.out[0]
    image = with_channels_last(walk, layer, at) if is_of_channels else None
    if image:
        return _of_places(walk, image, weight, bias)
    if at.ndim == 3:
        layer, at = turned(walk, layer, at)
    is_vector = at.ndim == 2 and np.array_equal(at, walk.order((layer.size,)))
    is_each = not is_vector and are_rows(at, layer.out[2])
    ins = layer.out[2] if is_each else layer.size
    if not (is_vector or is_each) or weight.ndim != 2 or not weight.size or weight.shape[1] != ins:
        walk.refuse(f"its weight of rank {weight.ndim} does not fit a vector of {ins} values")
    outs = weight.shape[0]
    tensors = {"weight": np.ascontiguousarray(weight), "bias": _bias_or_zeros(bias, outs)}
    text, out, per = (f"linear {outs}", (outs, 1, 1), "channel")
    if is_each:
        text, out, per = (f"linear {outs} each", (*layer.out[:2], outs), "column")
    to = at[..., :1] // ins * outs + np.arange(outs)
    return walk.add(Layer(text, layer, out, None, "fc", tensors, per, is_each, bias is not None), to)


def _bias_row(walk, count):
    if not walk.has(2):
        return None
    bias = walk.reals(2, count)
    if bias.ndim not in (1, 2) or bias.shape[-1] != count:
        walk.refuse(f"its input 3 is no row of {count} numbers")
    return bias.reshape(count)


def _gemm(walk):
    weight = walk.reals(1)
    if walk.attribute("alpha", 1) != 1 or walk.attribute("beta", 1) != 1 or walk.attribute("transA", 0):
        walk.refuse("alpha and beta must be 1 and transA 0")
    weight = weight if walk.attribute("transB", 0) else weight.swapaxes(0, -1)
    bias = _bias_row(walk, weight.shape[0])
    if walk.space_of(walk.value(0), ("seen",)):
        return attend(walk, weight, bias)
    return _linear(walk, weight, bias)


def _product(walk):
    if isinstance(walk.value(0), Places) and isinstance(walk.value(1), Places):
        return head_product(walk)
    weight = walk.reals(1).swapaxes(0, -1)
    return attend(walk, weight, None) if walk.space_of(walk.value(0), ("seen",)) else _linear(walk, weight)


# Functions of one value -----------------------------------------------------------------------------------------------


def _dropout(walk):
    rate = np.float32(number_of(walk, 1, "ratio", 0.5))
    if not 0 <= rate < 1:
        walk.refuse(f"its ratio is {rate}")
    return add_function(walk, "dropout " + str(rate)) if rate else walk.value(0)


def _softmax(walk):
    """Softmax and cross-entropy follow a net by themselves; an attention's scores have one, too."""
    if walk.space_of(walk.value(0), ("scores",)) or is_heads(walk, walk.value(0)):
        return softmax_of_scores(walk)
    layer, at = walk.find()
    is_last = walk.node.outputs[0] == walk.file.output and layer.out[1:] == (1, 1) and np.array_equal(at, walk.order(layer.out[:1]))
    if not is_last or walk.attribute("axis", -1) not in (1, -1):
        walk.refuse("is a layer here only at the end, over classes")
    walk.left_out = f'{walk.file.path}: node "{walk.node.name}"' if walk.node.op == "Softmax" else None
    return walk.value(0)


LAYER_OPS = {
    "Conv": (_conv, "auto_pad dilations group kernel_shape pads strides"), "Pad": (_pad, "mode pads value"),
    "MaxPool": (_pool, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"),
    "AveragePool": (_pool, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"),
    "GlobalAveragePool": (lambda walk: global_pool(walk, walk.image()), ""), "Gemm": (_gemm, "alpha beta transA transB"), "MatMul": (_product, ""),
    **{function.op: (function.read_op, function.op_attributes) for function in FUNCTIONS if function.read is not False},
    "Dropout": (_dropout, "ratio seed"), "Softmax": (_softmax, "axis"), "LogSoftmax": (_softmax, "axis"),
}
