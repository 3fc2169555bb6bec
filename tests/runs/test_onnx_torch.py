"""Files that PyTorch exports have the accuracy here that they have there, with the same weights.

And files of nets of sequences that are written here compute by NumPy what the nets compute.

Usage: test_onnx_torch.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE   (exit 77: skipped, there is no PyTorch that exports, or no onnx)
"""
import inspect, json, os, subprocess, sys, tempfile, warnings

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.onnx
    NEWER = "dynamo" in inspect.signature(torch.onnx.export).parameters  # the exporter of PyTorch 2.5 and later
    if NEWER:
        import onnxscript
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOUNDER = os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.abspath(sys.argv[2]))
import onnx_numpy
import sounder

SAMPLES, MEAN, DEVIATION, LETTERS = 120, 0.5, 0.25, 20
ANY_NUMBER = {"dynamic_axes": {"x": {0: "n"}}}
FORMS = ({f"{number}{how}": {"dynamo": not how, **more} for how in ("", ", traced") for number, more in (("two samples", {}), ("any number", ANY_NUMBER))} if NEWER else
         {"opset 11": {"opset_version": 11}, "opset 17": {"opset_version": 17, **ANY_NUMBER}})


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.drop = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5), nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2)).view(-1, 320)
        return F.log_softmax(self.fc2(F.dropout(F.relu(self.fc1(x)), training=self.training)), dim=1)


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(8, outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(8, outputs)
        self.short = nn.Sequential()
        if inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + self.short(x))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, 1, 1), nn.GroupNorm(8, 16)
        sizes = [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
        self.blocks, self.head = nn.Sequential(*[Block(*size) for size in sizes]), nn.Linear(64, 10)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.blocks(F.relu(self.norm(self.conv(x)))), 1)
        return self.head(x.view(x.size(0), -1))


def others():
    """Layers that the three have not."""
    return nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 16, 3, groups=2, dilation=2, padding=(1, 2)),
                         nn.LeakyReLU(0.2), nn.InstanceNorm2d(16, affine=True), nn.AvgPool2d(2), nn.ReLU6(), nn.Flatten(), nn.Linear(672, 20), nn.Tanh(),
                         nn.Dropout(0.3), nn.Linear(20, 10), nn.Softmax(1))


def batch():
    """Behind a convolution the exporter folds a normalisation in, unless it is told to leave training as it is."""
    return nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 24),
                         nn.BatchNorm1d(24), nn.Tanh(), nn.Linear(24, 10))


class Letters(nn.Module):
    """The next letter after a few, by two LSTMs whose last output is taken by one of the usual forms."""

    def __init__(self, form):
        super().__init__()
        self.table, self.lstm, self.head, self.form = nn.Embedding(LETTERS, 8), nn.LSTM(8, 16, 2, batch_first=form != "steps first"), nn.Linear(16, 10), form

    def forward(self, x):
        x = x.long()
        steps, (state, _) = self.lstm(self.table(x.t() if self.form == "steps first" else x))
        if self.form == "state":
            return self.head(state[-1])
        if self.form == "each":
            return F.relu(self.head(steps))[:, -1, :]
        if self.form == "rows":
            return self.head(steps.reshape(-1, 16)).view(x.size(0), 6, -1)[:, -1]
        return self.head(steps[-1] if self.form == "steps first" else steps[:, -1])


class Steps(nn.Module):
    """Linear layers of each step, between an embedding and the sum of all."""

    def __init__(self):
        super().__init__()
        self.table, self.up, self.down, self.norm = nn.Embedding(LETTERS, 8), nn.Linear(8, 12), nn.Linear(12, 8, bias=False), nn.LayerNorm(8)
        self.head = nn.Linear(8 * 6, 10)

    def forward(self, x):
        x = self.table(x.view(x.size(0), -1).long())
        return self.head((x + self.down(torch.tanh(self.up(self.norm(x))))).flatten(1))


class Attends(nn.Module):
    """PyTorch's attention, with and without a mask, between an embedding, perhaps with positions, and the sum of both; or one of
    three linear layers."""

    def __init__(self, form):
        super().__init__()
        self.table, self.attention, self.norm, self.head, self.form = nn.Embedding(LETTERS, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8), nn.Linear(48, 10), form
        self.parts, self.out = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)]), nn.Linear(8, 8, bias=False)
        self.places, self.own = nn.Embedding(6, 8), nn.Parameter(torch.randn(1, 6, 8))

    def forward(self, x):
        x = self.table(x.view(x.size(0), -1).long())
        if self.form == "with positions":
            x = torch.tanh(x + self.places(torch.arange(x.size(1)))) + self.own + self.places(torch.arange(x.size(1)).unsqueeze(0))
        if self.form == "of three layers":
            queries, keys, values = (part(x).view(x.size(0), 6, 4, 2).transpose(1, 2) for part in self.parts)
            seen = (queries @ keys.transpose(-2, -1) / 2 ** 0.5).softmax(-1) @ values
            return self.head(self.norm(x + self.out(seen.transpose(1, 2).reshape(x.size(0), 6, 8))).flatten(1))
        mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1) if self.form == "with a mask" else None
        return self.head(self.norm(x + self.attention(x, x, x, need_weights=False, attn_mask=mask)[0]).flatten(1))


