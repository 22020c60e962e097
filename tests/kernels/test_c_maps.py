"""C kernels that read arrays joined of pieces, or by places: bits, bytes, how much text, and what is out of bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.index_maps import INDEX_MAPS
from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.cells import _CellWalk, cells_of
from eqfuse.emit.c.kernels import emit_kernel
from eqfuse.emit.c.loops import pushed
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from eqfuse.plan.plan import Kernel
from tests.kernels.test_c_emit import counted
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, run_all
from tests.support.kernels import PRICE, add, body, cut, data, joined, mul, number, read, reduced, rolled

X, Y, TURNED = read(0, (70, 130)), read(1, (70, 130)), read(1, (130, 70))
ENDS = [read(2, (30, 260)), read(3, (110, 260))]
TABLE, PLACES = read(0, (40, 130)), read(1, (7, 5), np.int32)
LONG = read(0, (1 << 18,))
FIRST, SECOND, WEIGHTS = read(0, (1, 1 << 16)), read(1, (1, 1 << 16)), read(2, (2, 1))
NARROW, COLUMN, OLD = read(0, (900, 5)), read(1, (900, 1)), read(2, (900, 6))


def reflected(x: Node) -> Node:
    """Padded by two columns of mirrored elements on either side."""
    n = x.type.extent(-1)
    before, after = (node("flip", (cut(x, -1, *ends),), ((-1,),)) for ends in ((1, 3), (n - 3, n - 1)))
    return joined(-1, before, x, after)


def around(x: Node) -> Node:
    neighbours = [rolled(x, by, axis) for axis in (-1, -2) for by in (1, x.shape[axis] - 1)]
    return add(add(neighbours[0], neighbours[1]), add(neighbours[2], neighbours[3]))


def padded(x: Node) -> Node:
    wide = node("pad", (x, number(3.0)), (((1, 1), (1, 1)),))
    return add(cut(wide, -1, 2, 132), cut(wide, -1, 0, 130))


def halves(x: Node) -> Node:
    return mul(x, joined(-1, node("negative", (cut(x, -1, 65, 130),)), cut(x, -1, 0, 65)))


def inner(x: Node) -> Node:
    return cut(cut(x, -1, 1, x.type.extent(-1) - 1), -2, 1, x.type.extent(-2) - 1)


def bordered(x: Node) -> Node:
    """The inside of a stencil, then two borders, one of them made of it."""
    rows, columns = x.shape
    new = node("slice_scatter", (x, inner(around(x))), ((((1, rows - 1, 1), (1, columns - 1, 1)),),))
    lower, left = ((0, 1, 1), (0, columns, 1)), ((0, rows, 1), (0, 1, 1))
    values = mul(cut(new, -2, 1, 2), number(2.0)), cut(mul(x, x), -1, 3, 4)
    return node("slice_scatter", (new, *values), ((lower, left),))


def twice(x: Node) -> Node:
    return joined(-1, node("negative", (x,)), mul(x, x))


def filled(old: Node, columns: Node, last: Node) -> Node:
    """`old` with all columns replaced, of which the second is replaced again."""
    rows, most = columns.shape
    places = tuple([((0, rows, 1), ends) for ends in ((0, most, 1), (most, most + 1, 1), (1, 2, 1))])
    return node("slice_scatter", (old, columns, last, last), (places,))


JOINED: dict[str, tuple[str, Graph]] = {
    "four neighbours around": ("map", body([X], mul(around(X), X))),
    "zeros around": ("map", body([X], padded(X))),
    "reflections": ("map", body([X], reflected(X))),
    "borders around a stencil": ("map", body([X], bordered(X))),
    "halves swapped": ("map", body([X], halves(X))),
    "stacked columns": ("map", body([X, Y], joined(-1, *(node("reshape", (v,), ((70, 130, 1),))
                                                         for v in (mul(X, Y), add(X, Y)))))),
    "rows over two arrays": ("row", body([X, Y], mul(joined(-1, X, Y), reduced("max", joined(-1, X, Y))))),
    "columns over two arrays": ("row", body([X, Y], mul(joined(-2, X, mul(Y, Y)),
                                                        reduced("max", joined(-2, X, mul(Y, Y)), -2)))),
    "places in rows": ("reduce", body([X], reduced("argmax", joined(-1, X, X)))),
    "places in columns": ("reduce", body([X, Y], reduced("argmin", joined(-2, X, X, Y), -2))),
    "read across": ("map", body([X, TURNED], add(TURNED, rolled(node("transpose", (X,), ((1, 0),)), 1, -1)))),
    "pieces that read one joined array": ("map", body([X, Y, *ENDS], add(twice(joined(-2, X, Y)),
                                                                         joined(-2, *map(mul, ENDS, ENDS))))),
    "columns that fill a buffer": ("map", body([NARROW, COLUMN, OLD], filled(OLD, NARROW, COLUMN))),
    "a long sum": ("reduce", body([LONG], reduced("sum", mul(LONG, rolled(LONG, 1, -1))))),
}  # fmt: skip
TAKEN = node("take", (TABLE, PLACES), (-2,))
NUMBERS = read(1, (35,), np.int32)
LABELS = read(1, (70, 1), np.int64)
GATHERED: dict[str, tuple[str, Graph]] = {
    "rows by number": ("row", body([TABLE, PLACES], mul(TAKEN, reduced("max", TAKEN)))),
    "labels of rows": ("row", body([X, LABELS], node("subtract", (node("take_along_axis", (X, LABELS), (-1,)),
                                                                   reduced("max", X))))),
    "rows by number, reduced to one": (
        "reduce", body([TABLE, NUMBERS], reduced("max", node("take", (TABLE, NUMBERS), (-2,)), -2))),
    "columns by number": ("map", body([X, PLACES], node("take", (X, PLACES), (-1,)))),
}  # fmt: skip
CASES = JOINED | GATHERED


@needs_compiler
def test_what_is_made_of_the_sums_of_long_joined_rows_is_written() -> None:
    rows = joined(-2, mul(FIRST, FIRST), mul(SECOND, SECOND))
    graph = body([FIRST, SECOND, WEIGHTS], rows, mul(reduced("sum", rows), WEIGHTS))
    kernel, given = emitted("row", graph), data(graph)
    assert kernel.schedule.parts > 1
    (got,) = run_all([kernel], [given])
    for ours, wanted in zip(got, evaluate(graph, given), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-6)


@pytest.mark.slow
@needs_compiler
def test_kernels_read_joined_and_gathered_arrays_where_they_lie() -> None:
    arrays = [data(graph) for _, graph in CASES.values()]
    results = run_all([emitted(*case) for case in CASES.values()], arrays)
    for (name, (_, graph)), given, got in zip(CASES.items(), arrays, results, strict=True):
        for ours, wanted in zip(got, evaluate(graph, given), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=2e-6 if name == "a long sum" else 0, err_msg=name)


@needs_compiler
@pytest.mark.parametrize(
    "case", ["four neighbours around", "reflections", "borders around a stencil", "halves swapped", "a long sum"]
)
def test_bytes_priced_are_bytes_that_the_text_reads_and_writes(case: str) -> None:
    kind, graph = JOINED[case]
    kernel = emitted(kind, graph, replace(C, threads=1))
    counts = counted(kernel)
    unread = 3 if case == "borders around a stencil" else 0  # its corners
    wanted = graph.inputs[0].type.size - unread
    assert counts["r0"][0] == kernel.schedule.reads[0] // graph.inputs[0].dtype.itemsize == wanted
    for j, nbytes in enumerate(kernel.schedule.writes):
        assert counts[f"w{j}"] == (nbytes // graph.outputs[j].dtype.itemsize,) * 2


@pytest.mark.parametrize("case, forms", [("four neighbours around", 1), ("halves swapped", 2), ("zeros around", 2)])
def test_cells_that_differ_in_places_alone_share_a_text(case: str, forms: int) -> None:
    kind, graph = JOINED[case]
    schedule = kind_named(kind).schedule(graph, C)
    assert isinstance(schedule, LoopsSchedule) and len(schedule.forms) == forms
    assert f"in {forms} forms" in str(schedule)


def test_loops_over_rows_that_are_gathered_and_reduced_to_one_run_along_the_rows() -> None:
    table, numbers = read(0, (50_000, 128)), read(1, (20_000,), np.int64)
    taken = node("take", (table, numbers), (-2,))
    schedule = kind_named("reduce").schedule(body([table, numbers], reduced("sum", taken, -2)), C)
    assert isinstance(schedule, LoopsSchedule)
    assert schedule.nest.runs.extent == 128 and schedule.nest.by_columns


@needs_compiler
@pytest.mark.parametrize("case", GATHERED)
@pytest.mark.parametrize("beyond", [1 << 30, -(1 << 30), 130, -131])
def test_a_place_beyond_its_array_is_an_index_error(case: str, beyond: int) -> None:
    kind, graph = GATHERED[case]
    kernel = emitted(kind, graph)
    first, places = data(graph)
    places.reshape(-1)[-1] = beyond
    with pytest.raises(IndexError, match=f"{beyond} is out of bounds"):
        run_all([kernel], [[first, places]])


@needs_compiler
def test_a_program_says_which_of_its_indices_lies_beyond_its_array() -> None:
    def program(table: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        rows = table[first]
        return np.cumsum(rows - rows.max(-1, keepdims=True), axis=0)[second] * 2

    x = np.random.default_rng(0).random((50, 300), np.float32)
    places = np.arange(40)
    compiled = ef.compile(program, x, places, places, target="c")
    np.testing.assert_allclose(compiled(x, places, places), program(x, places, places), rtol=1e-5)
    for first, second, said in ((places + 20, places, "size 50"), (places, places + 7, "size 40")):
        with pytest.raises(IndexError, match=said):
            compiled(x, first, second)


def test_too_many_seams_for_one_kernel_are_left_to_numpy() -> None:
    x = read(0, (2,) * 6)
    graph = body([x], node("pad", (x, number(1.0)), (((1, 1),) * 6,)))
    kernel = emit_kernel(Kernel("map", graph, (), (), PRICE), C)
    assert isinstance(kernel, NumpyKernel)
    (array,), out = data(graph), np.empty(graph.outputs[0].shape, np.float32)
    kernel.run([out], [array])
    np.testing.assert_array_equal(out, evaluate(graph, [array])[0])


@needs_compiler
@pytest.mark.parametrize("case", ["M1", "M2", "M3", "M4", "M5", "M9"])
def test_programs_of_index_maps_are_one_kernel(case: str) -> None:
    program, types = INDEX_MAPS[case].build(**{name: min(n, 512) for name, n in INDEX_MAPS[case].full.items()})
    compiled = ef.compile(program, *(ef.spec(t.shape, t.dtype) for t in types), target=C)
    assert compiled.report.n_kernels == 1


@needs_compiler
def test_narrow_columns_that_fill_a_buffer_are_laid_by_one_kernel_and_wide_ones_are_copied() -> None:
    def design(x: np.ndarray) -> np.ndarray:
        columns = np.empty((x.shape[0], x.shape[1] + 1))
        columns[:, 0] = 1
        columns[:, 1:] = x
        return columns

    for width, schedule in ((5, LoopsSchedule), (500, CallsSchedule)):
        x = np.random.default_rng(0).normal(size=(700, width))
        program = ef.compile(design, x, target=C)
        (laid,) = [k for k in program.plan.kernels if not k.is_view]
        assert type(laid.template.schedule(laid.body, C)) is schedule
        np.testing.assert_array_equal(program(x), design(x))


def test_cells_that_differ_in_where_they_read_have_one_body() -> None:
    x = read(0, (8, 8))
    stencil = body([x], add(rolled(rolled(x, 1, -2), 7, -1), rolled(x, 2, -1)))
    cells = cells_of(pushed(stencil), (8, 8))
    assert len(cells) > 4 and len({id(cell.body) for cell in cells}) == 1
    assert len({tuple(cell.reads.values()) for cell in cells}) == len(cells)


def test_what_meets_in_too_many_ways_is_refused_before_any_cell_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(x: np.ndarray) -> np.ndarray:
        each = [np.concatenate([np.exp(x[k:]), np.sin(x[:k])]) for k in range(1, 32)]
        return sum(each[1:], each[0])

    graph = pushed(ef.trace(mixed, ef.spec((70, 130), np.float64)))
    monkeypatch.setattr(_CellWalk, "_computed", None)
    with pytest.raises(UnsupportedOp, match="meet in too many ways"):
        cells_of(graph, (70, 130))


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_rows_are_reduced_that_are_numbers_alone_in_some_cells(dtype: type) -> None:
    """A number that pads, or what is computed of it, stands for a part of a row, or for whole ones."""

    def padded(x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.pad(x, ((1, 1), (2, 1)), constant_values=3)
        y = y + np.square(y)
        return y * 2, y.sum(1, keepdims=True), (y > 5).any(1, keepdims=True)

    def below_a_constant(x: np.ndarray) -> np.ndarray:
        y = np.concatenate([np.full((4, 9), 2, dtype), x], 0)
        return y - y.max(0, keepdims=True)

    def reduced_twice(x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.pad(x, ((1, 1), (2, 1)), constant_values=3)
        above = y - y.min(1, keepdims=True) * 3
        return above, (above * 3).sum(1, keepdims=True)

    graphs = [ef.trace(f, ef.spec((100, 9), dtype)) for f in (padded, below_a_constant, reduced_twice)]
    arrays = [data(graph) for graph in graphs]
    for graph, given, got in zip(graphs, arrays, run_all([emitted("row", g) for g in graphs], arrays), strict=True):
        for result, want in zip(got, evaluate(graph, given), strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-6)
