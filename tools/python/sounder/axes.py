"""How the dimensions of a PyTorch value are stored in a sample's channels, rows and columns, and the steps of a forward that move them."""
from .command import Error
from .functions import FUNCTIONS
from .modules import Settings

# What a value's dimensions are, if not their number: 2 (vectors), 3 (sequences: steps and their values) or 4 (images). All three of these
# are stored as images are, channels first, so that a permute to or from them is no layer.
LINES = "lines of channels"  # (samples, channels, columns): what a Conv1d gives
LAST = "images with their channels last"
PLANES = "images whose rows and columns are one dimension"
DIMENSIONS = {LINES: 3, LAST: 4, PLANES: 3}
_ANYWHERE = {"contiguous", "float", "to", "permute", "Permute", "transpose", "swapaxes", "mean"}
_EACH = {name for function in FUNCTIONS if not function.text_of for name in (function.module, *function.calls)}
_TAKERS = {LAST: {*_ANYWHERE, *_EACH, "Linear", "LayerNorm", "Dropout", "dropout", "Identity", "StochasticDepth", "DropPath", "add", "iadd", "mul", "imul"},
           PLANES: {*_ANYWHERE, *_EACH, "flatten", "Flatten"}}


def dimensions(rank):
    return DIMENSIONS.get(rank, rank or 0)


def is_step(index, number):
    """[:, number] or [:, number, :]"""
    return isinstance(index, tuple) and index[1:2] == (number,) and all(part == slice(None) for part in index[:1] + index[2:])


class Axes:
    """The steps of a NetReader (steps.py) that move dimensions, or take a part of one."""

    def check_takes(self, name, kind, rank):
        if rank in _TAKERS and kind not in _TAKERS[rank]:
            raise Error(f"{name}: takes {rank}, which Sounder's {kind} does not; permute back before it")

    def permute(self, name, node, kind, module):
        """By which dimensions are where: those of images are stored as they were."""
        of = node.all_input_nodes[0]
        rank, place = self.ranks.get(of), self.text.place(of)
        order = list(range(dimensions(rank) or 4))
        if kind in ("transpose", "swapaxes"):
            one, other = node.args[1:]
            if not dimensions(rank):
                order = order[:3]  # of rows: (0, 2, 1)
            order[one], order[other] = order[other], order[one]
        else:
            given = node.args[1:] or tuple(getattr(module, "dims", ()))
            order = [at % len(order) for at in (given[0] if isinstance(given[0], (tuple, list)) else given)]
        if rank is None:
            self.text.work_on_rows(place)
        moved = {(4, (0, 2, 3, 1)): LAST, (None, (0, 2, 3, 1)): LAST, (LAST, (0, 3, 1, 2)): 4}.get((rank, tuple(order)))
        if moved:
            return self.give(node, self.source(name, of), moved)
        if order != [0, 2, 1] or rank not in (None, 3, LINES, PLANES):
            raise Error(f"{name}: dimensions in the order {', '.join(map(str, order))}; Sounder has (0, 2, 1) of sequences and lines, and (0, 2, 3, 1) of images and back")
        self.text.add("transpose", self.source(name, of), name)
        return self.give(node, len(self.text.layers) - 1, 3)

    def mean(self, name, node):
        """x.mean([2, 3]) is a global average, and x.mean(1) that of a sequence's steps."""
        of = node.all_input_nodes[0]
        at = Settings(node, {"dim": None, "keepdim": False, "dtype": None})
        rank, place, layer = self.ranks.get(of), self.text.place(of), "globalpool"
        dims = sorted(at.dim) if isinstance(at.dim, (tuple, list)) else [at.dim]
        extent = dimensions(rank) or 4
        dims = sorted(dim % extent if isinstance(dim, int) and (rank or dim >= 0) else dim for dim in dims) if None not in dims else dims
        wanted = {None: [2, 3], 4: [2, 3], LAST: [1, 2], LINES: [2], PLANES: [2], 3: [1]}.get(rank)
        if dims != wanted:
            raise Error(f"{name}: a mean over dimensions {at.dim}; Sounder has that over rows and columns: [2, 3] of images; and over a sequence's steps: 1")
        if rank == 3:
            layer = "mean"
            if at.keepdim:
                raise Error(f"{name}: keepdim is True; Sounder's mean over steps gives a vector")
        if rank is None:
            self.text.work_on_rows(place)
        self.text.add(layer, self.source(name, of), name)
        self.give(node, len(self.text.layers) - 1, (LINES if rank in (LINES, PLANES) else rank or 4) if at.keepdim else 2)

    def first_step(self, name, node, of):
        if self.ranks.get(of) != 3:
            raise Error(f"{name}: a part of a value; Sounder takes the first step of a sequence, and of images parts by chunk(PARTS, 1)")
        self.text.add("first", self.source(name, of), name)
        self.give(node, len(self.text.layers) - 1, 2)

    def last_step(self, name, node, of):
        """Of an lstm or a gru of which nothing else is taken it is what that gives."""
        place = self.text.place(of)
        if self.ranks.get(of) == 3 and (self.text.word(place) not in ("lstm", "gru") or place in self.wholes):
            self.text.add("last", self.source(name, of), name)
            return self.give(node, len(self.text.layers) - 1, 2)
        if place < 0 or self.text.word(place) not in ("lstm", "gru") or place in self.wholes:
            raise Error(f"{name}: the last step of a sequence; Sounder gives it of a sequence, or of an LSTM or GRU of which nothing else is taken")
        if place not in self.lasts:
            lstm, *source = self.text.layers[place].split(" from ")
            self.text.layers[place] = " from ".join([f"{lstm} last", *source])
        self.lasts[place] = name
        return self.give(node, place, 2)

    def chunk(self, name, node):
        """Parts of the channels, of which each is a layer where it is taken."""
        of = node.all_input_nodes[0]
        at, rank = Settings(node, {"chunks": None, "dim": 0}), self.ranks.get(of)
        if at.dim != 1 or not isinstance(at.chunks, int) or rank == 3:
            raise Error(f"{name}: {at.chunks} parts along dimension {at.dim}; Sounder has parts of channels: dimension 1 of images or vectors")
        self.source(name, of)
        self.give(node, self.text.place(of), rank)
        self.tuples[node] = ("chunk", at.chunks)

    def take_chunk(self, name, node, of, index, count):
        self.text.add(f"chunk {index % count + 1} {count}", self.text.place(of), name)
        self.give(node, len(self.text.layers) - 1, self.ranks.get(of))
