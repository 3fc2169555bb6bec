"""Readers of files. A path is a file, or a folder in which a word of a file's name, or a folder, says the split."""
import gzip
import os
import re
import zipfile

import numpy as np

from .command import Error
from .form_parts import LABELS, SAMPLES, SPLITS, channels_first, library, pick, table
from .form_pickles import load_arrays


def _split_of(file, folder):
    words = re.split("[^a-z]+", os.path.relpath(file, folder).lower())
    return next((SPLITS[word] for word in reversed(words) if word in SPLITS), "")


def _files(path, endings):
    """The files with these endings, by split, in sorted order."""
    if os.path.isfile(path):
        return {"": [path]} if path.lower().endswith(endings) else {}
    of = {}
    for at, folders, files in os.walk(path):
        folders.sort()
        for file in sorted(files):
            if file.lower().endswith(endings):
                of.setdefault(_split_of(os.path.join(at, file), path), []).append(os.path.join(at, file))
    return of


def _join(parts, name):
    """The samples of several files as those of one."""
    if len({part[2] is None for part in parts}) > 1:
        raise Error(f"{name}: clients in some of the files alone; give files of one form")
    try:
        return tuple(None if of[0] is None else np.concatenate(of) for of in zip(*parts))
    except ValueError as problem:
        raise Error(f"{name}: {problem}; give files whose samples have one shape") from problem


def of_files(endings, read, joins=True):
    """Whether a path is one, and its reader. read(file, ask) gives one file's x, y, client. joins: whether
    the files of a split are parts of one set."""

    def reader(path, ask):
        of = _files(path, endings)
        if "" in of and len(of) > 1:
            raise Error(f"{of[''][0]}: of no split, and other files in {path} are; name it by one, such as train")
        for files in of.values():
            if len(files) > 1 and not joins:
                raise Error(f"{path}: several sets, such as {files[0]} and {files[1]}; "
                            "give the files of one, its training set and test=")
        return {split: _join([read(file, ask) for file in files], path) for split, files in of.items()}

    return lambda path: bool(_files(path, endings)), reader


def read_arrow(file, ask):
    """A file of Parquet, or of Arrow in either of its two forms."""
    arrow, parquet = library("pyarrow", file), library("pyarrow.parquet", file, "pyarrow")
    try:
        if file.lower().endswith(".parquet"):
            whole = parquet.read_table(file)
        else:
            with arrow.memory_map(file) as source:
                try:
                    whole = arrow.ipc.open_file(source).read_all()
                except arrow.ArrowInvalid:
                    source.seek(0)
                    whole = arrow.ipc.open_stream(source).read_all()
    except (arrow.ArrowException, OSError) as problem:
        raise Error(f"{file}: {problem}; write it anew") from problem
    return table(whole.column_names, lambda name: whole.column(name).to_pylist(), ask)


def _named(of):
    """The arrays of samples and of labels among named ones, whatever the case of their names."""
    lower = {name.lower(): name for name in of}
    return [of[lower[pick(list(lower), what, wanted)]] for what, wanted in (("samples", SAMPLES), ("label", LABELS))]


def read_hdf5(file, ask):
    """A file of TensorFlow Federated's: examples/CLIENT/NAME, an array of each client's; or one of two arrays."""
    h5py = library("h5py", file)
    try:
        with h5py.File(file, "r") as of:
            if "examples" not in of:
                x, y = _named({name: one[()] for name, one in of.items() if isinstance(one, h5py.Dataset)})
                return channels_first(x), y.reshape(-1), None
            parts = []
            for client, group in sorted(of["examples"].items()):
                x, y = _named({name: one[()] for name, one in group.items()})
                parts.append((channels_first(x), y.reshape(-1), np.full(len(y), client)))
    except (OSError, KeyError, RuntimeError) as problem:
        raise Error(f"{file}: {problem}; no HDF5 file that is whole: fetch it again") from problem
    return _join(parts, file)


def read_mat(file, ask):
    """SVHN's X (rows, columns, channels, samples) and y, in which 10 is the digit 0, or arrays of such names."""
    load = library("scipy.io", file, "scipy").loadmat
    try:
        of = load(file, simplify_cells=True)
    except Exception as problem:  # whatever SciPy makes of a damaged file
        raise Error(f"{file}: {problem}; no MATLAB file of version 4 to 7.2 that is whole") from problem
    x, y = _named({name: one for name, one in of.items() if isinstance(one, np.ndarray)})
    if x.ndim == 4 and x.shape[3] == y.size != x.shape[0]:
        x, y = np.moveaxis(x, 3, 0), np.where(y == 10, 0, y)
    return channels_first(x), y.reshape(-1), None


def is_emnist(path):
    return os.path.basename(path).lower().startswith("emnist") and path.lower().endswith(".mat")


def read_emnist(path, ask):
    """EMNIST's own form: a struct of both splits, images stored by columns. client="writers": whose a sample is."""
    load = library("scipy.io", path, "scipy").loadmat
    found = {}
    try:
        whole = load(path, simplify_cells=True)["dataset"]
        for split in ("train", "test"):
            of = whole[split]
            side = int(np.sqrt(np.shape(of["images"])[1]))
            images = np.asarray(of["images"], np.uint8).reshape(-1, 1, side, side).transpose(0, 1, 3, 2)
            clients = None if ask.client is None else np.reshape(of[ask.client], -1)
            found[split] = images, np.reshape(of["labels"], -1), clients
    except Exception as problem:  # whatever SciPy makes of a damaged file
        raise Error(f"{path}: {problem}; no file of EMNIST's that is whole: fetch it again") from problem
    return found


def read_idx(file, ask):
    """EMNIST's images, beside which their labels lie, turned as they are stored: rows and columns exchanged."""

    def bytes_of(name, rank):
        try:
            with (gzip.open if name.endswith(".gz") else open)(name, "rb") as of:
                whole = of.read()
        except (OSError, EOFError, ValueError) as problem:
            raise Error(f"{name}: {problem}; fetch it again") from problem
        shape = np.frombuffer(whole[4 : 4 + 4 * rank].ljust(4 * rank, b"\0"), ">u4").astype(int)
        if whole[:4] != bytes([0, 0, 8, rank]) or len(whole) != 4 + 4 * rank + shape.prod():
            raise Error(f"{name}: no whole IDX file of {rank} dimensions of bytes; fetch it again")
        return np.frombuffer(whole, np.uint8, offset=4 + 4 * rank).reshape(shape)

    folder, name = os.path.split(file)
    labels = name.replace("images-idx3", "labels-idx1")
    return bytes_of(file, 3), bytes_of(os.path.join(folder, labels), 1), None


def is_npz_by_client(path):
    """Whether it is SPLIT/CLIENT.npz, as PFLlib has them."""
    return os.path.isdir(path) and set(_files(path, (".npz",))) >= {"train", "test"}


def read_npz(file, ask):
    """A client's arrays x and y, or PFLlib's dict of them, which is a pickle."""
    try:
        of = load_arrays(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as problem:
        raise Error(f"{file}: {problem}; write it anew, np.savez(FILE, x=x, y=y)") from problem
    x, y = _named(of["data"] if isinstance(of.get("data"), dict) else of)
    client = os.path.splitext(os.path.basename(file))[0]
    return channels_first(np.asarray(x)), np.reshape(y, -1), np.full(np.size(y), client)
