"""Is another implementation FedAvg? A referee finds the round, client and tensor in which a fault first shows: momentum kept between rounds."""
import tempfile

import numpy as np
import sounder
import torch
from torch import nn
from torch.nn import functional as F

rng = np.random.default_rng(1)
centers = rng.normal(0, 1, (4, 8))
y = rng.integers(0, 4, 1200)
x = (centers[y] + rng.normal(0, 1, (1200, 8))).astype(np.float32)


def make_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


class Client:
    """FedAvg as it is often written. faulty: the optimizer of a client lives on, and its momentum with it."""

    def __init__(self, faulty):
        self.faulty, self.optimizers = faulty, {}

    def train(self, net, turn):
        optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum)
        if self.faulty:
            optimizer = self.optimizers.setdefault(turn.client, optimizer)
        for images, labels in turn.batches():
            optimizer.zero_grad()
            F.cross_entropy(net(images), labels).backward()
            optimizer.step()


def average(weights, handed_in, turns):
    total = sum(turn.count for turn in turns)
    return {name: sum(turn.count / total * own[name] for turn, own in zip(turns, handed_in)) for name in weights}


with tempfile.TemporaryDirectory() as folder:
    data = sounder.write_data(f"{folder}/blobs.npz", train=(x[:1000], y[:1000]), test=(x[1000:], y[1000:]))
    run = sounder.train(f"{folder}/run", data=data, model=sounder.layers(make_net()), clients=10, clients_per_round=5, rounds=4,
                        partition="dirichlet", alpha=0.5, lr=0.05, momentum=0.9, batch_size=16, device="cpu")
    federation = run.export_federation(f"{folder}/federation")
    for faulty in (False, True):
        print("momentum kept between rounds:" if faulty else "as published:")
        print(" ", sounder.referee(federation, Client(faulty).train, average, net=make_net()))
