"""RESULTS.md: for each kind of machine a table of rows, which keeps of each row and each program beside it the last figures."""
import re

from .report import HEAD, lines_of

TITLE = "## Rows of tools/bench/run: "
COLUMNS = (*HEAD, "measured")
RULE = "|" + "|".join("---:" if name in ("median", "min", "max", "ratio") else "---" for name in COLUMNS) + "|"


def when(row, facts):
    """The last cell of a row: day, commit, pairs, and whether others kept the machine busy."""
    pairs = max(len(values) for values in row.figures.values())
    busy = max(int(facts[f"others' work {time}"].split("%")[0]) for time in ("before", "after"))
    commit = next((word for word in facts["sounder"].split() if re.fullmatch(r"[0-9a-f]{10}(-dirty)?", word)), facts["sounder"])
    return ", ".join([facts["date"][:10], commit, f"{pairs} pair{'s' * (pairs != 1)}"] + [f"others kept {busy}% busy"] * (busy > 5))


def entries_of(rows, facts):
    """Each row as its lines of cells."""
    return [[[*cells, when(row, facts) if place == 0 else ""] for place, cells in enumerate(lines_of(row))] for row in rows if row.figures]


def read_table(text):
    entries = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != len(COLUMNS) or cells[0] == COLUMNS[0] or cells[0].startswith("---"):
            continue
        if cells[0]:
            entries.append([cells])
        else:
            entries[-1].append(cells)
    return entries


def beside(line):
    return line[3].split("+")[0]  # PyTorch's versions end with what they were built for


def merged(old, new):
    """old, without the lines that new has again; what is left of a row stands before its newer lines."""
    result = list(old)
    for entry in new:
        name, labels = entry[0][0], {beside(line) for line in entry[1:]}
        place = next((i for i, other in enumerate(result) if other[0][0] == name), len(result))
        kept = []
        for other in [other for other in result if other[0][0] == name]:
            lines = [line for line in other[1:] if beside(line) not in labels]
            if lines:
                kept.append([other[0], *lines])
        result = [other for other in result[:place] if other[0][0] != name] + kept + [entry] + \
                 [other for other in result[place:] if other[0][0] != name]
    return result


def record(page, machine, entries):
    """The page with the entries in the table of this machine, which is made if it has none."""
    title = TITLE + machine
    begin = page.find(title + "\n")
    if begin < 0:
        page = page.rstrip("\n") + f"\n\n{title}\n"
        begin = page.index(title + "\n")
    begin += len(title) + 1
    end = page.find("\n## ", begin)
    end = len(page) if end < 0 else end
    table = [COLUMNS, *(line for entry in merged(read_table(page[begin:end]), entries) for line in entry)]
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    prose = [line for line in page[begin:end].splitlines() if not line.startswith("|")]
    while prose and not prose[0].strip():
        prose.pop(0)
    rest = "\n".join(prose).rstrip("\n")
    return page[:begin] + "\n" + "\n".join([lines[0], RULE, *lines[1:]]) + "\n" + (f"\n{rest}\n" if rest else "") + page[end:]
