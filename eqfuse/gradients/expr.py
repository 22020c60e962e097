"""Nodes with arithmetic, in which the rules of this folder are written.

In: nodes, and Python numbers, which take on the dtype of the node they meet. Out: nodes. Where NumPy has no loop of an
operator for a dtype (SciPy's of float16), it is computed in float32 and cast back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from eqfuse.dtypes import ADDED, FLOAT32, NARROW_FLOATS, kind
from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.elementwise import UFUNCS, broadcast_shapes, loop_dtypes
from eqfuse.ops.types import Shape, TensorType

Operand = Union["Expr", float, int, complex, bool]


class Expr:
    """A node in a formula."""

    __slots__ = ("node",)

    def __init__(self, value: Node) -> None:
        self.node = value

    @property
    def shape(self) -> Shape:
        return self.node.shape

    @property
    def dtype(self) -> np.dtype:
        return self.node.dtype

    @property
    def rank(self) -> int:
        return self.node.type.rank

    def __repr__(self) -> str:
        return f"Expr({self.node})"

    def __neg__(self) -> Expr:
        return Expr(self.node.args[0]) if self.node.op == "negative" else f("negative", self)

    def __add__(self, other: Operand) -> Expr:
        return f("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return f("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return f("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return f("subtract", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return product(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Expr:
        return f("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return f("divide", other, self)

    def __matmul__(self, other: Expr) -> Expr:
        a, b = (cast(x, FLOAT32) if x.dtype in ADDED else x for x in (self, other))
        return cast(Expr(node("matmul", (a.node, b.node))), self.dtype)

    def __gt__(self, other: Operand) -> Expr:
        return f("greater", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return f("less", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return f("greater_equal", self, other)

    def __le__(self, other: Operand) -> Expr:
        return f("less_equal", self, other)

    def equals(self, other: Operand) -> Expr:
        return f("equal", self, other)


# ---- elementwise


def f(op: str, *operands: Operand) -> Expr:
    """The elementwise operator `op`, of which at least one operand is an `Expr`: numbers are floats where one of these
    is."""
    dtypes = [o.dtype for o in operands if isinstance(o, Expr)]
    dtype = next((d for d in dtypes if kind(d) in "fc"), dtypes[0])
    nodes = [o.node if isinstance(o, Expr) else const(o, dtype) for o in operands]
    if op not in UFUNCS:
        return Expr(tidy.tidy_elementwise(op, nodes))
    wanted, result = _loop(op, [n.dtype for n in nodes])
    value = tidy.tidy_elementwise(op, [tidy.cast(n, d) for n, d in zip(nodes, wanted, strict=True)])
    back = kind(result) in "fc" and wanted != [n.dtype for n in nodes]
    return Expr(tidy.cast(value, dtype) if back else value)


def _loop(op: str, dtypes: Sequence[np.dtype]) -> tuple[list[np.dtype], np.dtype]:
    """The dtypes of operands that the operator takes, and of its result, which no float of 16 bits leaves."""
    *wanted, result = loop_dtypes(op, *dtypes)
    if kind(result) in "fc" and result.itemsize > max(d.itemsize for d in dtypes):
        *wanted, result = loop_dtypes(op, *[FLOAT32 if d in NARROW_FLOATS else d for d in dtypes])
    return wanted[: len(dtypes)], result


def product(a: Operand, b: Operand) -> Expr:
    """``a * b``, where a factor 1 or -1 is none."""
    for one, other in ((a, b), (b, a)):
        value = constant_number(one)
        if value in (1, -1) and isinstance(other, Expr):
            spread = other
            if isinstance(one, Expr):
                spread = spread_to(other, broadcast_shapes(one.shape, other.shape))
            return spread if value == 1 else -spread
    return f("multiply", a, b)


def constant_number(value: Operand) -> Any:
    """The number that an operand is everywhere; None where that is not known."""
    if not isinstance(value, Expr):
        return value
    n = value.node
    n = n.args[0] if n.op == "broadcast_to" else n
    return n.literal.array[()] if n.op == "const" and n.shape == () else None


def where(condition: Expr, yes: Operand, no: Operand, dtype: np.dtype | None = None) -> Expr:
    """`yes` or `no`, numbers as `dtype` where neither is an `Expr`."""
    dtype = dtype or next(v.dtype for v in (yes, no) if isinstance(v, Expr))
    a, b = (v.node if isinstance(v, Expr) else const(v, dtype) for v in (yes, no))
    return Expr(tidy.tidy_elementwise("where", [condition.node, a, b]))


def real(x: Expr) -> Expr:
    return Expr(tidy.complex_part("real", x.node)) if x.dtype.kind == "c" else x


def imag(x: Expr) -> Expr:
    return Expr(tidy.complex_part("imag", x.node))


def complex_of(re: Expr, im: Expr) -> Expr:
    return Expr(node("complex", (re.node, im.node)))


def conj(x: Expr) -> Expr:
    return f("conj", x) if x.dtype.kind == "c" else x


def for_sums(x: Expr) -> Expr:
    """`x` as that in which sums of its elements are taken."""
    return cast(x, FLOAT32) if x.dtype in NARROW_FLOATS else x


def cast(x: Expr, dtype: np.dtype) -> Expr:
    """`x` as `dtype`; of complex numbers the real part, where that is real."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = real(x)
    return Expr(tidy.cast(x.node, dtype))


