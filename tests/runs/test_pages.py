"""Pages work as written: README.md, the READMEs of the rooms, tools/from.md.

The fenced blocks of a page run from top to bottom in one fresh folder, which looks like the clone, built (build/, tools/, ...), with
`sounder` on the PATH and a HOME of its own; `cmake` only installs there:
  ```sh        by bash; a command that fails, fails the page. What one block exports or where it goes, the next one finds.
  ```python    in one interpreter per page.
  ```c         compiled as a file; a block after it compiles and runs the program as a user would.
  ```console   lines behind `$ ` run; the lines between must be in what they print, numbers aside.
  ```, ```text and other languages are output, and do not run.
A block of Python or C is also a file, if its first line is a comment with a name (`# own.py`, `// mean.c: ...`); otherwise one of C is the
file that the next block of sh compiles. `<!-- not run: reason -->` in the line before a fence excludes a block, but for its file;
`<a placeholder>` excludes a command. Of code within sentences and tables, `sounder COMMAND ...` must name a command and options that it has, and
`--option value` must be accepted by `sounder train`; where a table has a column "here", that column alone is ours.

Usage: test_pages.py SOUNDER BUILD_FOLDER SOURCE_FOLDER [PAGE ...]   (without pages: all; exit 77: skipped, there is no NumPy)
"""
import os, re, shlex, shutil, signal, subprocess, sys, tempfile, time

SOUNDER, BUILD, SOURCE = map(os.path.abspath, sys.argv[1:4])
BLOCK_SECONDS = 100
UNDERSTOOD = re.compile("No such file|no NVIDIA driver|built without CUDA|: only used with ")  # the option and its value were
SPAN = {"--data": "synthetic:1x8x8:1000:200", "--model": "softmax", "--rounds": "1", "--clients": "20", "--device": "cpu"}
MPI = {name: "1" for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe")}
OTHERS = {"torch", "onnx", "pandas", "flwr", "safetensors"}  # a block that imports one which is not here is skipped
PLACEHOLDER = re.compile(r"<[a-z][a-z .]*>")
UNKNOWN = re.compile(r"\.\.\.|<|\[|\||\b[A-Z]{2,}\b|\b[NKRDF]\b|[{*]")  # a span with one of these is a form, not a command

PYTHON = """
import sys, traceback
names = {"__name__": "__main__"}
while size := sys.stdin.readline():
    code = sys.stdin.read(int(size))
    try:
        exec(compile(code, "<block>", "exec"), names)
        end = "well"
    except ModuleNotFoundError as missing:
        end = f"missing {missing.name}"
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        end = "badly"
    print(f"\\nthe block ended {end}", flush=True)
"""


class Wrong(Exception):
    pass


class Block:
    def __init__(self, language, line, excluded):
        self.language, self.line, self.excluded, self.lines = language, line, excluded, []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def named(self):
        found = re.match(r"(?:#|//) ([\w./-]+\.(?:py|c))\b", self.lines[0]) if self.lines else None
        return found and found[1]


def read_page(text):
    """The blocks of a page, and its other lines as (number, line)."""
    blocks, prose, before, block = [], [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(.*)$", line)
        if fence and block is None:
            block = Block(fence[1].strip(), number, before.startswith("<!-- not run: "))
        elif fence:
            blocks.append(block)
            block = None
        elif block:
            block.lines.append(line)
        else:
            prose.append((number, line))
        before = line
    if block:
        raise Wrong(f"line {block.line}: a fence that does not end")
    return blocks, prose


class Place:
    """The folder in which a page runs."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sounder-page-")
        self.work, self.home, self.programs = (os.path.join(self.folder, name) for name in ("sounder", "home", "bin"))
        for folder in (self.work, self.home, self.programs):
            os.mkdir(folder)
        os.symlink(SOUNDER, os.path.join(self.programs, "sounder"))
        os.symlink(sys.executable, os.path.join(self.programs, "python3"))
        for name in os.listdir(SOURCE):
            if not re.match(r"\.|build|runs$", name):
                os.symlink(os.path.join(SOURCE, name), os.path.join(self.work, name))
        os.symlink(BUILD, os.path.join(self.work, "build"))
        with open(os.path.join(self.programs, "cmake"), "w") as file:  # the clone is built already
            file.write(f'#!/bin/sh\n[ "$1" = --install ] || exit 0\nexec {shutil.which("cmake")} "$@"\n')
        os.chmod(os.path.join(self.programs, "cmake"), 0o755)
        self.environment = {**os.environ, "HOME": self.home, "PYTHONPATH": os.path.join(SOURCE, "tools/python"),
                            "PATH": self.programs + ":" + os.environ["PATH"], **MPI}
        self.environment.pop("XDG_CACHE_HOME", None)
        self.state = os.path.join(self.folder, "state")
        open(self.state, "w").close()
        self.python = None

    def install(self):
        if not os.path.isdir(os.path.join(self.home, ".local")):
            self.run(["cmake", "--install", BUILD, "--prefix", os.path.join(self.home, ".local")])

    def run(self, command):
        with open(os.path.join(self.folder, "said"), "w+", errors="replace") as said:
            process = subprocess.Popen(command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, stdout=said,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(BLOCK_SECONDS)
                end = f"exit code {code}"
            except subprocess.TimeoutExpired:
                code, end = None, f"took more than {BLOCK_SECONDS} s"
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            text = said.read()
        if code != 0:
            raise Wrong(f"{end}\n{text[-3000:]}")
        return text

    def sh(self, text):
        script = os.path.join(self.folder, "block.sh")
        with open(script, "w") as file:
            file.write(f"set -eE -o pipefail; . {self.state}; trap 'echo \"the command that failed: $BASH_COMMAND\"' ERR\n{text}\n"
                       f"trap - ERR; {{ export -p; echo cd '\"'$PWD'\"'; }} > {self.state}\n")
        return self.run(["bash", script])

    def run_python(self, text):
        if not self.python:
            self.python = subprocess.Popen([sys.executable, "-c", PYTHON], cwd=self.work, env=self.environment, text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.python.stdin.write(f"{len(text)}\n{text}")
        self.python.stdin.flush()
        said = []
        for line in self.python.stdout:
            if line.startswith("the block ended "):
                end = line.split()[3:]
                if end[0] == "missing" and end[1] in OTHERS:
                    print(f"    skipped: there is no {end[1]} here")
                elif end[0] != "well":
                    raise Wrong("".join(said[-30:]) + line)
                return
            said.append(line)
        raise Wrong("the interpreter ended\n" + "".join(said[-30:]))

    def close(self):
        if self.python:
            self.python.kill()
            self.python.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def without_placeholders(text):
    """Commands with a placeholder do nothing; a command may go on over several lines."""
    commands = re.sub(r"\\\n", "\0", text).split("\n")
    return "\n".join(":" if PLACEHOLDER.search(command.split(" #")[0]) else command for command in commands).replace("\0", "\\\n")


def like(line):
    """A line of output but for its numbers, and for how columns are filled."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*", "0", line)).strip()


