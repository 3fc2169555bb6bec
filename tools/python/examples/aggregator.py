"""Rules of your own combine the updates of each round: FedAdam and the coordinate median, in ten lines each.

    python3 tools/python/examples/aggregator.py [FOLDER]             (needs numpy and the program sounder)

You start it, and it starts two runs; each starts it again, as its aggregator: `aggregator.py fedadam`, `aggregator.py median`.
"""
import os
import sys
import tempfile

import numpy as np
import sounder


def median(updates, turn):
    step = np.empty(updates.shape[1])
    for first in range(0, len(step), 4096):  # parts that stay in the cache
        step[first : first + 4096] = np.median(updates[:, first : first + 4096], axis=0)
    return step


def mean(updates, turn):
    return turn.shares @ updates


def fedadam(weights, update, turn, lr=0.1, beta1=0.9, beta2=0.99, tau=1e-3):
    moment, square = turn.state  # --aggregator-keeps 2
    if turn.round == 1:
        square[:] = tau**2
    moment[:] = beta1 * moment + (1 - beta1) * update
    square[:] = beta2 * square + (1 - beta2) * update**2
    return weights + lr * moment / (np.sqrt(square) + tau)


def start(folder):
    for rule in "fedadam", "median":
        run = sounder.train(os.path.join(folder, rule), data="synthetic:1x8x8:500:200", model="softmax", clients=10, rounds=5,
                            aggregator=[sys.executable, os.path.abspath(__file__), rule], aggregator_keeps=2 if rule == "fedadam" else 0)
        last = run.rows("round")[-1]
        print(f"{rule}: loss {last['test_loss']:.4f}, accuracy {last['test_accuracy']:.2%}")


rules = {"median": [median], "mean": [mean], "fedadam": [mean, fedadam]}
if "SOUNDER_TRAINER" in os.environ:
    sounder.aggregate(*rules[sys.argv[1]])
else:
    start(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
