"""What a partial kernel body is: the state that the lattice of kinds joins, one value at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.work import LINE
from eqfuse.ir.view_strides import contiguous
from eqfuse.kinds.kind import KINDS, NO_KIND, Kind
from eqfuse.kinds.product import Product
from eqfuse.kinds.seams import Seams
from eqfuse.ops import Op, Role
from eqfuse.ops.index_map import IndexMap
from eqfuse.ops.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class State:
    """A value inside a kernel body, and the kind of the body that computes it.

    `space` is the kernel's full iteration space and `axes` the reduced axes of it (negative). `strides` (in elements,
    for leaves and views of leaves) says how the value lies in memory. `dense`: every array the value needs lies in
    memory in the value's own element order, so a reshape can be taken on the leaves. `products` names the products
    the body holds. `panel`: each row of `space` is computed whole, so a reduction over the last axis may follow.
    `held`: elements of each row that stay on chip between two products. `product`: on a GPU, what the template for
    products would compute; `fused`: it does so, as there is more in the body than a library call takes. `runs`: the
    axes (negative) along which arrays as large as the value lie in memory. `left`: on a CPU, the left operand of the
    product, where the body computes it. `passes`: reductions one after another that the value takes. `mapped`: arrays
    are read by index maps that strides do not express, in pieces, which meet at `seams`. `exact`: the 16-bit float type
    that the value is widened from, which holds each of its elements; none for other values. `unfinished`: it reduces
    rows of a product that no template stores, on the way to a second product, which sums them up tile by tile.
    `merged`: a matrix whose axes are several of an array each, such as the windows of images.
    """

    kind: str
    shape: Shape
    space: Shape
    axes: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    dense: bool = False
    products: tuple[object, ...] = ()
    panel: bool = False
    held: int = 0
    product: Product | None = None
    fused: bool = False
    runs: tuple[int, ...] = ()
    left: State | None = None
    passes: int = 0
    mapped: bool = False
    seams: Seams = frozenset()
    exact: str = ""
    unfinished: bool = False
    merged: bool = False
    template: Kind = field(init=False, repr=False, compare=False)  # of that name

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", KINDS.get(self.kind, NO_KIND))

    @property
    def is_view(self) -> bool:
        return self.template.is_view

    @property
    def at_leaf(self) -> bool:
        """Is it read from memory, or a view of what is?"""
        return self.strides is not None

    @property
    def pointwise(self) -> bool:
        """Leaves, views and maps: what any other kind can take in at the same point of its space."""
        return self.strides is not None or self.template.pointwise

    @property
    def reduced(self) -> Shape:
        """The shape of a value after the kernel's reduction."""
        n = len(self.space)
        return tuple(1 if i - n in self.axes else e for i, e in enumerate(self.space))

    def across(self, itemsize: int) -> int:
        """How many axes arrays lie along that the kernel reads across, a cache line for an element or two."""
        if self.runs in ((), (-1,)):  # so do most
            return 0
        last = _last(self.space)
        return sum([a != last and self.space[a] * itemsize >= LINE for a in self.runs])


@dataclass(frozen=True, slots=True)
class Call:
    """One operator about to join the bodies that compute its arguments."""

    row: Op
    attrs: tuple
    out: TensorType
    types: tuple[TensorType, ...]
    states: tuple[State, ...]
    device: Device
    name: object  # identifies a product
    anchors: tuple[State, ...] = field(init=False)  # the states that are not pointwise

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchors", tuple([s for s in self.states if not s.pointwise]))

    def attr(self, name: str) -> Any:
        """The attribute that the operator's row calls `name`."""
        return self.row.attr(self.attrs, name)

    @property
    def index_map(self) -> IndexMap | None:
        """Of a view, as `Node.index_map`."""
        assert self.row.index_map is not None
        return self.row.index_map(self.types[0].shape, self.attrs)

    def is_a(self, role: Role) -> bool:
        return self.row.role is role


def runs_of_both(a: State, b: State) -> tuple[int, ...]:
    """`State.runs` of a kernel that computes both."""
    return tuple(sorted({*a.runs, *b.runs}))


def leaf(shape: Shape) -> State:
    """A value read from memory, where it lies in C order."""
    return State("leaf", shape, shape, strides=contiguous(shape), dense=True, runs=(_last(shape),) if shape else ())


def _last(shape: Shape) -> int:
    """The last axis that has more than one index, or -1."""
    for a in range(-1, -len(shape) - 1, -1):
        if shape[a] > 1:
            return a
    return -1


def runs_after(call: Call) -> tuple[int, ...]:
    """`State.runs` after one more operator."""
    shape, before = call.out.shape, call.states[0]
    if call.is_a(Role.VIEW):
        if math.prod(shape) > math.prod(before.shape) or not before.runs:
            return ()
        places = call.index_map
        if places is None:
            return (_last(shape),) if shape and before.runs == (_last(before.shape),) else ()
        return tuple(sorted({axis - len(shape) for a in before.runs for axis, _ in places[a].terms}))
    if call.is_a(Role.ELEMENTWISE):
        size = math.prod(call.anchors[0].space if call.anchors else shape)
        whole = [s for s in call.states if not s.pointwise or math.prod(s.shape) == size]
        return tuple(sorted({a for s in whole for a in s.runs}))
    return before.runs if call.is_a(Role.REDUCTION) else ()
