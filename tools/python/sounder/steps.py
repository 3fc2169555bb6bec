"""From the steps of a PyTorch module's forward to a layer list."""
import collections

from .axes import LAST, LINES, PLANES, Axes, is_step, dimensions
from .command import Error
from .modules import ORDINALS, biased, call_name, embedding_layer, kind_of, layer_of, tensors_by_layer, must
from .trace import JOINS, KEEP_SHAPE, SHAPES, as_it_came, asks_for_a_size, counts_with_sizes, extent_of, extents_in


class _Text:
    """A layer list as it grows, where in it each traced value comes from, and where each layer takes its values; -1 is the net's
    input."""

    def __init__(self):
        self.layers, self.sources, self.names, self.places, self.joined = [], [], {}, {}, {}

    def place(self, node):
        return self.places.get(node, -1)

    def word(self, place):
        return self.layers[place].split()[0] if place >= 0 else ""

    def gives_vector(self, place):
        """Whether what the layer there gives is surely one value a channel."""
        while self.word(place) in KEEP_SHAPE:
            place = self.sources[place][0]
        return self.word(place) == "linear" and " each" not in self.layers[place]

    def of_unknown_rows(self, place):
        """The layers up to this one that work on vectors or on rows, whichever the net's input has."""
        left, found = [place], set()
        while left:
            place = left.pop()
            if place not in found and self.word(place) in (*KEEP_SHAPE, "linear", "add", "groupnorm", "dropout2d"):
                found.add(place)
                left += self.sources[place]
        return [place for place in found if self.word(place) in ("linear", "layernorm") and " each" not in self.layers[place]]

    def work_on_rows(self, place):
        """The net's input has them."""
        for found in self.of_unknown_rows(place):
            words = self.layers[found].split()
            words.insert(2 if words[0] == "linear" else 1, "each")
            self.layers[found] = " ".join(words)

    def named(self, place, of):
        if place < 0:
            raise Error(f"{of}: takes the net's input besides what the layer before it gives; Sounder has no name for that")
        return self.names.setdefault(place, f"v{len(self.names) + 1}")

    def add(self, text, source, of):
        """text: of one layer, or of several that follow each other."""
        last = len(self.layers) - 1
        first, *others = text.split("; ")
        self.layers += [first if source == last else f"{first} from {self.named(source, of)}", *others]
        self.sources += [[source], *([place] for place in range(last + 1, len(self.layers) - 1))]

    def join(self, word, places, of):
        """Adds, multiplies or concatenates, and returns the place of the result; one of the values may come from the layer right before, if the order does not matter."""
        last = len(self.layers) - 1
        if word in ("add", "mul"):
            places = sorted(places, key=lambda place: place != last)
        source = places[0]
        for number, place in enumerate(places[1:], 2):
            joined = (word, *places[:number])
            if joined not in self.joined:  # a dense net joins what it has joined before, and one value more
                self.add(f"{word} {self.named(place, of)}", source, of)
                self.joined[joined] = len(self.layers) - 1
                self.sources[-1].append(place)
            source = self.joined[joined]
        return source

    def text(self):
        return "; ".join(text + (f" as {self.names[place]}" if place in self.names else "") for place, text in enumerate(self.layers))


# Dimensions of what a step gives, samples among them; of others it is what they take.
_RANKS = {"Conv2d": 4, "MaxPool2d": 4, "AvgPool2d": 4, "AdaptiveAvgPool2d": 4, "max_pool2d": 4, "avg_pool2d": 4, "BatchNorm2d": 4, "Conv1d": LINES,
          "Dropout2d": 4, "dropout2d": 4, "adaptive_avg_pool2d": 4, "Embedding": 3, "LSTM": 3, "GRU": 3, "MultiheadAttention": 3,
          "ChannelShuffle": 4, "channel_shuffle": 4, "LayerNorm2d": 4}
# What the parts of what a module gives are.
_TUPLES = {("LSTM", 0): "sequence", ("LSTM", 1): "states", ("states", 0): "hidden", ("GRU", 0): "sequence", ("GRU", 1): "hidden",
           ("MultiheadAttention", 0): "sequence"}


