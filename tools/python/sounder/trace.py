"""A PyTorch module's forward as steps."""
import dis
import sys

from .command import Error
from .expand import expansion_of
from .functions import FUNCTIONS
from .modules import END_KINDS, MODULES, OTHER_MODULES, none_of, call_name


# Layers that give the shape they take.
KEEP_SHAPE = (*(function.word for function in FUNCTIONS), "dropout", "droppath", "batchnorm", "layernorm")
SHAPES = ("view", "reshape", "unsqueeze")  # methods that give a parameter another shape
JOINS = {"add": "add", "iadd": "add", "add_": "add", "mul": "mul", "imul": "mul", "mul_": "mul", "cat": "concat", "concat": "concat"}


def counts_with_sizes(node):
    """x.size(1) * x.size(2), or np.prod(x.shape[1:])."""
    inputs = getattr(node, "all_input_nodes", ())
    return bool(inputs) and call_name(node) in ("mul", "prod", "numel") and all(asks_for_a_size(own) for own in inputs)


def asks_for_a_size(node):
    """x.size(0) or x.shape[0] in x.view(x.size(0), -1), or a product of such."""
    kind = call_name(node)
    if kind == "getitem":
        return asks_for_a_size(node.args[0])
    is_asked = kind == "getattr" and node.args[1] in ("shape", "ndim", "device", "dtype")
    return is_asked or kind in ("size", "dim") or counts_with_sizes(node)


def _extent(node):
    """(x, 1) of x.size(1), x.size()[1] or x.shape[1]; (None, None): it is something else."""
    if getattr(node, "op", None) not in ("call_method", "call_function") or len(node.args) != 2:
        return None, None
    whole, which = node.args
    if call_name(node) == "size":
        return whole, which
    is_whole = call_name(node) == "getitem" and ((call_name(whole) == "size" and len(whole.args) == 1) or (call_name(whole) == "getattr" and whole.args[1] == "shape"))
    return (whole.args[0], which) if is_whole else (None, None)


def extent_of(node):
    """x of x.size(1); None: it is something else."""
    whole, which = _extent(node)
    return whole if which == 1 else None


def extents_in(node, count):
    """Which of a value's count dimensions a product has: [1, 2] of x.size(1) * x.size(2); -1: something else."""
    if not hasattr(node, "op"):
        return [-1]
    if call_name(node) == "mul":
        return sorted(which for own in node.args for which in extents_in(own, count))
    _, which = _extent(node.args[0] if call_name(node) in ("prod", "numel") else node)
    return [*range(count)[which]] if isinstance(which, slice) else [which % count if isinstance(which, int) else -1]


def as_it_came(node):
    """Before it was made whole numbers."""
    while call_name(node) in ("contiguous", "long", "int", "float", "to"):
        node = node.args[0]
    return node


def _takes_constants(node, modules):
    """An attention takes a mask, an embedding the numbers of steps, to values positions are added, and channels are scaled."""
    if node.op == "call_module":
        return type(modules[node.target]).__name__ in ("MultiheadAttention", "Embedding")
    return JOINS.get(call_name(node)) in ("add", "mul") or (call_name(node) in SHAPES and all(_takes_constants(user, modules) for user in node.users))


def _check_leaf(node, modules, seen):
    """Refuses what belongs to no layer: parameters, but for an attention's mask and positions; and weights that two layers share.
    seen: by id."""
    if node.op == "get_attr" and not all(_takes_constants(user, modules) for user in node.users):
        raise Error(f"{node.target}: a parameter outside a layer; Sounder's belong to layers")
    own = {id(parameter) for parameter in modules[node.target].parameters()} if node.op == "call_module" else set()
    if own & seen:
        raise Error(f"{node.target}: its weights are another layer's, too, or it is called twice; Sounder's layers have weights of their own")
    seen |= own


def _is_of_packages(module):
    return type(module).__module__.split(".")[0] in ("torchvision", "timm")


def _is_known(module):
    """A module of torchvision or timm that is a row of the table, or one of torch.nn's by another path."""
    import torch

    kind = type(module).__name__
    return _is_of_packages(module) and (kind in OTHER_MODULES or (kind in MODULES and isinstance(module, getattr(torch.nn, kind, ()))))


