"""Arrays and partitions as files of data for --data."""
import os
import tempfile

import numpy as np

from . import forms
from .command import Error
from .form_parts import Ask, channels_first


def _array(values, name="values"):
    """As an array of NumPy's, of whatever type it has."""
    if hasattr(values, "toarray") or str(getattr(values, "layout", "torch.strided")) != "torch.strided":
        raise Error(f"{name}: sparse; give {name}.{'toarray' if hasattr(values, 'toarray') else 'to_dense'}()")
    if hasattr(values, "detach"):  # torch, whose bfloat16 NumPy has not
        values = values.detach().cpu()
        values = (values.float() if values.is_floating_point() and values.element_size() < 4 else values).numpy()
    try:
        return np.ascontiguousarray(values)
    except ValueError as problem:
        raise Error(f"{name}: {problem}; give all samples the same shape") from problem


def _bad_column(values, name):
    """The first column of a table (pandas) that has no numbers, or else all of it."""
    bad = [label for label in getattr(values, "columns", ()) if np.asarray(values[label]).dtype.kind not in "biuf"]
    return f"{name}, column {bad[0]!r}" if bad else name


def float_array(values, name, kind="<f4"):
    """As floating-point numbers, which dates, text and complex numbers are not."""
    array = _array(values, name)
    try:
        if array.dtype.kind in "mMcV":
            raise TypeError(f"values of type {array.dtype}")
        return array.astype(kind, copy=False)
    except (TypeError, ValueError) as problem:
        raise Error(f"{_bad_column(values, name)}: {problem}; give numbers: of categories pandas.get_dummies makes them, of dates count days") from problem


def _is_wide(array):
    """Whether float32 rounds away digits in which the samples of a feature differ, such as those of times in seconds."""
    if array.dtype.kind not in "iuf" or array.dtype.itemsize < (8 if array.dtype.kind == "f" else 4) or not array.size:
        return False
    features = array.reshape(len(array), -1).astype("f8")
    return bool(((2.0**-23 * np.abs(features).max(0) > 0.02 * features.std(0)) & (features != features.astype("f4")).any(0)).any())


def sample_array(values, name):
    for label in getattr(values, "columns", ()):  # of a file that was written with pandas' row numbers
        if str(label).startswith("Unnamed: "):
            raise Error(f"{name}, column {label!r}: row numbers, not a feature; read the table with index_col=0, or drop the column")
    array = _array(values, name)
    return array if array.dtype == np.uint8 else float_array(values, name, "<f8" if _is_wide(array) else "<f4")


def _check_gaps(values, name):
    try:
        if any(value is None or value != value for value in values.ravel().tolist()):
            raise Error(f"{name}: a gap (NaN or None); leave such samples out")
    except TypeError as problem:  # pandas.NA
        raise Error(f"{name}: {problem}; leave such samples out") from problem


def _names(values, name):
    """The sorted names of classes or clients."""
    _check_gaps(values, name)
    try:
        return np.unique(values)
    except TypeError as problem:
        raise Error(f"{name}: {problem}; give names of one type, which can be sorted") from problem


def _numbered(values, names, name, whose):
    """The place of each value among the names."""
    missing = ~np.isin(values, names)
    if missing.any():
        raise Error(f"{name} {values[missing].tolist()[0]!r}: {whose} has no training samples; leave such samples out")
    return np.searchsorted(names, values)


def _labels(values, name):
    """An array of classes, their names, or targets."""
    y = _array(values, name)
    if y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind in "biuf" and ((y == 0) | (y == 1)).all() and (y.sum(1) != 1).any():
        return y.astype(np.uint8)  # several labels per sample
    if y.ndim > 1 and y.shape[-1] != 1:
        are_bits = y.dtype.kind in "biuf" and ((y == 0) | (y == 1)).all()
        raise Error(f"{name}: of shape {y.shape}; give one number for each sample" + (
            ", of one-hot rows y.argmax(1)" if are_bits else ": several targets are for a trainer (help trainer), which reads any data itself"))
    if y.dtype.kind in "mMcV":
        raise Error(f"{name}: values of type {y.dtype}; give classes or numbers")
    if y.dtype.kind == "O":
        _check_gaps(y, name)
        y = np.array(y.tolist())  # of their own type
    return y.reshape(-1)


