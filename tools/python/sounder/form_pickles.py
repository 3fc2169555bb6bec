"""Pickles of arrays: CIFAR's Python version, PFLlib's, or a dict or pair of arrays. A pickle is a program that may
call anything; the reader here gives it the names of arrays alone, and makes these itself. All others are refused."""
import os
import pickle
import zipfile

import numpy as np

from .command import Error
from .form_parts import LABELS, SAMPLES, channels_first, pick

_ENDINGS = (".pkl", ".pickle")
_CIFAR = (["data_batch_1", "test_batch"], ["train", "test", "meta"])
_PLAIN = "biuf"  # kinds of dtype: booleans, whole and real numbers


class _Type:
    """In the place of numpy.dtype."""

    def __init__(self, name, *rest):
        self.object = name in ("O8", "O4", "O")
        self.dtype = None if self.object else np.dtype(str(name))
        if self.dtype is not None and self.dtype.kind not in _PLAIN:
            raise pickle.UnpicklingError(f"an array of the type {name}")

    def __setstate__(self, state):
        if not self.object and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """In the place of numpy.ndarray: its state is read here, and never by NumPy."""

    def __init__(self, *rest):
        self.value = None

    def __setstate__(self, state):
        _, shape, kind, columns_first, values = state
        if kind.object:  # of any shape: PFLlib's is one dict
            self.value = values[0] if len(values) == 1 else list(values)
            return
        values = values.encode("latin-1") if isinstance(values, str) else values
        array = np.frombuffer(values, kind.dtype)
        self.value = array.reshape(shape[::-1]).T if columns_first else array.reshape(shape)


def _scalar(kind, values):
    return np.frombuffer(values.encode("latin-1") if isinstance(values, str) else values, kind.dtype)[0]


def _bytes(text, encoding):
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes as {encoding}")
    return text.encode("latin-1")


_NAMES = {("numpy", "ndarray"): _Array, ("numpy", "dtype"): _Type, ("_codecs", "encode"): _bytes}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _NAMES.update({(_module, "_reconstruct"): _Array, (_module, "scalar"): _scalar})


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it calls {module}.{name}, and only arrays are read")
        return _NAMES[module, name]


def _plain(value):
    """What was read, with arrays in the place of their stand-ins, and texts in that of bytes as names."""
    if isinstance(value, _Array):
        return _plain(value.value)
    if isinstance(value, dict):
        return {name.decode("latin-1") if isinstance(name, bytes) else name: _plain(one) for name, one in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def _load(opened, name):
    try:
        return _plain(_Reader(opened, encoding="latin-1").load())
    except MemoryError:
        raise
    except Exception as problem:  # a damaged pickle may do anything that its reader can
        raise Error(f"{name}: {problem}; of a file that you trust give write_data the arrays") from problem


def load_arrays(name):
    """The arrays by name of a .npz file, whose arrays of objects are pickles."""
    found = {}
    with zipfile.ZipFile(name) as members:
        for member in members.namelist():
            with members.open(member) as opened:
                version = np.lib.format.read_magic(opened)
                header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")(opened)
                if header[2].hasobject:
                    found[member[: -len(".npy")]] = _load(opened, name)
                    continue
            with members.open(member) as opened:
                found[member[: -len(".npy")]] = np.lib.format.read_array(opened, allow_pickle=False)
    return found


def _files(path):
    """The pickles of a path by split."""
    if os.path.isfile(path):
        return {"": [path]} if path.lower().endswith(_ENDINGS) else {}
    ten, hundred = ([name for name in names if os.path.isfile(os.path.join(path, name))] for names in _CIFAR)
    if len(ten) == 2:
        batches = sorted(name for name in os.listdir(path) if name.startswith("data_batch_"))
        return {"train": [os.path.join(path, name) for name in batches], "test": [os.path.join(path, ten[1])]}
    return {split: [os.path.join(path, split)] for split in ("train", "test")} if len(hundred) == 3 else {}


def is_pickles(path):
    return bool(_files(path))


def _samples(name):
    with open(name, "rb") as opened:
        of = _load(opened, name)
    if isinstance(of, (tuple, list)) and len(of) == 2:
        of = dict(zip(("x", "y"), of))
    if not isinstance(of, dict):
        raise Error(f"{name}: a pickle of {type(of).__name__}; give one of a dict with arrays x and y, or of a pair")
    x = np.asarray(of[pick(list(of), "samples", ("data", *SAMPLES))])
    y = np.asarray(of[pick(list(of), "label", LABELS)])
    is_cifar = "data" in of and x.shape[1:] == (3072,)
    return x.reshape(-1, 3, 32, 32) if is_cifar else channels_first(x), y.reshape(-1)


def read_pickles(path, ask):
    found = {}
    for split, names in _files(path).items():
        xs, ys = zip(*map(_samples, names))
        found[split] = np.concatenate(xs), np.concatenate(ys), None
    return found
