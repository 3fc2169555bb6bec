"""A trainer's program without a run: what it gives to sounder.serve, for exports and for clients of a Flower app.

    served = opened(["trainer.py"], folder)          # served.net makes the net, served.train and served.test are turns
"""
import contextlib
import os
import sys
import types

from ..command import Error
from ..seeds import seed_of_run

OPENED = "opened"  # in $SOUNDER_TRAINER, in place of a socket's number


class Served(BaseException):
    """Where a run would begin. words: those of serve."""

    def __init__(self, words):
        super().__init__()
        self.__dict__.update(words)


def give(words):
    """Called by serve, first of all."""
    if os.environ.get("SOUNDER_TRAINER") == OPENED:
        raise Served(words)


@contextlib.contextmanager
def _as_started(words, folder, seed):
    """The environment of a trainer that starts in its folder."""
    before, environment = (os.getcwd(), sys.argv, sys.modules["__main__"]), dict(os.environ)
    os.environ.update(SOUNDER_TRAINER=OPENED, SOUNDER_SEED=str(seed))
    try:
        os.chdir(folder)
        sys.argv = list(words)
        seed_of_run()
        yield
    finally:
        os.chdir(before[0])
        sys.argv, sys.modules["__main__"] = before[1:]
        os.environ.clear()
        os.environ.update(environment)


def program_words(words):
    """Of a command the program and its arguments, without the Python that starts it."""
    for place, word in enumerate(words):
        if word.endswith(".py"):
            return list(words[place:])
    raise Error(f"the trainer {' '.join(words)} is no file of Python, whose functions could be called without a run")


def opened(words, folder, seed):
    """Runs the program, words[0] with its arguments, in its folder up to its sounder.serve. seed: the run's."""
    path = os.path.join(folder, words[0])
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    except OSError as missing:
        raise Error(f"the trainer {path} cannot be read: {missing.strerror}; it belongs to the run") from None
    with _as_started(words, folder, seed):
        sys.modules["__main__"] = module
        try:
            exec(code, module.__dict__)
        except Served as served:
            served.module = module
            return served
        except SystemExit:
            pass
    raise Error(f"{path} ended without sounder.serve(net, train, test), so that it has no functions to call without a run")
