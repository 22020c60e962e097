"""Judges of derivatives: differences of high order, and the pairing that a transpose keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.gradients.expr import Expr
from eqfuse.gradients.linearise import changes
from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ir.evaluate import values_of
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.types import TensorType

STEPS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences of the sixth order


def difference(function: Callable[..., Any], xs: Sequence[Any], dxs: Sequence[Any], h: float = 1e-3) -> Any:
    """What ``function(*xs)`` changes by along `dxs`, of which None does not change."""

    def moved_by(step: float) -> Any:
        with np.errstate(all="ignore"):
            moved = [x if dx is None else x + step * h * dx for x, dx in zip(xs, dxs, strict=True)]
            return np.asarray(function(*moved))

    return sum(weight * (moved_by(step) - moved_by(-step)) for step, weight in STEPS) / h


def evaluated(n: Node | None, values: dict[Node, np.ndarray]) -> np.ndarray | None:
    if n is None:
        return None
    with np.errstate(all="ignore"):
        return values_of(Graph(tuple(values), (n,)), dict(values))[n]


def tangent(
    op: str, xs: Sequence[np.ndarray], dxs: Sequence[np.ndarray | None], attrs: tuple = ()
) -> np.ndarray | None:
    """The change of ``op(*xs)`` along `dxs`, by the operator's row."""
    inputs = [input_node(f"x{i}", TensorType(x.dtype, x.shape)) for i, x in enumerate(xs)]
    steps = [None if d is None else input_node(f"d{i}", inputs[i].type) for i, d in enumerate(dxs)]
    applied = node(op, inputs, attrs)
    (change,) = changes([applied], {n: d for n, d in zip(inputs, steps, strict=True) if d is not None})
    values = dict(zip(inputs, xs, strict=True)) | {d: x for d, x in zip(steps, dxs, strict=True) if d is not None}
    return evaluated(change, values)


def curvature(op: str, xs: Sequence[float], first: int, second: int) -> float:
    """The derivative of ``op(*xs)`` in its arguments `first` and `second`, by the operator's row and those of what that
    is made of."""
    t = TensorType(np.dtype(float), ())
    inputs, one = [input_node(f"x{i}", t) for i in range(len(xs))], const(np.asarray(1.0))
    slope = changes([node(op, inputs)], {inputs[first]: one})[0]
    change = None if slope is None else changes([slope], {inputs[second]: one})[0]
    value = evaluated(change, {n: np.asarray(x) for n, x in zip(inputs, xs, strict=True)})
    return 0.0 if value is None else float(value)


def pairing(op: str, position: int, xs: Sequence[np.ndarray], y: np.ndarray, attrs: tuple = ()) -> tuple[Any, Any]:
    """<A x, y> and <x, transpose(A) y>, where A is what the argument `position` adds to the result."""
    inputs = [const(x) if i != position else input_node("x", TensorType(x.dtype, x.shape)) for i, x in enumerate(xs)]
    applied = node(op, inputs, attrs)
    transpose = DERIVATIVES[op].transpose
    assert transpose is not None
    back = transpose(applied, position, Expr(const(y))).node
    assert back.type == inputs[position].type
    x, none = {inputs[position]: xs[position]}, {inputs[position]: np.zeros_like(xs[position])}
    return _paired(evaluated(applied, x) - evaluated(applied, none), y), _paired(xs[position], evaluated(back, x))


def _paired(a: Any, b: Any) -> Any:
    return np.sum((a.astype(complex) * b).real) if a.dtype.kind == "c" else np.sum(a.astype(float) * b)


def whole_numbers(t: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Small whole numbers without zero."""
    def drawn() -> np.ndarray:
        return rng.choice([-2.0, -1.0, 1.0, 2.0, 4.0], t.shape)

    return np.asarray(drawn() + 1j * drawn() if t.dtype.kind == "c" else drawn()).astype(t.dtype)
