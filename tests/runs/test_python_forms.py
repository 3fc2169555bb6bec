"""Data in the forms that people have: each is written by one line, and refused with a sentence when damaged.

Usage: test_python_forms.py FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import contextlib, gzip, io, os, pickle, shutil, sys, tempfile, unittest, unittest.mock

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, os.path.abspath(sys.argv[1]))
import sounder
from sounder import write

COUNT = 6
X = np.random.default_rng(0).integers(0, 256, (COUNT, 4, 5), np.uint8)
Y = np.arange(COUNT) % 2
NAMES = np.array(["cat", "owl"])[Y]
WHO = np.array(["bob", "amy", "amy"] * 2)


def library(name):
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        return None


torch, pillow, parquet, arrow, h5py, scipy = map(library, ("torch", "PIL.Image", "pyarrow.parquet", "pyarrow", "h5py", "scipy.io"))
datasets = library("datasets") if hasattr(library("datasets"), "load_from_disk") else None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-forms-")
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def write(self, *given, **more):
        with np.load(sounder.write_data(self.path("data.npz"), *given, **more)) as arrays:
            return {name: arrays[name] for name in arrays}

    def hold(self, arrays, x, y, split="train", client=None):
        self.assertEqual((arrays[f"x_{split}"].tolist(), arrays[f"y_{split}"].tolist()), (np.asarray(x).tolist(), np.asarray(y).tolist()))
        self.assertEqual(arrays.get(f"client_{split}", np.zeros(0)).tolist(), [] if client is None else np.asarray(client).tolist())

    def refuse(self, sentence, *given, **more):
        with self.assertRaises(sounder.Error) as error:
            self.write(*given, **more)
        self.assertIn(sentence, str(error.exception))


class Columns:
    """A data set of columns, as Hugging Face's are."""

    def __init__(self, **columns):
        self.column_names, self.features = list(columns), columns

    def __getitem__(self, name):
        return self.features[name]


class DataSets(Case):
    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_data_sets_and_subsets_of_pytorch(self):
        from torch.utils.data import Subset, TensorDataset
        whole = TensorDataset(torch.tensor(X), torch.tensor(Y))
        arrays = self.write(whole, test=Subset(whole, [4, 1]), client=WHO)
        self.hold(arrays, X, Y, client=WHO == "bob")
        self.hold(arrays, X[[4, 1]], Y[[4, 1]], "test")
        path = sounder.from_partitions(self.path("parts.npz"), [Subset(whole, [0, 2]), Subset(whole, [5])], test=whole)
        with np.load(path) as arrays:
            self.hold(arrays, X[[0, 2, 5]], Y[[0, 2, 5]], client=[0, 0, 1])
        self.refuse("client: 'writer': not for a data set of PyTorch's; leave client out", whole, test=whole, client="writer")
        self.refuse("test: there is none; give test=", whole)
        self.refuse("columns, size: arrays have none", (X, Y), test=(X, Y), size=(2, 2))
        self.refuse("client: 'who': arrays have no such column", (X, Y), test=(X, Y), client="who")
        uneven = [(X[0], 0), (X[1, :2], 1)]
        self.refuse("give samples of one shape", type("Uneven", (), {"__len__": lambda _: 2, "__getitem__": lambda _, i: uneven[i]})(), test=whole)

    def test_data_sets_of_columns(self):
        of = {"train": Columns(img=list(X), label=NAMES.tolist(), writer=WHO.tolist()), "valid": Columns(img=X[:1], label=NAMES[:1], writer=WHO[:1]),
              "test": Columns(img=list(X[:2]), label=NAMES[:2], writer=WHO[:2])}
        arrays = self.write(of, client="writer")
        self.hold(arrays, X, Y, client=WHO == "bob")
        self.hold(arrays, X[:2], Y[:2], "test", client=[1, 0])
        self.hold({**arrays, "client_validation": np.zeros(0)}, X[:1], Y[:1], "validation")
        one = Columns(size=[1, 2], weight=[0.5, 3], kind=["a", "b"])
        self.hold(self.write(one, test=one, columns=("size", "kind")), [[1], [2]], [0, 1])
        one = Columns(size=[1, 2], weight=[0.5, 3], target=[7, 8])
        self.hold(self.write(one, test=one), [[1, 0.5], [2, 3]], [7, 8])
        self.refuse("columns: no column 'user'; there are size, weight, target", one, test=one, client="user")
        self.refuse("columns: none of size is the label; say columns=(X, Y)", Columns(size=[1]), test=one)
        self.refuse("column 'kind': text or gaps", Columns(kind=["a", "b"], size=[1, 2], y=[0, 1]), test=one)

    @unittest.skipUnless(datasets, "there is no package datasets")
    def test_folders_of_save_to_disk(self):
        def some(n):
            return datasets.Dataset.from_dict({"x": X[:n].reshape(n, -1).tolist(), "y": Y[:n].tolist(), "who": WHO[:n].tolist()})

        of = some(COUNT)
        datasets.DatasetDict(train=of, test=some(1)).save_to_disk(self.path("saved"))
        arrays = self.write(self.path("saved"), client="who")
        self.hold(arrays, X.reshape(COUNT, -1), Y, client=WHO == "bob")
        of.save_to_disk(self.path("one"))
        self.hold(self.write(self.path("one"), test=of), X.reshape(COUNT, -1), Y)
        with open(self.path("saved", "train", "data-00000-of-00001.arrow"), "r+b") as file:
            file.truncate(100)
        self.refuse("write it anew with save_to_disk", self.path("saved"))


