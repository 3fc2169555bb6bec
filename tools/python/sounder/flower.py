"""A Flower app as it is, under Sounder: its ClientApp trains and evaluates as a trainer, its ServerApp gives first weights and strategy.

    sounder flower APP --clients 10 --rounds 20           # the same as python3 -m sounder.flower APP --clients 10 --rounds 20
    sounder sweep --trainer "python3 -m sounder.flower APP" --data clients:10 --algorithm fedavg --algorithm scaffold ...

Neither Ray nor a network is started: a client's turn is one call of the ClientApp with a Message and a Context, whose partition-id is the
client's number.
"""
import argparse
import contextlib
import importlib
import os
import re
import shlex
import sys
import time
import tomllib
from importlib import metadata

import numpy as np

from .command import Error, program
from .flower_rules import rules
from .trainer import serve
from .trainer.any_optimizer import corrected
from .trainer.records import Records

RELEASES = ("1.41", "1.42")
TAKEN = ("self", "loss", "samples", "hits")  # by turn.add: a metric of the app's that is called so gets app/ in front


def _flwr():
    try:
        release = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise Error(f"{sys.executable} has no flwr: install it (pip install flwr), or name a Python that has it: --python PATH") from None
    if not release.startswith(tuple(one + "." for one in RELEASES)):
        raise Error(f"{sys.executable} has flwr {release}; the releases {' and '.join(RELEASES)} are known here: pip install flwr~={RELEASES[-1]}.0")
    return importlib.import_module("flwr.app")


class App:
    """The folder of an app: its pyproject.toml, its two objects, and the values of its run_config."""

    def __init__(self, folder, options):
        self.flwr = _flwr()
        path = os.path.join(folder, "pyproject.toml")
        try:
            with open(path, "rb") as file:
                told = tomllib.load(file)["tool"]["flwr"]["app"]
            self.objects = told["components"]["clientapp"], told["components"]["serverapp"]
        except (OSError, tomllib.TOMLDecodeError, KeyError) as problem:
            raise Error(f"{path} names no Flower app: {type(problem).__name__} {problem}; it has [tool.flwr.app.components] with serverapp and clientapp") from None
        self.config = _flat(told.get("config", {}))
        for name, text in options.items():
            if name not in self.config:
                raise Error(f"run_config has no {name}; [tool.flwr.app.config] of {path} has {', '.join(self.config) or 'nothing'}")
            self.config[name] = _value(text, self.config[name], name)
        self.folder = os.path.abspath(folder)
        sys.path.insert(0, self.folder)

    def object(self, which):
        module, name = self.objects[which].split(":")
        return getattr(importlib.import_module(module), name)

    def context(self, client, clients, state):
        return self.flwr.Context(run_id=1, node_id=client + 2, node_config={"partition-id": client, "num-partitions": clients}, state=state, run_config=dict(self.config))

    def keeps(self):
        """Whether the app's texts speak of context.state."""
        texts = (open(os.path.join(at, name), errors="replace").read() for at, _, names in os.walk(self.folder) for name in names if name.endswith(".py"))
        return any(re.search(r"\.state\b(?!_dict)", text) for text in texts)


def _flat(config, before=""):
    flat = {}
    for name, value in config.items():
        flat.update(_flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value})
    return flat


def _value(text, like, name):
    try:
        return {"true": True, "false": False}[str(text).lower()] if isinstance(like, bool) else type(like)(text)
    except (KeyError, ValueError):
        raise Error(f"run_config {name}={text}: the app has a {type(like).__name__} there, {like!r}") from None


class Met(BaseException):
    """What the server part gives to its strategy's start, where its work would begin."""

    def __init__(self, strategy, initial_arrays, num_rounds=3, train_config=None, evaluate_config=None, **_):
        super().__init__()
        self.strategy, self.arrays, self.rounds = strategy, initial_arrays, num_rounds
        self.inner = getattr(strategy, "strategy", strategy)  # in a wrapper for privacy
        self.config = {"train": dict(train_config or {}), "evaluate": dict(evaluate_config or {})}