def run_console(place, block):
    command, wanted = None, []

    def check():
        if command is None:
            return
        printed = {like(line) for line in place.sh(without_placeholders(command)).splitlines()}
        for line in wanted:
            if line.strip() and "..." not in line and like(line) not in printed:
                raise Wrong(f"does not print a line like: {line}\nbut:\n" + "\n".join(sorted(printed)))

    for line in block.lines:
        if line.startswith("$ "):
            check()
            command, wanted = line[2:], []
        elif command is not None and command.endswith("\\"):
            command += "\n" + line
        elif command is not None:
            wanted.append(line)
    check()


def run_block(place, block, following):
    if block.language in ("python", "c"):
        compiled = next((found[1] for other in following if other.language == "sh" and not other.excluded
                         for found in [re.search(r"\b(?:cc|gcc|clang)\b[^\n]*?([\w-]+\.c)\b", other.text)] if found), None)
        name = block.named() or (compiled if block.language == "c" else None)
        if name:
            with open(os.path.join(place.work, name), "w") as file:
                file.write(block.text)
    if block.excluded:
        return
    if block.language == "sh":
        if ".local" in block.text:
            place.install()
        place.sh(without_placeholders(block.text))
    elif block.language == "console":
        run_console(place, block)
    elif block.language == "python":
        place.run_python(block.text)
    elif block.language == "c":
        place.install()
        source = os.path.join(place.folder, "block.c")
        with open(source, "w") as file:
            file.write(block.text)
        place.run(["cc", "-std=gnu17", "-Wall", "-Werror", "-Wno-unused", "-fsyntax-only", "-I", os.path.join(place.home, ".local/include"),
                   "-I", os.path.join(SOURCE, "src"), "-I", SOURCE, source])


