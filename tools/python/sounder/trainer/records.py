"""Records of arrays and numbers as the floats that a client keeps (turn.state): by their bytes, so that each comes back as it was."""
import numpy as np

from ..command import Error

FLOAT_BYTES = 4


class Records:
    """The form of {record: {key: array, number or list of numbers}}: names, types and shapes, which all clients have in common.

    floats    how many a client keeps: the first says whether there is anything, as there is not before its first turn
    """

    def __init__(self, records, said):
        self.said = said
        self.parts = self._parts(records)
        self.floats = 1 + sum(self._room(value) for _, _, value in self.parts)

    @staticmethod
    def _room(value):
        return -(-value.nbytes // FLOAT_BYTES)

    def _parts(self, records):
        parts = [(name, key, value.numpy() if hasattr(value, "numpy") else np.asarray(value)) for name in sorted(records) for key, value in records[name].items()]
        for name, key, value in parts:
            if value.dtype.kind not in "fiubc":
                raise Error(f"{self.said}[{name!r}][{key!r}] is of {value.dtype}: a client keeps arrays and numbers; leave it out, or keep it in a file of your own")
        return parts

    def write(self, floats, records):
        parts = self._parts(records)
        if [(name, key, value.dtype, value.shape) for name, key, value in parts] != [(name, key, value.dtype, value.shape) for name, key, value in self.parts]:
            raise Error(f"{self.said} has {', '.join(f'{name}/{key} {value.dtype}{list(value.shape)}' for name, key, value in parts) or 'nothing'} after a turn, and "
                        f"{', '.join(f'{name}/{key} {value.dtype}{list(value.shape)}' for name, key, value in self.parts)} after the first: what a client keeps has one form")
        place, floats[0] = 1, 1
        for _, _, value in parts:
            floats[place : place + self._room(value)].view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
            place += self._room(value)

    def read(self, floats):
        """(record, key, array) of each; nothing before the client's first turn."""
        place = 1
        for name, key, like in self.parts if floats[0] else ():
            yield name, key, np.frombuffer(floats[place : place + self._room(like)].tobytes()[: like.nbytes], like.dtype).reshape(like.shape).copy()
            place += self._room(like)
