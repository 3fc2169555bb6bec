"""What the PyTorch peers share: data, nets, averaging, evaluation, and how they report (one JSON object a line)."""
import argparse, gzip, json, os, struct, time

import torch
from torch import nn
from torch.nn import functional

import federation

torch.set_flush_denormal(True)  # as Sounder and XLA do; by default PyTorch trains cnn with batches of one 0.87 times as fast

MEAN, STDDEV = 0.1307, 0.3081  # of pixel / 255, as the published MNIST scripts have it


def a_net(text, names):
    """NET:BATCH:MODELS"""
    net, batch, models = text.split(":")
    if net not in names:
        raise argparse.ArgumentTypeError(f"{net}: there are {', '.join(sorted(names))}")
    return net, int(batch), int(models)


def arguments(description, extra=(), nets=None, **defaults):
    """The options of all peers; `defaults` replaces those that a job sees differently; `extra`: names with their choices, of
    which the first is the default; `nets`: the names that --nets takes, where a job has that option."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of IDX files, or synthetic")
    parser.add_argument("--model", default="lenet", choices=sorted(NETS))
    parser.add_argument("--layers", default="", help="instead of a model: its layers (tuned)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--samples", type=int, default=60000, help="training samples (of each worker, for hogwild)")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--clients-per-round", type=int, default=10)
    parser.add_argument("--slots", type=int, default=4, help="models to average")
    parser.add_argument("--parameters", type=int, default=1700000, help="floats in each of them")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--started", type=float, default=time.monotonic(),
                        help="CLOCK_MONOTONIC when the user pressed return, for the cold start")
    for name, choices in extra:
        parser.add_argument(name, choices=choices, default=choices[0])
    if nets:
        parser.add_argument("--nets", type=lambda text: a_net(text, nets), nargs="+", metavar="NET:BATCH:MODELS", default=[("lenet", 64, 1)])
    parser.set_defaults(**defaults)
    return parser.parse_args()


def say(**figures):
    print(json.dumps({"torch": torch.__version__, **figures}), flush=True)


def read_idx(folder, name):
    """An IDX file of bytes, plain or .gz, as a uint8 tensor of its shape."""
    path = os.path.join(folder, name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as file:
        blob = bytearray(file.read())
    rank = blob[3]
    shape = struct.unpack(f">{rank}I", blob[4 : 4 + 4 * rank])
    return torch.frombuffer(blob, dtype=torch.uint8, offset=4 + 4 * rank).reshape(shape)


def load(data, split):
    """Images (N,28,28), or (N,C,H,W) in colour, and labels (N), both as the file has them."""
    if data.startswith("synthetic"):
        words = dict(enumerate(data.split(":")))  # synthetic[:CxHxW[:TRAIN[:TEST]]], as sounder train --data
        shape = [int(number) for number in words.get(1, "1x28x28").split("x")]
        count = int(words.get(2, 60000) if split == "train" else words.get(3, 10000))
        generator = torch.Generator().manual_seed(count)
        images = torch.randint(256, (count, *(shape if shape[0] > 1 else shape[1:])), dtype=torch.uint8, generator=generator)
        return images, torch.randint(10, (count,), dtype=torch.uint8, generator=generator)
    return read_idx(data, f"{split}-images-idx3-ubyte"), read_idx(data, f"{split}-labels-idx1-ubyte")


def load_normalised(data, split):
    """The whole split in memory as the net wants it: floats (N,C,H,W) and int64 labels (N)."""
    images, labels = load(data, split)
    images = images.float().div_(255).sub_(MEAN).div_(STDDEV)
    return images if images.dim() == 4 else images.unsqueeze_(1), labels.long()


def lenet():
    features = [nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()]
    features += [nn.Conv2d(10, 20, 5), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    classifier = [nn.Linear(320, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 10)]
    return nn.Sequential(*features, *classifier, nn.LogSoftmax(1))


def mcmahan_cnn():
    features = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10), nn.LogSoftmax(1))


def two_hidden_layers():
    layers = [nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)]
    return nn.Sequential(*layers, nn.LogSoftmax(1))


def softmax():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1))


def wide(features):
    """Two hidden layers of that many features, on images like CIFAR's."""
    layers = [nn.Flatten(), nn.Linear(3072, features), nn.ReLU(), nn.Linear(features, features), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(features, 10), nn.LogSoftmax(1))


