"""Data as people have them: each form of data set or folder is a row of FORMS or PATHS and one reader. A reader returns
splits by name ("" where a source has none), each (x, y, client), client None unless it was asked for."""
import os

import numpy as np

from .command import Error
from .form_files import is_emnist, is_npz_by_client, of_files
from .form_files import read_arrow, read_emnist, read_hdf5, read_idx, read_mat, read_npz
from .form_parts import SPLITS, Ask, Progress, library, picture, pixels, stack, table
from .form_pickles import is_pickles, read_pickles

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff")


def _is_of_pairs(source):
    try:
        if isinstance(source, (tuple, list, dict)):
            return False
        return isinstance(source[0], (tuple, list)) and len(source[0]) == 2
    except (KeyError, IndexError, TypeError, NotImplementedError):
        return False


def _read_pairs(source, ask):
    """PyTorch's data sets, Subsets among them: items (x, y)."""
    progress, samples = Progress(len(source)), []
    for i in range(len(source)):
        samples.append(tuple(source[i]))
        progress.at(i)
    try:
        x, y = zip(*samples)
    except ValueError as problem:
        raise Error(f"{type(source).__name__}: {problem}; give items (x, y)") from problem
    images = [pixels(one, ask) if hasattr(one, "getbands") else one for one in x]
    return {"": (stack(images, type(source).__name__), np.array(y), None)}


def _is_columns(source):
    return hasattr(source, "column_names") and hasattr(source, "features")


def _is_columns_by_split(source):
    return isinstance(source, dict) and bool(source) and all(_is_columns(of) for of in source.values())


def _read_columns(source, ask):
    """A data set of Hugging Face's, or a dict of such."""
    return {SPLITS.get(name, name): table(of.column_names, lambda column, of=of: of[column], ask)
            for name, of in (source.items() if isinstance(source, dict) else [("", source)])}


def _is_saved(path):
    return any(os.path.isfile(os.path.join(path, name)) for name in ("dataset_dict.json", "dataset_info.json"))


def _read_saved(path, ask):
    """A folder of save_to_disk."""
    load = getattr(library("datasets", path), "load_from_disk", None)
    if load is None:  # a folder of this name where Python looks for packages
        raise Error(f"{path}: the package datasets is not installed; pip install datasets")
    try:
        source = load(path)
    except Exception as problem:  # whatever the library makes of a damaged file
        raise Error(f"{path}: {problem}; write it anew with save_to_disk") from problem
    return _read_columns(source, ask)


def _pictures(folder):
    """The pictures below a folder, each as its folders and its path, in sorted order."""
    for at, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            if file.lower().endswith(_PICTURES):
                yield os.path.relpath(at, folder).split(os.sep), os.path.join(at, file)


def _is_pictures(path):
    return os.path.isdir(path) and next(_pictures(path), None) is not None


def _read_pictures(path, ask):
    """Folders of images by class, or by client and class: [SPLIT/]CLASS/FILE, with client=LEVEL (from 1) two levels."""
    found = [(levels, file) for levels, file in _pictures(path)]
    splits = all(levels[0] in SPLITS for levels, _ in found)
    depth = 1 if ask.client is None else 2
    level = None if ask.client is None else str(ask.client)
    if level not in (None, "1", "2"):
        raise Error(f"client: {ask.client!r}: folders of images have a level of clients, 1 or 2; "
                    "say client=1 for CLIENT/CLASS/FILE")
    for levels, file in found:
        if levels == ["."] or len(levels) - splits != depth:
            levels = "two levels" if level else "one level"
            raise Error(f"{file}: not {levels} below {path}{'/SPLIT' if splits else ''}; "
                        "say client=1 for CLIENT/CLASS/FILE, client=2 for CLASS/CLIENT/FILE, nothing for CLASS/FILE")
    progress, of = Progress(len(found)), {}
    for i, (levels, file) in enumerate(found):
        names = levels[splits:]
        client = None if level is None else names.pop(int(level) - 1)
        samples = of.setdefault(SPLITS[levels[0]] if splits else "", [])
        samples.append((pixels(picture(file, file), ask), names[0], client, file))
        progress.at(i)
    return {split: _of_one_shape(samples, level) for split, samples in of.items()}


def _of_one_shape(samples, level):
    images, labels, clients, files = zip(*samples)
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.repeat(image[:, :, None], 3, 2) for image in images]
    for image, file in zip(images, files):
        if image.shape != images[0].shape:
            (rows, columns), (own_rows, own_columns) = images[0].shape[:2], image.shape[:2]
            raise Error(f"{file}: {own_rows}x{own_columns} pixels, but {files[0]} has {rows}x{columns}; "
                        "say size=(rows, columns) (--size ROWSxCOLUMNS), to which all are scaled")
    return stack(images, files[0]), np.array(labels), None if level is None else np.array(clients)


FORMS = [  # name, whether a source is one, reader, what may be asked of it; the first that fits reads it
    ("a data set of Hugging Face's", _is_columns, _read_columns, Ask._fields),
    ("a dict of data sets of Hugging Face's", _is_columns_by_split, _read_columns, Ask._fields),
    ("a data set of PyTorch's", _is_of_pairs, _read_pairs, ("size",)),
]
PATHS = [  # the same for paths
    ("a folder of save_to_disk", _is_saved, _read_saved, Ask._fields),
    ("files of Parquet or Arrow", *of_files((".parquet", ".arrow", ".feather"), read_arrow), Ask._fields),
    ("files of HDF5", *of_files((".h5", ".hdf5"), read_hdf5), ()),
    ("EMNIST's file of MATLAB", is_emnist, read_emnist, ("client",)),
    ("files of MATLAB", *of_files((".mat",), read_mat), ()),
    ("EMNIST's files", *of_files(("images-idx3-ubyte", "images-idx3-ubyte.gz"), read_idx, joins=False), ()),
    ("folders SPLIT/CLIENT.npz", is_npz_by_client, of_files((".npz",), read_npz)[1], ()),
    ("pickles of arrays, such as CIFAR's", is_pickles, read_pickles, ()),
    ("folders of images by class", _is_pictures, _read_pictures, ("client", "size")),
]
NAMES = [name for name, _, _, _ in PATHS]


def _first(rows, source, ask):
    """What the first of the rows that fits reads, or None."""
    for name, fits, reader, takes in rows:
        if fits(source):
            for word, value in ask._asdict().items():
                if value is not None and word not in takes:
                    raise Error(f"{word}: {value!r}: not for {name}; leave {word} out")
            return reader(source, ask)
    return None


def read(source, ask):
    """The splits of a source, or None if it is of no form that is known here."""
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        if not os.path.exists(source):
            raise Error(f"{source}: no such file or folder; give the path of one")
        splits = _first(PATHS, source, ask)
        if splits is None:
            raise Error(f"{source}: no form that is known; these are: {', '.join(NAMES)}")
        return splits
    return _first(FORMS, source, ask)


def read_one(source, ask, name):
    """The samples (x, y, client) of a source without splits, or None if it is of no form that is known here."""
    splits = read(source, ask)
    if splits is None:
        return None
    if len(splits) != 1:
        raise Error(f"{name}: has the splits {', '.join(sorted(splits))}; give one of them")
    return next(iter(splits.values()))
