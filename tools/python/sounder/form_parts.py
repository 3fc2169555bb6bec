"""What the readers of forms of data share: what is asked for, libraries that may be missing, pictures, tables."""
import collections
import io
import sys
import time

import numpy as np

from .command import Error

Ask = collections.namedtuple("Ask", "client columns size", defaults=(None, None, None))  # words of write_data

SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test",
          "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation"}
SAMPLES = ("image", "img", "pixels", "x", "features")
LABELS = ("label", "labels", "y", "target", "class", "fine_label", "character")


def library(name, form, package=None):
    try:
        return __import__(name, fromlist=["_"])
    except ImportError as missing:
        raise Error(f"{form}: {missing}; pip install {package or name}") from missing


class Progress:
    """A line on a terminal for each second of long work."""

    def __init__(self, count):
        self.count, self.last = count, time.monotonic()

    def at(self, done):
        if sys.stderr.isatty() and time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            print(f"{done:,} of {self.count:,} read", file=sys.stderr)


def channels_first(x):
    """Images (N,H,W,C) of bytes as (N,C,H,W); anything else as it is."""
    return np.moveaxis(x, 3, 1) if getattr(x, "ndim", 0) == 4 and x.dtype == np.uint8 and x.shape[3] in (1, 3, 4) else x


def stack(samples, name):
    try:
        return channels_first(np.stack([np.asarray(one) for one in samples]))
    except (ValueError, TypeError, RuntimeError) as problem:
        raise Error(f"{name}: {problem}; give samples of one shape, images with size=(rows, columns)") from problem


def pixels(image, ask):
    """A picture of Pillow's as bytes: grey, or RGB."""
    if image.mode[:1] in "IF":
        raise Error(f"images: mode {image.mode}, of more than 8 bits; give arrays of numbers")
    image = image if image.mode in ("L", "RGB") else image.convert("RGB")
    return np.asarray(image.resize(ask.size[::-1]) if ask.size else image)


def pick(names, what, wanted):
    """The first of the wanted names that is among names."""
    for name in wanted:
        if name in names:
            return name
    raise Error(f"columns: none of {', '.join(names)} is the {what}; say columns=(X, Y)")


def _chosen(names, ask):
    """The names of the columns of x, and of y."""
    for name in [*(ask.columns or ()), *([ask.client] if ask.client is not None else [])]:
        if name not in names:
            raise Error(f"columns: no column {name!r}; there are {', '.join(map(str, names))}")
    if ask.columns:
        return list(ask.columns[:1]), ask.columns[1]
    label = pick(names, "label", LABELS)
    own = [name for name in names if name in SAMPLES][:1]
    return own or [name for name in names if name not in (label, ask.client)], label


def _side_by_side(own, values):
    """Columns of numbers as features."""
    bad = [name for name, of in zip(own, values) if any(isinstance(one, (str, bytes, type(None))) for one in of)]
    if bad:
        raise Error(f"column {bad[0]!r}: text or gaps; give columns=(X, Y), or a table without it")
    try:
        return np.stack([np.asarray(of, "f8") for of in values], 1)
    except (ValueError, TypeError) as problem:
        raise Error(f"columns {', '.join(own)}: {problem}; give columns=(X, Y)") from problem


def table(names, column, ask):
    """Samples of a table: column(name) gives its values. x is a column of images or lists, or all other columns."""
    own, label = _chosen(names, ask)
    values = [[_decoded(one, ask) for one in column(name)] for name in own]
    is_of_numbers = len(own) > 1 or np.ndim(values[0][:1]) == 1
    x = _side_by_side(own, values) if is_of_numbers else stack(values[0], f"column {own[0]!r}")
    return x, np.array(list(column(label))), None if ask.client is None else np.array(list(column(ask.client)))


def _decoded(value, ask):
    """A cell: what Hugging Face's image columns have (a picture, or bytes of one) as pixels."""
    if isinstance(value, dict) and value.get("bytes") is not None:
        value = picture(io.BytesIO(value["bytes"]), value.get("path") or "an image")
    return pixels(value, ask) if hasattr(value, "getbands") else value


def picture(file, name):
    image = library("PIL.Image", "images", "pillow")
    try:
        with image.open(file) as opened:
            opened.load()
            return opened
    except (OSError, SyntaxError, ValueError) as problem:  # SyntaxError: Pillow's for a damaged PNG
        raise Error(f"{name}: no image that Pillow reads ({problem}); leave the file out, or save it anew") from problem
