"""A softmax between two products in C, made block by block: what it computes, where masks leave nothing, its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device
from eqfuse.emit.c.kernels import CKernel
from eqfuse.emit.c.product.online import online_parts_of
from eqfuse.emit.c.product.parts import parts_of
from eqfuse.emit.c.product.schedule import product_schedule, schedule_of
from eqfuse.emit.c.product.writer import product_text
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, run_all, with_address_sanitizer
from tests.support.kernels import add, body, cast, data, mul, number, read, reduced, softmax

ROWS, TERMS, COLUMNS = 130, 16, 600


def matmul(x: Node, y: Node) -> Node:
    return node("matmul", (x, y))


def operands(dtype: str = "float32", wide: int = 40) -> tuple[Node, Node, Node, Node]:
    """Queries, keys, values, and the scores."""
    q, k, v = read(0, (2, ROWS, TERMS), dtype), read(1, (2, COLUMNS, TERMS), dtype), read(2, (2, COLUMNS, wide), dtype)
    return q, k, v, mul(matmul(q, node("transpose", (k,), ((0, 2, 1),))), number(0.25, dtype))


def masked(scores: Node, mask: Node, other: bool = False) -> Node:
    low = number(-np.inf, scores.dtype.name)
    return node("where", (node("logical_not", (mask,)), low, scores) if other else (mask, scores, low))


def plain() -> Iterator[Graph]:
    for dtype in ("float32", "float64"):
        q, k, v, scores = operands(dtype)
        yield body([q, k, v], matmul(softmax(scores), v))
    q, k, v, scores = operands(wide=9)
    top = reduced("max", scores)
    terms = node("exp", (node("subtract", (scores, top)),))
    total = reduced("sum", terms)
    yield body([q, k, v], add(node("divide", (matmul(terms, v), total)), add(node("log", (total,)), top)))
    bias = read(3, (ROWS, COLUMNS))
    yield body([q, k, v, bias], matmul(softmax(add(scores, bias)), v))


def with_masks() -> Iterator[Graph]:
    for wide, other in ((40, False), (64, True)):
        q, k, v, scores = operands(wide=wide)
        mask = read(3, (ROWS, COLUMNS), "bool")
        yield body([q, k, v, mask], matmul(softmax(masked(scores, mask, other)), v))
    q, k, v, scores = operands("float64", 33)
    here, there, keys = read(3, (ROWS, 1), "int64"), read(4, (COLUMNS,), "int64"), read(5, (2, 1, COLUMNS), "bool")
    scores = masked(masked(scores, node("greater_equal", (here, there))), keys)
    yield body([q, k, v, here, there, keys], matmul(softmax(scores), v))


def causal(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return rows[:, None] + 50 >= columns


def arrays_of(graph: Graph) -> list[np.ndarray]:
    """A row sees what comes before it and some more; a few see nothing, whole blocks of rows among them."""
    arrays = data(graph)
    rows, columns = np.arange(ROWS), np.arange(COLUMNS)
    if len(arrays) == 4 and arrays[3].dtype == np.bool_:
        arrays[3] = causal(rows, columns)
        arrays[3][5:7] = arrays[3][70:] = False
    if len(arrays) == 6:
        arrays[3], arrays[4] = rows[:, None] * 4, columns
        arrays[5] = np.ones((2, 1, COLUMNS), bool)
        arrays[5][0, :, :300] = arrays[5][1, :, 300:] = False
    return arrays


def by_block(graph: Graph) -> CKernel:
    schedule, name = schedule_of(graph, online_parts_of(graph, parts_of(graph)), C), f"product_{graph.key}"
    return CKernel(name, product_text(schedule, name, True), schedule)


def meant(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return list(evaluate(graph, arrays))


def judge(graphs: list[Graph], arrays: list[list[np.ndarray]]) -> None:
    kernels = [by_block(graph) for graph in graphs]
    for graph, given, results in zip(graphs, arrays, run_all(kernels, arrays), strict=True):
        for got, want in zip(results, meant(graph, given), strict=True):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            off = 64 * np.finfo(want.dtype).eps * np.abs(want[np.isfinite(want)]).max(initial=0)
            np.testing.assert_allclose(got, want, rtol=0, atol=off)


@pytest.mark.slow
@needs_compiler
def test_a_softmax_made_block_by_block_is_that_of_whole_rows() -> None:
    graphs = [*plain(), *with_masks()]
    judge(graphs, [arrays_of(graph) for graph in graphs])


@pytest.mark.slow
@needs_compiler
def test_nan_and_infinity_are_where_whole_rows_have_them() -> None:
    """In keys and values, also those of blocks that a mask passes over: 0 times NaN is NaN."""
    graphs, arrays = [], []
    for graph in [next(plain()), next(with_masks())]:
        for place, value in ((3, np.nan), (590, np.nan), (590, np.inf)):
            given = [x.copy() for x in arrays_of(graph)]
            given[1][0, 70, 3] = np.inf
            given[2][:, place, 1] = value
            graphs.append(graph)
            arrays.append(given)
    assert np.isnan(meant(graphs[4], arrays[4])[0][:, :, 1]).all()
    judge(graphs, arrays)


@needs_compiler
def test_blocks_of_which_a_mask_leaves_nothing_are_passed_over() -> None:
    """Keys that are passed over may be anything, and no product of them is made: the text says so, and NaN in them
    goes nowhere."""
    graph = next(with_masks())
    given = arrays_of(graph)
    (want,) = meant(graph, given)
    given[1][:, 512:] = np.nan
    kernel = by_block(graph)
    assert "if (!any)" in kernel.text.source and "continue;" in kernel.text.source
    ((got,),) = run_all([kernel], [given])
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    assert product_schedule(graph, C).seconds < 0.9 * product_schedule(next(plain()), C).seconds


@pytest.mark.parametrize("between, why", [
    (lambda s: mul(softmax(s), s), "in proportion to the exponentials"),
    (lambda s: node("exp", (s,)), "where a softmax is"),
    (lambda s: cast(softmax(cast(s, "float64")), "float32"), "in the dtype of the sums"),
])  # fmt: skip
def test_what_is_no_softmax_of_the_dtype_of_sums_is_made_of_whole_rows(
    between: Callable[[Node], Node], why: str
) -> None:
    q, k, v, scores = operands()
    graph = body([q, k, v], matmul(between(scores), v))
    with pytest.raises(UnsupportedOp, match=why):
        online_parts_of(graph, parts_of(graph))
    assert parts_of(graph).online is None


def test_a_mask_is_not_looked_at_where_what_it_leaves_out_counts() -> None:
    """A finite number instead of -infinity, and weights that are multiplied once more: 0 times infinity is NaN."""
    q, k, v, scores = operands()
    mask, gate = read(3, (ROWS, COLUMNS), "bool"), read(4, (ROWS, COLUMNS))
    finite = node("where", (mask, scores, number(-1e9)))
    for between in (softmax(finite), mul(softmax(masked(scores, mask)), gate)):
        graph = body([q, k, v, mask, gate], matmul(between, v))
        online = online_parts_of(graph, parts_of(graph)).online
        assert online is not None and online.live is None


def test_rows_that_are_too_long_for_a_cache_are_made_block_by_block() -> None:
    q, k, v = (read(i, (8, 16_384, 64)) for i in range(3))
    scores = matmul(q, node("transpose", (k,), ((0, 2, 1),)))
    schedule = product_schedule(body([q, k, v], matmul(softmax(scores), v)), compiled_device(DEVICES["cpu"]))
    assert schedule.tops is not None and schedule.blocks.rows >= 48
    assert schedule.blocks.elements < 16_384 * 8
    assert "block by block" in str(schedule)
    price = schedule.price(C)
    panels = sum(t.nbytes for t in schedule.workspaces)
    assert price.bytes_read - panels == 3 * q.type.nbytes and price.bytes_written - panels == q.type.nbytes


@needs_compiler
@pytest.mark.slow
def test_blocks_touch_no_memory_that_is_not_theirs() -> None:
    with_address_sanitizer(
        "tests.kernels.test_c_attention", "test_a_softmax_made_block_by_block_is_that_of_whole_rows()"
    )
