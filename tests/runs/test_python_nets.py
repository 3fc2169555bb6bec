"""PyTorch modules that sounder.layers reads are trained by Sounder as by PyTorch, and load_into gives back each of their parameters.

Usage: test_python_nets.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no PyTorch)
"""
import os, sys, tempfile, unittest, warnings

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.abspath(sys.argv[2]))
import sounder

SAMPLES, CLASSES, STEPS, LR, CLOSE = 12, 4, 3, 0.05, 1e-5
LETTERS, SIGNALS, IMAGES = (9,), (4, 21), (3, 12, 10)
CAUSAL = nn.Transformer.generate_square_subsequent_mask(9)


class Net(nn.Module):
    """Computes forward(net, x) with the modules and parameters that it is given."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.computes = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.computes(self, x)


def channel_shuffle(x, groups):
    samples, channels, rows, columns = x.size()
    return x.view(samples, groups, channels // groups, rows, columns).transpose(1, 2).contiguous().view(samples, channels, rows, columns)


def letters(forward, width=8, **parts):
    return Net(lambda net, x: forward(net, net.table(x.long())), table=nn.Embedding(20, 6), head=nn.Linear(width, CLASSES), **parts)


def last_of_gru(net, x):
    output, hidden = net.gru(x)
    return net.head(hidden[-1])


def lstm_of_zeros(net, x):
    hidden = torch.zeros(net.lstm.num_layers, x.size(0), 8).to(x.device)
    output, (hidden, cell) = net.lstm(x, (hidden, torch.zeros((2, x.shape[0], 8))))
    return net.head(output[:, -1, :])


def halves(net, x):
    one, other = net.stem(x).chunk(2, dim=1)
    x = channel_shuffle(torch.cat((one, net.branch(other)), 1), 2)
    return net.head(x.mean([2, 3]))


def block(net, x):
    """ConvNeXt's, channels first and last."""
    x = net.norm(net.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    inner = net.deep(x).permute(0, 2, 3, 1)
    inner = net.down(F.gelu(net.up(net.inner_norm(inner)))).permute(0, 3, 1, 2)
    return net.head((x + net.scale * inner).mean([-2, -1]) * net.gains)


def encoder(layers=1, norm=None, dropout=0, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors, which norm_first does without
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 10, dropout, batch_first=True, **more), layers, norm)


def masked(net, x):
    return net.head(net.encoder(x + net.places, mask=CAUSAL)[:, -1])


