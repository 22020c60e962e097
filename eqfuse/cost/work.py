"""The work of a kernel: what its operators compute, in flops, seconds and calls, whatever it moves.

In: operators with their types, on a `Device`. Out: `Work`. Next stop: `roofline`, which sets memory against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from eqfuse.cost.device import REAL_PART, Device
from eqfuse.dtypes import kind
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import PriceClass
from eqfuse.ops.types import Shape, TensorType
from eqfuse.ops.updates import uncovered
from eqfuse.ops.views import extents_of

LINE = 64  # bytes of a cache line
SHORT_CUTS = (-1.0, 0.0, 1.0, 2.0)  # exponents for which libraries have a loop without `pow`
SHORT_ROW = 128  # elements to sort, up to which NumPy has networks of vectors (x86-simd-sort; of float64)


class Work(NamedTuple):
    """Arithmetic of operators: flops, seconds at full rate, calls (operators that touch data), of which `once` are
    made once a kernel and not once a tile; `whole`: seconds by NumPy calls on whole arrays, one after another.
    `shared`: seconds of `whole` that BLAS saves by threads of its own.
    """

    flops: int
    seconds: float
    calls: int
    whole: float = 0.0
    once: int = 0
    shared: float = 0.0


NOTHING = Work(0, 0.0, 0)


class Jumps(NamedTuple):
    """Elements of operands in memory that are no neighbours of the one before: `lines`, a cache line or more from it;
    `gaps`, those that a loop without vectors walks, as often as it does; `rows`, those with which rows begin that do
    not lie behind one another."""

    lines: int = 0
    gaps: int = 0
    rows: int = 0

    def __add__(self, other: Any) -> Jumps:
        return Jumps(self.lines + other.lines, self.gaps + other.gaps, max(self.rows, other.rows))


NO_JUMPS = Jumps()


def gaps(step: int, t: TensorType, out: TensorType) -> int:
    """`Steps.gaps` of an operand of type `t`, whose neighbours are `step` elements apart, where an elementwise operator
    reads it for `out`. Of one that is read once, a cache line for an element costs more than the loop."""
    last = next((a for a in range(-1, -out.rank - 1, -1) if out.extent(a) > 1), -1)
    many = t.size < out.size or step * t.dtype.itemsize < LINE
    return out.size if step > 1 and many and t.extent(last) > 1 else 0


def rows_apart(shape: Shape, strides: Sequence[int]) -> int:
    """`Jumps.rows` of an array that lies by `strides`, in elements: 0 where a loop over one axis takes all of it."""
    run, beyond = 1, 0
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1:
            if run > 1 and stride != beyond:
                return math.prod(shape) // run
            run, beyond = run * extent, stride * extent
    return 0


def total_work(works: Iterable[Work]) -> Work:
    """The work of a kernel."""
    flops, seconds, calls, whole, once, shared = 0, 0.0, 0, 0.0, 0, 0.0
    for w in works:
        flops += w.flops
        seconds += w.seconds
        calls += w.calls
        whole += w.whole
        once += w.once
        shared += w.shared
    return Work(flops, seconds, calls, whole, once, shared)


def element_work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, literal: Literal | None
) -> Work:
    """What the elements cost that one application of an operator computes; of a product, at full rate."""
    described = row(op)
    flops = described.flops(types, out, attrs)
    dtype = types[described.values_from].dtype.name
    if described.role is Role.CONTRACTION:
        seconds = flops / device.contraction_flops(dtype)
        if op == "conv":
            *_, groups = attrs  # im2col writes one element per product of one filter of each group
            gathered = flops * groups // (2 * max(types[1].shape[0], 1))
            seconds += gathered * device.element_seconds("add", dtype)
        return Work(flops, seconds, 1)
    if described.price is PriceClass.TRANSFORM:
        return Work(flops, flops * device.element_seconds(op, REAL_PART.get(dtype, dtype)), 1)
    size = touched(op, attrs, out, types, flops)
    if op == "scatter":  # a copy, and then one value after another
        each = "take" if described.attr(attrs, "mode") == "set" else op
        seconds = size * device.element_seconds("cast", dtype) + types[2].size * device.element_seconds(each, dtype)
        return Work(flops, seconds, 1)
    return Work(flops, size * device.element_seconds(_priced_as(op, attrs, types, literal), dtype), 1)


def joined_by(op: str) -> str:
    """The operator that a reduction repeats, if that is a simple one, or the reduction itself."""
    repeated = row(op).joined_by
    return repeated if repeated is not None and row(repeated).price is PriceClass.SIMPLE else op


def touched(op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], flops: int) -> int:
    """How many elements an operator computes on."""
    described = row(op)
    role = described.role
    if role is Role.WINDOW:
        return out.size * math.prod(described.attr(attrs, "window"))
    if role in (Role.REDUCTION, Role.SCAN, Role.LIBRARY):
        size = max(out.size, *(t.size for t in types))
        return max(size, flops) if role is Role.LIBRARY else size  # by operation where these are more than elements
    return out.size


def _priced_as(op: str, attrs: tuple, types: Sequence[TensorType], literal: Literal | None) -> str:
    """The row of the profile for `op` with this last operand. A whole power of a negative number leaves the vector code
    of a CPU's library; NumPy has other loops for a few. Short rows are sorted in vector registers, a stable sort is
    none of vectors, but a stable order is."""
    described = row(op)
    if "stable" in described.attrs:
        short = op == "sort" and types[0].extent(described.attr(attrs, "axis")) <= SHORT_ROW
        is_stable_sort = op == "sort" and described.attr(attrs, "stable")
        return "stable_sort" if is_stable_sort else "short_sort" if short else op
    if op == "power" and literal is not None and literal.array.size == 1 and kind(literal.array.dtype) == "f":
        exponent = float(literal.array.item())
        return "whole_power" if exponent.is_integer() and exponent not in SHORT_CUTS else op
    return op


@lru_cache(maxsize=4096)
def touches(op: str, attrs: tuple, source: TensorType, out: TensorType) -> int:
    """Bytes of its first argument that a gather or an update reads: runs of neighbours, each a cache line at least, or
    what no write replaces."""
    if row(op).role is Role.UPDATE:
        if row(op).pieces is None:
            return source.nbytes
        kept = uncovered(source.shape, row(op).attr(attrs, "slices"))
        return sum(math.prod(extents_of(ranges)) for ranges in kept) * source.dtype.itemsize
    (axis,) = attrs
    run = source.dtype.itemsize * (1 if row(op).by_element else math.prod(source.shape[axis:][1:]))
    return out.nbytes // run * max(run, LINE) if run else 0
