"""Programs that compute with rounding itself keep it, and programs of float16 keep what is finite, by default."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.cuda import ops
from eqfuse.ir.graph import Graph, input_node, node
from eqfuse.ops.elementwise import UFUNCS, loop_dtypes
from eqfuse.ops.types import TensorType
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on
from tests.support.some import some


def same_bits(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Does the program compiled by default give NumPy's bits?"""
    with np.errstate(all="ignore"):
        wanted, got = function(*arrays), ef.compile(function, *arrays, target="numpy")(*arrays)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(dtype)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """D. Knuth: a + b, and what rounding takes from it."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def split(a: Any, factor: Any) -> tuple[Any, Any]:
    """G. Veltkamp and T. Dekker: two halves of the digits of a."""
    c = factor * a
    high = c - (c - a)
    return high, a - high


def two_product(a: Any, b: Any, factor: Any) -> Any:
    """What rounding takes from a * b."""
    (ah, al), (bh, bl) = split(a, factor), split(b, factor)
    return al * bl - (((a * b - ah * bh) - al * bh) - ah * bl)


def kahan(x: Any) -> Any:
    """W. Kahan's compensated sum of columns."""
    total, lost = x[0], x[0] * 0
    for row in x[1:]:
        y = row - lost
        t = total + y
        lost = (t - total) - y
        total = t
    return total


def neumaier(x: Any) -> Any:
    total, lost = x[0], x[0] * 0
    for row in x[1:]:
        t = total + row
        lost = lost + np.where(np.abs(total) >= np.abs(row), (total - t) + row, (row - t) + total)
        total = t
    return total + lost


def sums_and_products(x: Any, factor: Any, _: Any) -> list[Any]:
    """What computes with roundings, on the columns of x."""
    a, b = x[:2]
    return [*two_sum(a, b), *split(a, factor), two_product(a, b, factor), kahan(x), neumaier(x)]


def other_idioms(x: Any, _: Any, magic: Any) -> list[Any]:
    a, b, c = x[:3]
    magical = [(a + magic) - magic, magic + a - magic, a - magic + magic, (a * c + magic) - magic]
    return [*magical, a * b - a * b, (a / c) * c - a, np.sqrt(c * c) - np.abs(c), np.exp(c) / np.exp(c)]


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
@pytest.mark.parametrize("case", [(ml_dtypes.bfloat16, 17, 192), (np.float16, 65, 1536)], ids=str)
def test_kernels_of_a_gpu_round_16_bit_numbers_where_numpy_does(case: tuple[Any, int, int]) -> None:
    dtype, factor, magic = case
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 300)) * 2.0 ** rng.integers(-3, 4, (3, 300))).astype(dtype)
    of_type = np.dtype(dtype).type

    for idioms in (sums_and_products, other_idioms):  # one search for all takes many times as long

        def function(x: Any, idioms: Any = idioms) -> list[Any]:
            return idioms(x, of_type(factor), of_type(magic))

        program = program_on(ef.compile(function, x, target="cuda:h100").plan, EmulatedGpu())
        with np.errstate(all="ignore"):
            for got, wanted in zip(program(x), function(x), strict=True):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_by_default_a_gpu_runs_what_strict_runs_where_no_law_is_applied(dtype: Any) -> None:
    """An approximate program alone leaves 16-bit numbers as they are until they are stored."""
    x, y = (input_node(name, TensorType(np.dtype(dtype), (64,))) for name in "xy")
    results = [node(name, (x, y)[: ufunc.nin]) for name, ufunc in UFUNCS.items() if takes(name, ufunc.nin, dtype)]
    assert len(results) > 40
    used = [node("add", (node("where", (node("equal", (n, n)), x, y)) if n.dtype != dtype else n, y)) for n in results]
    for graph in (Graph((x, y), tuple(used[start::12])) for start in range(12)):
        programs = (
            ef.compile(
                graph, target="cuda:h100", laws="none", numerics=numerics, extractor="greedy-priority"
            )
            for numerics in ("strict", "reassociate", "approximate")
        )
        strict, default, approximate = ([f.source for f in program_on(p.plan).executable.functions] for p in programs)
        assert strict == default != approximate


