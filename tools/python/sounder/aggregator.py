"""A round's aggregation in a program of your own: `sounder train --aggregator "python3 aggregator.py"` starts it and asks it each round.

    def combine(updates, turn):
        return np.median(updates, axis=0)

    sounder.aggregate(combine)

`sounder help aggregator` documents every message.
"""
import os
import sys

import numpy as np

from .command import Error
from .seeds import seed_all
from .trainer.files import own_files
from .trainer.link import array, begin
from .trainer.serve import set_threads, tell_error
from .trainer.tensors import views

PARTS = {"clients": "u4", "shares": "f8", "losses": "f8", "samples": "u8", "steps": "u8"}


class Round:
    """What a round's functions are told beside the updates. Arrays with one element per update have the updates' order.

    round               from 1
    clients             the clients' numbers, ascending
    shares              what each counts in the mean of --algorithm: by its samples, or equally; they sum to 1
    samples, steps      of each client: its training samples, and the local steps that it made
    losses              of each client's training: the mean; nan if a trainer tells none, or privacy hides it
    metrics             {name: an array}, of a trainer's own figures (turn.add, turn.metric); nan where a client has none
    lr                  the clients' learning rate in this round
    weights             the global weights, float32, only for reading
    options             those of --aggregator-option
    state               (--aggregator-keeps, weights), float32: yours to write, kept from round to round and by --resume; zeros at first
    random, seed        this round's random numbers: NumPy's Generator; those of numpy.random, random and torch are seeded, too
    """

    def __init__(self, told, hello, desk, line):
        self._desk, self._line = desk, line
        self.options = hello.get("options", {})
        self.round, self.lr, self.seed = told["round"], told["lr"], told["seed"]
        self.weights, self._state = desk.weights, desk.state
        for name in PARTS:
            setattr(self, name, desk.parts[name][: told["count"]])
        self.metrics = {name: desk.metrics[i, : told["count"]] for i, name in enumerate(told.get("metrics", []))}
        seed_all(self.seed)
        self.random = np.random.default_rng(self.seed)

    @property
    def state(self):
        return self._state

    @state.setter
    def state(self, value):
        if self._state is None:
            raise Error("turn.state: the program keeps nothing; say how many vectors: --aggregator-keeps N")
        if np.shape(value) != self._state.shape:
            raise Error(f"turn.state has the shape {list(self._state.shape)} and was given {list(np.shape(value))}")
        self._state[...] = value

    def named(self, vector):
        """{name: the tensor's part of a vector, in its shape}: views into turn.weights, an update, or a state."""
        return views(vector, self._desk.tensors)

    def progress(self):
        """A sign of life, for work that takes longer than --hang-seconds."""
        self._line.progress()


class AggregatorDesk:
    """The memory that the run shares: its updates and weights, and what both sides write."""

    def __init__(self, hello):
        told, self.tensors = hello["desk"], [(name, tuple(shape)) for name, shape in hello["tensors"]]
        parameters, most, rows = hello["parameters"], hello["most"], hello["updates"]
        stride = rows["stride"] // 4
        all_rows = array(rows["fd"], rows["offset"], "f4", (most * stride,))
        self.updates = all_rows.reshape(most, stride)[:, :parameters]
        self.weights = array(hello["weights"]["fd"], hello["weights"]["offset"], "f4", (parameters,))
        self.answer = array(told["fd"], told["answer"], "f8", (parameters,), writable=True)
        self.state = array(told["fd"], told["state"], "f4", (hello["keeps"], parameters), writable=True) if "state" in told else None
        self.metrics = array(told["fd"], told["metrics"], "f8", (told["metric_rows"], most)) if "metrics" in told else None
        self.parts = {name: array(told["fd"], told[name], kind, (most,)) for name, kind in PARTS.items()}


def _array(result):
    return np.asarray(result.detach().cpu() if hasattr(result, "detach") else result, np.float64)


def _vector(result, name, desk):
    """What a function returned, as float64: an array or a tensor, or a dict of them by the tensors' names."""
    if result is None:
        raise Error(f"{name} returned nothing; return the {'new weights' if name == 'server' else 'update of the cohort'}")
    if isinstance(result, dict):
        missing = [tensor for tensor, _ in desk.tensors if tensor not in result]
        if missing:
            raise Error(f"{name} returned a dict without {missing[0]}; give every tensor of turn.named(turn.weights)")
        parts = {tensor: _array(result[tensor]) for tensor, _ in desk.tensors}
        for tensor, shape in desk.tensors:
            if parts[tensor].shape != shape:
                raise Error(f"{name} returned a dict with {tensor} of shape {parts[tensor].shape}; return one of shape {shape}")
        result = np.concatenate([part.reshape(-1) for part in parts.values()])
    result = _array(result)
    if result.shape != desk.answer.shape:
        raise Error(f"{name} returned an array of shape {result.shape}; return one of shape {desk.answer.shape}, a number for each weight")
    return result


def aggregate(combine, server=None):
    """Serves the rounds of a run.

    combine(updates, turn) returns the cohort's update. updates: float32 (clients, weights), only for reading; row k is what client
    turn.clients[k] changed. server(weights, update, turn), if given, returns the new weights, in place of the server rule of
    --algorithm, which otherwise makes the step.
    """
    line, hello = begin("aggregator")
    try:
        set_threads(hello.get("threads", 1))
        desk = AggregatorDesk(hello)
        line.send(ready=1, pid=os.getpid(), server=int(server is not None), files=own_files())
        while (told := line.receive()) is not None:
            if told["task"] == "combine":
                turn = Round(told, hello, desk, line)
                desk.answer[:] = _vector(combine(desk.updates[: told["count"]], turn), "combine", desk)
            else:
                desk.answer[:] = _vector(server(desk.weights, desk.answer.copy(), turn), "server", desk)
            line.send(turn=told["turn"])
    except Exception as error:
        tell_error(line, error)
        sys.exit(1)
