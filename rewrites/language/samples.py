"""Random attributes for generated tests: axes, permutations, shapes, slices, strides that fit given argument types.

In: an operator, the name of one of its attributes, argument types. Out: a value that often, not always, fits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any

import numpy as np

from eqfuse.dtypes import TENSORS
from eqfuse.errors import LawError
from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.match import Decline
from eqfuse.rewrites.language.term import VARIABLE, Term

_COUNTS = (1, 2, 3, 4, 6, 8, 9)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "density": (False, True),
    "full_matrices": (False, True),
    "length": _COUNTS,
    "method": ("linear", "lower", "higher", "nearest"),
    "n": _COUNTS,
    "norm": (None, "backward", "ortho", "forward"),
    "order": ("1", "2", "inf", "fro"),
    "period": (None, 1.0, 2.0),
    "range": (None, (0.0, 1.0)),
    "rank": (1, 2),
    "right": (False, True),
    "side": ("left", "right"),
    "stable": (False, True),
    "triangle": ("L", "U"),
    "ufunc": ("add", "multiply", "maximum", "minimum", "logical_or", "bitwise_xor"),
    "upper": (False, True),
    "weighted": (False, True),
}  # by attribute; the others depend on the arguments
_MODES = {"qr": ("reduced", "complete"), "scatter": ("set", "add", "multiply", "maximum")}
_DTYPES = (*TENSORS, *map(np.dtype, ("float16", "float32", "float64", "int32", "int64", "bool")))


def own_dtypes(terms: Iterable[Term]) -> dict[str, np.dtype]:
    """The dtype of each variable that stands where `terms` want one of its own."""
    places = ((a.name, row(t.op).own_dtype(i)) for t in terms for i, a in enumerate(t.args) if a.op == VARIABLE)
    return {name: dtype for name, dtype in places if dtype is not None}


def sample_attr(op: str, name: str, types: list[TensorType], before: tuple, dtype: np.dtype, rng: random.Random) -> Any:
    """A value for attribute `name` of `op`, whose earlier attributes are `before`. Raises Decline where none exists."""
    if op in LOOPS or op in ("loop_result", "pure_callback"):  # no law is about them
        raise Decline
    if op == "const":
        return Literal(_constant(rng).astype(dtype))
    if name == "dtype":
        return rng.choice(_DTYPES)
    t = types[0]
    if op.startswith("histogram") and name in ("bins", "ranges"):
        return rng.choice((1, 2, 3) if op == "histogram_bin_edges" else ((2,), (3,))) if name == "bins" else (None,)
    if name in _CHOICES:
        return rng.choice(_CHOICES[name])
    if name == "mode":
        return rng.choice(_MODES.get(op, ("full", "same", "valid")))
    if name == "groups":
        return rng.choice((1, 1, 1, 2))
    if name in ("window", "strides", "padding", "dilations"):
        return _window_attr(op, name, t, before, rng)
    if name == "shape":
        return _broadcast_shape(t, rng) if op == "broadcast_to" else _reshape_shape(t, rng)
    if t.rank == 0:
        if name in ("axes", "ranges", "widths", "windows"):
            return ()
        if name == "slices":
            return ((),) * len(types[1:])
        raise Decline
    if name == "axis":
        return rng.randrange(-t.rank, 0)
    if name == "axes":
        if op == "transpose":
            return _permutation(t.rank, rng)
        if op.startswith("arg"):
            return (rng.randrange(-t.rank, 0),)
        return tuple(sorted(rng.sample(range(-t.rank, 0), rng.randint(1, t.rank))))
    if name == "ranges":
        return _ranges(t, rng)
    if name == "slices":
        return tuple(_ranges_for(value, t, rng) for value in types[1:])
    if name == "widths":
        return tuple((rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 1))) for _ in t.shape)
    if name == "windows":
        axis = rng.randrange(-t.rank, 0)
        return ((axis, rng.randint(0, t.shape[axis])),)
    if name == "kth":
        return (rng.randrange(-t.shape[before[0]], t.shape[before[0]]),) if t.shape[before[0]] else ()
    raise LawError(f"rewrites/language/samples.py draws no values of the attribute {name!r} of {op}")


def _constant(rng: random.Random) -> np.ndarray:
    """A number; sometimes an identity matrix, or the filters that leave an image as it is."""
    form, n = rng.random(), rng.choice((1, 2, 3))
    if form < 0.6:
        return np.asarray(rng.choice((*_COUNTS, 0, 0.5, -2)))
    if form < 0.7:
        return np.eye(n)
    kernel = tuple(rng.choice((1, 3)) for _ in range(rng.choice((1, 2))))
    filters = np.zeros((n, n, *kernel))
    middle: tuple[Any, ...] = (range(n), range(n), *(k // 2 for k in kernel))
    filters[middle] = 1
    return filters


def _permutation(rank: int, rng: random.Random) -> tuple[int, ...]:
    if rank >= 2 and rng.random() < 0.4:
        return (*range(rank - 2), rank - 1, rank - 2)
    return tuple(rng.sample(range(rank), rank))


def _reshape_shape(t: TensorType, rng: random.Random) -> tuple[int, ...]:
    choices: list[tuple[int, ...]] = [t.shape, (t.size,), (1, *t.shape), (*t.shape, 1)]
    choices += [tuple(rng.sample(t.shape, t.rank)), tuple(n for n in t.shape if n != 1)]
    if t.rank >= 2:
        choices += [(t.shape[0] * t.shape[1], *t.shape[2:]), (*t.shape[:-2], t.shape[-2] * t.shape[-1])]
        choices += [(math.prod(t.shape[:-1]), t.shape[-1])]
    return rng.choice(choices)


def _broadcast_shape(t: TensorType, rng: random.Random) -> tuple[int, ...]:
    if t.rank == 0 and rng.random() < 0.7:
        return tuple(rng.choice((1, 2, 3)) for _ in range(rng.randint(1, 4)))
    shape = tuple(rng.choice((1, 2, 3)) if n == 1 else n for n in t.shape)
    return (rng.choice((1, 2)), *shape) if rng.random() < 0.3 else shape


def _ranges(t: TensorType, rng: random.Random) -> tuple[tuple[int, int, int], ...]:
    n = math.isqrt(t.size)
    if t.rank == 1 and n * n == t.size and rng.random() < 0.5:
        return ((0, n * n, n + 1),)
    ranges = []
    for extent in t.shape:
        start = 0 if rng.random() < 0.6 else rng.randint(0, extent)
        stop = extent if rng.random() < 0.6 else rng.randint(start, extent)
        ranges.append((start, stop, 1 if rng.random() < 0.7 else 2))
    return tuple(ranges)


def _ranges_for(value: TensorType, t: TensorType, rng: random.Random) -> tuple[tuple[int, int, int], ...]:
    """A slice of `t` that holds `value`."""
    if value.rank != t.rank:
        raise Decline
    ranges = []
    for n, extent in zip(value.shape, t.shape, strict=True):
        step = 2 if 1 < n <= (extent + 1) // 2 and rng.random() < 0.3 else 1
        room = extent - (max(0, n - 1) * step + (n > 0))
        if room < 0:
            raise Decline
        start = rng.randint(0, room) if n else 0
        ranges.append((start, start + (n - 1) * step + 1 if n else 0, step))
    return tuple(ranges)


def _window_attr(op: str, name: str, t: TensorType, before: tuple, rng: random.Random) -> tuple:
    if name == "window":
        return tuple(rng.choice((1, 2, 2)) for _ in range(rng.randint(1, min(2, max(1, t.rank)))))
    spatial = t.rank - 2 if op == "conv" else len(before[0])
    if name == "padding":
        return tuple((rng.choice((0, 0, 1)), rng.choice((0, 0, 1))) for _ in range(spatial))
    return tuple(rng.choice((1, 1, 2)) for _ in range(spatial))