def takes(name: str, arity: int, dtype: Any) -> bool:
    """Is there a CUDA form of `name` that takes values of `dtype` alone?"""
    wanted = [np.dtype(dtype)] * arity
    try:
        *takes, result = loop_dtypes(name, *wanted)
        return takes == wanted and ops.emits(name, wanted, result)
    except ef.EqfuseError:
        return False


FACTORS = {np.float32: np.float32(4097.0), np.float64: 134217729.0}
MAGIC = {np.float32: np.float32(12582912.0), np.float64: 6755399441055744.0}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FACTORS)
def test_what_rounding_takes_from_a_sum_or_product_is_kept(dtype: Any) -> None:
    a, b = numbers(dtype, 7, 50), numbers(dtype, 7, 50)[::-1].copy()
    same_bits(lambda a, b: two_sum(a, b)[1], a, b)
    same_bits(lambda a: split(a, FACTORS[dtype])[0], a)
    same_bits(lambda a: split(a, FACTORS[dtype])[1], a)
    same_bits(lambda a, b: two_product(a, b, FACTORS[dtype]), a, b)
    for factor in (FACTORS[dtype], np.full(1, FACTORS[dtype], dtype), float(FACTORS[dtype])):
        same_bits(lambda a, factor: split(a, factor)[0], a, factor)
        same_bits(two_product, a, b, factor)
        same_bits(lambda a, f: (a * f) + (a - (a * f)), a, factor)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FACTORS)
def test_compensated_sums_stay_compensated(dtype: Any) -> None:
    x = numbers(dtype, 6, 60)
    same_bits(kahan, x)
    same_bits(neumaier, x)


@pytest.mark.parametrize("dtype", MAGIC)
def test_rounding_by_a_large_number_rounds(dtype: Any) -> None:
    x, c = numbers(dtype, 300), MAGIC[dtype]
    same_bits(lambda x: (x + c) - c, x)
    same_bits(lambda x: c + x - c, x)
    same_bits(lambda x: x - c + c, x)
    same_bits(lambda x: (x * 2 + c) - c, x)
    w = np.eye(20, dtype=dtype)
    same_bits(lambda x: (x.reshape(-1, 20) @ w + c) - c, x)
    per_column = np.full(20, c)
    same_bits(lambda x: (x.reshape(-1, 20) @ w + per_column) - per_column, x)


QUOTIENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x / a": lambda x, a, b: x / a, "x * a / b": lambda x, a, b: x * a / b, "x / a * b": lambda x, a, b: x / a * b,
    "x / a / b": lambda x, a, b: x / a / b, "a / (x / b)": lambda x, a, b: a / (x / b),
    "x * a * (1 / 8)": lambda x, a, b: x * a * 0.125, "(x - a) / a": lambda x, a, b: (x - a) / a,
}  # fmt: skip


@pytest.mark.parametrize("case", some(product(QUOTIENTS, ("f2", "f4", "f8", "i4", "i8")), 4), ids=" ".join)
def test_what_is_whole_by_a_division_stays_whole(case: tuple[str, str]) -> None:
    """Programs count, compare and take roots with that: (x / 49).astype(int), x / 49 >= 1, sqrt(x / 49 - 1)."""
    name, dtype = case
    rng = np.random.default_rng(0)
    for a, b in rng.integers(2, 60, (3, 2)).tolist():
        x = (np.arange(1, 31) * a * b % 2048).astype(dtype)
        got = ef.compile(lambda x, a=a, b=b: QUOTIENTS[name](x, a, b), x, target="numpy")(x)
        with np.errstate(all="ignore"):
            wanted = QUOTIENTS[name](x, a, b)
        whole = np.isfinite(wanted) & (wanted == np.rint(wanted))
        np.testing.assert_array_equal(got[whole], wanted[whole])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_constants_do_not_wander_where_a_program_leads_back_to_them(dtype: Any) -> None:
    def tricks(x: Any) -> Any:
        return x * 3 / 3 - x, x / 3 * 3 - x, x * 3 / 7 * 7 / 3, x * 0.1 * 10 / 3 * 3, x.round(2), x.round(1)

    x = (np.arange(500) / 4).astype(dtype)
    got, wanted = ef.compile(tricks, x, target="numpy")(x), tricks(x)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=4 * float(np.finfo(dtype).eps), atol=4 * float(np.finfo(dtype).eps) * 125)


