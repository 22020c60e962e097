"""Quotients and remainders in C, which are computed by products: by arrays and by one number for all."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, const, input_node, node
from eqfuse.ops.types import TensorType
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, run_all

OPERATORS = ("floor_divide", "remainder", "fmod")
MANY = 1 << 16


def dividends_and_divisors(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all sizes, products of two and their neighbours, and all pairs of the least and the largest."""
    rng, limits = np.random.default_rng(dtype.num), np.iinfo(dtype)
    every = [rng.integers(limits.min, limits.max, MANY, dtype, endpoint=True) for _ in range(2)]
    a, b = (x >> rng.integers(0, limits.bits, MANY).astype(dtype) for x in every)
    half = MANY // 2
    with np.errstate(all="ignore"):
        a[:half] = a[:half] // b[:half] * b[:half] + rng.integers(-1, 2, half).astype(dtype)
    ends = np.array([limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2, 0, 1, 2, 3], dtype)
    ends = np.concatenate([ends, -ends])
    a[-len(ends) ** 2 :], b[-len(ends) ** 2 :] = (x.ravel() for x in np.meshgrid(ends, ends))
    return a, b


def divisors(dtype: np.dtype) -> list[int]:
    limits = np.iinfo(dtype)
    numbers = {0, 1, 2, 3, 5, 7, 10, 64, 100, 127, limits.max, limits.max - 1, limits.max // 2, limits.max // 2 + 1}
    return sorted(numbers | ({-n for n in numbers} | {limits.min, limits.min // 2} if limits.min else set()))


@needs_compiler
@pytest.mark.parametrize("dtype", [*map(np.dtype, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))], ids=str)
def test_quotients_and_remainders_of_integers_are_numpys(dtype: np.dtype) -> None:
    a, b = dividends_and_divisors(dtype)
    if dtype.itemsize == 1:
        a, b = (x.ravel() for x in np.meshgrid(*[np.arange(256).astype(dtype)] * 2))
    x, y = (input_node(name, TensorType(dtype, a.shape)) for name in "xy")
    by = [y, *(const(n, dtype) for n in divisors(dtype)), input_node("z", TensorType(dtype, ()))]
    bodies = [Graph((x, d) if d.op == "input" else (x,), tuple(node(op, (x, d)) for op in OPERATORS)) for d in by]
    data = [[a, b], *[[a]] * len(divisors(dtype)), [a, np.array(7, dtype)]]
    for body, arrays, got in zip(bodies, data, run_all([emitted("map", b) for b in bodies], data), strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(body, arrays)
        for op, ours, right in zip(OPERATORS, got, wanted, strict=True):
            wrong = np.flatnonzero(ours != right)[:1]
            assert not wrong.size, f"{op} of {a[wrong]} in {body}: {ours[wrong]}, NumPy has {right[wrong]}"


@needs_compiler
def test_quotients_and_remainders_of_float32_are_numpys_whatever_the_bits() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 32, MANY, np.uint64).astype(np.uint32).view(np.float32) for _ in range(2))
    y[: MANY // 2] = rng.random(MANY // 2) * 10
    x[: MANY // 4] = y[: MANY // 4] * rng.integers(1, 1 << 12, MANY // 4)  # quotients next to integers
    x[: MANY // 8] += np.spacing(x[: MANY // 8])
    a, b = (input_node(name, TensorType(x.dtype, x.shape)) for name in "ab")
    by = [b, *(const(n, x.dtype) for n in (2.5, -1e-3, 1e-40, np.inf, np.nan, 0.0))]
    bodies = [Graph((a, b) if d is b else (a,), tuple(node(op, (a, d)) for op in OPERATORS)) for d in by]
    data = [[x, y] if d is b else [x] for d in by]
    for graph, arrays, got in zip(bodies, data, run_all([emitted("map", g) for g in bodies], data), strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, arrays)
        for ours, right in zip(got, wanted, strict=True):
            same = (ours.view(np.uint32) == right.view(np.uint32)) | (np.isnan(ours) & np.isnan(right))
            assert same.all(), f"{x[~same][:1]} in {graph}: {ours[~same][:1]}, NumPy has {right[~same][:1]}"
