"""Products of our own in C: what they compute of every operand and type, what they cost, the order of their sums."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.product.parts import parts_of
from eqfuse.emit.c.product.schedule import ProductSchedule, products_schedule
from eqfuse.emit.c.product.tile import RegisterTile, register_tile
from eqfuse.emit.c.rates import traffic_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute
from eqfuse.kinds import kind_named
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, product, run_all
from tests.support.kernels import add, body, cast, data, gelu, layer_norm, mul, number, read, reduced, softmax

X, Y, BIAS, RESIDUAL = read(0, (130, 64)), read(1, (64, 100)), read(2, (100,)), read(3, (130, 100))
Q, K, V = read(0, (2, 100, 16)), read(1, (2, 70, 16)), read(2, (2, 70, 16))
EXTENTS = [(1, 1, 1), (5, 7, 9), (13, 70, 33), (1, 300, 500), (300, 300, 1), (129, 1100, 257), (97, 9000, 3)]
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def matmul(x: Node, y: Node) -> Node:
    return node("matmul", (x, y))


def turned(x: Node) -> Node:
    rank = x.type.rank
    return node("transpose", (x,), ((*range(rank - 2), rank - 1, rank - 2),))


def lone(rows: int, terms: int, columns: int, dtype: str = "float32") -> Graph:
    x, y = read(0, (rows, terms), dtype), read(1, (terms, columns), dtype)
    return body([x, y], matmul(x, y))


def views() -> Iterator[Graph]:
    """Operands that lie the other way round, in batches that broadcast, and with gaps."""
    for left, right in itertools.product((False, True), repeat=2):
        x, y = read(0, (600, 13) if left else (13, 600)), read(1, (170, 600) if right else (600, 170))
        yield body([x, y], matmul(turned(x) if left else x, turned(y) if right else y))
    for stem, other in [((3,), (3,)), ((3,), ()), ((2, 3), (2, 1)), ((), (4,)), ((5, 1), (1, 2))]:
        rows = 20 if stem else 1
        x, y = read(0, (*stem, rows, 33)), read(1, (*other, 18, 33))
        yield body([x, y, read(2, (18,))], add(matmul(x, turned(y)), read(2, (18,))))
    x, y = read(0, (90, 200)), read(1, (100, 300))
    yield body([x, y], matmul(node("slice", (x,), (((9, 80, 3), (100, 200, 1)),)),
                              node("slice", (y,), (((0, 100, 1), (1, 300, 2)),))))  # fmt: skip


def viewed(shape: tuple[int, int], i: int) -> dict[str, tuple[Node, Node]]:
    """An input, and a view of that shape of it, for each way in which rows and columns may lie in memory."""
    m, n = shape
    wide, long, other = read(i, (m, 2 * n + 1)), read(i, (3 * m, n)), read(i, (n + 2, m + 3))
    line, whole = read(i, (1, n)), read(i, (m, n))
    turned_slice = turned(node("slice", (other,), (((1, n + 1, 1), (2, m + 2, 1)),)))
    return {
        "steps": (wide, node("slice", (wide,), (((0, m, 1), (1, 2 * n + 1, 2)),))),
        "rows": (long, node("slice", (long,), (((0, 3 * m, 3), (0, n, 1)),))),
        "turned": (other, turned_slice),
        "reversed": (whole, node("flip", (whole,), ((-2, -1),))),
        "repeated": (line, node("broadcast_to", (line,), (shape,))),
    }


def lying() -> Iterator[Graph]:
    """Operands of every shape of view, with few and many rows and columns, and few and many terms. Each view
    is the left one with every second extents."""
    extents = [(1, 16, 3), (3, 40, 2), (20, 40, 1), (1, 9, 40), (20, 3, 40), (2, 700, 12)]
    for (turn, (m, k, n)), (i, left) in itertools.product(enumerate(extents), enumerate(viewed((1, 1), 0))):
        if (turn + i) % 2:
            continue
        rights = viewed((k, n), 1)
        x, a = viewed((m, k), 0)[left]
        y, b = rights[list(rights)[(i + m + n) % len(rights)]]
        yield body([x, y], matmul(a, b))
        if n < k:
            yield body([x, y], matmul(matmul(a, b), turned(b)))


def fused() -> Iterator[Graph]:
    """Work before, after and between."""
    yield body([X, Y, BIAS, RESIDUAL], add(gelu(add(matmul(X, Y), BIAS)), RESIDUAL))
    yield body([X, Y], softmax(matmul(layer_norm(X), Y)))
    yield body([X, Y], reduced("max", matmul(gelu(X), Y)), matmul(gelu(X), Y))
    small = read(1, (64, 100), "int8")
    yield body([X, small, BIAS], matmul(X, mul(cast(small, "float32"), BIAS)))
    half = cast(X, "float16")
    yield body([X, read(1, (64, 100), "float16")], cast(matmul(half, read(1, (64, 100), "float16")), "float32"))
    yield body([Q, K, V], matmul(softmax(mul(matmul(Q, turned(K)), number(0.25))), V))
    raised = node("exp", (matmul(Q, turned(K)),))
    yield body([Q, K, V], node("divide", (matmul(raised, V), reduced("sum", raised))))
    weights = node("exp", (X,))
    yield body([X, Y], node("divide", (matmul(weights, Y), reduced("sum", weights))))
    yield body([X, Y, BIAS], add(mul(matmul(X, Y), reduced("max", X)), mul(reduced("sum", layer_norm(X)), BIAS)))
    yield body([Q, K], node("subtract", (matmul(Q, turned(K)), reduced("min", Q))))
    for hidden in (100, 400, 700):  # all at once, and block by block, of less and of more than one depth
        first, bias, second = read(1, (64, hidden)), read(2, (hidden,)), read(3, (hidden, 40))
        yield body([X, first, bias, second], matmul(gelu(add(matmul(layer_norm(X), first), bias)), second))


def of_few_rows() -> Iterator[Graph]:
    """Right operands that are far: they stream by, whole and by blocks of terms, once and for a second tile of rows."""
    for extents in [(1, 517, 1000), (2, 130, 260), (3, 1100, 133), (12, 513, 260), (13, 600, 300), (24, 1030, 1001)]:
        yield lone(*extents)
    yield lone(1, 900, 4103, "float64")
    x, y = read(0, (600, 5)), read(1, (600, 999))
    yield body([x, y], matmul(turned(x), y))
    for rows in (1, 4, 5):  # dot products
        x, y = read(0, (rows, 700)), read(1, (401, 700))
        yield body([x, y], matmul(x, turned(y)))
    for rows, terms, hidden, across in [(3, 600, 1300, 401), (2, 784, 120, 84), (2, 256, 96, 1000)]:  # two in turn
        x, first, bias = read(0, (rows, terms)), read(1, (terms, hidden)), read(2, (hidden,))
        second = read(3, (hidden, across))
        yield body([x, first, bias, second], matmul(gelu(add(matmul(x, first), bias)), second))
    x, y = read(0, (3, 2, 300)), read(1, (2, 300, 641))
    yield body([x, y], gelu(matmul(node("transpose", (x,), ((1, 0, 2),)), y)))


def of_one_or_two_units() -> Iterator[Graph]:
    """Right operands that are far and that units copy, by blocks of terms: arrays, views, and computed ones."""
    for extents in [(25, 200, 3001), (32, 601, 1301), (97, 1030, 700), (128, 700, 900)]:
        yield lone(*extents)
    yield lone(41, 300, 1111, "float64")
    yield lone(41, 700, 1111, "float16")
    x, y = read(0, (700, 33)), read(1, (1101, 700))
    yield body([x, y], gelu(matmul(turned(x), turned(y))))
    x, y = read(0, (60, 700)), read(1, (700, 1001))
    yield body([x, y], matmul(mul(x, x), node("tanh", (y,))))
    x, y = read(0, (3, 40, 300)), read(1, (3, 300, 1001))
    yield body([x, y], matmul(x, y))


CASES = [*(lone(*extents) for extents in EXTENTS), lone(130, 700, 50, "float64"), lone(20, 30, 40, "float16"),
         *of_few_rows(), *of_one_or_two_units(), *views(), *fused()]  # fmt: skip


@pytest.mark.slow
@needs_compiler
def test_products_compute_their_bodies() -> None:
    arrays = [data(graph) for graph in CASES]
    for graph, read_, results in zip(CASES, arrays, run_all([product(graph) for graph in CASES], arrays), strict=True):
        for got, want in zip(results, evaluate(graph, read_), strict=True):
            unit = np.abs(want.astype(np.float64)).max() * np.finfo(want.dtype).eps
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=64 * unit)


@pytest.mark.slow
@needs_compiler
def test_products_read_operands_however_they_lie() -> None:
    graphs = list(lying())
    arrays = [data(graph) for graph in graphs]
    for graph, read_, (got,) in zip(graphs, arrays, run_all([product(g) for g in graphs], arrays), strict=True):
        (want,) = evaluate(graph, read_)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=str(graph))


@pytest.mark.slow
@needs_compiler
def test_products_of_integers_wrap_around_as_numpys() -> None:
    graphs = [lone(*extents, dtype) for dtype in INTEGERS for extents in ((25, 70, 40), (3, 700, 300), (30, 700, 500))]
    rng, arrays = np.random.default_rng(0), []
    for graph in graphs:
        most = np.iinfo(graph.inputs[0].dtype) if graph.inputs[0].dtype.kind != "b" else None
        least, end = (most.min, most.max) if most else (0, 1)
        arrays.append([rng.integers(least, end, n.shape, n.dtype, endpoint=True) for n in graph.inputs])
    for read_, (got,) in zip(arrays, run_all([product(graph) for graph in graphs], arrays), strict=True):
        np.testing.assert_array_equal(got, np.matmul(*read_))


@pytest.mark.slow
@needs_compiler
def test_sums_of_products_are_as_exact_as_blas() -> None:
    cases = [("float32", 1), ("float32", 24), ("float64", 1), ("float64", 30)]
    graphs = [lone(rows, 20_000, 33, dtype) for dtype, rows in cases]
    arrays = [[(np.random.default_rng(i).random(n.shape) + 0.5).astype(n.dtype) for i, n in enumerate(graph.inputs)]
              for graph in graphs]  # fmt: skip
    for case, given, (got,) in zip(cases, arrays, run_all([product(graph) for graph in graphs], arrays), strict=True):
        exact = np.matmul(*(a.astype(np.longdouble) for a in given))
        ours, blas = (np.abs(a - exact).max() / exact.max() for a in (got, np.matmul(*given)))
        assert ours <= max(2 * blas, 4 * np.finfo(case[0]).eps), case


@pytest.mark.slow
@needs_compiler
def test_the_number_of_threads_changes_no_bit_of_a_product() -> None:
    graphs = [lone(700, 600, 130), CASES[-1], CASES[-4], lone(1, 3000, 4100), lone(12, 900, 961)]
    kernels = [product(graph, replace(C, threads=threads)) for graph in graphs for threads in (1, 16)]
    assert {k.schedule.threads for k in kernels[:2]} == {1, 16}
    results = run_all(kernels, [data(graph) for graph in graphs for _ in range(2)])
    for one, many in zip(results[::2], results[1::2], strict=True):
        assert [a.tobytes() for a in one] == [a.tobytes() for a in many]


@needs_compiler
def test_a_kernel_reads_no_more_of_its_operands_than_its_views_show() -> None:
    """What the views leave out is NaN here: one of them in a sum would show."""
    graph = list(views())[-1]
    x, y = data(graph)
    left, right = x[9:80:3, 100:], y[:, 1::2]
    want = left @ right
    x_only, y_only = np.full_like(x, np.nan), np.full_like(y, np.nan)
    x_only[9:80:3, 100:], y_only[:, 1::2] = left, right
    ((got,),) = run_all([product(graph)], [[x_only, y_only]])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_bytes_priced_are_those_of_operands_panels_and_results() -> None:
    graph = lone(700, 600, 1300)
    schedule = product(graph).schedule
    (panels,), turns = schedule.workspaces, schedule.blocks.turns
    assert turns * panels.shape[1] * panels.shape[-1] >= 1300 and panels.shape[-2] == 600
    price = schedule.price(C)
    assert price.bytes_read == sum(n.type.nbytes for n in graph.inputs) + turns * panels.nbytes
    assert price.bytes_written == graph.outputs[0].type.nbytes + turns * panels.nbytes


@pytest.mark.parametrize("graph", list(of_one_or_two_units()))
def test_one_or_two_units_copy_a_far_right_operand_and_nothing_crosses_memory_twice(graph: Graph) -> None:
    schedule = product(graph).schedule
    assert not schedule.workspaces and str(schedule).count("as copied by its block") >= 1
    price = schedule.price(C)
    assert price.bytes_read == sum(n.type.nbytes for n in graph.inputs)
    assert price.bytes_written == graph.outputs[0].type.nbytes


def test_many_units_and_two_that_would_compute_it_share_panels_of_a_right_operand() -> None:
    x, y = read(0, (150, 700)), read(1, (700, 1001))
    for graph in [lone(300, 700, 1001), body([x, y], matmul(x, node("tanh", (y,))))]:
        assert len(product(graph).schedule.workspaces) == 1


def test_of_two_operands_the_larger_is_cut_for_threads_and_the_smaller_read_again() -> None:
    two = replace(C, threads=2)
    wide, high = (product(lone(*extents), two).schedule.blocks for extents in ((64, 2048, 512), (512, 2048, 64)))
    assert wide.rows == 64 and wide.columns < 512
    assert high.rows < 512 and high.columns == 64


@pytest.mark.parametrize("extents", [(512, 1024, 512), (1024, 512, 512), (1056, 700, 300), (480, 1000, 2000)])
def test_threads_share_the_blocks_of_a_product_evenly(extents: tuple[int, int, int]) -> None:
    """(Of 11 blocks on two threads one waits for the other's sixth.)"""
    units = product(lone(*extents), replace(C, threads=2)).schedule.units
    assert units % 2 == 0 or units > 20


@needs_compiler
def test_a_product_in_evened_blocks_is_what_it_means() -> None:
    graph = lone(1000, 300, 500)
    kernels = [product(graph, replace(C, threads=threads)) for threads in (1, 2, 3)]
    (want,) = evaluate(graph, data(graph))
    for (got,) in run_all(kernels, [data(graph)] * 3):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 8, 24, 300])
