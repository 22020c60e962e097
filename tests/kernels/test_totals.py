"""What rows give, reduced over all rows in the same kernel: against the evaluator on every target, what is priced is
what the text does, and the order in which anything runs changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import profile
from eqfuse.emit.c.totals import TotalsSchedule
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.emit.numpy.schedule import CascadeOfParts, ResultsOfRows, TiledReduction, WholeArrays
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import classify, kind_named
from eqfuse.kinds.state import State
from eqfuse.machine import nvrtc
from eqfuse.testing import cudasim
from tests.kernels.bodies import DEVICES
from tests.kernels.test_cuda_traffic import traffic
from tests.kernels.test_numpy_schedules import check
from tests.support import c_target
from tests.support.c_kernels import needs_compiler
from tests.support.kernels import CPU, add, body, cast, data, judge, kernel, layer_norm, mul, number, read, reduced
from tests.support.kernels import softmax as softmax_of

A100 = profile("a100")
Shape = tuple[int, ...]
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def over_rows(op: str, x: Node) -> Node:
    """Over all axes but the last."""
    return reduced(op, x, *range(-x.type.rank, -1))


def mean(x: Node) -> Node:
    return node("divide", (over_rows("sum", x), number(x.type.size, x.dtype)))


def log_sum(x: Node) -> Node:
    top = reduced("max", x)
    return add(node("log", (reduced("sum", node("exp", (node("subtract", (x, top)),))),)), top)


def norms(x: Node) -> Node:
    return node("sqrt", (reduced("sum", mul(x, x)),))


def entropy(x: Node) -> Node:
    p = softmax_of(x)
    return reduced("sum", mul(p, node("log", (p,))))


def error(x: Node) -> Node:
    apart = node("subtract", (layer_norm(x), read(1, x.shape, x.dtype)))
    return reduced("sum", mul(apart, apart))


def picked(x: Node) -> Node:
    return node("subtract", (log_sum(x), node("take_along_axis", (x, read(1, (*x.shape[:-1], 1), np.int64)), (-1,))))


def scaled(x: Node) -> Node:
    return add(mul(mean(norms(x)), read(1, (), x.dtype)), over_rows("max", norms(x)))


BODIES: dict[str, Callable[[Node], Sequence[Node]]] = {
    "mean of logs of sums": lambda x: [mean(log_sum(x))],
    "sum of norms": lambda x: [over_rows("sum", norms(x))],
    "least and largest norm": lambda x: [over_rows("min", norms(x)), over_rows("max", norms(x))],
    "entropy": lambda x: [mean(entropy(x))],
    "error of a norm": lambda x: [mean(error(x))],
    "losses": lambda x: [mean(picked(x))],
    "results of full size too": lambda x: [softmax_of(x), mean(log_sum(x))],
    "results of rows too": lambda x: [mean(log_sum(x)), log_sum(x), reduced("max", x)],
    "scaled by an array of one element": lambda x: [scaled(x)],
}  # fmt: skip
SHAPES: tuple[Shape, ...] = ((2, 5), (7, 33), (129, 1000), (3, 12_000), (5001, 3), (40, 1023), (3, 5, 70))


def graph_of(outputs: Sequence[Node]) -> Graph:
    inputs = [n for n in Graph((), tuple(outputs)).nodes if n.op == "input"]
    return body(sorted(inputs, key=lambda n: str(n.attr("name"))), *outputs)


def columns(shape: Shape) -> Graph:
    """Columns are reduced, then what they give."""
    x = read(0, shape)
    return graph_of([reduced("sum", node("sqrt", (reduced("sum", mul(x, x), -2),)), -1), reduced("max", x, -2)])


def of_several_axes() -> Graph:
    x = read(0, (6, 5, 4, 9))
    top = reduced("max", x, -3, -1)
    return graph_of([reduced("sum", reduced("sum", node("exp", (node("subtract", (x, top)),)), -3, -1), -4, -2)])


def places() -> Graph:
    x = read(0, (70, 33))
    return graph_of([reduced("argmax", reduced("sum", x), -2), reduced("argmin", reduced("sum", x), -2)])


def of_views() -> Graph:
    x = node("transpose", (node("slice", (read(0, (50, 60)),), (((1, 49, 1), (0, 60, 2)),)),), ((1, 0),))
    return graph_of([mean(log_sum(x))])


def of_integers() -> Graph:
    x = read(0, (90, 41), np.int64)
    return graph_of([over_rows("sum", mul(reduced("max", x), reduced("sum", x)))])


def of_conditions() -> Graph:
    x = read(0, (90, 41))
    return graph_of([over_rows("all", reduced("any", node("less", (x, number(0.0)))))])


def widened() -> Graph:
    x = cast(read(0, (64, 300), np.float16), np.float32)
    return graph_of([cast(mean(norms(x)), np.float16)])


def beside_a_copy(rows: int) -> Graph:
    """What the kernel reads joined of two arrays leaves it too: a view of one, where the other has no elements."""
    x = read(0, (64, 50))
    joined = node("concat", (x, node("slice", (x,), (((0, rows, 1), (0, 50, 1)),))), (-2,))
    return graph_of([over_rows("min", node("abs", (reduced("sum", joined),))), node("negative", (joined,)), joined])


OTHERS: dict[str, Callable[[], Graph]] = {
    "columns": lambda: columns((60, 64)), "long columns": lambda: columns((9000, 8)), "axes": of_several_axes,
    "few columns": lambda: columns((33, 3)), "places": places, "views": of_views, "integers": of_integers,
    "conditions": of_conditions, "widened": widened, "a copy": lambda: beside_a_copy(0),
    "a joined copy": lambda: beside_a_copy(20),
    "rows of nothing": lambda: graph_of([over_rows("sum", norms(read(0, (9, 0))))]),
}  # fmt: skip


@cache
def graphs() -> dict[str, Graph]:
    """Every body has every shape, and every dtype at some of them; every shape has float32 and another dtype."""
    every = {name: make() for name, make in OTHERS.items()}
    for i, (name, build) in enumerate(BODIES.items()):
        for j, shape in enumerate(SHAPES):
            dtype = np.dtype((np.float64, np.float16, ml_dtypes.bfloat16)[j % 3] if (i + j) % 2 else np.float32)
            every[f"{name} {shape} {dtype.name}"] = graph_of(build(read(0, shape, dtype)))
    return every


def arrays_of(graph: Graph) -> list[np.ndarray]:
    """Places lie within their rows."""
    arrays = data(graph)
    columns = graph.inputs[0].shape[-1]
    return [a % columns if a.dtype == np.int64 and a.shape[-1:] == (1,) else a for a in arrays]


def test_all_of_them_are_totals() -> None:
    for name, graph in graphs().items():
        for target in (CPU, c_target.C, A100):
            state = classify(graph, target)
            assert isinstance(state, State) and state.kind == "total", (name, state)


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_in_numpy(on: Device) -> None:
    for name, graph in graphs().items():
        if on is CPU or "(5001" not in name:  # thousands of small tiles
            judge("total", graph, arrays_of(graph), on)
            check("total", graph, arrays_of(graph), on)


def test_numpy_computes_totals_behind_each_way_to_cut_rows() -> None:
    schedules = {type(kind_named("total").schedule(g, on)) for g in graphs().values() for on in DEVICES}
    assert schedules >= {ResultsOfRows, CascadeOfParts, TiledReduction, WholeArrays}


@pytest.mark.slow
@needs_compiler
def test_in_c() -> None:
    named = list(graphs().items())
    kernels = [c_target.emitted("total", graph) for _, graph in named]
    assert all(isinstance(k.schedule, TotalsSchedule) for k in kernels)
    c_target.judge(kernels, [g for _, g in named], [arrays_of(g) for _, g in named])


def cuda_kernels() -> dict[str, CudaKernel]:
    emitted = {name: emit_kernel(kernel("total", graph), A100) for name, graph in graphs().items()}
    return {name: k for name, k in emitted.items() if isinstance(k, CudaKernel)}


def run_on_emulator(k: CudaKernel, code: str, graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    outs = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
    workspace = [np.zeros(n, dtype) for dtype, n in k.workspace]
    function = cudasim.CpuRawKernel(code, k.name)
    for _ in range(2):  # the second call finds the workspace as the first has left it
        function(k.grid, k.block, k.arguments(outs, arrays, k.constants, workspace))
    return outs


@pytest.mark.slow
@emulated
def test_in_cuda() -> None:
    kernels = cuda_kernels()
    assert kernels.keys() == graphs().keys()
    code = module_source(list(dict.fromkeys(k.source for k in kernels.values())))
    for name, k in kernels.items():
        graph, arrays = graphs()[name], arrays_of(graphs()[name])
        for got, want in zip(run_on_emulator(k, code, graph, arrays), evaluate(graph, arrays), strict=True):
            if want.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want, name)
                continue
            eps = float(ml_dtypes.finfo(want.dtype).eps)
            one, other = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(one, other, rtol=0, atol=64 * eps * np.abs(other).max(), err_msg=name)


@emulated
def test_what_cuda_moves_is_what_is_priced() -> None:
    kernels = dict([*cuda_kernels().items()][::2])  # of each body and shape one, in float32
    code = module_source(list(dict.fromkeys(k.source for k in kernels.values())))
    for name, k in kernels.items():
        graph, schedule = graphs()[name], k.schedule
        if "losses" in name or "conditions" in name:  # what these read is in their values
            continue
        reads, writes, workspace = traffic(graph, k, code)
        assert tuple(t.read_by_pass for t in reads) == schedule.reads, name
        assert tuple(t.written for t in writes) == schedule.writes, name
        assert sum(t.read_by_pass for t in workspace) == schedule.read_between, name
        assert sum(t.written for t in workspace) == schedule.workspace_bytes, name
        assert schedule.calls == 1


@emulated
def test_the_order_of_blocks_and_threads_changes_no_bit() -> None:
    name = "mean of logs of sums (129, 1000) float32"
    graph, k = graphs()[name], cuda_kernels()[name]
    results = set()
    for seed in range(4):
        outs = [np.zeros(o.shape, o.dtype) for o in graph.outputs]
        workspace = [np.zeros(n, dtype) for dtype, n in k.workspace]
        function = cudasim.CpuRawKernel(module_source([k.source]), k.name)
        function(k.grid, k.block, k.arguments(outs, arrays_of(graph), k.constants, workspace), seed=seed)
        results.add(outs[0].tobytes())
    assert len(results) == 1


def test_cuda_takes_every_way_to_share_rows() -> None:
    schedules = [k.schedule for k in cuda_kernels().values()]
    assert {s.rows.layout for s in schedules if isinstance(s, RowsSchedule)} == {"warp", "block", "column"}
    assert {s.splits > 1 for s in schedules if isinstance(s, RowsSchedule)} == {True, False}


@compiled
@pytest.mark.slow
def test_no_kernel_spills() -> None:
    sources = list(dict.fromkeys(k.source for k in cuda_kernels().values()))
    for name, uses in nvrtc.compile_cuda(module_source(sources), "sm_80").resources.items():
        assert uses.spill_bytes == 0, (name, uses)


@needs_compiler
def test_what_c_stores_between_rows_and_totals_is_priced() -> None:
    graph = graphs()["mean of logs of sums (129, 1000) float32"]
    schedule = c_target.emitted("total", graph).schedule
    assert isinstance(schedule, TotalsSchedule)
    price = schedule.price(c_target.C)
    assert (price.bytes_read, price.bytes_written) == (129 * 1000 * 4 + 129 * 4, 4 + 129 * 4)


def x_rows() -> Node:
    return norms(read(0, (64, 300)))


REFUSED: dict[str, Callable[[], Node]] = {
    "some of the rows": lambda: reduced("sum", norms(read(0, (8, 9, 300))), -2),
    "read by its rows": lambda: node("divide", (x_rows(), over_rows("sum", x_rows()))),
    "one row": lambda: over_rows("sum", norms(read(0, (1, 300)))),
    "no rows": lambda: over_rows("sum", norms(read(0, (0, 300)))),
    "a total of what a total is in": lambda: over_rows("sum", node("subtract", (x_rows(), mean(x_rows())))),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("target", [CPU, c_target.C, A100], ids=["numpy", "c", "cuda"])
def test_refused(case: str, target: Device) -> None:
    assert isinstance(classify(graph_of([REFUSED[case]()]), target), str)
