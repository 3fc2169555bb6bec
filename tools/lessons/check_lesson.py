#!/usr/bin/env python3
"""Runs a lesson as its header says and compares what it prints with what its header promises.

Usage: check_lesson.py LESSON.c [--change N | --times N] [--brief] [--built FOLDER] [--sounder PROGRAM]

A header says how to build the lesson and how to run it, and what it prints:
  Build: a command; $CC in the environment is taken for its cc
  Run: a command, in which ./lesson is what was built
  Prints: or Prints, in any order: lines, in which <number> is any number
  Change: "some code" -> "other code": and then, there or in the next line, one of
          prints LINE, lacks LINE, ends with code N, hangs
--change N makes the change N, shows what comes, and says whether the header is right. Without it everything is checked:
the lesson as it is (--times N: N times), and each of its changes, which must show something new. --built FOLDER takes
the lesson that the tree has built, and makes no changes; --brief makes them only if SOUNDER_EXHAUSTIVE is set.
Exit code: 0 all is as promised, 1 not, 77 this machine cannot show it.
"""
import argparse, os, re, shlex, signal, subprocess, sys, tempfile

NOT_HERE = (77, os.EX_UNAVAILABLE)  # a lesson's own word, and what a lesson says that finds no GPU
SECONDS = {"hangs": 2, "lacks": 8}  # for a change; a lesson that lacks a line may hang, too
MOST_SECONDS = 60


class Lesson:
    def __init__(self, path):
        with open(path) as file:
            self.text = file.read()
        self.path, self.folder = os.path.abspath(path), os.path.dirname(os.path.abspath(path))
        self.header = re.match(r"(//.*\n)+", self.text).group()
        self.command, self.build = (self.field(name) for name in ("Run", "Build"))
        any_order, lines = re.search(r"^// Prints(, in any order)?:\n((?://   .+\n)+)", self.header, re.M).groups()
        self.any_order, self.lines = bool(any_order), [line[5:] for line in lines.splitlines()]
        self.changes = re.findall(r'^// Change: "(.+?)" -> "(.*?)":(?: |\n//   )(prints .+|lacks .+|ends with code \d+|hangs)$', self.header, re.M)
        if len(self.changes) != self.header.count("// Change:"):
            sys.exit(f"{path}: a Change: is not written as {__doc__.split('Change: ')[1].splitlines()[0]}")

    def field(self, name):
        found = re.search(rf"^// {name}: (.+)$", self.header, re.M)
        return found and found[1]

    def changed(self, before, after):
        code = self.text[len(self.header):]
        if before not in code:
            sys.exit(f'{self.path}: a Change: replaces "{before}", which is not in its code')
        return self.header + code.replace(before, after)

    def compile(self, text, folder):
        """The program, or None: the build says why."""
        source, program = os.path.join(folder, os.path.basename(self.path)), os.path.join(folder, "lesson")
        with open(source, "w") as file:
            file.write(text)
        words = self.build.replace("-o lesson", f"-o {program} -I {self.folder}").replace(os.path.basename(self.path), source)
        made = subprocess.run(["sh", "-c", re.sub(r"^cc\b", os.environ.get("CC") or "cc", words)])
        return program if made.returncode == 0 else None


def run(lesson, program, sounder, seconds, errors=None):
    """What it prints when it is started as its header says, and its code: None if it does not end. Nothing of it is left."""
    words = {"./lesson": program, "sounder": sounder}
    command = [words.get(word, word) for word in shlex.split(lesson.command)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, code = process.communicate()[0], None
    return printed, code


def pattern(line):
    return re.escape(line).replace("<number>", r"\d+(?:\.\d+)?")


def is_as_promised(lesson, printed, code):
    expected, found = lesson.lines, printed.splitlines()
    if lesson.any_order:
        expected, found = sorted(expected), sorted(found)
    return code == 0 and len(found) == len(expected) and all(map(re.fullmatch, map(pattern, expected), found))


def comes_out(outcome, printed, code):
    kind, _, rest = outcome.partition(" ")
    if kind == "hangs":
        return code is None
    if kind == "ends":
        return code == int(rest.split()[-1])
    found = re.search(pattern(rest) if kind == "lacks" else f"(?m)^{pattern(rest)}$", printed)
    return (found is None) == (kind == "lacks")


def check_change(lesson, number, shows, sounder):
    """0, 1 or 77."""
    before, after, outcome = lesson.changes[number - 1]
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        program = lesson.compile(lesson.changed(before, after), folder)
        seconds = SECONDS.get(outcome.split()[0], MOST_SECONDS)
        printed, code = run(lesson, program, sounder, seconds, subprocess.STDOUT) if program else ("", None)
    if code in NOT_HERE:
        return 77
    good = program is not None and comes_out(outcome, printed, code)
    if shows or not good:
        end = "it does not build" if program is None else "it does not end" if code is None else f"exit code {code}"
        print(f'"{before}" -> "{after}"\n{printed}({end})')
        print(f"the header says: {outcome}" + ("" if good else "; it is wrong"))
    return 0 if good else 1


def changes_nothing(lesson, printed, code):
    """Whether a change promises what the lesson without it shows, too: then it is no exercise."""
    same = [change for change in lesson.changes if comes_out(change[2], printed, code)]
    for before, after, outcome in same:
        print(f'"{before}" -> "{after}": {outcome}, says the header; so does the lesson without the change')
    return bool(same)


def check_as_it_is(lesson, options):
    """0, 1 or 77."""
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        program = os.path.join(options.built, os.path.basename(lesson.path)[:-2]) if options.built else lesson.compile(lesson.text, folder)
        if program is None:
            return 1
        shown = 0
        for _ in range(options.times):
            printed, code = run(lesson, program, options.sounder, MOST_SECONDS)
            if code in NOT_HERE:
                continue
            shown += 1
            if not is_as_promised(lesson, printed, code):
                print(f"$ {lesson.command}\n{printed}(exit code {code})\n--- but the header promises:\n" + "\n".join(lesson.lines))
                return 1
    if options.times > 1:
        print(f"{shown} of {options.times} runs are as promised; in {options.times - shown} this machine could not show the lesson")
    return 77 if shown == 0 else 1 if changes_nothing(lesson, printed, code) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lesson")
    parser.add_argument("--change", type=int, help="make this change alone, and show what comes")
    parser.add_argument("--times", type=int, default=1, help="run the lesson N times")
    parser.add_argument("--brief", action="store_true", help="no changes, unless SOUNDER_EXHAUSTIVE is set")
    parser.add_argument("--built", help="the folder of the built lessons; without changes")
    parser.add_argument("--sounder", default="sounder", help="the program sounder, for lessons that it starts")
    options = parser.parse_args()
    lesson = Lesson(options.lesson)
    if options.change is not None:
        if not 1 <= options.change <= len(lesson.changes):
            parser.error(f"--change {options.change}: {options.lesson} has {len(lesson.changes)}")
        return check_change(lesson, options.change, True, options.sounder)
    code = check_as_it_is(lesson, options)
    count = 0 if options.built or options.brief and "SOUNDER_EXHAUSTIVE" not in os.environ else len(lesson.changes)
    if code == 0 and 1 in [check_change(lesson, number + 1, False, options.sounder) for number in range(count)]:
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
