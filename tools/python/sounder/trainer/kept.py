"""What a program uses in a turn and had before it: optimizers with a memory, random generators of its own, and what its own files and its
modules hold beside tensors. When a turn does not repeat, a check (check.py, --check-trainer) names them as the likely cause."""
import gc
import os
import random
import sys

import numpy as np

from .files import PACKAGE, own_files

LOOKED_AT, DEEP = 64, 3  # of a list or dict: the last ones, which are those that are added


def _state(thing):
    """What changes when an optimizer steps or a generator draws; None for other things."""
    torch = sys.modules.get("torch")
    kind = type(thing)
    if issubclass(kind, np.random.Generator):
        return repr(thing.bit_generator.state)
    if issubclass(kind, np.random.RandomState):
        return repr(thing.get_state())
    if issubclass(kind, random.Random) and not issubclass(kind, random.SystemRandom):
        return thing.getstate()
    if torch and issubclass(kind, torch.Generator):
        return thing.get_state().numpy().tobytes()
    if torch and issubclass(kind, torch.optim.Optimizer):
        values = [value for state in thing.state.values() for value in state.values()]
        return [(id(value), value._version) if torch.is_tensor(value) else value for value in values]
    return None


def _things():
    """All generators and optimizers, but for the generators that are seeded in every turn."""
    torch = sys.modules.get("torch")
    seeded = [np.random.mtrand._rand, random._inst, *((torch.default_generator, *torch.cuda.default_generators) if torch else ())]
    seeded = {id(thing) for thing in seeded}
    kinds = (np.random.Generator, np.random.RandomState, random.Random) + ((torch.Generator, torch.optim.Optimizer) if torch else ())
    found = {}
    for holder in gc.get_objects():
        for thing in gc.get_referents(holder):  # a torch.Generator is not among the objects themselves
            if issubclass(type(thing), kinds) and id(thing) not in seeded:
                found[id(thing)] = thing
    return list(found.values())


def _plain(value, deep=DEEP):
    """What changes when a number, a text, an array or a collection does; None for other things. Arrays in a collection may be the net's."""
    torch = sys.modules.get("torch")
    if isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, np.ndarray) and value.dtype != object and deep == DEEP:
        return (value.shape, value.tobytes())
    if torch and torch.is_tensor(value) and deep == DEEP and value.device.type == "cpu" and value.layout == torch.strided:
        return (tuple(value.shape), value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    if isinstance(value, (list, tuple, set, frozenset, dict)) and deep:
        held = list(value.items() if isinstance(value, dict) else value)[-LOOKED_AT:]
        return (len(value), tuple(_plain(one, deep - 1) for one in held))
    return None


def _is_served():
    """Whether turns are calls of functions. A loop of turns may have its own variables among the program's values."""
    frame = sys._getframe()
    while frame and not (frame.f_code.co_name == "serve" and frame.f_code.co_filename.startswith(PACKAGE)):
        frame = frame.f_back
    return frame is not None


def _held():
    """{name: what it holds}: the values of the program's own files, and the attributes of its modules that are no parts of a net."""
    if not _is_served():
        return {}
    found, files = {}, set(own_files())
    for module in list(sys.modules.values()):
        if os.path.realpath(getattr(module, "__file__", None) or "") in files:
            found.update({name: _plain(value) for name, value in list(vars(module).items()) if not name.startswith("__")})
    torch = sys.modules.get("torch")
    for thing in gc.get_objects() if torch else ():
        if issubclass(type(thing), torch.nn.Module):
            found.update({f"{type(thing).__name__}.{name}": _plain(value) for name, value in list(vars(thing).items())
                          if not name.startswith("_") and name != "training"})
    return {name: state for name, state in found.items() if state is not None}


def _called(thing):
    names = [name for name, value in vars(sys.modules["__main__"]).items() if value is thing]
    kind = f"{type(thing).__module__.split('.')[0]}'s {type(thing).__name__}"
    return f"{names[0]} ({kind})" if names else kind


class Kept:
    """Made before a turn; used() then names what the turn has used of what was there."""

    def __init__(self):
        self.before, self.held = [(thing, _state(thing)) for thing in _things()], _held()

    def used(self):
        things, held = [_called(thing) for thing, state in self.before if _state(thing) != state], _held()
        return things or [name for name, state in self.held.items() if held.get(name) != state]
