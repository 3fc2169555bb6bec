"""Boosted trees of one split: histograms of gradients travel, and all clients read the same split in their mean.

    sounder train --trainer "python3 trainer_trees.py" --data ... --algorithm "combine mean uniform" --batch-size 500

Two classes; features in BINS bins from -3 to 3. Round r adds tree r - 1 from the histogram of the round before.
"""
import numpy as np
import sounder

BINS, MOST, RATE = 16, 64, 0.5  # trees at most; what each counts
FEATURE, BIN, LEFT, RIGHT = range(4)


def make(data):
    assert data.classes == 2, f"{data.classes} classes: these trees tell two apart"
    histogram = np.zeros((2, int(np.prod(data.shape)), BINS), np.float32)
    return {"trees": np.zeros((MOST, 4), np.float32), "histogram": histogram}


def binned(x):
    return np.clip((x.reshape(len(x), -1) + 3) * (BINS / 6), 0, BINS - 1).astype(int)


def split(histogram):
    """The feature, the last bin to the left, and Newton's step on either side."""
    gradient, curvature = histogram.astype(np.float64).cumsum(2)
    sides = [(gradient, curvature), (gradient[:, -1:] - gradient, curvature[:, -1:] - curvature)]
    gains = sum(g * g / np.maximum(h, 1e-9) for g, h in sides)
    feature, at = np.unravel_index(gains[:, :-1].argmax(), gains[:, :-1].shape)
    return feature, at, *(-RATE * g[feature, at] / max(h[feature, at], 1e-9) for g, h in sides)


def scores(trees, bins):
    grown = [tree for tree in trees.tolist() if any(tree)]
    left = [bins[:, round(tree[FEATURE])] <= round(tree[BIN]) for tree in grown]
    return sum((np.where(is_left, tree[LEFT], tree[RIGHT]) for is_left, tree in zip(left, grown)), np.zeros(len(bins)))


def seen(turn, trees):
    for x, y in turn.batches():
        bins = binned(x)
        share = 1 / (1 + np.exp(-scores(trees, bins)))
        turn.add(-np.log(np.where(y == 1, share, 1 - share)).mean(), len(y), hits=((share > 0.5) == y).sum())
        yield bins, share, y


def train(net, turn):
    if 1 < turn.round <= MOST + 1:
        net["trees"][turn.round - 2] = split(net["histogram"])
    net["histogram"][...] = 0
    for bins, share, y in seen(turn, net["trees"]):
        for feature in range(bins.shape[1]):
            np.add.at(net["histogram"][0, feature], bins[:, feature], share - y)
            np.add.at(net["histogram"][1, feature], bins[:, feature], share * (1 - share))


sounder.serve(make, train, lambda net, turn: list(seen(turn, net["trees"])))
