"""Large values block by block: every operator is split as it says, and graphs in blocks compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.losses import TRAINING, Training
from eqfuse.benches.training import loss_of
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device
from eqfuse.frontends.chunking import chunks
from eqfuse.frontends.chunking.blocks import BlockLoops
from eqfuse.frontends.chunking.chunks import chunked
from eqfuse.frontends.chunking.regions import Users, is_view, region
from eqfuse.frontends.chunking.splits import AxisSplit, resized, splits
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, input_node
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops import TABLE, row
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.types import TensorType
from tests.frontends.numpy_cases import LIKE, MOVES, NUMBERS, WRITES
from tests.support.random_graphs import random_graph
from tests.support.some import some

RNG = np.random.default_rng(8)
CPU = DEVICES["cpu"]
STEPS = [t for t in TRAINING if t.name in ("perceptron", "LSTM cell")]
X = RNG.uniform(0.1, 2, (4, 6))
JOINS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
         "logical_or": np.logical_or, "logical_and": np.logical_and}  # fmt: skip
OURS: list[Callable[[Any], Any]] = [
    lambda x: ef.conv(x.reshape(2, 3, 2, 2), x.reshape(6, 4)[:, :3].reshape(6, 3, 1, 1)),
    lambda x: ef.conv(x.reshape(2, 4, 3), x.reshape(6, 4)[:, :2].reshape(6, 2, 1), groups=2),
    lambda x: ef.max_pool(x.reshape(2, 3, 2, 2), 2), lambda x: ef.avg_pool(x.reshape(2, 3, 4), 2),
    lambda x: x.reshape(2, 2, 6) @ x.reshape(2, 6, 2), lambda x: x.reshape(2, 1, 2, 6) @ x.reshape(4, 6, 1),
    lambda x: x.reshape(2, 2, 3, 2), lambda x: x.reshape(8, 3), lambda x: x.reshape(2, 2, 6).reshape(4, 6),
    lambda x: x.reshape(4, 1, 6).transpose(2, 1, 0), lambda x: np.take_along_axis(x, (x[:, :2] * 2).astype(int), 1),
    lambda x: np.take_along_axis(x[:1], (x * 2).astype(int), 1), lambda x: x[:, np.array([[0, 5], [2, 2], [1, 0]])],
    lambda x: x[(x[:3] * 1).astype(int) % 4], lambda x: np.pad(x, ((0, 0), (1, 2))), lambda x: x[1:, ::2][::-1],
    lambda x: np.any(x > 1, 0) & np.all(x > 1, 1).any(), lambda x: x.prod(0) + x.min(1)[:, None] + x.max(0),
]  # fmt: skip


@cache
def nodes() -> list[Node]:
    """An application of each operator that the functions of NumPy make, and some more."""
    examples: dict[tuple, Node] = {}
    several = [cases for group in (MOVES, WRITES, LIKE, NUMBERS) for cases in group.values()]
    for case in [*(case for cases in several for case in cases), *OURS]:
        try:
            graph = ef.trace(case, X)
        except Exception:  # what NumPy, or the tracer, refuses for this array is for other tests
            continue
        for n in graph.operators:
            if n.op not in LOOPS:
                examples.setdefault((n.op, n.attrs, *(a.type for a in n.args)), n)
    return list(examples.values())


def cut(array: np.ndarray, axis: int | None, part: slice) -> np.ndarray:
    return array if axis is None else array[(slice(None),) * axis + (part,)]


def by_blocks(n: Node, split: AxisSplit, args: list[np.ndarray]) -> np.ndarray:
    """`n` from two blocks, one of a third of the extent if that can be."""
    extents = [a.shape[axis] for a, axis in zip(args, split.args, strict=True) if axis is not None]
    whole = n.shape[split.out] if split.out is not None else extents[0]
    units = int(np.gcd.reduce([whole, *extents]))
    parts = []
    for begin, end in ((0, max(1, units // 3)), (max(1, units // 3), units)):
        given = [
            cut(a, axis, slice(*(0 if axis is None else a.shape[axis] // units * i for i in (begin, end))))
            for a, axis in zip(args, split.args, strict=True)
        ]
        inputs = [input_node(f"x{i}", TensorType(a.dtype, a.shape)) for i, a in enumerate(given)]
        block = resized(n, split, inputs, whole // units * (end - begin))
        (result,) = evaluate(Graph(tuple(inputs), (block,)), given)
        parts.append(result)
    if split.joined is not None:
        return JOINS[split.joined](*parts)
    assert split.out is not None
    return np.concatenate(parts, split.out)


def arguments(n: Node) -> dict[Node, np.ndarray]:
    """Arrays for `n`; indices within any bounds that it may have."""
    whole = {a: RNG.integers(0, 2, a.shape) for a in n.args if a.dtype.kind in "biu"}
    arrays = {a: whole[a] if a in whole else RNG.uniform(0.1, 0.9, a.shape) for a in n.args}
    return {a: array.astype(a.dtype) for a, array in arrays.items()}


def test_every_split_of_every_operator_gives_its_results() -> None:
    tried = set()
    for n in nodes():
        given = arguments(n)
        args = [given[a] for a in n.args]
        try:
            wanted = n.row.meaning(*args, *n.attrs)
        except (np.linalg.LinAlgError, ValueError, IndexError):
            continue
        for split in splits(n):
            extents = [a.shape[axis] for a, axis in zip(n.args, split.args, strict=True) if axis is not None]
            extents += [] if split.out is None else [n.shape[split.out]]
            if int(np.gcd.reduce(extents)) > 1:
                tried.add((n.op, split.joined))
                got = by_blocks(n, split, args)
                np.testing.assert_allclose(got, wanted, rtol=1e-12, err_msg=f"{n.op}{n.attrs} by {split}")
    assert {op for op, _ in tried} >= {
        "matmul", "conv", "sum", "max", "take", "take_along_axis", "reshape", "transpose", "slice", "concat", "pad",
        "cumsum", "sort", "window_max", "flip", "broadcast_to", "where", "cast",
    }  # fmt: skip
    assert {joined for _, joined in tried} >= {None, *JOINS}


def in_blocks(graph: Graph, *sizes: int) -> Iterator[Graph]:
    """`graph` with each of its values larger than one of `sizes` in blocks, along each axis, of two sizes: each region
    once, whichever of its values it was found from."""
    users, tried = Users(graph), set()
    for large, n in product(sizes, graph.operators):
        for axis in range(len(n.shape)):
            r = region(users, n, axis, large)
            same = r and (frozenset({*r.axis.items(), *r.how.items()}), r.members, r.kept)
            if r is None or same in tried:
                continue
            tried.add(same)
            yield from (BlockLoops(r, size).graph() for size in (1, 2) if r.units > size)


@pytest.mark.parametrize("seed", some(range(60), 5))
def test_random_programs_in_blocks_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, arrays = random_graph(rng, operators=10, extents=(3, 4, 6))
    wanted = evaluate(graph, arrays)
    for variant in in_blocks(graph, *sorted({n.type.nbytes - 1 for n in graph.operators})):
        for got, w in zip(evaluate(variant, arrays), wanted, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-9 * max(1, np.abs(w).max()))


def test_sums_of_16_bit_floats_over_blocks_are_rounded_once() -> None:
    x = np.ones((1, 4096), np.float16)  # one by one they would not come beyond 2048
    for variant in in_blocks(ef.trace(lambda x: (x * 1).sum(1), x), x.nbytes // 2):
        assert evaluate(variant, [x]) == (4096,)


def turned(rng: np.random.Generator, x: Any, w: Any) -> Any:
    """A sum over random products, whose operands are often one array, as it is and transposed."""
    values = [x, w, x.T @ w]
    makes = [
        lambda a, b: a @ b, lambda a, _: a @ a.T, lambda a, b: a.T @ b, lambda a, _: np.tanh(a), lambda a, b: a * b.T,
        lambda a, _: a - a.max(axis=1, keepdims=True), lambda a, _: a / (1 + np.abs(a).sum(axis=0)),
    ]  # fmt: skip
    for _ in range(5):
        a, b = rng.integers(len(values), size=2)
        values.append(makes[rng.integers(len(makes))](values[a], values[b]))
    return values[-1].sum() + (values[-2] ** 2).sum()


@pytest.mark.parametrize("seed", some(range(24), 6))
def test_gradients_of_products_of_an_array_with_itself_are_the_same_in_blocks(seed: int) -> None:
    x, w = np.random.default_rng(seed).normal(size=(2, 4, 4))
    graph = ef.trace(ef.grad(lambda x, w: turned(np.random.default_rng(seed), x, w), (0, 1)), x, w)
    wanted = ef.meaning(graph, x, w)
    for variant in in_blocks(graph, *sorted({n.type.nbytes - 1 for n in graph.operators})):
        for got, g in zip(ef.meaning(variant, x, w), wanted, strict=True):
            np.testing.assert_allclose(got, g, rtol=1e-9, atol=1e-9 * max(1, np.abs(g).max()))


def small(t: Training) -> Training:
    """`t` of fewer elements."""
    if t.name == "LSTM cell":
        return replace(t, shapes=((6, 24), (6, 24), (24,), *((6, 6),) * 4))
    if t.name == "conv, batch norm":
        return replace(t, shapes=((4, 3, 3, 3), (4,), (4,), (4, 5), (6, 3, 4, 4), (6, 5)))
    return replace(t, shapes=tuple([tuple([min(n, 6) for n in shape]) for shape in t.shapes]))


@pytest.mark.parametrize("seed", some(range(100, 140), 4))
def test_a_region_computes_once_what_it_keeps_and_keeps_what_is_read_whole(seed: int) -> None:
    x, w = np.random.default_rng(seed).normal(size=(2, 4, 4))
    gradients = ef.trace(ef.grad(lambda x, w: turned(np.random.default_rng(seed), x, w), (0, 1)), x, w)
    random, _ = random_graph(np.random.default_rng(seed), operators=14, extents=(3, 4, 6))
    for graph in (random, gradients):
        regions_hold(graph)


@pytest.mark.parametrize("training", some([small(t) for t in TRAINING], 4), ids=lambda t: t.name)
def test_so_does_a_region_of_a_step_of_training(training: Training) -> None:
    step = ef.value_and_grad(loss_of(training), tuple(range(training.count)))
    regions_hold(ef.trace(step, *training.arguments()))


def behind(users: Users, n: Node) -> Iterator[Node]:
    """Who reads `n`, or a view of it."""
    for u in users.readers[n]:
        yield u
        if is_view(u):
            yield from behind(users, u)


def regions_hold(graph: Graph) -> None:
    users = Users(graph)
    for large, n in product(sorted({n.type.nbytes for n in graph.operators}), graph.operators):
        for r in filter(None, (region(users, n, axis, large - 1) for axis in range(len(n.shape)))):
            times = Counter(m for k in range(r.loops) for m in r.needed(k))
            assert all(times[m] == 1 for m in r.kept | r.joined)
            for m in r.members:
                later = {u for u in behind(users, m) if u in r.members | r.joined and r.level[u] > r.level[m]}
                assert m in r.kept or is_view(m) or not (later and r.is_small(m)), "it is computed again"
            for m in r.kept - {*graph.outputs}:
                cut_readers = [u for u in users.readers[m] if u in r.members | r.joined]
                by_block = all(r.by_block(u, i) for u in cut_readers for i, a in enumerate(u.args) if a is m)
                assert not (is_view(m) and by_block and len(cut_readers) == len(users.readers[m]))
            for m in r.members | r.joined:
                whole = [a for i, a in enumerate(m.args) if not r.by_block(m, i)]
                assert all(a in r.kept and r.level[a] < r.level[m] for a in whole if a in r.members)
                assert m not in r.joined or all(r.how[m].args[m.args.index(a)] is None for a in whole)
            assert all(m.shape[r.axis[m]] % r.units == 0 for m in r.members)
            held = [m for m in graph.operators if m in r.kept or not (m in r.members or is_view(m))]
            assert r.stored == sum(m.type.nbytes for m in held if m.type.nbytes >= large and m not in graph.outputs)
            for k in range(r.loops):
                assert not {a for a, axis in r.rows(k) if a in r.needed(k) and r.axis[a] == axis}


@pytest.mark.parametrize("training", some([small(t) for t in TRAINING], 2), ids=lambda t: t.name)
def test_gradients_in_blocks_are_the_gradients(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LEAST_BYTES", 1)
    arrays = [a.astype(np.float64) for a in training.arguments()]
    graph = ef.trace(ef.value_and_grad(loss_of(training), tuple(range(training.count))), *arrays)
    wanted = tree_leaves(ef.meaning(graph, *arrays))[0]
    variants = [*chunked(graph), *in_blocks(graph, sorted({n.type.nbytes for n in graph.operators})[-2])]
    assert variants
    for variant in variants:
        for got, w in zip(tree_leaves(ef.meaning(variant, *arrays))[0], wanted, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "bool", "complex64"])
def test_what_blocks_give_is_joined_in_every_dtype(dtype: str) -> None:
    x = (RNG.uniform(-3, 3, (6, 40)) > 0 if dtype == "bool" else RNG.uniform(-1.5, 1.5, (6, 40))).astype(dtype)

    def reductions(x: Any) -> Any:
        y = x * x
        both = y.sum(1), y.prod(1)
        if dtype == "complex64":
            return both
        below = y if dtype == "bool" else -1 - y
        return *both, below.max(1), y.min(1), y.any(1), y.all(1)

    graph = ef.trace(reductions, x)
    for variant in in_blocks(graph, x.nbytes // 2):
        for got, wanted in zip(evaluate(variant, [x]), evaluate(graph, [x]), strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=40 * 2**-11 if dtype == "float16" else 1e-5)


def test_blocks_of_a_row_each_have_one_more_where_rows_are_left_over() -> None:
    graph = ef.trace(lambda x, y: np.exp(x @ y).sum(1), np.ones((7, 3)), np.ones((3, 50)))
    users = Users(graph)
    (product,) = [n for n in graph.operators if n.op == "matmul"]
    candidate = region(users, product, 0, 100)
    assert candidate is not None and candidate.units == 7
    variant = BlockLoops(candidate, 3).graph()
    assert [n.attr("trips") for n in variant.operators if n.op == "scan"] == [2]
    assert max(n.type.nbytes for n in variant.operators if n.op == "matmul") == 50 * 8  # of the row that is left


def test_every_operator_that_is_split_is_in_the_table() -> None:
    from eqfuse.frontends.chunking.splits import _BY_NAME

    assert _BY_NAME.keys() <= TABLE.keys()
    assert all(row(name).name == name for name in _BY_NAME)


def test_scores_that_labels_choose_by_two_arrays_are_computed_in_blocks() -> None:
    def loss(h: Any, w: Any, labels: Any) -> Any:
        scores = h @ w
        return (np.log(np.exp(scores).sum(1)) - scores[np.arange(16), labels]).mean()

    arrays = RNG.normal(size=(16, 3)), RNG.normal(size=(3, 500)), RNG.integers(-500, 500, 16)
    graph = ef.trace(ef.value_and_grad(loss, (0, 1)), *arrays)
    wanted = loss(*arrays)
    for variant in chunked(graph):
        assert all(n.type.nbytes < 16 * 500 * 8 for n in variant.operators)
        np.testing.assert_allclose(ef.meaning(variant, *arrays)[0], wanted)
    assert [*chunked(graph)]


def test_the_terms_of_a_convolution_that_copies_its_windows_are_added_block_by_block() -> None:
    """Of the gradient of a filter: its terms are all images, and its kernel may copy each window of them."""

    def gradient(x: Any, ct: Any) -> Any:
        return ef.conv(x.transpose(1, 0, 2, 3), ct.transpose(1, 0, 2, 3) * 2)

    arrays = RNG.normal(size=(16, 8, 16, 16)), RNG.normal(size=(16, 8, 14, 14))
    graph = ef.trace(gradient, *arrays)
    variant = next(iter(chunked(graph)))
    assert variant.rolled == ("the terms of conv, float64[8, 8, 3, 3], are added in 4 blocks, by 1 loop",)
    (loop,) = [n for n in variant.operators if n.op == "scan"]
    assert loop.attr("trips") == 4 and not any(n.op == "conv" for n in variant.operators)
    np.testing.assert_allclose(ef.meaning(variant, *arrays), gradient(*arrays), rtol=1e-9, atol=1e-9)


def test_products_whose_copies_are_no_larger_than_their_operands_stay_whole() -> None:
    graph = ef.trace(lambda x, y: x.T @ y, np.ones((4096, 8)), np.ones((4096, 8)))
    assert not any("terms" in said for variant in chunked(graph) for said in variant.rolled or ())


@pytest.mark.slow
def test_an_argument_that_several_kernels_wait_for_is_read_once_block_by_block() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    step = ef.value_and_grad(loss)
    large, small = (
        (ef.spec((200,), np.float32), ef.spec((rows, 200), np.float32), ef.spec((rows,), np.float32))
        for rows in (50_000, 500)
    )
    wide = replace(CPU, l2_bytes=8 << 20)
    once = ef.compile(step, *large, target=wide).report
    greedy = ef.compile(step, *large, target=wide, extractor="greedy-depth").report
    assert any("blocks" in said for said in once.rolled) and not greedy.rolled
    assert once.predicted_seconds < 0.9 * greedy.predicted_seconds
    assert not ef.compile(step, *small, target=wide).report.rolled
    assert not ef.compile(step, *large, target=CPU).report.rolled  # whose level-2 caches hold blocks of too few rows


def test_rows_that_exceed_the_level_2_caches_come_from_memory_for_each_kernel_of_a_step() -> None:
    def total(xs: Any) -> Any:
        return ef.scan(lambda c, x: (c + (x @ c) @ x, None), np.ones(12_000, np.float32), xs)[0]

    report = ef.compile(total, ef.spec((16, 128, 12_000), np.float32), target=CPU).report
    moved = 16 * 128 * 12_000 * 4  # by one product, and again by the other
    assert report.predicted_seconds >= 2 * moved / CPU.memory_bytes_per_second


def test_the_rows_of_a_loop_come_from_where_all_of_them_lie() -> None:
    rows = ef.spec((64, 500_000), np.float32)

    def total(xs: Any) -> Any:
        return ef.scan(lambda c, x: (c + x.sum() * x.max(), None), np.float32(0), xs)[0]

    report = ef.compile(total, rows, target=compiled_device(CPU)).report
    assert report.predicted_seconds >= 64 * 500_000 * 4 / CPU.memory_bytes_per_second


@pytest.mark.parametrize("training", STEPS, ids=lambda t: t.name)
def test_values_in_blocks_count_as_much_less(training: Training) -> None:
    """Sums of gradients are results, and what is added to them is never stored: a step holds one block."""
    graph = ef.trace(ef.value_and_grad(loss_of(training), tuple(range(training.count))), *training.arguments())
    for blocks in (2, 4, 16):
        assert chunks._alive(chunks.in_blocks(graph, blocks, 8)) < 1.2 * chunks._alive(graph) / blocks


def test_what_depends_on_no_input_is_computed_in_no_loop() -> None:
    def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        centred = x - x.sum(1, keepdims=True) / x.shape[1]
        return np.concatenate([centred[7:], y[:7]]).sum() * 2.0

    x, y = RNG.normal(size=(2, 17, 3001))
    gradient = ef.grad(loss, argnums=(0, 1))
    for graph in chunked(ef.trace(gradient, x, y)):
        assert all(n.args for n in graph.nodes if n.op in LOOPS)
    dx, dy = ef.compile(gradient, x, y, target="numpy")(x, y)
    np.testing.assert_allclose(dx, 0, atol=1e-12)
    np.testing.assert_array_equal(dy, np.where(np.arange(17) < 7, 2.0, 0)[:, None] + np.zeros_like(y))