# ---- shapes


def filled(value: float | complex, type: TensorType) -> Expr:
    return Expr(tidy.broadcast_to(const(value, type.dtype), type.shape))


def zeros_like(like: Node) -> Expr:
    return filled(0, like.type)


def spread_to(x: Expr, shape: Shape) -> Expr:
    return Expr(tidy.broadcast_to(x.node, shape))


def reshape(x: Expr, shape: Shape) -> Expr:
    n = x.node.args[0] if x.node.op == "broadcast_to" else x.node
    return spread_to(Expr(n), shape) if n.shape == () else Expr(tidy.reshape(x.node, shape))


def transpose(x: Expr, axes: Sequence[int]) -> Expr:
    return Expr(tidy.transpose(x.node, axes))


def flipped(x: Expr, axis: int) -> Expr:
    return Expr(tidy.flip(x.node, [axis]))


def later(x: Expr, axis: int, by: int, fill: float) -> Expr:
    """`x`, later along `axis`, after `by` times `fill`."""
    extent = x.shape[axis]
    by = min(by, extent)
    ranges = [(0, m, 1) for m in x.shape]
    ranges[axis] = (0, extent - by, 1)
    widths = [(0, 0)] * x.rank
    widths[axis] = (by, 0)
    return Expr(tidy.pad(tidy.slice_(x.node, ranges), const(fill, x.dtype), widths))


def rows_along(x: Expr, axes: Sequence[int]) -> Expr:
    """The elements along `axes`, which are negative, as the last axis."""
    chosen = [a + x.rank for a in axes]
    kept = [a for a in range(x.rank) if a not in chosen]
    lying = transpose(x, (*kept, *chosen))
    return reshape(lying, (*lying.shape[: len(kept)], size_of(x.shape, axes)))


def swapped(x: Expr) -> Expr:
    """`x` with its last two axes exchanged."""
    r = x.rank
    return transpose(x, (*range(r - 2), r - 1, r - 2))


def sum_over(x: Expr, axes: Sequence[int]) -> Expr:
    """The sum over `axes` (negative), which stay with extent 1; of narrow floats it is taken in float32."""
    axes = sorted(a for a in axes if x.shape[a] != 1)
    if not axes:
        return x
    return cast(Expr(tidy.reduce("sum", for_sums(x).node, axes)), x.dtype)


def summed_to(x: Expr, shape: Shape) -> Expr:
    """The sum of `x` over the axes along which an array of `shape` is spread to the shape of `x`."""
    if x.shape == shape:
        return x
    lead = x.rank - len(shape)
    spread = [a - x.rank for a in range(lead)]
    spread += [a - len(shape) for a, n in enumerate(shape) if n == 1]
    return reshape(sum_over(x, spread), shape)


def sum_of(terms: Sequence[Expr]) -> Expr:
    """The sum of terms of one type, which narrow floats round once."""
    first = terms[0]
    wide = first.dtype in NARROW_FLOATS and len(terms) > 2
    terms = [cast(t, FLOAT32) for t in terms] if wide else terms
    result = terms[0]
    for t in terms[1:]:
        result = result + t
    return cast(result, first.dtype)


def size_of(shape: Shape, axes: Sequence[int]) -> int:
    return math.prod(shape[a] for a in axes)
