"""What users hand to the Python package: columns of tables, names of classes, nets of PyTorch's tutorials, and mistakes, each one sentence.

Usage: test_python_inputs.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, sys, tempfile, unittest, unittest.mock

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    torch = None

os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.abspath(sys.argv[2]))
import sounder

COUNT = 12
X = np.arange(COUNT * 2).reshape(COUNT, 2) / 7
Y = np.arange(COUNT) % 3
NAMES = np.array(["owl", "cat", "dog"])[Y]


def of_sizes(shape):
    """A forward that takes a size apart."""
    def forward(net, x):
        y = net.conv(x)
        samples, channels, rows, columns = y.size()
        return net.head(y.view(*shape(samples, channels, rows, columns)))
    return forward


class Table:
    """A table of columns with labels, as pandas has them."""

    def __init__(self, **columns):
        self.of, self.columns = columns, list(columns)

    def __getitem__(self, label):
        return self.of[label]

    def __array__(self, dtype=None, copy=None):
        same = {np.asarray(values).dtype for values in self.of.values()}
        whole = np.stack([np.asarray(values, object if len(same) > 1 else None) for values in self.of.values()], 1)
        return whole if dtype is None else whole.astype(dtype)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-python-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def refuse(self, sentence, call, *arguments, **more):
        with self.assertRaises(sounder.Error) as error:
            call(*arguments, **more)
        self.assertIn(sentence, str(error.exception))

    def write(self, x, y, test=None, **more):
        return sounder.write_data(self.path("data.npz"), train=(x, y), test=test or (x, y), **more)

    def labels(self, *given, **more):
        with np.load(self.write(*given, **more)) as arrays:
            return arrays["y_train"]


class Data(Case):
    def test_labels_of_text_are_numbered_in_sorted_order(self):
        for names in (NAMES, NAMES.tolist(), NAMES.astype(object), np.char.encode(NAMES)):
            self.assertEqual(self.labels(X, names).tolist(), [{0: 2, 1: 0, 2: 1}[label] for label in Y])
        self.refuse("y_test 'emu': the class has no training samples", self.write, X, NAMES, test=(X[:1], ["emu"]))

    def test_a_validation_set_has_the_classes_of_the_training_set(self):
        with np.load(self.write(X, NAMES, validation=(X[:2], ["owl", "cat"]))) as arrays:
            self.assertEqual((arrays["y_validation"].tolist(), arrays["x_validation"].shape), ([2, 0], (2, 2)))
        self.refuse("y_validation 'emu': the class has no training samples", self.write, X, NAMES, validation=(X[:1], ["emu"]))
        self.refuse("y_validation: 3 for the 2 samples of x_validation", self.write, X, Y, validation=(X[:2], Y[:3]))

    def test_labels_of_any_other_type_keep_their_meaning(self):
        for given, kind in ((Y, "i"), (Y.astype(object), "i"), (Y == 1, "i"), (Y[:, None], "i"), (Y * 0.5, "f"), ((Y * 0.5).astype(object), "f")):
            labels = self.labels(X, given)
            self.assertEqual((labels.dtype.kind, labels.tolist()), (kind, np.asarray(given, float).reshape(-1).tolist()))

    def test_what_makes_no_data_set_is_one_sentence(self):
        dates = np.arange(COUNT).astype("M8[D]")
        for x, y, sentence in ((X, np.eye(3)[Y], "y_train: of shape (12, 3); give one number for each sample, of one-hot rows y.argmax(1)"),
                               (X, X * 0.5, f"y_train: of shape {X.shape}; give one number for each sample: several targets are for a trainer"),
                               (X, Y[:5], "y_train: 5 for the 12 samples of x_train; give one for each sample"),
                               (X, [None, *NAMES[1:]], "y_train: a gap (NaN or None)"),
                               (X, dates, "y_train: values of type datetime64[D]; give classes or numbers"),
                               (dates, Y, "x_train: values of type datetime64[D]; give numbers"),
                               (Table(size=X[:, 0], kind=NAMES), Y, "x_train, column 'kind': could not convert string to float: 'owl'"),
                               (Table(**{"Unnamed: 0": np.arange(COUNT), "size": X[:, 0]}), Y, "x_train, column 'Unnamed: 0': row numbers, not a feature"),
                               (Table(day=dates), Y, "x_train, column 'day': values of type datetime64[D]"),
                               (X + 1j, Y, "x_train: values of type complex128"),
                               (X[:, :1].tolist()[:-1] + [[1, 2]], Y, "give all samples the same shape")):
            self.refuse(sentence, self.write, x, y)
        with np.load(self.write(Table(a=X[:, 0], b=Y == 1), Y)) as arrays:
            self.assertEqual(arrays["x_train"].dtype, np.float32)

    def test_numbers_keep_the_digits_in_which_they_differ(self):
        times = 1700000000 + np.arange(COUNT)[:, None]
        with np.load(self.write(times, Y, mean=times.mean(), std=1.5)) as arrays:
            self.assertEqual((arrays["x_train"].tolist(), arrays["mean"].tolist()), (times.tolist(), [1700000005.5]))
        for few in (X.astype(float), np.arange(COUNT) + 1e6, np.full(COUNT, 1e9)):  # float32 tells these apart
            with np.load(self.write(few, Y)) as arrays:
                self.assertEqual(arrays["x_train"].dtype, np.float32)

    def test_partitions_may_be_data_sets_of_pairs(self):
        class Pairs:  # PyTorch's, whose images may be of any type that NumPy reads
            def __init__(self, places):
                self.places = places

            def __len__(self):
                return len(self.places)

            def __getitem__(self, i):
                return X[self.places[i]], int(Y[self.places[i]])

        with np.load(sounder.from_partitions(self.path("pairs.npz"), [Pairs(range(5)), Pairs(range(5, COUNT))], test=Pairs([0, 1, 2]))) as arrays:
            self.assertEqual((arrays["y_train"].tolist(), arrays["client_train"].tolist()), (Y.tolist(), [0] * 5 + [1] * (COUNT - 5)))
            self.assertTrue(np.array_equal(arrays["x_train"], X.astype(np.float32)))
        self.refuse("partitions: str: ", sounder.from_partitions, self.path("pairs.npz"), "a", test=(X, Y))

    def test_clients_without_a_name_are_refused(self):
        self.refuse("client: a gap (NaN or None)", self.write, X, Y, client=[float("nan"), *Y[1:]])
        self.refuse("client: a gap (NaN or None)", self.write, X, Y, client=[None, *NAMES[1:]])
        self.refuse("client_train: 5 for the 12 samples of x_train", self.write, X, Y, client=Y[:5])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_tensors_of_any_float_are_taken_and_sparse_ones_refused(self):
        with np.load(self.write(torch.tensor(X, dtype=torch.bfloat16), torch.tensor(Y))) as arrays:
            self.assertTrue(np.allclose(arrays["x_train"], X, rtol=0.01))
        self.refuse("x_train: sparse; give x_train.to_dense()", self.write, torch.tensor(X).to_sparse(), Y)


class Options(Case):
    def test_values_that_are_no_option_are_told_with_what_is_meant(self):
        data = self.write(X, NAMES)
        quick = {"data": data, "model": "linear classes", "clients": 2, "rounds": 1, "workers": 1, "quiet": True}
        run = sounder.train(self.path("run"), **quick)
        self.assertEqual(repr(run), f"<sounder.Run {self.path('run')}: ended, rounds: 1>")
        self.assertIn("not ended, rounds: 0", repr(sounder.Run(self.path("none"))))
        for wrong, sentence in (({"data": (X, Y)}, "data: arrays; give the path that sounder.write_data(FILE,"),
                                ({"algorithm": ["fedavg", "scaffold"]}, "algorithm: several values; give one"),
                                ({"mu": 0.1}, '--mu: is a number of --algorithm; write --algorithm "fedprox mu=X"')):
            self.refuse(sentence, sounder.train, self.path("refused"), **{**quick, **wrong})
        sys.modules["pandas"] = None  # as if it were not installed
        self.refuse("frame: import of pandas halted; None in sys.modules; install pandas, or take rows()", run.frame)
        del sys.modules["pandas"]

    def test_warnings_of_the_program_are_warnings_here(self):
        data = self.write(X, Y.astype(float))  # as numpy.loadtxt gives classes
        with self.assertWarnsRegex(UserWarning, r"data.npz: all targets are whole numbers, from 0 to 2, .* save y.astype\('int64'\)"):
            sounder.train(self.path("run"), data=data, model="linear 1", clients=2, rounds=1, workers=1, quiet=True)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_module_is_no_text(self):
        self.refuse("model: a module; give model=sounder.layers(net)", sounder.train, self.path("run"), model=nn.Linear(2, 3))
        with unittest.mock.patch.dict(sys.modules, onnx=None):
            self.refuse("install the package: apt install python3-onnx, or pip install onnx", sounder.layers, "net.onnx")
        self.refuse("layers: needs a torch.nn.Module or a file NET.onnx, not str; a net by its name goes to model as it is: model='resnet'", sounder.layers, "resnet")


@unittest.skipUnless(torch, "there is no PyTorch")
class Nets(Case):
    def net(self, forward, **modules):
        class Net(nn.Module):
            def forward(self, x):
                return forward(self, x)

        net = Net()
        for name, module in modules.items():
            net.add_module(name, module)
        return net

    def test_functions_are_layers_as_their_modules_are(self):
        def lenet(net, x):  # of PyTorch's MNIST example
            x = F.relu(F.max_pool2d(net.conv1(x), 2))
            x = F.relu(F.max_pool2d(net.drop(net.conv2(x)), 2)).view(-1, 320)
            x = F.dropout(F.relu(net.fc1(x)), training=net.training)
            return F.log_softmax(net.fc2(x), dim=1)

        net = self.net(lenet, conv1=nn.Conv2d(1, 10, 5), conv2=nn.Conv2d(10, 20, 5), drop=nn.Dropout2d(), fc1=nn.Linear(320, 50), fc2=nn.Linear(50, 10))
        text = "conv 10 5; pool 2; relu; conv 20 5; dropout2d 0.5; pool 2; relu; linear 50; relu; dropout 0.5; linear 10"
        self.assertEqual(sounder.layers(net), text)
        self.assertTrue(net.training)
        self.assertEqual(sounder.layers(net.eval()), text)  # a layer of training, in whichever mode it is looked at
        self.assertFalse(net.training or net.drop.training)
        cases = [(lambda net, x: F.leaky_relu(net.conv(x)), "leakyrelu 0.01"), (lambda net, x: F.leaky_relu(net.conv(x), 0.2), "leakyrelu 0.2"),
                 (lambda net, x: F.dropout2d(net.conv(x), 0.3), "dropout2d 0.3"), (lambda net, x: F.hardswish(F.silu(net.conv(x))), "silu; hardswish"),
                 (lambda net, x: net.head(F.adaptive_avg_pool2d(net.conv(x), (1, 1)).flatten(1)), "globalpool; linear 2"),
                 (lambda net, x: net.head(net.conv(x).mean([2, 3])), "globalpool; linear 2"),
                 *[(of_sizes(shape), "linear 2") for shape in
                   (lambda n, c, h, w: (n, c * h * w), lambda n, c, h, w: (-1, h * w * c), lambda n, c, h, w: (n, -1))],
                 *[(lambda net, x, size=size: (lambda y: net.head(y.view(-1, size(y.shape))))(net.conv(x)), "linear 2")
                   for size in (lambda shape: np.prod(shape[1:]), lambda shape: shape[1] * shape[2] * shape[-1])],
                 (lambda net, x: net.head(torch.mean(net.conv(x), dim=(-1, -2), keepdim=True).flatten(1)), "globalpool; linear 2"),
                 (lambda net, x: F.softmax(net.head(net.conv(x.float().to(x.device)).mean([2, 3])), dim=-1), "globalpool; linear 2")]
        for forward, text in cases:
            self.assertEqual(sounder.layers(self.net(forward, conv=nn.Conv2d(1, 4, 3), head=nn.Linear(4, 2))), f"conv 4 3; {text}")
        self.assertEqual(sounder.layers(nn.Sequential(nn.Linear(4, 2), nn.Softmax(1))), "linear 2")
        self.assertEqual(sounder.layers(nn.Linear(784, 10)), "linear 10")

    def test_nets_that_are_not_read_are_told_by_what_is_not(self):
        def recurrent(net, x):
            output, state = net.part(x)
            return output[:, -1]

        self.refuse("part: Sounder has no RNN; it has these", sounder.layers, self.net(recurrent, part=nn.RNN(4, 4, batch_first=True)))
        compiled = type("OptimizedModule", (nn.Module,), {})()  # what torch.compile gives
        self.refuse("OptimizedModule has the net within it; give net._orig_mod", sounder.layers, compiled)
        self.refuse("DataParallel has the net within it; give net.module", sounder.layers, nn.DataParallel(nn.Linear(3, 2)))
        self.refuse("1: dim is 0; Sounder's loss has it over the classes", sounder.layers, nn.Sequential(nn.Linear(4, 2), nn.Softmax(0)))
        for forward, sentence in ((lambda net, x: net.conv(x).mean(1), "mean: a mean over dimensions 1"),
                                  (lambda net, x: F.adaptive_avg_pool2d(net.conv(x), (7, None)), "output_size is (7, None); give numbers"),
                                  *[(of_sizes(shape), "view: a view that may join samples and channels; flatten(1)") for shape in
                                    (lambda n, c, h, w: (c, -1), lambda n, c, h, w: (n * c, h * w),
                                     lambda n, c, h, w: (-1, c * h), lambda n, c, h, w: (-1, 2 * c * h))],
                                  (lambda net, x: net.conv(x) * x.size(1), "mul: Sounder has no mul"),
                                  (lambda net, x: net.conv(x.to(torch.float16)), "to: to torch.float16; Sounder computes with float32"),
                                  (lambda net, x: (lambda y: F.leaky_relu(y, inplace=True) + y)(net.conv(x)), "changes in place what is taken again")):
            self.refuse(sentence, sounder.layers, self.net(forward, conv=nn.Conv2d(1, 4, 3), head=nn.Linear(4, 2)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
