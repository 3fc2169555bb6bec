"""Whether a train and a test function repeat, without a run: check plays the part of the worker, on a few samples. --check-trainer does the
same with the program, data and options of a run."""
import os
import signal
import socket
import sys
import traceback

import numpy as np

from ..command import Error
from ..data import sample_array, target_arrays
from .link import Desk, Line
from .nursery import obstacle
from .serve import serve
from .tensors import views

CLIENTS, BATCHES = 2, 4
ALIGNED = 64


class _Trainer:
    """A fork of this process that serves, as a trainer of a run does."""

    def __init__(self, serving, hello, hang_seconds):
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            os.environ["SOUNDER_TRAINER"] = str(theirs.detach())
            try:
                serving()
            except SystemExit:  # serve has said why
                pass
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        theirs.close()
        self.line = Line(ours.detach())
        self.line.socket.settimeout(hang_seconds)
        try:
            self.told = self.ask(**hello)
        except BaseException:
            self.end()
            raise

    def ask(self, **message):
        self.line.send(**message)
        while (told := self.line.receive()) is not None:
            if "error" in told:
                raise Error(told["error"])
            if "progress" not in told:
                return told
        raise Error("the process that trains has ended without an answer")

    def end(self):
        self.line.socket.close()
        os.kill(self.pid, signal.SIGKILL)  # it has nothing left to do, and may hang
        os.waitpid(self.pid, 0)


