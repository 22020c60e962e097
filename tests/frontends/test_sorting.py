"""Sorting and searching, traced, give NumPy's dtypes, shapes and values; shapes that data decides are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import DTYPES, agrees, sample

SHAPES = ((0,), (1,), (7,), (3, 4), (2, 3, 4))


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
@pytest.mark.parametrize("function", [np.sort, np.argsort], ids=lambda f: f.__name__)
def test_sorting_agrees_with_numpy(function, dtype):
    for shape in SHAPES:
        for axis in (None, 0, -1):
            agrees(lambda a, ax=axis: function(a, axis=ax), sample(shape, dtype))
            agrees(lambda a, ax=axis: function(a, ax, kind="stable"), sample(shape, dtype))
            agrees(lambda a, ax=axis: function(a, ax, stable=True), sample(shape, dtype))
    agrees(function, sample((), dtype))


def test_a_stable_sort_keeps_the_signs_of_zeros_in_order():
    x = np.tile(np.array([0.0, -0.0, 1.0]), 30)
    got = ef.compile(lambda a: np.sort(a, stable=True), x)(x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.sort(x, stable=True)))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("function", [np.partition, np.argpartition], ids=lambda f: f.__name__)
def test_partitions_agree_with_numpy(function, dtype):
    for kth in (0, 2, -1, (1, 3), [0, 1]):
        for axis in (-1, 0, None):
            agrees(lambda a, k=kth, ax=axis: function(a, k, axis=ax), sample((4, 5), dtype))
    agrees(lambda a: function(a, 9), sample((4,), dtype))


def test_lexsort_agrees_with_numpy():
    a, b = sample((3, 6), "int32"), sample((3, 6), "float64", 1)
    agrees(lambda *keys: np.lexsort(keys), a, b)
    agrees(lambda *keys: np.lexsort(keys, axis=0), a, b)
    agrees(lambda keys: np.lexsort(keys), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_searches_agree_with_numpy(dtype):
    a, v = np.sort(sample((6,), dtype)), sample((2, 3), "float32", 1)
    for side in ("left", "right"):
        agrees(lambda a, v, s=side: np.searchsorted(a, v, s), a, v)
        agrees(lambda a, v, s=side: np.searchsorted(a, v, s, sorter=np.argsort(a)), a[::-1].copy(), v)
    agrees(lambda a, v: np.searchsorted(a, v[0, 0]), a, v)
    agrees(lambda a: np.searchsorted(a, 1), a)
    for right in (False, True):
        agrees(lambda a, v, r=right: np.digitize(v, np.sort(a), r), a, v)
        agrees(lambda a, v, r=right: np.digitize(v, np.sort(a)[::-1], r), a, v)
        agrees(lambda v, r=right: np.digitize(v, [-1, 0, 1.5], r), v)
    agrees(np.digitize, v, np.array([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64"])
def test_membership_agrees_with_numpy(dtype):
    for kind in (None, "sort", "table"):
        agrees(lambda a, k=kind: np.isin(a, [1, 2, -3], kind=k), sample((3, 4), dtype))
    agrees(lambda a, b: np.isin(a, b, invert=True), sample((3, 4), dtype), sample((5,), "int32", 1))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float32", "float64", "complex64"])
def test_sort_complex_agrees_with_numpy(dtype):
    agrees(np.sort_complex, sample((5,), "int32").astype(dtype))


def test_choosing_by_a_known_mask_agrees_with_numpy():
    x = sample((3, 4), "float32")
    agrees(lambda a: np.compress([True, False, True], a, axis=0), x)
    agrees(lambda a: np.compress([False, True], a), x)
    agrees(lambda a: np.extract(np.arange(12).reshape(3, 4) % 2 == 0, a), x)


REFUSED = {
    "nonzero": np.nonzero, "flatnonzero": np.flatnonzero, "argwhere": np.argwhere, "unique": np.unique,
    "unique_counts": np.unique_counts, "union1d": lambda x: np.union1d(x, x), "trim_zeros": np.trim_zeros,
    "intersect1d": lambda x: np.intersect1d(x, x), "setdiff1d": lambda x: np.setdiff1d(x, x),
    "setxor1d": lambda x: np.setxor1d(x, x), "compress": lambda x: np.compress(x > 0, x[None], 1),
    "extract": lambda x: np.extract(x[1:] > 0, x), "roots": np.roots, "polymul": lambda x: np.polymul(x, x),
    "polydiv": lambda x: np.polydiv(x, x), "bincount": lambda x: np.bincount(x.astype(int)),
    "histogram": lambda x: np.histogram(x, "auto"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_result_whose_shape_depends_on_data_is_refused_by_name(name):
    with pytest.raises(ef.TraceError, match=f"{name}.*depends? on data"):
        ef.trace(REFUSED[name], np.ones(3))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3)])
@pytest.mark.parametrize("function", [np.partition, np.argpartition])
def test_of_nothing_any_place_may_be_asked_for(function: Callable, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    np.testing.assert_array_equal(ef.meaning(ef.trace(lambda x: function(x, 5), x), x), function(x, 5), strict=True)