@pytest.mark.parametrize("across", [64, 2000])
def test_a_constant_lies_in_panels_unless_one_row_reads_it(rows: int, across: int) -> None:
    given = lone(rows, 256, across)
    x, y = given.inputs
    fixed = input_node("fixed", y.type, True)
    schedule = product(Graph((x, fixed), substitute(given.outputs, {y: fixed}))).schedule
    assert bool(schedule.workspaces) == (rows > 1)


def test_constants_are_priced_as_copied_once() -> None:
    given = lone(700, 600, 1300)
    x, y = given.inputs
    fixed = input_node("fixed", y.type, True)
    one, other = product(given).schedule, product(Graph((x, fixed), substitute(given.outputs, {y: fixed}))).schedule
    assert one.between == sum(t.nbytes for t in other.workspaces) and not one.copies_once and other.copies_once
    price = other.price(C)
    assert price.bytes_read == x.type.nbytes + y.type.nbytes and price.seconds < one.price(C).seconds
    weights = np.ones(y.shape, np.float32)
    plan = ef.extract(ef.saturate(ef.trace(lambda a: np.tanh(a @ weights), ef.spec(x.shape, np.float32))), target=C)
    (kernel,) = [k for k in plan.kernels if k.kind == "contract"]
    schedule = kind_named("contract").schedule(kernel.body, C)
    assert isinstance(schedule, ProductSchedule) and schedule.copies_once and schedule.price(C) == kernel.price


