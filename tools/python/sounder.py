"""Runs of the program `sounder` on NumPy's arrays and PyTorch's modules.

    data = sounder.write_data("mine.npz", train=(x_train, y_train), test=(x_test, y_test))
    run = sounder.train("runs/a", data=data, model=sounder.layers(net), clients=10, partition="dirichlet", alpha=0.1, rounds=5)
    run.rows("round")[-1]["test_accuracy"]
    run.load_into(net)

Nothing is done here that the command line cannot do: options are those of `sounder train`, with _ for -. The program is
found by $SOUNDER, or on the PATH. Needs NumPy; torch and pandas only where their objects are given or asked for. Whatever
the program refuses arrives as sounder.Error with its sentence.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import warnings

import numpy as np

__all__ = ["Error", "Run", "from_partitions", "layers", "program", "resume", "start", "sweep", "train", "write_data", "write_weights"]


class Error(Exception):
    """What went wrong, in one sentence. code: the program's exit status (sysexits.h), or None if it was not the program."""

    def __init__(self, sentence, code=None):
        super().__init__(sentence)
        self.code = code


def program():
    """The path of the program."""
    found = os.environ.get("SOUNDER") or shutil.which("sounder")
    if not found:
        raise Error("no program sounder on the PATH; install it (cmake --install build --prefix ~/.local), or name it in $SOUNDER")
    return found


# Data -----------------------------------------------------------------------------------------------------------------


def _array(values, name="values"):
    """As an array of NumPy's, of whatever type it has."""
    if hasattr(values, "toarray") or str(getattr(values, "layout", "torch.strided")) != "torch.strided":
        raise Error(f"{name}: sparse; give {name}.{'toarray' if hasattr(values, 'toarray') else 'to_dense'}()")
    if hasattr(values, "detach"):  # torch, whose bfloat16 NumPy has not
        values = values.detach().cpu()
        values = (values.float() if values.is_floating_point() and values.element_size() < 4 else values).numpy()
    try:
        return np.ascontiguousarray(values)
    except ValueError as problem:
        raise Error(f"{name}: {problem}; give all samples the same shape") from problem


def _bad_column(values, name):
    """The first column of a table (pandas) that has no numbers, or else all of it."""
    bad = [label for label in getattr(values, "columns", ()) if np.asarray(values[label]).dtype.kind not in "biuf"]
    return f"{name}, column {bad[0]!r}" if bad else name


def _numbers(values, name):
    """As float32, which dates, text and complex numbers are not."""
    array = _array(values, name)
    try:
        if array.dtype.kind in "mMcV":
            raise TypeError(f"values of type {array.dtype}")
        return array.astype("<f4", copy=False)
    except (TypeError, ValueError) as problem:
        raise Error(f"{_bad_column(values, name)}: {problem}; give numbers: of categories pandas.get_dummies makes them, of dates count days") from problem


def _samples(values, name):
    for label in getattr(values, "columns", ()):  # of a file that was written with pandas' row numbers
        if str(label).startswith("Unnamed: "):
            raise Error(f"{name}, column {label!r}: row numbers, not a feature; read the table with index_col=0, or drop the column")
    array = _array(values, name)
    return array if array.dtype == np.uint8 else _numbers(values, name)


def _check_gaps(values, name):
    try:
        if any(value is None or value != value for value in values.ravel().tolist()):
            raise Error(f"{name}: a gap (NaN or None); leave such samples out")
    except TypeError as problem:  # pandas.NA
        raise Error(f"{name}: {problem}; leave such samples out") from problem


def _names(values, name):
    """The sorted names of classes or clients."""
    _check_gaps(values, name)
    try:
        return np.unique(values)
    except TypeError as problem:
        raise Error(f"{name}: {problem}; give names of one type, which can be sorted") from problem


def _numbered(values, names, name, whose):
    """The place of each value among the names."""
    missing = ~np.isin(values, names)
    if missing.any():
        raise Error(f"{name} {values[missing].tolist()[0]!r}: {whose} has no training samples; leave such samples out")
    return np.searchsorted(names, values)


def _labels(values, name):
    """An array of classes, their names, or targets."""
    y = _array(values, name)
    if y.ndim > 1 and y.shape[-1] != 1:
        raise Error(f"{name}: of shape {y.shape}; give one number for each sample, of one-hot rows y.argmax(1)")
    if y.dtype.kind in "mMcV":
        raise Error(f"{name}: values of type {y.dtype}; give classes or numbers")
    if y.dtype.kind == "O":
        _check_gaps(y, name)
        y = np.array(y.tolist())  # of their own type
    return y.reshape(-1)


def _targets(train, test):
    """Classes, those of text numbered by their sorted names, as whole numbers, and targets as floats."""
    train, test = _labels(train, "y_train"), _labels(test, "y_test")
    if {train.dtype.kind, test.dtype.kind} & set("US"):
        names = _names(train, "y_train")
        return _numbered(train, names, "y_train", "the class"), _numbered(test, names, "y_test", "the class")
    return tuple(y.astype("<f4" if y.dtype.kind == "f" else "<i8") for y in (train, test))


def write_data(path, train, test, client=None, test_client=None, mean=None, std=None):
    """Writes a data set for --data and returns its path. train, test: pairs (x, y) of arrays, tensors or lists: x uint8 pixels
    or numbers, (N), (N,F), (N,H,W) or (N,C,H,W); y classes (whole numbers, or text, which is numbered in sorted order) or
    targets (floating-point numbers). client, test_client: whose sample each is; anything that can be sorted. mean, std: one
    number, or one for each channel or feature."""
    y_train, y_test = _targets(train[1], test[1])
    arrays = {"x_train": _samples(train[0], "x_train"), "y_train": y_train, "x_test": _samples(test[0], "x_test"), "y_test": y_test}
    if client is not None:
        client = _array(client, "client")
        names = _names(client, "client")
        arrays["client_train"] = _numbered(client, names, "client", "the client")
        if test_client is not None:
            arrays["client_test"] = _numbered(_array(test_client, "test_client"), names, "test_client", "the client")
    for name, values in arrays.items():
        x = "x_test" if name.endswith("test") else "x_train"
        if np.shape(values)[:1] != np.shape(arrays[x])[:1]:
            raise Error(f"{name}: {len(values):,} for the {len(arrays[x]):,} samples of {x}; give one for each sample")
    for name, value in (("mean", mean), ("std", std)):
        if value is not None:
            arrays[name] = np.atleast_1d(_numbers(value, name))
    path = os.fspath(path)
    if not path.endswith(".npz"):
        raise Error(f"{path}: a data set is a file .npz; call it {path}.npz")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", suffix=".npz", delete=False) as file:
        try:
            np.savez(file, **arrays)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return os.path.abspath(path)


