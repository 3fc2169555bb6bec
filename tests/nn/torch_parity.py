"""Compares sounder's nets with PyTorch: same weights, same batches, no dropout; logits, then 20 SGD steps.

usage: torch_parity.py NET_STEPS_EXECUTABLE. Exits 77 (skipped) where PyTorch cannot be imported.
"""
import collections
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from torch import nn
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

STEPS, LR, MOMENTUM, TOLERANCE = 20, 0.01, 0.5, 1e-4
GREY, COLOUR = (1, 28, 28), (3, 32, 32)
RESNET8 = ("conv 16 3 pad 1; groupnorm 8; relu as a; conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1; groupnorm 8; add a; relu as b; "
           "conv 32 3 stride 2 pad 1; groupnorm 8; relu; conv 32 3 pad 1; groupnorm 8 as c1; conv 32 1 stride 2 from b; groupnorm 8; "
           "add c1; relu as c; conv 64 3 stride 2 pad 1; groupnorm 8; relu; conv 64 3 pad 1; groupnorm 8 as d1; conv 64 1 stride 2 from "
           "c; groupnorm 8; add d1; relu; globalpool; linear 10")
# name, text, input, batch, weight decay; steps, if not STEPS
NETS = [
    ("lenet", "conv 10 5; pool 2; relu; conv 20 5; pool 2; relu; linear 50; relu; linear 10", GREY, 64, 0),
    ("lenet, weight decay", "conv 10 5; pool 2; relu; conv 20 5; pool 2; relu; linear 50; relu; linear 10", GREY, 10, 0.1),
    ("2nn", "linear 200; relu; linear 200; relu; linear 10", GREY, 10, 0),
    ("cnn", "conv 32 5 pad 2; relu; pool 2; conv 64 5 pad 2; relu; pool 2; linear 512; relu; linear 10", GREY, 10, 0),
    ("wide", "linear 1100; relu; linear 1000; relu; linear 10", COLOUR, 100, 0.01, 6), # through OpenBLAS
    ("functions", "conv 8 5; tanh; pool 3 stride 2 pad 1; conv 12 3; gelu; avgpool 3x2 stride 2x1 pad 1; leakyrelu 0.1; "
     "linear 40; sigmoid; linear 10", GREY, 10, 0),
    ("strides and groups", "conv 8 3 stride 2 pad 1; relu; conv 12 3x5 groups 4 pad 1x2; relu; conv 12 3 dilation 2 pad 2 "
     "groups 12; conv 20 1 stride 2; relu; linear 10", GREY, 10, 0),
    ("residuals and norms", "conv 8 3 stride 2 pad 1; groupnorm 4; relu as a; conv 8 3 pad 1; groupnorm 2; add a; relu as b; "
     "conv 12 3 stride 2 pad 1; layernorm; tanh as c; conv 12 1 stride 2 from b; add c; concat c; globalpool; linear 30; layernorm; "
     "relu; linear 10", GREY, 10, 0.01),
    ("batch norms", "conv 8 3 pad 1; batchnorm; tanh; conv 8 3 stride 2 pad 1; batchnorm; gelu; avgpool 2; linear 30; batchnorm; "
     "gelu; linear 10", GREY, 21, 0.01),
    # A ReLU at zero takes one side or the other by the last bit: after eight steps PyTorch in float32 and in float64 are 1% apart.
    ("resnet8", RESNET8, COLOUR, 10, 0, 2),
    ("resnet8, smooth", RESNET8.replace("relu", "gelu"), COLOUR, 10, 0),
    ("squeeze and excitation", "conv 8 3 pad 1 nobias; batchnorm eps 0.001 momentum 0.02; silu as a; globalpool; conv 2 1; silu; conv 8 1; sigmoid; mul a as b; "
     "conv 8 3 groups 8 pad 1 stride 2 nobias; groupnorm 2 eps 0.01; hardswish as c; conv 8 1 nobias; hardsigmoid; mul c; conv 12 3 pad 1 nobias; gelu as d; "
     "globalpool from d as e; mul e from d; layernorm eps 1e-3; conv 16 1 nobias; tanh; linear 10", GREY, 21, 0.01),
    ("ceil and a grid", "conv 8 5; tanh; pool 3 stride 2 ceil; conv 8 1; gelu; pool 2 ceil; conv 12 1; globalpool 3x2; tanh; avgpool 1x2 ceil; linear 10",
     (1, 27, 27), 10, 0),
    ("no bias, linear", "linear 9 each nobias; gelu; linear 40 nobias; silu; linear 10 nobias", (1, 10, 9), 21, 0.01),
    ("no bias, wide", "linear 1100 nobias; gelu; linear 900; gelu; linear 10 nobias", COLOUR, 100, 0.01, 6), # through OpenBLAS
    ("means, first and last steps", "embedding 256 8 as e; linear 12 each; tanh as a; mean; linear 9 as b; last from a; linear 9; mul b as c; mean from e; linear 9; add c as d; first from a; linear 9; add d; "
     "linear 10", (1, 1, 12), 21, 0.01),
    ("lines", "conv1d 8 5 pad 2; batchnorm; gelu; conv1d 12 3 stride 2 dilation 2 groups 4 nobias; gelu; pool 1x2; transpose; gru 7; mean; linear 10", (1, 4, 31), 21, 0.01),
    ("text of lines", "embedding 256 6; transpose; conv1d 8 3; tanh; conv1d 5 1; gelu; globalpool; linear 10", (1, 1, 14), 10, 0),
    ("shuffles", "conv 12 3 stride 2 as a; chunk 1 2 as b; chunk 2 2 from a; conv 6 3 pad 1 groups 6; gelu; concat b; shuffle 2 as c; chunk 3 3 from c; "
     "shuffle 4; conv 8 1; tanh; transpose; linear 5 each; attention 1; transpose; linear 10", (3, 16, 15), 10, 0.01),
    ("norms of channels", "conv 8 3 pad 1; layernorm channels; gelu as a; conv 8 5 pad 2 groups 8; layernorm channels eps 1e-6; conv 16 1; gelu; conv 8 1; add a; "
     "pool 2; layernorm channels; relu6; globalpool; layernorm channels eps 1e-3; linear 10", (3, 14, 11), 21, 0.01),
    ("gru", "embedding 256 8; gru 20; gru 13 last; linear 10", (1, 1, 12), 21, 0.01),
    ("rows of pixels by a gru", "conv 1 3; gru 24; gelu; linear 10", (1, 10, 9), 10, 0),
    ("a grid that does not divide", "conv 8 5; tanh; globalpool 5x9; gelu; conv 6 1; globalpool 7; tanh; conv 4 1; globalpool 3x2; linear 10", (1, 17, 16), 10, 0),
    ("no bias, rectified", "conv 8 3 nobias; relu; conv 16 3 nobias; relu; conv 16 5 nobias; relu; conv 20 1 nobias; relu; conv 8 3 stride 2 nobias; relu; "
     "linear 10", GREY, 10, 0, 5),
    ("characters", "embedding 256 8; lstm 20; lstm 13 last; linear 10", (1, 1, 12), 21, 0.01),
    ("rows of pixels", "conv 1 3; lstm 24; relu; linear 10", (1, 10, 9), 10, 0),
    ("steps by themselves", "embedding 256 8; linear 33 each; gelu; linear 6 each; lstm 9; linear 10", (1, 1, 12), 21, 0.01),
    ("attention", "embedding 256 12; attention 3; linear 7 each; tanh; attention 1 causal; lstm 9; linear 10", (1, 1, 12), 21, 0.01),
    ("transformer's block", "embedding 256 16 as e; attention 4 causal; add e; layernorm each as n; linear 32 each; gelu; linear 16 each; "
     "add n; layernorm each; linear 10", (1, 1, 12), 10, 0),
    ("transformer", "embedding 256 16; positions as e; attention 4; add e; layernorm each as n; linear 32 each; relu; linear 16 each; add n; "
     "layernorm each; linear 10", (1, 1, 12), 10, 0.01),
    ("rows of an image", "linear 12 each; positions; attention 3; tanh; linear 10", (1, 10, 9), 21, 0),
    ("rows by themselves", "linear 20 each; relu; conv 4 3; linear 7 each; tanh; linear 10", COLOUR, 10, 0.01),
    ("global", "conv 16 3; relu; pool 3x2 stride 2x3 pad 1; conv 10 3; leakyrelu; globalpool", COLOUR, 20, 0.01),
    ("cifar-cnn", "conv 32 3; relu; conv 64 3; relu; pool 2; linear 128; relu; linear 10", COLOUR, 10, 0),
]


