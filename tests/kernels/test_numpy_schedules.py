"""What a schedule says is what the kernel does: bytes read and written, NumPy calls, tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.device import Device
from eqfuse.emit.numpy.schedule import BlockedConvolution, NumpySchedule, TiledReduction
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import KINDS, kind_named
from eqfuse.ops import Role
from eqfuse.plan.plan import Plan
from tests.kernels.test_numpy_broadcasting import drawn
from tests.kernels.test_numpy_library import graphs
from tests.kernels.test_numpy_panels import TINY
from tests.kernels.watched import watched
from tests.support.drawing import many
from tests.support.kernels import CPU, body, data, kernel, read, scheduled_for


def check(kind: str, graph: Graph, arrays: Sequence[np.ndarray], device: Device) -> NumpySchedule:
    """Run the kernel and compare; returns its schedule."""
    schedule = kind_named(kind).schedule(graph, device)
    assert isinstance(schedule, NumpySchedule)
    with np.errstate(all="ignore"):
        watch = watched(kernel(kind, graph), arrays, device)
    text = f"{kind} on {device.name}: {schedule}\n{graph}"
    assert watch.calls - watch.set_up == schedule.calls, text
    if watch.shared:
        parts = schedule.stage.cut.count if isinstance(schedule, TiledReduction) else schedule.tiles
        assert sum(watch.shared) == parts, text
        assert isinstance(schedule, TiledReduction) or set(watch.per_tile) == {schedule.calls_per_tile}, text
    else:
        assert schedule.tiles == 1 and schedule.calls_per_tile == 0, text
    seen = [watch.touched(i) for i in range(len(graph.inputs))]
    if any(n.row.role is Role.GATHER for n in graph.operators):  # which elements NumPy looks up is out of sight
        assert all(said <= nbytes for nbytes, said in zip(seen, schedule.reads, strict=True)), text
    else:
        assert seen == list(schedule.reads), f"{seen} {schedule.reads} {text}"
    written = [watch.touched(len(graph.inputs) + i) for i in range(len(graph.outputs))]
    assert written == list(schedule.writes), text
    return schedule


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_random_kernels_do_what_their_schedules_say(part: int):
    counts = Counter()
    for seed in range(20_000 + 300 * part, 20_220 + 300 * part):
        case = drawn(seed)
        if case is not None:
            kind, graph, arrays, device, _ = case
            schedule = check(kind, graph, arrays, device)
            counts[kind, type(schedule).__name__] += 1
    emitted = {kind for kind in scheduled_for("numpy") if not (KINDS[kind].is_view or KINDS[kind].has_plans)}
    assert {kind for kind, _ in counts} >= emitted
    assert {template for _, template in counts} >= {"WholeArrays", "Tiles", "TiledReduction", "BlockedWindows"}


@pytest.mark.slow
def test_many_random_kernels_do_what_their_schedules_say() -> None:
    for seed in range(30_000, 30_000 + many(500)):
        case = drawn(seed)
        if case is not None:
            check(*case[:2], *case[2:4])


@pytest.mark.parametrize(("op", "args", "attrs"), list(graphs()))
def test_every_library_operator_makes_the_calls_of_its_schedule(op: str, args: tuple[Node, ...], attrs: tuple) -> None:
    n = node(op, args, attrs)
    inputs = tuple(i for i in Graph((), (n,)).nodes if i.op == "input")
    if all(a.op in ("input", "const") for a in args):
        graph = Graph(inputs, (n,))
        check("library", graph, [np.abs(a) + 1 if a.dtype.kind == "f" else a for a in data(graph)], CPU)


@pytest.mark.parametrize("name", ["G1", "G5", "G12", "G17", "G23"])
def test_the_kernels_of_the_suite_do_what_their_schedules_say(name: str) -> None:
    case = GRAPHS[name]
    function, types = case.program(small=True)
    graph = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    check_plan(ef.extract(ef.saturate(graph), target=TINY))


def check_plan(plan: Plan) -> None:
    for k in plan.kernels:
        if not k.is_view:
            check(k.kind, k.body, data(k.body), plan.device)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("before", [False, True])
def test_a_convolution_in_tiles_reads_the_rows_under_its_windows(stride: int, before: bool) -> None:
    x, w, bias = read(0, (2, 3, 17, 19)), read(1, (4, 3, 2, 3)), read(2, (4, 1, 1))
    image = node("negative", (x,)) if before else x
    n = node("conv", (image, w), ((stride, stride), ((0, 1), (1, 1)), (1, 1), 1))
    graph = body([x, w, bias], node("add", (n, bias)))
    assert isinstance(check("contract", graph, data(graph), TINY), BlockedConvolution)


def test_an_update_reads_what_no_write_covers() -> None:
    base, value = read(0, (30, 40)), read(1, (10, 40))
    n = node("slice_scatter", (base, value), ((((5, 15, 1), (0, 40, 1)),),))
    graph = body([base, value], n)
    assert check("library", graph, data(graph), CPU).reads == (20 * 40 * 4, 10 * 40 * 4)


def test_an_explanation_says_how_each_kernel_runs() -> None:
    program = ef.compile(lambda x: np.exp(x - x.max(-1, keepdims=True)), ef.spec((4096, 1024), np.float32), target=CPU)
    assert "48 tiles of 86x1024 on 4 threads, 3 calls each, 2 arrays alive" in str(program.explain())
