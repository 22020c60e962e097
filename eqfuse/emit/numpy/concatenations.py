"""How a tile reads an array that is joined of pieces: as a view of the one piece that it lies in, piece by piece in the
statement that reads it, or copied together in scratch memory.

In: the nodes of a stage and what each reads. Out: `Concatenations`, by which `stage` places values and `tile` writes
lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from eqfuse.emit.numpy.ops import ONE_RUN
from eqfuse.emit.numpy.spans import Spans
from eqfuse.emit.numpy.tiling import Panel, Tiling
from eqfuse.ir.graph import Node
from eqfuse.ir.views import computes
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS

Reads = Mapping[Node, tuple[Node, ...]]


@dataclass(frozen=True, eq=False)
class Concatenations:
    """`rows`: joined along the block's axis of arrays in memory, so that most tiles lie in one of them. `split`: read
    once, by a statement that goes piece by piece; `by` has the pieces of every such statement. `copied`: all others."""

    rows: frozenset[Node]
    split: frozenset[Node]
    copied: frozenset[Node]
    by: dict[Node, tuple[JoinedRange, ...]]


@dataclass(frozen=True)
class JoinedRange:
    """Places `low` to `high` along the merged `axis`. `pieces`: of each operand that is joined, which of its pieces has
    them, and the first of its places."""

    axis: int
    low: int
    high: int
    pieces: Mapping[Node, tuple[int, int]]


# Elements of a row from which on a statement goes piece by piece: NumPy begins each row of a part anew, 0.15
# microseconds, and copies an element in 0.08 nanoseconds
LEAST_RUN = 2048


def concatenations(
    panel: Panel, cut: Tiling, spans: Spans, reads: Reads, kept: Collection[Node], column_calls: Callable[[Node], int]
) -> Concatenations:
    """How the joined arrays among `reads` are read. `kept`: those that become arrays; `column_calls`: in how many calls
    a node is computed column by column."""
    joins = [n for n in reads if n.op == "concat" and n not in kept]
    rows = frozenset(n for n in joins if n in spans.pieces and not cut.loops and not any(map(computes, n.args)))
    split: dict[Node, None] = {}
    by = {}
    for n in [n for n in joins if n not in spans.pieces]:
        readers = [m for m, args in reads.items() if n in args]
        (axis,) = panel.kept([n.attr("axis")])
        if len(readers) != 1 or not _goes_by_pieces(readers[0], n, reads) or column_calls(readers[0]):
            continue
        parted = [n, *(c for c in readers[0].args if c in split)]
        if all(panel.kept([c.attr("axis")]) == (axis,) for c in parted) and _in_long_rows(parted, panel, cut):
            split[n] = None
    for m, args in reads.items():
        parted = [a for a in dict.fromkeys(args) if a in split]
        if parted:
            by[m] = _segments(parted, panel)
    every = frozenset(n for n in reads if n.op == "concat")
    return Concatenations(rows, frozenset(split), every - rows - split.keys(), by)


def pieces_in_place(
    nodes: Sequence[Node], concats: Concatenations, spans: Spans, reads: Reads, names: Mapping[Node, str]
) -> dict[Node, tuple[Node, int, str]]:
    """The pieces that are computed where the array joined of them lies, as nothing else reads them: of which array each
    is a piece, which one, and the name of its place. `names`: joined arrays that are computed in a result."""
    times = Counter(a for args in reads.values() for a in args)
    placed: dict[Node, tuple[Node, int, str]] = {}
    for n in (n for n in reversed(nodes) if n in concats.copied and (n in names or n in placed)):
        whole = names[n] if n in names else placed[n][2]
        for k, a in enumerate(n.args):
            cut = n not in spans.pieces or a.type.extent(n.attr("axis")) > 1
            anywhere = a.op == "concat" or (a.row.role is Role.ELEMENTWISE and a.op not in (*ONE_RUN, "erf"))
            if a in reads and a not in concats.rows and a not in names and times[a] == 1 and cut and anywhere:
                placed[a] = n, k, f"{whole}_{k}"
    return placed


def _goes_by_pieces(reader: Node, n: Node, reads: Reads) -> bool:
    ufunc = reader.op in UFUNCS and reader.op not in ONE_RUN
    return ufunc and reads[reader] == reader.args and reader.shape == n.shape


def _in_long_rows(parted: Sequence[Node], panel: Panel, cut: Tiling) -> bool:
    """Are the rows of a tile long, for the segments that begin them anew? Those of one element need not."""
    segments = _segments(parted, panel)
    axis = segments[0].axis
    inner = math.prod([cut.block if a == cut.axis else n for a, n in enumerate(panel.extents) if a > axis])
    begun = sum((s.high - s.low) * inner > 1 for s in segments)
    return inner * panel.extents[axis] >= LEAST_RUN * begun


def _segments(parted: Sequence[Node], panel: Panel) -> tuple[JoinedRange, ...]:
    (axis,) = panel.kept([parted[0].attr("axis")])
    starts = {n: _starts(n) for n in parted}
    places = sorted({p for bounds in starts.values() for p in bounds})
    segments = []
    for low, high in pairwise(places):
        pieces = {n: max(k for k, p in enumerate(bounds) if p <= low) for n, bounds in starts.items()}
        segments.append(JoinedRange(axis, low, high, {n: (k, starts[n][k]) for n, k in pieces.items()}))
    return tuple(segments)


def _starts(n: Node) -> list[int]:
    """Where the pieces of `n` begin, and where the last one ends."""
    bounds = [0]
    for a in n.args:
        bounds.append(bounds[-1] + a.type.extent(n.attr("axis")))
    return bounds


def rows_of_pieces(
    out: np.ndarray, low: int, high: int, before: tuple[slice, ...], starts: Sequence[int], pieces: Sequence[np.ndarray]
) -> np.ndarray:
    """Places `low` to `high` of the array joined of `pieces`, which begin at `starts`, along the axis after `before`: a
    view of the piece that has them all, or copies in `out`."""
    for start, piece in zip(starts, pieces, strict=True):
        if start <= low and high <= start + piece.shape[len(before)]:
            return piece[(*before, slice(low - start, high - start))]
    for start, piece in zip(starts, pieces, strict=True):
        first, last = max(low, start), min(high, start + piece.shape[len(before)])
        if first < last:
            place = out[(*before, slice(first - low, last - low))]
            np.copyto(place, piece[(*before, slice(first - start, last - start))])
    return out
