"""Nets of PyTorch's modules and of ONNX's files as layer lists and files of weights."""
import warnings

from .command import Error
from .data import float_array
from .expand import expansion_of
from .modules import END_KINDS, MODULES, kind_of
from .onnx_file import is_onnx
from .onnx_read import read_layers, read_tensors
from .safetensors import write_safetensors
from .steps import NetReader
from .trace import traced_steps


def _module(net):
    """The module itself, in a net of its own if it is one that a layer stands for."""
    kind = type(net).__name__
    if not hasattr(net, "named_modules"):
        name = f"; a net by its name goes to model as it is: model={net!r}" if isinstance(net, str) else ""
        raise Error(f"layers: needs a torch.nn.Module or a file NET.onnx, not {kind}{name}")
    for wrapper, inner in (("OptimizedModule", "_orig_mod"), ("DataParallel", "module"), ("DistributedDataParallel", "module")):
        if kind == wrapper:
            raise Error(f"layers: {wrapper} has the net within it; give net.{inner}")
    if kind not in MODULES and not expansion_of(net):
        return net
    import torch

    return torch.nn.Sequential(net)


def _read_end(reader, name, node, module):
    """A softmax at the end, which the loss begins with."""
    dim = getattr(module, "dim", None) if module is not None else node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    if dim not in (1, -1, None):
        raise Error(f"{name}: dim is {dim}; Sounder's loss has it over the classes, dimension 1")
    reader.left_out = name if kind_of(node, module).lower() == "softmax" else None
    reader.give(node, reader.source(name, node.all_input_nodes[0]), None)


def _read(net):
    net = _module(net)
    try:
        return _read_module(net)
    except Error as refusal:
        raise Error(f"{refusal}; a trainer (--trainer, help trainer) trains any module") from refusal


def _read_module(net):
    reader, of = NetReader(net), type(net).__name__
    reader.left_out = None
    *steps, (_, end, _) = traced_steps(net)
    reader.order = {node: place for place, (_, node, _) in enumerate(steps)}
    for name, node, module in steps:
        if list(node.users) == [end] and kind_of(node, module) in END_KINDS:
            _read_end(reader, name, node, module)
        else:
            reader.step(name, node, module)
    reader.kind = "output"
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
    """The layer list for --model that computes what a torch.nn.Module does, or the graph in a file NET.onnx. Error names the module,
    or the node, that Sounder has not. A warning says that a Softmax at the end was left out, and of which loss this makes the same net."""
    read = None if is_onnx(net) else _read(net)
    text, left_out = read_layers(net) if read is None else (read.text.text(), read.left_out)
    if left_out is not None:
        warnings.warn(f"{left_out}: a Softmax at the end is left out, since the loss begins with one: the net is trained as by NLLLoss of the log of "
                      "what it gives; CrossEntropyLoss, if your loop gives it to that, makes a second softmax of it, and BCELoss none", stacklevel=2)
    return text


def net_tensors(net):
    """(the name in Sounder's files, the parameter), in the order of computation."""
    counts, tensors = {}, []
    for word, layer in read_tensors(net) if is_onnx(net) else _read(net).tensors:
        counts[word] = counts.get(word, 0) + 1
        tensors += [(f"{word}{counts[word]}.{part}", tensor) for part, tensor in layer]
    return tensors


def write_weights(path, net):
    """Writes the weights of a torch.nn.Module or a file NET.onnx of which layers() makes the net, for --init, and returns the path."""
    return write_safetensors(path, ((name, float_array(tensor, name)) for name, tensor in net_tensors(net)))
