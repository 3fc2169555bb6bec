"""The trainer of `tools/bench/jobs`: the peers' nets and their loop, with Sounder around it."""
import sys

import torch
from torch.nn import functional

import sounder
from common import NETS


def train(net, turn):
    optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr)
    for x, y in turn.batches():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.nll_loss(net(x), y)
        loss.backward()
        optimizer.step()
        turn.add(loss, len(y))


def test(net, turn):
    for x, y in turn.batches():
        out = net(x)
        turn.add(functional.nll_loss(out, y), len(y), hits=(out.argmax(1) == y).sum())


if __name__ == "__main__":
    sounder.serve(NETS[sys.argv[1]], train, test, device=sys.argv[2])