def _is_layer_of_its_own(module):
    """One that computes with parameters of its own alone: where no row has it, the refusal names it."""
    return _is_of_packages(module) and not module._modules and any(parameter is not None for parameter in module._parameters.values())


def _untraceable(whose, problem):
    return f"{whose} forward cannot be traced: {problem}; write it without ifs and loops over values"


def _names_to_unpack(frame):
    """How many names a frame takes a value apart into: 2 in output, state = lstm(x); 0: it does something else."""
    doing = next(step for step in dis.get_instructions(frame.f_code) if step.offset == frame.f_lasti)
    return doing.argval if doing.opname == "UNPACK_SEQUENCE" else 0


def _trace(net):
    """The graph of what the net computes. Values come apart into the names they get; arange(x.size(1)) is a step."""
    import torch.fx

    class Value(torch.fx.Proxy):
        def __iter__(self):
            is_chunk = call_name(self.node) == "chunk" and len(self.node.args) > 1
            parts = _names_to_unpack(sys._getframe(1)) or (self.node.args[1] if is_chunk else 0)
            return iter([self[part] for part in range(parts)]) if parts else super().__iter__()

    class Tracer(torch.fx.Tracer):
        def proxy(self, node):
            return Value(node, self)

        def is_leaf_module(self, module, name):
            return super().is_leaf_module(module, name) or _is_known(module) or _is_layer_of_its_own(module)

        def call_module(self, module, forward, args, kwargs):
            kind, name, expand = type(module).__name__, self.path_of_module(module), expansion_of(module)
            if expand:
                return expand(name, module, *args, **kwargs)
            if self.is_leaf_module(module, name) and kind not in (*MODULES, *END_KINDS):
                raise none_of(name, kind)  # before what it gives is taken apart, as a GRU's is
            try:
                return super().call_module(module, forward, args, kwargs)
            except Error:
                raise
            except Exception as problem:
                raise Error(_untraceable(f"{name}: {kind}'s", problem)) from problem

    tracer = Tracer()

    def has_steps(value):
        return isinstance(value, torch.fx.Proxy) or (isinstance(value, (tuple, list)) and any(map(has_steps, value)))

    def as_a_step(function):
        def step(*args, **kwargs):
            traced = has_steps((*args, *kwargs.values()))
            return tracer.create_proxy("call_function", function, args, kwargs) if traced else function(*args, **kwargs)
        return step

    modes = [(module, module.training) for module in net.modules()]
    # channel_shuffle: ShuffleNet's function, which takes a size apart.
    files = {id(file): file for file in (sys.modules.get(type(module).__module__) for module, _ in modes) if callable(getattr(file, "channel_shuffle", None))}
    steps = [(file, name, getattr(file, name)) for file, name in ((torch, "arange"), (torch, "zeros"), *((file, "channel_shuffle") for file in files.values()))]
    for file, name, function in steps:
        setattr(file, name, as_a_step(function))
    try:
        return tracer.trace(net.train())  # F.dropout(x, training=self.training) is a layer, too
    finally:
        for file, name, function in steps:
            setattr(file, name, function)
        for module, mode in modes:
            module.training = mode


def traced_steps(net):
    """(name, node, module or None) in the order of computation; the last one is what the net gives."""
    try:
        graph = _trace(net)
    except Error:
        raise
    except Exception as problem:
        raise Error(_untraceable(f"{type(net).__name__}: its", problem)) from problem
    modules, steps, inputs, seen = dict(net.named_modules()), [], 0, set()
    for node in graph.nodes:
        inputs += node.op == "placeholder"
        if inputs > 1:
            raise Error(f"{node.name}: a second input; Sounder's nets have one")
        _check_leaf(node, modules, seen)
        if node.op in ("call_module", "call_function", "call_method", "output") and not asks_for_a_size(node):
            module = modules[node.target] if node.op == "call_module" else None
            steps.append((node.name if module is None else node.target, node, module))
    return steps
