"""The trainer's side of the link to its worker: a socket with one JSON object per line, and the desk, memory that both map.

`sounder help trainer` documents every message.
"""
import atexit
import contextlib
import json
import math
import mmap
import os
import socket
import sys
import time

import numpy as np

from ..command import Error

MOST_LINE = 1 << 20
TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "u8": np.uint64, "f4": np.float32, "f8": np.float64}

ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _finite(value):
    """JSON has no infinity and no NaN: null stands for them."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Line:
    """The socket. Every message is a line of JSON, in both directions.

    reads    what the program has read of the run's options and has not told yet; known: all of them
    """

    def __init__(self, fd):
        self.reads, self.known = [], set()
        self._open(fd)

    def read(self, name):
        if name not in self.known:
            self.known.add(name)
            self.reads.append(name)

    def _open(self, fd):
        self.socket = socket.socket(fileno=fd)  # one that was there before is closed
        self.socket.setblocking(True)
        self.rest = b""
        self.said = 0.0

    def send(self, **message):
        try:
            text = ENCODER.encode(message)
        except ValueError:  # a number that is not finite: seldom, so that other lines are not searched for one
            text = ENCODER.encode(_finite(message))
        text = text.encode() + b"\n"
        if len(text) > MOST_LINE:
            raise Error(f"the trainer's answer has {len(text):,} bytes; a line may have {MOST_LINE:,}")
        self.said = time.monotonic()
        self.socket.sendall(text)

    def receive(self):
        """The next message, or None at the end of the run."""
        while b"\n" not in self.rest:
            try:
                part = self.socket.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                return None
            self.rest += part
        text, self.rest = self.rest.split(b"\n", 1)
        return json.loads(text)

    def adopt(self, fd):
        """Takes another worker's socket in the place of this one."""
        self._open(fd)

    def progress(self):
        """A sign of life, at most one per second: --hang-seconds counts from the last line."""
        if time.monotonic() - self.said >= 1:
            self.send(progress=1)


class Options(dict):
    """Those of --trainer-option, which tell the line what the program reads."""

    def __init__(self, values, line):
        super().__init__(values)
        self._line = line

    def _read(self, name):
        self._line.read(f"options.{name}")

    def __getitem__(self, name):
        self._read(name)
        return super().__getitem__(name)

    def get(self, name, otherwise=None):
        self._read(name)
        return super().get(name, otherwise)

    def __contains__(self, name):
        self._read(name)
        return super().__contains__(name)

    def __iter__(self):
        for name in super().__iter__():
            self._read(name)
            yield name

    def keys(self):
        return list(self)

    def items(self):
        return [(name, self[name]) for name in self]

    def values(self):
        return [self[name] for name in self]


def array(fd, offset, kind, shape, writable=False):
    """An array in a mapped file. fd stays the caller's."""
    kind = np.dtype(TYPES[kind])
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, kind)
    begin = offset - offset % mmap.ALLOCATIONGRANULARITY
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    memory = mmap.mmap(fd, offset - begin + count * kind.itemsize, mmap.MAP_SHARED, access, offset=begin)
    return np.frombuffer(memory, kind, count, offset - begin).reshape(shape)


class Desk:
    """The shared memory of a worker and its trainer. The worker owns it; it outlives a trainer that dies.

    weights and shift are arrays of `parameters` floats; the worker fills weights before a turn and reads them after it. state: so many
    floats of each client, if the run keeps them.
    """

    def __init__(self, hello, fd, state=0):
        self.parts = hello["desk"]
        self.memory = mmap.mmap(fd, self.parts["bytes"])
        parameters = hello["parameters"]
        self.weights = self.part("weights", "f4", parameters)
        self.shift = self.part("shift", "f4", parameters) if "shift" in self.parts else None
        self.state = self.part("state", "f4", state) if "state" in self.parts else None

    def part(self, name, kind, count):
        return np.frombuffer(self.memory, TYPES[kind], count, self.parts[name])


class Split:
    """The samples (count, C, H, W) and labels of the training or the test set, read-only and as they are stored. x is None if the run's
    data are labels alone."""

    def __init__(self, told, shape):
        samples = told.get("samples")
        self.x = array(samples["fd"], samples["offset"], samples["type"], (told["count"], *shape)) if samples else None
        self.y = array(told["labels"]["fd"], told["labels"]["offset"], told["labels"]["type"], (told["count"],))


class Data:
    """The run's data set: train and test, and how a pixel enters a net: x = pixel * scale[channel] + shift[channel]. options: those of
    --trainer-option, for programs whose net depends on them."""

    def __init__(self, told, options=None):
        self.options = options or {}
        self.shape = tuple(told["shape"])
        self.classes = told["classes"]
        self.tokens = told.get("tokens", 0)  # samples are whole numbers below this; 0: they are not
        self.scale, self.shift = (np.array(told[name], np.float32).reshape(-1, 1, 1) for name in ("scale", "shift"))
        self.splits = {name: Split(told[name], self.shape) for name in ("train", "test")}

    def enter(self, samples):
        """Samples as they enter a net: float32, normalised if they were pixels, or int64 if they are tokens."""
        if self.tokens:
            return samples.astype(np.int64)
        if samples.dtype != np.uint8:
            return np.array(samples)
        return samples.astype(np.float32) * self.scale + self.shift


def _say_no_farewell():
    """At the interpreter's end libraries tell of what they leak, in dozens of lines behind what the user has to read. The exit code stays,
    and what the program itself does at its exit: it is done here, since functions that were registered later are called earlier."""
    atexit.unregister(_say_no_farewell)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nothing, fd)


def begin(role="trainer"):
    """The link that the worker has made, and its first message. An aggregator's (role) is the parent's."""
    fd = os.environ.pop("SOUNDER_TRAINER", None)
    if fd is None:
        raise Error(f"this program is a run's {role}, which Sounder starts: sounder train --{role} 'python3 {role}.py' --data fashion-mnist")
    if not fd.isdigit():
        raise Error("this program loops over sounder.turns, or combines updates, and has no functions that could be called without a run: write a trainer as "
                    "sounder.serve(net, train, test)")
    line = Line(int(fd))
    atexit.register(_say_no_farewell)  # forks inherit it
    hello = line.receive()
    if hello is None:
        raise SystemExit(0)
    if hello.get("sounder") != 1:
        raise Error(f"the program speaks version {hello.get('sounder')} of the trainers' lines, this package version 1; install both anew")
    if (role == "aggregator") != bool(hello.get("aggregator")):
        error = f"the program is {'an' if role == 'aggregator' else 'a'} {role}: name it with --{role}"
        line.send(error=error, fatal=1)
        raise Error(error)
    return line, hello
