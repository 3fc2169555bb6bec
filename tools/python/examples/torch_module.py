"""A PyTorch module, NumPy data, ten very unequal clients, and the weights back in the module.

    python3 tools/python/examples/torch_module.py [FOLDER]        (needs numpy, torch, and the program sounder)
"""
import os
import sys
import tempfile

import numpy as np
import sounder
import torch
import torch.nn as nn


class Block(nn.Module):
    """Two convolutions beside a short cut, with group normalisation."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels)
        self.second, self.second_norm = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels)

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), Block(8), nn.MaxPool2d(2))
        self.classify = nn.Linear(128, 10)

    def forward(self, x):
        return self.classify(self.features(x).flatten(1))


def images(count, rng, patterns):
    """Ten patterns, and much noise: uint8 pixels (N, C, H, W) and classes (N)."""
    y = rng.integers(0, 10, count)
    return np.clip(patterns[y] + rng.normal(0, 200, (count, 3, 16, 16)), 0, 255).astype(np.uint8), y


folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
rng = np.random.default_rng(1)
patterns = np.kron(rng.random((10, 3, 4, 4)), np.ones((4, 4))) * 255
test = images(1000, rng, patterns)
data = sounder.write_data(os.path.join(folder, "images.npz"), train=images(4000, rng, patterns), test=test, mean=0.5, std=0.25)

net = Net()
print("model:", sounder.layers(net))
run = sounder.train(os.path.join(folder, "run"), data=data, model=sounder.layers(net), clients=10, partition="dirichlet", alpha=0.1,
                    rounds=5, lr=0.05, momentum=0.5, batch_size=32)
for row in run.rows("round"):
    print(f"round {row['round']}: loss {row['train_loss']:.4f}, accuracy {row['test_accuracy']:.2%}")

run.load_into(net)
with torch.no_grad():
    x = (torch.from_numpy(test[0]).float() / 255 - 0.5) / 0.25
    right = int((net(x).argmax(1).numpy() == test[1]).sum())
print(f"Sounder: {round(run.rows('round')[-1]['test_accuracy'] * 1000)} of 1000 right; PyTorch with these weights: {right} of 1000")