class Folders(Case):
    def pictures(self, *levels, names=NAMES, who=None):
        for i, name in enumerate(names):
            at = self.path("set", *levels, *([who[i]] if who is not None else []), name)
            os.makedirs(at, exist_ok=True)
            pillow.fromarray(X[i]).save(os.path.join(at, f"{i}.png"))
        return self.path("set")

    @unittest.skipUnless(pillow, "there is no Pillow")
    def test_folders_of_images_by_class_and_client(self):
        self.pictures("train")
        places = np.argsort(NAMES, kind="stable")
        arrays = self.write(self.pictures("test", names=NAMES[:2]))
        self.hold(arrays, X[places], Y[places])
        self.hold(arrays, X[:2], Y[:2], "test")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(write.main([self.path("set"), self.path("out.npz"), "--size", "2x3"]), 0)
        with np.load(out.getvalue().strip()) as arrays:
            self.assertEqual(arrays["x_train"].shape, (COUNT, 2, 3))
        pillow.fromarray(np.stack([X[0][:2]] * 3, 2)).save(self.path("set", "train", "cat", "small.png"))
        self.refuse("small.png: 2x5 pixels, but ", self.path("set"))
        self.assertEqual(self.write(self.path("set"), size=(4, 5))["x_train"].shape, (COUNT + 1, 3, 4, 5))
        with open(self.path("set", "train", "cat", "0.png"), "r+b") as file:
            file.truncate(50)
        self.refuse("0.png: no image that Pillow reads", self.path("set"))

    @unittest.skipUnless(pillow, "there is no Pillow")
    def test_folders_of_images_by_client(self):
        places = np.lexsort((np.arange(COUNT), NAMES, WHO))
        given = self.pictures(who=WHO)
        arrays = self.write(given, test=given, client=1)
        self.hold(arrays, X[places], Y[places], client=WHO[places] == "bob")
        self.refuse("say client=1 for CLIENT/CLASS/FILE, client=2 for CLASS/CLIENT/FILE", given, test=given)
        self.refuse("folders of images have a level of clients, 1 or 2", given, test=given, client=3)

    def test_a_missing_library_and_an_unknown_form_are_named(self):
        os.makedirs(self.path("set", "cat"))
        with open(self.path("set", "cat", "0.png"), "wb"):
            pass
        with unittest.mock.patch.dict(sys.modules, {"PIL": None, "PIL.Image": None}):
            self.refuse("pip install pillow", self.path("set"), test=self.path("set"))
        open(self.path("dataset_info.json"), "w").close()
        with unittest.mock.patch.dict(sys.modules, datasets=None):
            self.refuse("pip install datasets", self.folder.name, test=self.folder.name)
        self.refuse("none: no such file or folder", self.path("none"))
        self.refuse("no form that is known; these are: ", self.path("set", "cat", "0.png"))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(write.main([self.path("none"), self.path("out.npz")]), 65)
        self.assertEqual(said.getvalue(), f"sounder.write: {self.path('none')}: no such file or folder; give the path of one\n")


