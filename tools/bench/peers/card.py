"""PyTorch on a card, with everything in the card's memory; a line for each of --nets.

--job eager: a loop of steps, as scripts train on one card today. --job compile: that loop with torch.compile. --job graph: one step captured
as a CUDA graph and replayed, client by client. --job vmap: MODELS clients at once by torch.func.vmap, the step a CUDA graph as well. --job
processes: MODELS processes, each with a graph of its own, which begin together (with MPS where its service runs). On --device cpu steps are
called instead of captured.

--precision fp32: no tensor cores. --precision default: what PyTorch does unless it is told otherwise, which is TF32 for convolutions.
--precision bf16: autocast, and images with their channels last.
"""
import contextlib, time

import torch
from torch import nn
from torch.nn import functional

import common
from common import Residual, arguments, load_normalised, say, sgd

WARM_UP_STEPS = 20
LAST_BARRIER_SECONDS = 300


def residual_net(groups, stages):
    """A ResNet of basic blocks for small images, with group norms, as Sounder's nets of those names: stages of (channels, blocks)."""
    width = stages[0][0]
    layers = [nn.Conv2d(3, width, 3, 1, 1), nn.GroupNorm(groups, width), nn.ReLU()]
    for stage, (channels, blocks) in enumerate(stages):
        for block in range(blocks):
            layers.append(Residual(width, channels, 2 if stage > 0 and block == 0 else 1, groups))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10), nn.LogSoftmax(1))


class CharLstm(nn.Module):
    """Sounder's char-lstm, on bytes."""

    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.last = nn.Embedding(256, 8), nn.LSTM(8, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return functional.log_softmax(self.last(self.lstm(self.table(x))[0][:, -1]), 1)


class Transformer(nn.Module):
    """Four layers of width 128 over 64 places, as TRANSFORMER of tools/gpu/plan.py."""

    def __init__(self):
        super().__init__()
        self.enter, self.last = nn.Linear(16, 128), nn.Linear(128, 10)
        self.positions = nn.Parameter(0.02 * torch.randn(64, 128))
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x):
        return functional.log_softmax(self.last(self.layers(self.enter(x) + self.positions).mean(1)), 1)


NETS = {**common.NETS, "resnet18": lambda: residual_net(32, [(64, 2), (128, 2), (256, 2), (512, 2)]), "char-lstm": CharLstm, "transformer": Transformer}
SHAPES = {"resnet18": "3x32x32", "resnet20": "3x32x32", "char-lstm": "1x1x80", "transformer": "1x64x16"}  # of samples; others as --data has them


def samples_of(options, net):
    """Samples and labels on the device, as the net takes them."""
    data = f"synthetic:{SHAPES[net]}:{options.samples}:10" if net in SHAPES else options.data
    samples, labels = (tensor[: options.samples] for tensor in load_normalised(data, "train"))
    if net == "char-lstm":
        samples = torch.randint(256, (len(labels), 80))
    if net == "transformer":
        samples = samples.view(len(labels), 64, 16)
    samples = samples.to(options.device)
    if options.precision == "bf16" and samples.dim() == 4:
        samples = samples.contiguous(memory_format=torch.channels_last)
    return samples, labels.to(options.device)


def model_of(options, net):
    model = NETS[net]().to(options.device)
    return model.to(memory_format=torch.channels_last) if options.precision == "bf16" else model


def precise(options):
    """The context of a forward pass."""
    return torch.autocast(options.device, torch.bfloat16) if options.precision == "bf16" else contextlib.nullcontext()


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


