"""A run whose trainer is a program in Python, as `sounder export` needs it: its options, and the program's functions."""
import json
import os
import re
import shlex
import sys
from types import SimpleNamespace

from .command import Error
from .runs import Run
from .safetensors import read_safetensors
from .trainer.opened import opened, program_words


def _typed(text):
    """An option of --trainer-option as turn.options has it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


class TrainedRun:
    """options: those of the run, by name, as texts. words, folder: of its trainer."""

    def __init__(self, folder):
        self.run = Run(folder)
        lines = re.findall(r"^([\w-]+): (.*)$", self.run.config, re.MULTILINE)
        self.options = {name: json.loads(value) if value.startswith('"') else value for name, value in lines}
        start = self.run.rows("start")[-1]
        self.words, self.folder = program_words(shlex.split(start["trainer"])), start["trainer_folder"]
        own = [word.split("=", 1) for word in self.options.get("trainer-option", "").split()]
        self.own = {name: _typed(value) for name, value in own}
        self.model = os.path.join(self.run.folder, "model.safetensors")

    def served(self):
        """The program's functions (trainer/opened.py)."""
        return opened(self.words, self.folder, int(self.options["seed"]))

    def about_data(self):
        """What a function that makes the net may ask for."""
        _, notes = read_safetensors(self.model)
        shape = tuple(map(int, notes["sounder.input"].split("x")))
        return SimpleNamespace(shape=shape, classes=int(notes["sounder.classes"]), options=self.own)


def check_new(folder, option):
    if os.path.isdir(folder) and os.listdir(folder):
        raise Error(f"--{option} {folder}: has files already; name a new folder")


def main(write):
    """Of the modules export_*: write(run, folder)."""
    try:
        print(write(*sys.argv[1:]))
    except Error as error:
        print(f"sounder: error: {error}", file=sys.stderr)
        sys.exit(os.EX_USAGE)
