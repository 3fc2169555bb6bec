"""The tensors of a torch.nn.Module that do not travel. Buffers are put back before each turn. Parameters are looked at after it, since an
optimizer, a twin that follows by .data, or a kernel would carry them from client to client."""
import torch

from .stays import SMALL, digest, step_of, told
from .torch_gpu import copy_all

WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def slots(net):
    """(name, dict of its module, key in it, tensor, whether it is a saved buffer or a parameter) of each parameter and buffer; a tied one
    is found once."""
    seen = set()
    for path, module in net.named_modules():
        unsaved = getattr(module, "_non_persistent_buffers_set", ())
        for held in (module._parameters, module._buffers):
            for key, tensor in held.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{path}.{key}" if path else key, held, key, tensor, held is module._parameters or key not in unsaved


def in_slot(held, key):
    return held[key] if key in held else None  # the dicts of TorchScript have no get


def _bits(tensor):
    """Its numbers as whole ones: a NaN equals itself."""
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor.view(WHOLE[tensor.element_size()])


def _digest(name, tensor):
    return digest(name, tensor.dtype, tensor.shape, _bits(tensor.detach().cpu()).reshape(-1).numpy())


def _same(one, other):
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or torch.equal(_bits(one), _bits(other))


def _is_dense(tensor):
    """Whether its numbers lie side by side, in whatever order of its dimensions."""
    return 1 + sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.stride())) == tensor.numel()


class _Looks:
    """Addresses, versions and a sample of the numbers of tensors. An address or a version tells most changes; .data and kernels count no
    version, and there only the numbers tell."""

    def __init__(self, tensors):
        self.tensors, kinds = tensors, {}
        self.places = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
        for place, tensor in enumerate(tensors):
            if tensor.numel() and _is_dense(tensor):
                bits = _bits(tensor.detach())
                step = step_of(bits.numel(), len(tensors))
                view = bits.as_strided((-(-bits.numel() // step),), (step,))
                kinds.setdefault((bits.dtype, bits.device), []).append((place, view))
        self.samples = [[view for _, view in kind] for kind in kinds.values()]
        self.numbers = [[place for place, _ in kind] for kind in kinds.values()]
        self.first = [torch.cat(views) for views in self.samples]

    def moved(self):
        """The place in the list of the first tensor that is not as it was, or None."""
        for place, tensor in enumerate(self.tensors):
            if self.places[place] != (tensor.data_ptr(), tensor._version):
                return place
        for views, first, numbers in zip(self.samples, self.first, self.numbers):
            if not torch.equal(torch.cat(views), first):
                parts = first.split([view.numel() for view in views])
                return next(place for place, view, part in zip(numbers, views, parts) if not torch.equal(view, part))
        return None


class _Buffer:
    """A buffer, and what it was when the program was made."""

    def __init__(self, name, held, key, tensor, saved):
        self.name, self.held, self.key, self.tensor = name, held, key, tensor
        self.first = tensor.detach().clone()
        self.tells = saved and tensor.is_floating_point()  # statistics and the like: the user wants them

    def put_back(self):
        if self.tensor.shape == self.first.shape and self.tensor.dtype == self.first.dtype and _is_dense(self.tensor):
            self.tensor.copy_(self.first)
        else:
            self.tensor.data = self.first.clone()


class TorchStays:
    """net: a module. travel: the ids of the tensors that travel. digests: those that an earlier one has found for the same net."""

    def __init__(self, net, travel, digests=None):
        self.modules = [(f"{path}.{key}" if path else key, module._modules, key, child)
                        for path, module in net.named_modules() for key, child in module._modules.items()]
        self.held = [(module._buffers, dict(module._buffers.items())) for module in net.modules()]
        found = [slot for slot in slots(net) if id(slot[3]) not in travel and slot[3].layout is torch.strided and slot[3].device.type != "meta"]
        buffers = {id(buffer) for _, first in self.held for buffer in first.values()}
        self.buffers = [_Buffer(*slot) for slot in found if id(slot[3]) in buffers]
        self.frozen = [slot for slot in found if id(slot[3]) not in buffers]
        self.large = [buffer for buffer in self.buffers if buffer.tensor.numel() > SMALL or not _is_dense(buffer.tensor)]
        small = [buffer for buffer in self.buffers if buffer not in self.large]
        self.small = [buffer.tensor for buffer in small], [buffer.first for buffer in small], [buffer.tensor.shape for buffer in small]
        self.digests = digests or {name: _digest(name, tensor) for name, _, _, tensor, _ in found}
        self.floats = sum(tensor.numel() for _, _, _, tensor, _ in found)
        self.looks = _Looks([tensor for _, _, _, tensor, _ in self.frozen])
        self.large_looks = _Looks([buffer.tensor for buffer in self.large])

    def told(self):
        return told(self.digests, self.floats)

    @torch.no_grad()
    def put_back(self):
        """Before a turn."""
        for held, first in self.held:
            for key in [key for key in held if key not in first]:
                del held[key]
            for key, tensor in first.items():
                if in_slot(held, key) is not tensor:
                    held[key] = tensor
        tensors, first, shapes = self.small
        if [tensor.shape for tensor in tensors] == shapes:
            copy_all(tensors, first)
        else:
            for buffer in self.buffers:
                buffer.put_back()
        if self.large_looks.moved() is not None:
            for buffer in self.large:
                buffer.put_back()
            self.large_looks = _Looks([buffer.tensor for buffer in self.large])

    def _moved_parameter(self, whole):
        for name, held, key, tensor, _ in self.frozen:
            if in_slot(held, key) is not tensor or whole and _digest(name, tensor) != self.digests[name]:
                return name, tensor
        place = self.looks.moved()
        return (self.frozen[place][0], self.frozen[place][3]) if place is not None else (None, None)

    def moved(self, whole):
        """A sentence about one that changed in this turn, or None. whole: all numbers are looked at."""
        for path, held, key, module in self.modules:
            if in_slot(held, key) is not module:
                return f"{path} was replaced by another module in a turn: change its tensors in place, with .copy_() or load_state_dict"
        name, tensor = self._moved_parameter(whole)
        if name and tensor.requires_grad:
            return (f"{name} changed in a turn and does not travel: freeze it, or exchange it; with --algorithm \"personal tensors "
                    f"names={name}\" it then stays with its client")
        if name:
            return f"{name} is frozen and changed in a turn: a twin that follows the net has to travel with it, serve(..., exchange='*')"
        for buffer in self.buffers:
            if buffer.tells and (in_slot(buffer.held, buffer.key) is not buffer.tensor or not _same(buffer.tensor, buffer.first)):
                return (f"{buffer.name} changed in a turn and does not travel: freeze it (a BatchNorm of a frozen part wants .eval()), or "
                        "exchange it")
        return None