def spans(prose):
    """(line, code) of what stands in backticks outside of blocks and is ours."""
    ours = None  # the column "here" of the table in which a line stands
    for number, line in prose:
        cells = [line]
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
            titles = [cell.strip() for cell in cells]
            if "here" in titles:
                ours = titles.index("here")
            if ours is not None:
                cells = cells[ours:ours + 1]
        else:
            ours = None
        for cell in cells:
            for code in re.findall(r"`([^`]+)`", cell):
                if code.startswith(("--", "sounder ")):
                    yield number, code


class Program:
    def __init__(self):
        self.options = {}
        self.tried = set()

    def options_of(self, command):
        """The options that the command's help names; None: no such command."""
        if command not in self.options:
            said = subprocess.run([SOUNDER, "help", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.options[command] = set(re.findall(r"--[a-z][a-z0-9-]*", said.stdout)) if said.returncode == 0 else None
            if command in ("partition", "sweep", "flower"):  # which take a run's options, too
                self.options[command] |= self.options_of("train")
        return self.options[command]

    def check(self, place, code):
        """Raises Wrong unless the program takes what stands there."""
        words = code.split()
        command = "train" if words[0].startswith("--") else words[1] if len(words) > 1 else "help"
        known = set() if command == "help" or command.startswith("-") else self.options_of(command)
        if known is None:
            raise Wrong(f"there is no command {command}")
        for option in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", code.split(" -- ")[0]):
            if option not in known and words[0] == "sounder":
                raise Wrong(f"sounder {command} has no {option}")
        if UNKNOWN.search(code) or code in self.tried:
            return
        if code.startswith("sounder help"):
            place.run([SOUNDER, *shlex.split(code)[1:]])
        elif words[0] in known and len(words) > 1 and not re.search(r"--\S+ --", code):
            given = shlex.split(code)
            usual = {**SPAN, "--out": os.path.join(place.folder, f"span{len(self.tried)}")}
            if "--workers" in given or "--data" in given:
                del usual["--clients"]  # asynchronous workers are the clients; data may be fewer
            rest = [word for name, value in usual.items() if name not in given for word in (name, value)]
            try:
                place.run([SOUNDER, "train", "--quiet", *given, *rest])
            except Wrong as what:
                if not UNDERSTOOD.search(str(what)):
                    raise
        self.tried.add(code)


def test_page(page, program):
    """Prints what is wrong with a page; returns how many things."""
    place, wrong = Place(), 0

    def report(line, what):
        nonlocal wrong
        wrong += 1
        print(f"{page}:{line}: {what}")

    try:
        with open(os.path.join(SOURCE, page)) as file:
            blocks, prose = read_page(file.read())
        for number, code in spans(prose):
            try:
                program.check(place, code)
            except Wrong as what:
                report(number, f"`{code}`: {what}")
        for i, block in enumerate(blocks):
            begin = time.monotonic()
            try:
                if block.language not in ("sh", "python", "c", "console") or (block.excluded and not block.named()):
                    continue
                run_block(place, block, blocks[i + 1:])
                print(f"  {page}:{block.line}: {block.language}, {time.monotonic() - begin:.1f} s", flush=True)
            except Wrong as what:
                report(block.line, what)
    except Wrong as what:
        report(1, what)
    finally:
        place.close()
    return wrong


def pages():
    tracked = subprocess.run(["git", "-C", SOURCE, "ls-files", "*README.md", "tools/from.md"], stdout=subprocess.PIPE, text=True)
    return tracked.stdout.split() or ["README.md", "tools/from.md"]


def untracked():
    """Files of the source that git neither has nor ignores; a page goes into its folders through links."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "--others", "--exclude-standard"], stdout=subprocess.PIPE, text=True)
    return set(listed.stdout.splitlines())


if __name__ == "__main__":
    try:
        import numpy  # noqa: F401
    except ImportError as lacking:
        print(f"skipped: {lacking}")
        sys.exit(77)
    checker, before = Program(), untracked()
    wrong = sum(test_page(page, checker) for page in sys.argv[4:] or pages())
    for left in sorted(untracked() - before):
        print(f"{left}: a page has left this file in the source")
        wrong += 1
    sys.exit(1 if wrong else 0)
