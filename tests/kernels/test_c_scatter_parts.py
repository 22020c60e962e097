"""C kernels that join many values, in parts on several threads, and those that update several arrays in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c.kernels import CKernel
from eqfuse.emit.c.scatter.schedule import own_schedule
from eqfuse.emit.c.scatter.writer import scatter_text
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, node
from tests.kernels.test_c_scatter import RNG, joined, own, scattered
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, run_all
from tests.support.kernels import body, mul, read

ROWS, COUNT = 50, 100_003  # the last part is shorter than the others
PLACES, V, X = read(1, (COUNT,), np.int64), read(2, (COUNT,)), read(0, (ROWS,))


def typed(mode: str, dtype: Any) -> Graph:
    return joined(mode, read(0, (ROWS,), dtype), PLACES, read(2, (COUNT,), dtype))


CASES = {
    "sums": joined("add", X, PLACES, mul(V, V)),
    "sums of integers": typed("add", np.int32),
    "products that wrap": typed("multiply", np.uint8),
    "largest": joined("maximum", X, PLACES, V),
    "smallest of integers": typed("minimum", np.int64),
    "counts": Graph((X, PLACES), (node("bincount", (PLACES,), (ROWS,)),)),
    "weighted counts": Graph((X, PLACES, V), (node("bincount", (PLACES, mul(V, V)), (ROWS,)),)),
    "counts of bins": Graph((V,), (node("histogram", (V,), ((20,), ((-2.0, 2.0),), False, False)),)),
    "rows": joined("add", read(0, (40, 4)), PLACES, read(2, (COUNT, 4)), -2),
}  # fmt: skip
ALONE = {
    "differences": joined("subtract", X, PLACES, V),
    "rounded at each step": typed("add", np.float16),
    "many elements for few values": joined("add", read(0, (COUNT // 4,)), PLACES, V),
    "few values": joined("add", X, read(1, (9000,), np.int64), read(2, (9000,))),
}


def drawn(graph: Graph) -> list[np.ndarray]:
    return [
        RNG.integers(0, 40, n.shape) if n is PLACES or n.shape == (5000,)
        else RNG.integers(1, 9, n.shape).astype(n.dtype) if n.dtype.kind in "iu"
        else RNG.standard_normal(n.shape).astype(n.dtype)
        for n in graph.inputs
    ]  # fmt: skip


@needs_compiler
def test_values_joined_in_parts_are_as_joined_one_after_another() -> None:
    graphs = [*CASES.values()]
    kernels, arrays = [own(graph) for graph in graphs], [drawn(graph) for graph in graphs]
    for name, graph, kernel, given, (got,) in zip(
        CASES, graphs, kernels, arrays, run_all(kernels, arrays), strict=True
    ):
        assert kernel.schedule.chunks > 1 and kernel.schedule.workspaces, name
        (want,) = evaluate(graph, given)
        if want.dtype.kind in "iu" or "est" in name:
            np.testing.assert_array_equal(got, want, name)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("name", ALONE)
def test_what_parts_would_round_otherwise_or_pay_for_is_joined_one_after_another(name: str) -> None:
    schedule = own_schedule(ALONE[name], replace(C, threads=16))
    assert schedule.chunks == 1 and not schedule.workspaces


@needs_compiler
def test_the_number_of_threads_changes_no_bit_of_a_sum() -> None:
    kernels, arrays = [], []
    for number, case in enumerate(("sums", "weighted counts", "rows")):
        given = drawn(CASES[case])
        for threads in (1, 2, 7):
            schedule, name = own_schedule(CASES[case], replace(C, threads=threads)), f"scatter_{number}_of_{threads}"
            kernels.append(CKernel(name, scatter_text(schedule, name, True), schedule))
            arrays.append(given)
    results = [got for (got,) in run_all(kernels, arrays)]
    for one, two, seven in zip(results[::3], results[1::3], results[2::3], strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, seven)


@needs_compiler
def test_rows_that_meet_no_others_are_shared_without_arrays_of_parts() -> None:
    places, values = read(1, (5000,), np.int64), read(2, (60, 5000))
    graph = joined("add", read(0, (60, ROWS)), places, mul(values, values))
    kernel, given = own(graph), drawn(graph)
    assert kernel.schedule.threads > 1 and not kernel.schedule.workspaces
    ((got,),) = run_all([kernel], [given])
    np.testing.assert_array_equal(got, evaluate(graph, given)[0])


@needs_compiler
def test_a_zero_keeps_its_sign_where_nothing_is_joined_to_it() -> None:
    graph = joined("add", X, PLACES, V)
    base, places = np.full(ROWS, -0.0, np.float32), np.full(COUNT, 3)
    ((got,),) = run_all([own(graph)], [[base, places, np.full(COUNT, -0.0, np.float32)]])
    assert np.signbit(got).all()


@needs_compiler
@pytest.mark.parametrize("position", [0, COUNT // 2, COUNT - 1])
def test_a_place_beyond_the_array_is_told_by_whichever_part_meets_it(position: int) -> None:
    def join(x: np.ndarray, places: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = x.copy()
        np.add.at(out, places, v * v)
        return out

    places = RNG.integers(0, ROWS, COUNT)
    program = ef.compile(join, np.ones(ROWS), places, np.ones(COUNT), target=C)
    program(np.ones(ROWS), places, np.ones(COUNT))
    places[position] = ROWS
    with pytest.raises(IndexError):
        program(np.ones(ROWS), places, np.ones(COUNT))


def moments(i: Any, w: Any) -> Any:
    n, total = np.bincount(i, minlength=30), np.bincount(i, w, minlength=30)
    return n, total, np.bincount(i, w * w, minlength=30)


def two_tables(i: Any, w: Any) -> Any:
    least, most = np.full(40, np.inf), np.full(40, -np.inf)
    np.minimum.at(least, i, w)
    np.maximum.at(most, i, w)
    return least, most, np.bincount(i % 7, minlength=9)


def of_one_array(i: Any, w: Any) -> Any:
    counts, _ = np.histogram(w, 20, (-2.0, 2.0))
    sums, _ = np.histogram(w, 20, (-2.0, 2.0), weights=w * w)
    return counts, sums, np.histogram(w, 5, (0.0, 1.0))[0]


@needs_compiler
@pytest.mark.parametrize("fn", [moments, two_tables, of_one_array])
@pytest.mark.parametrize("count", [700, 50_000])
def test_several_results_of_one_array_take_one_pass(fn: Callable[..., Any], count: int) -> None:
    i, w = RNG.integers(0, 30, count), RNG.standard_normal(count)
    program = ef.compile(fn, i, w, target=C)
    assert [k.kind for k in program.report.kernels if k.kind != "map"] == ["scatter"]
    (kernel,) = [k for k in program.plan.kernels if k.kind == "scatter"]
    assert len(kernel.writes) == 3 and kernel.price.bytes_read <= 2 * w.nbytes + 64 * 3 * 41 * 8
    for got, want in zip(program(i, w), fn(i, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
        assert got.dtype == want.dtype


@needs_compiler
def test_arrays_that_are_updated_where_they_lie_are_a_kernel_each() -> None:
    def both(x: Any, y: Any, i: Any, v: Any) -> Any:
        a, b = x.copy(), y.copy()
        np.add.at(a, i, v)
        np.add.at(b, i, v * v)
        return a, b

    given = RNG.standard_normal(30), RNG.standard_normal(30), RNG.integers(0, 30, 700), RNG.standard_normal(700)
    program = ef.compile(both, *given, target=C)
    assert [k.kind for k in program.report.kernels] == ["scatter", "scatter"]
    for got, want in zip(program(*given), both(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    results = [scattered("add", read(0, (30,)), PLACES, V), scattered("add", X, PLACES, mul(V, V))]
    with pytest.raises(UnsupportedOp, match="of constants"):
        own_schedule(body([read(0, (30,)), X, PLACES, V], *results), C)


def test_updates_of_as_many_values_only_share_a_kernel() -> None:
    places, values = read(3, (9000,), np.int64), read(4, (9000,))
    results = [node("bincount", (PLACES, V), (9,)), node("bincount", (places, values), (9,))]
    with pytest.raises(UnsupportedOp, match="as many values"):
        own_schedule(body([PLACES, V, places, values], *results), C)


@needs_compiler
@pytest.mark.parametrize("dtype, weight", [("float64", "float64"), ("float32", "float32"), ("int32", "float64")])
def test_weighted_histograms_add_what_numpy_adds_at_every_edge_and_beside_it(dtype: str, weight: str) -> None:
    bins, limits = 50, (-0.3, 7.5)
    edges = np.histogram_bin_edges(np.empty(0, dtype), bins, limits)
    near = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), RNG.normal(size=40_000) * 3]
    x = np.concatenate([*near, [np.nan, np.inf, -np.inf] if dtype[0] == "f" else []]).astype(dtype)
    w = RNG.integers(-9, 9, x.size).astype(weight)
    w[x > limits[1]] = np.inf  # beyond all bins

    def weighted(x: Any, w: Any) -> Any:
        return np.histogram(x, bins, limits, weights=w)[0]

    program = ef.compile(weighted, x, w, target=C)
    assert "scatter" in [k.kind for k in program.report.kernels]
    got, want = program(x, w), weighted(x, w)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("weight", [np.bool_, np.int64, np.complex64, np.float16])
def test_other_weights_are_numpys(weight: Any) -> None:
    x, w = ef.spec((4000,), np.float64), ef.spec((4000,), weight)
    program = ef.compile(lambda x, w: np.histogram(x, 9, (0.0, 1.0), weights=w)[0], x, w, target=C)
    assert "scatter" not in [k.kind for k in program.report.kernels]


def near_edges(dtype: str, bins: int, limits: tuple[float, float], count: int) -> np.ndarray:
    """Numbers at every edge and beside it, and `count` numbers more, shuffled."""
    edges = np.linspace(*limits, bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), [np.nan, np.inf, -np.inf]])
    values = np.concatenate([near, RNG.normal(size=count) * (limits[1] - limits[0])])
    RNG.shuffle(values)
    return np.nan_to_num(values, posinf=99, neginf=-99).astype(dtype) if dtype[0] == "i" else values.astype(dtype)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_of_two_axes_count_what_numpy_counts(dtype: str, weighted: bool) -> None:
    bins, ranges, count = (7, 9), ((-3, 4), (-0.3, 0.7)), 3000
    x, y = (near_edges(dtype, b, limits, count)[:count] for b, limits in zip(bins, ranges, strict=True))
    w = RNG.integers(-9, 9, count).astype(np.float64)

    def counted(x: Any, y: Any, w: Any) -> Any:
        return np.histogram2d(x * 1, y, bins, ranges, weights=w * 2 if weighted else None)

    program = ef.compile(counted, x, y, w, target=C)
    assert "scatter" in [k.kind for k in program.report.kernels]
    assert program.peak_bytes < 4 * x.nbytes
    for got, want in zip(program(x, y, w), counted(x, y, w), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@needs_compiler
def test_a_histogram_of_the_columns_of_a_matrix() -> None:
    points = RNG.standard_normal((4000, 3))

    def counted(points: Any) -> Any:
        return np.histogramdd(points, (3, 4, 5), ((-1, 1), (0.0, 2.0), (-2.5, 2.5)))[0]

    program = ef.compile(counted, points, target=C)
    assert [k.kind for k in program.report.kernels] == ["scatter"]
    np.testing.assert_array_equal(program(points), counted(points))


@pytest.mark.parametrize("given", [{"bins": 5}, {"bins": 5, "range": ((0, 1), None)},
                                   {"bins": (3, np.array([0.0, 0.2, 1.0])), "range": ((0, 1), (0, 1))},
                                   {"bins": 5, "range": ((0, 1), (0, 1)), "density": True}])  # fmt: skip
def test_two_axes_whose_bins_are_not_all_known_and_of_one_width_are_numpys(given: Any) -> None:
    x = ef.spec((4000,), np.float64)
    program = ef.compile(lambda x, y: np.histogram2d(x, y, **given)[0], x, x, target=C)
    assert "scatter" not in [k.kind for k in program.report.kernels]
