"""Random kernel bodies over every way to broadcast: ranks, units, operands of higher rank, extents that choose a path.

In: a seeded generator and a device. Out: a body that the lattice of kinds takes as one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, join, leaf, merge
from eqfuse.ops.types import Shape
from tests.kernels.test_numpy_panels import TINY
from tests.support.kernels import CPU, read

DEVICES = [
    CPU, TINY, replace(TINY, name="tiny, one thread", threads=1),
    replace(TINY, name="tiny, least tiles", l2_bytes=1 << 12),
    replace(TINY, name="tiny, many threads", threads=16, l2_bytes=1 << 14),
]  # fmt: skip
EXTENTS = (0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 16, 17, 24, 25, 63, 64, 65, 257, 300, 640, 2049)
MOST = 1 << 15  # elements of a value
DTYPES = (
    "float32", "float32", "float64", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64",
)  # fmt: skip
UNARY = (
    "negative", "abs", "square", "floor", "sign", "sqrt", "isnan", "signbit", "conj", "logical_not", "reciprocal",
    "exp", "tanh", "log10", "sinh", "cosh", "tan", "cbrt", "asinh", "acosh", "atan", "log1p", "expm1", "sin", "erf",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "less", "equal", "copysign", "logical_and",
    "atan2", "power", "hypot",
)  # fmt: skip
REDUCTIONS = ("sum", "sum", "max", "min", "prod", "any", "all", "argmax", "argmin")


class Drawn:
    """A body as it grows: values and the states of the kernels that would compute them."""

    def __init__(self, rng: np.random.Generator, device: Device) -> None:
        self.rng, self.device = rng, device
        self.dtype = self.one_of(DTYPES)
        self.space = self.shape()
        self.inputs: list[Node] = []
        self.states: dict[Node, State] = {}
        self.reduced: tuple[int, ...] = ()
        first = self.new(self.space)
        for _ in range(int(rng.integers(1, 9))):
            self.grow(first if rng.random() < 0.1 else self.late())
        if self.chance(4):
            self.grow(self.late(), (self.clip, self.normalise, self.dot, self.two_products))
        self.grow([*self.states][-1], (self.total,))

    def one_of(self, choices: tuple) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, of_ten: int) -> bool:
        return bool(self.rng.integers(10) < of_ten)

    def shape(self) -> Shape:
        while True:
            shape = tuple(int(self.one_of(EXTENTS)) for _ in range(self.one_of((0, 1, 2, 2, 3, 3, 4, 4, 5))))
            if math.prod(shape) <= MOST:
                return shape

    def late(self) -> Node:
        values = list(self.states)
        return values[max(-len(values), -1 - int(self.rng.exponential(1.2)))]

    def new(self, shape: Shape, dtype: object = None) -> Node:
        """A leaf of `shape`, perhaps behind views."""
        dtype = dtype or self.dtype
        if self.chance(1) and math.prod(shape) == 1:
            n = const(np.full(shape, 2, dtype))
        else:
            order = tuple(self.rng.permutation(len(shape)).tolist()) if self.chance(2) else tuple(range(len(shape)))
            under = tuple(shape[order.index(a)] for a in range(len(shape)))
            longer = tuple(e + int(self.rng.integers(3)) if self.chance(1) else e for e in under)
            n = read(len(self.inputs), longer, dtype)
            self.inputs.append(n)
            self.states[n] = leaf(longer)
            if longer != under:
                n = self.put(node("slice", (n,), (tuple((b - a, b, 1) for a, b in zip(under, longer, strict=True)),)))
            if order != tuple(range(len(shape))):
                n = self.put(node("transpose", (n,), (order,)))
        self.states.setdefault(n, leaf(n.shape))
        return n

    def put(self, n: Node) -> Node:
        """Add `n`. EqfuseError when no kernel holds it."""
        state = join(n.op, n.attrs, n.type, [a.type for a in n.args], [self.states[a] for a in n.args], self.device, n)
        if not isinstance(state, State):
            raise EqfuseError(state)
        self.states.setdefault(n, state)
        return n

    def beside(self, shape: Shape) -> Shape:
        """A shape that broadcasts against `shape`, now and then to a higher rank."""
        kept = [e if self.chance(6) else 1 for e in shape]
        if self.chance(4):
            del kept[: int(self.rng.integers(len(kept) + 1))]
        more = int(self.rng.integers(3)) if self.chance(3) else 0
        lead = [1 if self.chance(8) else int(self.one_of((2, 3))) for _ in range(more)]
        return (*lead[: 5 - len(kept)], *kept)

    def grow(self, x: Node, steps: tuple[Callable[[Node], object], ...] = ()) -> None:
        steps = steps if x.shape else ()
        steps = steps or (
            self.unary, self.binary, self.binary, self.binary, self.where, self.clip, self.reduce, self.view,
            self.multiply, self.window, self.library, self.normalise, self.dot,
        )  # fmt: skip
        before = dict(self.states), list(self.inputs)
        try:
            steps[int(self.rng.integers(len(steps) if x.shape else 6))](x)
            if any(n.type.size > 4 * MOST for n in self.states):
                raise EqfuseError("too large")
        except (EqfuseError, TypeError):
            self.states, self.inputs = before

    def unary(self, x: Node) -> None:
        if self.chance(2):
            self.put(node("cast", (x,), (np.dtype(self.one_of(("float32", "float64", "int32"))),)))
        else:
            self.put(node(self.one_of(UNARY), (x,)))

    def other(self, x: Node) -> Node:
        y = self.late()
        return self.new(self.beside(x.shape), x.dtype.name) if y.dtype != x.dtype or self.chance(6) else y

    def binary(self, x: Node) -> None:
        args = [x, self.other(x)]
        self.put(node(self.one_of(BINARY), args[:: self.one_of((1, -1))]))

    def where(self, x: Node) -> None:
        y = self.other(x)
        self.put(node("where", (self.put(node("less", (x, y))), y, self.other(x))))

    def reduce(self, x: Node) -> None:
        rank = len(x.shape)
        axes = tuple(sorted({int(a) for a in self.rng.integers(-rank, 0, int(self.rng.integers(1, 4)))}))
        self.reduced = self.reduced or axes
        op = self.one_of(REDUCTIONS)
        self.put(node(op, (x,), ((self.reduced if not op.startswith("arg") else self.reduced[:1]),)))

    def view(self, x: Node) -> None:
        rank = len(x.shape)
        kind = self.one_of(("transpose", "reshape", "broadcast_to", "slice", "flip"))
        if kind == "transpose":
            self.put(node("transpose", (x,), (tuple(self.rng.permutation(rank).tolist()),)))
        elif kind == "reshape":
            axis = int(self.rng.integers(rank + 1))
            merged, parted = (math.prod(x.shape[:2]), *x.shape[2:]), (*x.shape[:axis], 1, *x.shape[axis:])
            self.put(node("reshape", (x,), (merged if self.chance(5) else parted,)))
        elif kind == "broadcast_to":
            self.put(node("broadcast_to", (x,), (tuple(3 if e == 1 and self.chance(5) else e for e in x.shape),)))
        elif kind == "slice":
            starts = [int(self.rng.integers(e // 2 + 1)) for e in x.shape]
            steps = [int(self.one_of((1, 1, 2))) for _ in starts]
            self.put(node("slice", (x,), (tuple(zip(starts, x.shape, steps, strict=True)),)))
        else:
            self.put(node("flip", (x,), (tuple(a for a in range(-rank, 0) if self.chance(4)),)))

    def multiply(self, x: Node) -> None:
        n = int(self.one_of((1, 2, 5, 17, 64)))
        lead = tuple(e if self.chance(5) else 1 for e in x.shape[:-2]) if self.chance(4) else ()
        self.put(node("matmul", (x, self.new((*lead, x.shape[-1], n), x.dtype.name))))

    def clip(self, x: Node) -> None:
        shape = self.one_of(((), (1,), (1, 1)))
        low, high = (const(np.full(shape, v, x.dtype)) for v in (self.one_of((0, 1)), 2))
        self.states |= {low: leaf(low.shape), high: leaf(high.shape)}
        bounded = self.put(node("maximum", (x, low)[:: self.one_of((1, -1))]))
        self.put(node("minimum", (bounded, high)[:: self.one_of((1, -1))]))

    def normalise(self, x: Node) -> None:
        axes = self.reduced = self.reduced or (-1,)
        apart = self.put(node("subtract", (x, self.put(node("max", (x,), (axes,))))))
        if self.chance(5):
            self.put(node("subtract", (apart, self.put(node("sum", (apart,), (axes,))))))

    def dot(self, x: Node) -> None:
        y = x if self.chance(3) else self.new(x.shape, x.dtype.name)
        self.reduced = self.reduced or (-1,)
        self.put(node("sum", (self.put(node("multiply", (x, y))),), (self.reduced,)))

    def total(self, x: Node) -> None:
        """What rows give, reduced over all of them."""
        others = tuple(a for a in range(-len(x.shape), 0) if a not in self.reduced)
        self.put(node(self.one_of(("sum", "max", "min")), (self.put(node("abs", (x,))),), (others,)))
        if self.states[[*self.states][-1]].kind != "total":
            raise EqfuseError("no rows")

    def two_products(self, x: Node) -> None:
        self.reduced = (-1,)
        self.multiply(x)
        self.normalise(next(reversed(self.states)))
        self.multiply(next(reversed(self.states)))

    def window(self, x: Node) -> None:
        k = int(self.rng.integers(1, 3))
        window, strides = (tuple(int(self.rng.integers(1, 4)) for _ in range(k)) for _ in range(2))
        padding = tuple((int(self.rng.integers(2)), int(self.rng.integers(2))) for _ in range(k))
        if len(x.shape) == 4:
            weight = self.new((int(self.one_of((1, 2, 5))), x.shape[1], *window), x.dtype.name)
            k = 2
            self.put(node("conv", (x, weight), (strides * (3 - len(strides)), padding * (3 - len(padding)), (1, 1), 1)))
        else:
            self.put(node(self.one_of(("window_max", "window_sum")), (x,), (window, strides, padding)))

    def library(self, x: Node) -> None:
        axis = -1 - int(self.rng.integers(max(len(x.shape), 1)))
        if self.chance(5):
            self.put(node("cumsum", (x,), (axis,)))
        else:
            self.put(node("concat", (x, x), (axis,)))

    def body(self) -> tuple[str, Graph] | None:
        """The kind of kernel and its body: the last value and others that one kernel computes with it."""
        values = [n for n in self.states if n.args]
        if not values or self.states[values[-1]].is_view:
            return None
        outputs, state = [values[-1]], self.states[values[-1]]
        for n in values[:-1]:
            merged = merge(state, self.states[n], self.device) if self.chance(2) and not self.states[n].is_view else ""
            if isinstance(merged, State):
                outputs, state = [*outputs, n], merged
        graph = Graph(tuple(self.inputs), tuple(outputs))
        used = set(graph.nodes)
        return state.kind, Graph(tuple(i for i in self.inputs if i in used), tuple(outputs))

