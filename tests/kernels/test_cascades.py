"""Reductions that need one another, in one pass: parts carried over to the whole by laws, and kernels that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.emit.c import schedule as scheduling
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.emit.cuda.scheduling.row import rows_schedule
from eqfuse.ir.evaluate import evaluate, values_of
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ir.running_errors import running_errors
from eqfuse.kinds.cascade import CARRIED, Cascade, cascade_of
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.kernels.test_c_emit import counted
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, run_all
from tests.support.kernels import PRICE, add, body, data, mul, number, read, reduced

GPU = profile("h100")
SMALL = replace(C, l2_bytes=1 << 16, threads=2)
OFTEN = 8  # times the running error bound of the program as written


def sub(a: Node, b: Node) -> Node:
    return node("subtract", (a, b))


def exp(a: Node) -> Node:
    return node("exp", (a,))


def mean_of(x: Node, *axes: int) -> Node:
    count = np.prod([x.shape[a] for a in axes or (-1,)])
    return node("divide", (reduced("sum", x, *axes), number(count, x.dtype)))


def bodies(x: Node, v: Node, *axes: int) -> dict[str, Graph]:
    """Programs by name; `x` and `v` are of one shape."""
    top, bottom, mean = reduced("max", x, *axes), reduced("min", x, *axes), mean_of(x, *axes)
    half = number(0.5, x.dtype)
    weights, centred, other = exp(sub(x, top)), sub(x, mean), sub(v, mean_of(v, *axes))
    below, scaled = exp(sub(bottom, x)), exp(mul(sub(x, top), half))
    finite = node("where", (node("isfinite", (top,)), top, number(0, x.dtype)))
    positive = node("greater", (v, number(0, x.dtype)))
    kept = node("where", (positive, weights, number(0, x.dtype)))

    def total(n: Node) -> Node:
        return reduced("sum", n, *axes)

    outputs = {
        "logsumexp": (add(node("log", (total(weights),)), top),),
        "a temperature": (total(scaled), total(exp(node("divide", (sub(x, top), number(2, x.dtype)))))),
        "powers of two": (total(node("exp2", (sub(x, top),))),),
        "down from the smallest": (total(below), total(exp(node("negative", (sub(x, bottom),))))),
        "a weighted mean": (node("divide", (total(mul(weights, v)), total(weights))),),
        "divided terms": (total(node("divide", (weights, add(mul(v, v), number(1, x.dtype))))),),
        "terms chosen": (total(kept), total(weights)),
        "terms turned": (total(node("negative", (weights,))),),
        "terms cast": (total(node("cast", (weights,), (x.dtype,))),),
        "entropy": (total(weights), total(mul(weights, sub(x, top)))),
        "finite maximum": (add(node("log", (total(exp(sub(x, finite))),)), finite),),
        "variance": (node("divide", (total(mul(centred, centred)), number(9, x.dtype))),),
        "skewness": (total(node("square", (centred,))), total(mul(mul(centred, centred), centred))),
        "fourth moment": (total(mul(centred, centred)), total(node("power", (centred, number(3, x.dtype)))),
                          total(node("power", (centred, number(4, x.dtype))))),
        "correlation": (total(mul(centred, other)), total(mul(centred, centred)), total(mul(other, other))),
        "several results": (top, bottom, mean, total(mul(centred, centred)), total(weights)),
    }  # fmt: skip
    return {name: body([n for n in (x, v) if n in Graph((), roots).nodes], *roots) for name, roots in outputs.items()}


def refused(x: Node, v: Node) -> dict[str, Graph]:
    """Programs whose parts nothing carries over."""
    top, mean = reduced("max", x), mean_of(x)
    weights = exp(sub(x, top))
    total = reduced("sum", mul(weights, v))
    outputs = {
        "one pass": reduced("sum", mul(x, v)),
        "exponentials of distances from a mean": reduced("sum", exp(sub(x, mean))),
        "exponentials of distances from another maximum": reduced("sum", exp(sub(v, top))),
        "exponentials that grow downwards": reduced("sum", exp(sub(top, x))),
        "absolute distances": reduced("sum", node("abs", (sub(x, mean),))),
        "a maximum of terms": reduced("max", mul(weights, v)),
        "an entropy whose weights are not summed": reduced("sum", mul(weights, sub(x, top))),
        "weighted squares whose weights are not summed": reduced("sum", mul(v, mul(sub(x, mean), sub(x, mean)))),
        "distances from what is no mean": reduced("sum", node("square", (sub(x, mul(mean, number(0.5))),))),
        "distances from a mean of another": reduced("sum", node("square", (sub(v, mean),))),
        "distances from a weighted sum": reduced("sum", node("square", (sub(x, total),))),
        "terms divided by a maximum": reduced("sum", node("divide", (x, top))),
        "a choice by what is reduced": reduced("sum", node("where", (node("greater", (x, mean)), x, number(0)))),
    }
    return {name: body([x, v], n) for name, n in outputs.items()}


REDUCED = {"max": np.max, "min": np.min, "sum": np.sum}
X, V = read(0, (3, 200)), read(1, (3, 200))
NAMES = [*bodies(X, V)]


def cascade(graph: Graph) -> Cascade:
    row_cascade = cascade_of(graph)
    assert row_cascade is not None
    return row_cascade


def reductions_of(row_cascade: Cascade) -> tuple[Node, ...]:
    return tuple([r for stage in row_cascade.stages for r in stage])


def joined(graph: Graph, arrays: Sequence[np.ndarray], cuts: Sequence[int]) -> list[np.ndarray]:
    """The results of reductions, of parts between `cuts` of the last axis, by NumPy."""
    row_cascade, parts = cascade(graph), []
    for start, stop in pairwise(cuts):
        values = {n: a[..., start:stop] for n, a in zip(graph.inputs, arrays, strict=True)}
        count = np.asarray(stop - start, row_cascade.count.dtype)
        known = {row_cascade.count: count}
        for r in reductions_of(row_cascade):
            part = values_of(Graph((), (r.args[0],)), dict(values))[r.args[0]]
            known[row_cascade.parts[r]] = REDUCED[r.op](part, -1, keepdims=True)
            anchor = row_cascade.anchors.get(r, row_cascade.parts[r])
            values[r] = values_of(Graph((), (anchor,)), dict(known))[anchor]
        parts.append(known)
    wholes: dict[Node, np.ndarray] = {}
    for r in reductions_of(row_cascade):
        share = row_cascade.shares[r]
        each = [values_of(Graph((), (share,)), {**known, **wholes})[share] for known in parts]
        wholes[row_cascade.wholes[r]] = REDUCED[r.op](each, 0)
    return [wholes[row_cascade.wholes[r]] for r in reductions_of(row_cascade)]


def exact(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of the same program in more bits."""
    wide = {n: a.astype(np.longdouble) for n, a in zip(graph.inputs, arrays, strict=True)}
    return [values_of(graph, wide)[o] for o in graph.outputs]