def _pair(part, columns):
    if isinstance(part, (tuple, list)) and len(part) == 2:
        return _array(part[0], "x"), _array(part[1], "y")
    x, y = (part[column] for column in columns)  # a data set of columns, as Hugging Face's are
    if isinstance(x, (list, tuple)):
        x = np.stack([np.asarray(one) for one in x])
    return _array(x, "x"), _array(y, "y")


def _parts(partitions):
    """The partitions themselves: of an object that has them, or that loads each by its number, as Flower's do."""
    if hasattr(partitions, "load_partition"):
        of = partitions
        if not hasattr(of, "num_partitions"):  # a FederatedDataset, which has a partitioner for each split
            of = getattr(partitions, "partitioners", {}).get("train")
        if of is None:
            raise Error("partitions: no partitioner for the split train; give the partitions one by one")
        return [partitions.load_partition(i) for i in range(of.num_partitions)]
    own = getattr(partitions, "partitions", partitions)
    return own() if callable(own) else own


def from_partitions(path, partitions, test=None, columns=("image", "label"), **more):
    """Writes a data set whose clients are the partitions: pairs (x, y), or data sets with two columns, such as
    FederatedDataset.load_partition(i) of Flower's gives; or an object that has or loads them. test: likewise one; None: the
    split "test" of a FederatedDataset. Images of shape (H,W,C) become (C,H,W)."""
    if test is None:
        if not hasattr(partitions, "load_split"):
            raise Error("test: there is none; give a pair (x, y) or a data set with the two columns")
        test = partitions.load_split("test")
    partitions = _parts(partitions)
    pairs = [_pair(part, columns) for part in partitions]
    if not pairs:
        raise Error("partitions: none; give at least one")
    tested = _pair(test, columns)

    def first(x):
        return np.moveaxis(x, 3, 1) if x.ndim == 4 and x.dtype == np.uint8 and x.shape[3] in (1, 3, 4) else x

    client = np.repeat(np.arange(len(pairs)), [len(y) for _, y in pairs])
    x, y = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    return write_data(path, (first(x), y), (first(tested[0]), tested[1]), client=client, **more)


# Nets -----------------------------------------------------------------------------------------------------------------


def _sides(value):
    """3, (3, 3) or (3, 5) of torch as 3 or 3x5."""
    rows, columns = value if isinstance(value, (tuple, list)) else (value, value)
    return str(rows) if rows == columns else f"{rows}x{columns}"


def _must(name, what, value, only):
    if value != only:
        raise Error(f"{name}: {what} is {value}; Sounder has only {only}")


def _with(text, *settings):
    """Appends the settings that are not what is meant without them: (word, value, what is meant)."""
    return " ".join([text, *(f"{word} {value}" for word, value, meant in settings if value != meant)])


def _conv(name, module):
    if isinstance(module.padding, str):
        raise Error(f"{name}: padding is {module.padding!r}; give it as a number")
    _must(name, "padding_mode", module.padding_mode, "zeros")
    _must(name, "bias", module.bias is not None, True)
    return _with(f"conv {module.out_channels} {_sides(module.kernel_size)}", ("stride", _sides(module.stride), "1"),
                 ("pad", _sides(module.padding), "0"), ("dilation", _sides(module.dilation), "1"), ("groups", module.groups, 1))


def _linear(name, module):
    _must(name, "bias", module.bias is not None, True)
    return f"linear {module.out_features}"


def _embedding(name, module):
    for what, only in (("padding_idx", None), ("max_norm", None), ("scale_grad_by_freq", False)):
        _must(name, what, getattr(module, what), only)
    return f"embedding {module.num_embeddings} {module.embedding_dim}"


def _lstm(name, module):
    for what, only in (("batch_first", True), ("bias", True), ("bidirectional", False), ("proj_size", 0)):
        _must(name, what, getattr(module, what), only)
    between = f"; dropout {module.dropout:g}; " if module.dropout else "; "
    return between.join([f"lstm {module.hidden_size}"] * module.num_layers)


def _attention(name, module):
    for what, only in (("batch_first", True), ("dropout", 0), ("bias_k", None), ("add_zero_attn", False), ("_qkv_same_embed_dim", True)):
        _must(name, what, getattr(module, what), only)
    _must(name, "bias", module.in_proj_bias is not None, True)
    return f"attention {module.num_heads}"


def _pooling(word, name, module):
    size = _sides(module.kernel_size)
    _must(name, "ceil_mode", module.ceil_mode, False)
    stride = size if module.stride is None else _sides(module.stride)
    return _with(f"{word} {size}", ("stride", stride, size), ("pad", _sides(module.padding), "0"))


def _max_pool(name, module):
    _must(name, "dilation", _sides(module.dilation), "1")
    _must(name, "return_indices", module.return_indices, False)
    return _pooling("pool", name, module)


def _average_pool(name, module):
    _must(name, "count_include_pad", module.count_include_pad, True)
    _must(name, "divisor_override", module.divisor_override, None)
    return _pooling("avgpool", name, module)


def _global_pool(name, module):
    _must(name, "output_size", _sides(module.output_size), "1")
    return "globalpool"


def _gelu(name, module):
    _must(name, "approximate", getattr(module, "approximate", "none"), "none")
    return "gelu"


def _group_norm(name, module):
    for what, only in (("affine", True), ("eps", 1e-5)):
        _must(name, what, getattr(module, what), only)
    return f"groupnorm {module.num_groups}"


def _layer_norm(name, module):
    for what, only in (("elementwise_affine", True), ("eps", 1e-5)):
        _must(name, what, getattr(module, what), only)
    _must(name, "bias", module.bias is not None, True)
    if len(module.normalized_shape) not in (1, 3):
        raise Error(f"{name}: normalized_shape is {tuple(module.normalized_shape)}; Sounder normalises rows (one extent) or whole images (three)")
    return "layernorm"


