"""The tensors that a torch.nn.Module exchanges: on the CPU they lie in the desk itself, so that a turn copies nothing. torch_gpu.py has
them on a GPU."""
import numpy as np
import torch

from ..command import Error
from .stays import step_of
from .tensors import check_same, chosen, views
from .torch_gpu import GpuDesk, widened
from .torch_stays import TorchStays, in_slot, slots


def _floats(tensor):
    """Whether its numbers can be averaged."""
    return tensor.is_floating_point() or tensor.is_complex()


def _real(tensor):
    """A complex number travels as a pair."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _exchanged(net):
    """{name: tensor}: parameters and buffers of real or complex numbers, tied ones once. If some parameter is frozen: those that learn, and
    the buffers of the modules that they belong to."""
    frozen = any(not parameter.requires_grad for parameter in net.parameters())
    found, seen = {}, set()
    for path, module in net.named_modules():
        learns = any(parameter.requires_grad for parameter in module.parameters(recurse=False))
        saved = module.state_dict(keep_vars=True)
        own = {**module._parameters, **{name: buffer for name, buffer in module._buffers.items() if name in saved}}
        for name, tensor in own.items():
            if tensor is None or not _floats(tensor) or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            if not frozen or (tensor.requires_grad if name in module._parameters else learns):
                found[f"{path}.{name}" if path else name] = tensor
    return found


def _check_tied(parts):
    """Two parameters over the same memory would become two tensors of the desk, and be tied no longer."""
    places = {}
    for name, tensor in parts.items():
        other = places.setdefault((tensor.device, tensor.data_ptr()), name)
        if other != name and tensor.numel():
            raise Error(f"{name} is another parameter than {other}, in the same memory: tie them by one parameter (layer.weight = other.weight)")


class TorchNet:
    """A module. exchange: names or patterns of the tensors that travel; without it those of _exchanged."""

    def __init__(self, net, exchange=None, device=None):
        self.net, self.asked = net, device
        if device and torch.device(device).type == "cpu":
            net.to(device)
        floating = {name: tensor for name, tensor in net.state_dict(keep_vars=True).items() if _floats(tensor)}
        candidates = _exchanged(net) if exchange is None else floating
        for name, tensor in candidates.items():
            if torch.nn.parameter.is_lazy(tensor):
                raise Error(f"{name} has no shape yet, as the tensors of a lazy module: run one batch through the net in the function that makes it")
        self.parts = {}
        for name in chosen(candidates, exchange):  # of tied tensors the first name
            if not any(candidates[name] is tensor for tensor in self.parts.values()):
                self.parts[name] = candidates[name]
        _check_tied(self.parts)
        if not self.parts:
            raise Error("the net exchanges nothing: all of its parameters are frozen; say which travel: serve(..., exchange='head.*')")
        self._find_places()
        self.stays = TorchStays(net, {id(tensor) for tensor in self.parts.values()})
        self.device = torch.device(device) if device else next(iter(self.parts.values())).device
        self.gpu = None

    def _find_places(self):
        """Where the module holds what travels, and as what."""
        held = {id(tensor): (held, key) for _, held, key, tensor, _ in slots(self.net)}
        self.places = {name: (*held[id(tensor)], tensor.shape, tensor.dtype) for name, tensor in self.parts.items()}

    def moves(self):
        """Whether the module goes to a GPU, which processes that are forked later cannot share."""
        return self.device.type != "cpu"

    def place(self):
        """Before the first turn of this process. Without a device to go to the parts stay where the program has put them, which may be
        several GPUs."""
        if self.gpu or not self.moves():
            return
        if self.asked:
            self.net.to(self.device)
        now = self.net.state_dict(keep_vars=True)  # its buffers are other tensors now
        self.parts.update({name: now[name] for name in self.parts})
        self._find_places()
        self.stays = TorchStays(self.net, {id(tensor) for tensor in self.parts.values()}, self.stays.digests)
        self.device = next(iter(self.parts.values())).device  # with its number, which PyTorch before 2.5 asks for in some calls
        self.gpu = GpuDesk(self)

    def tensors(self):
        return [(name, tuple(_real(tensor).shape)) for name, tensor in self.parts.items()]

    def factors(self):
        """Tensors that may be changed in place, outside of any graph."""
        return [(name, tensor.detach()) for name, tensor in self.parts.items()]

    def statistics(self):
        """What describe tells of tensors that batches change and gradients do not: their numbers, and of which a negative value is wrong."""
        buffers = [number for number, tensor in enumerate(self.parts.values()) if not isinstance(tensor, torch.nn.Parameter)]
        names = list(self.parts)
        return {"statistics": buffers, "variances": [number for number in buffers if names[number].rpartition(".")[2] == "running_var"]}

    def values(self):
        return [_real(tensor.detach()).to("cpu", torch.float32).numpy() for tensor in self.parts.values()]

    def attach(self, desk, tensors):
        check_same(tensors, self.tensors())
        self.desk = desk
        weights = views(desk.weights, tensors)
        shifts = views(desk.shift, tensors) if desk.shift is not None else {}
        self.shifts = {name: torch.from_numpy(part) for name, part in shifts.items()}
        self.on_desk = {name: torch.from_numpy(part) for name, part in weights.items()}
        for name, tensor in self.parts.items():
            if tensor.dtype == torch.float32 and self.device.type == "cpu":
                tensor.data = self.on_desk[name]

    @torch.no_grad()
    def fetch(self, trains, still=()):
        """Before a turn: its weights, the module's mode, no gradient of an earlier turn, and none of what rests."""
        if self.gpu:
            self.gpu.fetch()
        self.stays.put_back()
        for name, part in self._elsewhere():
            _real(self.parts[name]).copy_(part)
        self.net.train(trains)
        self.net.zero_grad(set_to_none=True)
        resting = [self.parts[name] for name in still]
        self.resting = [tensor for tensor in resting if tensor.requires_grad]
        self.buffers = [(tensor, tensor.clone()) for tensor in resting if not isinstance(tensor, torch.nn.Parameter)]
        for tensor in self.resting:
            tensor.requires_grad_(False)

    def _elsewhere(self):
        """Tensors that are not on the desk, by another type, or because the program has put other memory under them."""
        return [] if self.gpu else [(name, part) for name, part in self.on_desk.items() if self.parts[name].data_ptr() != part.data_ptr()]

    def _check_parts(self):
        """A module of which a tensor was replaced would train what is not sent; one number would be spread over a tensor of many."""
        for name, tensor in self.parts.items():
            held, key, shape, kind = self.places[name]
            now = in_slot(held, key)
            if now is not None and (now.shape != shape or now.dtype != kind):
                raise Error(f"{name} has the shape {list(now.shape)} and the type {now.dtype} after a turn, and had {list(shape)} "
                            f"and {kind} before it: leave it as it was made")
            if now is not tensor:
                raise Error(f"{name} was replaced by another tensor in a turn: change it in place, with .copy_() or load_state_dict")

    @torch.no_grad()
    def store(self):
        """After a turn that trained."""
        self._check_parts()
        for tensor in self.resting:
            tensor.requires_grad_(True)
        for tensor, before in self.buffers:  # batch norm follows its batches, whatever learns
            tensor.copy_(before)
        if self.gpu:
            self.gpu.store()
        for name, part in self._elsewhere():
            part.copy_(widened(_real(self.parts[name]), part))

    def moved(self, whole):
        """A sentence about a tensor that does not travel and was written to or replaced in this turn, or None."""
        return self.stays.moved(whole)

    def batch(self, x, y):
        y = torch.from_numpy(np.ascontiguousarray(y, np.int64 if y.dtype == np.uint16 else y.dtype))
        return torch.from_numpy(x).to(self.device), y.to(self.device)

    def batches(self, data, split, indices):
        """(x, y) of each of indices, sample numbers of a split."""
        if self.gpu and split.x is not None:
            yield from self.gpu.batches(data, split, indices)
            return
        for taken in indices:
            yield self.batch(taken if split.x is None else data.enter(split.x[taken]), split.y[taken])

    @torch.no_grad()
    def gradients(self, given, fills):
        """{name: gradient} of what learns and travels. fills: something is to be added to them, and what is added is dense."""
        if given is not None:
            raise Error("turn.correct(): the gradients of a module are its own; call it without any")
        found = {}
        for name, tensor in self.parts.items():
            if not tensor.requires_grad:
                continue
            if fills and tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)
            elif fills and tensor.grad.is_sparse:
                tensor.grad = tensor.grad.to_dense()
            if tensor.grad is not None:
                found[name] = _real(tensor.grad.to_dense() if tensor.grad.is_sparse else tensor.grad)
        return found

    @torch.no_grad()
    def correct(self, gradients, pull, shifts):
        shift = self.gpu.shifts() if self.gpu and shifts else self.shifts
        for name, gradient in gradients.items() if shifts else ():
            gradient += shift[name].to(gradient.device, gradient.dtype)
        for name, gradient in gradients.items() if pull else ():
            gradient.add_(_real(self.parts[name]), alpha=pull)

    def weights(self):
        return {name: _real(tensor.detach()) for name, tensor in self.parts.items() if tensor.requires_grad}

    def sums(self):
        """Zeros, (parameters) floats, and their parts by name."""
        floats = torch.zeros(sum(_real(tensor).numel() for tensor in self.parts.values()), device=self.device)
        return floats, views(floats, self.tensors())

    def add_up(self, sums, gradients):
        for name, gradient in gradients.items():
            sums[name] += gradient.to(self.device)

    def sample(self, tensors):
        """Some numbers of each tensor that learns and travels, as one vector; zeros where it is missing."""
        parts = []
        for name, tensor in self.weights().items():
            step = step_of(tensor.numel(), len(self.parts))
            part = tensors.get(name)
            part = torch.zeros_like(tensor) if part is None else part.detach()
            parts.append(part.flatten()[::step].to(self.device, torch.float64))
        return torch.cat(parts).cpu().numpy()

    def norm(self, gradients):
        return 0.0 if not gradients else float(torch.stack([gradient.detach().norm().to(self.device, torch.float64) for gradient in gradients.values()]).norm())

    def rounding(self):
        return max(torch.finfo(tensor.dtype).eps for tensor in self.weights().values())

    def state(self, floats):
        return torch.from_numpy(floats)

    def generator(self, seed):
        return torch.Generator().manual_seed(seed)
