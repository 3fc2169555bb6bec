"""Comments and pages point to what is there.

  examples    a call in a header's usage example (a line of its comments, indented by two spaces or more) has as many arguments as
              the function's declaration
  files       a file of C that a comment names (`segment.h`, `worker/client.c`) is there
  pages       so are links of pages, their anchors, and paths in backticks that begin with a folder of the top level
  commands    tools/llms.txt has every command of the overview, as tests/record/help.txt has it from the program's tables

Usage: test_signposts.py SOURCE_FOLDER [--write]   (--write: writes the commands of tools/llms.txt anew)
"""
import os, re, subprocess, sys, tempfile

BOXES = ("src", "shm", "fedavg", "datasets", "tests", "tools")
FOREIGN = {"sysexits.h", "unistd.h", "xxhash.h"}  # named, and not ours


def files_of(folder):
    tracked = subprocess.run(["git", "-C", folder, "ls-files"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
    if tracked:
        return [path for path in tracked if os.path.exists(os.path.join(folder, path))]
    return [os.path.relpath(os.path.join(root, name), folder) for root, _, names in os.walk(folder) for name in names]


def read(folder, path):
    with open(os.path.join(folder, path), errors="replace") as file:
        return file.read()


def arguments(text, begin):
    """How many arguments stand in the parentheses that open before `begin`; None: they do not end, or there is an ellipsis."""
    depth, count, argument, quote = 1, 0, "", None
    for i in range(begin, len(text)):
        c = text[i]
        if quote:
            argument += c
            if c == quote and text[i - 1] != "\\":
                quote = None
            continue
        if c in "\"'":
            quote = c
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            if "..." in text[begin:i]:
                return None
            return count + (argument.strip() not in ("", "void"))
        if c == "," and depth == 1:
            count += 1
            argument = ""
        else:
            argument += c
    return None


def declarations(sources):
    """name -> the numbers of parameters that its declarations and macros have."""
    found = {}
    for text in sources.values():
        code = re.sub(r"//[^\n]*", "", text)
        for match in re.finditer(r"^(?!typedef|return|else|#)[A-Za-z_][\w \t*]*?[ *](\w+)\(|^#define (\w+)\(", code, re.M):
            count = arguments(code, match.end())
            variadic = re.match(r"[^;{]*?\.\.\.", code[match.end():])
            found.setdefault(match[1] or match[2], set()).add(None if variadic or count is None else count)
    return found


def check_examples(path, text, declared):
    lines = text.splitlines()
    example = "\n".join(re.sub(r"\s//.*", "", line[2:]) if re.match(r"//\s{2,}\S", line) else "" for line in lines)
    for match in re.finditer(r"\b([a-z]\w+)\(", example):
        wanted = declared.get(match[1])
        given = arguments(example, match.end())
        if wanted and None not in wanted and given is not None and given not in wanted:
            line = example[:match.start()].count("\n") + 1
            yield f"{path}:{line}: the example calls {match[1]} with {given} arguments, it takes {' or '.join(map(str, wanted))}"


def check_files(path, text, names):
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.search(r"(?:^|\s)//(.*)", line)
        for name in re.findall(r"(?<![\w./<*-])[\w./-]*\w\.(?:h|c|cu)\b(?![\w(]|\.\w)", comment[1]) if comment else ():
            base = os.path.basename(name)
            tail = "/" + (os.path.normpath(os.path.join(os.path.dirname(path), name)) if name.startswith(".") else name)
            if not re.match(r"(?:X|NAME)\b|X_", base) and not any(place.endswith(tail) for place in names.get(base, ())):
                yield f"{path}:{number}: there is no {name}"


def anchors(text):
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def check_page(path, text, folder):
    here = os.path.dirname(os.path.join(folder, path))
    plain = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    for number, line in enumerate(plain.splitlines(), 1):
        for link in re.findall(r"(?<!`)\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            place = os.path.normpath(os.path.join(here, target)) if target else os.path.join(folder, path)
            if not os.path.exists(place):
                yield f"{path}:{number}: the link goes nowhere: {link}"
            elif anchor and anchor not in anchors(read("", place)):
                yield f"{path}:{number}: the page has no such title: {link}"
        if "|" in line and path == "CONTRIBUTING.md":
            continue  # the table of old names
        for name in re.findall(r"`((?:%s)/[\w./-]+)`" % "|".join(BOXES), line):
            if not os.path.exists(os.path.join(folder, name)):
                yield f"{path}:{number}: there is no {name}"


def check(folder):
    paths = files_of(folder)
    names = {}
    for path in paths:
        names.setdefault(os.path.basename(path), []).append("/" + path)
    names.update({name: ["/" + name] for name in FOREIGN})
    sources = {path: read(folder, path) for path in paths if re.match(r"(?:%s)/.*\.(?:h|c|cu)$" % "|".join(BOXES), path)}
    declared = declarations({path: text for path, text in sources.items() if path.endswith(".h")})
    wrong = []
    for path, text in sources.items():
        if path.endswith(".h"):
            wrong += check_examples(path, text, declared)
        wrong += check_files(path, text, names)
    for path in paths:
        if path.endswith(".md"):
            wrong += check_page(path, read(folder, path), folder)
    return wrong


def with_commands(llms, overview):
    """The text of tools/llms.txt with the commands of the overview, one line each."""
    found = re.findall(r"^  (sounder (?!help|--).*?)(?:  +|\n      )(\S.*(?:\n      \S.*)*)", overview, re.M)
    lines = "".join(f"- `{command.strip()}`: {' '.join(summary.split())}\n" for command, summary in found)
    return re.sub(r"(?s)(## Commands\n\n).*?(?=## From)", lambda head: head.group(1) + lines + "\n", llms)


def check_commands(folder, write):
    llms, overview = read(folder, "tools/llms.txt"), read(folder, "tests/record/help.txt").split("\n$ ")[0]
    anew = with_commands(llms, overview)
    assert anew.count("\n- `sounder ") == overview.count("\n  sounder ") - 2 > 9, anew  # without help and --version
    if write:
        with open(os.path.join(folder, "tools/llms.txt"), "w") as file:
            file.write(anew)
    return [] if write or anew == llms else ["tools/llms.txt: other commands than the program's; write it anew: test_signposts.py SOURCE_FOLDER --write"]


BAD = {  # a tree in which each rule is broken once
    "shm/a.h": "//   TRY(take(&a, (B){1, 2}, err)); // see shm/none.c\nStatus take(A *a, Error *err);\n",
    "README.md": "[here](gone.md), [there](README.md#nothing), `src/gone`\n",
}
COMPLAINTS = ["take with 3 arguments, it takes 2", "there is no shm/none.c", "nowhere: gone.md", "no such title: README.md#nothing",
              "there is no src/gone"]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as bad:
        for path, text in BAD.items():
            os.makedirs(os.path.dirname(os.path.join(bad, path)), exist_ok=True)
            with open(os.path.join(bad, path), "w") as file:
                file.write(text)
        found = check(bad)
        for complaint in COMPLAINTS:
            assert sum(complaint in line for line in found) == 1, (complaint, found)
        assert len(found) == len(COMPLAINTS), found
    found = check(sys.argv[1]) + check_commands(sys.argv[1], "--write" in sys.argv)
    print("\n".join(found))
    sys.exit(1 if found else 0)