def _batch_norm(name, module):
    for what, only in (("affine", True), ("eps", 1e-5), ("momentum", 0.1), ("track_running_stats", True)):
        _must(name, what, getattr(module, what), only)
    return "batchnorm"


# What each class of torch.nn is in a layer list; an empty text: nothing, for it changes no value that Sounder's layers tell
# apart.
_MODULES = {
    "Conv2d": _conv, "Linear": _linear, "MaxPool2d": _max_pool, "AvgPool2d": _average_pool, "AdaptiveAvgPool2d": _global_pool,
    "Embedding": _embedding, "LSTM": _lstm, "MultiheadAttention": _attention,
    "GroupNorm": _group_norm, "LayerNorm": _layer_norm, "BatchNorm1d": _batch_norm, "BatchNorm2d": _batch_norm,
    "ReLU": lambda name, module: "relu",
    "ReLU6": lambda name, module: "relu6",
    "LeakyReLU": lambda name, module: f"leakyrelu {module.negative_slope:g}",
    "Tanh": lambda name, module: "tanh",
    "Sigmoid": lambda name, module: "sigmoid",
    "GELU": _gelu,
    "Dropout": lambda name, module: f"dropout {module.p:g}",
    "Dropout2d": lambda name, module: f"dropout2d {module.p:g}",
    "Flatten": lambda name, module: "",
    "Identity": lambda name, module: "",
}
# Functions and methods that need no numbers, and the settings of those that are called with some, in the order of their arguments.
_FUNCTIONS = {"relu": "relu", "relu_": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "relu6": "relu6"}
_DROPOUT = {"p": 0.5, "training": True, "inplace": False}
_WITH_NUMBERS = {"max_pool2d": (_max_pool, {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False,
                                            "return_indices": False}),
                 "avg_pool2d": (_average_pool, {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False,
                                                "count_include_pad": True, "divisor_override": None}),
                 "adaptive_avg_pool2d": (_global_pool, {"output_size": None}),
                 "leaky_relu": (_MODULES["LeakyReLU"], {"negative_slope": 0.01, "inplace": False}),
                 "dropout": (lambda name, at: f"dropout {at.p:g}" if at.training else "", _DROPOUT),
                 "dropout2d": (lambda name, at: f"dropout2d {at.p:g}" if at.training else "", _DROPOUT),
                 "gelu": (_gelu, {"approximate": "none"})}
_LAST = ("LogSoftmax", "log_softmax", "Softmax", "softmax")  # the loss has it, if it comes last


class _Settings:
    """A function's arguments, looked at like a module's."""

    def __init__(self, node, presets):
        self.__dict__.update(presets, **dict(zip(presets, node.args[1:])), **node.kwargs)