def target_arrays(of):
    """Classes, those of text numbered by the training set's sorted names, as whole numbers, and targets as floats."""
    of = {name: _labels(y, name) for name, y in of.items()}
    if {y.dtype.kind for y in of.values()} & set("US"):
        names = _names(of["y_train"], "y_train")
        return {name: _numbered(y, names, name, "the class") for name, y in of.items()}
    return {name: y.astype("<f4" if y.dtype.kind == "f" else "<i8") for name, y in of.items()}


def _is_pair(given):
    return isinstance(given, (tuple, list)) and len(given) == 2


def _splits(train, test, validation, ask):
    """The splits by name, each (x, y, client), of pairs and of the forms that there are."""
    if _is_pair(train):
        if ask.client is not None:
            raise Error(f"client: {ask.client!r}: arrays have no such column; give one for each sample")
        of = {"train": (*train, None)}
    else:
        of = forms.read(train, ask)
        if of is None:
            raise Error(f"train: {type(train).__name__}; give a pair (x, y), a data set of such pairs or columns, or a path")
        of = {"train": of[""]} if set(of) == {""} else of
    if ask != Ask() and all(split is None or _is_pair(split) for split in (train, test, validation)):
        raise Error("columns, size: arrays have none; leave them out")
    for name, given in (("test", test), ("validation", validation)):
        if given is not None:
            of[name] = (*given, None) if _is_pair(given) else forms.read_one(given, ask, name)
    for name in ("train", "test"):
        if of.get(name) is None:
            raise Error(f"{name}: there is none; give {name}=, a pair (x, y), a data set or a path")
    return of


def write_arrays(path, arrays):
    """The file .npz of these arrays, whole or not at all; its full path."""
    path = os.fspath(path)
    if not path.endswith(".npz"):
        raise Error(f"{path}: a data set is a file .npz; call it {path}.npz")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", suffix=".npz", delete=False) as file:
        try:
            np.savez(file, **arrays)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return os.path.abspath(path)


def _client_arrays(client, test_client):
    """client_train, and client_test where the test samples have clients, too: numbers of the names of both."""
    client = _array(client, "client")
    names = _names(client, "client")
    arrays = {"client_train": _numbered(client, names, "client", "the client")}
    if test_client is not None:
        arrays["client_test"] = _numbered(_array(test_client, "test_client"), names, "test_client", "the client")
    return arrays


def _check_counts(arrays):
    """Each array has one entry for each sample of its split."""
    for name, values in arrays.items():
        split = name.rsplit("_", 1)[1]
        x = ("x_" if "x_train" in arrays else "y_") + split
        if np.shape(values)[:1] != np.shape(arrays[x])[:1]:
            raise Error(f"{name}: {len(values):,} for the {len(arrays[x]):,} samples of {x}; give one for each sample")


