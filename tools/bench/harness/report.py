"""The table, as text for people and as JSON."""
import statistics

HEAD = ("row", "what", "unit", "side", "median", "min", "max", "ratio", "pairwise", "at least")


def number(value):
    """About four digits, with commas: 1,154,832 or 38.21 or 0.0421."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def promise(row):
    """What the target says and whether it is met."""
    judged = row.judged()
    if judged is None:
        return ""
    reached, wanted, enough = judged
    if row.target.limit is not None:
        return f"at most {number(wanted)}: {'yes' if enough else 'NO'}"
    against = "" if row.target.against == "PyTorch" else f" of {row.target.against}"
    return f"{wanted:g}x{against}: {'yes' if enough else f'NO, {reached:.2f}x'}"


def lines_of(row):
    """One tuple of cells for each side of a row; the ratio is how many times as good the first side is."""
    for label, values in row.figures.items():
        first = label == row.subject
        ratios = [] if first else row.ratios(label)
        yield (
            row.name if first else "", row.title if first else "", row.unit if first else "", label,
            number(statistics.median(values)), number(min(values)), number(max(values)),
            "" if first else f"{row.ratio_of_medians(label):.2f}x",
            f"{min(ratios):.2f}-{max(ratios):.2f}" if len(ratios) > 1 else "",
            promise(row) if first else "",
        )


def one_line(row):
    """While the run goes on."""
    if not row.figures:
        return "not measured"
    sides = [f"{label} {number(statistics.median(values))}" for label, values in row.figures.items()]
    ratios = [f" ({row.ratio_of_medians(label):.2f}x)" for label in row.others]
    return ", ".join(side + ratio for side, ratio in zip(sides, ["", *ratios])) + f" {row.unit}"


def text_table(rows):
    cells = [HEAD] + [line for row in rows for line in lines_of(row)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    right = {4, 5, 6, 7}
    return "\n".join(
        "  ".join(cell.rjust(width) if column in right else cell.ljust(width)
                  for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
        for line in cells)


def machine_lines(facts):
    return [f"{name}: {value}" for name, value in facts.items()]


def problems(rows):
    return [sentence for row in rows for sentence in row.problems.values()]


def as_json(rows, facts, command):
    return {
        "command": command,
        "machine": facts,
        "rows": [
            {
                "name": row.name, "title": row.title, "unit": row.unit, "less_is_better": row.less_is_better,
                "figures": row.figures,
                "medians": {label: statistics.median(values) for label, values in row.figures.items()},
                "ratios_of_medians": {label: row.ratio_of_medians(label) for label in row.others},
                "pairwise_ratios": {label: row.ratios(label) for label in row.others},
                "target_met": row.judged()[2] if row.judged() else None,
            }
            for row in rows if row.figures
        ],
        "not_measured": problems(rows),
    }