def _called(node):
    """The name of what a step of the traced net calls. F.max_pool2d is traced under another name in some versions."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return "max_pool2d" if name == "boolean_dispatch" or node.name.startswith("max_pool2d") else name


def _none_of(name, kind):
    return Error(f"{name}: Sounder has no {kind}; it has these of torch.nn: {', '.join(_MODULES)}")


def _layer_of(name, node, module):
    kind = _called(node) if module is None else type(module).__name__
    if module is not None and kind in _MODULES:
        return _MODULES[kind](name, module)
    if module is None and kind in _FUNCTIONS:
        return _FUNCTIONS[kind]
    if module is None and kind in _WITH_NUMBERS:
        read, presets = _WITH_NUMBERS[kind]
        return read(f"{name} ({kind})", _Settings(node, presets))
    raise _none_of(name, kind)


# Layers that give the shape they take.
_KEEP_SHAPE = ("relu", "relu6", "leakyrelu", "tanh", "sigmoid", "gelu", "dropout", "batchnorm", "layernorm")
_JOINS = {"add": "add", "iadd": "add", "add_": "add", "cat": "concat", "concat": "concat"}


def _asks_for_a_size(node):
    """x.size(0) or x.shape[0] in x.view(x.size(0), -1)."""
    kind = _called(node)
    if kind == "getitem":
        return _asks_for_a_size(node.args[0])
    return kind in ("size", "dim") or (kind == "getattr" and node.args[1] in ("shape", "ndim", "device", "dtype"))


def _extent_of(node):
    """x of x.size(1), x.size()[1] or x.shape[1]; None: it is something else."""
    if getattr(node, "op", None) not in ("call_method", "call_function") or node.args[1:] != (1,):
        return None
    whole = node.args[0]
    if _called(node) == "size":
        return whole
    is_whole = _called(node) == "getitem" and ((_called(whole) == "size" and len(whole.args) == 1) or (_called(whole) == "getattr" and whole.args[1] == "shape"))
    return whole.args[0] if is_whole else None


def _as_it_came(node):
    """Before it was made whole numbers."""
    while _called(node) in ("contiguous", "long", "int", "float", "to"):
        node = node.args[0]
    return node


def _takes_constants(node, modules):
    """An attention takes a mask, an embedding the numbers of steps, and to values positions are added."""
    if node.op == "call_module":
        return type(modules[node.target]).__name__ in ("MultiheadAttention", "Embedding")
    return _JOINS.get(_called(node)) == "add"


def _check_leaf(node, modules, seen):
    """Refuses what belongs to no layer: parameters, but for an attention's mask and positions; and weights that two layers share.
    seen: by id."""
    if node.op == "get_attr" and not all(_takes_constants(user, modules) for user in node.users):
        raise Error(f"{node.target}: a parameter outside a layer; Sounder's belong to layers")
    own = {id(parameter) for parameter in modules[node.target].parameters()} if node.op == "call_module" else set()
    if own & seen:
        raise Error(f"{node.target}: its weights are another layer's, too, or it is called twice; Sounder's layers have weights of their own")
    seen |= own


def _trace(net):
    """The graph of what the net computes. output, (hidden, cell) = lstm(x) is two values each; arange(x.size(1)) is a step of its own."""
    import torch.fx

    def is_pair(node):
        if _called(node) == "getitem":
            return node.args[1] == 1 and is_pair(node.args[0])
        return node.op == "call_module" and type(net.get_submodule(node.target)).__name__ in ("LSTM", "MultiheadAttention")

    class Value(torch.fx.Proxy):
        def __iter__(self):
            return iter((self[0], self[1])) if is_pair(self.node) else super().__iter__()

    class Tracer(torch.fx.Tracer):
        def proxy(self, node):
            return Value(node, self)

        def call_module(self, module, forward, args, kwargs):
            kind, name = type(module).__name__, self.path_of_module(module)
            if self.is_leaf_module(module, name) and kind not in (*_MODULES, *_LAST):
                raise _none_of(name, kind)  # before what it gives is taken apart, as a GRU's is
            return super().call_module(module, forward, args, kwargs)

    tracer, arange = Tracer(), torch.arange

    def counting(*args, **kwargs):
        traced = any(isinstance(value, torch.fx.Proxy) for value in (*args, *kwargs.values()))
        return tracer.create_proxy("call_function", arange, args, kwargs) if traced else arange(*args, **kwargs)

    modes = [(module, module.training) for module in net.modules()]
    torch.arange = counting
    try:
        return tracer.trace(net.train())  # F.dropout(x, training=self.training) is a layer, too
    finally:
        torch.arange = arange
        for module, mode in modes:
            module.training = mode


def _steps(net):
    """(name, node, module or None) in the order of computation; the last one is what the net gives."""
    try:
        graph = _trace(net)
    except Error:
        raise
    except Exception as problem:
        raise Error(f"{type(net).__name__}: its forward cannot be traced: {problem}; write it without ifs and loops over values") from problem
    modules, steps, inputs, seen = dict(net.named_modules()), [], 0, set()
    for node in graph.nodes:
        inputs += node.op == "placeholder"
        if inputs > 1:
            raise Error(f"{node.name}: a second input; Sounder's nets have one")
        _check_leaf(node, modules, seen)
        if node.op in ("call_module", "call_function", "call_method", "output") and not _asks_for_a_size(node):
            module = modules[node.target] if node.op == "call_module" else None
            steps.append((node.name if module is None else node.target, node, module))
    return steps


class _Text:
    """A layer list as it grows, where in it each traced value comes from, and where each layer takes its values; -1 is the net's
    input."""

    def __init__(self):
        self.layers, self.sources, self.names, self.places = [], [], {}, {}

    def place(self, node):
        return self.places.get(node, -1)

    def word(self, place):
        return self.layers[place].split()[0] if place >= 0 else ""

    def gives_vector(self, place):
        """Whether what the layer there gives is surely one value a channel."""
        while self.word(place) in _KEEP_SHAPE:
            place = self.sources[place][0]
        return self.word(place) == "linear" and " each" not in self.layers[place]

    def of_unknown_rows(self, place):
        """The layers up to this one that work on vectors or on rows, whichever the net's input has."""
        left, found = [place], set()
        while left:
            place = left.pop()
            if place not in found and self.word(place) in (*_KEEP_SHAPE, "linear", "add", "groupnorm", "dropout2d"):
                found.add(place)
                left += self.sources[place]
        return [place for place in found if self.word(place) in ("linear", "layernorm") and " each" not in self.layers[place]]

    def work_on_rows(self, place):
        """The net's input has them."""
        for found in self.of_unknown_rows(place):
            words = self.layers[found].split()
            words.insert(2 if words[0] == "linear" else 1, "each")
            self.layers[found] = " ".join(words)

    def named(self, place, of):
        if place < 0:
            raise Error(f"{of}: takes the net's input besides what the layer before it gives; Sounder has no name for that")
        return self.names.setdefault(place, f"v{len(self.names) + 1}")

    def add(self, text, source, of):
        """text: of one layer, or of several that follow each other."""
        last = len(self.layers) - 1
        first, *others = text.split("; ")
        self.layers += [first if source == last else f"{first} from {self.named(source, of)}", *others]
        self.sources += [[source], *([place] for place in range(last + 1, len(self.layers) - 1))]

    def join(self, word, places, of):
        """Adds or concatenates; one of the values may come from the layer right before, if the order does not matter."""
        last = len(self.layers) - 1
        if word == "add":
            places = sorted(places, key=lambda place: place != last)
        source = places[0]
        for place in places[1:]:
            self.add(f"{word} {self.named(place, of)}", source, of)
            source = len(self.layers) - 1
            self.sources[source].append(place)

    def text(self):
        return "; ".join(text + (f" as {self.names[place]}" if place in self.names else "") for place, text in enumerate(self.layers))


# Dimensions of what a step gives, samples among them; of others it is what they take.
_RANKS = {"Conv2d": 4, "MaxPool2d": 4, "AvgPool2d": 4, "AdaptiveAvgPool2d": 4, "max_pool2d": 4, "avg_pool2d": 4, "BatchNorm2d": 4,
          "Dropout2d": 4, "dropout2d": 4, "adaptive_avg_pool2d": 4, "BatchNorm1d": 2, "Embedding": 3, "LSTM": 3, "MultiheadAttention": 3}
# What the parts of what a module gives are.
_TUPLES = {("LSTM", 0): "sequence", ("LSTM", 1): "states", ("states", 0): "hidden", ("MultiheadAttention", 0): "sequence"}


def _is_last(index):
    """[:, -1] or [:, -1, :]"""
    return isinstance(index, tuple) and index[1:2] == (-1,) and all(part == slice(None) for part in index[:1] + index[2:])


