"""Samples that the program loads itself, as torch's Datasets: the run learns how many there are, their labels and whose they are, and asks
for turns of numbers."""
import os

import numpy as np

from ..command import Error
from ..data import target_arrays, write_data

LABELS = ("targets", "labels", "label")


def _column(dataset, name):
    """An attribute, or a column of a data set that has some (Hugging Face's); None if there is neither. A part of a data set has that of
    the whole, at its places; joined ones have theirs one after the other."""
    if isinstance(getattr(dataset, "column_names", None), list):
        return dataset[name] if name in dataset.column_names else None
    if hasattr(dataset, name):
        return getattr(dataset, name)
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        whole = _column(dataset.dataset, name)
        return None if whole is None else np.asarray(whole)[np.asarray(dataset.indices, np.int64)]
    if hasattr(dataset, "datasets"):
        parts = [_column(part, name) for part in dataset.datasets]
        return None if any(part is None for part in parts) else np.concatenate([np.asarray(part) for part in parts])
    return None


def _labels(dataset):
    """One label per sample; zeros where a sample has none, or has many, as a text or a mask does."""
    tensors = getattr(dataset, "tensors", ())
    for found in [*(_column(dataset, name) for name in LABELS), *tensors[1:][-1:]]:
        if found is not None and np.ndim(found) == 1 and len(found) == len(dataset):
            return found
    return np.zeros(len(dataset), np.int64)


class OwnSamples:
    """data: two Datasets, of which both have a length. client: the name of an attribute or column that says whose a sample is, or two
    lists."""

    def __init__(self, data, client=None):
        if not isinstance(data, (tuple, list)) or len(data) != 2 or not all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in data):
            raise Error("serve(..., data=): give two Datasets with a length, data=(train_set, test_set)")
        self.parts = dict(zip(("train", "test"), data))
        for split, part in self.parts.items():
            if len(part) == 0:
                raise Error(f"serve(..., data=): the {split} set has no samples")
        self.client = client

    def _owners(self):
        if self.client is None:
            return None, None
        of_train, of_test = self.client if isinstance(self.client, (tuple, list)) else (_column(part, self.client) for part in self.parts.values())
        if of_train is None:
            raise Error(f"serve(..., client={self.client!r}): the training set has no attribute or column of that name")
        return of_train, of_test

    def write(self, folder):
        """A data set of labels alone, named by its contents."""
        train, test = ((None, _labels(part)) for part in self.parts.values())
        of_train, of_test = self._owners()
        written = write_data(os.path.join(folder, f".{os.getpid()}.npz"), train, test, client=of_train, test_client=of_test)
        return named_by_contents(written)

    def check(self, data, whole):
        """Whether the run's data are these samples. whole: the labels are compared, too."""
        for split, part in self.parts.items():
            told = data.splits[split]
            if len(told.y) != len(part):
                raise Error(f"the program's {split} set has {len(part):,} samples, the run's data {len(told.y):,}: leave --data out, for the program "
                            "has data= of its own; a run that is resumed or evaluated wants the samples with which it began")
        if whole and any(told.x is not None for told in data.splits.values()):
            raise Error("the run's data have samples, and the program has data= of its own: leave --data out")
        if whole:
            own = target_arrays({f"y_{split}": _labels(part) for split, part in self.parts.items()})
            for split, labels in own.items():
                if not np.array_equal(labels.astype(data.splits[split[2:]].y.dtype), data.splits[split[2:]].y):
                    raise Error(f"the labels of the program's {split[2:]} set are not those with which the run began: other samples, or another order")


def named_by_contents(path):
    import hashlib

    with np.load(path) as file:
        found = hashlib.blake2b(digest_size=8)
        for name in sorted(file.files):
            found.update(f"{name} {file[name].dtype.str} {file[name].shape} ".encode() + np.ascontiguousarray(file[name]).tobytes())
    named = os.path.join(os.path.dirname(path), f"{found.hexdigest()}.npz")
    os.replace(path, named)
    return named


class _EachEpoch:
    """Batches of which each pass is one epoch, as loops that count epochs themselves want them."""

    def __init__(self, batches, epochs):
        self.batches, self.length, self.passes = batches, len(batches) // epochs, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        first = self.passes * self.length % max(1, len(self.batches))
        self.passes += 1
        return iter(self.batches[first : first + self.length])


def loader(turn, own, each_epoch, words):
    """A DataLoader over the turn's samples."""
    from torch.utils.data import DataLoader

    if own is None:
        raise Error("turn.loader: the program has no data sets; give them, sounder.serve(..., data=(train_set, test_set))")
    for word in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator"):
        if word in words:
            raise Error(f"turn.loader({word}=): the run chooses samples and batches (--batch-size); leave it out")
    batches = [taken.tolist() for taken in turn.indices()]
    sampler = _EachEpoch(batches, turn.whole_epochs()) if each_epoch else batches
    return DataLoader(own.parts[turn.split], batch_sampler=sampler, generator=turn.generator, **words)
