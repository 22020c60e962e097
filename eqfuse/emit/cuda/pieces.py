"""Which piece of a joined array an element lies in, as C text.

In: a concatenation or a padded array, and an index. Out: its pieces, with the conditions under which the element is
theirs. Used by `element.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.ir.graph import Node

Index = tuple[str, ...]


@dataclass(frozen=True)
class PieceAt:
    """Where `condition` holds, and none before it does, the element is that of `source` at `index`."""

    condition: str  # empty: it holds where no other does
    source: Node
    index: Index


def pieces_at(n: Node, index: Index) -> list[PieceAt]:
    """The pieces of `n` that have elements, each with its element for `index`; the last one has no condition."""
    pieces = _PIECES[n.op](n, index)
    return [*pieces[:-1], PieceAt("", pieces[-1].source, pieces[-1].index)]


def _joined(n: Node, index: Index) -> list[PieceAt]:
    axis, start, pieces = n.type.rank + n.attr("axis"), 0, []
    for a in n.args:
        extent = a.shape[axis]
        piece_index = (*index[:axis], _from(index[axis], start, extent), *index[axis + 1 :])
        start += extent
        if extent:
            pieces.append(PieceAt(f"{index[axis]} < {start}", a, piece_index))
    return pieces


def _padded(n: Node, index: Index) -> list[PieceAt]:
    source, value = n.args
    conditions, source_index = [], []
    for text, (before, after), extent in zip(index, n.attr("widths"), source.shape, strict=True):
        conditions += [f"{text} >= {before}"] * (before > 0) + [f"{text} < {before + extent}"] * (after > 0)
        source_index.append(_from(text, before, extent))
    outside = [PieceAt("", value, ())] if conditions else []
    return [PieceAt(" && ".join(conditions), source, tuple(source_index)), *outside] if source.type.size else outside


def _replaced(n: Node, index: Index) -> list[PieceAt]:
    base, *values = n.args
    pieces = []
    for value, ranges in reversed(list(zip(values, n.attr("slices"), strict=True))):
        conditions, place = [], []
        for text, (start, stop, _), extent in zip(index, ranges, base.shape, strict=True):
            conditions += [f"{text} >= {start}"] * (start > 0) + [f"{text} < {stop}"] * (stop < extent)
            place.append(_from(text, start, stop - start))
        if value.type.size:
            pieces.append(PieceAt(" && ".join(conditions), value, tuple(place)))
        if value.type.size and not conditions:
            return pieces
    return [*pieces, PieceAt("", base, index)]


_PIECES = {"concat": _joined, "pad": _padded, "slice_scatter": _replaced}


def _from(text: str, start: int, extent: int) -> str:
    return "0" if extent == 1 else f"({text} - {start})" if start else text


def chosen(conditions: Sequence[str], texts: Sequence[str]) -> str:
    """The first of `texts` whose condition holds; the last one has none."""
    choice = texts[-1]
    for condition, text in zip(conditions[-2::-1], texts[-2::-1], strict=True):
        choice = text if text == choice else f"({condition} ? {text} : {choice})"
    return choice
