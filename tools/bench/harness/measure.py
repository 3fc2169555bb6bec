"""Rows, and how they are measured: side by side, A B A B, so that a machine's moods meet all sides alike."""
import statistics
from dataclasses import dataclass, field
from typing import Callable, Optional

from .commands import Failed, OutOfTime


@dataclass
class Target:
    """What the project promises: at least `ratio` times as good as a side, or at most `limit` in the row's unit."""

    ratio: Optional[float] = None
    against: str = "PyTorch"  # a side's label, or its first word
    limit: Optional[float] = None


@dataclass
class Row:
    name: str
    title: str
    unit: str
    runs: list  # of callables without arguments: each gives {label of a side: figure}; the first label is the subject
    less_is_better: bool = False
    target: Optional[Target] = None
    pairs: Optional[int] = None  # fewer than asked for, where one measurement takes long
    figures: dict = field(default_factory=dict)  # label -> figures in the order measured
    problems: dict = field(default_factory=dict)  # index of a run -> sentence

    @property
    def subject(self):
        return next(iter(self.figures))

    @property
    def others(self):
        return list(self.figures)[1:]

    def ratios(self, other):
        """How many times as good the subject was in each pair."""
        pairs = zip(self.figures[self.subject], self.figures[other])
        return [b / a if self.less_is_better else a / b for a, b in pairs]

    def ratio_of_medians(self, other):
        a, b = statistics.median(self.figures[self.subject]), statistics.median(self.figures[other])
        return b / a if self.less_is_better else a / b

    def judged(self):
        """(reached, wanted, whether it is enough), or None without a target or the side it needs."""
        if self.target is None or not self.figures:
            return None
        if self.target.limit is not None:
            reached = statistics.median(self.figures[self.subject])
            return reached, self.target.limit, reached <= self.target.limit
        rivals = [label for label in self.others if self.target.against in (label, label.split()[0])]
        if not rivals:
            return None
        reached = min(self.ratio_of_medians(label) for label in rivals)  # against the best of them
        return reached, self.target.ratio, reached >= self.target.ratio


def measure(row: Row, pairs: int, say: Callable[[str], None], is_late: Callable[[], bool]):
    """Fills in row.figures. A side that fails is left out, with a sentence; without the subject the row is empty. When
    it gets late the row does with one pair, and when the time is over it keeps the pairs it has."""
    whole = None
    if not row.runs:
        row.problems[0] = f"{row.name}: left out, since its program runs in a Python with NumPy and PyTorch, and none was found"
        say(row.problems[0])
    for pair in range(min(pairs, row.pairs or pairs)):
        if pair > 0 and is_late():
            break
        try:
            measure_pair(row, say, first=pair == 0)
        except OutOfTime:
            whole = pair
            break
        if not row.figures:
            return
    # A side that failed half-way has too few figures to pair.
    if whole is None:
        whole = max(map(len, row.figures.values()), default=0)
    row.figures = {label: values[:whole] for label, values in row.figures.items() if len(values) >= whole}


def measure_pair(row, say, first):
    """One figure a side. OutOfTime only where the row has figures to keep."""
    for index, run in enumerate(row.runs):
        if index in row.problems:
            continue
        try:
            figures = run()
        except Failed as problem:
            if isinstance(problem, OutOfTime) and not first:
                raise
            row.problems[index] = f"{row.name}: {problem}"
            say(row.problems[index])
            if index == 0:
                row.figures.clear()
                return
            continue
        for label, value in figures.items():
            row.figures.setdefault(label, []).append(value)