# A step of a traced net, and of the values that it takes those that are the net's own (constants) and the others (inputs).
_Step = collections.namedtuple("_Step", "name node module kind inputs constants")


class NetReader(Axes):
    """From the steps of a traced net to its text. ranks: dimensions of a value, if they are known; tuples: values that are one;
    counted: values that are the numbers of all steps, with how many these are or of which value they are the second extent;
    places: what an embedding has for them, and that value; zeros: values that are all 0; numbers: what an embedding of a sample's numbers takes; tensors: (word,
    [(name, parameter)]) of each layer; order: of the steps."""

    def __init__(self, net):
        self.net, self.text, self.ranks, self.tuples, self.wholes, self.lasts = net, _Text(), {}, {}, set(), {}
        self.counted, self.places, self.numbers, self.tensors, self.order, self.kind = {}, {}, set(), [], {}, "output"
        self.zeros = set()

    def source(self, name, node):
        """The place of a value that a layer takes."""
        place = self.text.place(node)
        if node in self.counted or node in self.places:
            raise Error(f"{name}: takes {node.name}, which is of a sequence's steps alone; Sounder adds such to a sequence, as positions")
        if node in self.zeros:
            raise Error(f"{name}: takes zeros; Sounder's LSTM and GRU begin with such, and nothing else has them")
        if node in self.tuples:
            raise Error(f"{name}: takes all that {node.name} gives; Sounder goes on with its output, the first of that")
        self.check_takes(name, self.kind, self.ranks.get(node))
        if self.ranks.get(node) == 3:
            self.wholes.add(place)
        if self.ranks.get(node) == 3 and place in self.lasts:
            raise Error(f"{name}: takes all steps of what {self.lasts[place]} takes the last one of; Sounder's {self.text.word(place)} gives either")
        return place

    def give(self, node, place, rank):
        self.text.places[node], self.ranks[node] = place, rank

    def take_part(self, name, node):
        """output, (hidden, cell) = lstm(x); output[:, -1]; hidden[-1]; attended, _ = attention(x, x, x)"""
        of, index = node.args
        what, layers = self.tuples.get(of, (None, 0))
        if not node.users:
            return
        if what == "chunk" and isinstance(index, int):
            self.take_chunk(name, node, of, index, layers)
        elif isinstance(index, int) and (what, index) in _TUPLES:
            gives = _TUPLES[what, index]
            self.give(node, self.text.place(of), 3 if gives == "sequence" else None)
            if gives != "sequence":
                self.tuples[node] = (gives, layers)
        elif (what == "hidden" and index in (-1, layers - 1)) or (what is None and is_step(index, -1)):
            self.last_step(name, node, of)
        elif what is None and is_step(index, 0):
            self.first_step(name, node, of)
        else:
            raise Error(f"{name}: a part of a value; Sounder takes an LSTM's output, a sequence's first or last step, or what an attention gives")

    def check_rows(self, name, of):
        if self.ranks.get(of) is None and self.text.of_unknown_rows(self.text.place(of)):
            raise Error(f"{name}: flattens what a Linear or LayerNorm makes of the net's input, whole or row by row; flatten first, or squeeze(1) for rows")

    def flatten(self, name, node, module):
        of, ends = node.all_input_nodes[0], (*node.args[1:], *[None] * 2)
        start, end = (node.kwargs.get(what, given if given is not None else getattr(module, what, preset))
                      for what, given, preset in (("start_dim", ends[0], 1), ("end_dim", ends[1], -1)))
        rank = self.ranks.get(of)
        if (rank, start) in ((4, 2), (LINES, 2)) and end in (-1, 3):
            return self.give(node, self.source(name, of), LINES if rank == LINES else PLANES)
        must(name, "start_dim", start, 1)
        must(name, "end_dim", -1 if end == dimensions(rank) - 1 else end, -1)
        self.check_rows(name, of)
        self.give(node, self.source(name, of), 2)

    def check_view(self, name, of, extents):
        """A view gives images or vectors, and joins no samples."""
        rank, place = self.ranks.get(of), self.text.place(of)
        as_factors = len(extents) == 4 and tuple(extents[2:]) == (1, 1) and rank == 2  # of channels
        if len(extents) != 2 and not as_factors and (len(extents) != 4 or place >= 0):
            raise Error(f"{name}: a view of {len(extents)} dimensions; Sounder's layers go on with the shape they take, "
                        "and rows of images are squeeze(1)")
        if rank == 3 and isinstance(extents[0], int):
            raise Error(f"{name}: a view that may join samples and steps; flatten(1) joins the steps of each sample")
        count = dimensions(rank) or 4
        if counts_with_sizes(extents[0]) or extent_of(extents[0]) or \
                (counts_with_sizes(extents[1]) and extents_in(extents[1], count) != [*range(1, count)]):
            raise Error(f"{name}: a view that may join samples and channels; flatten(1) joins each sample's values")

    def view(self, name, node):
        """As images or vectors, in the same order."""
        of, extents = node.all_input_nodes[0], node.args[1:]
        extents = extents[0] if extents and isinstance(extents[0], (tuple, list)) else extents
        self.check_view(name, of, extents)
        self.check_rows(name, of)
        self.give(node, self.source(name, of), len(extents))

    def squeeze(self, name, node, kind):
        """Of a single channel, which sequences have; the rows and columns of a global average; the one layer of an LSTM's state."""
        of = node.all_input_nodes[0]
        dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        rank, place = self.ranks.get(of), self.text.place(of)
        if kind == "squeeze" and dim == 0 and self.tuples.get(of) == ("hidden", 1):
            return self.last_step(name, node, of)
        if kind == "squeeze" and self.text.word(place) == "globalpool" and dim in (-1, -2, 2, 3):
            return self.give(node, self.source(name, of), dimensions(rank) - 1)
        must(name, "dim", dim, 1)
        if rank is None:
            self.text.work_on_rows(place)
        return self.give(node, self.source(name, of), 3 if kind == "squeeze" else 4)

    def kind_of_to(self, name, node):
        """The method that x.to(...) stands for: another device changes nothing, a type may."""
        import torch

        types = [value for value in (*node.args[1:], *node.kwargs.values()) if isinstance(value, torch.dtype)]
        names = {torch.float32: "float", torch.int64: "long", torch.int32: "int"}
        if types and types[0] not in names:
            raise Error(f"{name}: to {types[0]}; Sounder computes with float32")
        return names[types[0]] if types else "float"

    def attend(self, name, node, layer):
        import torch

        of = dict(zip(("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"), node.args), **node.kwargs)
        if not of["query"] is of["key"] is of["value"]:
            raise Error(f"{name}: attends to another value than its own; Sounder's attention is of a sequence to itself")
        must(name, "key_padding_mask", of.get("key_padding_mask"), None)
        mask = of.get("attn_mask")
        if mask is None:
            return layer
        value = self.net
        for part in mask.target.split(".") if mask.op == "get_attr" else ():
            value = getattr(value, part)
        hidden = value if mask.op == "get_attr" and value.dtype == torch.bool else mask.op == "get_attr" and value == float("-inf")
        if mask.op != "get_attr" or value.dim() != 2 or not torch.equal(hidden, torch.ones_like(hidden).triu(1)) or \
                (value.dtype != torch.bool and value[~hidden].any()):
            raise Error(f"{name}: its attn_mask is no constant that hides what comes behind a step; Sounder has no other")
        return f"{layer} causal"

    def constant(self, node):
        """The tensor of the net that a step names, or makes of such by its shape alone; None: it is something else."""
        if node.op != "get_attr":
            of = self.constant(node.args[0]) if call_name(node) in SHAPES and getattr(node.args[0], "op", "") in ("get_attr", "call_method") else None
            return None if of is None else getattr(of, call_name(node))(*node.args[1:])
        value = self.net
        for part in node.target.split("."):
            value = getattr(value, part)
        return value

    def count_steps(self, name, node):
        """arange(12), arange(x.size(1)) or arange(0, x.shape[1]): the numbers of a sequence's steps, for an embedding."""
        *start, end = node.args or [None]
        sized = extent_of(end)
        if start not in ([], [0]) or not (sized or isinstance(end, int)) or set(node.kwargs) - {"device", "dtype"}:
            raise Error(f"{name}: Sounder has no arange but of a sequence's steps, from 0 on, for an embedding of positions")
        self.counted[node] = (None, sized) if sized else (end, None)

    def take_table(self, name, node, module):
        """An embedding of the numbers 0, 1, ... of a sequence's steps. False: it is of other numbers."""
        of = node.all_input_nodes[0]
        if of.op == "get_attr":
            numbers = self.constant(of)
            if numbers.dim() not in (1, 2) or numbers.numel() != numbers.shape[-1] or numbers.flatten().tolist() != [*range(numbers.numel())]:
                raise Error(f"{of.target}: a parameter outside a layer; Sounder's belong to layers")
            self.counted[of] = (numbers.numel(), None)
        if of in self.counted:
            count, sized = self.counted[of]
            embedding_layer(name, module)
            if count not in (None, len(module.weight)):
                raise Error(f"{name}: {len(module.weight)} vectors for {count} steps; Sounder's positions are as many as the steps")
            self.places[node] = (module.weight, sized)
        else:
            self.numbers.add(as_it_came(of))
        return of in self.counted

    def add_positions(self, name, node, of, positions):
        """x + a parameter, or x + an embedding of the steps' numbers."""
        tensor, sized = self.places.get(positions) or (self.constant(positions), None)
        must(name, "alpha", node.kwargs.get("alpha", 1), 1)
        if self.ranks.get(of) != 3 or tensor.dim() not in (2, 3) or tensor.shape[:-2].numel() != 1 or 1 in tensor.shape[-2:]:
            raise Error(f"{name}: a parameter outside a layer; Sounder adds such to sequences alone, a vector for each step")
        if sized is not None and self.ranks.get(sized) != 3 and as_it_came(sized) not in self.numbers:
            raise Error(f"{name}: positions as many as {sized.name} has of another dimension than the sequence's steps")
        if not tensor.requires_grad:
            raise Error(f"{name}: constant vectors of positions; make them an nn.Parameter, and name them to the run: freeze=\"positions1.*\"")
        if any(own.data_ptr() == tensor.data_ptr() for _, layer in self.tensors for _, own in layer):
            raise Error(f"{name}: adds what is another layer's, too; Sounder's layers have weights of their own")
        self.text.add("positions", self.source(name, of), name)
        self.tensors.append(("positions", [("weight", tensor.view(tensor.shape[-2:]))]))
        self.give(node, len(self.text.layers) - 1, 3)

    def scale(self, name, node, of, factor):
        """x times a parameter, a factor for each channel: a convolution of each channel by itself, of one place."""
        value, rank = self.constant(factor), self.ranks.get(of)
        channels = value.numel()
        seen = {2: (channels,), 4: (channels, 1, 1), LINES: (channels, 1), LAST: (channels,)}.get(rank)
        if seen is None or tuple(value.shape) not in (seen, (1,) * (dimensions(rank) - len(seen)) + seen) or not value.requires_grad:
            raise Error(f"{factor.name}: a parameter outside a layer; Sounder multiplies by such where it has one learnt factor per channel")
        self.text.add(f"conv {channels} 1 groups {channels} nobias", self.source(name, of), name)
        self.tensors.append(("conv", [("weight", value.view(channels, 1, 1, 1))]))
        self.give(node, len(self.text.layers) - 1, rank)

    def check_shape(self, name, kind, place, rank):
        """Whether Sounder's layer computes the same for a value of these dimensions."""
        if kind == "BatchNorm1d" and rank != LINES and not self.text.gives_vector(place):
            raise Error(f"{name}: Sounder's batchnorm is over channels: a BatchNorm1d has to follow a Linear or a Conv1d")
        if kind == "AdaptiveAvgPool1d" and rank != LINES:
            raise Error(f"{name}: Sounder's average is over channels: an AdaptiveAvgPool1d has to follow a Conv1d")
        if kind == "Conv1d" and rank not in (None, 3, LINES):
            raise Error(f"{name}: a Conv1d of {rank if rank in (LAST, PLANES) else f'{rank} dimensions'}; Sounder's takes lines")
        if rank == 3 and kind in ("GroupNorm", "Dropout2d", "dropout2d"):
            raise Error(f"{name}: {kind} of a sequence takes its steps for channels; Sounder's has one channel there")

    def shaped(self, name, layer, kind, node, module):
        """The layer for the dimensions of what it takes."""
        rank, place = self.ranks.get(node), self.text.place(node)
        self.check_shape(name, kind, place, rank)
        if rank is None and kind in _RANKS:
            self.text.work_on_rows(place)
        if rank == LAST and kind == "LayerNorm":
            return layer.replace("layernorm", "layernorm channels")
        if rank == LAST and kind == "Linear":
            return biased(f"conv {module.out_features} 1", module)
        of_rows = kind == "Linear" or (kind == "LayerNorm" and len(module.normalized_shape) == 1)
        if rank not in (3, 4, LINES) or not of_rows:
            return layer
        words = layer.split()
        words.insert(2 if kind == "Linear" else 1, "each")
        return " ".join(words)

    def tensors_of(self, kind, rank, module):
        """The layers' parameters. Of channels that are last, a Linear is a convolution of single places."""
        if kind == "Linear" and rank == LAST:
            weight = module.weight.view(*module.weight.shape, 1, 1)
            return [("conv", [("weight", weight), *([("bias", module.bias)] if module.bias is not None else [])])]
        return [(ORDINALS[kind], tensors) for tensors in tensors_by_layer(module)]

    def join(self, name, node, kind, inputs):
        ranks = [self.ranks.get(one) for one in inputs]
        known = next((rank for rank in ranks if rank), None)
        dim = node.kwargs.get("dim", node.kwargs.get("axis", node.args[1] if len(node.args) > 1 else 0))
        if JOINS[kind] == "concat" and (known == 3 or dim not in ((1, -1) if known == 2 else (1, -3) if known == 4 else (1, -2) if known == LINES else (1,))):
            raise Error(f"{name}: joins along dimension {dim}; Sounder joins channels: dimension 1 of images or vectors")
        must(name, "alpha", node.kwargs.get("alpha", 1), 1)
        self.give(node, self.text.join(JOINS[kind], [self.source(name, one) for one in inputs], name), known)

    def pass_on(self, name, node, of):
        """The step gives what it takes."""
        self.give(node, self.source(name, of), self.ranks.get(of))

    def squeeze_step(self, step):
        of = step.node.all_input_nodes[0]
        if step.kind == "unsqueeze" and of in self.counted and call_name(of) == "arange" and step.node.args[1:] == (0,):
            self.counted[step.node] = self.counted[of]
        else:
            self.squeeze(step.name, step.node, step.kind)

    def change_type(self, step):
        """False: whole numbers of what a layer gives, which no layer computes."""
        if step.inputs and step.inputs[0] in self.zeros:
            return self.zeros.add(step.node)
        kind = self.kind_of_to(step.name, step.node) if step.kind == "to" else step.kind
        if kind in ("long", "int") and self.text.place(step.inputs[0]) >= 0:
            return False
        return self.pass_on(step.name, step.node, step.inputs[0])

    def join_step(self, step):
        """Of several values, or of a value and a parameter. False: it joins none."""
        word, inputs, node = JOINS[step.kind], step.inputs, step.node
        if word == "concat":
            inputs = [*node.kwargs.get("tensors", node.args[0] if node.args else ())]  # all_input_nodes has each value once
        if word == "concat" and len(inputs) == 1:
            return self.pass_on(step.name, node, inputs[0])
        if len(inputs) > 1:
            return self.join(step.name, node, step.kind, inputs)
        if word not in ("add", "mul") or not len(inputs) == len(step.constants) == 1:
            return False
        return (self.add_positions if word == "add" else self.scale)(step.name, node, *inputs, *step.constants)

    def check_in_place(self, step):
        node, module = step.node, step.module
        in_place = step.kind == "iadd" or step.kind.endswith("_") or getattr(module, "inplace", False) or node.kwargs.get("inplace")
        if in_place and any(self.order.get(user, -1) > self.order[node] for user in step.inputs[0].users):
            raise Error(f"{step.name}: changes in place what is taken again behind it; let it give a value of its own")

    def add_layer(self, step):
        name, node, module, kind = step.name, step.node, step.module, step.kind
        layer = layer_of(name, node, module)
        if module is not None and any(not parameter.requires_grad for parameter in module.parameters()):
            raise Error(f"{name}: has frozen weights (requires_grad is False); let them learn here, and name them to the run: freeze=\"...\"")
        if kind == "MultiheadAttention":
            layer = self.attend(name, node, layer)
        inputs = [own for own in step.inputs if own not in self.zeros or kind not in ("LSTM", "GRU")]  # which begin with 0
        if len(inputs) != 1:
            raise Error(f"{name}: {kind} of {len(inputs)} values; Sounder's takes what one layer gives")
        (of,) = inputs
        if kind in ("LSTM", "GRU", "MultiheadAttention"):
            self.tuples[node] = (kind, getattr(module, "num_layers", 0))
        place, rank = self.source(name, of), self.ranks.get(of)
        if module is not None and kind in ORDINALS:
            self.tensors += self.tensors_of(kind, rank, module)
        if layer:
            self.text.add(self.shaped(name, layer, kind, of, module), place, name)
            place = len(self.text.layers) - 1
        self.give(node, place, LINES if rank == LINES else 2 if kind == "BatchNorm1d" else _RANKS.get(kind, rank))

    def step(self, name, node, module):
        self.kind = kind = kind_of(node, module)
        if self.constant(node) is not None:
            return
        constants = [own for own in node.all_input_nodes if own in self.places or self.constant(own) is not None]
        inputs = [own for own in node.all_input_nodes if not asks_for_a_size(own) and own not in constants]
        step = _Step(name, node, module, kind, inputs, constants)
        self.check_in_place(step)
        if kind not in _STEPS or _STEPS[kind](self, step) is False:
            self.add_layer(step)


