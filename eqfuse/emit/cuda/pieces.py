"""Which piece of a joined array an element lies in, as C text.

In: a joined array, and an index. Out: its pieces, with the conditions under which the element is
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
    pieces = _in_a_row(n, index) if n.op == "concat" else _laid_over(n, index)
    return [*pieces[:-1], PieceAt("", pieces[-1].source, pieces[-1].index)]


def _in_a_row(n: Node, index: Index) -> list[PieceAt]:
    """One comparison for each piece of a concatenation: those before it end where it begins."""
    axis, pieces = n.type.rank + n.attr("axis"), []
    for argument, ranges, _ in n.pieces:
        start, stop, _ = ranges[axis]
        piece_index = (*index[:axis], _from(index[axis], start, stop - start), *index[axis + 1 :])
        if start < stop:
            pieces.append(PieceAt(f"{index[axis]} < {stop}", n.args[argument], piece_index))
    return pieces


def _laid_over(n: Node, index: Index) -> list[PieceAt]:
    """Pieces, the first of which has what lies in it, down to one that has all that is left."""
    pieces: list[PieceAt] = []
    for argument, ranges, _ in n.pieces:
        conditions, place, source = [], [], n.args[argument]
        for text, (start, stop, _), extent in zip(index, ranges, n.shape, strict=True):
            conditions += [f"{text} >= {start}"] * (start > 0) + [f"{text} < {stop}"] * (stop < extent)
            place.append(_from(text, start, stop - start))
        if source.type.size:
            pieces.append(PieceAt(" && ".join(conditions), source, tuple(place) if source.shape else ()))
        if source.type.size and not conditions:
            break
    return pieces


def _from(text: str, start: int, extent: int) -> str:
    return "0" if extent == 1 else f"({text} - {start})" if start else text


def first_choice(conditions: Sequence[str], texts: Sequence[str]) -> str:
    """The first of `texts` whose condition holds; the last one has none."""
    choice = texts[-1]
    for condition, text in zip(conditions[-2::-1], texts[-2::-1], strict=True):
        choice = text if text == choice else f"({condition} ? {text} : {choice})"
    return choice