def meet(app, clients):
    """Runs the server part up to its strategy's start."""
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Strategy

    def asks(*_, **__):
        raise Error("the app's server part sends messages to clients by itself, which is no strategy's start(grid, initial_arrays, ...); only that runs here")

    methods = dict.fromkeys(Grid.__abstractmethods__, asks) | {"get_node_ids": lambda _: list(range(2, clients + 2)), "set_run": lambda *_: None}
    begin, Strategy.start = Strategy.start, lambda self, grid, initial_arrays, *more, **named: (_ for _ in ()).throw(
        Met(self, initial_arrays, **dict(zip(("num_rounds", "timeout", "train_config", "evaluate_config", "evaluate_fn"), more)), **named))
    try:
        app.object(1)(type("Recorder", (Grid,), methods)(), app.context(-1, clients, app.flwr.RecordDict()))
    except Met as met:
        return met
    finally:
        Strategy.start = begin
    raise Error("the app's server part ended without a strategy's start(grid=..., initial_arrays=...)")


class Clients:
    """The clients of an app, as the functions of a trainer."""

    def __init__(self, folder):
        self.folder, self.state = folder, None

    def make(self, data):
        """The first weights, of the server part. Arrays of whole numbers stay as they are in it."""
        self.app, self.clients = App(self.folder, data.options), len(data.splits["train"].y)
        self.met = meet(self.app, self.clients)
        self.client_app, self.first = self.app.object(0), {name: array.numpy() for name, array in self.met.arrays.items()}
        net = {name: value.astype(np.float32) for name, value in self.first.items() if value.dtype.kind == "f"}
        if self.app.keeps():
            record = self.app.flwr.RecordDict()
            self._call(net, "train", 0, 1, record)
            self.kinds, self.state = {name: type(one) for name, one in record.items()}, Records(record, "context.state")
        return net

    def _call(self, net, kind, client, round, state):
        flwr, strategy = self.app.flwr, self.met.inner
        arrays = {name: flwr.Array(net[name].astype(value.dtype) if name in net else value) for name, value in self.first.items()}
        config = {**self.met.config[kind], "server-round": round} | ({"proximal-mu": strategy.proximal_mu} if hasattr(strategy, "proximal_mu") else {})
        content = flwr.RecordDict({getattr(strategy, "arrayrecord_key", "arrays"): flwr.ArrayRecord(arrays), getattr(strategy, "configrecord_key", "config"): flwr.ConfigRecord(config)})
        about = flwr.Metadata(run_id=1, message_id=f"{round}-{client}", src_node_id=1, dst_node_id=client + 2, reply_to_message_id="", group_id=str(round), created_at=time.time(),
                              ttl=3600.0, message_type=kind)
        reply = self.client_app(flwr.Message(content=content, metadata=about), self.app.context(client, self.clients, state))
        if reply.has_error():
            raise Error(f"the ClientApp answered {kind} with an error: {reply.error.reason}")
        return reply.content

    def _client(self, turn):
        numbers = {int(number) for batch in turn.own() for number in batch}
        if len(numbers) != 1:
            raise Error(f"a client of the run has {len(numbers)} clients of the app; give --data clients:N and no other --clients or --partition")
        return numbers.pop()

    def _figures(self, turn, content):
        metrics, key = {}, getattr(self.met.inner, "weighted_by_key", "num-examples")
        for name, value in next(iter(content.metric_records.values()), {}).items():
            metrics.update({name: value} if np.isscalar(value) else {f"{name}/{i}": one for i, one in enumerate(value)})
        if key not in metrics:
            raise Error(f"the ClientApp's MetricRecord has no {key}, by which clients are weighed; it has {', '.join(metrics) or 'nothing'}")
        examples = metrics.pop(key)
        loss = metrics.pop(next((name for name in metrics if "loss" in name.lower()), ""), float("nan"))
        accuracy = metrics.pop(next((name for name, value in metrics.items() if "acc" in name.lower() and 0 <= value <= 1), ""), None)
        named = {re.sub(r"[^\w./@-]", "_", name if name[0].isalpha() and name not in TAKEN else f"app/{name}")[:64]: value for name, value in list(metrics.items())[:32]}
        turn.add(loss, examples, hits=None if accuracy is None else round(accuracy * examples), **named)

    @contextlib.contextmanager
    def _kept(self, turn):
        record = self.app.flwr.RecordDict()
        for name, key, value in self.state.read(turn.state) if self.state else ():
            if name not in record:
                record[name] = self.kinds[name]()
            record[name][key] = self.app.flwr.Array(value) if self.kinds[name] is self.app.flwr.ArrayRecord else value.tolist()
        yield record
        if self.state and turn.trains:
            self.state.write(turn.state, record)
        elif len(record) and not self.state:
            raise Error(f"the app keeps {', '.join(record)} in context.state, and no file of its folder speaks of .state; write context.state where it does")

    def train(self, net, turn):
        client = self._client(turn)
        with self._kept(turn) as state, corrected(net, turn) as steps:
            content = self._call(net, "train", client, turn.round, state)
        arrays = next(iter(content.array_records.values()), {})
        if set(arrays) != set(self.first):
            raise Error(f"the ClientApp's arrays are {', '.join(list(arrays)[:4]) or 'none'}, ..., and were sent as {', '.join(list(self.first)[:4])}, ...")
        for name in net:
            net[name] = arrays[name].numpy().astype(np.float32)
        self._figures(turn, content)
        if steps:
            turn.hand_in(travel=steps["travel"]) if steps["travel"] else turn.hand_in(steps=steps["count"])

    def test(self, net, turn):
        asked = getattr(self.met.inner, "fraction_evaluate", 1) > 0
        for batch in turn.own():
            for client in batch:
                if not asked:  # the app has no tests on clients
                    turn.add(float("nan"), 1)
                    continue
                with self._kept(turn) as state:
                    self._figures(turn, self._call(net, "evaluate", int(client), turn.round, state))


