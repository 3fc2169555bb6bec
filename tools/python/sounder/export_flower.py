"""`sounder export RUN --flower FOLDER`: a trainer's run as a Flower app, beside FOLDER/federation, which is there before."""
import json
import os
import shutil

from .command import Error
from .exports import TrainedRun, main
from .flower_rules import strategy_of
from .trainer.files import PACKAGE

# Options that a Flower app has, or that say how a run works. round-000000.npz has what --init gave.
TAKEN = set("""data trainer trainer-threads trainer-start trainer-option seed clients clients-per-round partition alpha
    algorithm rounds local-epochs batch-size lr momentum weight-decay clip-grad-norm init init-partial device workers
    on-worker-death hang-seconds checkpoint-every eval-every eval-clients-every inspect-updates measure-energy tensorboard
    trace target""".split())
# Options that a Flower app has not, as they are if they are not given.
NEUTRAL = {"sampling": "uniform", "drop-out": "0", "stragglers": "0 work=drop", "over-selection": "1", "client-test": "0",
           "client-time": "constant mean=1", "validation": "0", "lr-schedule": "constant", "warm-up": "0",
           "client-optimizer-state": "fresh"}
PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "federation-app"
version = "1.0.0"
dependencies = ["flwr[simulation]>=1.41", "numpy"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "sounder"

[tool.flwr.app.components]
serverapp = "federation_app.server_app:app"
clientapp = "federation_app.client_app:app"

[tool.flwr.app.config]
"""
CLIENT = '''"""The clients: the functions of {program}, on what load gives of a partition."""
import os

from federation_app.load import load
from sounder.flower_client import client_app

app = client_app({words}, os.path.join(os.path.dirname(os.path.abspath(__file__)), "program"), load)
'''
LOAD = '''"""The samples of a client. For clients with samples of their own write another load."""
import os

import numpy as np


def load(partition, partitions, config):
    """Those of the run's client, from the folder config["federation"]; it is tested on the samples that it trains on."""
    data = np.load(os.path.join(config["federation"], "data.npz"))
    parts = np.load(os.path.join(config["federation"], "partition.npz"))
    mine = parts["samples"][parts["first"][partition] : parts["first"][partition + 1]]
    own = data["x"][mine], data["y"][mine]
    return {{"train": own, "test": own, "scale": data["scale"], "shift": data["shift"], "classes": {classes}, "tokens": {tokens}}}
'''
SERVER = '''"""The server: the strategy that is the run's algorithm, from the run's first weights."""
import os

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import {kind}

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    first = np.load(os.path.join(config["federation"], "round-000000.npz"))
    arrays = ArrayRecord({{name[len("weights/"):]: Array(first[name]) for name in first.files}})
    strategy = {kind}({own}fraction_train={fraction!r}, min_train_nodes={drawn},
        min_evaluate_nodes={drawn}, min_available_nodes={clients})
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=config["num-server-rounds"])
    if config["result"]:
        np.savez(config["result"], **{{name: array.numpy() for name, array in result.arrays.items()}})
'''


def _check(run):
    for name, value in run.options.items():
        if name not in TAKEN and NEUTRAL.get(name) != value:
            raise Error(f"--{name} {value} of the run has no equal in a Flower app; export a run without it")


def _check_program(served):
    if served.data is not None or served.state != 0 or served.whole_test:
        word = "data=" if served.data is not None else "state=" if served.state != 0 else "whole_test=True"
        raise Error(f"serve(..., {word}): such a trainer is no Flower app; leave the word out, and give samples by --data")


def _copy_program(run, folder):
    """The program and what it imports from its folder."""
    start = run.run.rows("start")[-1]
    beside = os.path.dirname(os.path.realpath(os.path.join(run.folder, run.words[0])))
    for path in start["trainer_files"]:
        to = os.path.join(folder, os.path.relpath(path, beside))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(path, to)


def _write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def write_app(folder, out):
    """Adds the app to `out`, which has the federation; returns a sentence."""
    run = TrainedRun(folder)
    _check(run)
    kind, own = strategy_of(run.options["algorithm"])
    _check_program(run.served())
    federation, package = os.path.join(os.path.abspath(out), "federation"), os.path.join(out, "federation_app")
    with open(os.path.join(federation, "federation.json")) as file:
        facts = json.load(file)
    numbers = {name: float(run.options[name]) for name in ("lr", "momentum", "weight-decay", "clip-grad-norm")}
    whole = {name: int(run.options[name]) for name in ("local-epochs", "batch-size", "seed")}
    own_options = {f"option-{name}": value for name, value in run.own.items()}
    config = {"num-server-rounds": int(run.options["rounds"]), **whole, **numbers, "federation": federation, "result": "", **own_options}
    clients, drawn = facts["clients"], run.run.rows("start")[-1]["clients_per_round"]
    words = [os.path.basename(run.words[0]), *run.words[1:]]
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())
    _write(os.path.join(out, "pyproject.toml"), PROJECT + lines)
    _write(os.path.join(package, "__init__.py"), "")
    _write(os.path.join(package, "client_app.py"), CLIENT.format(program=words[0], words=words))
    classes = facts["classes"] if facts["loss"] == "cross-entropy" else 0
    _write(os.path.join(package, "load.py"), LOAD.format(classes=classes, tokens=facts["tokens"]))
    numbers = "".join(f"{name}={value}, " for name, value in own.items())
    _write(os.path.join(package, "server_app.py"),
           SERVER.format(kind=kind, own=numbers, fraction=drawn / clients, drawn=drawn, clients=clients))
    _copy_program(run, os.path.join(package, "program"))
    shutil.copytree(PACKAGE, os.path.join(out, "sounder"), ignore=shutil.ignore_patterns("__pycache__"))
    return f"Flower app: {out}, {kind}; flwr run {out} --federation-config num-supernodes={clients}"


def write_whole_app(folder, out):
    """As write_app, or no folder: the program has made `out`, which had not been there."""
    try:
        return write_app(folder, out)
    except Error:
        shutil.rmtree(out)
        raise


if __name__ == "__main__":
    main(write_whole_app)
