"""The Python package: arrays in, modules in, rows and weights out, and the program's sentences as exceptions.

Usage: test_python.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, re, shutil, subprocess, sys, tempfile, unittest

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import torch
    import torch.nn as nn
except ImportError:
    torch = None

os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
PACKAGE = os.path.abspath(sys.argv[2])
sys.path.insert(0, PACKAGE)
import sounder
from sounder.functions import FUNCTIONS
from sounder.safetensors import read_safetensors

QUICK = {"model": "linear 8; relu; linear classes", "clients": 4, "rounds": 2, "workers": 2, "batch_size": 10}


def numbers(count, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return rng.normal(0, 0.5, (count, 5)) + y[:, None], y


class Python(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-python-")

    def tearDown(self):
        self.folder.cleanup()

    def path(self, *parts):
        return os.path.join(self.folder.name, *parts)

    def data(self, name="data.npz", **more):
        return sounder.write_data(self.path(name), train=numbers(120, 1), test=numbers(60, 2), **more)

    def test_a_run_gives_rows_weights_and_its_evaluation(self):
        run = sounder.train(self.path("run"), data=self.data(), **QUICK)
        self.assertEqual([row["round"] for row in run.rows("round")], [1, 2])
        self.assertEqual({row["client"] for row in run.rows("client")}, {0, 1, 2, 3})
        self.assertEqual({name: value.shape for name, value in run.weights().items()},
                         {"fc1.weight": (8, 5), "fc1.bias": (8,), "fc2.weight": (3, 8), "fc2.bias": (3,)})
        self.assertAlmostEqual(run.evaluate()["test_accuracy"], run.rows("round")[-1]["test_accuracy"])
        self.assertIn("rounds: 2", run.config)
        self.assertFalse(run.is_running)
        self.assertEqual([row["round"] for row in sounder.Run(self.path("run")).rows("round")], [1, 2])  # a run of before

    def test_a_run_is_watched_stopped_and_gone_on_with(self):
        data = self.data()
        with sounder.start(self.path("run"), data=data, **{**QUICK, "rounds": 1000000}) as run:
            while len(run.rows("round")) < 2:
                self.assertTrue(run.is_running)
            first = np.array(run.weights()["fc1.weight"])
            seen = len(run.rows("round"))
            while len(run.rows("round")) < seen + 2:
                self.assertTrue(run.is_running)
            self.assertFalse(np.array_equal(first, run.weights()["fc1.weight"]))  # the live weights move on
            run.stop()
        done = run.rows("round")[-1]["round"]
        again = sounder.resume(self.path("run"), rounds=done + 2)
        self.assertEqual(again.summary["type"], "summary")
        self.assertEqual(again.rows("round")[-1]["round"], done + 2)
        self.assertRaisesRegex(sounder.Error, "no summary", lambda: sounder.Run(self.path("none")).summary)

    def test_the_live_links_of_a_killed_run_are_not_followed(self):
        one = sounder.train(self.path("one"), data=self.data(), **QUICK)
        own = np.array(one.weights()["fc1.weight"])
        other = sounder.train(self.path("other"), data=self.data(), **{**QUICK, "lr": 0.3})
        os.mkdir(self.path("one", "live"))  # as if another run had the number of the process that was killed
        os.symlink(self.path("other", "model.safetensors"), self.path("one", "live", "global.safetensors"))
        self.assertTrue(np.array_equal(one.weights()["fc1.weight"], own))
        self.assertFalse(np.array_equal(other.weights()["fc1.weight"], own))
        os.remove(self.path("one", "model.safetensors"))
        self.assertRaisesRegex(sounder.Error, "ended without a model; sounder.resume goes on with it", one.weights)

    def test_a_plan_is_the_programs_lines_by_name_and_leaves_no_run(self):
        told = sounder.plan(data=self.data(), **QUICK)
        self.assertEqual(list(told), ["shared memory", "private memory", "in all", "files", "time"])
        self.assertRegex(told["time"], "^about .* samples in ")
        with self.assertRaisesRegex(sounder.Error, r"sounder\.plan\(\*\*options\)"):
            sounder.train(self.path("run"), data=self.data("more.npz"), plan=True, **QUICK)
        self.assertFalse(os.path.exists(self.path("run")))
        with self.assertRaisesRegex(sounder.Error, "no such model"):
            sounder.plan(data=self.data("other.npz"), **{**QUICK, "model": "nothing"})

    def test_what_the_program_refuses_is_one_exception_with_its_sentence(self):
        data = self.data()
        with self.assertRaisesRegex(sounder.Error, r"--rounds 0: needs a whole number") as refused:
            sounder.train(self.path("run"), data=data, **{**QUICK, "rounds": 0})
        self.assertEqual(refused.exception.code, 64)
        with open(data, "r+b") as file:
            file.truncate(500)
        with self.assertRaisesRegex(sounder.Error, f"^{re.escape(data)}: not a zip archive, or truncated") as refused:
            sounder.train(self.path("run"), data=data, **QUICK)
        self.assertEqual(refused.exception.code, 65)
        self.assertRaisesRegex(sounder.Error, "neither a live model nor a finished one", sounder.Run(self.path("run")).weights)
        program, os.environ["SOUNDER"], path = os.environ["SOUNDER"], "", os.environ["PATH"]
        try:
            os.environ["PATH"] = self.path("nothing")
            self.assertRaisesRegex(sounder.Error, "no program sounder on the PATH", sounder.train, self.path("run"), data=data)
        finally:
            os.environ["SOUNDER"], os.environ["PATH"] = program, path

    def test_clients_have_any_names_and_partitions_are_clients(self):
        names = np.array([f"user {i % 3}" for i in range(120)])
        run = sounder.train(self.path("named"), data=self.data(client=names, test_client=names[:60]), **{**QUICK, "clients": None})
        self.assertEqual({row["client"] for row in run.rows("client")}, {0, 1, 2})
        self.assertRaisesRegex(sounder.Error, "has no training samples", self.data, client=names, test_client=["user 9"] * 60)
        self.assertRaisesRegex(sounder.Error, "call it .*data.csv.npz", self.data, name="data.csv")
        data = sounder.from_partitions(self.path("parts.npz"), [numbers(10, 1), numbers(30, 2)], numbers(20, 3))
        with np.load(data) as arrays:
            self.assertEqual(np.bincount(arrays["client_train"]).tolist(), [10, 30])

    def test_objects_that_load_partitions_are_as_good_as_lists(self):
        class Loader:  # as Flower's FederatedDataset
            def __init__(self):
                self.partitioners = {"train": type("Partitioner", (), {"num_partitions": 2})}

            def load_partition(self, number):
                return dict(zip(("x", "y"), numbers(10 + 20 * number, number)))

            def load_split(self, name):
                return dict(zip(("x", "y"), numbers({"test": 20}[name], 3)))

        holder = type("Holder", (), {"partitions": [numbers(10, 0), numbers(30, 1)]})()
        loaded = sounder.from_partitions(self.path("loaded.npz"), Loader(), columns=("x", "y"))
        held = sounder.from_partitions(self.path("held.npz"), holder, numbers(20, 3))
        with np.load(loaded) as one, np.load(held) as other:
            self.assertEqual(np.bincount(one["client_train"]).tolist(), [10, 30])
            for name in one:
                self.assertTrue(np.array_equal(one[name], other[name]), name)
        self.assertRaisesRegex(sounder.Error, "^test: there is none", sounder.from_partitions, self.path("no.npz"), holder)

    def test_a_sweep_is_a_run_for_each_combination(self):
        grid = {"batch_size": [5, 20], "seed": range(2, 4), "algorithm": ["fedprox mu=0.5"]}
        options = {**QUICK, "batch_size": None, "attack": "sign-flip", "attackers": "1,3"}
        runs = sounder.sweep(self.path("sweep"), grid, data=self.data(), parallel=1, **options)
        self.assertEqual(sorted((of["batch_size"], of["seed"]) for of, _ in runs), [(5, 2), (5, 3), (20, 2), (20, 3)])
        for of, run in runs:
            self.assertEqual(of["algorithm"], "fedprox mu=0.5")
            self.assertIn(f"batch-size: {of['batch_size']}\n", run.config)
            self.assertRegex(run.config, r"attackers: .?1,3")  # no two values of a sweep
            self.assertEqual(len(run.rows("round")), 2)
        self.assertRaisesRegex(sounder.Error, "'0.1,0.2' means several values", sounder.sweep, self.path("no"), {"lr": ["0.1,0.2"]})
        lists = sounder.sweep(self.path("lists"), {"attackers": ["1,3", "2"]}, data=self.data(), parallel=1, **{**QUICK, "attack": "sign-flip"})
        self.assertEqual([of["attackers"] for of, _ in lists], ["1,3", 2])
        with self.assertRaisesRegex(sounder.Error, "rounds.*0") as refused:
            sounder.sweep(self.path("no"), {"rounds": [0, 1]}, data=self.data())
        self.assertEqual(refused.exception.code, 64)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_run_begins_from_the_weights_of_a_module(self):
        net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        before = [parameter.detach().clone() for parameter in net.parameters()]
        begin = sounder.write_weights(self.path("begin.safetensors"), net)
        run = sounder.train(self.path("run"), data=self.data(), init=begin, **{**QUICK, "model": sounder.layers(net), "lr": 1e-30})
        run.load_into(net)
        for was, parameter in zip(before, net.parameters()):
            self.assertTrue(torch.equal(was, parameter))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_modules_become_layers_or_are_named(self):
        class Functions(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(36, 2)

            def forward(self, x):
                x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
                return nn.functional.log_softmax(self.fc(x.view(x.size(0), -1)), dim=1)

        class Joined(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)

            def forward(self, x):
                x = torch.relu(self.first(x))
                return torch.cat([x + self.norm(self.second(x)), x], 1)

        class Excited(nn.Module):  # squeeze and excitation, and a dense net's joins
            def __init__(self):
                super().__init__()
                self.conv, self.down, self.up = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 2), nn.Linear(2, 4)

            def forward(self, x):
                x = torch.cat([self.conv(x)], 1)
                factors = nn.functional.hardsigmoid(self.up(nn.functional.silu(self.down(x.mean((2, 3))))))
                y = x * factors.view(x.size(0), x.size(1), 1, 1)
                return nn.functional.adaptive_avg_pool2d(torch.cat([torch.cat([y, x], 1), torch.cat([y, x, y], 1)], 1), 1)

        class Input(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 1, 3, padding=1)

            def forward(self, x):
                return x + self.conv(x)

        cases = [
            (Functions(), "conv 4 3; relu; pool 2; linear 2"),
            (nn.Sequential(nn.Conv2d(4, 8, (3, 5), stride=2, padding=(1, 2), dilation=(1, 2), groups=4), nn.LeakyReLU(0.1)),
             "conv 8 3x5 stride 2 pad 1x2 dilation 1x2 groups 4; leakyrelu 0.1"),
            (nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.Sequential(nn.Tanh(), nn.AdaptiveAvgPool2d(1)), nn.Flatten(), nn.Dropout(0.25)),
             "avgpool 3 stride 2 pad 1; tanh; globalpool; dropout 0.25"),
            (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3), nn.BatchNorm1d(3)),
             "conv 2 3; batchnorm; linear 3; batchnorm"),
            (Joined(), "conv 4 3 pad 1; relu as v1; conv 4 1; groupnorm 2; add v1; concat v1"),
            (nn.Sequential(nn.Conv2d(1, 4, 3, bias=False, groups=1), nn.BatchNorm2d(4, 1e-3, 0.01), nn.MaxPool2d(3, 2, ceil_mode=True), nn.GroupNorm(2, 4, 1e-6),
                           nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False), nn.AdaptiveAvgPool2d((3, 2)), nn.Flatten(), nn.LayerNorm(24, 1e-6)),
             "conv 4 3 nobias; batchnorm eps 0.001 momentum 0.01; pool 3 stride 2 ceil; groupnorm 2 eps 1e-06; avgpool 2 ceil; globalpool 3x2; layernorm eps 1e-06"),
            (Excited(), "conv 4 3 pad 1 as v1; globalpool; linear 2; silu; linear 4; hardsigmoid; mul v1 as v2; concat v1 as v4; concat v2 as v3; "
                        "concat v3 from v4; globalpool"),
        ]
        for net, text in cases:
            self.assertEqual(sounder.layers(net), text)
        for function in FUNCTIONS:
            net = nn.Sequential(nn.Conv2d(1, 4, 3), getattr(nn, function.module)())
            self.assertEqual(sounder.layers(net).split()[:4], ["conv", "4", "3;", function.word])
            weights, _ = read_safetensors(sounder.write_weights(os.path.join(self.folder.name, "weights.safetensors"), net))
            own = [f"{function.word}1.{name}" for name, _ in net[1].named_parameters()]
            self.assertEqual(list(weights), ["conv1.weight", "conv1.bias", *own])
        refused = [(nn.Sequential(nn.Linear(3, 4), nn.Softplus()), "1: Sounder has no Softplus"),
                   (nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.Softplus())), "0.1: Sounder has no Softplus"),
                   (nn.Sequential(nn.LogSoftmax(1), nn.ReLU()), "0: Sounder has no LogSoftmax"),
                   (nn.Sequential(nn.MaxPool2d(2, return_indices=True)), "0: return_indices is True"),
                   (nn.Sequential(nn.AvgPool2d(3, padding=1, count_include_pad=False)), "0: count_include_pad is False"),
                   (nn.Sequential(nn.GroupNorm(1, 2, affine=False)), "0: affine is False; Sounder has only True"),
                   (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.BatchNorm1d(8)), "2: Sounder's batchnorm is over channels"),
                   (nn.Sequential(nn.BatchNorm2d(2, momentum=None)), "0: momentum is None; Sounder's running statistics need a number above 0"),
                   (Input(), "add: takes the net's input besides what the layer before it gives")]
        for net, sentence in refused:
            with self.assertRaises(sounder.Error) as error:
                sounder.layers(net)
            self.assertTrue(str(error.exception).startswith(sentence), error.exception)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_weights_go_into_the_module_they_were_made_for_and_no_other(self):
        net, other = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), nn.Sequential(nn.Linear(5, 9), nn.Linear(9, 3))
        run = sounder.train(self.path("run"), data=self.data(), **{**QUICK, "model": sounder.layers(net)})
        run.load_into(net)
        x, y = numbers(60, 2)
        right = (net(torch.tensor(x, dtype=torch.float32)).argmax(1).numpy() == y).mean()
        self.assertAlmostEqual(right, run.rows("round")[-1]["test_accuracy"], places=6)
        self.assertRaisesRegex(sounder.Error, "fc1.weight: of shape", run.load_into, other)
        self.assertRaisesRegex(sounder.Error, "this net has fc1.weight, fc1.bias$", run.load_into, nn.Sequential(nn.Linear(5, 3)))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_sequences_keep_their_steps_until_they_are_flattened(self):
        class Net(nn.Module):
            """Of a forward that is given: what the cases share."""

            def __init__(self, forward):
                super().__init__()
                self.table, self.lstm = nn.Embedding(80, 16), nn.LSTM(16, 16, 2, batch_first=True, dropout=0.1)
                self.attention, self.norm = nn.MultiheadAttention(16, 4, batch_first=True), nn.LayerNorm(16)
                self.wide, self.narrow, self.head = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 10)
                self.places, self.more = nn.Embedding(12, 16), nn.Embedding(20, 16)
                self.register_parameter("own", nn.Parameter(torch.zeros(1, 12, 16)))
                self.register_parameter("single", nn.Parameter(torch.zeros(1, 16)))
                self.padded, self.same = nn.Embedding(12, 16, padding_idx=0), nn.Linear(16, 12)
                self.same.weight = nn.Parameter(self.own[0])
                self.same.weight.data = self.own.data[0]
                self.register_buffer("steps", torch.arange(12)[None])
                self.register_buffer("waves", torch.zeros(12, 16))
                self.register_buffer("mask", torch.ones(12, 12).triu(1).bool())
                self.register_buffer("window", torch.ones(12, 12).triu(2).bool())
                self.register_parameter("shift", nn.Parameter(torch.zeros(16)))
                self.computes = forward

            def forward(self, x):
                return self.computes(self, x)

        def unpacked(net, x):
            output, (hidden, cell) = net.lstm(net.table(x))
            return net.head(output[:, -1])

        def block(net, x):
            x = net.table(x)
            attended, _ = net.attention(x, x, x, attn_mask=net.mask, need_weights=False)
            return net.head(net.norm(x + attended + net.narrow(nn.functional.gelu(net.wide(attended)))).flatten(1))

        lstms = "lstm 16; dropout 0.1; lstm 16 last; linear 10"
        causal = nn.Transformer.generate_square_subsequent_mask(12)
        attend = lambda net, x, **more: net.attention(x, x, x, **more)[0]
        cases = [
            (unpacked, f"embedding 80 16; {lstms}"),
            (lambda net, x: net.head(net.lstm(net.table(x))[1][0][-1]), f"embedding 80 16; {lstms}"),
            (lambda net, x: net.head(net.lstm(torch.relu(net.wide(x.squeeze(1))))[0][:, -1, :]), f"linear 32 each; relu; {lstms}"),
            (lambda net, x: net.head(net.lstm(net.norm(x.long().squeeze(1)))[0].contiguous().flatten(1)),
             "layernorm each; lstm 16; dropout 0.1; lstm 16; linear 10"),
            (lambda net, x: attend(net, net.norm(net.narrow(x))), "linear 16 each; layernorm each; attention 4"),
            (lambda net, x: (lambda y: attend(net, y + net.norm(y)))(net.narrow(x)), "linear 16 each as v1; layernorm each; add v1; attention 4"),
            (lambda net, x: net.lstm(net.narrow(x).squeeze(1))[0][:, -1], "linear 16 each; lstm 16; dropout 0.1; lstm 16 last"),
            (block, "embedding 80 16 as v1; attention 4 causal as v2; add v1 as v3; linear 32 each from v2; gelu; linear 16 each; "
                    "add v3; layernorm each; linear 10"),
            (lambda net, x: attend(net, net.table(x), attn_mask=causal, is_causal=True), "embedding 80 16; attention 4 causal"),
            (lambda net, x: net.own + net.table(input=x), "embedding 80 16; positions"),
            (lambda net, x: net.head(net.norm(net.table(x))[:, -1]), "embedding 80 16; layernorm each; last; linear 10"),
            (lambda net, x: net.head(net.lstm(net.table(x))[0][:, 0]), "embedding 80 16; lstm 16; dropout 0.1; lstm 16; first; linear 10"),
            (lambda net, x: net.head(net.norm(net.table(x)).mean(1)), "embedding 80 16; layernorm each; mean; linear 10"),
            (lambda net, x: net.same(net.table(x).transpose(1, 2)), "embedding 80 16; transpose; linear 12 each"),
            (lambda net, x: (lambda x: net.table(x.long()) + net.places(torch.arange(x.shape[1])))(x.int()), "embedding 80 16; positions"),
            (lambda net, x: (lambda y: torch.relu_(y + net.places(torch.arange(y.size(1)))))(net.table(x)), "embedding 80 16; positions; relu"),
            (lambda net, x: torch.relu(net.table(x) + net.places.weight) + net.own, "embedding 80 16; positions; relu; positions"),
            *[(lambda net, x, steps=steps: net.table(x) + net.places(steps(net, x)), "embedding 80 16; positions")
              for steps in (lambda net, x: torch.arange(12), lambda net, x: net.steps, lambda net, x: torch.arange(x.shape[1]),
                            lambda net, x: torch.arange(0, x.size(1), dtype=torch.long, device=x.device).unsqueeze(0))],
        ]
        for forward, text in cases:
            self.assertEqual(sounder.layers(Net(forward)), text)
        refused = [
            (lambda net, x: net.head(net.lstm(net.table(x))[1][1][-1]), "a part of a value"),
            (lambda net, x: net.head(x[:, 0]), "a part of a value"),
            (lambda net, x: net.head(net.lstm(net.table(x))[1][0][0]), "a part of a value"),
            (lambda net, x: (lambda output: output + output[:, -1])(net.lstm(net.table(x))[0]), "takes all steps of what getitem_1 takes the last one of"),
            (lambda net, x: (lambda output: torch.tanh(output)[:, 1] + output[:, -1])(net.lstm(net.table(x))[0]), "a part of a value"),
            (lambda net, x: attend(net, net.table(x), attn_mask=net.window), "attention: its attn_mask is no constant that hides what comes behind a step"),
            (lambda net, x: (lambda x: net.attention(x, torch.tanh(x), x)[0])(net.table(x)), "attention: attends to another value than its own"),
            (lambda net, x: net.head(net.attention(*[net.table(x)] * 3)), "head: takes all that attention gives"),
            (lambda net, x: net.head(net.lstm(net.table(x))[1][0].squeeze(1)), "takes all that getitem_1 gives"),
            (lambda net, x: net.head(net.table(x) + torch.zeros(x.size(0), 12, 16)), "add: takes zeros"),
            (lambda net, x: net.head(net.table(x) + net.shift), "add: a parameter outside a layer; Sounder adds such to sequences alone"),
            (lambda net, x: net.head(net.table(x) * net.own), "own: a parameter outside a layer"),
            (lambda net, x: net.head(x.flatten(1)) + net.own, "add: a parameter outside a layer"),
            (lambda net, x: net.table(x) + net.waves, "add: constant vectors of positions; make them an nn.Parameter"),
            (lambda net, x: net.table(x) + net.own + net.own, "add_1: adds what is another layer's, too"),
            (lambda net, x: torch.add(net.table(x), net.own, alpha=2), "alpha is 2; Sounder has only 1"),
            (lambda net, x: net.table(x) + net.own[:, :1], "own: a parameter outside a layer"),
            (lambda net, x: net.table(x) + net.single, "add: a parameter outside a layer; Sounder adds such to sequences alone"),
            (lambda net, x: net.table(x) + net.padded(net.steps), "padded: padding_idx is 0"),
            (lambda net, x: net.table(x.flatten(1)) + net.places(torch.arange(x.size(1))), "positions as many as x has of another dimension"),
            (lambda net, x: net.table(x) + net.places(torch.arange(end=x.size(1))), "Sounder has no arange but of a sequence's steps"),
            (lambda net, x: (lambda y: torch.tanh(y.add_(net.own)) + y)(net.table(x)), "add_: changes in place what is taken again behind it"),
            (lambda net, x: (lambda y: net.same(y + net.own))(net.table(x)), "positions are another layer's weights, too"),
            (lambda net, x: net.table(x) + net.more(net.steps), "more: 20 vectors for 12 steps"),
            (lambda net, x: net.table(x) + net.places(net.mask), "mask: a parameter outside a layer"),
            (lambda net, x: net.table(x) + net.places(torch.arange(x.size(0))), "Sounder has no arange but of a sequence's steps"),
            (lambda net, x: net.table(x) + torch.arange(x.size(1)), "add: takes arange, which is of a sequence's steps alone"),
            (lambda net, x: torch.relu(net.places(torch.arange(x.size(1)))), "relu: relu of 0 values"),
            (lambda net, x: (net.head(net.table(x)), x), "Net: gives several values; Sounder's nets give one"),
            (lambda net, x: (lambda y: (y, torch.relu(y))[0])(net.head(net.table(x))), "Net: computes more behind head, which it gives"),
            (lambda net, x: net.head(torch.tanh(net.head(x))), "head: its weights are another layer's, too, or it is called twice"),
            (lambda net, x: torch.cat([net.table(x), torch.tanh(net.table(x))], 1), "table: its weights are another layer's, too, or it is called twice"),
            (lambda net, x: (lambda x: torch.cat([x, torch.tanh(x)], 1))(net.table(x)), "joins along dimension 1"),
            (lambda net, x: (lambda x: torch.cat([x, torch.tanh(x)]))(net.head(x.flatten(1))), "joins along dimension 0; Sounder joins channels"),
            (lambda net, x: net.head(net.table(x).view(-1, 6, 32)), "a view of 3 dimensions"),
            (lambda net, x: net.lstm(x.view(-1, 784, 16))[0][:, -1], "a view of 3 dimensions"),
            (lambda net, x: net.head(net.lstm(net.table(x))[0].reshape(-1, 16)), "a view that may join samples and steps"),
            (lambda net, x: net.head(net.norm(x).view(x.size(0), -1)), "whole or row by row"),
            (lambda net, x: (lambda y: torch.add(y, torch.tanh(y), alpha=0.5))(net.table(x)), "alpha is 0.5; Sounder has only 1"),
            (lambda net, x: net.head(net.table(x).flatten(2)), "start_dim is 2; Sounder has only 1"),
            (lambda net, x: net.head(net.table(x).transpose(0, 1)), "dimensions in the order 1, 0, 2"),
            (lambda net, x: net.head(net.table(x).T), "Sounder has no getattr"),
        ]
        for forward, sentence in refused:
            with self.assertRaises(sounder.Error) as error:
                sounder.layers(Net(forward))
            self.assertIn(sentence, str(error.exception))
            self.assertTrue(str(error.exception).endswith("; a trainer (--trainer, help trainer) trains any module"), error.exception)
        self.assertEqual(sounder.layers(nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.GroupNorm(2, 4), nn.Linear(4, 2))), "linear 4; groupnorm 2; linear 2")
        self.assertEqual(sounder.layers(nn.Sequential(nn.LayerNorm(28), nn.Linear(28, 9), nn.ReLU(), nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())),
                         "layernorm each; linear 9 each; relu; conv 2 3; globalpool")
        tied, frozen = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4).requires_grad_(False))
        tied[2].weight = tied[0].weight
        for module, sentence in [(tied, "2: its weights are another layer's, too"), (frozen, "2: has frozen weights"), (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(1, 2)), "end_dim is 2"),
                                 (nn.Sequential(nn.Embedding(9, 4), nn.GroupNorm(1, 6)), "1: GroupNorm of a sequence"), (nn.Sequential(nn.Embedding(9, 4), nn.Dropout2d()), "1: Dropout2d of a sequence"),
                                 (nn.Sequential(nn.LayerNorm(28), nn.Flatten()), "whole or row by row"),
                                 (nn.Flatten(2), "start_dim is 2"), (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Flatten()), "whole or row by row"),
                                 (nn.LSTM(4, 4), "batch_first is False"), (nn.LSTM(4, 4, batch_first=True, bidirectional=True), "bidirectional is True"),
                                 (nn.Embedding(4, 4, padding_idx=0), "padding_idx is 0"), (nn.LayerNorm((3, 4)), r"normalized_shape is \(3, 4\)")]:
            self.assertRaisesRegex(sounder.Error, sentence, sounder.layers, nn.Sequential(module))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_net_of_sequences_computes_here_what_it_does_there(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.attention, self.norm = nn.Embedding(300, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)
                self.wide, self.lstm, self.head = nn.Linear(8, 12), nn.LSTM(12, 10, 2, batch_first=True), nn.Linear(10, 3)
                self.own, self.places = nn.Parameter(torch.randn(1, 7, 8)), nn.Embedding(7, 12)
                self.register_buffer("mask", torch.ones(7, 7).triu(1).bool())

            def forward(self, x):
                x = self.table(x) + self.own
                x = self.norm(x + self.attention(x, x, x, attn_mask=self.mask, need_weights=False)[0])
                output, _ = self.lstm(torch.tanh(self.wide(x)) + self.places(torch.arange(7)))
                return self.head(output[:, -1])

        def tokens(count, seed):
            x = 50 * np.random.default_rng(seed).integers(0, 6, (count, 7)) + 49
            return x, x[:, -1] // 100

        torch.manual_seed(1)
        net, (x, y) = Net(), tokens(200, 2)
        data = sounder.write_data(self.path("tokens.npz"), train=tokens(400, 1), test=(x, y))
        options = {"data": data, "model": sounder.layers(net), "clients": 4, "workers": 2, "batch_size": 10, "device": "cpu"}
        for name, more in (("begin", {"init": sounder.write_weights(self.path("begin.safetensors"), net), "rounds": 1, "lr": 1e-30}),
                           ("trained", {"rounds": 10, "local_epochs": 5, "lr": 0.2, "momentum": 0.9})):
            run = sounder.train(self.path(name), **options, **more)
            run.load_into(net)
            with torch.no_grad():
                logits = net(torch.tensor(x))
                loss = nn.functional.cross_entropy(logits, torch.tensor(y)).item()
            last = run.rows("round")[-1]
            self.assertEqual((logits.argmax(1).numpy() == y).mean(), last["test_accuracy"])
            self.assertAlmostEqual(loss, last["test_loss"], delta=1e-4 * loss)
        self.assertGreater(last["test_accuracy"], 0.9)

    def example(self, name, python=sys.executable, path=PACKAGE):
        done = subprocess.run([python, os.path.join(PACKAGE, "examples", name), self.folder.name], text=True, timeout=100,
                              env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_the_example_of_a_training_loop_learns(self):
        accuracy = float(self.example("trainer.py").split("accuracy ")[-1].strip().rstrip("%"))
        self.assertGreater(accuracy, 50)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_the_example_for_pytorch_ends_with_equal_counts_in_a_fresh_environment(self):
        """With pip where there is one, which fetches nothing; otherwise as it would: the package beside the others."""
        fresh, copy = self.path("fresh"), self.path("package")
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", fresh], check=True, timeout=60)
        python = os.path.join(fresh, "bin", "python")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        pip = [python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", copy]
        if subprocess.run([python, "-c", "import pip, setuptools, wheel"], stderr=subprocess.DEVNULL).returncode == 0:
            subprocess.run(pip, check=True, timeout=100, cwd=self.folder.name)
        else:
            where = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True).strip()
            shutil.copytree(os.path.join(PACKAGE, "sounder"), os.path.join(where, "sounder"))
        found = subprocess.check_output([python, "-c", "import sounder; print(sounder.__file__)"], text=True, cwd=self.folder.name)
        self.assertTrue(found.startswith(os.path.realpath(fresh)) or found.startswith(fresh), found)
        counts = re.findall(r"(\d+) of 1000", self.example("torch_module.py", python, ""))
        self.assertEqual(len(counts), 2)
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(int(counts[0]), 300)

    def test_the_example_for_flower_trains_each_partition(self):
        self.assertEqual(self.example("flower_partitions.py").count("10 clients of 50 to 230 samples"), 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
