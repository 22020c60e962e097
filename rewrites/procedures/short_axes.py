"""Reductions over pairs without an array of all pairs: what has a short axis of elements is done slice by slice.

In: the nodes of a program. Out: `LAWS`, and pairs of equal nodes for the e-graph. Where two small arrays meet, as in
``((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)``, a kernel reduces either the short axis or the long one. In slices,
made of slices of the small arrays, the short axis is gone: a reduction over it becomes operators that join the results
of slices (``d0 ** 2 + d1 ** 2 + d2 ** 2``), and a reduction that keeps it one reduction for each slice, which share
their work, side by side at last. Where an array as large as that of all pairs is in memory anyway, nothing is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from eqfuse.ir.graph import Node, in_dtype, node
from eqfuse.ops import TABLE, Role
from eqfuse.ops.index_map import Ranges
from eqfuse.ops.types import Shape, TensorType
from eqfuse.rewrites.language.law import APPROXIMATE, REASSOCIATES, Law, Term, apply, attrs, computed, tensors
from eqfuse.rewrites.language.views import last_two_swapped, moved_axis, through_reshape

SHORT_AXIS = 16  # elements along an axis that is taken in slices
SHORT_SUM = 4  # elements along the axis of a product of matrices
IN_PAIRS_FROM = 8  # from so many on they are joined in pairs
MOST_OPERATORS = 512  # operators in all slices: more are no kernel

Axes = tuple[int, ...]

x, w = tensors("x w")
(p,) = attrs("p")

JOINED = {op.name: op.joined_by for op in TABLE.values() if op.role is Role.REDUCTION and op.joined_by is not None}


def _own(t: TensorType, axes: Axes) -> int | None:
    """The axis that is reduced, if it is one."""
    return axes[0] if len(axes) == 1 and t.extent(axes[0]) > 1 else None


def _kept(t: TensorType, axes: Axes) -> int | None:
    """The last axis that is kept and has several elements."""
    return next((a for a in range(-1, -t.rank - 1, -1) if a not in axes and t.extent(a) > 1), None)


def _from(axis: int | None, t: TensorType, first: int, stop: int | None) -> Ranges | None:
    if axis is None:
        return None
    return tuple((first, stop or n, 1) if i - t.rank == axis else (0, n, 1) for i, n in enumerate(t.shape))


def _laws_of(op: str) -> list[Law]:
    def part(axis_of: Any, first: int, stop: int | None) -> Term:
        ranges = computed(lambda t, axes: _from(axis_of(t, axes), t, first, stop), x, p)
        return apply(op, x.slice(ranges), attrs=(p,))

    def parts(axis_of: Any) -> tuple[Term, Term]:
        return part(axis_of, 0, 1), part(axis_of, 1, None)

    lhs, joined = apply(op, x, attrs=(p,)), JOINED[op]
    exactness = APPROXIMATE if op == "prod" else REASSOCIATES  # products in another order may overflow
    return [
        Law(f"{op}_by_slices", lhs, apply(joined, *parts(_own)), exactness=exactness, slices=(op, joined)),
        Law(f"{op}_slice_by_slice", lhs, apply("concat", *parts(_kept), attrs=(computed(_kept, x, p),)),
            exactness=REASSOCIATES, slices=(op, "concat")),
    ]  # fmt: skip


def _part(t: TensorType, axis: int, first: int, stop: int | None) -> Ranges | None:
    return _from(axis, t, first, stop) if t.extent(axis) > 1 else None


def _product(first: int, stop: int | None) -> Term:
    own = computed(lambda t: _part(t, -1, first, stop), x)
    return x.slice(own) @ w.slice(computed(lambda t: _part(t, -2, first, stop), w))


def _columns(first: int, stop: int | None) -> Term:
    return w.slice(computed(lambda t: _part(t, -1, first, stop), w))


LAWS = [
    *(law for op in JOINED for law in _laws_of(op)),
    Law("product_by_slices", x @ w, _product(0, 1) + _product(1, None), exactness=REASSOCIATES,
        slices=("matmul", "add")),
    Law("product_column_by_column", x @ w,
        apply("concat", (x * _columns(0, 1).T).sum(-1, keepdims=True), x @ _columns(1, None), attrs=(-1,)),
        exactness=REASSOCIATES, slices=("matmul", "concat")),
]  # fmt: skip


def in_slices(law: Law, nodes: Sequence[Node], constants: set[Node]) -> list[tuple[Node, Node]]:
    """(reduction, the same by slices) for every one among `nodes` that `law` is about and that pairs elements of
    smaller arrays. `constants`: those that are computed when the program is built."""
    assert law.slices is not None
    op, joined = law.slices
    pairs = []
    for n in nodes:
        if n.op != op or n in constants or law.claims([n.args[0].dtype, n.dtype]) is None:
            continue
        other = _of_product(n, joined) if op == "matmul" else _of_reduction(n, joined)
        if other is not None and other.type == n.type and _is_kernel(other):
            pairs.append((n, other))
    return pairs


def _of_product(n: Node, joined: str) -> Node | None:
    return _column_by_column(n) if joined == "concat" else _summed(n)


def _of_reduction(n: Node, joined: str) -> Node | None:
    return _side_by_side(n) if joined == "concat" else _joined(n, joined)


def _joined(n: Node, by: str) -> Node | None:
    """The reduction `n` over a short axis, as its slices joined `by` an operator."""
    body = n.args[0]
    axis = _own(body.type, n.attr("axes"))
    if axis is None or not _is_of_pairs(body, axis):
        return None
    slices = _slices(body, axis)
    return _joined_by(by, [s if by.startswith("logical") else in_dtype(s, n.dtype) for s in slices])


def _summed(n: Node) -> Node | None:
    """The product `n` along a short axis, of rows with columns or of a few columns with rows, as a sum of products."""
    left, right = n.args
    extent = left.shape[-1]
    if n.shape[-2:] != (1, 1) and (extent > SHORT_SUM or n.type.size < 2 * (left.type.size + right.type.size)):
        return None
    if not _are_of_pairs([left, right], extent, n.type.size):
        return None
    slices = AxisSlices(n.type.size)
    pairs = [(slices.sliced(left, -1, i), slices.sliced(right, -2, i)) for i in range(extent)]
    return _joined_by("add", [node("multiply", pair) for pair in pairs])


def _column_by_column(n: Node) -> Node | None:
    """The product `n` of an array of pairs with a few columns, as a sum over pairs for each column."""
    left, right = n.args
    if not _are_of_pairs([left], n.shape[-1], left.type.size):
        return None
    slices = AxisSlices(right.type.size)
    columns = [slices.sliced(right, -1, i) for i in range(n.shape[-1])]
    rows = [node("transpose", (c,), (last_two_swapped(c.type),)) for c in columns]
    return node("concat", [node("sum", (node("multiply", (left, r)),), ((-1,),)) for r in rows], (-1,))


def _side_by_side(n: Node) -> Node | None:
    """The reduction `n`, which keeps a short axis, as reductions of slices; None where slices share no work."""
    body = n.args[0]
    axis = _kept(body.type, n.attr("axes"))
    if axis is None or not _is_of_pairs(body, axis) or not _shares_work(body, axis):
        return None
    return node("concat", [n.over([s]) for s in _slices(body, axis)], (axis,))


def _joined_by(by: str, slices: list[Node]) -> Node:
    """One after another, from ALONE on neighbours and then pairs: as NumPy adds up the rows of an array."""
    if len(slices) < IN_PAIRS_FROM:
        return reduce(lambda a, b: node(by, (a, b)), slices)
    while len(slices) > 1:
        pairs = [slices[i : i + 2] for i in range(0, len(slices), 2)]
        slices = [node(by, pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return slices[0]


def _is_of_pairs(body: Node, axis: int) -> bool:
    return body.type.size > 0 and _are_of_pairs([body], body.type.extent(axis), _pairs(body, axis))


def _are_of_pairs(bodies: Sequence[Node], extent: int, pairs: int) -> bool:
    """Are `bodies`, with a short axis of `extent`, computed element by element of arrays of less than `pairs` elements,
    those of a slice?"""
    return 1 < extent <= SHORT_AXIS and all(map(_is_elementwise, _large(bodies, pairs)))


def _is_kernel(root: Node) -> bool:
    """Are there few enough operators between what was `root` and the slices of small arrays?"""
    most = max(n.type.size for n in (root, *root.args, *[b for a in root.args for b in a.args]))
    return sum(1 for _ in _large([root, *root.args], most)) <= MOST_OPERATORS


def _pairs(body: Node, axis: int) -> int:
    """The elements of a slice."""
    return body.type.size // body.type.extent(axis)


def _shares_work(body: Node, axis: int) -> bool:
    """Is something computed once for all slices?"""
    pairs = _pairs(body, axis)
    return any(n.type.size == pairs and n.row.role is Role.ELEMENTWISE for n in _large([body], pairs))


def _large(bodies: Sequence[Node], size: int) -> Iterator[Node]:
    """`bodies` and what they are computed from, as far as it has at least `size` elements."""
    stack = [n for n in bodies if n.type.size >= size]
    met = set(stack)
    while stack:
        n = stack.pop()
        yield n
        new = [a for a in dict.fromkeys(n.args) if a.type.size >= size and a not in met]
        met.update(new)
        stack += new


def _is_elementwise(n: Node) -> bool:
    operator = n.row
    if operator.role is Role.REDUCTION:
        axis = _own(n.args[0].type, n.attr("axes"))
        return n.op in JOINED and axis is not None and n.args[0].type.extent(axis) <= SHORT_AXIS
    return operator.role in (Role.ELEMENTWISE, Role.VIEW, Role.PIECES)


def _slices(body: Node, axis: int) -> list[Node]:
    """The slices of `body` along `axis`, which is kept, computed from slices of what is smaller than one of them."""
    slices = AxisSlices(_pairs(body, axis))
    return [slices.sliced(body, axis, i) for i in range(body.type.extent(axis))]


class AxisSlices:
    """Slices of arrays of `size` elements and more, moved to the smaller arrays they are computed from."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cache: dict[tuple[Node, int, int], Node] = {}

    def sliced(self, n: Node, axis: int, i: int) -> Node:
        """The `i`-th slice of `n` along `axis`; all of it, where it is broadcast along that axis."""
        if n.type.extent(axis) == 1:
            return n
        key = n, axis, i
        if key not in self.cache:
            self.cache[key] = self._sliced(n, axis, i)
        return self.cache[key]

    def _sliced(self, n: Node, axis: int, i: int) -> Node:
        if n.row.role is Role.ELEMENTWISE and n.type.size >= self.size:
            return n.over([self.sliced(a, axis, i) for a in n.args])
        part = _THROUGH[n.op](self, n, axis, i) if n.op in _THROUGH else None
        return part or _of_array(n, axis, i)

    def of_broadcast(self, n: Node, axis: int, i: int) -> Node:
        return node("broadcast_to", (self.sliced(n.args[0], axis, i),), (_one_at(n.shape, axis),))

    def of_transpose(self, n: Node, axis: int, i: int) -> Node:
        return n.over([self.sliced(n.args[0], moved_axis(n.attr("axes"), axis), i)])

    def of_reshape(self, n: Node, axis: int, i: int) -> Node | None:
        """None where the reshape merges the axis with others, or splits it."""
        before = through_reshape(n.args[0].type, n.shape, (axis,))
        if before is None or len(before) > 1:
            return None
        return node("reshape", (self.sliced(n.args[0], before[0], i),), (_one_at(n.shape, axis),))

    def of_concat(self, n: Node, axis: int, i: int) -> Node:
        if n.attr("axis") != axis:
            return n.over([self.sliced(a, axis, i) for a in n.args])
        for a in n.args:
            if i < a.shape[axis]:
                return self.sliced(a, axis, i)
            i -= a.shape[axis]
        raise IndexError(i)

_THROUGH = {
    "broadcast_to": AxisSlices.of_broadcast, "transpose": AxisSlices.of_transpose, "reshape": AxisSlices.of_reshape,
    "concat": AxisSlices.of_concat,
}  # fmt: skip


def _of_array(n: Node, axis: int, i: int) -> Node:
    """The slice of an array in memory, or that may be: of one turned so that neighbours in the slice lie together."""
    position = n.type.rank + axis
    if math.prod(n.shape[:position]) == 1:
        return node("slice", (n,), (_from(axis, n.type, i, i + 1),))
    turned = node("transpose", (n,), ((position, *(a for a in range(n.type.rank) if a != position)),))
    first = node("slice", (turned,), (_from(-n.type.rank, turned.type, i, i + 1),))
    return node("reshape", (first,), (_one_at(n.shape, axis),))


def _one_at(shape: Shape, axis: int) -> Shape:
    position = len(shape) + axis
    return (*shape[:position], 1, *shape[position + 1 :])