def sides(word):
    """A side, or rows and columns as in 3x5."""
    return tuple(int(side) for side in (word.split("x") * 2)[:2])


def keys(words):
    """What follows a layer's first numbers: {"stride": "2", ...}."""
    return dict(zip(words[::2], words[1::2]))


def numbers(words):
    """eps 1e-3 momentum 0.01 as PyTorch takes them."""
    return {key: float(number) for key, number in keys(words).items()}


# Layers without parameters that keep the shape: a word and its numbers, or none.
FUNCTIONS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "leakyrelu": nn.LeakyReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU, "elu": nn.ELU,
             "silu": nn.SiLU, "hardsigmoid": nn.Hardsigmoid, "hardswish": nn.Hardswish,
             "dropout": nn.Identity, "dropout2d": nn.Identity, "droppath": nn.Identity}  # nothing is dropped here
FUNCTION_TEXTS = ["relu", "relu6", "leakyrelu", "leakyrelu 0.2", "tanh", "sigmoid", "gelu", "elu", "elu 0.4", "silu", "hardsigmoid", "hardswish",
                  "prelu", "prelu shared", "dropout 0.3", "dropout2d 0.3", "droppath 0.3"]
NETS += [(text, f"conv 4 3; {text}; linear 20; {text}; linear 10", (1, 10, 9), 10, 0) for text in FUNCTION_TEXTS]


