#!/usr/bin/env python3
"""Runs a lesson as its header says and compares what it prints with what its header promises.

Usage: check_lesson.py LESSON.c SOUNDER LESSONS_FOLDER
In the header, "Run:" gives the command (build/sounder and build/lessons stand for the arguments), "Prints:" or "Prints,
in any order:" the output, where <number> stands for any number. Exits 77 when a lesson finds no card.
"""
import os, re, shlex, subprocess, sys


def header_of(path):
    with open(path) as file:
        comment = re.match(r"(//.*\n)+", file.read()).group()
    command = re.search(r"^// Run: (.+)$", comment, re.M).group(1)
    any_order, lines = re.search(r"^// Prints(, in any order)?:\n((?://   .+\n)+)", comment, re.M).groups()
    return command, bool(any_order), [line[5:] for line in lines.splitlines()]


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        return print(__doc__)
    source, sounder, lessons = sys.argv[1:]
    command, any_order, expected = header_of(source)
    words = [word.replace("build/lessons", lessons) for word in shlex.split(command)]
    words = [word.replace("build/sounder", sounder) for word in words]
    run = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60)
    if run.returncode == os.EX_UNAVAILABLE:
        return 77
    printed = run.stdout.splitlines()
    if any_order:
        expected, printed = sorted(expected), sorted(printed)
    patterns = [re.escape(line).replace("<number>", r"\d+") for line in expected]
    good = len(printed) == len(patterns) and all(map(re.fullmatch, patterns, printed))
    if run.returncode != 0 or not good:
        print(f"$ {command}\nexit code {run.returncode}\n" + run.stdout + "--- but the header promises:")
        print("\n".join(expected))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
