"""ONNX's normalisations: as ops, between reshapes, and in the parts that files before opset 17 have."""
import numpy as np

from .onnx_axes import shuffled, with_channels_last
from .onnx_layers import Layer, of_outputs, spread
from .onnx_ops import global_pool
from .onnx_values import axes_of, compute, is_constant

_EPSILON, _MOMENTUM = 1e-5, 0.1  # of the norms here, unless they say another one; ONNX calls the momentum 0.9


def _setting(word, value, usual):
    """The words of a number that is not the usual one."""
    return "" if abs(value - usual) < 1e-3 * usual else f" {word} {value:.5g}"


def _epsilon_of(walk, epsilon):
    if not 1e-12 <= epsilon < 1:
        walk.refuse(f"epsilon is {epsilon:g}; normalisation here adds a number from 1e-12 to below 1")
    return _setting("eps", epsilon, _EPSILON)


def _groups(walk):
    """InstanceNormalization of (samples, groups, ...) and GroupNormalization of images, whose numbers are of groups or channels."""
    layer, at = walk.find()
    channels, is_own = layer.out[0], walk.node.op == "GroupNormalization"
    groups = walk.attribute("num_groups", 0) if is_own else at.shape[1] if at.ndim > 2 else 0
    epsilon = _epsilon_of(walk, walk.attribute("epsilon", _EPSILON))
    gain = walk.reals(1).ravel()
    shift = walk.reals(2, gain.size).ravel()
    if not np.array_equal(at.ravel(), np.arange(at.size)) or at.shape[0] != walk.samples or (is_own and at.shape[1:] != layer.out):
        walk.refuse("its input 1 is no image, or lies otherwise")
    if groups < 1 or groups > channels or channels % groups or gain.size not in (groups, channels if is_own else groups):
        walk.refuse(f"{gain.size} factors for {groups} groups of {channels} channels")
    tensors = {"weight": np.repeat(gain, channels // gain.size), "bias": np.repeat(shift, channels // gain.size)}
    return walk.add(Layer(f"groupnorm {groups}{epsilon}", layer, layer.out, None, "norm", tensors, "channel"), at)


def _extent_of(walk, layer, at, axes):
    """(words, per, extents of the numbers) of a normalisation over these dimensions: of each row, or of all values of a
    sample."""
    rest = tuple(d for d in range(at.ndim) if d not in axes)
    together = at.transpose(rest + tuple(axes)).reshape(-1, int(np.prod([at.shape[d] for d in axes])))
    are_within = lambda size: together.shape[1] == size and (together // size == together[:, :1] // size).all()
    columns = layer.out[2]
    if layer.size > columns and are_within(columns):
        return "layernorm each", "column", columns
    if not are_within(layer.size):
        walk.refuse(f"axis is {axes[0]}; here all values of a sample or of a row are normalised")
    return "layernorm", "value", layer.out[:1] if layer.out[1] * layer.out[2] == 1 else layer.out


def _layer_norm_of(walk, layer, at, axes, epsilon, gain=None, shift=None):
    """A normalisation over some dimensions of what the layer gives: all values of each sample, each row, or the channels
    of each place."""
    turned = with_channels_last(walk, layer, at) if list(axes) == [3] else None
    if turned is None:
        word, per, out = _extent_of(walk, layer, at, axes)
    else:
        layer, at = turned, walk.order(turned.out).transpose(0, 2, 3, 1)
        word, per, out = "layernorm channels", "channel", layer.out[:1]
    tensors = {"weight": np.ones(out, np.float32), "bias": np.zeros(out, np.float32)}
    made = Layer(f"{word}{epsilon}", layer, layer.out, None, "norm", tensors, per, is_each=per == "column")
    for part, numbers in (("weight", gain), ("bias", shift)):
        if numbers is None:
            continue
        size = made.tensors[part].size
        fits = numbers.size == size
        own = of_outputs(spread(at, numbers.reshape([at.shape[d] for d in axes]), layer.out), made) if fits else None
        if own is None:
            walk.refuse(f"its {part} is not {size} numbers, one for each value that it normalises")
        made.tensors[part] = own
    made.has_bias = shift is not None
    return walk.add(made, at)


def _layer_norm(walk):
    layer, at = walk.find()
    epsilon = _epsilon_of(walk, walk.attribute("epsilon", _EPSILON))
    axis = walk.attribute("axis", -1)
    if not -at.ndim <= axis < at.ndim:
        walk.refuse(f"axis is {axis} of {at.ndim} dimensions")
    return _layer_norm_of(walk, layer, at, list(range(axis % at.ndim, at.ndim)), epsilon, walk.reals(1), walk.reals(2) if walk.has(2) else None)


# In parts -------------------------------------------------------------------------------------------------------------


def _mean_layer(walk, layer, at, axes, keeps):
    """A mean over an image's rows and columns, a line's columns, or a sequence's steps; None: another one."""
    channels, rows, columns = layer.out
    if sorted(axes) == [2, 3] and np.array_equal(at, walk.order(layer.out)):
        return global_pool(walk, layer, keeps)
    if keeps:
        return None
    if axes == (2,) and rows == 1 and np.array_equal(at, walk.order((channels, columns))):
        return global_pool(walk, layer, False)
    if axes == (1,) and channels == 1 and np.array_equal(at, walk.order((rows, columns))):
        return walk.add(Layer("mean", layer, (columns, 1, 1)), walk.order((columns,)))
    return None


def _mean(walk):
    """A layer, or over the last dimensions part of a normalisation."""
    squares = walk.space_of(walk.value(0), ("squares",))
    layer, at = (squares.layer, walk.value(0).at - squares.base) if squares else walk.find()
    axes, keeps = axes_of(walk, at.ndim) or (), walk.attribute("keepdims", 1)
    given = None if squares else _mean_layer(walk, layer, at, axes, keeps)
    if given is not None:
        return given
    axes = sorted(axes)
    fits = keeps and axes and axes == list(range(at.ndim - len(axes), at.ndim)) and len(axes) < at.ndim
    if not fits or (squares and (axes != squares.about["axes"] or not np.array_equal(at, squares.about["of"]))):
        walk.refuse("only means over an image's rows and columns are layers here, and those of the last dimensions "
                    "parts of a normalisation")
    return walk.step("variance" if squares else "mean", layer, at.min(tuple(axes), keepdims=True), axes=axes, of=at)


# What an op makes of two values, or of one and a number, from a mean to a normalisation.
_STEPS = {("Sub", "layer", "mean"): "centred", ("Pow", "centred", "number"): "squares",
          ("Mul", "centred", "centred"): "squares", ("Add", "variance", "number"): "spread",
          ("Sqrt", "spread", None): "deviation", ("Div", "centred", "deviation"): "layer"}
_KINDS = ("layer", "mean", "centred", "squares", "variance", "spread", "deviation")


def _kind_of(walk, which):
    """(space, its kind) of an input; a number has no space, and anything else no kind either."""
    value = walk.value(which)
    if is_constant(value):
        return None, "number" if value.size == 1 and value.dtype == np.float32 else None
    space = None if value is None else walk.space_of(value, _KINDS)
    return space, space.kind if space else None


def _is_part_of(walk, which, space, layer, about):
    """Whether an input belongs to the normalisation of the layer over the axes of `about`."""
    whole = space.kind in ("layer", "centred", "squares")
    at = walk.find(which)[1] if space.kind == "layer" else walk.value(which).at - space.base
    lies = np.array_equal(at, about["of"] if whole else about["of"].min(tuple(about["axes"]), keepdims=True))
    own = space.about or about
    return lies and space.layer is layer and own["axes"] == about["axes"] and np.array_equal(own["of"], about["of"])


def norm_step(walk):
    given = compute(walk)
    if given is not None:
        return given
    (first, kind), (second, other) = _kind_of(walk, 0), _kind_of(walk, 1)
    gives = _STEPS.get((walk.node.op, kind, other))
    number = walk.value(1).item() if other == "number" else 2
    if gives is None or (gives == "squares" and number != 2):
        walk.refuse("what it makes of its inputs is no layer here")
    layer, about = first.layer, (second if kind == "layer" else first).about
    parts = [(which, space) for which, space in enumerate((first, second)) if space is not None]
    if not all(_is_part_of(walk, which, space, layer, about) for which, space in parts):
        walk.refuse("what it makes of its inputs is no layer here")
    if gives == "spread":
        about = {**about, "epsilon": _epsilon_of(walk, number)}
    if gives == "layer":
        return _layer_norm_of(walk, layer, about["of"], about["axes"], second.about["epsilon"])
    at = about["of"]
    if gives in ("spread", "deviation"):
        at = at.min(tuple(about["axes"]), keepdims=True)
    return walk.step(gives, layer, at, **about)


# Whole batches --------------------------------------------------------------------------------------------------------


def _batch_norm(walk):
    """With the statistics of the file, from which training goes on."""
    layer, at = shuffled(walk, *walk.find())
    if at.shape[1:2] != layer.out[:1] or not np.array_equal(at.ravel(), walk.order(layer.out).ravel()):
        walk.refuse(f"it normalises each value of an image; a batchnorm here has one factor for each of its {layer.out[0]} channels, and stands before what flattens it")
    gain, shift, mean, variance = (walk.reals(which, layer.out[0]).reshape(layer.out[0]) for which in range(1, 5))
    share = 1 - walk.attribute("momentum", 1 - _MOMENTUM)
    words = _epsilon_of(walk, walk.attribute("epsilon", _EPSILON)) + _setting("momentum", share, _MOMENTUM)
    if not 1e-9 <= share < 1:
        walk.refuse(f"its momentum is {1 - share:g}; the running statistics of a batchnorm here move with each batch, from there on below 1")
    tensors = {"weight": gain, "bias": shift, "running_mean": mean, "running_var": variance}
    return walk.add(Layer(f"batchnorm{words}", layer, layer.out, None, "norm", tensors, "channel", has_bias=True), at)


NORM_OPS = {
    "InstanceNormalization": (_groups, "epsilon"), "GroupNormalization": (_groups, "epsilon num_groups stash_type"),
    "LayerNormalization": (_layer_norm, "axis epsilon stash_type"), "BatchNormalization": (_batch_norm, "epsilon momentum training_mode"),
    "ReduceMean": (_mean, "axes keepdims noop_with_empty_axes"), **{op: (norm_step, "") for op in ("Sub", "Pow", "Sqrt")},
}
