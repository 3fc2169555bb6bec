"""What a program uses in a turn and had before it: optimizers with a memory, and random generators of its own. When a turn does not
repeat, a check (check.py, --check-trainer) names them as the likely cause."""
import gc
import random
import sys

import numpy as np


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


def _called(thing):
    names = [name for name, value in vars(sys.modules["__main__"]).items() if value is thing]
    kind = f"{type(thing).__module__.split('.')[0]}'s {type(thing).__name__}"
    return f"{names[0]} ({kind})" if names else kind


class Kept:
    """Made before a turn; used() then names what the turn has used of what was there."""

    def __init__(self):
        self.before = [(thing, _state(thing)) for thing in _things()]

    def used(self):
        return [_called(thing) for thing, state in self.before if _state(thing) != state]
