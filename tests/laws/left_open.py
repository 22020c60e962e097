"""What NumPy leaves open: results that the specification may as well give, so that no law or kernel can promise others.

In: an operator, arrays, and the result of its meaning. Out: the result with other choices where there were any. Two
runs that make different choices tell which elements of a program's values are determined: all others must be met bit
for bit.
"""

from __future__ import annotations

import random

import numpy as np

from eqfuse.dtypes import kind, real_parts
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import row
from eqfuse.ops.contractions import windows
from eqfuse.rewrites.checking.agreement import same_elements
from tests.laws.corners import REFUSALS

# elementwise operators that round correctly, or not at all: the same bits on every machine, in every memory layout
_ROUNDED = (
    "add subtract multiply divide negative abs sign square sqrt reciprocal maximum minimum floor ceil trunc round "
    "where cast copysign nextafter signbit isnan isinf isfinite equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_invert "
    "bitwise_left_shift bitwise_right_shift bitwise_count gcd lcm ldexp floor_divide remainder fmod fmax fmin"
)
_MOVES = (
    "const transpose reshape broadcast_to slice flip sliding_window take take_along_axis concat pad slice_scatter "
    "argmax argmin any all"
)
ROUNDED, MOVES = frozenset(_ROUNDED.split()), frozenset(_MOVES.split())
ZEROS = frozenset(("max", "min", "fmax", "fmin", "sort", "window_max"))  # of zeros of different signs, either


def chosen_again(n: Node, arrays: list[np.ndarray], result: np.ndarray, rng: random.Random) -> np.ndarray:
    """`result` of the operator `n`, with other choices."""
    if n.op in TERMS and n.args:
        result = _any_order(n.op, arrays, n.attrs, result, rng)
    if n.op == "cast" and result.dtype.kind in "iu" and kind(arrays[0].dtype) == "f":
        return _undefined_cast(arrays[0], result, rng)
    if kind(result.dtype) != "f":
        return result
    coin = np.array([rng.random() < 0.5 for _ in range(result.size)], bool).reshape(result.shape)
    with np.errstate(all="ignore"):
        if n.op not in ROUNDED | ZEROS | MOVES:
            inexact = np.isfinite(result) & (result != 0) & (result != np.rint(result) if n.op in TERMS else True)
            result = np.where(inexact & coin, result * (1 + np.finfo(np.float16).eps), result).astype(result.dtype)
        if n.op not in ROUNDED - {"fmax", "fmin"} | MOVES:
            result = np.where((result == 0) & coin, -result, result)
        return np.where(np.isnan(result) & coin, -result, result)


def _undefined_cast(array: np.ndarray, result: np.ndarray, rng: random.Random) -> np.ndarray:
    return np.where(_fits(array, result.dtype), result, np.asarray(rng.randint(0, 100), result.dtype))


def _any_order(op: str, arrays: list[np.ndarray], attrs: tuple, result: np.ndarray, rng: random.Random) -> np.ndarray:
    terms = [np.broadcast_to(np.asarray(t, result.dtype), result.shape) for t in TERMS[op](*arrays, *attrs)]
    return folded(np.multiply if op == "prod" else np.add, terms, rng) if terms else result


def folded(ufunc: np.ufunc, terms: list[np.ndarray], rng: random.Random) -> np.ndarray:
    """`terms` added or multiplied in a random order, in the dtype that they have."""
    terms = list(terms)
    rng.shuffle(terms)
    while len(terms) > 1:
        one = terms.pop(rng.randrange(len(terms)))
        position = rng.randrange(len(terms))
        terms[position] = ufunc(terms[position], one)
    return np.array(terms[0])


def _along(x: np.ndarray, axes: tuple[int, ...]) -> list[np.ndarray]:
    kept = np.moveaxis(x, axes, range(len(axes)))
    shape = [1 if i - x.ndim in axes else n for i, n in enumerate(x.shape)]
    return [part.reshape(shape) for part in kept.reshape(-1, *kept.shape[len(axes) :])] if x.size else []


def _products(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    return [a[..., :, k : k + 1] * b[..., k : k + 1, :] for k in range(a.shape[-1])]


def _pooled(x: np.ndarray, window: tuple, strides: tuple, padding: tuple) -> list[np.ndarray]:
    view = windows(x, window, strides, padding, (1,) * len(window), 0)
    return [view[(..., *offset)] for offset in np.ndindex(window)]


TERMS = {"sum": _along, "prod": _along, "matmul": _products, "window_sum": _pooled}


def determined(graph: Graph, arrays: list[np.ndarray], rng: random.Random, runs: int = 5) -> list[tuple] | None:
    """Of every output its value, and which elements of it every choice leaves alike; None where NumPy refuses."""
    wanted = _run(graph, arrays, None)
    if wanted is None:
        return None
    alike = [np.ones(w.shape, bool) for w in wanted]
    for _ in range(runs):
        other = _run(graph, arrays, rng)
        if other is None:
            return None
        alike = [a & same(w, o) for a, w, o in zip(alike, wanted, other, strict=True)]
    return list(zip(wanted, alike, strict=True))


def _run(graph: Graph, arrays: list[np.ndarray], rng: random.Random | None) -> list[np.ndarray] | None:
    values = dict(zip(graph.inputs, arrays, strict=True))
    with np.errstate(all="ignore"):
        for n in graph.nodes:
            if n in values:
                continue
            given = [values[a] for a in n.args]
            try:
                values[n] = np.asarray(n.row.meaning(*given, *n.attrs))
            except REFUSALS:
                return None
            if rng is not None:
                values[n] = chosen_again(n, given, values[n], rng)
    return [values[o] for o in graph.outputs]


def undefined(op: str, arrays: list[np.ndarray], result: np.ndarray) -> np.ndarray:
    """Which elements of the operator's result depend on what is no number: the sign of a NaN, a cast of what does not
    fit."""
    if row(op).reads_bits and kind(arrays[-1].dtype) == "f":
        return np.broadcast_to(np.isnan(arrays[-1]), result.shape)
    if op == "cast" and result.dtype.kind in "iu" and kind(arrays[0].dtype) == "f":
        return ~_fits(arrays[0], result.dtype)
    return np.zeros(result.shape, bool)


def _fits(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        whole = np.trunc(array.astype(np.float64))
    return (whole >= limits.min) & (whole <= limits.max) & (whole < 2.0 ** min(63, limits.bits))


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which elements hold the same bits; every NaN is the same NaN."""
    matches = same_elements(real_parts(a), real_parts(b))
    return matches.all(-1) if a.dtype.kind == "c" else matches