def assert_within_bounds(graph: Graph, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    bounds = running_errors(graph, arrays)
    for o, got, want in zip(graph.outputs, results, exact(graph, arrays), strict=True):
        bound = OFTEN * (bounds[o].error + np.finfo(o.dtype).eps * np.abs(want))
        assert (np.abs(got - want) <= bound).all(), (np.abs(got - want) / bound).max()


@pytest.mark.parametrize("name", NAMES)
def test_parts_carried_over_give_the_whole(name: str) -> None:
    graph = bodies(X, V)[name]
    rng = np.random.default_rng(0)
    reductions = Graph(graph.inputs, reductions_of(cascade(graph)))
    for spread, offset in ((1, 0), (30, 5), (1e-3, 1000)):
        arrays = [(spread * rng.standard_normal(n.shape) + offset).astype(n.dtype) for n in graph.inputs]
        cuts = [0, *sorted(rng.choice(np.arange(1, 200), 5, replace=False)), 200]
        with np.errstate(all="ignore"):
            assert_within_bounds(reductions, arrays, joined(graph, arrays, cuts))


@pytest.mark.parametrize("name", ["logsumexp", "finite maximum", "a weighted mean", "terms chosen"])
def test_a_part_with_nothing_above_the_lowest_adds_nothing(name: str) -> None:
    graph = bodies(X, V)[name]
    arrays = [a - 200 for a in data(graph)]
    arrays[0][:, :50] = -np.inf
    reductions = Graph(graph.inputs, reductions_of(cascade(graph)))
    with np.errstate(all="ignore"):
        for got, want in zip(joined(graph, arrays, [0, 50, 120, 200]), evaluate(reductions, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["logsumexp", "variance", "entropy"])
def test_what_is_not_finite_stays_so(name: str, value: float) -> None:
    graph = bodies(X, V)[name]
    arrays = data(graph)
    arrays[0][1, 130] = value
    arrays[0][2] = value
    reductions = Graph(graph.inputs, reductions_of(cascade(graph)))
    with np.errstate(all="ignore"):
        for got, want in zip(joined(graph, arrays, [0, 70, 200]), evaluate(reductions, arrays), strict=True):
            assert (np.isfinite(got) == np.isfinite(want)).all()
            np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4)


@pytest.mark.parametrize("name", refused(X, V))
def test_what_no_law_carries_over_is_no_cascade(name: str) -> None:
    assert cascade_of(refused(X, V)[name]) is None


def test_16_bit_floats_are_no_cascade() -> None:
    x = read(0, (3, 200), np.float16)
    assert cascade_of(body([x], reduced("sum", exp(sub(x, reduced("max", x)))))) is None


def test_every_law_is_used_by_a_program() -> None:
    assert {n.op for graph in bodies(X, V).values() for n in graph.nodes} >= set(CARRIED)


# In C

LAID_OUT: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((6, 20_000), (-1,)), "one row": ((130_003,), (-1,)), "columns": ((2000, 70), (-2,)),
    "few columns": ((30_001, 3), (-2,)), "batches": ((40, 5, 30, 21), (-4, -2, -1)),
}  # fmt: skip


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_in_c_are_within_the_bounds_of_their_programs(dtype: type) -> None:
    kernels, graphs = [], []
    for turn, (shape, axes) in enumerate(LAID_OUT.values()):
        programs = [*bodies(read(0, shape, dtype), read(1, shape, dtype), *axes).values()]
        turn += len(LAID_OUT) * (dtype is np.float64)  # each program in one dtype
        for graph in programs[turn :: 2 * len(LAID_OUT)]:
            kernels.append(emitted("row", graph, SMALL))
            assert kernels[-1].schedule.cascade is not None
            graphs.append(graph)
    arrays = [data(graph) for graph in graphs]
    for graph, given, results in zip(graphs, arrays, run_all(kernels, arrays), strict=True):
        assert_within_bounds(graph, given, results)


