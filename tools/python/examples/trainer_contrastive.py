"""A contrastive loss without labels: two views of an image attract each other, and there is no accuracy.

    sounder train --trainer "python3 tools/python/examples/trainer_contrastive.py" --data fashion-mnist --clients 100 --lr 0.1 \
        --trainer-option temperature=0.5 --batch-size 32 --target "uniformity<-2"
"""
import numpy as np
import sounder
import torch
import torch.nn as nn
from torch.nn import functional as F


def make_net(data):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(data.shape)), 64), nn.ReLU(), nn.Linear(64, 16))


def view(x, generator):
    """The image, moved by up to a pixel, with noise. The turn's generator makes the same views when the turn is done again."""
    down, right = torch.randint(-1, 2, (2,), generator=generator).tolist()
    return torch.roll(x, (down, right), (2, 3)) + 0.1 * torch.randn(x.shape, generator=generator)


def contrast(net, x, turn):
    """NT-Xent (SimCLR): each view has to find the other one of its image among all of the batch."""
    seen = F.normalize(net(torch.cat([view(x, turn.generator), view(x, turn.generator)])), dim=1)
    likeness = seen @ seen.T / turn.options.get("temperature", 0.5)
    likeness.fill_diagonal_(float("-inf"))
    other = torch.arange(len(seen)).roll(len(x))
    return F.cross_entropy(likeness, other), seen


def train(net, turn):
    optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum)
    for x, _ in turn.batches():
        loss, _ = contrast(net, x, turn)
        optimizer.zero_grad()
        loss.backward()
        turn.correct()
        optimizer.step()
        turn.add(loss, len(x))


def test(net, turn):
    for x, _ in turn.batches(turn.batch_size):  # the loss depends on how many others an image meets
        loss, seen = contrast(net, x, turn)
        turn.add(loss, len(x), uniformity=torch.pdist(seen).pow(2).mul(-2).exp().mean().log())  # no hits: no accuracy


sounder.serve(make_net, train, test)