def test_large_plain_products_stay_with_blas_and_others_do_not() -> None:
    large = products_schedule(lone(4096, 4096, 4096), C)
    assert isinstance(large, CallsSchedule)
    for graph in [lone(24, 24, 24), lone(500, 500, 500, "int32"), lone(500, 500, 500, "float16"), next(fused())]:
        assert isinstance(products_schedule(graph, C), ProductSchedule)


@pytest.mark.parametrize("kind, graph", [("contract", CASES[5]), ("back_to_back", CASES[-1])])
def test_a_schedule_of_products_says_how_it_runs(kind: str, graph: Graph) -> None:
    text = str(product(graph).schedule)
    assert "blocks of" in text and "terms at a time" in text and "bytes of buffers" in text
    assert kind_named(kind).schedule(graph, C).price(C).flops >= 0


def test_numbers_of_the_program_are_not_in_the_text_of_a_product() -> None:
    texts = [product(body([X, Y], mul(matmul(X, Y), number(value)))).text.source for value in (0.12345, 7.0)]
    assert "12345" not in texts[0]
    assert re.sub(r"product_\w+", "", texts[0]) == re.sub(r"product_\w+", "", texts[1])


def test_what_no_product_holds_is_refused_with_a_reason() -> None:
    for graph in [lone(3, 4, 5, "complex64"), lone(0, 4, 5), body([Q, K], reduced("sum", matmul(Q, turned(K)), -2))]:
        with pytest.raises(UnsupportedOp):
            parts_of(graph)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 1000), (7, 10), (1000, 1000)])