class _Reader:
    """From the steps of a traced net to its text. ranks: dimensions of a value, if they are known; tuples: values that are one;
    counted: values that are the numbers of all steps, with how many these are or of which value they are the second extent;
    places: what an embedding has for them, and that value; numbers: what an embedding of a sample's numbers takes; tensors: (word,
    [(name, parameter)]) of each layer; order: of the steps."""

    def __init__(self, net):
        self.net, self.text, self.ranks, self.tuples, self.wholes, self.lasts = net, _Text(), {}, {}, set(), {}
        self.counted, self.places, self.numbers, self.tensors, self.order = {}, {}, set(), [], {}

    def source(self, name, node):
        """The place of a value that a layer takes."""
        place = self.text.place(node)
        if node in self.counted or node in self.places:
            raise Error(f"{name}: takes {node.name}, which is of a sequence's steps alone; Sounder adds such to a sequence, as positions")
        if node in self.tuples:
            raise Error(f"{name}: takes all that {node.name} gives; Sounder goes on with its output, the first of that")
        if self.ranks.get(node) == 3:
            self.wholes.add(place)
        if self.ranks.get(node) == 3 and place in self.lasts:
            raise Error(f"{name}: takes all steps of what {self.lasts[place]} takes the last one of; Sounder's lstm gives either")
        return place

    def give(self, node, place, rank):
        self.text.places[node], self.ranks[node] = place, rank

    def last_step(self, name, node, of):
        place = self.text.place(of)
        if place < 0 or not self.text.layers[place].startswith("lstm ") or place in self.wholes:
            raise Error(f"{name}: the last step of a sequence; Sounder gives it of an LSTM of which nothing else is taken")
        if place not in self.lasts:
            lstm, *source = self.text.layers[place].split(" from ")
            self.text.layers[place] = " from ".join([f"{lstm} last", *source])
        self.lasts[place] = name
        self.give(node, place, 2)

    def take_part(self, name, node):
        """output, (hidden, cell) = lstm(x); output[:, -1]; hidden[-1]; attended, _ = attention(x, x, x)"""
        of, index = node.args
        what, layers = self.tuples.get(of, (None, 0))
        if not node.users:
            return
        if isinstance(index, int) and (what, index) in _TUPLES:
            gives = _TUPLES[what, index]
            self.give(node, self.text.place(of), 3 if gives == "sequence" else None)
            if gives != "sequence":
                self.tuples[node] = (gives, layers)
        elif (what == "hidden" and index in (-1, layers - 1)) or (what is None and _is_last(index)):
            self.last_step(name, node, of)
        else:
            raise Error(f"{name}: a part of a value; Sounder takes an LSTM's output, its last step, or what an attention gives")

    def check_rows(self, name, of):
        if self.ranks.get(of) is None and self.text.of_unknown_rows(self.text.place(of)):
            raise Error(f"{name}: flattens what a Linear or LayerNorm makes of the net's input, whole or row by row; flatten first, or squeeze(1) for rows")

    def flatten(self, name, node, module):
        of, ends = node.all_input_nodes[0], (*node.args[1:], *[None] * 2)
        start, end = (node.kwargs.get(what, given if given is not None else getattr(module, what, preset))
                      for what, given, preset in (("start_dim", ends[0], 1), ("end_dim", ends[1], -1)))
        _must(name, "start_dim", start, 1)
        _must(name, "end_dim", -1 if end == (self.ranks.get(of) or 0) - 1 else end, -1)
        self.check_rows(name, of)
        self.give(node, self.source(name, of), 2)

    def view(self, name, node):
        """As images or vectors, in the same order."""
        of, extents = node.all_input_nodes[0], node.args[1:]
        extents = extents[0] if extents and isinstance(extents[0], (tuple, list)) else extents
        rank, place = self.ranks.get(of), self.text.place(of)
        if len(extents) != 2 and (len(extents) != 4 or place >= 0):
            raise Error(f"{name}: a view of {len(extents)} dimensions; Sounder's layers go on with the shape they take, and rows of images are squeeze(1)")
        if rank == 3 and isinstance(extents[0], int):
            raise Error(f"{name}: a view that may join samples and steps; flatten(1) joins the steps of each sample")
        self.check_rows(name, of)
        self.give(node, self.source(name, of), len(extents))

    def squeeze(self, name, node, kind):
        """Of a single channel, which sequences have; the rows and columns of a global average; the one layer of an LSTM's state."""
        of = node.all_input_nodes[0]
        dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        rank, place = self.ranks.get(of), self.text.place(of)
        if kind == "squeeze" and dim == 0 and self.tuples.get(of) == ("hidden", 1):
            return self.last_step(name, node, of)
        if kind == "squeeze" and self.text.word(place) == "globalpool" and dim in (-1, -2, 2, 3):
            return self.give(node, self.source(name, of), rank - 1)
        _must(name, "dim", dim, 1)
        if rank is None:
            self.text.work_on_rows(place)
        return self.give(node, self.source(name, of), 3 if kind == "squeeze" else 4)

    def mean(self, name, node):
        """x.mean([2, 3]) is a global average."""
        of = node.all_input_nodes[0]
        at = _Settings(node, {"dim": None, "keepdim": False, "dtype": None})
        rank, place = self.ranks.get(of), self.text.place(of)
        dims = sorted(at.dim) if isinstance(at.dim, (tuple, list)) else at.dim
        if (dims != [2, 3] or rank not in (None, 4)) and (dims != [-2, -1] or rank != 4):
            raise Error(f"{name}: a mean over dimensions {at.dim}; Sounder has that over rows and columns: [2, 3] of images")
        if rank is None:
            self.text.work_on_rows(place)
        self.text.add("globalpool", self.source(name, of), name)
        self.give(node, len(self.text.layers) - 1, 4 if at.keepdim else 2)

    def kind_of_to(self, name, node):
        """The method that x.to(...) stands for: another device changes nothing, a type may."""
        import torch

        types = [value for value in (*node.args[1:], *node.kwargs.values()) if isinstance(value, torch.dtype)]
        names = {torch.float32: "float", torch.int64: "long", torch.int32: "int"}
        if types and types[0] not in names:
            raise Error(f"{name}: to {types[0]}; Sounder computes with float32")
        return names[types[0]] if types else "float"

    def attend(self, name, node, layer):
        import torch

        of = dict(zip(("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"), node.args), **node.kwargs)
        if not of["query"] is of["key"] is of["value"]:
            raise Error(f"{name}: attends to another value than its own; Sounder's attention is of a sequence to itself")
        _must(name, "key_padding_mask", of.get("key_padding_mask"), None)
        mask = of.get("attn_mask")
        if mask is None:
            return layer
        value = self.net
        for part in mask.target.split(".") if mask.op == "get_attr" else ():
            value = getattr(value, part)
        hidden = value if mask.op == "get_attr" and value.dtype == torch.bool else mask.op == "get_attr" and value == float("-inf")
        if mask.op != "get_attr" or value.dim() != 2 or not torch.equal(hidden, torch.ones_like(hidden).triu(1)) or \
                (value.dtype != torch.bool and value[~hidden].any()):
            raise Error(f"{name}: its attn_mask is no constant that hides what comes behind a step; Sounder has no other")
        return f"{layer} causal"

    def constant(self, node):
        """The tensor of the net that a step names."""
        value = self.net
        for part in node.target.split("."):
            value = getattr(value, part)
        return value

    def count_steps(self, name, node):
        """arange(12), arange(x.size(1)) or arange(0, x.shape[1]): the numbers of a sequence's steps, for an embedding."""
        *start, end = node.args or [None]
        sized = _extent_of(end)
        if start not in ([], [0]) or not (sized or isinstance(end, int)) or set(node.kwargs) - {"device", "dtype"}:
            raise Error(f"{name}: Sounder has no arange but of a sequence's steps, from 0 on, for an embedding of positions")
        self.counted[node] = (None, sized) if sized else (end, None)

    def take_table(self, name, node, module):
        """An embedding of the numbers 0, 1, ... of a sequence's steps. False: it is of other numbers."""
        of = node.all_input_nodes[0]
        if of.op == "get_attr":
            numbers = self.constant(of)
            if numbers.dim() not in (1, 2) or numbers.numel() != numbers.shape[-1] or numbers.flatten().tolist() != [*range(numbers.numel())]:
                raise Error(f"{of.target}: a parameter outside a layer; Sounder's belong to layers")
            self.counted[of] = (numbers.numel(), None)
        if of in self.counted:
            count, sized = self.counted[of]
            _embedding(name, module)
            if count not in (None, len(module.weight)):
                raise Error(f"{name}: {len(module.weight)} vectors for {count} steps; Sounder's positions are as many as the steps")
            self.places[node] = (module.weight, sized)
        else:
            self.numbers.add(_as_it_came(of))
        return of in self.counted

    def add_positions(self, name, node, of, positions):
        """x + a parameter, or x + an embedding of the steps' numbers."""
        tensor, sized = self.places.get(positions) or (self.constant(positions), None)
        _must(name, "alpha", node.kwargs.get("alpha", 1), 1)
        if self.ranks.get(of) != 3 or tensor.dim() not in (2, 3) or tensor.shape[:-2].numel() != 1 or 1 in tensor.shape[-2:]:
            raise Error(f"{name}: a parameter outside a layer; Sounder adds such to sequences alone, a vector for each step")
        if sized is not None and self.ranks.get(sized) != 3 and _as_it_came(sized) not in self.numbers:
            raise Error(f"{name}: positions as many as {sized.name} has of another dimension than the sequence's steps")
        if not tensor.requires_grad:
            raise Error(f"{name}: constant vectors of positions; make them an nn.Parameter, and name them to the run: freeze=\"positions1.*\"")
        if any(own.data_ptr() == tensor.data_ptr() for _, layer in self.tensors for _, own in layer):
            raise Error(f"{name}: adds what is another layer's, too; Sounder's layers have weights of their own")
        self.text.add("positions", self.source(name, of), name)
        self.tensors.append(("positions", [("weight", tensor.view(tensor.shape[-2:]))]))
        self.give(node, len(self.text.layers) - 1, 3)

    def shaped(self, name, layer, kind, node, module):
        """The layer for the dimensions of what it takes."""
        rank, place = self.ranks.get(node), self.text.place(node)
        rows = kind == "LayerNorm" and len(module.normalized_shape) == 1
        if kind == "BatchNorm1d" and not self.text.gives_vector(place):
            raise Error(f"{name}: Sounder's batchnorm is over channels: a BatchNorm1d has to follow a Linear")
        if rank is None and _RANKS.get(kind, 2) > 2:
            self.text.work_on_rows(place)
        if rank == 3 and kind in ("GroupNorm", "Dropout2d", "dropout2d"):
            raise Error(f"{name}: {kind} of a sequence takes its steps for channels; Sounder's has one channel there")
        return f"{layer} each" if rank in (3, 4) and (kind == "Linear" or rows) else layer

    def join(self, name, node, kind, inputs):
        ranks = [self.ranks.get(one) for one in inputs]
        known = next((rank for rank in ranks if rank), None)
        dim = node.kwargs.get("dim", node.kwargs.get("axis", node.args[1] if len(node.args) > 1 else 0))
        if _JOINS[kind] == "concat" and (known == 3 or dim not in ((1, -1) if known == 2 else (1, -3) if known == 4 else (1,))):
            raise Error(f"{name}: joins along dimension {dim}; Sounder joins channels: dimension 1 of images or vectors")
        _must(name, "alpha", node.kwargs.get("alpha", 1), 1)
        self.text.join(_JOINS[kind], [self.source(name, one) for one in inputs], name)
        self.give(node, len(self.text.layers) - 1, known)

    def step(self, name, node, module):
        kind = _called(node) if module is None else type(module).__name__
        inputs = [own for own in node.all_input_nodes if not _asks_for_a_size(own) and own.op != "get_attr" and own not in self.places]
        if module is None and kind == "getitem":
            return self.take_part(name, node)
        if kind in ("Flatten", "flatten"):
            return self.flatten(name, node, module)
        if kind in ("view", "reshape"):
            return self.view(name, node)
        if kind == "unsqueeze" and node.all_input_nodes[0] in self.counted and _called(node.all_input_nodes[0]) == "arange" and node.args[1:] == (0,):
            self.counted[node] = self.counted[node.args[0]]
            return None
        if (kind == "iadd" or kind.endswith("_") or getattr(module, "inplace", False) or node.kwargs.get("inplace")) and any(self.order.get(user, -1) > self.order[node] for user in inputs[0].users):
            raise Error(f"{name}: changes in place what is taken again behind it; let it give a value of its own")
        if kind in ("squeeze", "unsqueeze"):
            return self.squeeze(name, node, kind)
        if module is None and kind == "mean":
            return self.mean(name, node)
        if kind == "to":
            kind = self.kind_of_to(name, node)
        if kind in ("contiguous", "float") or (kind in ("long", "int") and self.text.place(inputs[0]) < 0):
            return self.give(node, self.source(name, inputs[0]), self.ranks.get(inputs[0]))
        if module is None and kind in _JOINS and len(inputs) > 1:
            return self.join(name, node, kind, inputs)
        added = [own for own in node.all_input_nodes if own.op == "get_attr" or own in self.places]
        if module is None and _JOINS.get(kind) == "add" and len(inputs) == len(added) == 1:
            return self.add_positions(name, node, *inputs, *added)
        if kind == "arange":
            return self.count_steps(name, node)
        if kind == "Embedding" and self.take_table(name, node, module):
            return None
        layer = _layer_of(name, node, module)
        if module is not None and any(not parameter.requires_grad for parameter in module.parameters()):
            raise Error(f"{name}: has frozen weights (requires_grad is False); let them learn here, and name them to the run: freeze=\"...\"")
        if kind == "MultiheadAttention":
            layer = self.attend(name, node, layer)
        if len(inputs) != 1:
            raise Error(f"{name}: {kind} of {len(inputs)} values; Sounder's takes what one layer gives")
        (of,) = inputs
        if kind in ("LSTM", "MultiheadAttention"):
            self.tuples[node] = (kind, getattr(module, "num_layers", 0))
        place = self.source(name, of)
        if module is not None and kind in _ORDINALS:
            self.tensors += [(_ORDINALS[kind], tensors) for tensors in _layers_tensors(module)]
        if layer:
            self.text.add(self.shaped(name, layer, kind, of, module), place, name)
            place = len(self.text.layers) - 1
        return self.give(node, place, _RANKS.get(kind, self.ranks.get(of)))


