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
    found = _padded(n, index) if n.op == "pad" else _joined(n, index)
    return [*found[:-1], PieceAt("", found[-1].source, found[-1].index)]


def _joined(n: Node, index: Index) -> list[PieceAt]:
    axis, start, found = n.type.rank + n.attr("axis"), 0, []
    for a in n.args:
        extent = a.shape[axis]
        at = (*index[:axis], _from(index[axis], start, extent), *index[axis + 1 :])
        start += extent
        if extent:
            found.append(PieceAt(f"{index[axis]} < {start}", a, at))
    return found


def _padded(n: Node, index: Index) -> list[PieceAt]:
    source, value = n.args
    conditions, at = [], []
    for text, (before, after), extent in zip(index, n.attr("widths"), source.shape, strict=True):
        conditions += [f"{text} >= {before}"] * (before > 0) + [f"{text} < {before + extent}"] * (after > 0)
        at.append(_from(text, before, extent))
    outside = [PieceAt("", value, ())] if conditions else []
    return [PieceAt(" && ".join(conditions), source, tuple(at)), *outside] if source.type.size else outside


def _from(text: str, start: int, extent: int) -> str:
    return "0" if extent == 1 else f"({text} - {start})" if start else text


def chosen(conditions: Sequence[str], texts: Sequence[str]) -> str:
    """The first of `texts` whose condition holds; the last one has none."""
    found = texts[-1]
    for condition, text in zip(conditions[-2::-1], texts[-2::-1], strict=True):
        found = text if text == found else f"({condition} ? {text} : {found})"
    return found