@needs_compiler
@pytest.mark.parametrize("layout", LAID_OUT)
def test_rows_too_long_for_a_cache_are_read_once(layout: str) -> None:
    shape, axes = LAID_OUT[layout]
    graph = bodies(read(0, shape), read(1, shape), *axes)["several results"]
    kernel = emitted("row", graph, replace(SMALL, threads=1))
    nbytes = graph.inputs[0].type.nbytes
    assert kernel.schedule.reads == (nbytes,)
    assert counted(kernel)["r0"][0] * 4 == nbytes
    between = sum(t.nbytes for t in kernel.schedule.workspaces)
    assert kernel.schedule.price(SMALL).bytes_read == nbytes + between


def test_the_last_pass_over_a_part_of_a_row_fetches_the_next_part() -> None:
    for layout, times in ("one row", 1), ("columns", 0):
        shape, axes = LAID_OUT[layout]
        text = emitted("row", bodies(read(0, shape), read(1, shape), *axes)["variance"], SMALL).text.source
        assert text.count("__builtin_prefetch") == times


def test_rows_that_stay_near_are_not_split() -> None:
    graph = bodies(X, V)["variance"]
    assert emitted("row", graph).schedule.cascade is None


def test_results_of_full_size_are_no_cascade() -> None:
    x = read(0, (40, 20_000))
    graph = body([x], sub(x, add(reduced("max", x), reduced("sum", exp(sub(x, reduced("max", x)))))))
    assert emitted("row", graph, SMALL).schedule.cascade is None