def _module(net):
    """The module itself, in a net of its own if it is one that a layer stands for."""
    kind = type(net).__name__
    if not hasattr(net, "named_modules"):
        name = f"; a net by its name goes to model as it is: model={net!r}" if isinstance(net, str) else ""
        raise Error(f"layers: needs a torch.nn.Module, not {kind}{name}")
    for wrapper, inner in (("OptimizedModule", "_orig_mod"), ("DataParallel", "module"), ("DistributedDataParallel", "module")):
        if kind == wrapper:
            raise Error(f"layers: {wrapper} has the net within it; give net.{inner}")
    if kind not in _MODULES:
        return net
    import torch

    return torch.nn.Sequential(net)


def _read(net):
    net = _module(net)
    reader, of = _Reader(net), type(net).__name__
    *steps, (_, end, _) = _steps(net)
    reader.order = {node: place for place, (_, node, _) in enumerate(steps)}
    for name, node, module in steps:
        if list(node.users) == [end] and (_called(node) if module is None else type(module).__name__) in _LAST:
            dim = getattr(module, "dim", None) if module is not None else node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
            if dim not in (1, -1, None):
                raise Error(f"{name}: dim is {dim}; Sounder's loss has it over the classes, dimension 1")
            reader.give(node, reader.source(name, node.all_input_nodes[0]), None)
        else:
            reader.step(name, node, module)
    (given,) = end.args
    if not hasattr(given, "op"):
        raise Error(f"{of}: gives several values; Sounder's nets give one, the scores of the classes")
    if reader.source(of, given) != len(reader.text.layers) - 1:
        raise Error(f"{of}: computes more behind {given.name}, which it gives; leave that out")
    own = [tensor.data_ptr() for _, layer in reader.tensors for _, tensor in layer if tensor.data_ptr()]
    if len(own) != len(set(own)):
        raise Error(f"{of}: positions are another layer's weights, too; Sounder's layers have weights of their own")
    return reader


