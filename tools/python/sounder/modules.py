"""What each of PyTorch's modules and functions is in a layer list."""
from .command import Error
from .expand import EXPANSIONS
from .functions import FUNCTIONS


def _sides(value):
    """3, (3,), (3, 3) or (3, 5) of torch as 3 or 3x5."""
    rows, columns = (*value, value[-1])[:2] if isinstance(value, (tuple, list)) else (value, value)
    return str(rows) if rows == columns else f"{rows}x{columns}"


def must(name, what, value, only, remedy=""):
    if value != only:
        raise Error(f"{name}: {what} is {value}; Sounder has only {only}{remedy and '; '}{remedy}")


_SAMPLES_FIRST = "make it with batch_first=True, and give it samples first, then steps"


def _with(text, *settings):
    """Appends the settings that are not what is meant without them: (word, value, what is meant)."""
    return " ".join([text, *(f"{word} {value}" for word, value, meant in settings if value != meant)])


def _padding(name, module):
    """In numbers. "same" is half of what a kernel reaches, on either side."""
    if not isinstance(module.padding, str):
        return module.padding
    reach = [step * (size - 1) if module.padding == "same" else 0 for step, size in zip(module.dilation, module.kernel_size)]
    if any(places % 2 for places in reach):
        raise Error(f"{name}: padding is 'same' of an even kernel_size; Sounder pads either side alike: take an odd one")
    return [places // 2 for places in reach]


def _conv(name, module):
    must(name, "padding_mode", module.padding_mode, "zeros")
    word = "conv" if len(module.kernel_size) == 2 else "conv1d"
    text = _with(f"{word} {module.out_channels} {_sides(module.kernel_size)}", ("stride", _sides(module.stride), "1"),
                 ("pad", _sides(_padding(name, module)), "0"), ("dilation", _sides(module.dilation), "1"), ("groups", module.groups, 1))
    return biased(text, module)


def biased(text, module):
    return text if module.bias is not None else f"{text} nobias"


def _linear(name, module):
    return biased(f"linear {module.out_features}", module)


def embedding_layer(name, module):
    for what, only in (("padding_idx", None), ("max_norm", None), ("scale_grad_by_freq", False)):
        must(name, what, getattr(module, what), only)
    return f"embedding {module.num_embeddings} {module.embedding_dim}"


def _recurrent(name, module):
    must(name, "batch_first", module.batch_first, True, _SAMPLES_FIRST)
    for what, only in (("bias", True), ("bidirectional", False), ("proj_size", 0)):
        must(name, what, getattr(module, what), only)
    between = f"; dropout {module.dropout:g}; " if module.dropout else "; "
    return between.join([f"{type(module).__name__.lower()} {module.hidden_size}"] * module.num_layers)


def _attention(name, module):
    must(name, "batch_first", module.batch_first, True, _SAMPLES_FIRST)
    must(name, "dropout", module.dropout, 0,
         "set dropout = 0 of each MultiheadAttention in net.modules(); Dropout modules stay")
    for what, only in (("bias_k", None), ("add_zero_attn", False), ("_qkv_same_embed_dim", True)):
        must(name, what, getattr(module, what), only)
    must(name, "bias", module.in_proj_bias is not None, True)
    return f"attention {module.num_heads}"


def _pooling(word, name, module):
    size = _sides(module.kernel_size)
    stride = size if module.stride is None else _sides(module.stride)
    text = _with(f"{word} {size}", ("stride", stride, size), ("pad", _sides(module.padding), "0"))
    return f"{text} ceil" if module.ceil_mode else text


def _pooling_1d(word):
    def text_of(name, module):
        size, stride, pad = (of[0] if isinstance(of, (tuple, list)) else of for of in (module.kernel_size, module.stride, module.padding))
        must(name, "dilation", getattr(module, "dilation", 1), 1)
        must(name, "count_include_pad", getattr(module, "count_include_pad", True) or not pad, True)
        text = _with(f"{word} 1x{size}", ("stride", f"1x{stride}", f"1x{size}"), ("pad", f"0x{pad}", "0x0"))
        return f"{text} ceil" if module.ceil_mode else text
    return text_of


def _global_pool_1d(name, module):
    size = _sides(module.output_size)
    return "globalpool" if size == "1" else f"globalpool 1x{size}"


def _max_pool(name, module):
    must(name, "dilation", _sides(module.dilation), "1")
    must(name, "return_indices", module.return_indices, False)
    return _pooling("pool", name, module)


def _average_pool(name, module):
    if _sides(module.padding) != "0":
        must(name, "count_include_pad", module.count_include_pad, True)
    must(name, "divisor_override", module.divisor_override, None)
    return _pooling("avgpool", name, module)


def _global_pool(name, module):
    size = _sides(module.output_size)
    if "None" in size:
        raise Error(f"{name}: output_size is {module.output_size}; give numbers")
    return "globalpool" if size == "1" else f"globalpool {size}"


def _group_norm(name, module):
    must(name, "affine", module.affine, True)
    return _with(f"groupnorm {module.num_groups}", ("eps", module.eps, 1e-5))


def _layer_norm(name, module):
    must(name, "elementwise_affine", module.elementwise_affine, True)
    must(name, "bias", module.bias is not None, True)
    if len(module.normalized_shape) not in (1, 3):
        raise Error(f"{name}: normalized_shape is {tuple(module.normalized_shape)}; Sounder normalises rows (one extent) or whole images (three)")
    return _with("layernorm", ("eps", module.eps, 1e-5))


def _channel_norm(name, module):
    """torchvision's and timm's LayerNorm2d: of the channels of each place."""
    must(name, "affine", module.weight is not None and module.bias is not None, True)
    return _with("layernorm channels", ("eps", module.eps, 1e-5))


def _batch_norm(name, module):
    for what, only in (("affine", True), ("track_running_stats", True)):
        must(name, what, getattr(module, what), only)
    if not module.momentum:
        raise Error(f"{name}: momentum is {module.momentum}; Sounder's running statistics need a number above 0")
    return _with("batchnorm", ("eps", module.eps, 1e-5), ("momentum", module.momentum, 0.1))


def _batch_norm_and_function(name, module):
    """timm's batch norm, with what follows it."""
    return "; ".join(filter(None, [_batch_norm(name, module), *(layer_of(name, None, part) for part in (module.drop, module.act))]))


def _depth(name, module):
    """torchvision's StochasticDepth and timm's DropPath: whole samples are dropped, if they are."""
    rate = module.p if hasattr(module, "p") else module.drop_prob
    must(name, "mode", getattr(module, "mode", "row"), "row")
    must(name, "scale_by_keep", getattr(module, "scale_by_keep", True), True)
    return f"droppath {rate:g}" if rate else ""


def _dropout(word, rate):
    return f"{word} {rate:g}" if rate else ""


def _function(function):
    def text_of(name, module):
        for what, only in function.only.items():
            must(name, what, getattr(module, what, only), only)
        return function.text(f"{getattr(module, function.number.torch):g}" if function.number else "")
    return function.text_of or text_of


# What each class of torch.nn is in a layer list; an empty text: nothing, for it changes no value that Sounder's layers tell
# apart.
MODULES = {
    "Conv2d": _conv, "Conv1d": _conv, "Linear": _linear, "MaxPool2d": _max_pool, "AvgPool2d": _average_pool, "AdaptiveAvgPool2d": _global_pool,
    "MaxPool1d": _pooling_1d("pool"), "AvgPool1d": _pooling_1d("avgpool"), "AdaptiveAvgPool1d": _global_pool_1d,
    "Embedding": embedding_layer, "LSTM": _recurrent, "GRU": _recurrent, "MultiheadAttention": _attention,
    "GroupNorm": _group_norm, "LayerNorm": _layer_norm, "BatchNorm1d": _batch_norm, "BatchNorm2d": _batch_norm,
    **{function.module: _function(function) for function in FUNCTIONS},
    "Dropout": lambda name, module: _dropout("dropout", module.p),
    "Dropout2d": lambda name, module: _dropout("dropout2d", module.p),
    "Permute": lambda name, module: "",  # torchvision's
    "ChannelShuffle": lambda name, module: f"shuffle {module.groups}",
    "StochasticDepth": _depth, "DropPath": _depth, "BatchNormAct2d": _batch_norm_and_function, "LayerNorm2d": _channel_norm,
    "Flatten": lambda name, module: "",
    "Identity": lambda name, module: "",
}
# Functions and methods, and their settings, in the order of their arguments.
_DROPOUT = {"p": 0.5, "training": True, "inplace": False}
_CALLS = {"max_pool2d": (_max_pool, {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False,
                                     "return_indices": False}),
          "avg_pool2d": (_average_pool, {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False,
                                         "count_include_pad": True, "divisor_override": None}),
          "adaptive_avg_pool2d": (_global_pool, {"output_size": None}),
          **{call: (_function(function), function.presets) for function in FUNCTIONS for call in function.calls},
          "channel_shuffle": (lambda name, at: f"shuffle {at.groups}", {"groups": None}),
          "dropout": (lambda name, at: _dropout("dropout", at.p * at.training), _DROPOUT),
          "dropout2d": (lambda name, at: _dropout("dropout2d", at.p * at.training), _DROPOUT)}
END_KINDS = ("LogSoftmax", "log_softmax", "Softmax", "softmax")  # the loss has it, if it comes last


class Settings:
    """A function's arguments, looked at like a module's."""

    def __init__(self, node, presets):
        self.__dict__.update(presets, **dict(zip(presets, node.args[1:])), **node.kwargs)


def call_name(node):
    """The name of what a step of the traced net calls. F.max_pool2d is traced under another name in some versions."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return "max_pool2d" if name == "boolean_dispatch" or node.name.startswith("max_pool2d") else name


OTHER_MODULES = ("StochasticDepth", "DropPath", "BatchNormAct2d", "LayerNorm2d", "Permute")  # modules of torchvision and timm


def kind_of(node, module):
    """The name of a step's module, or of what it calls."""
    return call_name(node) if module is None else type(module).__name__


def none_of(name, kind):
    known = ", ".join(kind for kind in (*MODULES, *EXPANSIONS) if kind not in OTHER_MODULES)
    return Error(f"{name}: Sounder has no {kind}; it has these of torch.nn: {known}")


def layer_of(name, node, module):
    kind = kind_of(node, module)
    if module is not None and kind in MODULES:
        return MODULES[kind](name, module)
    if module is None and kind in _CALLS:
        read, presets = _CALLS[kind]
        return read(f"{name} ({kind})", Settings(node, presets))
    raise none_of(name, kind)


ORDINALS = {"Conv2d": "conv", "Conv1d": "conv", "Linear": "fc", "LayerNorm2d": "norm", "GroupNorm": "norm", "LayerNorm": "norm", "BatchNorm1d": "norm", "BatchNorm2d": "norm", "BatchNormAct2d": "norm",
             "Embedding": "embedding", "LSTM": "lstm", "GRU": "gru", "MultiheadAttention": "attention",
             **{function.module: function.word for function in FUNCTIONS}}  # most have no weights


def tensors_by_layer(module):
    """(name, parameter) of each of the layers that a module is."""
    kind = type(module).__name__
    if kind in ("LSTM", "GRU"):
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [[(f"{part}_l0", getattr(module, f"{part}_l{number}")) for part in parts] for number in range(module.num_layers)]
    if kind == "MultiheadAttention":
        return [[("in_proj_weight", module.in_proj_weight), ("in_proj_bias", module.in_proj_bias),
                 ("out_proj.weight", module.out_proj.weight), ("out_proj.bias", module.out_proj.bias)]]
    parts = ("weight", "bias", "running_mean", "running_var")
    return [[(part, getattr(module, part)) for part in parts if getattr(module, part, None) is not None]]
