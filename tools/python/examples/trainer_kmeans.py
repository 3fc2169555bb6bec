"""K-means over clients: sums and counts travel, and the ratio of their means is the ratio of their sums.

    sounder train --trainer "python3 trainer_kmeans.py" --data ... --algorithm "combine mean uniform" --batch-size 500

--trainer-option clusters=4; the loss is the mean squared distance from the nearest centre.
"""
import numpy as np
import sounder

NONE = 1e-6  # a centre without samples counts as this many, where it is


def make(data):
    clusters = data.options.get("clusters", 4)
    some = data.enter(data.splits["train"].x[np.random.permutation(len(data.splits["train"].y))[:clusters]])
    return {"sums": some.reshape(clusters, -1), "counts": np.ones((clusters, 1), np.float32)}


def nearest(x, centres):
    distances = ((x[:, None] - centres) ** 2).sum(2)
    return distances.argmin(1), distances.min(1)


def train(net, turn):
    centres = net["sums"] / net["counts"]
    net["sums"][...], net["counts"][...] = NONE * centres, NONE
    for x, _ in turn.batches():
        x = x.reshape(len(x), -1)
        cluster, distance = nearest(x, centres)
        np.add.at(net["sums"], cluster, x)
        np.add.at(net["counts"], cluster, 1)
        turn.add(distance.mean(), len(x))


def test(net, turn):
    for x, _ in turn.batches():
        turn.add(nearest(x.reshape(len(x), -1), net["sums"] / net["counts"])[1].mean(), len(x))


sounder.serve(make, train, test)
