"""What the peers of whole jobs share: options, data, who has which samples, and the line that each prints at its end.

A job is FedAvg with SGD without momentum on Fashion-MNIST or on the arrays of an .npz file: so many clients, of whom so many a round; the
global model is tested on all test images after every round. Everything is in memory before the clock of the rounds begins.
"""
import argparse, gzip, hashlib, json, os, struct, sys, time

import numpy as np

DEFAULTS = dict(model="2nn", clients=100, clients_per_round=10, rounds=20, epochs=1, batch_size=10, lr=0.1, partition="iid",
                alpha=0.1, seed=1, processes=2)


def options(description, **more):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of IDX files, or .npz of x_train, y_train, x_test, y_test")
    for name, value in {**DEFAULTS, **more}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return parser.parse_args()


def read_idx(folder, name):
    path = os.path.join(folder, name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as file:
        blob = file.read()
    shape = struct.unpack(f">{blob[3]}I", blob[4 : 4 + 4 * blob[3]])
    return np.frombuffer(blob, np.uint8, offset=4 + 4 * blob[3]).reshape(shape)


def load(folder, split):
    """Images (N,28,28) or (N,C,H,W), normalised as in the published scripts, and labels (N)."""
    if folder.endswith(".npz"):
        arrays, name = np.load(folder), {"train": "train", "t10k": "test"}[split]
        return (arrays[f"x_{name}"].astype(np.float32) / 255 - 0.5) / 0.5, arrays[f"y_{name}"].astype(np.int64)
    images = read_idx(folder, f"{split}-images-idx3-ubyte").astype(np.float32)
    return (images / 255 - 0.1307) / 0.3081, read_idx(folder, f"{split}-labels-idx1-ubyte").astype(np.int64)


def deal(labels, clients, partition, alpha, seed):
    """Sample numbers of each client: equal shares, or class after class by Dirichlet(alpha), at least ten each."""
    rng = np.random.default_rng(seed)
    if partition == "iid":
        return np.array_split(rng.permutation(len(labels)), clients)
    parts = [[] for _ in range(clients)]
    for label in range(10):
        samples = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet([alpha] * clients) * [len(part) < len(labels) / clients for part in parts] + 1e-12
        for part, own in zip(parts, np.split(samples, (np.cumsum(shares / shares.sum())[:-1] * len(samples)).astype(int))):
            part.extend(own)
    for part in parts:
        while len(part) < 10:
            part.append(max(parts, key=len).pop())
    return [np.array(part) for part in parts]


def say(peer, times, accuracy, weights=()):
    """times: when the rounds began, and when each of them was tested; weights: arrays of the last global model, for those that tell whether
    a job repeats its bits."""
    rounds, digest = np.diff(times), hashlib.sha256()
    for array in weights:
        digest.update(np.ascontiguousarray(array))
    print(json.dumps({"peer": peer, "rounds": len(rounds), "loop_seconds": float(rounds.sum()), "first_round": float(rounds[0]),
                      "median_round": float(np.median(rounds[1:] if len(rounds) > 1 else rounds)), "accuracy": float(accuracy),
                      "sha256": digest.hexdigest() if len(weights) else None}), flush=True)


now = time.monotonic


def write_images(counts, path):
    """counts: TRAIN:TEST made-up colour images of ten classes, as every side can read them."""
    rng, arrays = np.random.default_rng(1), {}
    patterns = rng.random((10, 3, 32, 32)) * 255
    for split, count in zip(("train", "test"), map(int, counts.split(":"))):
        arrays[f"y_{split}"] = rng.integers(0, 10, count)
        arrays[f"x_{split}"] = np.clip(patterns[arrays[f"y_{split}"]] + rng.normal(0, 120, (count, 3, 32, 32)), 0, 255).astype(np.uint8)
    np.savez(path, **arrays)


if __name__ == "__main__":
    write_images(*sys.argv[1:])
