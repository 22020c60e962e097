"""Operators that read or write at places given by data: how their nodes are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.frontends.onnx_random.draw import F32, I32, I64, Draw, Shape
from tests.frontends.onnx_random.numbers import EXACT
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row


def places(d: Draw, shape: Shape, extent: int, negative: bool = True) -> DrawnValue:
    """Indices of an axis, perhaps an input of the model."""
    array = d.rng.integers(-extent if negative and d.opset >= 11 else 0, extent, shape)
    return d.new(np.asarray(array).astype(d.pick((I64, I32))))


def inside(x: np.ndarray, indices: np.ndarray, axis: int = 0, **_: Any) -> bool:
    n = x.shape[axis]
    return bool((indices >= -n).all() and (indices < n).all())


@row("Gather", rounding=EXACT, domain=inside)
def gather(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    axis = d.axis(x)
    return NodeSpec(
        [x, places(d, d.shape(d.integer(0, 2)), x.shape[axis])], {"axis": axis} if axis or d.chance(0.5) else {}
    )


@row("GatherElements", rounding=EXACT, domain=inside)
def gather_elements(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    axis = d.axis(x)
    shape = [d.integer(1, n) for n in x.shape]
    shape[axis] = d.extent()
    return NodeSpec([x, places(d, tuple(shape), x.shape[axis])], {"axis": axis} if axis or d.chance(0.5) else {})


def many(d: Draw, x: DrawnValue, lead: Shape, batch: int = 0) -> np.ndarray:
    """Index tuples of some length into the axes of `x` after the first `batch`."""
    length = d.integer(1, x.rank - batch)
    indices = [d.rng.integers(-n if d.opset >= 11 else 0, n, lead) for n in x.shape[batch : batch + length]]
    return np.stack(indices, -1).astype(np.int64)


@row("GatherND", rounding=EXACT)
def gather_nd(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4), ok=lambda v: v.size)
    batch = d.integer(0, min(2, x.rank - 1)) if d.opset >= 12 else 0
    indices = many(d, x, (*x.shape[:batch], *d.shape(d.integer(0, 2))), batch)
    return NodeSpec([x, d.new(indices)], {"batch_dims": batch} if batch or (d.opset >= 12 and d.chance(0.3)) else {})


def reductions(d: Draw, x: DrawnValue) -> str:
    choices = ["none"]
    if d.opset >= 16 and x.dtype.kind != "b":
        choices += ["add", "mul"]
    if d.opset >= 18 and x.dtype.kind != "b":
        choices += ["max", "min"]
    return str(d.pick(choices))


@row("Scatter", rounding=EXACT, until=10)
@row("ScatterElements", finite=True)
def scatter_elements(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    axis, reduction = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1), reductions(d, x)
    shape = [d.integer(1, n) for n in x.shape]
    n = x.shape[axis]
    if reduction == "none":  # each place once
        order = np.argsort(d.rng.random((*shape, n)), -1)
        flat = np.stack([order.reshape(-1, n)[0][: shape[axis]]], 0)
        positions = np.broadcast_to(flat.reshape([-1 if a == axis % x.rank else 1 for a in range(x.rank)]), shape)
    else:
        positions = d.rng.integers(0, n, shape)
    positions = np.where(d.rng.random(shape) < 0.3, positions - n, positions) if d.opset >= 11 else positions
    indices = d.new(np.ascontiguousarray(positions).astype(d.pick((I64, I32))))
    options = {"axis": axis} if axis or d.chance(0.5) else {}
    options |= {} if reduction == "none" else {"reduction": reduction}
    return NodeSpec([x, indices, d.like(x, tuple(shape))], options)


@row("ScatterND", finite=True)
def scatter_nd(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    reduction = reductions(d, x)
    lead = d.shape(d.integer(0, 2))
    length = d.integer(1, x.rank)
    room = math.prod(x.shape[:length])
    count = math.prod(lead)
    if reduction == "none":
        if count > room:
            lead, count = (room,), room
        flat = d.rng.permutation(room)[:count]
    else:
        flat = d.rng.integers(0, room, count)
    positions = np.stack(np.unravel_index(flat.reshape(lead), x.shape[:length]), -1)
    if d.opset >= 11:
        positions = np.where(d.rng.random(positions.shape) < 0.3, positions - np.array(x.shape[:length]), positions)
    updates = d.like(x, (*lead, *x.shape[length:]))
    options = {} if reduction == "none" else {"reduction": reduction}
    return NodeSpec([x, d.new(positions.astype(np.int64)), updates], options)


@row("TensorScatter", rounding=EXACT)
def tensor_scatter(d: Draw) -> NodeSpec:
    cache = d.value(rank=(3, 4), ok=lambda v: v.size)
    axis = d.pick([a for a in range(-cache.rank, cache.rank) if a % cache.rank])
    n = cache.shape[axis]
    length = d.integer(1, n)
    update = list(cache.shape)
    update[axis] = length
    mode = d.pick(("linear", "circular"))
    start = d.rng.integers(0, n if mode == "circular" else n - length + 1, cache.shape[0])
    given = d.new(start.astype(np.int64)) if d.chance(0.7) else None
    return NodeSpec(
        [cache, d.like(cache, tuple(update)), given], {"axis": axis, **({"mode": mode} if mode != "linear" else {})}
    )


def chooser(opset: int, indices: np.ndarray, depth: np.ndarray, values: np.ndarray, **_: Any) -> str | None:
    """The reference adds differences."""
    return "onnxruntime" if values.dtype.kind == "f" else None


@row("OneHot", rounding=EXACT, finite=True, judge=chooser)
def one_hot(d: Draw) -> NodeSpec:
    depth = d.integer(1, 6)
    kind = d.pick((I64, I64, I32, F32))  # onnxruntime has few more, and the reference no attribute
    low = -depth - 1 if d.opset >= 11 else 0
    indices = d.new(d.rng.integers(low, depth + 2, d.shape(d.integer(1, 2))).astype(kind))
    values = d.new(d.numbers(d.pick((F32, I64, I32)), (2,)))
    size = np.asarray(depth, d.pick((I64, I32, F32)))
    return NodeSpec([indices, d.const(size.reshape(1) if d.chance(0.3) else size), values],
                d.optional(axis=d.integer(-indices.rank - 1, indices.rank)))  # fmt: skip


@row("Compress", rounding=EXACT)
def compress(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3))
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)
    options = d.optional(0.6, axis=axis)
    n = x.shape[options["axis"]] if options else x.size
    return NodeSpec([x, d.const(d.rng.random(d.integer(0, n)) < 0.5)], options)


@row("ReverseSequence", rounding=EXACT)
def reverse_sequence(d: Draw) -> NodeSpec:
    x = d.value(rank=(2, 3, 4), ok=lambda v: v.size)
    batch = d.integer(0, 1)
    lengths = d.rng.integers(1, x.shape[1 - batch] + 1, x.shape[batch])
    options = {"batch_axis": batch, "time_axis": 1 - batch} if batch == 0 or d.chance(0.3) else {}
    return NodeSpec([x, d.new(lengths.astype(np.int64))], options)
