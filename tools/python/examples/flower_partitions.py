"""The partitions that a Flower user has, trained on as they are: a client each.

    python3 tools/python/examples/flower_partitions.py [FOLDER]        (needs numpy and the program sounder)

With Flower Datasets the partitions come from
    fds = FederatedDataset(dataset="uoft-cs/cifar10", partitioners={"train": DirichletPartitioner(10, "label", alpha=0.5)})
    partitions = [fds.load_partition(i).with_format("numpy") for i in range(10)]
    test = fds.load_split("test").with_format("numpy")
and columns=("img", "label"). Here they are made up, so that nothing is downloaded.
"""
import os
import sys
import tempfile

import numpy as np
import sounder

rng = np.random.default_rng(1)
patterns = rng.random((4, 8, 8, 3)) * 255


def partition(count, classes):
    """Columns, as those of Hugging Face: images (N, H, W, C) and labels."""
    label = rng.choice(classes, count)
    return {"image": np.clip(patterns[label] + rng.normal(0, 60, (count, 8, 8, 3)), 0, 255).astype(np.uint8), "label": label}


folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
partitions = [partition(50 + 20 * i, [i % 4, (i + 1) % 4]) for i in range(10)]
data = sounder.from_partitions(os.path.join(folder, "partitions.npz"), partitions, partition(400, range(4)), columns=("image", "label"))

for algorithm in ("fedavg", "fedprox", "scaffold"):
    run = sounder.train(os.path.join(folder, algorithm), data=data, model="conv 8 3 pad 1; relu; pool 2; linear classes",
                        algorithm=algorithm, rounds=5, batch_size=10, momentum=0)
    clients = {row["client"]: row["samples"] for row in run.rows("client")}
    print(f"{algorithm}: {len(clients)} clients of {min(clients.values())} to {max(clients.values())} samples, "
          f"accuracy {run.rows('round')[-1]['test_accuracy']:.2%}")