def layers(net):
    """The layer list for --model that computes what a torch.nn.Module does. Error names the module that Sounder has not."""
    return _read(net).text.text()


_ORDINALS = {"Conv2d": "conv", "Linear": "fc", "GroupNorm": "norm", "LayerNorm": "norm", "BatchNorm1d": "norm", "BatchNorm2d": "norm",
             "Embedding": "embedding", "LSTM": "lstm", "MultiheadAttention": "attention"}


def _layers_tensors(module):
    """(name, parameter) of each of the layers that a module is."""
    kind = type(module).__name__
    if kind == "LSTM":
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [[(f"{part}_l0", getattr(module, f"{part}_l{number}")) for part in parts] for number in range(module.num_layers)]
    if kind == "MultiheadAttention":
        return [[("in_proj_weight", module.in_proj_weight), ("in_proj_bias", module.in_proj_bias),
                 ("out_proj.weight", module.out_proj.weight), ("out_proj.bias", module.out_proj.bias)]]
    parts = ("weight",) + ("bias",) * (kind != "Embedding") + ("running_mean", "running_var") * hasattr(module, "running_mean")
    return [[(part, getattr(module, part)) for part in parts]]


def _tensors(net):
    """(the name in Sounder's files, the parameter), in the order of computation."""
    counts, tensors = {}, []
    for word, layer in _read(net).tensors:
        counts[word] = counts.get(word, 0) + 1
        tensors += [(f"{word}{counts[word]}.{part}", tensor) for part, tensor in layer]
    return tensors


def write_weights(path, net):
    """Writes the weights of a torch.nn.Module of which layers() makes the net, for --init, and returns the path."""
    header, payload = {}, []
    for name, tensor in _tensors(net):
        values = _numbers(tensor, name)
        begin = sum(map(len, payload))
        payload.append(values.tobytes())
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [begin, begin + values.nbytes]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload))
    return os.path.abspath(os.fspath(path))


# Runs -----------------------------------------------------------------------------------------------------------------


def _word(name, value):
    """What an option's value is on the command line, where it is one word."""
    if hasattr(value, "named_modules"):
        raise Error(f"{name}: a module; give {name}=sounder.layers(net), and its weights as init=sounder.write_weights(FILE, net)")
    if name == "data" and not isinstance(value, str) and not hasattr(value, "__fspath__"):
        raise Error("data: arrays; give the path that sounder.write_data(FILE, train=(x, y), test=(x, y)) returns")
    if isinstance(value, (list, tuple, dict, set, range)) or getattr(value, "ndim", 0):
        raise Error(f"{name}: several values; give one, several in one text between commas, or a run for each: "
                    f"sounder.sweep(FOLDER, {{{name!r}: ...}})")
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else os.fspath(value) if hasattr(value, "__fspath__") else str(value)


def _arguments(options):
    return [f"--{name.replace('_', '-')}={_word(name, value)}" for name, value in options.items() if value is not None]


def _refusal(text, code):
    """The program's one sentence, out of what it wrote."""
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line.split("error:", 1)[1].strip() for line in lines if "error:" in line]
    if told:
        return Error(told[-1], code)
    return Error(lines[-1] if lines else f"sounder ended with status {code} and said nothing", code)


