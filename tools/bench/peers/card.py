"""PyTorch on a card, in one process, with everything in the card's memory and fp32 throughout; a line for each of --nets.

--job eager: a loop of steps, as scripts train on one card today. --job graph: one step captured as a CUDA graph and replayed, client by
client. --job vmap: MODELS clients at once by torch.func.vmap, the step a CUDA graph as well. On --device cpu steps are called instead
of captured.
"""
import time

import torch
from torch.nn import functional

from common import NETS, arguments, load_normalised, say, sgd

WARM_UP_STEPS = 20


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
    model = NETS[net]().to(options.device)
    optimizer = sgd(options, model)
    chosen = torch.zeros(batch, dtype=torch.long, device=options.device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        functional.nll_loss(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()

    return chosen, step


def many_models(options, net, batch, models, images, labels):
    """A step of `models` models, each on its own row of `chosen`."""
    from torch.func import functional_call, grad, stack_module_state, vmap
    modules = [NETS[net]().to(options.device) for _ in range(models)]
    weights, _ = stack_module_state(modules)
    weights = {name: value.detach().clone() for name, value in weights.items()}
    speeds = {name: torch.zeros_like(value) for name, value in weights.items()}
    chosen = torch.zeros(models, batch, dtype=torch.long, device=options.device)

    def loss(own, x, y):
        return functional.nll_loss(functional_call(modules[0], own, (x,)), y)

    slopes_of = vmap(grad(loss), randomness="different")

    def step():
        slopes = slopes_of(weights, images[chosen], labels[chosen])
        for name, weight in weights.items():
            speeds[name].mul_(options.momentum).add_(slopes[name])
            weight.add_(speeds[name], alpha=-options.lr)

    return chosen, step


def measure(options, net, batch, models, images, labels):
    if options.job == "vmap":
        chosen, step = many_models(options, net, batch, models, images, labels)
    else:
        chosen, step = one_model(options, net, batch, images, labels)
    run = step if options.job == "eager" else captured(step, options.device)
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
    start = time.perf_counter()
    train(steps)
    seconds = time.perf_counter() - start
    say(peer=f"PyTorch, {options.job}", net=net, batch=batch, models=models, seconds=seconds, samples=steps * in_step,
        samples_per_second=steps * in_step / seconds)


def main():
    options = arguments(__doc__, data="synthetic", momentum=0.5, extra=[("--job", ["eager", "graph", "vmap"]), ("--device", ["cuda", "cpu"])], nets=True)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(options.seed)
    images, labels = (tensor[: options.samples].to(options.device) for tensor in load_normalised(options.data, "train"))
    for net, batch, models in options.nets:
        measure(options, net, batch, models, images, labels)


if __name__ == "__main__":
    main()
