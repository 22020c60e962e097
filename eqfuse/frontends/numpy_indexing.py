"""NumPy's indexing: slices, integers, new axes and integer arrays; take and take_along_axis.

In: an index of a tracer. Out: slice, flip and reshape for basic indices, take for integer arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends import tidy
from eqfuse.frontends.numpy_layout import broadcast_shape, broadcast_to, moveaxis
from eqfuse.frontends.numpy_reductions import negative_axes
from eqfuse.frontends.promotion import elementwise, lift
from eqfuse.frontends.registry import implements
from eqfuse.ir import Literal, node
from eqfuse.tracer import Tracer, lazy, wrap


def index(x: Tracer, key: Any) -> Tracer:
    """``x[key]``: the basic part as views first, then one take for the integer arrays."""
    parts = _expanded(x, key if isinstance(key, tuple) else (key,))
    ranges: list[tuple[int, int, int]] = []
    flipped: list[int] = []
    shape: list[int] = []
    arrays: list[tuple[int, Tracer]] = []  # place in `shape`, indices
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        if isinstance(part, slice):
            r = range(*_bounds(part).indices(extent))
            if r.step < 0:
                flipped.append(axis - x.ndim)
                r = r[::-1]
            ranges.append((r.start, max(r.start, r.stop), r.step))
            shape.append(len(r))
        elif isinstance(part, Tracer):
            ranges.append((0, extent, 1))
            arrays.append((len(shape), part))
            shape.append(extent)
        else:
            at = part.__index__()
            if not -extent <= at < extent:
                raise ShapeError(f"index {at} is out of bounds for axis {axis} with extent {extent}")
            ranges.append((at % extent, at % extent + 1, 1))
        axis += 1
    viewed = tidy.flip(tidy.slice_(x.node, ranges), flipped)
    result = wrap(tidy.reshape(viewed, tuple(shape)), base=x)
    return _gather(result, arrays) if arrays else result


def _bounds(part: slice) -> slice:
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, Tracer):
            raise TraceError("a slice bound is a traced value: the result's shape would depend on data. "
                             "Name the argument in static_argnames, or use np.where with a mask")  # fmt: skip
    return part


def _expanded(x: Tracer, key: tuple) -> list[Any]:
    """`key` with one entry per axis of `x` (and None for new axes); arrays as tracers, constant masks as indices."""
    parts: list[Any] = []
    for part in key:
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
        elif isinstance(part, (bool, np.bool_)):
            raise UnsupportedOp("indexing with a Python bool cannot be traced; use x[None] or np.where")
        elif isinstance(part, (int, np.integer)):
            parts.append(int(part))
        else:
            parts.extend(_array_index(part))
    covered = sum(part is not None and part is not Ellipsis for part in parts)
    if covered > x.ndim or sum(part is Ellipsis for part in parts) > 1:
        raise ShapeError(f"too many indices: {covered} for an array of shape {x.shape}")
    rest = [slice(None)] * (x.ndim - covered)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    parts = parts + rest if at is None else parts[:at] + rest + parts[at + 1 :]
    return _with_scalars_as_arrays(parts)


def _with_scalars_as_arrays(parts: list[Any]) -> list[Any]:
    """Integers apart from integer arrays, by a slice, count among them: the gathered axes then come first."""
    places = [i for i, part in enumerate(parts) if isinstance(part, (int, Tracer))]
    apart = places and places != list(range(places[0], places[-1] + 1))
    if not apart or not any(isinstance(part, Tracer) for part in parts):
        return parts
    return [lift(part) if isinstance(part, int) else part for part in parts]


def _array_index(part: Any) -> list[Any]:
    if isinstance(part, (list, tuple)) and len(part) == 0:
        part = np.zeros(0, np.intp)
    if not isinstance(part, Tracer) and np.asarray(part).dtype.kind == "b":
        return [lift(i) for i in np.nonzero(part)]
    indices = lift(part)
    if indices.dtype.kind == "b":
        raise TraceError(
            "indexing with a traced boolean mask: the result's shape would depend on data. "
            "Use np.where(mask, x, fill), or multiply by the mask before a reduction"
        )
    if indices.dtype.kind not in "iu":
        raise ShapeError(f"arrays used as indices must be integers, not {indices.dtype}")
    return [indices]


def _gather(x: Tracer, arrays: list[tuple[int, Tracer]]) -> Tracer:
    """Integer arrays along the axes they stand at, broadcast together as NumPy does."""
    axes = [axis for axis, _ in arrays]
    if len(arrays) == 1:
        return take(x, arrays[0][1], axes[0])
    together = axes == list(range(axes[0], axes[-1] + 1))
    at = axes[0] if together else 0
    moved = moveaxis(x, axes, range(at, at + len(axes)))
    extents = moved.shape[at : at + len(axes)]
    size = int(np.prod(extents))
    shape = broadcast_shape([indices for _, indices in arrays])
    flat: Any = 0
    inside: Tracer | None = None
    for (_, indices), extent in zip(arrays, extents, strict=True):
        known = _known(_checked(indices, extent))
        if known is None:
            i = indices.astype(np.intp)
            within = (i >= -extent) & (i < extent)
            inside = within if inside is None else inside & within
            flat = flat * extent + elementwise("where", i < 0, i + extent, i)
        else:
            flat = flat * extent + known % extent
    if inside is not None:
        flat = elementwise("where", inside, flat, size)  # out of bounds along one axis stays out of bounds
    merged = moved.reshape((*moved.shape[:at], size, *moved.shape[at + len(axes) :]))
    return take(merged, broadcast_to(flat, shape), at)


def _known(indices: Tracer) -> np.ndarray | None:
    """The values of constant indices."""
    (literal,) = indices.node.attrs if indices.node.op == "const" else (None,)
    return literal.array.astype(np.intp) if isinstance(literal, Literal) else None


def _checked(indices: Tracer, extent: int) -> Tracer:
    """`indices`; ShapeError when they are known and leave `extent`."""
    known = _known(indices)
    if known is not None and known.size and not (-extent <= known.min() and known.max() < extent):
        outside = known.min() if known.min() < -extent else known.max()
        raise ShapeError(f"index {outside} is out of bounds for extent {extent}")
    return indices


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Tracer:
    x, at = lift(a), lift(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    (along,) = negative_axes(axis, x.ndim)
    extent = x.shape[along]
    if at.dtype.kind not in "iu":
        raise ShapeError(f"np.take needs integer indices, not {at.dtype}")
    if mode == "wrap":
        at = at % extent
    elif mode == "clip":
        at = lazy.clip(at, 0, extent - 1)
    elif mode != "raise":
        raise ShapeError(f"np.take: mode must be raise, wrap or clip, not {mode!r}")
    return wrap(node("take", (x.node, _checked(at, extent).node), (along,)))


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tracer:
    x, at = lift(arr), lift(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if at.ndim != x.ndim:
        raise ShapeError(f"np.take_along_axis: indices of shape {at.shape} and array of shape {x.shape} differ in rank")
    (along,) = negative_axes(axis, x.ndim)
    rest_of_x = tuple(1 if i - x.ndim == along else n for i, n in enumerate(x.shape))
    rest = np.broadcast_shapes(rest_of_x, tuple(1 if i - x.ndim == along else n for i, n in enumerate(at.shape)))

    def fitted(t: Tracer) -> Tracer:
        return broadcast_to(t, tuple(t.shape[i] if i - x.ndim == along else n for i, n in enumerate(rest)))

    return wrap(node("take_along_axis", (fitted(x).node, fitted(_checked(at, x.shape[along])).node), (along,)))
