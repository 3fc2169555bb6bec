"""A PyTorch loop of your own trains ten very unequal clients: a CNN with batch norm, and an augmentation.

    python3 tools/python/examples/trainer.py [FOLDER]             (needs numpy, torch, and the program sounder)

You start it, and it starts a run; the run starts it again, as its trainer.
"""
import os
import sys
import tempfile

import numpy as np
import sounder
import torch
import torch.nn as nn
from torch.nn import functional as F


def make_net():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4))


def moved(x, turn):
    """The images, moved by up to one pixel."""
    return torch.roll(x, torch.randint(-1, 2, (2,), generator=turn.generator).tolist(), (2, 3))


def train(net, turn):
    optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum)
    for x, y in turn.batches():
        loss = F.cross_entropy(net(moved(x, turn)), y, label_smoothing=turn.options["smoothing"])
        optimizer.zero_grad()
        loss.backward()
        turn.correct()  # what --algorithm adds to the gradients
        optimizer.step()
        turn.add(loss, len(y))


def test(net, turn):
    for x, y in turn.batches():
        out = net(x)
        turn.add(F.cross_entropy(out, y), len(y), hits=(out.argmax(1) == y).sum())


def start(folder):
    rng = np.random.default_rng(0)
    patterns = rng.random((4, 8, 8)) * 255
    labels = rng.integers(0, 4, 1200)
    images = np.clip(patterns[labels] + rng.normal(0, 60, (1200, 8, 8)), 0, 255).astype(np.uint8)
    data = sounder.write_data(os.path.join(folder, "images.npz"), train=(images[:1000], labels[:1000]), test=(images[1000:], labels[1000:]))
    run = sounder.train(os.path.join(folder, "run"), data=data, trainer=os.path.abspath(__file__), trainer_options={"smoothing": 0.1},
                        algorithm="fedadam lr=0.03", clients=10, partition="dirichlet", rounds=8)
    for row in run.rows("round"):
        print(f"round {row['round']}: loss {row['train_loss']:.4f}, accuracy {row['test_accuracy']:.2%}")


if "SOUNDER_TRAINER" in os.environ:
    sounder.serve(make_net, train, test)
else:
    start(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