@needs_compiler
@pytest.mark.parametrize("layout", ["one row", "columns"])
def test_threads_change_no_bit(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, axes = LAID_OUT[layout]
    graph = bodies(read(0, shape), read(1, shape), *axes)["several results"]
    monkeypatch.setattr(scheduling, "SHARED_FROM", 0.0)
    monkeypatch.setattr(scheduling, "HANDED", 0.0)
    kernels = [emitted("row", graph, replace(SMALL, threads=threads)) for threads in (1, 3)]
    assert kernels[0].text.source != kernels[1].text.source
    for kernel in kernels:
        assert kernel.schedule.parts > 1
    arrays = data(graph)
    ours = [run_all([kernel], [arrays])[0] for kernel in kernels]
    for one, other in zip(*ours, strict=True):
        assert one.tobytes() == other.tobytes()


@needs_compiler
def test_a_row_in_c_of_which_a_part_is_masked() -> None:
    x = read(0, (20, 20_000))
    graph = bodies(x, read(1, x.shape))["logsumexp"]
    (array,) = data(graph)
    array[:, :9000] = -np.inf
    array[3] = -np.inf
    array[4, 100] = np.inf
    array[5, 100] = np.nan
    with np.errstate(all="ignore"):
        (want,) = evaluate(graph, [array])
    kernel = emitted("row", graph, SMALL)
    assert kernel.schedule.cascade is not None
    ((got,),) = run_all([kernel], [[array]])
    assert (np.isfinite(got) == np.isfinite(want)).all()
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-6)


# On a GPU


def on_gpu(graph: Graph) -> CudaKernel:
    cuda = emit_kernel(Kernel("row", graph, (), (), PRICE), GPU)
    assert isinstance(cuda, CudaKernel)
    return cuda


SPLIT: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one row": ((40_001,), (-1,)), "rows": ((3, 20_000), (-1,)), "columns": ((1500, 40), (-2,)),
    "batches": ((20, 3, 30, 21), (-4, -2, -1)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
def test_emulated_kernels_are_within_the_bounds_of_their_programs() -> None:
    graphs = [graph for turn, (shape, axes) in enumerate(SPLIT.values())
              for graph in [*bodies(read(0, shape), read(1, shape), *axes).values()][turn :: len(SPLIT)]]  # fmt: skip
    kernels = [on_gpu(graph) for graph in graphs]
    code = module_source([kernel.source for kernel in kernels])
    for graph, kernel in zip(graphs, kernels, strict=True):
        arrays = data(graph)
        assert rows_schedule(graph, GPU).cascade is not None
        function = cudasim.CpuRawKernel(code, kernel.name)
        workspace = [np.zeros(n, dtype) for dtype, n in kernel.workspace]
        runs = []
        for seed in range(2):  # one workspace: each launch must leave it fit for the next
            writes = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
            given = kernel.arguments(writes, arrays, kernel.constants, workspace)
            function(kernel.grid, kernel.block, given, seed=seed)
            runs.append(writes)
        assert_within_bounds(graph, arrays, runs[0])
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*runs, strict=True))


@pytest.mark.parametrize("layout", SPLIT)
def test_blocks_of_a_gpu_read_a_row_once(layout: str) -> None:
    shape, axes = SPLIT[layout]
    for graph in bodies(read(0, shape), read(1, shape), *axes).values():
        assert rows_schedule(graph, GPU).reads == tuple(n.type.nbytes for n in graph.inputs)


def test_rows_that_a_block_holds_are_not_split() -> None:
    x = read(0, (4000, 3000))
    assert rows_schedule(bodies(x, x)["variance"], GPU).cascade is None


# Programs as people write them


def logsumexp(x):
    top = np.max(x)
    return np.log(np.sum(np.exp(x - top))) + top


def expectation(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return (weights * x).sum(-1) / weights.sum(-1)


def skewness(x):
    centred = x - x.mean()
    return (centred**3).mean() / (centred**2).mean() ** 1.5


def correlation(x):
    a, b = x[0] - x[0].mean(), x[1] - x[1].mean()
    return (a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())


@pytest.mark.parametrize(
    "function, shape",
    [
        (logsumexp, (400_000,)), (expectation, (20, 20_000)), (skewness, (400_000,)),
        pytest.param(correlation, (2, 200_000), marks=pytest.mark.slow),
        (lambda x: np.var(x, 0), (8000, 50)), (lambda x: (x.min(), x.max(), x.mean(), x.std()), (400_000,)),
        (lambda x: (x.mean((0, 2)), x.var((0, 2))), (40, 8, 1250)),
    ],
)  # fmt: skip
def test_statistics_of_long_rows_read_them_once(function, shape):
    x = ef.spec(shape, np.float32)
    space = ef.saturate(ef.trace(function, x))
    for target in (SMALL, GPU):
        plan = ef.extract(space, target=target)
        assert sum(k.price.bytes_read for k in plan.kernels) <= 1.1 * 4 * np.prod(shape), plan
