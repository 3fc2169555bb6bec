"""Every client keeps a head of its own; the body is trained by all of them.

    sounder train --trainer "python3 tools/python/examples/trainer_head.py" --algorithm "personal tensors names=head.*" \
        --data fashion-mnist --clients 100 --clients-per-round 10 --partition "pathological classes=2" --client-test 0.2

The algorithm keeps the head, not this program: it is in net when the client's turn begins, survives kills and --resume, and is tested
with the client. With --algorithm fedavg the same program trains one model.
"""
import numpy as np
import sounder
import torch
import torch.nn as nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(data.shape)), 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh())
        self.head = nn.Linear(32, data.classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(net, turn):
    optimizer = torch.optim.SGD([{"params": net.body.parameters()}, {"params": net.head.parameters(), "lr": 2 * turn.lr}],
                                lr=turn.lr, momentum=turn.momentum)
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


sounder.serve(Net, train, test)