# What is done with the steps of each kind; of the other kinds, and where it gives False, a step is a layer.
_STEPS = {
    "getitem": lambda reader, step: reader.take_part(step.name, step.node),
    **dict.fromkeys(("Flatten", "flatten"), lambda reader, step: reader.flatten(step.name, step.node, step.module)),
    "expand_as": lambda reader, step: reader.pass_on(step.name, step.node, step.inputs[0]),  # a product spreads its factors by itself
    **dict.fromkeys(("view", "reshape"), lambda reader, step: reader.view(step.name, step.node)),
    **dict.fromkeys(("squeeze", "unsqueeze"), NetReader.squeeze_step),
    **dict.fromkeys(("permute", "Permute", "transpose", "swapaxes"),
                    lambda reader, step: reader.permute(step.name, step.node, step.kind, step.module)),
    "mean": lambda reader, step: reader.mean(step.name, step.node),
    "chunk": lambda reader, step: reader.chunk(step.name, step.node),
    **dict.fromkeys(("to", "contiguous", "float", "long", "int"), NetReader.change_type),
    **dict.fromkeys(JOINS, NetReader.join_step),
    **dict.fromkeys(("zeros", "new_zeros", "zeros_like"), lambda reader, step: reader.zeros.add(step.node)),
    "arange": lambda reader, step: reader.count_steps(step.name, step.node),
    "Embedding": lambda reader, step: reader.take_table(step.name, step.node, step.module),
}