def test_a_tile_fits_the_registers_and_the_extents(vector_bytes: int, rows: int, columns: int) -> None:
    for within in (True, False):
        tile = register_tile(rows, ((rows, 1),), columns, vector_bytes, 4, within)
        assert tile.rows <= rows and tile.rows * tile.vectors + tile.vectors <= 30
        assert tile.columns <= columns or not within
    assert register_tile(96, ((96, 12),), 1024, 64, 4, False) == RegisterTile(12, 2, 16, lines=True)
    assert register_tile(96, ((96, 12),), 1024, 32, 4, False) == RegisterTile(6, 2, 8)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_short_rows_beyond_a_level_2_cache_are_read_one_after_another(dtype: str) -> None:
    small = replace(C, l2_bytes=128 << 10)
    graphs = [lone(2501, *extents, dtype) for extents in [(200, 1), (33, 2), (257, 3), (130, 5), (65, 8), (100, 13)]]
    kernels = [product(graph, small) for graph in graphs]
    steps = [k.schedule.blocks.steps[0] for k in kernels]
    assert steps[0].tile.rows == 1 and all(step.tile.rows == 1 or step.left is None for step in steps)
    assert product(lone(2501, 200, 1, dtype), replace(C, l2_bytes=8 << 20)).schedule.blocks.steps[0].tile.rows > 1
    arrays = [data(graph) for graph in graphs]
    for graph, read_, (got,) in zip(graphs, arrays, run_all(kernels, arrays), strict=True):
        (want,) = evaluate(graph, read_)
        np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "float16" else 1e-4, atol=1e-4)


