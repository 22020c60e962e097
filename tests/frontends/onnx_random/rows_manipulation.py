"""Operators that move data without looking at it: how their nodes are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.frontends.onnx_random.draw import F32, I64, Draw
from tests.frontends.onnx_random.numbers import EXACT, ROUNDED
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row


def vector(d: Draw, numbers: Any, dtypes: tuple[str, ...] = ("int64",)) -> DrawnValue:
    return d.const(np.array(numbers, d.pick(dtypes)))


@row("Constant", rounding=EXACT)
def constant(d: Draw) -> NodeSpec:
    array = d.numbers(d.pick((F32, I64)), d.shape())
    choices: list[dict[str, Any]] = [{"value": onnx.numpy_helper.from_array(array)}]
    if d.opset >= 12:
        choices += [{"value_float": 1.5}, {"value_int": -3}, {"value_floats": [0.5, -2.0]}, {"value_ints": [3, 0]}]
    return NodeSpec([], d.pick(choices))


@row("ConstantOfShape", rounding=EXACT)
def constant_of_shape(d: Draw) -> NodeSpec:
    fill = d.numbers(d.pick((F32, I64)), (1,))
    return NodeSpec([vector(d, d.shape())], d.optional(value=onnx.numpy_helper.from_array(fill)))


@row("Shape", rounding=EXACT, judge="onnxruntime")
def shape(d: Draw) -> NodeSpec:
    x = d.value()
    if d.opset < 15:
        return NodeSpec([x], {})
    return NodeSpec([x], d.optional(start=d.integer(-x.rank - 2, x.rank + 1), end=d.integer(-x.rank - 2, x.rank + 1)))


@row("Size", rounding=EXACT)
def size(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], {})


@row("Range", rounding=ROUNDED)
def range_(d: Draw) -> NodeSpec:
    dtype = d.dtype()
    step = d.pick((-3, -1, 1, 2) if dtype.kind in "iu" else (-1.5, -0.5, 0.25, 1, 2))
    start, limit = d.integer(-5, 5), d.integer(-5, 9)
    return NodeSpec([d.const(np.asarray(n).astype(dtype)) for n in (start, limit, step)], {})


@row("EyeLike", rounding=EXACT)
def eye_like(d: Draw) -> NodeSpec:
    x = d.value(rank=2)
    return NodeSpec([x], d.optional(k=d.integer(-3, 3), dtype=d.pick((1, 6, 7, 11))))


# ---- the same elements in another shape


@row("Reshape", rounding=EXACT)
def reshape(d: Draw) -> NodeSpec | None:
    x = d.value()
    wanted = d.factors(x.size, d.integer(0 if x.size == 1 else 1, 4))
    if wanted is None:
        return None
    shape = list(wanted)
    for a, n in enumerate(shape):
        if a < x.rank and x.shape[a] == n and d.chance(0.4):
            shape[a] = 0
    if x.size and shape and d.chance(0.4):
        shape[d.integer(0, len(shape) - 1)] = -1
    zero = d.opset >= 14 and 0 not in shape and d.chance(0.3)
    if not x.size:  # no 0 may be taken for a copied extent
        return NodeSpec([x, vector(d, wanted)], {"allowzero": 1}) if d.opset >= 14 else None
    return NodeSpec([x, vector(d, shape)], {"allowzero": 1} if zero else {})


@row("Flatten", rounding=EXACT)
def flatten(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    return NodeSpec([x], d.optional(0.7, axis=d.integer(-x.rank if d.opset >= 11 else 0, x.rank)))


def axes_given(d: Draw, x: DrawnValue, axes: list[int] | None) -> NodeSpec:
    """As an attribute, or from opset 13 on as an input."""
    if axes is None:
        return NodeSpec([x], {})
    if d.opset < 11:
        return NodeSpec([x], {"axes": axes})
    return NodeSpec([x], {"axes": axes}) if d.opset < 13 else NodeSpec([x, vector(d, axes)], {})


@row("Squeeze", rounding=EXACT)
def squeeze(d: Draw) -> NodeSpec:
    x = d.value()
    ones = [a for a in range(x.rank) if x.shape[a] == 1]
    chosen = [a for a in ones if d.chance(0.6)]
    if d.opset >= 11:
        chosen = [a - x.rank if d.chance(0.5) else a for a in chosen]
    return axes_given(d, x, chosen if chosen and d.chance(0.7) else None)


@row("Unsqueeze", rounding=EXACT, judge="onnxruntime")  # the reference takes one axis after the other
def unsqueeze(d: Draw) -> NodeSpec:
    x = d.value(rank=(0, 1, 2, 3))
    count = d.integer(1, 2)
    axes = [int(a) for a in d.rng.permutation(x.rank + count)[:count]]
    if d.opset >= 11:
        axes = [a - x.rank - count if d.chance(0.4) else a for a in axes]
    else:
        axes.sort()
    return axes_given(d, x, axes)


@row("Transpose", rounding=EXACT)
def transpose(d: Draw) -> NodeSpec:
    x = d.value()
    return NodeSpec([x], d.optional(0.8, perm=d.rng.permutation(x.rank).tolist()) if x.rank else {})


@row("Expand", rounding=EXACT)
def expand(d: Draw) -> NodeSpec:
    x = d.value()
    shape = [d.pick((1, n)) if n != 1 else d.extent() for n in x.shape]
    if d.chance(0.3):
        shape = [d.integer(1, 3), *shape]
    elif d.chance(0.3):
        shape = shape[1:]
    return NodeSpec([x, vector(d, shape)], {})


@row("Tile", rounding=EXACT)
def tile(d: Draw) -> NodeSpec:
    x = d.value(ok=lambda v: v.size < 100)
    return NodeSpec([x, vector(d, [d.pick((1, 2, 3, 0) if d.empty else (1, 2, 3)) for _ in x.shape])], {})


@row("DepthToSpace", rounding=EXACT)
def depth_to_space(d: Draw) -> NodeSpec:
    k = d.integer(1, 3)
    x = d.new(d.numbers(d.dtype(), (d.extent(), d.integer(1, 2) * k * k, d.extent(), d.extent())))
    return NodeSpec([x], {"blocksize": k, **(d.optional(mode=d.pick(("DCR", "CRD"))) if d.opset >= 11 else {})})


@row("SpaceToDepth", rounding=EXACT)
def space_to_depth(d: Draw) -> NodeSpec:
    k = d.integer(1, 3)
    x = d.new(d.numbers(d.dtype(), (d.extent(), d.extent(), k * d.integer(1, 2), k * d.integer(1, 3))))
    return NodeSpec([x], {"blocksize": k, **(d.optional(mode=d.pick(("DCR", "CRD"))) if d.opset >= 28 else {})})


# ---- parts and joins


@row("Slice", rounding=EXACT, judge="onnxruntime")  # the reference takes the bounds as Python does
def slice_(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    every = d.chance(0.4)
    axes = list(range(d.integer(1, x.rank))) if every else d.axes(x, 1)
    if d.opset < 11:
        axes = [a % x.rank for a in axes]
    far = (-(2**31), -100, 100, 2**31 - 2)
    steps = [d.pick((1, 2, 3, -1, -2)) if d.opset >= 10 else 1 for _ in axes]

    def bound(axis: int) -> int:
        n = x.shape[axis]
        return d.pick(far) if d.chance(0.2) else d.integer(-n - 2, n + 2)

    starts, ends = [bound(a) for a in axes], [bound(a) for a in axes]
    if d.opset < 10:
        return NodeSpec([x], {"starts": starts, "ends": ends, **({} if every else {"axes": axes})})
    kinds = ("int64",) if d.chance(0.7) else ("int32",)
    given = None if every else vector(d, axes, kinds)
    stepped = vector(d, steps, kinds) if any(s != 1 for s in steps) or d.chance(0.3) else None
    return NodeSpec([x, vector(d, starts, kinds), vector(d, ends, kinds), given, stepped], {})


@row("Split", rounding=EXACT)
def split(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)
    n = x.shape[axis]
    count = d.integer(1, 3)
    options = {"axis": axis} if axis or d.chance(0.5) else {}
    if d.chance(0.5):
        cuts = np.sort(d.rng.integers(0, n + 1, count - 1))
        sizes = np.diff([0, *cuts, n]).tolist()
        if d.opset < 13:
            return NodeSpec([x], {**options, "split": sizes}, count)
        return NodeSpec([x, vector(d, sizes)], options, count)
    if d.opset >= 18:
        count = d.pick([c for c in (1, 2, 3, 4) if c == 1 or -(-n // c) * (c - 1) < n])
        return NodeSpec([x], {**options, "num_outputs": count}, count)
    return NodeSpec([x], options, d.pick([c for c in (1, 2, 3, 4) if n % c == 0]))


@row("Concat", rounding=EXACT)
def concat(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)

    def more() -> DrawnValue:
        shape = list(x.shape)
        shape[axis] = d.extent()
        return d.like(x, tuple(shape))

    return NodeSpec([x, *(more() for _ in range(d.integer(0, 2)))], {"axis": axis})


@row("CenterCropPad", rounding=EXACT)
def center_crop_pad(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    axes = d.axes(x, 1) if d.chance(0.5) else None
    count = x.rank if axes is None else len(axes)
    kinds = ("int64", "int32")
    extents = vector(d, [d.integer(1, 6) for _ in range(count)], kinds)
    return NodeSpec([x, extents], {} if axes is None else {"axes": axes})


@row("Pad", rounding=EXACT)
def pad(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: 0 not in v.shape or d.opset < 0)
    mode = d.pick(("constant", "reflect", "edge", *(("wrap",) if d.opset >= 19 else ())))
    axes = d.axes(x, 1) if d.opset >= 18 and d.chance(0.4) else None
    along = list(range(x.rank)) if axes is None else axes
    taken = [d.integer(0, (x.shape[a] - 1) // 2) if d.chance(0.15) else 0 for a in along * 2]
    left = [x.shape[a] - taken[i] - taken[i + len(along)] for i, a in enumerate(along)]
    most = {"reflect": [n - 1 for n in left], "wrap": left}.get(mode, [3] * len(along))
    pads = [-n if n else d.integer(0, m) for n, m in zip(taken, most * 2, strict=True)]
    options = {"mode": mode} if mode != "constant" or d.chance(0.3) else {}
    if d.opset < 11:
        return NodeSpec([x], {**options, "pads": pads, **d.optional(value=d.real(-2, 2))})
    fill = d.const(d.numbers(x.dtype, ())) if mode == "constant" and d.chance(0.6) else None
    return NodeSpec([x, vector(d, pads), fill, None if axes is None else vector(d, axes)], options)


@row("Trilu", rounding=EXACT)
def trilu(d: Draw) -> NodeSpec:
    x = d.value(rank=(2, 3, 4))
    k = d.const(np.int64(d.integer(-4, 4))) if d.chance(0.6) else None
    return NodeSpec([x, k], d.optional(upper=d.integer(0, 1)))