class Net(nn.Module):
    """The net that a text describes, with the names that sounder gives to its tensors."""

    def __init__(self, text, shape):
        super().__init__()
        self.steps, self.counts, values, names = [], collections.Counter(), [], {}
        for layer in text.split(";"):
            word, *words = layer.split()
            source, name = len(values) - 1, None
            while words[-2:-1] in (["from"], ["as"]):
                if words[-2] == "from":
                    source = names[words[-1]]
                else:
                    name = words[-1]
                words = words[:-2]
            seen = values[source] if source >= 0 else torch.zeros(1, *shape) - 1
            if word in ("add", "mul", "concat"):
                self.steps.append((word, source, names[words[0]]))
            else:
                self.steps.append((self.layer(word, words, seen), source, None))
            values.append(self.step(self.steps[-1], values, torch.zeros(1, *shape) - 1))
            if name:
                names[name] = len(values) - 1

    @staticmethod
    def step(step, values, inputs):
        what, source, other = step
        value = values[source] if source >= 0 else inputs
        if what == "add":
            return value + values[other]
        if what == "mul":
            return value * values[other]
        return torch.cat([value, values[other]], 1) if what == "concat" else what(value)

    def forward(self, inputs):
        values = []
        for step in self.steps:
            values.append(self.step(step, values, inputs))
        return values[-1].flatten(1)

    def named(self, kind, layer):
        layer.eval() # until training begins: a batch norm counts what it sees
        self.counts[kind] += 1
        self.add_module(f"{kind}{self.counts[kind]}", layer)
        return layer

    def layer(self, word, words, seen):
        if word == "conv":
            bias = "nobias" not in words
            named = keys([word for word in words[2:] if word != "nobias"])
            numeric = {key: sides(named[mine]) for key, mine in (("stride", "stride"), ("padding", "pad"),
                                                                 ("dilation", "dilation")) if mine in named}
            return self.named("conv", nn.Conv2d(seen.shape[1], int(words[0]), sides(words[1]),
                                                groups=int(named.get("groups", "1")), bias=bias, **numeric))
        if word == "conv1d":
            named = {key: int(mine) for key, mine in keys([word for word in words[2:] if word != "nobias"]).items()}
            line = self.named("conv", nn.Conv1d(seen.shape[1] * seen.shape[2], int(words[0]), int(words[1]), bias="nobias" not in words,
                                                **{{"pad": "padding"}.get(key, key): mine for key, mine in named.items()}))
            return lambda value: line(value.flatten(1, 2))[:, :, None]
        if word in ("mean", "first", "last"):
            return lambda value: (value[:, 0].mean(1) if word == "mean" else value[:, 0, {"first": 0, "last": -1}[word]])[..., None, None]
        if word == "chunk":
            return lambda value: value.chunk(int(words[1]), 1)[int(words[0]) - 1]
        if word == "transpose":
            return lambda value: value.transpose(2, 3) if seen.shape[1] == 1 else value.flatten(2).transpose(1, 2)[:, None]
        if word == "shuffle":
            return lambda value: value.unflatten(1, (int(words[0]), -1)).transpose(1, 2).flatten(1, 2)
        if word in ("pool", "avgpool"):
            named = keys([word for word in words[1:] if word != "ceil"])
            make = nn.MaxPool2d if word == "pool" else nn.AvgPool2d
            return make(sides(words[0]), sides(named.get("stride", words[0])), sides(named.get("pad", "0")), ceil_mode="ceil" in words)
        if word == "globalpool":
            return nn.AdaptiveAvgPool2d(sides(words[0]) if words else 1)
        if word == "groupnorm":
            return self.named("norm", nn.GroupNorm(int(words[0]), seen.shape[1], **numbers(words[1:])))
        if word == "batchnorm":
            return self.named("norm", nn.BatchNorm2d(seen.shape[1], **numbers(words)))
        if word == "layernorm":
            if words[:1] == ["channels"]:
                norm = self.named("norm", nn.LayerNorm(seen.shape[1], **numbers(words[1:])))
                return lambda value: norm(value.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            each = words[:1] == ["each"]
            return self.named("norm", nn.LayerNorm(list(seen.shape[3 if each else 1:]), **numbers(words[each:])))
        if word == "embedding":
            table = self.named("embedding", nn.Embedding(int(words[0]), int(words[1])))
            return lambda value: table(((value + 1) * 128).round().long().flatten(1))[:, None]  # the bytes again
        if word == "positions":
            places = self.named("positions", nn.Embedding(*seen.shape[2:]))
            return lambda value: value + places.weight
        if word in ("lstm", "gru"):
            lstm = self.named(word, {"lstm": nn.LSTM, "gru": nn.GRU}[word](seen.shape[3], int(words[0]), batch_first=True))
            if words[1:] == ["last"]:
                return lambda value: lstm(value[:, 0])[0][:, -1, :, None, None]
            return lambda value: lstm(value[:, 0])[0][:, None]
        if word == "attention":
            attention, steps = self.named("attention", nn.MultiheadAttention(seen.shape[3], int(words[0]), batch_first=True)), seen.shape[2]
            behind = torch.ones(steps, steps, dtype=torch.bool).triu(1) if words[1:] == ["causal"] else None
            return lambda value: attention(*[value[:, 0]] * 3, need_weights=False, attn_mask=behind)[0][:, None]
        if word == "linear":
            bias = "nobias" not in words
            if "each" in words:
                return self.named("fc", nn.Linear(seen.shape[3], int(words[0]), bias))
            linear = self.named("fc", nn.Linear(seen[0].numel(), int(words[0]), bias))
            return lambda value: linear(value.flatten(1))[..., None, None]
        if word == "prelu":
            return self.named("prelu", nn.PReLU(1 if words else seen.shape[1]))
        return FUNCTIONS[word](*map(float, words))


def tensors(net):
    """All that a model's file has, running statistics included."""
    return [tensor for name, tensor in net.state_dict().items() if not name.endswith("num_batches_tracked")]


def flat(net):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors(net)])