@needs_compiler
def test_far_arrays_beside_a_product_are_read_by_whole_rows() -> None:
    small = replace(C, l2_bytes=256 << 10, levels=((256 << 10, 2e11), (1 << 20, 1e11), (1 << 30, 1e10)))
    x, y, residual = read(0, (400, 32)), read(1, (32, 900)), read(2, (400, 900))
    behind = product(body([x, y, residual], add(matmul(x, y), residual)), small)
    x, factor, y = read(0, (400, 900)), read(1, (400, 900)), read(2, (900, 32))
    before = product(body([x, factor, y], matmul(mul(x, factor), y)), small)
    assert behind.schedule.blocks.columns == 900
    assert before.schedule.blocks.steps[0].held == 900 > before.schedule.blocks.steps[0].depth
    near = product(body([x, factor, y], matmul(mul(x, factor), y)), C).schedule.blocks
    assert near.steps[0].held < 900
    for kernel in (behind, before):
        graph = kernel.schedule.body
        (got,), (want,) = run_all([kernel], [data(graph)])[0], evaluate(graph, data(graph))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_follows_tiles_takes_its_time_after_them() -> None:
    x, y, residual = read(0, (4000, 32)), read(1, (32, 3000)), read(2, (4000, 3000))
    graphs = body([x, y], matmul(x, y)), body([x, y, residual], add(matmul(x, y), residual))
    alone, more = (product(graph).schedule for graph in graphs)
    traffic = [traffic_of(sum(s.reads), sum(s.writes)) for s in (alone, more)]
    memory = [C.memory_seconds(nbytes) for nbytes in traffic]
    assert more.seconds - alone.seconds > 0.9 * (memory[1] - memory[0])


def test_a_slow_cache_makes_blocks_smaller() -> None:
    small = replace(DEVICES["cpu"], target="c", l2_bytes=128 << 10)
    graph = lone(2000, 2000, 2000)
    blocks = [product(graph, device).schedule.blocks for device in (C, small)]
    assert blocks[1].elements < blocks[0].elements <= C.l2_bytes // 4


@needs_compiler
def test_products_of_few_terms_keep_their_sums_near() -> None:
    small = replace(DEVICES["cpu"], target="c", l2_bytes=256 << 10)
    few, many = lone(486, 8, 256), lone(486, 300, 256)
    for graph, rows in ((few, False), (many, True)):
        kernel = product(graph, small)
        blocks = kernel.schedule.blocks
        assert (blocks.rows > blocks.steps[0].tile.rows) == rows
        (got,), (want,) = run_all([kernel], [data(graph)])[0], evaluate(graph, data(graph))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert product(few, small).schedule.blocks.elements * 4 < 32 << 10
