"""Adapters of rank 4 learn and travel; the body that they adapt is frozen and never sent.

    sounder train --trainer "python3 tools/python/examples/trainer_adapters.py" --data fashion-mnist --clients 100 --lr 0.1
"""
import numpy as np
import sounder
import torch
import torch.nn as nn
from torch.nn import functional as F


class Adapted(nn.Module):
    """A linear layer that stays, and beside it a product of two thin matrices, which begins as zero."""

    def __init__(self, linear, rank=4):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


class Net(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(int(np.prod(data.shape)), 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh())
        # Here a program loads its pretrained body: self.body.load_state_dict(torch.load("body.pt"))
        self.body[0], self.body[2] = Adapted(self.body[0]), Adapted(self.body[2])
        self.head = nn.Linear(64, data.classes)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)))


def train(net, turn):
    optimizer = torch.optim.SGD([weight for weight in net.parameters() if weight.requires_grad], lr=turn.lr, momentum=turn.momentum)
    for x, y in turn.batches():
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        turn.correct()
        optimizer.step()
        turn.add(loss, len(y))


def test(net, turn):
    for x, y in turn.batches():
        out = net(x)
        turn.add(F.cross_entropy(out, y), len(y), hits=(out.argmax(1) == y).sum())


sounder.serve(Net, train, test)  # the parameters that learn travel, as with exchange=["*.down.*", "*.up.*", "head.*"]