@torch.no_grad()
def load(net, values):
    for tensor in tensors(net):
        tensor.copy_(values[:tensor.numel()].view_as(tensor))
        values = values[tensor.numel():]


def write(folder, name, tensor):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(bytes(tensor.contiguous().numpy().data))


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)


def images(count, shape, classes=10):
    """Smooth random pictures with labels that can be learnt: not noise, so that the gradients have a direction."""
    labels = torch.randint(0, classes, (count,), dtype=torch.uint8)
    prototypes = torch.rand(classes, shape[0], 7, 7)
    coarse = 0.7 * prototypes[labels.long()] + 0.3 * torch.rand(count, shape[0], 7, 7)
    fine = nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear", align_corners=False)
    return (fine * 255).to(torch.uint8), labels


def distance(actual, expected):
    """Relative, in the Euclidean norm: where two inputs of a max pool agree to the last bits, different roundings may
    pick different ones, which moves a few single weights by more than rounding does."""
    return ((actual - expected).norm() / expected.norm()).item()


def train(net, pixels, labels, batch, decay, lr=LR, momentum=MOMENTUM):
    """Logits of the first batch before training."""
    inputs = pixels.to(next(net.parameters()).dtype) / 128 - 1
    logits = net.eval()(inputs[:batch]).detach()
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    for first in range(0, len(labels), batch):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs[first:first + batch]), labels[first:first + batch].long()).backward()
        optimizer.step()
    return logits


def run_steps(executable, isa, jobs):
    lines = "".join(" ".join(map(str, job)) + "\n" for job in jobs)
    subprocess.run([executable], input=lines, text=True, check=True, env={**os.environ, "SOUNDER_ISA": isa})


def compare(executable, isas, name, text, shape, batch, decay, steps=STEPS):
    torch.manual_seed(1)
    net = Net(text, shape)
    start = flat(net)
    pixels, labels = images(batch * steps, shape)
    logits = train(net, pixels, labels, batch, decay)
    trained, worst = flat(net), 0.0
    for isa in isas:
        with tempfile.TemporaryDirectory() as folder:
            for file, tensor in (("parameters", start), ("pixels", pixels), ("labels", labels.to(torch.int16))):
                write(folder, file, tensor)
            run_steps(executable, isa, [[10, *shape, batch, steps, LR, MOMENTUM, decay, folder, text]])
            errors = [distance(read(folder, "logits"), logits.reshape(-1))]
            change = distance(read(folder, "trained") - start, trained - start)
            first = 0
            for parameter in tensors(net):  # tensor by tensor: a small one must not hide behind a large one
                last = first + parameter.numel()
                errors.append(distance(read(folder, "trained")[first:last], trained[first:last]))
                first = last
        print(f"{name:20} {isa:9} logits {errors[0]:.1e}  parameters {max(errors[1:]):.1e}  their change {change:.1e}")
        worst = max(worst, *errors)
    return worst


def main():
    torch.set_num_threads(1)
    worst = max(compare(sys.argv[1], ["avx512", "avx2", "baseline"], *net) for net in NETS)
    print(f"largest relative difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