def _pass_on_warnings(text):
    """What the program warned of: it is not on the user's terminal."""
    for line in text.splitlines():
        if "warning: " in line:
            warnings.warn(line.split("warning: ", 1)[1], stacklevel=3)


def start(out, **options):
    """Begins a run in the folder `out` and returns at once. Options as those of `sounder train`: data, model, clients, lr, ..."""
    return Run(out, ["train", f"--out={os.fspath(out)}", *_arguments(options)])


def train(out, **options):
    """Trains to the end. A run that is stopped by a signal ends with an Error, too; resume goes on with it."""
    return start(out, **options).wait()


def resume(out, **options):
    """Goes on with the run in the folder to its end."""
    return Run(out, ["train", f"--resume={os.fspath(out)}", *_arguments(options)]).wait()


def sweep(out, grid, **options):
    """Trains with every combination of the grid's values, {"alpha": [0.1, 1], "seed": range(3)}, as many runs side by side as
    cores allow, and returns pairs of what a run had of them and the Run. What is done already is not done again. Options are
    those of train, the same for all runs; search, number, parallel are those of `sounder sweep`."""
    own = {name: options.pop(name) for name in ("search", "number", "parallel") if name in options}
    words, single = [], {}
    for name, values in grid.items():
        values = [_word(name, value) for value in values]
        for value in values:
            if any(letter in value for letter in "{}") or ("," in value and " " not in value):
                raise Error(f"{name}: {value!r} means several values to sounder sweep; give it to train, run by run")
        words += [f"--{name.replace('_', '-')}={value}" for value in values]
        single[name] = values[0] if len(values) == 1 else None
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # in a file no value is taken for several
        json.dump({name.replace("_", "-"): _word(name, value) for name, value in options.items() if value is not None}, file)
        file.flush()
        Run(out, ["sweep", file.name, f"--out={os.fspath(out)}", *_arguments(own), *words]).wait()
    done = _tell("runs", os.fspath(out), "--format=json")
    return [({name: row.get(name.replace("_", "-"), single[name]) for name in grid}, Run(row["run"])) for row in done]


def _tell(*arguments):
    """What the program prints as JSON."""
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise _refusal(done.stderr, done.returncode)
    _pass_on_warnings(done.stderr)
    return json.loads(done.stdout)


class Run:
    """A run's folder: one that a process is writing to, or one that was written before: Run("runs/a")."""

    def __init__(self, folder, arguments=None):
        self.folder = os.path.abspath(os.fspath(folder))
        self._process = None
        if arguments:
            self._said = tempfile.TemporaryFile(mode="w+", errors="replace")
            self._process = subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said)

    def __repr__(self):
        state = "running" if self.is_running else "ended" if self.rows("summary") else "not ended"
        return f"<sounder.Run {self.folder}: {state}, rounds: {len(self.rows('round'))}>"

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stop()

    @property
    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def wait(self):
        """Waits for the end and returns the run; Error if it failed."""
        if self._process is not None:
            try:
                code = self._process.wait()
            except BaseException:  # Ctrl-C: the program got it, too, and finishes its round
                self._process.terminate()
                self._process.wait()
                raise
            text = self._heard()
            if code:
                raise _refusal(text, code)
            _pass_on_warnings(text)
        return self

    def _heard(self):
        """What the process, which has ended, wrote to standard error."""
        if not self._said.closed:
            self._said.seek(0)
            self._text = self._said.read()
            self._said.close()
        return self._text

    def stop(self):
        """Lets the round end, saves, and waits; resume goes on."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        if self._process is not None:
            self._process.wait()
            self._heard()
        return self

    def rows(self, kind=None):
        """The lines of metrics.jsonl so far, as dicts; of one type (round, client, start, summary) if it is given."""
        try:
            with open(os.path.join(self.folder, "metrics.jsonl")) as file:
                text = file.read()  # whole: line by line, the end of a line that is being written would come as a line
        except FileNotFoundError:
            return []
        rows = [json.loads(line) for line in text.split("\n")[:-1]]
        return [row for row in rows if kind in (None, row["type"])]

    def frame(self, kind="round"):
        """The same as a DataFrame of pandas."""
        try:
            import pandas
        except ImportError as missing:
            raise Error(f"frame: {missing}; install pandas, or take rows(), the same as dicts") from missing
        return pandas.DataFrame(self.rows(kind))

    @property
    def summary(self):
        """The last line of a run that has ended."""
        rows = self.rows("summary")
        if not rows:
            raise Error(f"{self.folder}: the run has no summary: it has not ended; sounder.resume goes on with it")
        return rows[-1]

    @property
    def config(self):
        """The text of config.yaml: every option of the run."""
        with open(os.path.join(self.folder, "config.yaml")) as file:
            return file.read()

    def weights(self):
        """name -> array. While the run lives they are the shared weights themselves, mapped without a copy; then the model's."""
        for name in ("live/global.safetensors", "model.safetensors"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                return _safetensors(path)
        raise Error(f"{self.folder}: neither a live model nor a finished one; is it the folder of a run?")

    def load_into(self, net):
        """Copies the weights into a torch.nn.Module of which layers() made the run's net, and returns it."""
        import torch

        weights, tensors = self.weights(), _tensors(net)
        if {name for name, _ in tensors} != set(weights):
            raise Error(f"{self.folder}: the model has {', '.join(weights)}; this net has {', '.join(name for name, _ in tensors)}")
        with torch.no_grad():
            for name, tensor in tensors:
                if tuple(tensor.shape) != weights[name].shape:
                    raise Error(f"{name}: of shape {weights[name].shape} in {self.folder}, and {tuple(tensor.shape)} in this net")
                tensor.copy_(torch.from_numpy(np.array(weights[name])))
        return net

    def evaluate(self, **options):
        """What `sounder eval --json` tells of the model."""
        return _tell("eval", self.folder, "--json", *_arguments(options))


_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


def _safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    mapped = np.memmap(path, mode="r", dtype=np.uint8)
    header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        begin, end = (8 + length + offset for offset in about["data_offsets"])
        tensors[name] = mapped[begin:end].view(_TYPES[about["dtype"]]).reshape(about["shape"])
    return tensors
