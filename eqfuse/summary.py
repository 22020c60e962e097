"""The short form of a large value, which a REPL and a notebook show: what it is, its sizes, its longest kernels.

In: a title and rows of words. Out: text of one screen at most, or HTML; names of the user's are cut and escaped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

COLUMNS, SHOWN_ROWS = 120, 8  # characters of a line, and lines of a table, of a short form
INDENT, CELL_GAP = "  ", "  "


@dataclass(frozen=True)
class Summary:
    """`title`, of a few lines; below it the first SHOWN_ROWS of `rows`, aligned; and how many `more` there are."""

    title: str
    rows: Sequence[Sequence[str]] = ()
    more: str = ""

    def __str__(self) -> str:
        table = [[" ".join(cell.split()) for cell in row] for row in self.rows[:SHOWN_ROWS]]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        excess = len(INDENT) + sum(widths) + len(CELL_GAP) * (len(widths) - 1) - COLUMNS
        if excess > 0:
            widest = max(range(len(widths)), key=widths.__getitem__)
            widths[widest] = max(widths[widest] - excess, 1)
        lines = [CELL_GAP.join(cut(c, w).ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
        lines += [self.more] if self.more else []
        return "\n".join([*map(cut, self.title.split("\n")), *(cut(INDENT + line) for line in lines)])

    def html(self) -> str:
        rows = ("".join(f"<td style='text-align:left'>{escape(c)}</td>" for c in row) for row in self.rows[:SHOWN_ROWS])
        table = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if self.rows else ""
        title = "<br>".join(map(escape, self.title.split("\n")))
        return f"<p>{title}</p>{table}" + (f"<p>{escape(self.more)}</p>" if self.more else "")


class SummarisedValue(ABC):
    """A value that shows its `summary` in a REPL and in a notebook; `str` may give a long form."""

    @abstractmethod
    def summary(self) -> Summary:
        """The short form."""

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().html()


@dataclass(frozen=True)
class KernelLine:
    """What a short form says of one kernel."""

    kind: str
    ops: Sequence[str]
    bytes_moved: int
    seconds: float
    bound: str


def of_kernels(title: str, kernels: Sequence[KernelLine]) -> Summary:
    """The longest `kernels` by prediction, in the order they run."""
    longest = sorted(sorted(range(len(kernels)), key=lambda i: -kernels[i].seconds)[:SHOWN_ROWS])
    rows = [
        [str(i), k.kind, counted(k.ops), quantity(k.bytes_moved, "B"), duration(k.seconds), f"{k.bound}-bound"]
        for i, k in ((i, kernels[i]) for i in longest)
    ]
    return Summary(title, rows, rest(len(kernels), "shorter kernel"))


def rest(number: int, noun: str) -> str:
    """How many of `number` rows a table does not show."""
    return f"and {count(number - SHOWN_ROWS, noun)}" if number > SHOWN_ROWS else ""


def costs(kernels: Sequence[KernelLine]) -> str:
    """Predicted time and traffic of all `kernels`."""
    seconds, moved = sum(k.seconds for k in kernels), sum(k.bytes_moved for k in kernels)
    return f"{duration(seconds)}, {quantity(moved, 'B')} moved"


def cut(text: str, width: int = COLUMNS) -> str:
    """`text` on one line of at most `width` characters; leading blanks stay."""
    line = "".join(" " if c.isspace() else c for c in text)
    return line if len(line) <= width else line[: width - 1] + "…"


def listed(words: Iterable[object]) -> str:
    """The first words, and how many more there are."""
    every = list(map(str, words))
    left = len(every) - SHOWN_ROWS
    return ", ".join([*every[:SHOWN_ROWS], f"and {left} more"] if left > 0 else every)


def counted(words: Sequence[str]) -> str:
    """Words in order of first appearance, repeats counted."""
    return " ".join(word if n == 1 else f"{word}×{n}" for word, n in Counter(words).items())


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def quantity(n: float, unit: str = "") -> str:
    """`n` with three digits and a decimal prefix."""
    for prefix in ("", "k", "M", "G"):
        if n < 999.5:
            return f"{n:.3g} {prefix}{unit}".strip()
        n /= 1000
    return f"{n:.3g} T{unit}"


def duration(seconds: float) -> str:
    """`seconds` with three digits."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