OWN = ("lr", "momentum", "weight-decay", "clip-grad-norm", "batch-size", "local-epochs")  # of the trainer, and so of the app


def main(words):
    """sounder flower: what the app says becomes options of sounder train; what the user says goes first."""
    parser = argparse.ArgumentParser("sounder flower", "sounder flower APP [--clients N] [options of sounder train]", add_help=False, allow_abbrev=False)
    parser.add_argument("app")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--data")
    parser.add_argument("--trainer-option", default="")
    given, words = parser.parse_known_args(words)
    app, said = App(given.app, dict(word.partition("=")[::2] for word in given.trainer_option.split())), {word.split("=")[0] for word in words}
    count = given.clients
    if count < 1:
        raise Error(f"--clients {count}: needs a whole number from 1")
    met = meet(app, count)
    own = [f"--{name}" for name in OWN if f"--{name}" in said]
    line = ["train", "--trainer", shlex.join([sys.executable, "-m", "sounder.flower", app.folder]), "--data", given.data or f"clients:{count}"]
    line += ["--trainer-option", given.trainer_option] if given.trainer_option else []
    if "--algorithm" not in said:
        if own:
            raise Error(f"{own[0]}: the app's clients train as its run_config says ({', '.join(app.config) or 'it is empty'}); write --trainer-option NAME=VALUE")
        text, differs = rules(met.strategy)
        line += ["--algorithm", text]
        if "--quiet" not in said:
            print(f'{type(met.strategy).__name__}: --algorithm "{text}"{f" ({differs})" if differs else ""}', flush=True)
    if "--rounds" not in said:
        line += ["--rounds", str(met.rounds)]
    drawn = max(int(count * getattr(met.inner, "fraction_train", 1)), getattr(met.inner, "min_train_nodes", 1))
    if "--clients-per-round" not in said and drawn < count:
        line += ["--clients-per-round", str(drawn)]
    if app.keeps() and "--client-optimizer-state" not in said:
        line += ["--client-optimizer-state", "keep"]
    os.execv(program(), [program(), *line, *words])


if __name__ == "__main__":
    if "SOUNDER_TRAINER" in os.environ:
        the = Clients(sys.argv[1])
        serve(the.make, the.train, the.test, state=lambda _: the.state.floats if the.state else 0)
    else:
        try:
            main(sys.argv[1:])
        except Error as error:
            print(f"sounder: error: {error}", file=sys.stderr)
            sys.exit(os.EX_USAGE)