def test_a_sum_cancels_only_where_numpy_does() -> None:
    x = numbers(np.float64, 500)
    for function in (
        lambda x: (x - 1e16 + 1e16 - x),
        lambda x: 1.0 + (x * 1e20 - x * 1e20),
        lambda x: (x + 1e16) - (x + 1e16) + 1,
    ):
        same_bits(function, x)
    shifted = -1e16 + np.round(x)
    total = ef.compile(lambda x: (x + 1e16).sum(), shifted)(shifted)
    np.testing.assert_allclose(total, (shifted + 1e16).sum(), rtol=1e-12)


def test_a_mask_that_adds_a_large_number_leaves_what_it_does_not_mask() -> None:
    s = numbers(np.float32, 6, 40)
    m = (np.arange(40) % 3 > 0).astype(np.float32)
    got = ef.compile(lambda s, m: s * m + (1 - m) * np.float32(-1e9), s, m)(s, m)
    np.testing.assert_allclose(got, s * m + (1 - m) * np.float32(-1e9), rtol=1e-6)


HALF = {
    "a small divisor": lambda h, s, q: h / np.float16(1e-5),
    "factors that overflow only together": lambda h, s, q: h * np.float16(300) * np.float16(300),
    "scales in a sum": lambda h, s, q: (q / s).sum(-1),
    "scales in a product": lambda h, s, q: (q / s) @ h.T,
    "scaled scores": lambda h, s, q: (q * (1 / s)) @ h.T,
    "a mean": lambda h, s, q: (q / s).mean(-1),
    "a variance": lambda h, s, q: (q / s).var(-1),
    "quotients in a row": lambda h, s, q: h / s / s,
    "a product of sums": lambda h, s, q: (q / s) @ (h.T + h.T),
}


@pytest.mark.parametrize("name", HALF)
def test_what_is_finite_in_float16_stays_finite(name: str) -> None:
    rng = np.random.default_rng(0)
    h = (rng.uniform(0, 1, (64, 64)) * 1e-4).astype(np.float16)
    q = rng.uniform(1e4, 6e4, (64, 64)).astype(np.float16)
    s = q.max(-1, keepdims=True)
    function = HALF[name]
    with np.errstate(all="ignore"):
        wanted = function(h, s, q)
        got = ef.compile(function, h, s, q, target="numpy")(h, s, q)
    assert np.isfinite(wanted).all() and np.isfinite(got).all()
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=2e-2, atol=1e-4)


def test_a_long_product_stays_in_range() -> None:
    x = np.full(100, 1e-5)
    np.testing.assert_allclose(ef.compile(lambda x: np.prod(x * 1e5), x)(x), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("dtype", "small"), [(np.float64, 1e-200), (np.float32, 1e-30), (np.float16, 1e-5)])
def test_zero_over_small_numbers_is_zero(dtype: Any, small: float) -> None:
    zero, y = np.zeros(9, dtype), np.full(9, small, dtype)
    assert (ef.compile(lambda z, y: z / y / y, zero, y)(zero, y) == 0).all()


def test_masked_scores_weigh_nothing_and_harm_nothing() -> None:
    """Infinite masks are not promised to stay as they are, but those of attention do."""
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((3, 2, 16, 8)).astype(np.float32)
    mask = np.where(np.tri(16, dtype=bool), 0, -np.inf).astype(np.float32)

    def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float32(8)) + mask
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ v

    got = ef.compile(attention, q, k, v, mask)(q, k, v, mask)
    np.testing.assert_allclose(got, attention(q, k, v, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_constants_that_the_program_computes_stay_apart_however_near_they_are(dtype: str) -> None:
    one, near = np.ones((), dtype), np.ones((), dtype) + np.finfo(dtype).eps

    def differences(x: np.ndarray) -> tuple:
        a, b = np.full(3, one), np.full(3, near)
        return x * (np.negative(b) + a), x - (np.sqrt(near) * np.sqrt(near) - near), np.maximum(a, b) - a + x * 0

    x = np.array([1, -2, 3], dtype)
    for got, wanted in zip(ef.compile(differences, x)(x), differences(x), strict=True):
        np.testing.assert_array_equal(got, wanted)
