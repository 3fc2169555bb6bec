"""An optimizer that a client keeps from turn to turn: its state goes to turn.state and comes back."""
import copy
import inspect

import numpy as np
import torch

from ..command import Error


def _parameters(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _layout(optimizer):
    """For each parameter, {key: value} of the state that it has after a step, which a copy makes along no gradient."""
    twin = copy.deepcopy(optimizer)
    for parameter in _parameters(twin):
        parameter.grad = torch.zeros_like(parameter)
    twin.step()
    return [{key: twin.state[parameter][key] for key in sorted(twin.state[parameter])} for parameter in _parameters(twin)]


def _floats(layout):
    return sum(value.numel() for state in layout for value in state.values() if torch.is_tensor(value))


def floats_of(net, make):
    """state= of serve where it is a class of optimizers: how many floats one of the net's parameters has."""
    known = inspect.signature(make).parameters
    given = {name: value for name, value in (("lr", 0.1), ("momentum", 0.9)) if name in known}
    return _floats(_layout(make([parameter for parameter in net.parameters() if parameter.requires_grad], **given)))


class KeptOptimizer:
    """Made before the first step: brings what the client has kept, nothing in its first turn. save() is for the turn's end."""

    def __init__(self, optimizer, floats):
        self.optimizer, self.floats, self.layout = optimizer, floats, _layout(optimizer)
        wanted = _floats(self.layout)
        if floats is None or len(floats) < wanted:
            raise Error(f"turn.keep: the optimizer's state has {wanted:,} floats, and the client keeps {0 if floats is None else len(floats):,}: "
                        "say sounder.serve(..., state=torch.optim.AdamW), its class, or how many")
        if np.any(floats):
            self._bring()

    def _bring(self):
        first = 0
        for parameter, like in zip(_parameters(self.optimizer), self.layout):
            for key, value in like.items():
                if torch.is_tensor(value):
                    part = torch.from_numpy(self.floats[first : first + value.numel()].copy()).reshape(value.shape)
                    first, value = first + value.numel(), part.to(value.device, value.dtype)
                self.optimizer.state[parameter][key] = value

    def save(self):
        first = 0
        for parameter, like in zip(_parameters(self.optimizer), self.layout):
            state = self.optimizer.state[parameter]
            for key, value in like.items():
                if torch.is_tensor(value):  # a parameter without gradients has no state yet
                    now = state[key].detach().cpu().float().reshape(-1).numpy() if torch.is_tensor(state.get(key)) else 0
                    self.floats[first : first + value.numel()] = now
                    first += value.numel()
