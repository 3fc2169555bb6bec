"""The program: where it is, its options as words, and what it refuses as an exception."""
import json
import os
import shlex
import shutil
import subprocess
import sys
import warnings

import numpy as np


class Error(Exception):
    """What went wrong, in one sentence. code: the program's exit status (sysexits.h), or None if it was not the program."""

    def __init__(self, sentence, code=None):
        super().__init__(sentence)
        self.code = code


def _program_of_wheel():
    """The program that was installed by the wheel of this package, or None."""
    from importlib import metadata  # trainers, which start often, do without

    try:
        wheel = metadata.distribution("sounder-fl")
    except metadata.PackageNotFoundError:
        return None
    if os.path.realpath(wheel.locate_file("sounder")) != os.path.dirname(os.path.realpath(__file__)):
        return None  # this is another copy of the package, such as a clone's
    return next((os.path.abspath(wheel.locate_file(file)) for file in wheel.files or () if file.match("bin/sounder")), None)


def program():
    """The path of the program."""
    found = os.environ.get("SOUNDER") or _program_of_wheel() or shutil.which("sounder")
    if not found:
        raise Error("no program sounder on the PATH; install it (cmake --install build --prefix ~/.local, or the wheel of "
                    "tools/wheel by pip), or name it in $SOUNDER")
    return found


def option_word(name, value):
    """What an option's value is on the command line, where it is one word."""
    if hasattr(value, "named_modules"):
        raise Error(f"{name}: a module; give {name}=sounder.layers(net), and its weights as init=sounder.write_weights(FILE, net)")
    if name == "data" and not isinstance(value, str) and not hasattr(value, "__fspath__"):
        raise Error("data: arrays; give the path that sounder.write_data(FILE, train=(x, y), test=(x, y)) returns")
    if isinstance(value, (list, tuple, dict, set, range)) or getattr(value, "ndim", 0):
        raise Error(f"{name}: several values; give one, several in one text between commas, or a run for each: "
                    f"sounder.sweep(FOLDER, {{{name!r}: ...}})")
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else os.fspath(value) if hasattr(value, "__fspath__") else str(value)


# How a program of the user's ends.
_PROGRAMS = {"trainer": "sounder.serve(net, train, test)", "aggregator": "sounder.aggregate(combine)"}


def _command(name, value):
    """A program of the user's as a run takes it: a path becomes a command."""
    if callable(value):
        raise Error(f"{name}: a function; a run starts a program, so write it to a file (%%writefile {name}.py) that ends with "
                    f"{_PROGRAMS[name]}, and give {name}='{name}.py'")
    if isinstance(value, (list, tuple)):
        return shlex.join(map(os.fspath, value))
    if value is not None and os.fspath(value).endswith(".py") and os.path.exists(value):
        return shlex.join([sys.executable, os.fspath(value)])
    return value


def check_once(options):
    for name in _PROGRAMS:
        if all(options.get(f"{name}_{word}") is not None for word in ("option", "options")):
            raise Error(f"{name}_option and {name}_options are the same option, as a text and as a dict; give one of them")


def with_programs(options):
    """The options with trainer and aggregator as commands, and trainer_options and aggregator_options, dicts, as one text each."""
    check_once(options)
    options = {name: _command(name, value) if name in _PROGRAMS else value for name, value in options.items()}
    for program in _PROGRAMS:
        words = [f"{name}={option_word(name, value)}" for name, value in (options.pop(f"{program}_options", None) or {}).items()]
        for word in words:
            if len(word.split()) != 1:
                raise Error(f"{program}_options: {word!r} has a blank, which separates options; give a value without")
        if words:
            options[f"{program}_option"] = " ".join(words)
    return options


def command_arguments(options):
    options = with_programs(options)
    return [f"--{name.replace('_', '-')}={option_word(name, value)}" for name, value in options.items() if value is not None]


def refusal_of(text, code):
    """The program's one sentence, out of what it wrote."""
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line.split("error:", 1)[1].strip() for line in lines if "error:" in line]
    if told:
        return Error(told[-1], code)
    return Error(lines[-1] if lines else f"sounder ended with status {code} and said nothing", code)


def pass_on_warnings(text):
    """What the program warned of: it is not on the user's terminal."""
    for line in text.splitlines():
        if "warning: " in line:
            warnings.warn(line.split("warning: ", 1)[1], stacklevel=3)


def program_json(*arguments):
    """What the program prints as JSON."""
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise refusal_of(done.stderr, done.returncode)
    pass_on_warnings(done.stderr)
    return json.loads(done.stdout)
