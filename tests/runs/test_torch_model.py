"""A model trained by Sounder, loaded into the equivalent torch.nn.Module, has the same accuracy.

Usage: test_torch_model.py PATH_OF_SOUNDER   (exit 77: skipped, there is no PyTorch)
"""
import json, os, struct, subprocess, sys, tempfile

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOUNDER = os.path.abspath(sys.argv[1])
SAMPLES = {"train": 3000, "t10k": 1000}


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class McMahanCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.fc1, self.fc2 = nn.Linear(3136, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class TwoNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 200), nn.Linear(200, 200), nn.Linear(200, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


def write_data(folder):
    """Ten smooth patterns and noise, as IDX files: enough for accuracies that are neither 10% nor 100%."""
    rng = np.random.default_rng(1)
    patterns = np.kron(rng.random((10, 7, 7)), np.ones((4, 4))) * 255
    test = None
    for split, count in SAMPLES.items():
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = np.clip(patterns[labels] + rng.normal(0, 160, (count, 28, 28)), 0, 255).astype(np.uint8)
        with open(os.path.join(folder, f"{split}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28) + images.tobytes())
        with open(os.path.join(folder, f"{split}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + labels.tobytes())
        test = images, labels
    return test


def read_model(path):
    with open(path, "rb") as file:
        blob = file.read()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    header.pop("__metadata__", None)
    state = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(blob[8 + length + begin : 8 + length + end], "<f4").reshape(entry["shape"])
        state[name] = torch.from_numpy(values.copy())
    return state


def check(name, module, folder, images, labels):
    run = os.path.join(folder, name)
    subprocess.run([SOUNDER, "train", "--data", folder, "--model", name, "--rounds", "2", "--workers", "2", "--lr", "0.05",
                          "--out", run], check=True, timeout=300)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        ours = round(json.loads(file.readlines()[-1])["test_accuracy"] * len(labels))
    module.load_state_dict(read_model(os.path.join(run, "model.safetensors")))  # strict: names and shapes must agree
    module.eval()
    x = ((torch.from_numpy(images).float() / 255 - 0.1307) / 0.3081).unsqueeze(1)
    with torch.no_grad():
        theirs = int((module(x).argmax(1) == torch.from_numpy(labels.astype("int64"))).sum())
    print(f"{name}: sounder {ours}, torch {theirs} of {len(labels)}")
    assert abs(ours - theirs) <= 1, "one sample may tip over by rounding, not more"
    assert ours > len(labels) * 0.15, "an untrained net would agree too easily"


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="sounder-torch-") as folder:
        images, labels = write_data(folder)
        for name, module in (("lenet", LeNet()), ("2nn", TwoNN()), ("cnn", McMahanCNN())):
            check(name, module, folder, images, labels)


main()
