"""NumPy kernels whose reductions leave them: partial results, widths, what follows them."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.graph import node
from tests.kernels.test_numpy_panels import DEVICES, TINY
from tests.support.kernels import CPU, add, body, cast, judge, kernel, mul, number, read, reduced, run


@pytest.fixture(params=DEVICES, ids=lambda d: d.name)
def device(request):
    return request.param


SUMS = [
    ((5000,), (-1,)), ((300, 20), (-2,)), ((20, 300), (-1,)), ((40, 30, 20), (-3, -1)), ((40, 30, 20), (-3, -2)),
    ((40, 30, 20), (-2,)), ((3, 4, 5000), (-1,)), ((2, 4000), (-2,)), ((1000, 1), (-2,)), ((1, 1), (-1,)),
    ((7,), (-1,)),
    ((4000, 3), (-2, -1)),
]  # fmt: skip


@pytest.mark.parametrize("shape,axes", SUMS)
@pytest.mark.parametrize("op", ["sum", "max", "prod"])
def test_a_reduction_with_work_before_and_after_it(op, shape, axes, device):
    x, y = read(0, shape), read(1, shape[-1:])
    r = reduced(op, node("tanh", (mul(x, y),)), *axes)
    judge("reduce", body([x, y], add(mul(r, r), number(1)), r, r), device=device)


@pytest.mark.parametrize("shape,axes", SUMS)
def test_several_reductions_over_the_same_axes(shape, axes, device):
    x = read(0, shape)
    n = number(float(np.prod([shape[a] for a in axes])))
    mean = node("divide", (reduced("sum", x, *axes), n))
    square = node("divide", (reduced("sum", mul(x, x), *axes), n))
    judge(
        "reduce", body([x], mean, node("subtract", (square, mul(mean, mean))), reduced("max", x, *axes)), device=device
    )


def test_counting_what_a_condition_chooses(device):
    x = read(0, (100, 90))
    judge("reduce", body([x], reduced("sum", cast(node("greater", (x, number(0))), "int64"), -2, -1)), device=device)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_positions_of_extremes(op, axis, device):
    x = read(0, (200, 300))
    judge("reduce", body([x], reduced(op, mul(x, x), axis)), device=device)


def test_a_sum_of_nothing_is_zero(device):
    x = read(0, (0, 4))
    judge("reduce", body([x], reduced("sum", x, -2)), device=device)


def test_results_are_the_same_in_every_run():
    x = read(0, (100000,))
    graph = body([x], reduced("sum", x))
    arrays = [np.random.default_rng(0).normal(size=100000).astype(np.float32)]
    first = run("reduce", graph, arrays, TINY)[0]
    assert all(run("reduce", graph, arrays, TINY)[0] == first for _ in range(20))


def test_equal_kernels_are_emitted_once():
    def graph():
        x = read(0, (10, 10))
        return body([x], reduced("sum", mul(x, x)))

    assert emit_kernel(kernel("reduce", graph()), CPU) is emit_kernel(kernel("reduce", graph()), CPU)


@pytest.mark.parametrize("squared", [lambda x: mul(x, x), lambda x: node("square", (x,))], ids=["multiply", "square"])
def test_a_sum_of_squares_is_one_dot_product_however_it_is_written(squared):
    x = read(0, (3000, 500))
    source = judge("reduce", body([x], reduced("sum", squared(x), -1)))
    assert "einsum" in source and "square" not in source and "multiply" not in source


def test_rows_in_cache_are_summed_by_blas_and_rows_from_memory_without_pythons_lock():
    x = read(0, (3000, 500))
    y = node("tanh", (x,))
    source = judge("reduce", body([x], reduced("sum", mul(y, y), -1)))
    assert "vecdot" in source and "einsum" not in source
    assert "einsum('...i->...'" in judge("reduce", body([x], reduced("sum", x, -1), reduced("max", x, -1)))


@pytest.mark.parametrize("shape,axes", SUMS)
@pytest.mark.parametrize("op", ["sum", "max", "prod", "any", "argmin"])
def test_a_reduction_alone(op, shape, axes, device):
    x = read(0, shape)
    judge("reduce", body([x], reduced(op, x, *(axes[:1] if op == "argmin" else axes))), device=device)


@pytest.mark.parametrize("axes", [(-1,), (-2,), (-3, -1), (-3, -2, -1)])
def test_a_large_reduction_alone_is_shared_among_threads(axes):
    x = read(0, (40, 300, 500))
    assert "share(tiles" in judge("reduce", body([x], reduced("max", x, *axes)))
    assert "share(tiles" not in judge("reduce", body([x], reduced("max", node("transpose", (x,), ((2, 1, 0),)), *axes)))


def test_outer_axes_are_cut_before_a_reduced_one():
    """So there are no partial results to join."""
    x = read(0, (40, 300, 500))
    assert "z0" not in judge("reduce", body([x], reduced("sum", x, -2)))
    assert "z0" in judge("reduce", body([read(0, (2, 6000, 500))], reduced("sum", read(0, (2, 6000, 500)), -2)))


def test_of_passes_over_memory_the_one_that_multiplies_is_first():
    x, y = read(0, (3000, 500)), read(1, (3000, 500))
    source = judge("reduce", body([x, y], reduced("sum", x, -1), reduced("max", x, -1), reduced("sum", mul(x, y), -1)))
    assert source.index("...i,...i->...") < source.index("einsum('...i->...'") < source.index("maximum.reduce")


def test_work_before_a_reduction_of_long_columns_keeps_its_tiles_in_cache():
    """Cut along outer axes alone, tiles of 4000×200 took twice as long; a reduction alone keeps nothing in cache."""
    few, many = read(0, (8, 4000, 200)), read(0, (40, 4000, 200))
    assert "z0" in judge("reduce", body([few], reduced("sum", node("tanh", (few,)), -2)))
    assert "z0" not in emit_kernel(kernel("reduce", body([many], reduced("sum", many, -2))), CPU).source