def captured(step, device):
    """A function that does what step does; step reads and writes the same tensors each time."""
    if device != "cuda":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries load themselves before the capture
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def one_model(options, net, batch, images, labels):
    """A step of one model on the samples whose numbers stand in `chosen`."""
    model = model_of(options, net)
    optimizer = sgd(options, model)
    forward = torch.compile(model) if options.job == "compile" else model
    chosen = torch.zeros(batch, dtype=torch.long, device=options.device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        with precise(options):
            loss = functional.nll_loss(forward(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()

    return chosen, step


def many_models(options, net, batch, models, images, labels):
    """A step of `models` models, each on its own row of `chosen`."""
    from torch.func import functional_call, grad, stack_module_state, vmap
    modules = [model_of(options, net) for _ in range(models)]
    weights, _ = stack_module_state(modules)
    weights = {name: value.detach().clone() for name, value in weights.items()}
    speeds = {name: torch.zeros_like(value) for name, value in weights.items()}
    chosen = torch.zeros(models, batch, dtype=torch.long, device=options.device)

    def loss(own, x, y):
        with precise(options):
            return functional.nll_loss(functional_call(modules[0], own, (x,)), y)

    slopes_of = vmap(grad(loss), randomness="different")

    def step():
        slopes = slopes_of(weights, images[chosen], labels[chosen])
        for name, weight in weights.items():
            speeds[name].mul_(options.momentum).add_(slopes[name])
            weight.add_(speeds[name], alpha=-options.lr)

    return chosen, step


def rate_of(options, net, batch, models, together=None):
    """Samples and seconds of the timed steps. together: a barrier of the processes that measure at the same time."""
    images, labels = samples_of(options, net)
    make = many_models if options.job == "vmap" else one_model
    chosen, step = make(options, net, batch, *([models] if options.job == "vmap" else []), images, labels)
    run = step if options.job in ("eager", "compile") else captured(step, options.device)
    in_step = chosen.numel()
    order = torch.randperm(len(labels), device=options.device)
    while len(order) < in_step * 2:
        order = torch.cat([order, order])
    batches = order[: len(order) // in_step * in_step].split(in_step)

    def train(steps):
        for i in range(steps):
            chosen.copy_(batches[i % len(batches)].view(chosen.shape))
            run()
        wait_for(options.device)

    train(WARM_UP_STEPS if options.device == "cuda" else 1)
    steps = max(2, options.samples // in_step)
    if together:
        together.wait(LAST_BARRIER_SECONDS)
    start = time.perf_counter()
    train(steps)
    return steps * in_step, time.perf_counter() - start


def prepare(options):
    torch.backends.cuda.matmul.allow_tf32 = False  # PyTorch's own default
    torch.backends.cudnn.allow_tf32 = options.precision != "fp32"
    torch.manual_seed(options.seed)


def one_of_many(rank, options, net, batch, together, rates):
    prepare(options)
    rates.put(rate_of(options, net, batch, 1, together))


def rate_of_processes(options, net, batch, models):
    """All samples, and the seconds of the slowest process."""
    context = torch.multiprocessing.get_context("spawn")
    together, rates = context.Barrier(models), context.SimpleQueue()
    torch.multiprocessing.spawn(one_of_many, (options, net, batch, together, rates), models)
    found = [rates.get() for _ in range(models)]
    return sum(samples for samples, _ in found), max(seconds for _, seconds in found)


def measure(options, net, batch, models):
    samples, seconds = (rate_of_processes if options.job == "processes" else rate_of)(options, net, batch, models)
    precision = "" if options.precision == "fp32" else f", {options.precision}"
    say(peer=f"PyTorch, {options.job}{precision}", precision=options.precision, net=net, batch=batch, models=models, seconds=seconds, samples=samples,
        samples_per_second=samples / seconds)


def main():
    jobs, precisions = ["eager", "graph", "vmap", "compile", "processes"], ["fp32", "default", "bf16"]
    options = arguments(__doc__, data="synthetic", momentum=0.5, nets=NETS,
                        extra=[("--job", jobs), ("--device", ["cuda", "cpu"]), ("--precision", precisions)])
    prepare(options)
    for net, batch, models in options.nets:
        measure(options, net, batch, models)


if __name__ == "__main__":
    main()
