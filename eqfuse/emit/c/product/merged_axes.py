"""Operands whose rows or columns are several axes of an array in one, such as the windows of images: no strides say
where their elements lie. They are copied from where the array lies, one run of neighbours after another.

In: an operand of a product. Out: `MergedAxes`, and the lines that copy a block of them. Next stop: `parts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import braced
from eqfuse.emit.c.loops import Loops
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.product.function import sum_text
from eqfuse.emit.c.product.piece import BlockLines
from eqfuse.ir.graph import Node
from eqfuse.ir.view_strides import strided
from eqfuse.ir.views import leaf_chain


class Digit(NamedTuple):
    """An axis of the array, one of several that count a row or a column together."""

    extent: int
    stride: int


@dataclass(frozen=True)
class MergedAxes:
    """Elements of the array `leaf`, from number `first` on. `rows`, `columns`: what counts them, outermost first."""

    leaf: Node
    first: int
    rows: tuple[Digit, ...]
    columns: tuple[Digit, ...]


def merged_axes_of(operand: Node) -> MergedAxes | None:
    """Those of `operand`, a matrix, where no strides express its views, but those before a reshape to two axes."""
    leaf, chain = leaf_chain(operand)
    if leaf.op != "input" or operand.type.rank != 2 or not chain or strided(leaf.shape, chain) is not None:
        return None
    turned = chain[-1].op == "transpose"
    *before, last = chain[:-1] if turned and len(chain) > 1 else chain
    view = strided(leaf.shape, before) if last.op == "reshape" and last.type.rank == 2 else None
    if view is None:
        return None
    digits = [Digit(*each) for each in zip(view.shape, view.strides, strict=True) if each[0] > 1]
    count = _leading(digits, last.shape[0])
    if count is None:
        return None
    rows, columns = tuple(digits[:count]), tuple(digits[count:])
    return MergedAxes(leaf, view.first, columns, rows) if turned else MergedAxes(leaf, view.first, rows, columns)


def _leading(digits: Sequence[Digit], extent: int) -> int | None:
    """How many of `digits` count up to `extent`."""
    return next((i for i in range(len(digits) + 1) if math.prod(d.extent for d in digits[:i]) == extent), None)


class MergedAxesLines(BlockLines):
    """The lines that copy a block of such an operand."""

    def __init__(
        self, merged: MergedAxes, loops: Loops, rounds: bool, parameters: Parameters, kept: Sequence[str]
    ) -> None:
        super().__init__(loops, rounds, parameters, {}, kept)
        self.merged = merged

    def kernel(self) -> list[str]:
        digits = {self.down: self.merged.rows, self.down + 1: self.merged.columns}
        along = min(digits, key=lambda d: (abs(_inner(digits[d]).stride), -d))
        (far,) = digits.keys() - {along}
        run, name, other = _inner(digits[along]), AXES[along], AXES[far]
        kind, leaf = ops.ctype(self.merged.leaf.dtype).stored, self.parameters.leaf(self.merged.leaf)
        begin, end = self.ends(along)
        source = sum_text(leaf, (str(self.merged.first), 1), *_decoded(other, digits[far]))
        start = sum_text("line", *_decoded("first", digits[along]))
        copy = f"{self._within(self.kept[0])} = *({sum_text('from', (f'({name} - first)', run.stride))});"
        return braced(f"for (long {other} = {self.ends(far)[0]}; {other} < {self.ends(far)[1]}; {other}++)", [
            f"const {kind} *const line = {source};",
            *braced(f"for (long first = {begin}, behind; first < {end}; first = behind)", [
                f"behind = first + {run.extent} - first % {run.extent};",
                f"behind = behind < {end} ? behind : {end};",
                f"const {kind} *const from = {start};",
                self.simd([], [copy]),
                *braced(f"for (long {name} = first; {name} < behind; {name}++)", [copy]),
            ]),
        ])  # fmt: skip


def _inner(digits: Sequence[Digit]) -> Digit:
    return digits[-1] if digits else Digit(1, 1)


def _decoded(name: str, digits: Sequence[Digit]) -> list[tuple[str, int]]:
    """The terms of the place that the number called `name` has, by `digits`."""
    terms, step = [], 1
    for i, digit in reversed([*enumerate(digits)]):
        text = name if step == 1 else f"{name} / {step}"
        text += f" % {digit.extent}" if i else ""
        terms.append((f"({text})", digit.stride))
        step *= digit.extent
    return terms
