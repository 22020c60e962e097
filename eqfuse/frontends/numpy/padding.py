"""np.pad, one axis after the other: what each mode puts before and after the array.

In: array-function calls on tracers. Out: pads by a constant, joined pieces, or gathers where these are many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.constant_indices import picked
from eqfuse.frontends.numpy.manipulation import broadcast_to, concatenate
from eqfuse.frontends.numpy.promotion import elementwise, holds_tracer, lift, storable
from eqfuse.frontends.numpy.ranges import linspace
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import constant_of

Pair = tuple[Any, Any]
_KEYWORD = {
    "empty": None, "edge": None, "wrap": None, "constant": "constant_values", "linear_ramp": "end_values",
    "maximum": "stat_length", "mean": "stat_length", "median": "stat_length", "minimum": "stat_length",
    "reflect": "reflect_type", "symmetric": "reflect_type",
}  # fmt: skip
_STATISTICS: dict[str, Any] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Tracer:
    x = lift(array)
    if callable(mode):
        raise UnsupportedOp("np.pad with a function writes into slices of the result; name one of its modes instead")
    if mode not in _KEYWORD:
        raise ShapeError(f"np.pad: mode must be one of {', '.join(_KEYWORD)}, not {mode!r}")
    if set(options) - {_KEYWORD[mode]}:
        raise ShapeError(f"np.pad with mode={mode!r} does not take {', '.join(sorted(set(options)))}")
    argument: Any
    (argument,) = options.values() or (0 if mode in ("constant", "linear_ramp") else None,)
    widths = _widths(pad_width, x.ndim)
    if mode == "empty" or (mode == "constant" and np.ndim(argument) == 0):
        value = storable(lift(argument if mode == "constant" else 0), x.dtype)
        return wrap(tidy.pad(x.node, tidy.cast(value.node, x.dtype), widths))
    for axis, width in enumerate(widths):
        if x.shape[axis] == 0 and any(width) and mode != "constant":
            raise ShapeError(f"np.pad: axis {axis} is empty, and mode {mode!r} has nothing to extend")
    if x.size == 0 and mode != "constant":
        return wrap(tidy.pad(x.node, lift(0).astype(x.dtype).node, widths))
    arguments = [argument] * x.ndim if mode in ("reflect", "symmetric", "edge", "wrap") else _pairs(argument, x.ndim)
    for axis, (width, one) in enumerate(zip(widths, arguments, strict=True)):
        if width != (0, 0):
            x = _extended(x, axis, width, mode, one)
    return x.copy()


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, Mapping):
        by_axis: list[Any] = [(0, 0)] * rank
        for axis, width in pad_width.items():
            by_axis[axis] = (width, width) if isinstance(width, int) else tuple(width)
        pad_width = by_axis
    widths = constant_of(pad_width, "the width given to np.pad")
    if widths.dtype.kind != "i":
        raise ShapeError("np.pad: pad_width must be integers")
    if (widths < 0).any():
        raise ShapeError("np.pad: pad_width cannot be negative; slice the array instead")
    return [(int(before), int(after)) for before, after in _pairs(widths, rank)]


def _pairs(value: Any, rank: int) -> list[Pair]:
    """`value` for each axis, before and after it."""
    if value is None:
        return [(None, None)] * rank
    try:
        spread = lazy.broadcast_to(lift(value) if holds_tracer(value) else value, (rank, 2))
    except (ValueError, ShapeError):
        raise ShapeError(f"np.pad: {value!r} does not broadcast to (before, after) of {rank} axes") from None
    return [(before, after) for before, after in spread]


def _extended(x: Tracer, axis: int, width: tuple[int, int], mode: str, argument: Any) -> Tracer:
    n = x.shape[axis]
    if mode == "edge" or (mode in ("reflect", "symmetric") and n == 1):
        return _taken(x, axis, np.pad(np.arange(n), width, "edge"))
    if mode == "wrap" or (mode in ("reflect", "symmetric") and argument in (None, "even")):
        return _taken(x, axis, np.pad(np.arange(n), width, mode))  # type: ignore[call-overload]
    if mode in ("reflect", "symmetric"):
        return _reflected(x, axis, width, mode == "symmetric")
    side: Callable[[int], Tracer] = {
        "constant": lambda s: _block(storable(lift(argument[s]), x.dtype), x, axis, width[s]),
        "linear_ramp": lambda s: _ramp(x, axis, width[s], lift(argument[s]), s == 0),
    }.get(mode) or (lambda s: _statistic(x, axis, width[s], mode, argument[s], s == 0))
    return concatenate((side(0), x, side(1)), axis)


def _taken(x: Tracer, axis: int, places: np.ndarray) -> Tracer:
    pieces = picked(x.node, places, axis - x.ndim)
    return lazy.take(x, places, axis) if pieces is None else wrap(pieces)


def _part(x: Tracer, axis: int, part: slice) -> Tracer:
    return x[(*[slice(None)] * axis, part)]


def _block(value: Tracer, x: Tracer, axis: int, width: int) -> Tracer:
    """`value` as `width` elements of `x` along `axis`."""
    return broadcast_to(value.astype(x.dtype), (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def _ramp(x: Tracer, axis: int, width: int, end: Tracer, before: bool) -> Tracer:
    """From `end` up to the edge of `x`, which it leaves out."""
    edge = lazy.squeeze(_part(x, axis, slice(0, 1) if before else slice(-1, None)), axis)
    ramp = linspace(end, edge, width, endpoint=False, dtype=x.dtype, axis=axis)
    return ramp if before else lazy.flip(ramp, axis)


def _statistic(x: Tracer, axis: int, width: int, mode: str, length: Any, before: bool) -> Tracer:
    n = x.shape[axis]
    m = n if length is None else min(int(constant_of(length, "the stat_length given to np.pad")), n)
    if m <= 0:
        raise ShapeError(f"np.pad: stat_length must be positive, not {m}")
    value = _STATISTICS[mode](_part(x, axis, slice(0, m) if before else slice(n - m, None)), axis=axis, keepdims=True)
    if x.dtype.kind in "iu" and value.dtype.kind == "f":
        value = elementwise("round", value)
    return _block(value, x, axis, width)


def _reflected(x: Tracer, axis: int, width: tuple[int, int], include_edge: bool) -> Tracer:
    """The reflection about the edge's value, as often as the width needs it."""
    before, after = width
    period = x.shape[axis]
    while before or after:
        n = x.shape[axis]
        reach = n // period * period if include_edge else (n - 1) // (period - 1) * (period - 1)
        skip = 0 if include_edge else 1
        left, right = min(reach, before), min(reach, after)
        flipped = lazy.flip(x, axis)
        pieces = [x]
        if left:
            chunk = _part(flipped, axis, slice(n - skip - left, n - skip))
            pieces.insert(0, (2 * _part(x, axis, slice(0, 1)) - chunk).astype(x.dtype))
        joined = concatenate(pieces, axis)
        if right:
            # the right side reflects what the left side has just become
            chunk = _part(lazy.flip(joined, axis), axis, slice(skip, skip + right))
            chunk = 2 * _part(joined, axis, slice(-1, None)) - chunk
            joined = concatenate((joined, chunk.astype(x.dtype)), axis)
        x, before, after = joined, before - left, after - right
    return x
