"""Texts as rows of tokens for --data, and a tokenizer that is learned from any texts, as Python's own library."""
import json
import os
import sysconfig
import warnings

import numpy as np

from .command import Error
from .data import write_arrays

MOST_CLASSES = 65535  # of the program
MOST_TOKENS = 1 << 24


class Bytes:
    """The tokenizer of texts that are given none: every byte is a token."""

    vocab_size = 256

    def encode(self, text):
        return np.frombuffer(text.encode() if isinstance(text, str) else bytes(text), np.uint8)


def _joined(tokens, pair, new):
    """The tokens, in which each pair is one new token: of three equal ones the first two are."""
    at = np.flatnonzero((tokens[:-1] == pair[0]) & (tokens[1:] == pair[1]))
    if pair[0] == pair[1] and len(at):
        runs = np.flatnonzero(np.diff(at, prepend=at[0] - 2) > 1)  # where a run of equal tokens begins
        place = np.arange(len(at)) - np.repeat(runs, np.diff(runs, append=len(at)))
        at = at[place % 2 == 0]
    tokens = tokens.copy()
    tokens[at] = new
    return np.delete(tokens, at + 1)


class BPE:
    """Byte pairs: BPE.learn(texts, vocabulary) joins the most frequent pair of neighbours again and again
    (Sennrich, Haddow, Birch 2016), of equally frequent ones the pair with the lower numbers."""

    def __init__(self, pairs):
        self.pairs = [tuple(pair) for pair in pairs]
        self.bytes = [bytes([byte]) for byte in range(256)]
        for first, second in self.pairs:
            self.bytes.append(self.bytes[first] + self.bytes[second])

    @property
    def vocab_size(self):
        return len(self.bytes)

    @classmethod
    def learn(cls, texts, vocabulary=512):
        if not 257 <= vocabulary <= 4096:
            raise Error(f"vocabulary={vocabulary}: give 257 to 4096; more are for tokenizers of other libraries")
        tokens = np.concatenate([Bytes().encode(text) for text in texts]).astype(np.int64)
        pairs = []
        for new in range(256, vocabulary):
            counts = np.bincount(tokens[:-1] * new + tokens[1:])
            best = int(counts.argmax())
            if counts[best] < 2:
                raise Error(f"vocabulary={vocabulary}: after {new} tokens no pair occurs twice; give more text, "
                            "or a smaller vocabulary")
            pairs.append((best // new, best % new))
            tokens = _joined(tokens, pairs[-1], new)
        return cls(pairs)

    def encode(self, text):
        tokens = Bytes().encode(text).astype(np.int64)
        for number, pair in enumerate(self.pairs):
            tokens = _joined(tokens, pair, 256 + number)
        return tokens

    def decode(self, tokens):
        return b"".join(self.bytes[int(token)] for token in tokens).decode(errors="replace")


def library_texts(modules=None, most_bytes=40_000):
    """{name: source} of modules of Python's own library, which every machine has; without names, of its 100 first files
    of 8 KB and more, by name. most_bytes: of each, from its beginning."""
    folder = sysconfig.get_paths()["stdlib"]
    files = [name for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in files}
    names = modules or [name[:-3] for name, size in sizes.items() if size >= 8192][:100]
    texts = {}
    for name in names:
        with open(os.path.join(folder, *name.split(".")) + ".py", encoding="utf-8", errors="replace") as file:
            texts[name] = file.read(most_bytes)
    return texts


def _files(folder):
    if not os.path.isdir(folder):
        raise Error(f"texts: {os.fspath(folder)[:80]!r}: no folder; give a folder of files, a list of texts, or a dict "
                    "{client: text}")
    files = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                files.append((name, file.read()))
    return files


def _column(texts, client):
    """Of a table (Hugging Face, pandas) or a dict of columns."""
    try:
        return list(zip(texts[client], texts["text"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise Error(f"texts: {type(texts).__name__}: no columns text and {client!r} ({problem})") from problem


def _json_row(text, place):
    try:
        row = json.loads(text)
    except ValueError as problem:
        raise Error(f"{place}: {problem}; give one JSON object per line") from problem
    if not isinstance(row, dict):
        raise Error(f"{place}: {type(row).__name__}; give one JSON object per line")
    return row


def _json_lines(path, client, template):
    """[(client, text)] of a file with one JSON object per line."""
    found = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            place = f"{os.fspath(path)}, line {number}"
            row = _json_row(text, place)
            try:
                made = template(row) if callable(template) else (template or "{text}").format_map(row)
                found.append((number if client is None else row[client], made))
            except KeyError as missing:
                raise Error(f"{place}: no {missing.args[0]!r}; it has {', '.join(row)}; say template= and client= by "
                            "these") from missing
    return found


def _documents(texts, client, template):
    """[(client, text)]: of a table with a column, a dict {client: text or list}, the files of a folder, or a list."""
    if isinstance(texts, (str, os.PathLike)) and os.fspath(texts).lower().endswith((".jsonl", ".ndjson")):
        return _json_lines(texts, client, template)
    if template is not None:
        raise Error("template: it is for rows of a .jsonl file; give texts as they are to be read")
    if isinstance(client, str):
        return _column(texts, client)
    if isinstance(texts, dict):
        return [(name, text) for name, of in texts.items() for text in ([of] if isinstance(of, (str, bytes)) else of)]
    if isinstance(texts, (str, os.PathLike)):
        return _files(texts)
    if client is not None and len(client) != len(texts):
        raise Error(f"client: {len(client):,} for {len(texts):,} texts; give one for each, or the name of a column")
    return list(zip(range(len(texts)) if client is None else client, texts))


def _size(tokenizer):
    """How many tokens there are; None if it does not tell."""
    for told in ("get_vocab_size", "__len__"):
        if hasattr(tokenizer, told):
            return int(getattr(tokenizer, told)())
    return getattr(tokenizer, "vocab_size", None)


def _encode(tokenizer, text):
    made = (tokenizer.encode if hasattr(tokenizer, "encode") else tokenizer)(text)
    return np.asarray(getattr(made, "ids", made), np.int64)


def _rows(tokens, length):
    """(rows, length) and the token that follows each."""
    count = (len(tokens) - 1) // length
    return tokens[: count * length].reshape(count, length), tokens[length : count * length + 1 : length]


def _by_client(documents, tokenizer, length):
    """The tokens of each client that has two rows and the token that follows; a warning names the others."""
    of = {}
    for name, text in documents:
        of.setdefault(name, []).append(_encode(tokenizer, text))
    of = {name: np.concatenate(parts) for name, parts in of.items()}
    short = [str(name) for name, tokens in of.items() if len(tokens) < 2 * length + 1]
    if len(short) == len(of):
        raise Error(f"length={length}: no client has two rows and the token that follows; give more text, or a smaller "
                    "length")
    if short:
        names = ", ".join(short[:5]) + (", ..." if len(short) > 5 else "")
        warnings.warn(f"{len(short)} of {len(of)} clients have fewer than {2 * length + 1} tokens and are left out: "
                      f"{names}", stacklevel=3)
    return [tokens for tokens in of.values() if len(tokens) >= 2 * length + 1]


def _split(clients, length, test):
    """The arrays of training and test samples: a client's last rows are for tests."""
    parts = {f"{key}_{split}": [] for split in ("train", "test") for key in ("x", "y", "client")}
    for number, tokens in enumerate(clients):
        x, y = _rows(tokens, length)
        first = len(x) - max(1, round(test * len(x)))
        for split, rows in (("train", slice(0, first)), ("test", slice(first, None))):
            for key, values in (("x", x), ("y", y), ("client", np.full(len(x), number))):
                parts[f"{key}_{split}"].append(values[rows])
    return {name: np.concatenate(values) for name, values in parts.items()}


def _typed(arrays, tokenizer):
    """The arrays in as few bytes as hold their tokens, and the vocabulary."""
    tokens = np.concatenate([arrays[name].ravel() for name in ("x_train", "x_test", "y_train", "y_test")])
    vocabulary = max(int(tokens.max()) + 1, _size(tokenizer) or 0)
    if vocabulary > MOST_TOKENS or tokens.min() < 0:
        raise Error(f"tokenizer: {vocabulary:,} tokens, or a negative one; give numbers from 0 to below "
                    f"{MOST_TOKENS:,}")
    for name in ("x_train", "x_test"):
        arrays[name] = arrays[name].astype("<u2" if vocabulary <= 1 << 16 else "<u4")
    for name in ("y_train", "y_test"):
        arrays[name] = arrays[name] if vocabulary <= MOST_CLASSES else np.zeros_like(arrays[name])
    return {**arrays, "vocabulary": np.array([vocabulary])}


def write_tokens(path, texts, tokenizer=None, length=256, client=None, test=0.1, template=None):
    """Writes texts as rows of tokens for --data, x (N,length) of uint16 or uint32, and returns the path. y is the token
    that follows its row (0 for all if there are more than 65,535): nets of layers predict it, a trainer has it as the
    last target. turn.batches() gives rows of int64.

    texts: a list, of which each document is a client, unless client= has a name for each; a dict {client: text or list
    of them}; a folder, of which each file is a client; or a table with the column text (Hugging Face, pandas),
    where client= names a column; or a .jsonl file, whose rows template= makes texts, "{instruction}\\n{output}" or a
    function of the row ("{text}"), and client= names a field. Texts of one client are joined. tokenizer: an object with
    encode, or a function, that gives numbers (of tokenizers, transformers, tiktoken, sounder.BPE); None: bytes. test:
    the share of each client's rows, its last ones, that are for tests."""
    if length < 1 or not 0 < test < 1:
        raise Error(f"length={length}, test={test}: give rows of at least 1 token, and a share between 0 and 1")
    tokenizer = tokenizer or Bytes()
    clients = _by_client(_documents(texts, client, template), tokenizer, length)
    return write_arrays(path, _typed(_split(clients, length, test), tokenizer))
