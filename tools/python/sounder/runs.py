"""Runs: begun, watched, stopped, gone on with, and what they leave."""
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile

import numpy as np

from .command import Error, command_arguments, check_once, pass_on_warnings, with_programs, refusal_of, program_json, option_word, program
from .nets import net_tensors
from .onnx_write import export_onnx
from .safetensors import read_safetensors


def start(out, **options):
    """Begins a run in the folder `out` and returns at once. Options as those of `sounder train`: data, model, clients, lr, ...
    trainer, aggregator: programs of your own, as a path FILE.py, a list of words or a command; trainer_options,
    aggregator_options: what these find in turn.options."""
    if options.get("plan"):
        raise Error("plan: there would be no run in the folder; sounder.plan(**options) returns what it would take")
    return Run(out, ["train", f"--out={os.fspath(out)}", *command_arguments(options)])


def plan(**options):
    """What a run would take, which is not trained: the lines of `sounder train --plan` by their names. An Error if it does not fit."""
    done = subprocess.run([program(), "train", "--plan", *command_arguments(options)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise refusal_of(done.stderr, done.returncode)
    pass_on_warnings(done.stderr)
    return dict(re.split(" {2,}", line, maxsplit=1) for line in done.stdout.splitlines())


def train(out, **options):
    """Trains to the end. A run that is stopped by a signal ends with an Error, too; resume goes on with it."""
    return start(out, **options).wait()


def resume(out, **options):
    """Goes on with the run in the folder to its end."""
    return Run(out, ["train", f"--resume={os.fspath(out)}", *command_arguments(options)]).wait()


_LISTS = "attackers", "class_weights", "client_weights", "freeze", "without"  # options whose values may be lists


def _choices(name, values):
    """The option of a name of the grid, and its values as words of `sounder sweep`."""
    # No options of a trainer are a choice, too, as a blank: an empty text would be a value that was forgotten.
    pairs = [pair for value in values for pair in (with_programs({name: value}) or {name[:-1]: " "}).items()]
    words = [option_word(*pair) for pair in pairs]
    if name in _LISTS:  # a semicolon ends a list
        words = [f"{word};" if "," in word else word for word in words]
    for word in () if name in _LISTS else words:
        if any(letter in word for letter in "{}") or ("," in word and " " not in word):
            raise Error(f"{name}: {word!r} means several values to sounder sweep; give it to train, run by run")
    return pairs[0][0] if pairs else name, words


def sweep(out, grid, **options):
    """Trains with every combination of the grid's values, {"alpha": [0.1, 1], "seed": range(3)}, as many runs side by side as
    cores allow, and returns pairs of what a run had of them and the Run. What is done already is not done again. Options are
    those of train, the same for all runs; search, number, parallel are those of `sounder sweep`."""
    own = {name: options.pop(name) for name in ("search", "number", "parallel") if name in options}
    check_once({**options, **grid})
    words, single = [], {}
    for name, values in grid.items():
        option, values = _choices(name, values)
        words += [f"--{option.replace('_', '-')}={value}" for value in values]
        single[name] = option, values[0].rstrip(";") if len(values) == 1 else None
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # in a file no value is taken for several
        json.dump({name.replace("_", "-"): option_word(name, value) for name, value in with_programs(options).items() if value is not None}, file)
        file.flush()
        command = ["sweep", file.name, f"--out={os.fspath(out)}", *command_arguments(own), *words]
        Run(out, command).wait()
        told = subprocess.run([program(), *command, "--dry-run"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    # The commands that would go on with its runs name their folders: others in `out` are those of earlier sweeps.
    words = [word for line in told.splitlines() for word in shlex.split(line, comments=True)]
    done = program_json("runs", *(word.split("=", 1)[1] for word in words if word.startswith("--resume=")), "--format=json")
    return [({name: row.get(option.replace("_", "-"), value) for name, (option, value) in single.items()}, Run(row["run"])) for row in done]


class Run:
    """A run's folder: one that a process is writing to, or one that was written before: Run("runs/a")."""

    def __init__(self, folder, arguments=None):
        self.folder = os.path.abspath(os.fspath(folder))
        self._process = None
        if arguments:
            self._said = tempfile.TemporaryFile(mode="w+", errors="replace")
            self._process = subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said)

    def __repr__(self):
        state = "running" if self.is_running else "ended" if self.rows("summary") else "not ended"
        return f"<sounder.Run {self.folder}: {state}, rounds: {len(self.rows('round'))}>"

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stop()

    @property
    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def wait(self):
        """Waits for the end and returns the run; Error if it failed."""
        if self._process is not None:
            try:
                code = self._process.wait()
            except BaseException:  # Ctrl-C: the program got it, too, and finishes its round
                self._process.terminate()
                self._process.wait()
                raise
            text = self._heard()
            if code:
                raise refusal_of(text, code)
            pass_on_warnings(text)
        return self

    def _heard(self):
        """What the process, which has ended, wrote to standard error."""
        if not self._said.closed:
            self._said.seek(0)
            self._text = self._said.read()
            self._said.close()
        return self._text

    def stop(self):
        """Lets the round end, saves, and waits; resume goes on."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        if self._process is not None:
            self._process.wait()
            self._heard()
        return self

    def rows(self, kind=None):
        """The lines of metrics.jsonl so far, as dicts; of one type (round, client, start, summary) if it is given."""
        try:
            with open(os.path.join(self.folder, "metrics.jsonl")) as file:
                text = file.read()  # whole: line by line, the end of a line that is being written would come as a line
        except FileNotFoundError:
            return []
        rows = [json.loads(line) for line in text.split("\n")[:-1]]
        return [row for row in rows if kind in (None, row["type"])]

    def frame(self, kind="round"):
        """The same as a DataFrame of pandas."""
        try:
            import pandas
        except ImportError as missing:
            raise Error(f"frame: {missing}; install pandas, or take rows(), the same as dicts") from missing
        return pandas.DataFrame(self.rows(kind))

    @property
    def summary(self):
        """The last line of a run that has ended."""
        rows = self.rows("summary")
        if not rows:
            raise Error(f"{self.folder}: the run has no summary: it has not ended; sounder.resume goes on with it")
        return rows[-1]

    @property
    def config(self):
        """The text of config.yaml: every option of the run."""
        with open(os.path.join(self.folder, "config.yaml")) as file:
            return file.read()

    def _is_locked(self):
        """Whether a process writes to the folder. The links of a run that was killed stay, and lead to whatever has its number by now."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(folder)
        return False

    def weights(self):
        """name -> array. While the run lives they are the shared weights themselves, mapped without a copy; then the model's."""
        live, model = (os.path.join(self.folder, name) for name in ("live/global.safetensors", "model.safetensors"))
        if os.path.exists(live) and self._is_locked():
            return read_safetensors(live)[0]
        if os.path.exists(model):
            return read_safetensors(model)[0]
        if self.rows("start"):
            raise Error(f"{self.folder}: the run has ended without a model; sounder.resume goes on with it")
        raise Error(f"{self.folder}: neither a live model nor a finished one; is it the folder of a run?")

    def load_into(self, net):
        """Copies the weights into a torch.nn.Module, and returns it: the net of the run's trainer, whose tensors have their own names, or
        one of which layers() made the run's net. What a trainer's net does not exchange stays."""
        import torch

        weights = self.weights()
        own = net.state_dict(keep_vars=True) if hasattr(net, "state_dict") else {}
        tensors = [(name, own[name]) for name in weights if name in own]
        if len(tensors) < len(weights):
            tensors = net_tensors(net)
        if {name for name, _ in tensors} != set(weights):
            raise Error(f"{self.folder}: the model has {', '.join(weights)}; this net has {', '.join(name for name, _ in tensors)}")
        with torch.no_grad():
            for name, tensor in tensors:
                into = torch.view_as_real(tensor) if tensor.is_complex() else tensor  # as it travels
                if tuple(into.shape) != weights[name].shape:
                    raise Error(f"{name}: of shape {weights[name].shape} in {self.folder}, and {tuple(into.shape)} in this net")
                into.copy_(torch.from_numpy(np.array(weights[name])))
        return net

    def export_onnx(self, path):
        """Writes the model as a file of ONNX's (opset 17), for other programs and their runtimes, and returns its path. It takes samples as
        the net does: pixels normalised by the notes sounder.mean and sounder.stddev of model.safetensors, or an embedding's whole numbers
        as they are."""
        return export_onnx(path, os.path.join(self.folder, "model.safetensors"))

    def export_federation(self, folder, rounds=None):
        """Writes what `sounder export --federation` tells of the run into a new folder, for sounder.referee, and returns its path."""
        Run(self.folder, ["export", self.folder, f"--federation={os.fspath(folder)}", *command_arguments({"rounds": rounds})]).wait()
        return os.fspath(folder)

    def export_peft(self, folder):
        """Writes the adapter of a trainer's PeftModel into a new folder, as PEFT does, and returns its path."""
        Run(self.folder, ["export", self.folder, f"--peft={os.fspath(folder)}"]).wait()
        return os.fspath(folder)

    def export_flower(self, folder):
        """Writes a trainer's run as a Flower app into a new folder, and returns its path."""
        Run(self.folder, ["export", self.folder, f"--flower={os.fspath(folder)}"]).wait()
        return os.fspath(folder)

    def evaluate(self, **options):
        """What `sounder eval --json` tells of the model."""
        return program_json("eval", self.folder, "--json", *command_arguments(options))
