"""A trainer's functions as the ClientApp of a Flower app, which `sounder export RUN --flower FOLDER` writes.

    app = client_app(["trainer.py"], folder, load)

load(partition, partitions, config) returns {"train": (x, y), "test": (x, y), "scale": ..., "shift": ..., "classes": N}:
arrays as sounder.write_data takes them; scale and shift of each channel make of pixels what enters the net. tokens: if
samples are whole numbers, the number that they are below. config: the app's run_config.
"""
import contextlib
import os
import sys

import numpy as np

from .trainer.link import Data, Desk
from .trainer.look import Look
from .trainer.opened import opened
from .trainer.serve import made_net
from .trainer.tensors import views
from .trainer.turn import Turn

OPTION = "option-"  # in front of the names of --trainer-option
TEST_BATCH = 500


class _Line:
    """In place of the worker's socket: the answer of a turn stays here."""

    reads = ()

    def progress(self):
        pass

    def read(self, name):
        pass

    def send(self, **answer):
        self.answer = answer


class _Split:
    def __init__(self, x, y, classes):
        self.x, self.y = np.asarray(x), np.asarray(y, np.uint16 if classes else np.float32)


class _Samples(Data):
    """A client's samples, as a run gives its data to a trainer."""

    def __init__(self, loaded, options):
        self.options, self.classes, self.tokens = options, loaded["classes"] or 1, loaded.get("tokens", 0)
        self.splits = {name: _Split(*loaded[name], loaded["classes"]) for name in ("train", "test")}
        self.shape = self.splits["train"].x.shape[1:]
        self.scale, self.shift = (np.asarray(loaded[name], np.float32).reshape(-1, 1, 1) for name in ("scale", "shift"))


class Client:
    """One client of a partition: turns of the program, without a run."""

    def __init__(self, served, loaded, config):
        self.config, self.train, self.test = config, served.train, served.test
        if self.test is None:  # one function looks at a batch
            words = (getattr(served, name) for name in ("optimizer", "accumulate", "autocast", "schedule", "loader"))
            look = Look(served.train, None, *words)
            self.train, self.test = look.train, look.test
        options = {name[len(OPTION):]: value for name, value in config.items() if name.startswith(OPTION)}
        self.data = _Samples(loaded, options)
        self.net = made_net(served.net, self.data, served.exchange, served.device, config["seed"])
        self.options = options

    def _desk(self, weights, numbers, ends):
        """Memory with the parts that a worker's desk has."""
        parts, places = {"weights": weights, "shift": np.zeros_like(weights), "order": numbers, "ends": ends}, {}
        fd = os.memfd_create("sounder-client")
        for name, values in parts.items():
            places[name] = -(-os.fstat(fd).st_size // 64) * 64
            os.pwrite(fd, values.tobytes() or b"\0", places[name])
        hello = {"parameters": len(weights), "tensors": self.net.tensors(), "options": self.options}
        hello["desk"] = {"bytes": os.fstat(fd).st_size, **places}
        desk = Desk(hello, fd)
        os.close(fd)
        return hello, desk

    def turn(self, arrays, task, client, message):
        """The weights after the turn, {name: array}, and what it told. message: server-round, proximal-mu."""
        config, trains = self.config, task == "train"
        split = self.data.splits["train" if trains else "test"]
        shuffled = np.random.default_rng([config["seed"], message.get("server-round", 1), client])
        epochs, size = (config["local-epochs"], config["batch-size"]) if trains else (1, TEST_BATCH)
        one = [shuffled.permutation(len(split.y)) if trains else np.arange(len(split.y)) for _ in range(epochs)]
        count = len(split.y)
        ends = [epoch * count + min(first + size, count) for epoch in range(epochs) for first in range(0, count, size)]
        weights = np.concatenate([np.asarray(arrays[name], np.float32).ravel() for name, _ in self.net.tensors()])
        hello, desk = self._desk(weights, np.concatenate(one).astype(np.uint32), np.array(ends, np.uint32))
        mu = message.get("proximal-mu", 0.0)
        desk.shift[:] = -mu * weights
        part, split_name = ("train", "train") if trains else ("client", "test")
        told = {"turn": 1, "task": task, "part": part, "split": split_name, "client": client,
                "round": message.get("server-round", 1), "epochs": epochs, "batch_size": size, "count": epochs * count,
                "batches": len(ends), "seed": int(shuffled.integers(1 << 53)), "pull": mu, "shifts": int(mu > 0),
                "lr": config["lr"], "momentum": config["momentum"], "weight_decay": config["weight-decay"],
                "clip": config["clip-grad-norm"]}
        line = _Line()
        self.net.attach(desk, self.net.tensors())
        self.net.place()
        turn = Turn(told, hello, desk, self.data, self.net, line, 0)
        self.net.fetch(trains)
        torch = sys.modules.get("torch")
        with torch.no_grad() if torch and not trains else contextlib.nullcontext():
            (self.train if trains else self.test)(self.net.net, turn)
        turn.end()
        turn.answer()
        trained = views(desk.weights, self.net.tensors())
        return {name: value.copy() for name, value in trained.items()}, line.answer


def client_app(words, folder, load):
    """words: the program in `folder` and its arguments."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def handle(task, message, context):
        config, partition = dict(context.run_config), context.node_config["partition-id"]
        loaded = load(partition, context.node_config["num-partitions"], config)
        client = Client(opened(words, folder, config["seed"]), loaded, config)
        arrays = {name: value.numpy() for name, value in message.content["arrays"].items()}
        weights, told = client.turn(arrays, task, partition, dict(message.content["config"]))
        split = client.data.splits["train" if task == "train" else "test"]
        metrics = {f"{task}_loss": told["loss_sum"] / max(told["samples"], 1), "num-examples": len(split.y)}
        if "hits" in told:
            metrics[f"{task}_accuracy"] = told["hits"] / max(told["samples"], 1)
        metrics.update({name: total / weight for name, (total, weight) in told.get("metrics", {}).items() if weight})
        content = {"metrics": MetricRecord(metrics)}
        if task == "train":
            content["arrays"] = ArrayRecord({name: Array(value) for name, value in weights.items()})
        return Message(content=RecordDict(content), reply_to=message)

    app.train()(lambda message, context: handle("train", message, context))
    app.evaluate()(lambda message, context: handle("evaluate", message, context))
    return app