# name: net, what it takes, its text
NETS = {
    "gru": (letters(last_of_gru, gru=nn.GRU(6, 8, 2, batch_first=True)), LETTERS, "embedding 20 6; gru 8; gru 8 last; linear 4"),
    "lstm of zeros": (letters(lstm_of_zeros, lstm=nn.LSTM(6, 8, 2, batch_first=True)), LETTERS, "embedding 20 6; lstm 8; lstm 8 last; linear 4"),
    "steps of a gru": (letters(lambda net, x: net.head(torch.tanh(net.gru(x)[0]).mean(1)), gru=nn.GRU(6, 8, batch_first=True)), LETTERS,
                       "embedding 20 6; gru 8; tanh; mean; linear 4"),
    "first step": (letters(lambda net, x: net.head(net.encoder(x)[:, 0]), 6, encoder=encoder()), LETTERS,
                   "embedding 20 6 as v1; attention 2; add v1; layernorm each as v2; linear 10 each; relu; linear 6 each; add v2; layernorm each; first; linear 4"),
    "last step": (letters(lambda net, x: net.head(net.wide(x)[:, -1]), wide=nn.Linear(6, 8, bias=False)), LETTERS, "embedding 20 6; linear 8 each nobias; last; linear 4"),
    "text of lines": (letters(lambda net, x: net.head(torch.tanh(net.line(x.transpose(1, 2))).mean(2)), line=nn.Conv1d(6, 8, 3)), LETTERS,
                      "embedding 20 6; transpose; conv1d 8 3; tanh; globalpool; linear 4"),
    "lines": (nn.Sequential(nn.Conv1d(4, 6, 3, padding="same", dilation=2, bias=False), nn.BatchNorm1d(6), nn.SiLU(), nn.AvgPool1d(2), nn.Conv1d(6, 8, 3, 2, groups=2), nn.Tanh(),
                            nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(24, CLASSES, bias=False)), SIGNALS,
              "conv1d 6 3 pad 2 dilation 2 nobias; batchnorm; silu; avgpool 1x2; conv1d 8 3 stride 2 groups 2; tanh; globalpool 1x3; linear 4 nobias"),
    "steps of lines": (Net(lambda net, x: net.head(net.gru(net.line(x).transpose(1, 2))[0][:, -1]), line=nn.Conv1d(4, 5, 3), gru=nn.GRU(5, 6, batch_first=True),
                           head=nn.Linear(6, CLASSES)), SIGNALS, "conv1d 5 3; transpose; gru 6 last; linear 4"),
    "halves": (Net(halves, stem=nn.Conv2d(3, 8, 3), branch=nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), head=nn.Linear(8, CLASSES)), IMAGES,
               "conv 8 3 as v1; chunk 1 2 as v3; chunk 2 2 from v1; conv 4 3 pad 1 groups 4 nobias as v2; concat v2 from v3; shuffle 2; globalpool; linear 4"),
    "patches": (Net(lambda net, x: net.head(F.gelu(net.wide(net.stem(x).flatten(2).transpose(1, 2))).mean(1)), stem=nn.Conv2d(3, 6, 2, 2), wide=nn.Linear(6, 8),
                    head=nn.Linear(8, CLASSES)), IMAGES, "conv 6 2 stride 2; transpose; linear 8 each; gelu; mean; linear 4"),
    "block": (Net(block, stem=nn.Conv2d(3, 8, 2, 2), norm=nn.LayerNorm(8), deep=nn.Conv2d(8, 8, 3, padding=1, groups=8), inner_norm=nn.LayerNorm(8, 1e-6), up=nn.Linear(8, 16),
                  down=nn.Linear(16, 8, bias=False), scale=nn.Parameter(torch.full((8, 1, 1), 0.3)), gains=nn.Parameter(torch.linspace(0.5, 1, 8)), head=nn.Linear(8, CLASSES)), IMAGES,
              "conv 8 2 stride 2; layernorm channels as v1; conv 8 3 pad 1 groups 8; layernorm channels eps 1e-06; conv 16 1; gelu; conv 8 1 nobias; "
              "conv 8 1 groups 8 nobias; add v1; globalpool; conv 8 1 groups 8 nobias; linear 4"),
    "encoder": (letters(lambda net, x: net.head(net.encoder(x).mean(1)), 6, encoder=encoder(2)), LETTERS,
                "embedding 20 6 as v1; attention 2; add v1; layernorm each as v2; linear 10 each; relu; linear 6 each; add v2; layernorm each as v3; "
                "attention 2; add v3; layernorm each as v4; linear 10 each; relu; linear 6 each; add v4; layernorm each; mean; linear 4"),
    "encoder layer": (letters(lambda net, x: net.head(net.layer(x).mean(1)), 6, layer=encoder(activation="gelu", norm_first=True).layers[0]), LETTERS,
                      "embedding 20 6 as v1; layernorm each; attention 2; add v1 as v2; layernorm each; linear 10 each; gelu; linear 6 each; add v2; mean; linear 4"),
    "causal encoder": (letters(masked, 6, places=nn.Parameter(torch.randn(9, 6)), encoder=encoder(1, nn.LayerNorm(6, 1e-6), activation=nn.GELU(), norm_first=True)), LETTERS,
                       "embedding 20 6; positions as v1; layernorm each; attention 2 causal; add v1 as v2; layernorm each; linear 10 each; gelu; linear 6 each; add v2; "
                       "layernorm each eps 1e-06; last; linear 4"),
    "grid": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d((3, 5)), nn.Flatten(), nn.Linear(60, CLASSES)), IMAGES, "conv 4 3; tanh; globalpool 3x5; linear 4"),
}


