"""Reductions over pairs of elements are equal by slices along their short axis, and are so only where that helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.extract.programs.replacement import replaced
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node
from eqfuse.rewrites.procedures.short_axes import LAWS, SHORT_AXIS, in_slices

M, N = 7, 5


def distances(x, y):
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def forces(x, y):
    d = x[:, None, :] - y[None, :, :]
    return (d * ((d * d).sum(-1) + 1)[..., None] ** -1.5).sum(1)


def columns_first(x, y):
    return np.exp(-np.abs(x.T[:, :, None] - y.T[:, None, :]).sum(0)).sum(1)


def corner(x, y):
    return np.abs(x[:, None] - y).max(-1).min(1) + (np.abs(x[:, None] - y) < 0.5).all(-1).sum(1)


def any_near(x, y):
    return ((x[:, None] - y) < 0.1).any(-1).sum(1) - np.prod(1 + np.abs(x[:, None] - y), -1).sum(1)


def stacked(x, y):
    d = np.stack([x[:, k, None] - y[:, k] for k in range(x.shape[1])], -1)
    return (d / np.sqrt((d * d).sum(-1) + 1)[..., None]).sum(1)


def by_einsum(x, y):
    d = x[:, None] - y
    return np.exp(-np.einsum("ijk,ijk->ij", d, d)).sum(1)


def expanded(x, y):
    return np.exp((x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x[:, :3] @ y[:, :3].T)).sum(1)


def scaled_first(x, y):
    return np.exp(-(((x / 3)[:, None] - np.tanh(y)) ** 2).sum(-1, keepdims=True)).sum((1, 2))


def in_two_batches(x, y):
    a, b = np.stack([x, x + 1]), np.stack([y, y * 2])
    return np.exp(-((a[:, :, None] - b[:, None]) ** 2).sum(-1)).sum(2)


PROGRAMS: list[Callable[..., Any]] = [
    distances, forces, columns_first, corner, any_near, stacked, by_einsum, expanded, scaled_first, in_two_batches,
]  # fmt: skip


def equal_pairs(graph: Graph) -> list[tuple[Node, Node]]:
    return [pair for law in LAWS for pair in in_slices(law, graph.nodes, set())]


@pytest.mark.parametrize("features", [2, 3, 8, 11, SHORT_AXIS])
@pytest.mark.parametrize("program", PROGRAMS)
def test_slices_compute_the_same_and_nothing_larger_than_a_slice(program, features):
    rng = np.random.default_rng(features)
    arrays = [rng.uniform(-1, 1, (M * 3, features)), rng.uniform(-1, 1, (N * 5, features))]
    graph = ef.trace(program, *arrays)
    pairs = equal_pairs(graph)
    assert pairs
    both = Graph(graph.inputs, tuple(n for pair in pairs for n in pair))
    values = evaluate(both, arrays)
    for (n, other), wanted, got in zip(pairs, values[::2], values[1::2], strict=True):
        assert other.type == n.type
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    alone, _ = replaced(Graph(graph.inputs, tuple(other for _, other in pairs)), dict(pairs))
    largest = max((M * 3 + N * 5) * features, *(max(n.args[0].type.size // features, n.type.size) for n, _ in pairs))
    assert all(n.type.size <= largest for n in alone.operators)


def weighted(x, y, v):
    return np.exp(-distances(x, y)) @ v


def softly(x, y, v):
    d = distances(x, y)
    w = np.exp(d.min(1, keepdims=True) - d)
    return (w / w.sum(1, keepdims=True)) @ np.tanh(v)


def products(graph: Graph) -> list[tuple[Node, Node]]:
    return [pair for pair in equal_pairs(graph) if pair[0].op == "matmul"]


@pytest.mark.parametrize("columns", [2, 3, SHORT_AXIS])
@pytest.mark.parametrize("program", [weighted, softly])
def test_a_product_of_pairs_with_a_few_columns_is_a_sum_for_each(program, columns):
    rng = np.random.default_rng(columns)
    arrays = [rng.uniform(-1, 1, shape) for shape in ((M, 3), (N, 3), (N, columns))]
    graph = ef.trace(program, *arrays)
    ((n, other),) = products(graph)
    assert "matmul" not in {a.op for a in Graph(graph.inputs, (other,)).nodes}
    wanted, got = evaluate(Graph(graph.inputs, (n, other)), arrays)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("columns", [1, SHORT_AXIS + 1])
def test_a_product_with_one_column_or_many_is_none(columns):
    arrays = [ef.spec(shape) for shape in ((M, 3), (N, 3), (N, columns))]
    assert not products(ef.trace(weighted, *arrays))


def test_nor_is_one_of_an_array_in_memory():
    assert not products(ef.trace(lambda x, v: np.exp(x) @ v, ef.spec((M, N)), ef.spec((N, 3))))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float64"])
def test_slices_have_the_dtype_of_the_sum(dtype):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 2, (20, 3)).astype(dtype) for _ in range(2)]
    graph = ef.trace(lambda x, y: (x[:, None] * y).sum(-1), *arrays)
    ((n, other),) = equal_pairs(graph)
    wanted, got = evaluate(Graph(graph.inputs, (n, other)), arrays)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def of_rows(x, y):
    return ((x - y[0]) ** 2).sum(-1)


def one_by_one(x, y):
    return (x[:N] * y).sum(-1) + x.max(0).sum()


@pytest.mark.parametrize(
    "program, features", [(of_rows, 3), (one_by_one, 3), (distances, SHORT_AXIS + 1), (distances, 1)]
)
def test_nothing_is_made_of_arrays_that_are_in_memory_or_of_long_axes(program, features):
    graph = ef.trace(program, ef.spec((M, features)), ef.spec((N, features)))
    assert not equal_pairs(graph)


def test_a_search_without_pairs_has_no_laws_of_slices():
    (segment,) = ef.saturate(ef.trace(of_rows, ef.spec((M, 3)), ef.spec((N, 3)))).segments
    assert not any(law.slices for law in segment.laws)


def test_strict_numerics_take_no_slices():
    (segment,) = ef.saturate(ef.trace(distances, ef.spec((90, 3)), ef.spec((80, 3))), numerics="strict").segments
    assert not any(law.slices for law in segment.laws)


def test_the_space_of_pairs_is_saturated_and_grows_with_the_features_alone():
    def size(features: int) -> int:
        space = ef.saturate(ef.trace(forces, ef.spec((90, features)), ef.spec((80, features))))
        assert space.stop_reason == "saturated"
        return sum(len(c.nodes) for s in space.segments for c in s.classes)

    two, four, eight = map(size, (2, 4, 8))
    assert eight - four <= 2.2 * (four - two)
