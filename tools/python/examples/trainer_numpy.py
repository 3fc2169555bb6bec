"""Softmax regression with NumPy alone: gradients by hand, what the algorithm adds to them, momentum.

    sounder train --trainer "python3 tools/python/examples/trainer_numpy.py" --data fashion-mnist --algorithm scaffold
"""
import numpy as np
import sounder

net = {}


def make_net(data):
    inputs = int(np.prod(data.shape))
    net.update(weight=np.zeros((data.classes, inputs), np.float32), bias=np.zeros(data.classes, np.float32))
    return net


def gradients(x, y):
    """Of the batch's mean loss; the loss; how many are right."""
    x = x.reshape(len(x), -1)
    out = x @ net["weight"].T + net["bias"]
    out -= out.max(1, keepdims=True)
    shares = np.exp(out) / np.exp(out).sum(1, keepdims=True)
    row = np.arange(len(y))
    loss, hits = -np.log(shares[row, y]).mean(), (shares.argmax(1) == y).sum()
    shares[row, y] -= 1
    return {"weight": shares.T @ x / len(y), "bias": shares.mean(0)}, loss, hits


for turn in sounder.turns(make_net):
    velocity = {name: np.zeros_like(value) for name, value in net.items()}  # begins anew in every turn
    for x, y in turn.batches():
        slopes, loss, hits = gradients(x, y)
        if turn.trains:
            turn.correct(slopes)  # what --algorithm adds
            for name, value in net.items():
                velocity[name] = turn.momentum * velocity[name] + slopes[name]
                value -= np.float32(turn.lr) * velocity[name]
        turn.add(loss, len(y), hits=hits)
    turn.hand_in()
