"""What does not travel. It must be the same before each turn, whichever process takes the turn, and in each start of the program: the run
records its hash. torch_stays.py has the same for modules."""
import hashlib

import numpy as np

LEAST, MOST = 16, 4096  # numbers of a tensor, and of all of them, that are looked at after each turn
SMALL = 1 << 16         # a tensor of at most so many numbers is compared whole


def step_of(numbers, tensors):
    """One in so many numbers of a tensor is looked at."""
    return 1 if numbers <= SMALL and tensors == 1 else max(1, numbers // max(LEAST, -(-MOST // tensors)))


def digest(name, kind, shape, numbers):
    """16 hexadecimal digits of one tensor. numbers: an array whose bytes lie one after the other."""
    found = hashlib.blake2b(f"{name} {kind} {list(shape)} ".encode(), digest_size=8)
    found.update(memoryview(numbers).cast("B") if numbers.size else b"")
    return found.hexdigest()


def told(digests, floats):
    """What describe and ready tell of the tensors that stay. digests: {name: digest}."""
    every = hashlib.blake2b(" ".join(f"{name} {digests[name]}" for name in sorted(digests)).encode(), digest_size=8)
    return {"tensors": len(digests), "floats": floats, "hash": every.hexdigest() if digests else ""}


def _numbers(value):
    """A value of a dict as an array whose bytes tell whether it changed."""
    value = np.asarray(value)
    return np.frombuffer(repr(value.tolist()).encode(), np.uint8) if value.dtype == object else value


class ArrayStays:
    """The arrays of a dict that do not travel. net: the dict; names: of those."""

    def __init__(self, net, names):
        self.net, self.names = net, names
        self.first = {name: net[name] for name in names}
        self.looked = {name: self._look(name) for name in names}
        self.digests = {name: self._digest(name) for name in names}

    def told(self):
        return told(self.digests, sum(int(np.size(value)) for value in self.first.values()))

    def _digest(self, name):
        value = _numbers(self.net[name])
        return digest(name, value.dtype.str, value.shape, np.ascontiguousarray(value))

    def _look(self, name):
        value = _numbers(self.net[name])
        return value.shape, value.dtype.str, value.reshape(-1)[:: step_of(value.size, 1)].tobytes()

    def moved(self, whole):
        """A sentence about one that changed in this turn, or None. whole: all numbers are looked at."""
        for name in self.names:
            if name not in self.net:
                return f"{name} was taken out of the net in a turn: leave it there"
            same = self._look(name) == self.looked[name]
            if same and (whole or self.net[name] is not self.first[name]):
                same = self._digest(name) == self.digests[name]
            if not same:
                return f"{name} changed in a turn and does not travel: leave it as it is, or exchange it"
        return None
