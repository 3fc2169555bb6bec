"""The desk and the run's samples on a trainer's GPU: a turn costs one copy there and one back, and no batch a copy of its own."""
import contextlib

import numpy as np
import torch

from .tensors import views

MOST_FLOATS = 1 << 24  # of samples that are gathered at once
SHARE_OF_FREE = 4      # samples stay on the GPU if they take no more than this part of its free memory


def widened(now, before):
    """now as float32. A number of a narrow type that has not moved keeps what that type lost of it."""
    return now if now.dtype == torch.float32 else torch.where(now == before.to(now.dtype), before, now.float())


@torch.no_grad()
def copy_all(to, tensors):
    """In one kernel, where PyTorch has it (2.1)."""
    if to and hasattr(torch, "_foreach_copy_"):  # which refuses an empty list
        torch._foreach_copy_(to, tensors)
        return
    for target, tensor in zip(to, tensors):
        target.copy_(tensor)


def _pin(arrays, device):
    """Copies of memory that the driver has registered need no second one on the way. Without it they are right, too. One range for all
    arrays, which lie side by side: the driver may refuse a page twice."""
    if not torch.cuda.is_available():
        return
    begin, end = min(array.ctypes.data for array in arrays), max(array.ctypes.data + array.nbytes for array in arrays)
    if int(torch.cuda.cudart().cudaHostRegister(begin, end - begin, 0)):
        with contextlib.suppress(RuntimeError):
            torch.ones(1, device=device)  # PyTorch looks for errors after a kernel, and takes the refusal for this one's


def _chunks(indices, most):
    """Lists of batches, of at most so many samples or of one batch."""
    chunk, samples = [], 0
    for taken in indices:
        if chunk and samples + len(taken) > most:
            yield chunk
            chunk, samples = [], 0
        chunk.append(taken)
        samples += len(taken)
    if chunk:
        yield chunk


class GpuDesk:
    """net: a TorchNet whose module is on the GPU. The tensors keep memory of their own, for kernels like them aligned: a second kernel
    takes them from the desk's copy and puts them back there."""

    def __init__(self, net):
        self.net, self.device = net, net.device
        self.names = list(net.parts)
        self.desk = torch.from_numpy(net.desk.weights)
        self.desk_shift = torch.from_numpy(net.desk.shift) if net.desk.shift is not None else None
        _pin([array for array in (net.desk.weights, net.desk.shift) if array is not None], self.device)
        self.weights = torch.empty_like(self.desk, device=self.device)
        self.parts = list(self._views(self.weights).values())
        self.shift = None
        self.resident = {}

    def _views(self, flat):
        return views(flat, self.net.tensors())

    def _own(self):
        parts = [self.net.parts[name].detach() for name in self.names]
        return [torch.view_as_real(part) if part.is_complex() else part for part in parts]

    def fetch(self):
        self.weights.copy_(self.desk)
        copy_all(self._own(), self.parts)
        self.shift = None

    def store(self):
        copy_all(self.parts, [widened(now, before.to(now.device)) for now, before in zip(self._own(), self.parts)])
        self.desk.copy_(self.weights)

    def use(self):
        """The GPU's memory, for the one who wonders how many trainers it can hold; with PyTorch's contexts, and other programs' parts."""
        free, every = torch.cuda.mem_get_info(self.device) if self.device.type == "cuda" else (0, 0)
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else str(self.device)
        return {"name": name, "free": free, "bytes": every}

    def shifts(self):
        """{name: what the run's algorithm adds to the gradients of this turn}."""
        if self.shift is None:
            self.shift = self._views(self.desk_shift.to(self.device))
        return self.shift

    def _samples(self, split):
        """A split on the GPU, copied there once; None if it is too large."""
        if id(split) not in self.resident:
            free = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else split.x.nbytes * SHARE_OF_FREE
            fits = split.x.nbytes <= free // SHARE_OF_FREE
            self.resident[id(split)] = None
            with contextlib.suppress(RuntimeError):  # other trainers have asked at the same time, and what was free is gone
                self.resident[id(split)] = torch.tensor(split.x, device=self.device) if fits else None
        return self.resident[id(split)]

    def batches(self, data, split, indices):
        """As TorchNet.batches: to the same bits as on the CPU."""
        samples = self._samples(split)
        for chunk in _chunks(indices, MOST_FLOATS // max(1, int(np.prod(data.shape)))):
            sizes, taken = [len(part) for part in chunk], np.concatenate(chunk)
            y = split.y[taken]
            y = torch.from_numpy(y.astype(np.int64) if y.dtype == np.uint16 else y).to(self.device)
            x = torch.from_numpy(split.x[taken]).to(self.device) if samples is None else samples[torch.from_numpy(taken).to(self.device)]
            if data.tokens:
                x = x.long()
            elif x.dtype == torch.uint8:
                scale, shift = (torch.from_numpy(part).to(self.device) for part in (data.scale, data.shift))
                x = x.float().mul_(scale).add_(shift)
            yield from zip(x.split(sizes), y.split(sizes))