def check(name, net, shape, folder, letters=0):
    """The labels of two samples in three are what the net says: neither all nor a tenth are right."""
    rng = np.random.default_rng(1)
    for parameter in net.parameters():
        if parameter.dim() == 1:  # factors and shifts that are not 1 and 0
            nn.init.uniform_(parameter, -0.5, 1.5)
    for name_of, buffer in net.named_buffers():
        if buffer.dim() == 1:  # running means and variances that are not 0 and 1
            nn.init.uniform_(buffer, *((0.5, 2.0) if "var" in name_of else (-0.5, 0.5)))
    net.eval()
    x = rng.integers(0, letters or 256, (SAMPLES, *shape)).astype(np.uint8)
    with torch.no_grad():
        said = net(torch.from_numpy(x).float() if letters else (torch.from_numpy(x).float() / 255 - MEAN) / DEVIATION).numpy().argmax(1)
    y = said.copy()
    y[::3] = rng.integers(0, 10, len(y[::3]))
    y[0] = 9
    channels, data, file = 1 if letters else shape[0], os.path.join(folder, name + ".npz"), os.path.join(folder, name + ".onnx")
    np.savez(data, x_train=x, y_train=y, x_test=x, y_test=y, mean=np.float32([MEAN] * channels), std=np.float32([DEVIATION] * channels))
    for form, options in FORMS.items():
        if name == "cnn" and form == "opset 11":
            continue
        if not NEWER:
            options = {**options, "do_constant_folding": name != "last", **({"training": torch.onnx.TrainingMode.PRESERVE} if name == "batch" else {})}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, torch.zeros(2, *shape), file, input_names=["x"], **options)
        with open(file, "rb") as bytes_of:
            assert NEWER or name != "batch" or bytes_of.read().count(b"\x22\x12BatchNormalization") == 4, "the exporter has folded one in"
        weights = sounder.write_weights(file + ".safetensors", file)
        done = subprocess.run([SOUNDER, "eval", weights, "--model", sounder.layers(file), "--data", data, "--device", "cpu", "--json"], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        ours, theirs = json.loads(done.stdout)["hits"], int((said == y).sum())
        print(f"{name} by {form}: sounder {ours}, torch {theirs} of {SAMPLES}")
        assert abs(ours - theirs) <= 1, "one sample may tip over by rounding, not more"


WRITTEN = {"steps": "embedding 20 4 as e; layernorm each; linear 4 each; tanh; add e; linear 10", "lstms": "embedding 20 4; lstm 5; layernorm; lstm 4 last; linear 10",
           "attention": "embedding 20 8 as e; attention 2; add e; layernorm each as f; linear 12 each; relu; dropout 0.1; linear 8 each; add f; linear 10",
           "causal": "embedding 20 8; positions as e; attention 4 causal; add e; lstm 6; lstm 6 last; linear 10"}


def check_written(name, text, folder):
    data, run = os.path.join(folder, "letters.npz"), os.path.join(folder, name + ".run")
    x = np.random.default_rng(2).integers(0, LETTERS, (SAMPLES, 1, 1, 6)).astype(np.uint8)
    y = x[:, 0, 0, :2].sum(1) % 10
    np.savez(data, x_train=x, y_train=y, x_test=x, y_test=y)
    short = "--device cpu --clients 2 --workers 1 --rounds 3 --batch-size 10 --lr 0.5 --quiet".split()
    trained = sounder.train(run, data=data, model=text, device="cpu", clients=2, workers=1, rounds=3, batch_size=10, lr=0.5)
    ours = trained.evaluate(device="cpu")
    trained.export_onnx(run + ".onnx")
    said = onnx_numpy.run(run + ".onnx", x.astype(np.float32)).astype(np.float64)
    loss = np.mean(np.log(np.exp(said).sum(1)) - said[np.arange(SAMPLES), y])
    print(f"{name}: sounder {ours['test_loss']:.6f}, NumPy {loss:.6f}")
    assert abs(loss - ours["test_loss"]) < 1e-5 and abs((said.argmax(1) == y).sum() - ours["hits"]) <= 1


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="sounder-onnx-") as folder:
        for name, net, shape in (("lenet", LeNet(), (1, 28, 28)), ("cnn", cnn(), (1, 28, 28)), ("resnet20", ResNet20(), (3, 32, 32)),
                                 ("others", others(), (1, 28, 28)), ("batch", batch(), (3, 16, 16))):
            check(name, net, shape, folder)
        for form in "last", "state", "each", "rows", "steps first":
            check(form, Letters(form), (6,), folder, LETTERS)
        check("steps", Steps(), (1, 1, 6), folder, LETTERS)
        for form in "attention", "with a mask", "with positions", "of three layers":
            check(form, Attends(form), (1, 1, 6), folder, LETTERS)
        for name, text in WRITTEN.items():
            check_written(name, text, folder)


main()