class Nets(unittest.TestCase):
    def train_both(self, name, folder):
        net, shape, text = NETS[name]
        self.assertEqual(sounder.layers(net), text)
        rng, y = np.random.default_rng(3), np.arange(SAMPLES) % CLASSES
        x = rng.integers(0, 20, (SAMPLES, *shape)).astype(np.uint8) if shape == LETTERS else rng.normal(0, 1, (SAMPLES, *shape)).astype(np.float32)
        begin = sounder.write_weights(os.path.join(folder, "begin.safetensors"), net)
        run = sounder.train(os.path.join(folder, "run"), data=sounder.write_data(os.path.join(folder, "x.npz"), train=(x, y), test=(x, y)), model=text, init=begin,
                            clients=1, rounds=STEPS, batch_size=SAMPLES, local_epochs=1, lr=LR, workers=1)
        before = [own.detach().clone() for own in net.parameters()]
        net.train()
        optimizer = torch.optim.SGD(net.parameters(), LR)
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            optimizer.step()
        want = [own.detach().clone() for own in net.parameters()]
        with torch.no_grad():
            for own in net.parameters():
                own.fill_(9)
        run.load_into(net)
        return before, want, [own.detach().clone() for own in net.parameters()]

    def test_a_module_that_is_read_is_trained_as_by_pytorch_and_comes_back(self):
        for name in NETS:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="sounder-nets-") as folder:
                for (part, _), before, want, got in zip(NETS[name][0].named_parameters(), *self.train_both(name, folder)):
                    update = (want - before).norm()
                    self.assertGreater(update, 0, part)
                    self.assertLess(((got - want).norm() / want.norm()).item(), CLOSE, part)

    def test_a_softmax_that_is_left_out_is_told_with_the_loss_that_is_meant(self):
        for last, said in ((nn.Softmax(1), "1: a Softmax at the end is left out, since the loss begins with one: the net is trained as by NLLLoss"),
                           (nn.LogSoftmax(1), None), (nn.Identity(), None)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.assertEqual(sounder.layers(nn.Sequential(nn.Linear(3, 4), last)), "linear 4")
            told = [str(one.message) for one in told if one.filename == __file__]
            self.assertEqual([text[:len(said)] for text in told] if said else told, [said] if said else [])

    def test_a_module_that_shuffles_channels_is_a_layer(self):  # that PyTorch 1.13 cannot train
        self.assertEqual(sounder.layers(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ChannelShuffle(2))), "conv 4 3; shuffle 2")

    def test_a_refusal_names_the_module_and_the_trainer(self):
        class Own(nn.Module):
            def forward(self, x):
                samples, channels = x.shape[:2]
                return x.view(samples, channels, -1) if samples > 2 else x

        for net, names in ((nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(Own())), "1.0: Own's forward cannot be traced"),
                           (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.InstanceNorm2d(4))), "1.0: Sounder has no InstanceNorm2d"),
                           (nn.Sequential(nn.Conv3d(3, 4, 3)), "0: Sounder has no Conv3d"),
                           (nn.Sequential(nn.Conv2d(3, 4, (3, 2), padding="same")), "0: padding is 'same' of an even kernel_size"),
                           (nn.TransformerEncoderLayer(6, 2, 10), "0.self_attn: batch_first is False; Sounder has only True; make it with batch_first=True"),
                           (letters(lambda net, x: net.encoder(x, is_causal=True), encoder=encoder()), "encoder.layers.0: is_causal without a mask"),
                           (letters(lambda net, x: net.encoder(x, CAUSAL, x.sum(2) == 0), encoder=encoder()), "encoder.layers.0: src_key_padding_mask; Sounder's attention hides no step")):
            with self.assertRaises(sounder.Error) as error:
                sounder.layers(net)
            self.assertIn(names, str(error.exception))
            self.assertIn("trainer", str(error.exception))

    def test_the_way_out_of_dropped_weights_of_attention_is_one(self):
        net = letters(lambda net, x: net.head(net.encoder(x).mean(1)), 6, encoder=encoder(dropout=0.1))
        self.assertRaisesRegex(sounder.Error, "encoder.layers.0.self_attn: dropout is 0.1; .* set dropout = 0 of each MultiheadAttention", sounder.layers, net)
        for part in net.modules():
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0
        self.assertEqual(sounder.layers(net).count("dropout 0.1"), 3)

    def test_dimensions_that_are_stored_elsewhere_are_not_mistaken(self):
        conv, head = nn.Conv2d(3, 4, 3), nn.Linear(8, 4)
        for forward, sentence in ((lambda net, x: net.head(net.conv(x).permute(0, 2, 3, 1).flatten(1)), "flatten: takes images with their channels last"),
                                  (lambda net, x: net.head(net.conv(x).flatten(2)), "head: takes images whose rows and columns are one dimension"),
                                  (lambda net, x: net.conv(x).permute(0, 2, 3, 1), "takes images with their channels last"),
                                  (lambda net, x: net.conv(x).permute(0, 1, 3, 2), "dimensions in the order 0, 1, 3, 2"),
                                  (lambda net, x: net.conv(x).chunk(2, 2)[0], "2 parts along dimension 2"),
                                  (lambda net, x: net.conv(x) * net.factor, "factor: a parameter outside a layer"),
                                  (lambda net, x: net.conv(x).mean(1), "a mean over dimensions 1")):
            with self.assertRaises(sounder.Error) as error:
                sounder.layers(Net(forward, conv=conv, head=head, factor=nn.Parameter(torch.ones(4))))
            self.assertIn(sentence, str(error.exception))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