class Residual(nn.Module):
    def __init__(self, ins, outs, stride, groups=8):
        super().__init__()
        layers = [nn.Conv2d(ins, outs, 3, stride, 1), nn.GroupNorm(groups, outs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(outs, outs, 3, 1, 1), nn.GroupNorm(groups, outs))
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(ins, outs, 1, stride), nn.GroupNorm(groups, outs))

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1), nn.GroupNorm(8, 16), nn.ReLU()]
    for ins, outs, stride in (16, 16, 1), (16, 32, 2), (32, 64, 2):
        layers += [Residual(ins, outs, stride), Residual(outs, outs, 1), Residual(outs, outs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(1))


def layers_of(text, shape):
    """A net as Sounder writes it: conv, relu, pool and linear in a row."""
    x, layers = torch.zeros(1, *shape), []
    for word, *numbers in (layer.split() for layer in text.split(";")):
        if word == "conv":
            outs, side, *pad = numbers
            layer = nn.Conv2d(x.shape[1], int(outs), int(side), padding=int(pad[1]) if pad else 0)
        elif word == "linear":
            layer = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), int(numbers[0])))
        else:
            layer = nn.MaxPool2d(int(numbers[0])) if word == "pool" else nn.ReLU()
        x = layer(x)
        layers.append(layer)
    return nn.Sequential(*layers, nn.LogSoftmax(1))


def blazefl_cnn():
    """The net of BlazeFL's benchmark, 62,006 weights, for images like CIFAR's."""
    layers = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*layers, nn.LogSoftmax(1))


def resnet18():
    from torchvision import models
    return nn.Sequential(models.resnet18(num_classes=10), nn.LogSoftmax(1))


NETS = {"blazefl-cnn": blazefl_cnn, "resnet18": resnet18, "resnet20": resnet20, "mlp-2048": lambda: wide(2048), "mlp-4096": lambda: wide(4096),
        "lenet": lenet, "cnn": mcmahan_cnn, "2nn": two_hidden_layers, "softmax": softmax}


def federated_tensors(folder, split):
    """As load_normalised, of the data sets of whole jobs (federation.py)."""
    images, labels = (torch.from_numpy(array) for array in federation.load(folder, split))
    return images if images.dim() == 4 else images.unsqueeze(1), labels


def arrays_of(model):
    """The floats of a model that its clients exchange: parameters and batch norm's statistics, as NumPy arrays."""
    return [tensor.detach().numpy() for tensor in model.state_dict().values() if tensor.is_floating_point()]


def sgd(options, model):
    return torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)


def train_steps(model, optimizer, images, labels, order, batch_size):
    """One pass over `order` (sample numbers) with everything in memory; returns the last loss."""
    for batch in order.split(batch_size):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.nll_loss(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, images, labels):
    """Mean loss and accuracy."""
    model.eval()
    loss_sum = hits = 0
    for x, y in zip(images.split(1000), labels.split(1000)):
        output = model(x)
        loss_sum += functional.nll_loss(output, y, reduction="sum").item()
        hits += (output.argmax(1) == y).sum().item()
    model.train()
    return loss_sum / len(labels), hits / len(labels)


@torch.no_grad()
def average_into(target, models):
    """target = plain mean of the models, parameter by parameter."""
    for mean, *parameters in zip(target.parameters(), *(model.parameters() for model in models)):
        mean.copy_(torch.stack([p.detach() for p in parameters]).mean(0))
