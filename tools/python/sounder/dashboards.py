"""A run in other people's dashboards: its options, a point for every round, and its summary."""
import json
import os

from .command import Error
from .runs import Run


def _board(name, call):
    try:
        return __import__(name)
    except ImportError as missing:
        raise Error(f"{call}: {missing}; pip install {name}, or take rows(), the same numbers as dicts") from missing


def _options(run):
    """config.yaml as a dict: one `name: value` per line."""
    pairs = (line.split(": ", 1) for line in run.config.splitlines() if line[:1].isalpha() and ": " in line)
    return {name: json.loads(value) if value.startswith('"') else value for name, value in pairs}


def _numbers(row, before=""):
    """The numbers of a line, those within dicts as `name/part`. Null, texts and lists (histograms, classes) are no points of a curve."""
    numbers = {}
    for name, value in row.items():
        if isinstance(value, dict):
            numbers.update(_numbers(value, f"{before}{name}/"))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[f"{before}{name}"] = value
    return numbers


def _read(run, call):
    run = run if isinstance(run, Run) else Run(run)
    rounds = run.rows("round")
    if not rounds:
        raise Error(f"{call}: {run.folder} has no round yet; give the folder of a run that has trained")
    return run, rounds, (run.rows("summary") or [{}])[-1]


def to_wandb(run, **init):
    """Writes a run (a Run or its folder) as a run of Weights & Biases and returns that. init: what wandb.init takes, such as
    project="fl" or mode="offline"."""
    run, rounds, summary = _read(run, "to_wandb")
    board = _board("wandb", "to_wandb").init(**{"name": os.path.basename(run.folder), "config": _options(run), **init})
    for row in rounds:
        board.log(_numbers(row), step=row["round"])
    board.summary.update(_numbers(summary))
    board.finish()
    return board


def to_mlflow(run, **start):
    """Writes a run (a Run or its folder) as a run of MLflow, to the tracking server or store that mlflow has been told, and returns its
    id. start: what mlflow.start_run takes, such as experiment_id="3"."""
    run, rounds, summary = _read(run, "to_mlflow")
    mlflow = _board("mlflow", "to_mlflow")
    with mlflow.start_run(**{"run_name": os.path.basename(run.folder), **start}) as board:
        mlflow.log_params(_options(run))
        for row in rounds:
            mlflow.log_metrics(_numbers(row), step=row["round"])
        mlflow.log_metrics({f"summary/{name}": value for name, value in _numbers(summary).items()})
    return board.info.run_id
