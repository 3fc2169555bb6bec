"""RESULTS.md's sections, one per kind of machine, and README's rows of whole jobs: between comments, so that measuring again replaces them
alone."""
import re, statistics

from .report import number

EVEN = 1.15  # a ratio below it is no lead
PEERS = "PyTorch", "JAX", "pthread_barrier_t"  # what rows are beside, but for Sounder in another way, and bounds


def cell(values, unit):
    return f"{number(statistics.median(values))} {unit}"


def side_name(label):
    return label.split("+")[0]  # PyTorch's versions end with what they were built for


def span(counts, what, plural):
    fewest, most = min(counts), max(counts)
    return f"{most} {what if most == 1 else plural}" if fewest == most else f"{fewest} to {most} {plural}"


def ratio_cell(ratio, other="PyTorch"):
    text = f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x"
    return f"**{text}**" if ratio < EVEN and other.startswith(PEERS) else text


def rows_table(rows):
    """rows: of tools/bench/run --json."""
    lines = ["| | Sounder | beside it | ratio | command |", "|---|---:|---:|---:|---|"]
    for row in rows:
        subject, *others = row["figures"]
        for place, other in enumerate(others):
            ours = cell(row["figures"][subject], row["unit"])
            who = "" if subject == "Sounder" else f" ({subject})"
            theirs = cell(row["figures"][other], row["unit"])
            beside = f"{theirs} ({side_name(other)}) | {ratio_cell(row['ratios_of_medians'][other], other)}"
            lines.append(f"| | | {beside} | |" if place else f"| {row['title']} | {ours}{who} | {beside} | `--rows {row['name']}` |")
    return lines


def job_figures(job):
    """{side: {key: (median, median ratio to Sounder within a pass)}} of the sides that were done."""
    told = {}
    for side in job["passes"][0]:
        both = [(one["sounder"], one[side]) for one in job["passes"] if one.get("sounder") and one.get(side)]
        if both:
            told[side] = {key: (statistics.median(own[key] for _, own in both), statistics.median(own[key] / ours[key] for ours, own in both))
                          for key in ("wall", "round", "MB", "accuracy")}
    return told


def jobs_table(jobs):
    """jobs: of tools/bench/jobs --json."""
    lines = ["| whole jobs | wall time, s | | a steady round with its test, ms | | memory of all processes, MB | | accuracy | lines of code | command |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    for name, job in jobs.items():
        for side, told in job_figures(job).items():
            ours = side == "sounder"
            cells = []
            for key, scale in (("wall", 1), ("round", 1000), ("MB", 1)):
                value, ratio = told[key]
                cells += [number(scale * value), "" if ours else ratio_cell(ratio)]
            code = "a command" if ours else str(job["lines"][side])
            lines.append(f"| {name + ': ' if ours else ''}{side} | {' | '.join(cells)} | {100 * told['accuracy'][0]:.1f}% | {code} | "
                         f"{'`--jobs ' + name + '`' if ours else ''} |")
    return lines


def leads_not(rows, jobs):
    """Where Sounder is slower than its peer, or only even with it, as sentences."""
    found = {"slower": [], "even": []}

    def note(ratio, what):
        if ratio < EVEN:
            found["slower" if ratio < 1 / EVEN else "even"].append(f"{what}, {ratio:.2f}x")
    for row in rows:
        for other, ratio in row["ratios_of_medians"].items():
            if other.startswith(PEERS):
                note(ratio, f"{row['title']} (beside {side_name(other)})")
    for name, job in jobs.items():
        for side, told in job_figures(job).items():
            for key, what in (("wall", "wall time"), ("round", "a steady round")) if side != "sounder" else ():
                note(told[key][1], f"{what} of the job {name} (beside {side})")
    return [f"{word}: {'; '.join(found[kind]) or 'nowhere'}." for kind, word in (("slower", "**Slower**"), ("even", "**Only even**"))]


def section(measured, jobs, versions):
    """The text between a machine's comments. measured: all that tools/bench/run --json has written."""
    machine, rows = measured["machine"], measured["rows"]
    pairs = [len(values) for row in rows for values in row["figures"].values()]
    passes = [len(job["passes"]) for job in jobs.values()]
    busy = max(int(machine[f"others' work {when}"].split("%")[0]) for when in ("before", "after"))
    quiet = "nothing else ran" if busy <= 5 else f"**others kept {busy}% of the cores busy, so these are impressions**"
    text = [f"{machine['cores']} cores of {machine['cpu']} ({machine['memory']}, {machine['kernel']}), {machine['date'][:10]}, {machine['sounder']}; "
            f"{versions}. Medians of {span(pairs, 'pair', 'pairs')}; {quiet}. Commands: `tools/bench/run` with what stands there.", "", *rows_table(rows)]
    if jobs:
        text += ["", f"Federated averaging, 100 clients, 10 a round, batch 10 (2nn: 20 rounds; lenet: 5; dirichlet: 2nn, 1,000 clients, 100 a round, "
                 f"10 rounds), {span(passes, 'pass', 'passes')}, ratios to Sounder within a pass; `tools/bench/jobs` with what stands there:", "",
                 *jobs_table(jobs)]
    return "\n".join([*text, "", *leads_not(rows, jobs)])


def front_table(page, jobs, cores):
    """README with the seconds of whole jobs new. jobs: of tools/bench/jobs --json."""
    begin, end = "<!-- whole jobs -->", "<!-- end of whole jobs -->"
    before, found, rest = page.partition(begin + "\n")
    if not found or end not in rest:
        raise ValueError(f"README.md has no place for the seconds of whole jobs: the lines {begin} and {end} are missing")
    lines = [f"| whole job, 100 clients, {cores} cores: seconds | Sounder | JAX | pfl-research | Flower |", "|---|---:|---:|---:|---:|"]
    for name, title in (("2nn", "2nn, 20 rounds"), ("lenet", "LeNet, 5 rounds")):
        told = job_figures(jobs[name]) if name in jobs else {}
        cells = [f"{told[side]['wall'][0]:.2g}" if side in told else "" for side in ("sounder", "jax", "pfl", "flower")]
        lines.append(f"| {title} | **{cells[0]}** | {' | '.join(cells[1:])} |")
    return before + begin + "\n" + "\n".join(lines) + "\n" + rest[rest.index(end):]


def replace_section(page, machine, text):
    """RESULTS.md with this machine's section new, or, where it has none, put before the others."""
    begin, end = f"<!-- results: {machine} -->", "<!-- end of results -->"
    whole = f"{begin}\n{text}\n{end}"
    pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: whole, page, count=1)
    first = page.find("<!-- results: ")
    if first < 0:
        raise ValueError("RESULTS.md has no place for results: a line <!-- results: MACHINE --> is missing")
    return page[:first] + whole + "\n\n" + page[first:]
