"""A public net in PyTorch on one core, which trains one batch for each line of its input.

It makes DATA.npz, which Sounder trains on, and says first what `sounder.layers` makes of the net, or why it refuses.
"""
import argparse
import os
import sys

import torch

from common import say
from public_nets import CLASSES, NETS, TOKENS, WORDS

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
BATCHES = 4  # that there are samples for


def samples(form, count):
    generator, classes = torch.Generator().manual_seed(0), WORDS if form == TOKENS else CLASSES
    x = torch.randint(WORDS, (count, TOKENS), generator=generator) if form == TOKENS else torch.randn(count, *form, generator=generator)
    y = torch.randint(classes, (count,), generator=generator)
    y[0] = classes - 1  # a data set has as many classes as its labels tell
    return x, y


def write(path, x, y):
    import numpy
    x = x.float().numpy()
    numpy.savez(path, x_train=x, y_train=y.numpy(), x_test=x[:8], y_test=y.numpy()[:8])


def reading(net):
    import sounder
    try:
        return {"layers": sounder.layers(net)}
    except sounder.Error as refusal:
        return {"refusal": str(refusal)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=list(NETS))
    parser.add_argument("data")
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    form, make = NETS[options.net]
    x, y = samples(form, BATCHES * options.batch)
    write(options.data, x, y)
    try:
        net = make()
    except ImportError as problem:
        return say(missing=str(problem))
    say(parameters=sum(tensor.numel() for tensor in net.parameters()), **reading(net))
    run, optimizer = torch.compile(net) if options.compile else net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    net.train()
    for step, _ in enumerate(sys.stdin):
        first = step % BATCHES * options.batch
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(run(x[first : first + options.batch]), y[first : first + options.batch])
        loss.backward()
        optimizer.step()
        print("{}", flush=True)
    return None


if __name__ == "__main__":
    main()