class Files(Case):
    @unittest.skipUnless(parquet, "there is no pyarrow")
    def test_files_of_parquet_and_arrow(self):
        def of(places):
            return arrow.table({"a": Y[places] * 0.5, "b": np.arange(COUNT)[places], "who": WHO[places], "label": NAMES[places]})

        os.makedirs(self.path("set", "data"))
        for name, places in (("train-00000-of-00002", range(4)), ("train-00001-of-00002", range(4, 6)), ("test-00000-of-00001", [3])):
            parquet.write_table(of(list(places)), self.path("set", "data", f"{name}.parquet"))
        arrays = self.write(self.path("set"), client="who")
        self.hold(arrays, np.stack([Y * 0.5, np.arange(COUNT)], 1), Y, client=WHO == "bob")
        self.hold(arrays, [[0.5, 3]], [1], "test", client=[1])
        for opened, name in ((arrow.ipc.new_stream, "stream.arrow"), (arrow.ipc.new_file, "file.arrow")):
            with opened(self.path(name), of([0]).schema) as file:
                file.write_table(of([1, 2, 4]))
            self.hold(self.write(self.path(name), test=self.path(name), columns=("b", "label")), [[1], [2], [4]], [1, 0, 0])
        with open(self.path("file.arrow"), "r+b") as file:
            file.truncate(40)
        self.refuse("file.arrow: ", self.path("file.arrow"), test=self.path("stream.arrow"))
        with open(self.path("set", "data", "train-00000-of-00002.parquet"), "r+b") as file:
            file.truncate(99)
        self.refuse("00000-of-00002.parquet: ", self.path("set"), client="who")

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_hdf5_of_tensorflow_federated(self):
        os.makedirs(self.path("tff"))
        for name in ("fed_emnist_train.h5", "fed_emnist_test.h5"):
            with h5py.File(self.path("tff", name), "w") as file:
                for who in ("bob", "amy"):
                    file[f"examples/{who}/pixels"] = X[WHO == who] / np.float32(256)
                    file[f"examples/{who}/label"] = Y[WHO == who]
        places = np.argsort(WHO, kind="stable")
        arrays = self.write(self.path("tff"))
        self.hold(arrays, X[places] / 256, Y[places], client=WHO[places] == "bob")
        self.hold(arrays, X[places] / 256, Y[places], "test", client=WHO[places] == "bob")
        with h5py.File(self.path("plain.h5"), "w") as file:
            file["X"], file["y"] = X, Y
        self.hold(self.write(self.path("plain.h5"), test=self.path("plain.h5")), X, Y)
        self.refuse("client: 'who': not for files of HDF5; leave client out", self.path("plain.h5"), test=self.path("plain.h5"), client="who")
        with open(self.path("tff", "fed_emnist_train.h5"), "r+b") as file:
            file.truncate(900)
        self.refuse("fed_emnist_train.h5: ", self.path("tff"))

    @unittest.skipUnless(scipy, "there is no SciPy")
    def test_files_of_matlab(self):
        os.makedirs(self.path("svhn"))
        colours = np.stack([X, X // 2, X // 3], 1)
        for name in ("train_32x32.mat", "test_32x32.mat"):
            scipy.savemat(self.path("svhn", name), {"X": colours.transpose(2, 3, 1, 0), "y": np.where(Y == 0, 10, Y)[:, None]})
        self.hold(self.write(self.path("svhn")), colours, Y)
        scipy.savemat(self.path("plain.mat"), {"features": X.reshape(COUNT, -1) * 1.0, "labels": Y})
        self.hold(self.write(self.path("plain.mat"), test=self.path("plain.mat")), X.reshape(COUNT, -1), Y)
        with open(self.path("svhn", "train_32x32.mat"), "r+b") as file:
            file.truncate(300)
        self.refuse("train_32x32.mat: ", self.path("svhn"))

    def test_files_of_emnist(self):
        os.makedirs(self.path("raw"))
        for split, opened, end in (("train", open, ""), ("test", gzip.open, ".gz")):
            for what, of in (("images-idx3", X), ("labels-idx1", Y.astype(np.uint8))):
                with opened(self.path("raw", f"emnist-letters-{split}-{what}-ubyte{end}"), "wb") as file:
                    file.write(bytes([0, 0, 8, of.ndim]) + np.array(of.shape, ">u4").tobytes() + of.tobytes())
        arrays = self.write(self.path("raw"))
        self.hold(arrays, X, Y)
        self.hold(arrays, X, Y, "test")
        images = self.path("raw", "emnist-letters-train-images-idx3-ubyte")
        open(images.replace("letters", "digits"), "w").close()
        self.refuse("raw: several sets, such as ", self.path("raw"))
        with open(images, "r+b") as file:
            file.truncate(50)
        self.refuse("letters-train-images-idx3-ubyte: no whole IDX file of 3 dimensions", images, test=images)

    def test_arrays_by_client_and_pickles(self):
        for split in ("train", "test"):
            os.makedirs(self.path("set", split))
            for who in ("amy", "bob"):
                np.savez(self.path("set", split, f"{who}.npz"), x=X[WHO == who], y=Y[WHO == who])
        places = np.argsort(WHO, kind="stable")
        arrays = self.write(self.path("set"))
        self.hold(arrays, X[places], Y[places], client=WHO[places] == "bob")
        self.hold(arrays, X[places], Y[places], "test", client=WHO[places] == "bob")
        for who in ("amy", "bob"):  # PFLlib's: a dict, and therefore a pickle
            np.savez(self.path("set", "train", f"{who}.npz"), data={"x": X[WHO == who], "y": Y[WHO == who]})
        self.hold(self.write(self.path("set")), X[places], Y[places], client=WHO[places] == "bob")

    def test_pickles_of_arrays_are_read_and_no_others(self):
        os.makedirs(self.path("cifar"))
        pixels = (np.arange(12 * 3072) % 251).astype(np.uint8).reshape(12, 3072)
        for name, first in (("data_batch_1", 0), ("data_batch_2", 5), ("test_batch", 0)):
            end = {"data_batch_1": 5}.get(name, 12)
            with open(self.path("cifar", name), "wb") as file:
                pickle.dump({b"data": pixels[first:end], b"labels": [n % 4 for n in range(first, end)]}, file, protocol=2)
        arrays = self.write(self.path("cifar"))
        self.hold(arrays, pixels.reshape(-1, 3, 32, 32), np.arange(12) % 4)
        self.hold(arrays, pixels.reshape(-1, 3, 32, 32), np.arange(12) % 4, "test")
        for protocol in range(5):
            with open(self.path("pair.pkl"), "wb") as file:
                pickle.dump((np.asfortranarray(X.astype(">f8")), Y), file, protocol=protocol)
            self.hold(self.write(self.path("pair.pkl"), test=self.path("pair.pkl")), X, Y)

        class Calls:
            def __reduce__(self):
                return os.mkdir, (made,)

        made = self.path("made")
        for bad in (Calls(), {"x": X, "y": Calls()}, np.array([Calls()], object)):
            with open(self.path("bad.pkl"), "wb") as file:
                pickle.dump(bad, file)
            self.refuse("bad.pkl: it calls posix.mkdir, and only arrays are read", self.path("bad.pkl"))
        np.savez(self.path("set.npz"), data={"x": Calls(), "y": Y})
        for split in ("train", "test"):
            os.makedirs(self.path("set", split))
            shutil.copy(self.path("set.npz"), self.path("set", split, "amy.npz"))
        self.refuse("amy.npz: it calls posix.mkdir, and only arrays are read", self.path("set"))
        self.assertFalse(os.path.exists(made))
        with open(self.path("pair.pkl"), "r+b") as file:
            file.truncate(200)
        self.refuse("pair.pkl: ", self.path("pair.pkl"))

    @unittest.skipUnless(scipy, "there is no SciPy")
    def test_emnist_of_matlab(self):
        squares = X[:, :, :4]
        stored = {"images": squares.transpose(0, 2, 1).reshape(COUNT, -1), "labels": Y[:, None], "writers": (WHO == "bob").astype(int)[:, None]}
        scipy.savemat(self.path("emnist-letters.mat"), {"dataset": {"train": stored, "test": stored}})
        arrays = self.write(self.path("emnist-letters.mat"), client="writers")
        self.hold(arrays, squares[:, None], Y, client=WHO == "bob")
        self.hold(arrays, squares[:, None], Y, "test", client=WHO == "bob")
        with open(self.path("emnist-letters.mat"), "r+b") as file:
            file.truncate(300)
        self.refuse("emnist-letters.mat: ", self.path("emnist-letters.mat"))

    def test_missing_libraries_are_named(self):
        for name, package in (("a.parquet", "pyarrow"), ("a.h5", "h5py"), ("a.mat", "scipy")):
            open(self.path(name), "w").close()
            with unittest.mock.patch.dict(sys.modules, {package: None, f"{package}.io": None}):
                self.refuse(f"pip install {package}", self.path(name))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