def _file(files, *arrays):
    """A file in memory with these arrays one after the other, and where each begins; it is put on the list of files to close."""
    fd, places = os.memfd_create("sounder-check"), []
    files.append(fd)
    for array in arrays:
        end = os.fstat(fd).st_size
        places.append({"fd": fd, "offset": -(-end // ALIGNED) * ALIGNED, "type": array.dtype.str[1:]})
        os.pwrite(fd, array.tobytes(), places[-1]["offset"])
    return fd, places


def _data(files, x, y, classes):
    """classes: 0 if y are targets."""
    shape = {1: (1, 1, 1), 2: (1, 1), 3: (1,)}.get(x.ndim, ()) + x.shape[1:]
    y = y.astype("<u2" if classes else "<f4")
    _, (samples, labels) = _file(files, x, y)
    scale = [1 / 255] * shape[0] if x.dtype == np.uint8 else []
    split = {"count": len(y), "samples": samples, "labels": labels}
    return {"shape": shape, "classes": classes or 1, "scale": scale, "shift": [0.0] * len(scale), "train": split, "test": split}


class _Worker:
    """Asks for turns on the desk, whose parts are those of the first line."""

    def __init__(self, files, serving, common, batch_size, numbers, hang_seconds):
        fd, _ = _file(files)
        asking = _Trainer(serving, {**common, "describe": 1, "desk": {"fd": fd}}, hang_seconds)
        asking.end()
        self.tensors = [(name, tuple(shape)) for name, shape in asking.told["tensors"]]
        self.first = np.frombuffer(os.pread(fd, os.fstat(fd).st_size, 0), np.float32)
        count = common["data"]["train"]["count"]
        fd, places = _file(files, self.first, np.zeros_like(self.first), np.zeros(count, np.uint32), np.zeros(count, np.uint32))
        parts = {name: place["offset"] for name, place in zip(("weights", "shift", "order", "ends"), places)}
        self.hello = {**common, "parameters": len(self.first), "tensors": self.tensors, "desk": {"fd": fd, "bytes": os.fstat(fd).st_size, **parts}}
        self.serving, self.numbers, self.batch_size, self.count = serving, numbers, batch_size, count
        self.hang_seconds = hang_seconds
        self.desk, self.trainer, self.turn, self.kept = Desk(self.hello, fd), None, 0, []

    def start(self):
        self.end()
        self.trainer = _Trainer(self.serving, self.hello, self.hang_seconds)

    def end(self):
        if self.trainer:
            self.trainer.end()
        self.trainer = None

    def ask(self, task, client, added=0.0, **more):
        """The weights after a turn from the first ones; half of the samples are each client's. more: parts of the turn's line."""
        half = self.count // CLIENTS
        order = np.arange(client * half, min((client + 1) * half, client * half + BATCHES * self.batch_size))
        ends = np.minimum(np.arange(self.batch_size, len(order) + self.batch_size, self.batch_size), len(order))
        self.desk.part("order", "u4", len(order))[:] = order
        self.desk.part("ends", "u4", len(ends))[:] = ends
        self.desk.weights[:], self.desk.shift[:] = self.first, added
        self.turn += 1
        numbers = self.numbers if task == "train" else dict.fromkeys(self.numbers, 0)
        told = self.trainer.ask(turn=self.turn, task=task, part=task, split=task, round=1, client=client, epochs=1, batch_size=self.batch_size,
                                count=len(order), batches=len(ends), clip=0, pull=0, shifts=1, check=1, seed=1000 + client, **numbers, **more)
        self.kept += told.get("kept", []) if task == "train" else []
        self.figures = {"loss": told.get("loss_sum"), "hits": told.get("hits"), **told.get("metrics", {})}
        return self.desk.weights.copy()

    def differs(self, one, other, first=0, end=None):
        """The first tensor in which they differ, or None; of those from first to end."""
        pairs = list(zip(views(one, self.tensors).items(), views(other, self.tensors).values()))[first:end]
        return next((name for (name, here), there in pairs if here.tobytes() != there.tobytes()), None)

    def remembers(self):
        """A figure of a test that is another one after another test, or None."""
        told = []
        for client in (0, 1, 0):
            self.ask("test", client)
            told.append(self.figures)
        return next((name for name, value in told[0].items() if told[2].get(name) != value), None)

    def moves(self):
        """A tensor that moves in a turn in which it rests, or None: the last module is trained alone, then all others, as with fedrep."""
        modules = [name.rpartition(".")[0] for name, _ in self.tensors]
        head = next((t for t in range(len(modules) - 1, 0, -1) if modules[t - 1] != modules[t]), 0)
        rests = ((0, head), (head, len(modules))) if head else ()
        return next(filter(None, (self.differs(self.first, self.ask("train", 0, still=part), *part) for part in rests)), None)


def _find(worker, still):
    """What is wrong, in one sentence, or None."""
    worker.start()
    first = worker.ask("train", 0)
    worker.ask("train", 1)
    moved = still and worker.moves()
    again = worker.differs(first, worker.ask("train", 0))
    figure = worker.remembers()
    tested = worker.differs(first, worker.ask("train", 0))
    added = worker.differs(first, worker.ask("train", 0, added=1.0))
    worker.start()
    fresh = worker.differs(first, worker.ask("train", 0))
    for tensor, when, cause in ((fresh, "in a fresh process", "its random numbers do not come from the turn's seed, or its kernels are not deterministic"),
                                (again, "the second time", "an optimizer, a generator or a tensor that does not travel is kept from turn to turn"),
                                (tested, "after a test", "a test changes what a training uses")):
        if tensor and worker.kept:
            cause = f"it uses {', '.join(dict.fromkeys(worker.kept))} of before the turn; make an optimizer in every turn, and draw from turn.generator or turn.random"
        if tensor:
            return f"a client trains to another {tensor} {when}: {cause}"
    others = ((not added, "a client trains to the same weights whatever an algorithm adds to its gradients: call "
                          "turn.correct() before each step"),
              (figure, f"the same weights have another {figure} when they are tested after another test: begin each test "
                       "with nothing, as by a metric's reset()"),
              (moved, f"a client trains {moved} in a turn in which it rests: leave the tensors of turn.still as they are"))
    return next((sentence for found, sentence in others if found), None)


def check(net, train, test, data, exchange=None, device=None, whole_test=False, state=0, still=False, options=None, batch_size=8, lr=0.05,
          momentum=0.9, weight_decay=0.0, threads=1, hang_seconds=60):
    """Raises an Error that names the first tensor that differs, and the likely cause, if the same turn of a client does not give the same
    weights: after another client's turn, after a test, and in a fresh process; with still, also if a tensor moves in a turn in which it rests.
    net, train, test, exchange, device, whole_test, state, still: as for serve. data: a pair (x, y) of arrays, as for write_data, of which a
    few samples are used. The processes are forks of this one, so the functions may be those of a notebook; one that says nothing for
    hang_seconds is killed, and ends the check."""
    x, y = sample_array(data[0], "x"), target_arrays({"y_train": data[1]})["y_train"]
    classes = 0 if y.dtype.kind == "f" else int(y.max()) + 1  # of all samples: the few that are used may lack some
    most = min(len(x), CLIENTS * BATCHES * batch_size)
    if most < CLIENTS:
        raise Error(f"data: {most} samples; give at least {CLIENTS}, one for each client")
    files, worker, why = [], None, obstacle()
    try:
        common = {"sounder": 1, "rank": 0, "seed": 1, "threads": threads, "options": options or {}, "data": _data(files, x[:most], y[:most], classes)}
        worker = _Worker(files, lambda: serve(net, train, test, exchange=exchange, device=device, whole_test=whole_test, state=state, still=still),
                         common, batch_size, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}, hang_seconds)
        finding = _find(worker, still)
    except socket.timeout:
        remedy = (f"it is a fork of this process, which is a bad start, since {why}: write the program to a file, and check it by --check-trainer in a run"
                  if why else "give more hang_seconds if one batch may take longer")
        raise Error(f"the process that trains has said nothing for {hang_seconds:g} s; {remedy}") from None
    finally:
        if worker:
            worker.end()
        for fd in files:
            os.close(fd)
    if finding:
        raise Error(finding)
