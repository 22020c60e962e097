"""Values that neighbours along a row share: computed once for a strip of it in C, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.workloads import flux_limited
from eqfuse.emit.c import strips
from eqfuse.emit.c.schedule import LoopsSchedule, loops_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, run_all


def fluxes_along_a_line(u: Any) -> Any:
    return flux_limited(u[None])[0]


def separable_filter(x: Any) -> Any:
    def along(y: Any, cut: Any) -> Any:
        return sum(w * y[cut(k)] for k, w in enumerate((0.1, 0.3, 0.2, 0.3, 0.1)))

    down = along(x, lambda k: slice(k, x.shape[0] - 4 + k))
    return along(down, lambda k: (slice(None), slice(k, x.shape[1] - 4 + k)))


def slopes_of_slopes(x: Any) -> Any:
    for _ in range(3):
        x = np.sqrt(x[..., 1:] * x[..., 1:] + 1) / (2 + np.abs(x[..., :-1]))
        x = x[..., 1:] - x[..., :-1]
    return x


def backwards(x: Any) -> Any:
    y = x[:, ::-1] / (1 + x[:, ::-1] * x[:, ::-1])
    return y[:, 1:] * y[:, :-1]


def fluxes_along_both_axes(u: Any) -> Any:
    def flux(before: Any, here: Any, after: Any) -> Any:
        r = (here - before) / (after - here + 1e-6)
        return here + 0.5 * (r + np.abs(r)) / (1 + np.abs(r)) * (after - here)

    x = flux(*[u[2:-2, k : k - 3 or None] for k in range(3)])[:, : u.shape[1] - 3]
    y = flux(*[u[k : k - 3 or None, 2:-2] for k in range(3)])[: u.shape[0] - 3]
    return u[2:-2, 2:-2] - 0.3 * (x[:, 1:] - x[:, :-1]) - 0.3 * (y[1:] - y[:-1])


def slopes_of_a_blurred_picture(x: Any) -> Any:
    def along(y: Any, axis: int) -> Any:
        parts = [np.moveaxis(y, axis, 0)[k : y.shape[axis] - 4 + k] for k in range(5)]
        return np.moveaxis(sum(w * part for w, part in zip((0.1, 0.2, 0.4, 0.2, 0.1), parts, strict=True)), 0, axis)

    y = along(along(x, 0), 1)
    across, down = y[1:-1, 2:] - y[1:-1, :-2], y[2:, 1:-1] - y[:-2, 1:-1]
    return np.sqrt(across * across + down * down)


def rolled_along_both_axes(u: Any) -> Any:
    k = np.sqrt(1 + u * u) / (2 + np.abs(u))
    x, y = ((k + np.roll(k, -1, a)) * (np.roll(u, -1, a) - u) for a in (0, 1))
    return u + 0.1 * (x - np.roll(x, 1, 0) + y - np.roll(y, 1, 1))


def upside_down(x: Any) -> Any:
    y = x[::-1, ::-1] / (1 + x[::-1, ::-1] * x[::-1, ::-1])
    return y[3:, 1:] * y[:-3, :-1] - y[1:-2, 1:]


def columns_and_rows_of_rows(x: Any, column: Any, row: Any) -> Any:
    y = np.sqrt(np.abs(x / (column + 3) + row)) / (1 + x * x)
    return column[1:-1] * (y[2:, 2:] - 2 * y[1:-1, 1:-1] + y[:-2, :-2])


def fluxes_by_a_column(u: Any, column: Any) -> Any:
    weight = np.sqrt(np.abs(column)) + 1

    def flux(a: Any, b: Any, w: Any) -> Any:
        return w * np.sqrt(np.abs(a - b)) / (1 + np.abs(a * b))

    x = flux(u[1:-1, 1:], u[1:-1, :-1], weight[1:-1])
    y = flux(u[1:, 1:-1], u[:-1, 1:-1], weight[1:])
    return x[:, 1:] - x[:, :-1] + y[1:] - y[:-1]


def rolled(u: Any) -> Any:
    before, after = np.roll(u, 1, 1), np.roll(u, -1, 1)
    r = (u - before) / (after - u + 1e-6)
    flux = u + 0.5 * (r + np.abs(r)) / (1 + np.abs(r)) * (after - u)
    return u - 0.3 * (flux - np.roll(flux, 1, 1))


def with_a_column_and_a_row(x: Any, column: Any, row: Any) -> Any:
    y = np.sqrt(np.abs(x / (column + 3) + row)) / (1 + x * x)
    return y[:, 2:] - 2 * y[:, 1:-1] + y[:, :-2]


def of_integers(n: Any) -> Any:
    q = (n * n + 7) // (np.abs(n) + 3) % 11
    return q[:, 3:] - q[:, :-3]


def of_truth_values(x: Any) -> Any:
    steep = np.sqrt(np.abs(x)) / (1 + x * x) > 0.3
    return steep[:, 1:] != steep[:, :-1]


EXTENTS = [72, 74, 519, 521, 524, 525, 1038, 1545, 20_000]
FUNCTIONS = [flux_limited, separable_filter, slopes_of_slopes, backwards, rolled]
BOTH = [fluxes_along_both_axes, slopes_of_a_blurred_picture, rolled_along_both_axes, upside_down]
SIZES = [(600, 80), (511, 400), (700, 1100)]
CASES: dict[str, tuple[Any, list[tuple[tuple[int, ...], str]]]] = {
    **{f"{f.__name__} of rows of {n}": (f, [((5, n), "float32")]) for f in FUNCTIONS for n in EXTENTS},
    **{f"{f.__name__} in float64": (f, [((5, 1200), "float64")]) for f in FUNCTIONS},
    **{f"a line of {n}": (fluxes_along_a_line, [((n,), "float32")]) for n in EXTENTS},
    **{f"{dtype}": (of_integers, [((5, 1200), dtype)]) for dtype in ("int16", "int32", "int64")},
    "truth values": (of_truth_values, [((5, 1200), "float64")]),
    **{f"{f.__name__} of {m} rows of {n}": (f, [((m, n), "float32")]) for f in BOTH for m, n in SIZES},
    "fluxes by a column": (fluxes_by_a_column, [((600, 300), "float32"), ((600, 1), "float32")]),
    "rows, and a column and a row": (
        columns_and_rows_of_rows, [((200, 300), "float32"), ((200, 1), "float32"), ((300,), "float32")]
    ),
    "a column and a row": (
        with_a_column_and_a_row, [((5, 1200), "float32"), ((5, 1), "float32"), ((1200,), "float32")]
    ),
}  # fmt: skip


def traced(case: str) -> tuple[Graph, list[np.ndarray]]:
    function, arguments = CASES[case]
    rng = np.random.default_rng(len(case))
    arrays = [rng.integers(-9, 9, s) if "int" in d else rng.standard_normal(s) for s, d in arguments]
    arrays = [a.astype(d) for a, (_, d) in zip(arrays, arguments, strict=True)]
    return ef.trace(function, *arrays), arrays


def schedule_of(graph: Graph) -> LoopsSchedule:
    schedule = loops_schedule(graph, C)
    assert isinstance(schedule, LoopsSchedule)
    return schedule


def strips_of(function: Any, *arrays: np.ndarray) -> int:
    return len(schedule_of(ef.trace(function, *arrays)).forms[0].strips)


@pytest.mark.parametrize("case", CASES)
def test_what_neighbours_share_is_in_a_strip(case: str) -> None:
    schedule = schedule_of(traced(case)[0])
    assert schedule.forms[0].strips and "what neighbours share is computed once" in str(schedule)


def compiled() -> list[str]:
    """Every function, and every extent with some of them."""
    lines = [f"a line of {n}" for n in EXTENTS[::2]]
    rows = [f"{f.__name__} of rows of {n}" for i, f in enumerate(FUNCTIONS) for n in EXTENTS[i % 3 :: 3]]
    both = [f"{f.__name__} of {m} rows of {n}" for i, f in enumerate(BOTH) for m, n in (SIZES[i % 3], SIZES[i - 2])]
    return [*lines, *rows, *both, *[case for case in CASES if " of " not in case]]


@pytest.mark.slow
@needs_compiler
def test_kernels_with_strips_have_the_evaluators_bits() -> None:
    cases = compiled()
    graphs, data = zip(*map(traced, cases), strict=True)
    results = run_all([emitted("map", graph) for graph in graphs], data)
    for case, given, graph, got in zip(cases, data, graphs, results, strict=True):
        for a, b in zip(got, evaluate(graph, given), strict=True):
            np.testing.assert_array_equal(a, b, case)


def test_each_stage_of_a_stencil_reads_the_strip_of_the_one_before() -> None:
    first, second, last = schedule_of(ef.trace(slopes_of_slopes, np.ones((4, 600), np.float32))).forms[0].strips
    assert first.ahead > second.ahead > last.ahead
    assert set(second.taken) <= first.shifts.keys() and set(last.taken) <= second.shifts.keys()


def test_what_is_cheap_is_computed_again() -> None:
    x = np.ones((8, 600), np.float32)
    assert strips_of(lambda x: (2 * x)[:, 1:] - (2 * x)[:, :-1], x) == 0
    assert strips_of(lambda x: x[:, 2:] + x[:, 1:-1] + x[:, :-2], x) == 0


def test_short_rows_and_places_far_apart_have_no_strips() -> None:
    def slope(x: Any, by: int = 1) -> Any:
        y = np.sqrt(x) / (1 + x)
        return y[:, by:] - y[:, :-by]

    assert strips_of(slope, np.ones((8, 600), np.float32)) == 1
    assert strips_of(slope, np.ones((8, strips.STRIP_REACH), np.float32)) == 0
    assert strips_of(lambda x: slope(x, strips.STRIP_REACH + 1), np.ones((8, 600), np.float32)) == 0


def test_a_strip_is_priced_as_what_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ef.trace(flux_limited, np.ones((2048, 2048), np.float32))
    with_strips = schedule_of(graph)
    monkeypatch.setattr(strips, "WORTH_A_STRIP", 0.0)
    without = schedule_of(graph)
    assert not without.forms[0].strips
    assert with_strips.compute < 0.7 * without.compute and with_strips.flops < 0.6 * without.flops
    assert with_strips.reads == without.reads


@pytest.mark.slow
@needs_compiler
def test_threads_change_no_bit() -> None:
    u = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
    wanted = flux_limited(u)
    for threads in (1, 2, 5):
        before = ef.set_num_threads(threads)
        try:
            np.testing.assert_array_equal(ef.compile(flux_limited, u, target="c", numerics="strict")(u), wanted)
        finally:
            ef.set_num_threads(before)
