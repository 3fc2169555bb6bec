"""Corrects the gradients of whatever torch optimizer steps inside a turn, for loops that nothing can be added to."""
import contextlib
import sys

import numpy as np

from ..command import Error


def _owners(parameters, net):
    """The net's array that each parameter began as: they come in one order, beside others such as buffers."""
    names, found = list(net), []
    for parameter in parameters:
        value = parameter.detach().cpu().numpy()
        while names and not (net[names[0]].shape == value.shape and np.array_equal(net[names[0]], value)):
            names.pop(0)
        if not names:
            raise Error("the run's algorithm adds to the gradients, and an optimizer of the turn steps a parameter of shape "
                        f"{list(value.shape)} that is none of the run's arrays; take fedavg, or a trainer that calls turn.correct()")
        found.append((names.pop(0), parameter))
    return found


@contextlib.contextmanager
def corrected(net, turn):
    """Within it each step of a torch.optim optimizer is one of the turn, with turn.correct() first. net: {name: array}, the weights that
    the loop's module was given. Yields {"count": steps, "travel": how far a gradient of 1 in every step would have taken a weight, by SGD
    with or without momentum, else 0}."""
    steps, owners, velocity = {"count": 0, "travel": 0.0}, {}, [0.0]
    torch = sys.modules.get("torch")
    if torch is None or turn.adds_nothing and not turn.trains:
        yield steps
        return
    begun = {name: np.array(value) for name, value in net.items()}

    def before(optimizer, *_):
        group = optimizer.param_groups[0]
        steps["count"] += 1
        velocity[0] = group.get("momentum", 0) * velocity[0] + 1
        steps["travel"] += group["lr"] * velocity[0] if isinstance(optimizer, torch.optim.SGD) else float("nan")
        if turn.adds_nothing:
            return
        if id(optimizer) not in owners:
            owners[id(optimizer)] = _owners([one for group in optimizer.param_groups for one in group["params"] if one.requires_grad], begun)
        gradients = {}
        for name, parameter in owners[id(optimizer)]:
            net[name][...] = parameter.detach().cpu().numpy()
            if parameter.grad is not None:
                gradients[name] = parameter.grad.detach().cpu().numpy()
        turn.correct(gradients)
        for name, parameter in owners[id(optimizer)]:
            if name in gradients and parameter.grad.device.type != "cpu":
                parameter.grad.copy_(torch.from_numpy(gradients[name]))

    from torch.optim.optimizer import register_optimizer_step_pre_hook

    hook = register_optimizer_step_pre_hook(before)
    try:
        yield steps
    finally:
        hook.remove()
