"""Where a tiled product finds its operands and puts its result. In: its schedule. Out: `Matrix`, index maps in names:
`z` (entry of the batch, group of filters), `m`, `n` and `k`. Next stop: `contract.py`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from eqfuse.emit.cuda.element import Index, Indices, aligned
from eqfuse.emit.cuda.scheduling.back_to_back import Operands
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule
from eqfuse.emit.cuda.scheduling.operands import Reading
from eqfuse.ir.graph import Node
from eqfuse.ops.types import Shape

Known = tuple[tuple[Index, Shape, str], ...]


@dataclass(frozen=True)
class Matrix:
    """A value as a matrix. `index`: its element in row `slow`, column `fast` of the matrix. `offsets`: the names of
    flat offsets that Indices should know, with `i`, which is `flat`. Runs of `neighbours` elements along `fast` lie
    side by side from a multiple of that many on. `valid`: what must hold where the value may be read, beyond the
    limits of m, n and k; elsewhere it is 0."""

    node: Node
    index: Index
    offsets: Known
    flat: str
    slow: str
    fast: str
    neighbours: int
    valid: tuple[str, ...] = ()

    @property
    def flat_of_first(self) -> str:
        """`flat`, of the first of several neighbours."""
        return re.sub(rf"\b{self.fast}\b", f"{self.fast}_", self.flat)


class _MatmulOperands:
    """[batch, m, k] @ [batch, k, n]; one tall matrix on the left where nothing on the right varies over the batch."""

    def __init__(self, schedule: ProductSchedule | Operands) -> None:
        self.schedule, self.node, self.product = schedule, schedule.node, schedule.product
        node, product = self.node, self.product
        batch, indices = node.shape[:-2], Indices()
        if product.rows == node.shape[-2]:
            self.place = (*indices.split("z", batch), "m")
            self.offsets: Known = ((self.place[:-1], batch, "z"),)
        else:
            self.place = indices.split("m", node.shape[:-1])
            self.offsets = ((self.place, node.shape[:-1], "m"),)

    def left(self) -> Matrix:
        node, how = self.schedule.operands[0], self.schedule.left
        index = (*aligned(self.place, node.shape[:-1]), "k")
        if self.product.rows != self.node.shape[-2]:
            offsets = (*self.offsets, (index, node.shape, "i"))
            return Matrix(node, index, offsets, f"m * {self.product.depth} + k", how.slow, how.fast, how.width)
        return self._in_order(node, index, how)

    def right(self) -> Matrix:
        node = self.schedule.operands[1]
        index = (*aligned(self.place[:-1], node.shape[:-2]), "k", "n")
        return self._in_order(node, index, self.schedule.right)

    def result(self) -> Matrix:
        index, columns = (*self.place, "n"), self.product.columns
        row = f"(z * {self.product.rows} + m)" if self.product.batch > 1 else "m"
        offsets = (*self.offsets, (index, self.node.shape, "i"))
        return Matrix(self.node, index, offsets, f"{row} * {columns} + n", "m", "n", columns)

    def _in_order(self, node: Node, index: Index, how: Reading) -> Matrix:
        """The operand in the order of its own axes, or with the last two exchanged."""
        entry = _joined(index[:-2], node.shape[:-2])
        order = (-2, -1) if how.fast == index[-1] else (-1, -2)
        shape = (*node.shape[:-2], *(node.shape[a] for a in order))
        position = (*index[:-2], *(index[a] for a in order))
        row = how.slow if entry == "0" else f"({entry} * {shape[-2]} + {how.slow})"
        offsets = (*self.offsets, (position, shape, "i"))
        return Matrix(node, index, offsets, f"{row} * {shape[-1]} + {how.fast}", how.slow, how.fast, how.width)


class _ConvOperands:
    """Filters [m, k] times windows [k, n]: m is a filter of group z, k a channel of the group and a place in the
    window, n an image and a place in the result. Padding is not read: it is 0."""

    def __init__(self, schedule: ProductSchedule | Operands) -> None:
        self.schedule, self.node, self.product = schedule, schedule.node, schedule.product
        node, product = self.node, self.product
        self.strides, self.padding, self.dilations = map(node.attr, ("strides", "padding", "dilations"))
        _, filters = schedule.operands
        self.filter = f"(z * {product.rows} + m)" if product.batch > 1 else "m"
        self.term = Indices().split("k", filters.shape[1:])
        self.place = Indices().split("n", (node.shape[0], *node.shape[2:]))

    def left(self) -> Matrix:
        filters, index, how = self.schedule.operands[1], (self.filter, *self.term), self.schedule.left
        flat = f"{self.filter} * {self.product.depth} + k"
        return Matrix(filters, index, ((index, filters.shape, "i"),), flat, how.slow, how.fast, how.width)

    def right(self) -> Matrix:
        images, filters = self.schedule.operands
        channels = filters.shape[1]
        channel = self.term[0] if self.product.batch == 1 else f"(z * {channels} + {self.term[0]})"
        positions, valid = [], []
        axes = zip(self.place[1:], self.term[1:], images.shape[2:], self.strides, self.padding, self.dilations,
                   strict=True)  # fmt: skip
        for place, term, extent, stride, (before, after), dilation in axes:
            parts = [place if stride == 1 else f"{place} * {stride}", term if dilation == 1 else f"{term} * {dilation}"]
            text = " + ".join(p for p in parts if not p.startswith("0"))
            text = f"({text or 0} - {before})" if before else f"({text or 0})" if " " in text else text or "0"
            positions.append(text)
            valid += [f"{text} >= 0"] * (before > 0) + [f"{text} < {extent}"] * (before + after > 0)
        index = (self.place[0], channel, *positions)
        inside = math.prod(images.shape[2:])
        if inside == 1 or not self.product.is_matrix_product:
            return Matrix(images, index, (), "0", "k", "n", 1, tuple(valid))
        offsets = ((index, images.shape, "i"),)  # one element a window: an image's places are neighbours
        flat = f"(n / {inside} * {images.shape[1]} + {channel}) * {inside} + n % {inside}"
        return Matrix(images, index, offsets, flat, "k", "n", self.schedule.right.width, tuple(valid))

    def result(self) -> Matrix:
        inside = math.prod(self.node.shape[2:])
        index = (self.place[0], self.filter, *self.place[1:])
        flat = f"(n / {inside} * {self.node.shape[1]} + {self.filter}) * {inside} + n % {inside}"
        return Matrix(self.node, index, ((index, self.node.shape, "i"),), flat, "m", "n", inside)


def places_of(schedule: ProductSchedule | Operands) -> _MatmulOperands | _ConvOperands:
    """The operands and the result of its product."""
    return (_MatmulOperands if schedule.node.op == "matmul" else _ConvOperands)(schedule)


def _joined(index: Index, shape: Shape) -> str:
    return Indices().join(index, shape)