def write_data(path, train, test=None, client=None, test_client=None, mean=None, std=None, validation=None, columns=None,
               size=None):
    """Writes a data set for --data and returns its path. train, test: pairs (x, y) of arrays, tensors or lists: x uint8
    pixels or numbers, (N), (N,F), (N,H,W) or (N,C,H,W); y classes (whole numbers, or text, which is numbered in sorted
    order) or targets (floating-point numbers). x None in both: labels alone, for a trainer that has loaded the samples
    itself. client, test_client: whose sample each is; anything that can be sorted. mean, std: one number, or one for
    each channel or feature. validation: a pair (x, y), on which a run's rounds are tested, so that the test set is used
    at its end alone. Instead of a pair: a data set, folder or file of a form that sounder/forms.py has; test may be
    left out where train has a split of that name. Of these, client is the name of a column or a level of folders (TFF's
    files have clients anyway), columns the names of x and y, size the (rows, columns) to which images are scaled."""
    named = client if isinstance(client, (str, int)) else None
    of = _splits(train, test, validation, Ask(named, columns, size))
    train, test, validation = (split and split[:2] for split in map(of.get, ("train", "test", "validation")))
    if client is None or named is not None:
        client, test_client = of["train"][2], of["test"][2] if test_client is None else test_client
    of_validation = {} if validation is None else {"y_validation": validation[1]}
    arrays = target_arrays({"y_train": train[1], "y_test": test[1], **of_validation})
    if validation is not None:
        arrays["x_validation"] = sample_array(validation[0], "x_validation")
    if train[0] is not None or test[0] is not None:
        arrays.update(x_train=sample_array(train[0], "x_train"), x_test=sample_array(test[0], "x_test"))
    if client is not None:
        arrays.update(_client_arrays(client, test_client))
    _check_counts(arrays)
    for name, value in (("mean", mean), ("std", std)):
        if value is not None:
            arrays[name] = np.atleast_1d(float_array(value, name, "<f8"))
    return write_arrays(path, arrays)


def _pair(part, columns):
    if _is_pair(part):
        return _array(part[0], "x"), _array(part[1], "y")
    read = forms.read_one(part, Ask(columns=columns), "partitions")
    if read:
        return _array(read[0], "x"), _array(read[1], "y")
    columns = columns or ("image", "label")
    try:
        x, y = (part[column] for column in columns)  # a dict or table of columns
        if isinstance(x, (list, tuple)):
            x = np.stack([np.asarray(one) for one in x])
        return _array(x, "x"), _array(y, "y")
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise Error(f"partitions: {type(part).__name__}: {problem}; give pairs (x, y) of arrays, data sets of such pairs with x of one shape, or data "
                    f"sets with the columns {columns[0]} and {columns[1]}") from problem


def _parts(partitions):
    """The partitions themselves: of an object that has them, or that loads each by its number, as Flower's do."""
    if isinstance(partitions, (str, os.PathLike)):
        raise Error(f"partitions: {type(partitions).__name__}: give a list of them; one folder with clients is for write_data(..., client=...)")
    if hasattr(partitions, "load_partition"):
        of = partitions
        if not hasattr(of, "num_partitions"):  # a FederatedDataset, which has a partitioner for each split
            of = getattr(partitions, "partitioners", {}).get("train")
        if of is None:
            raise Error("partitions: no partitioner for the split train; give the partitions one by one")
        return [partitions.load_partition(i) for i in range(of.num_partitions)]
    own = getattr(partitions, "partitions", partitions)
    return own() if callable(own) else own


def from_partitions(path, partitions, test=None, columns=None, **more):
    """Writes a data set whose clients are the partitions: pairs (x, y), data sets of such pairs (PyTorch's), or data sets with two columns, such as
    FederatedDataset.load_partition(i) of Flower's gives; or an object that has or loads them. test: likewise one; None: the
    split "test" of a FederatedDataset. Images of shape (H,W,C) become (C,H,W)."""
    if test is None:
        if not hasattr(partitions, "load_split"):
            raise Error("test: there is none; give a pair (x, y) or a data set with the two columns")
        test = partitions.load_split("test")
    partitions = _parts(partitions)
    pairs = [_pair(part, columns) for part in partitions]
    if not pairs:
        raise Error("partitions: none; give at least one")
    tested = _pair(test, columns)
    client = np.repeat(np.arange(len(pairs)), [len(y) for _, y in pairs])
    x, y = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    return write_data(path, (channels_first(x), y), (channels_first(tested[0]), tested[1]), client=client, **more)
