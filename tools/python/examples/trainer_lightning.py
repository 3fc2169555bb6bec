"""A LightningModule, unchanged: each turn is one fit of a Lightning Trainer on what a client has.

    python3 tools/python/examples/trainer_lightning.py [FOLDER]       (needs lightning)
"""
import os, sys, tempfile
import lightning.pytorch as lightning
import sounder
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
x = torch.randn(700, 8)
y = (x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 0).long()
train_set, test_set = (torch.utils.data.TensorDataset(x[part], y[part]) for part in (slice(500), slice(500, None)))
train_set.targets, test_set.targets = y[:500], y[500:]


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, number):
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)]


def train(net, turn):
    turn.lightning().fit(net, turn.loader(each_epoch=True))


def test(net, turn):
    for x, y in turn.loader():
        out = net.layers(x)
        turn.add(F.cross_entropy(out, y), len(y), hits=(out.argmax(1) == y).sum())


if "SOUNDER_TRAINER" in os.environ:
    sounder.serve(Net, train, test, data=(train_set, test_set))
else:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    trainer = os.path.abspath(__file__)
    run = sounder.train(f"{folder}/run", trainer=trainer, clients=5, rounds=5, local_epochs=3, batch_size=10)
    print([round(100 * row["test_accuracy"], 1) for row in run.rows("round")])
