"""The parts of a body with a convolution: the image by phases, the filters, and what follows.

In: a body of kind contract around one convolution. Out: `Convolution`. Next stop: `blocks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from eqfuse.emit.c.convolution.phases import Phase, farthest_place, phases, taps
from eqfuse.emit.c.loops import Loops
from eqfuse.emit.c.nest import SHORT_DIMENSION, Access, Dim, collapsed
from eqfuse.emit.c.product.parts import BlockPart
from eqfuse.emit.c.product.tile import sums_dtype
from eqfuse.emit.c.sliding.axes import Axis
from eqfuse.emit.c.sliding.parts import Windows, computed_part, ordered, refuse_others, windows_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute
from eqfuse.ops import Role
from eqfuse.ops.types import Shape

MOST_PHASES = 16  # phases, each with a function of its own


@dataclass(frozen=True)
class PhaseCopy:
    """What windows find in one phase of the rows and one of the columns of an image; no part where all is padding."""

    rows: Phase
    columns: Phase
    part: BlockPart | None


@dataclass(frozen=True, eq=False)
class Convolution:
    """`conv` of an image with `filters`, in `groups`; `axes`: those along which windows slide, with one of rows where
    there are columns only; `phases` of the image; `rest`: what follows, `result` the input there that stands for it;
    `windows`: pooling behind it, for which the rest is computed."""

    conv: Node
    groups: int
    axes: tuple[Axis, ...]
    phases: tuple[PhaseCopy, ...]
    filters: BlockPart
    rest: BlockPart
    result: Node
    windows: Windows | None = None

    @property
    def dtype(self) -> np.dtype:
        """That of the sums."""
        dtype = sums_dtype(self.conv.dtype)
        assert dtype is not None
        return dtype

    @property
    def above(self) -> tuple[Axis, ...]:
        """The axes before the rows."""
        return self.axes[:-2]

    @property
    def places(self) -> Shape:
        return tuple(axis.places for axis in self.axes)

    @property
    def blocked(self) -> Shape:
        """The extents that units cut: of what is pooled the rows; all columns that its windows read are one block."""
        if self.windows is None:
            return self.places
        down, across = self.windows.axes
        return (*self.places[:-2], down.places, min(across.extent, across.read_by(across.places)))

    @property
    def channels(self) -> int:
        """Of a group."""
        return self.conv.args[1].shape[1]

    @property
    def filters_of_group(self) -> int:
        return self.conv.shape[1] // self.groups

    @property
    def planes(self) -> int:
        """Of the image, under the windows of one channel."""
        return math.prod(axis.window for axis in self.above)

    @property
    def taps(self) -> list[tuple[int, int, int]]:
        """Of each element of a window in a plane the phase, by its number, and the rows and columns further."""
        numbers = {(c.rows.number, c.columns.number): i for i, c in enumerate(self.phases)}
        down, across = (taps(axis) for axis in self.axes[-2:])
        return [(numbers[p, q], y, x) for (p, y), (q, x) in product(down, across)]

    @property
    def shifts(self) -> tuple[int, int]:
        """Rows and columns that a copy has beyond the places of windows."""
        down, across = self.axes[-2:]
        return farthest_place(down), farthest_place(across)

    @property
    def window(self) -> int:
        return self.planes * len(self.taps)

    @property
    def terms(self) -> int:
        return self.channels * self.window

    @property
    def in_place(self) -> Access | None:
        """Where the filters lie, if that is one after another, as the tiles read them."""
        access = self.filters.array_access(self.dtype)
        return access if access is not None and access.strides == ordered(self.filters.space) else None


def convolution_of(body: Graph) -> Convolution:
    """UnsupportedOp where kernels of this target do not hold it."""
    (conv,) = body.of_role(Role.CONTRACTION)
    refuse_others(body, [n for n in body.nodes if n is conv or n.row.role is Role.WINDOW])
    if sums_dtype(conv.dtype) is None:
        raise UnsupportedOp(f"convolutions of {conv.dtype} are NumPy's")
    image, filters = conv.args
    strides, padding, dilations, groups = (conv.attr(name) for name in ("strides", "padding", "dilations", "groups"))
    numbers = zip(image.shape[2:], conv.shape[2:], filters.shape[2:], strides, padding, dilations, strict=True)
    axes = [Axis(n, m, k, s, before, dilation) for n, m, k, s, (before, _), dilation in numbers]
    axes = axes if len(axes) > 1 else [Axis(1, 1), *axes]
    result = input_node("convolution", conv.type)
    after = Graph((*body.inputs, result), tuple(substitute(body.outputs, {conv: result})))
    windows = _pooling(after, result) if body.of_role(Role.WINDOW) else None
    rest = windows.image if windows else computed_part(after, after.outputs, conv.shape, [result])
    return _in_one_row(Convolution(
        conv, groups, tuple(axes), tuple(_copied(body, image, axes)), computed_part(body, [filters], filters.shape, []),
        rest, result, windows,
    ))  # fmt: skip


def _in_one_row(c: Convolution) -> Convolution:
    """Where each result is made of one place of the image, in order, and all arrays allow it: as if there were one row
    of places."""
    is_point = c.window == 1 and all(axis.stride == 1 and axis.extent == axis.places for axis in c.axes)
    places = c.conv.shape[2:]
    (image, *_), count = c.phases, math.prod(places)
    if not is_point or c.windows or image.part is None:
        return c
    accesses = [*image.part.arrays.values(), *c.rest.arrays.values()]
    runs = [extent * a.strides[d + 3] == a.strides[d + 2] for a in accesses for d, extent in enumerate(places[1:])]
    if not all(runs):
        return c
    row = Phase(0, 0, 1, 1, 0), Phase(0, 0, 1, count, 0)
    return replace(c, axes=(Axis(1, 1), Axis(count, count)), phases=(PhaseCopy(*row, image.part),))


def _pooling(after: Graph, result: Node) -> Windows:
    """The windows over what is made of the convolution `result`."""
    windows = windows_of(after, [result])
    if windows.image.space != result.shape or windows.above or result.type.rank != 4:
        raise UnsupportedOp("pooling behind a convolution in one kernel is over rows and columns of its results")
    if windows.window.dtype.kind in "biu" or windows.window.dtype != result.dtype:
        raise UnsupportedOp("pooling behind a convolution in one kernel is of its own floats")
    return windows


def _copied(body: Graph, image: Node, axes: Sequence[Axis]) -> list[PhaseCopy]:
    copies = []
    if math.prod(len(phases(axis)) for axis in axes[-2:]) > MOST_PHASES:
        raise UnsupportedOp(f"windows that move by {axes[-2].stride} x {axes[-1].stride} are NumPy's")
    for rows, columns in product(phases(axes[-2]), phases(axes[-1])):
        if not rows.count or not columns.count:
            copies.append(PhaseCopy(rows, columns, None))
            continue
        ranges = [(0, n, 1) for n in image.shape]
        ranges[-1] = (columns.first, columns.stop, columns.step)
        if image.type.rank > 3:
            ranges[-2] = (rows.first, rows.stop, rows.step)
        whole = all(r == (0, n, 1) for r, n in zip(ranges, image.shape, strict=True))
        some = image if whole else node("slice", (image,), (tuple(ranges),))
        copies.append(PhaseCopy(rows, columns, computed_part(body, [some], some.shape, [])))
    return copies


def loops_over_rows(
    c: Convolution, part: BlockPart, rows: int, columns: int, written: Sequence[Access] | None = None
) -> Loops:
    """The loops over blocks of the rows and columns of images; over rows within columns where those are short."""
    first = 2 + len(c.above)
    dims = [Dim((d,), extent, False, extent) for d, extent in enumerate(part.space[:first])]
    *above, wide = part.space[first:]
    down, across = tuple(range(first, len(part.space) - 1)), (len(part.space) - 1,)
    if c.axes[-2].extent == 1 and c.axes[-2].places == 1:  # one row, maybe of several
        above, wide, down, across = [1], math.prod((*above, wide)), (), down + across
    dims += [Dim(down, above[0], False, min(rows, above[0])), Dim(across, wide, False, min(columns, wide))]
    d = len(dims) - 1
    turned = wide < SHORT_DIMENSION <= rows
    places = [Access(0, (0,) * len(part.space))] * len(part.body.outputs) if written is None else written
    return part.loops(tuple(dims), d - 1 if turned else d, (d,) if turned else (), places)


def loops_over_filters(part: BlockPart) -> Loops:
    """The loops that copy filters, in as few dimensions as they allow."""
    written = Access(0, ordered(part.space))
    dims = [*collapsed(part.space, (), [*part.arrays.values(), written])]
    dims = [Dim((), 1, False, 1)] * (2 - len(dims)) + dims
    return part.loops(tuple(dims), len(dims) - 1, (), [written])
