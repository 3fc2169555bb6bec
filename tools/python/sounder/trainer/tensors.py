"""The tensors that a net exchanges, for nets that are dicts of NumPy's arrays. torch_net.py has the same for modules."""
from fnmatch import fnmatchcase

import numpy as np

from ..command import Error
from .stays import ArrayStays, step_of


def chosen(names, exchange):
    """The names that `exchange` (None, a pattern, or several) takes."""
    patterns = [exchange] if isinstance(exchange, str) else exchange
    if patterns is None:
        return list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise Error(f"exchange {pattern!r}: no tensor has such a name; there are {', '.join(list(names)[:8])}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def views(weights, tensors):
    """{name: a part of weights in that shape}. tensors: (name, shape), one after the other."""
    parts, first = {}, 0
    for name, shape in tensors:
        count = int(np.prod(shape, dtype=np.int64))
        parts[name] = weights[first : first + count].reshape(shape)
        first += count
    return parts


class ArrayNet:
    """A dict of arrays, which become parts of the desk. A complex number travels as a pair."""

    device = None

    def __init__(self, net, exchange=None):
        if not net:
            raise Error("a dict without arrays is no net; give them, as serve({'w': array}, ...), or a function that returns such a dict")
        self.net, self.names = net, chosen(net, exchange)
        self.shapes = {name: np.shape(net[name]) for name in self.names}
        self.complex = {name for name in self.names if np.iscomplexobj(net[name])}
        self.stays = ArrayStays(net, [name for name in net if name not in self.shapes])

    def tensors(self):
        return [(name, (*shape, 2) if name in self.complex else shape) for name, shape in self.shapes.items()]

    def statistics(self):
        return {}

    def values(self):
        values = [np.asarray(self.net[name], np.complex64 if name in self.complex else np.float32) for name in self.names]
        return [np.ascontiguousarray(value).view(np.float32) for value in values]

    def _views(self, floats, tensors):
        parts = views(floats, tensors)
        return {name: part.view(np.complex64).reshape(self.shapes[name]) if name in self.complex else part for name, part in parts.items()}

    def attach(self, desk, tensors):
        check_same(tensors, self.tensors())
        self.on_desk = self._views(desk.weights, tensors)
        self.net.update(self.on_desk)
        self.shifts = self._views(desk.shift, tensors) if desk.shift is not None else {}

    def fetch(self, trains, still=()):
        """Before a turn: the desk has the weights, and the arrays are the desk, whatever a test has put in their place."""
        self.net.update(self.on_desk)

    def store(self):
        """After a turn that trained. A program may have put other arrays in the place of these: net["w"] = net["w"] - step."""
        for name, part in self.on_desk.items():
            now = self.net.get(name)
            if now is part:
                continue
            if np.shape(now) != part.shape or np.iscomplexobj(now) and name not in self.complex:
                raise Error(f"{name} has the shape {list(np.shape(now))} and the type {np.asarray(now).dtype} after a turn, "
                            f"and had {list(part.shape)} and {part.dtype} before it: leave it as it was made, since a run "
                            "averages tensors of fixed shapes (trees have none)")
            part[...] = now
        self.net.update(self.on_desk)

    def factors(self):
        return [(name, self.net[name]) for name in self.names]

    def moves(self):
        return False  # as TorchNet.moves: arrays are in the desk

    def place(self):
        pass

    def batch(self, x, y):
        return x, y

    def batches(self, data, split, indices):
        """(x, y) of each of indices, sample numbers of a split."""
        for taken in indices:
            yield self.batch(taken if split.x is None else data.enter(split.x[taken]), split.y[taken])

    def gradients(self, given, fills):
        """{name: gradient} of what travels. fills: something is to be added to them."""
        if given is None and fills:
            raise Error("turn.correct(): a net of arrays has no gradients of its own; give them: turn.correct({'w': gradient})")
        for name, gradient in (given or {}).items():
            if name not in self.net:
                raise Error(f"turn.correct(): the net has no array {name}; it has {', '.join(list(self.net)[:8])}")
            if not isinstance(gradient, np.ndarray):
                raise Error(f"turn.correct(): {name} is changed in place, which {type(gradient).__name__} does not allow; give np.array(gradient)")
        return {name: gradient for name, gradient in (given or {}).items() if name in self.on_desk}

    def correct(self, gradients, pull, shifts):
        for name, gradient in gradients.items():
            gradient += pull * self.net[name] + (self.shifts[name] if shifts else 0)

    def weights(self):
        return {name: self.net[name] for name in self.on_desk}

    def sums(self):
        """Zeros, (parameters) floats, and their parts by name."""
        floats = np.zeros(sum(value.size for value in self.values()), np.float32)
        return floats, self._views(floats, self.tensors())

    def add_up(self, sums, gradients):
        for name, gradient in gradients.items():
            sums[name] += gradient

    def sample(self, arrays):
        """Some numbers of each array that travels, as one vector; zeros where it is missing."""
        parts = []
        for name, shape in self.shapes.items():
            step = step_of(int(np.prod(shape, dtype=np.int64)), len(self.shapes))
            part = np.ravel(arrays.get(name, np.zeros(shape)))[::step]
            parts.append(part.astype(np.complex128).view(np.float64) if name in self.complex else part.astype(np.float64))
        return np.concatenate(parts)

    def norm(self, gradients):
        return float(np.sqrt(sum(np.linalg.norm(gradient) ** 2 for gradient in gradients.values())))

    def rounding(self):
        return float(np.finfo(np.float32).eps)

    def state(self, floats):
        return floats

    def generator(self, seed):
        return None

    def moved(self, whole):
        """A sentence about an array that does not travel and changed in this turn, or None."""
        return self.stays.moved(whole)


def check_same(told, own):
    """The run's tensors (told) must be the net's (own): a run is resumed with the net that it began with."""
    told, own = ([(name, tuple(shape)) for name, shape in tensors] for tensors in (told, own))
    for (name, shape), (own_name, own_shape) in zip(told, own):
        if name != own_name:
            raise Error(f"the run exchanges a tensor {name}, and the trainer's net has {own_name} in its place; start it with the net of the run")
        if shape != own_shape:
            raise Error(f"{name}: the run has shape {list(shape)}, the trainer's net {list(own_shape)}; start it with the net of the run")
    if len(told) != len(own):
        raise Error(f"the run exchanges {len(told)} tensors, the trainer's net has {len(own)}; start it with the net of the run")
