"""Kernels that read arrays in pieces: rolls, concatenations and padding inside maps, rows and reductions.

Bodies are drawn as those of `bodies.py`, with more joints; the evaluator is the judge, and what a schedule says of
bytes and calls is what its text does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule
from eqfuse.emit.numpy.schedule import LibraryCall
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify, kind_named
from eqfuse.testing import cudasim
from tests.kernels.bodies import DEVICES, Drawn
from tests.kernels.test_cuda_elementwise import same
from tests.kernels.test_cuda_random import Drawing
from tests.kernels.test_cuda_traffic import traffic
from tests.kernels.test_numpy_broadcasting import check_kernel, drawn
from tests.kernels.test_numpy_schedules import check
from tests.support.drawing import many
from tests.support.kernels import (
    CPU,
    add,
    body,
    cut,
    data,
    joined,
    judge,
    layer_norm,
    mul,
    number,
    read,
    reduced,
    rolled,
    softmax,
)

H100 = profile("h100")
MAPS = ("concat", "pad", "take", "take_along_axis")
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")


def padded(x: Node, *widths: tuple[int, int]) -> Node:
    return node("pad", (x, const(np.full((), 3, x.dtype))), (widths,))


def plus_sine(x: Node, *more: Node) -> Node:
    total = node("sin", (x,))
    for y in more:
        total = add(total, y)
    return total


class OfPieces(Drawn):
    """A body in which more arrays are joined and padded."""

    def grow(self, x: Node, steps: tuple[Callable[[Node], object], ...] = ()) -> None:
        mine = (self.unary, self.binary, self.binary, self.where, self.reduce, self.view, self.view,
                self.roll, self.roll, self.join, self.join, self.pad, self.take, self.take_along)  # fmt: skip
        super().grow(x, steps or (mine if x.shape else ()))

    def roll(self, x: Node) -> None:
        axis = -1 - int(self.rng.integers(len(x.shape)))
        by = int(self.rng.integers(1, max(2, x.shape[axis])))
        ends = (x.shape[axis] - by, x.shape[axis]), (0, x.shape[axis] - by)
        self.put(node("concat", [self.put(cut(x, axis, *e)) for e in ends], (axis,)))

    def join(self, x: Node) -> None:
        axis = -1 - int(self.rng.integers(len(x.shape)))
        pieces = [x]
        for _ in range(int(self.rng.integers(1, 4))):
            shape = list(x.shape)
            shape[axis] = int(self.one_of((1, 1, 2, 3, 7, 65)))
            y = self.new(tuple(shape), x.dtype.name) if self.chance(7) else x
            pieces.append(self.put(node("negative", (y,))) if self.chance(4) else y)
        self.put(node("concat", pieces[:: self.one_of((1, -1))], (axis,)))

    def pad(self, x: Node) -> None:
        value = const(np.full((), self.one_of((0, 2)), x.dtype))
        self.states[value] = self.states.get(value) or self.leaf_state(value)
        widths = tuple((int(self.one_of((0, 0, 1, 2))), int(self.one_of((0, 0, 1, 3)))) for _ in x.shape)
        self.put(node("pad", (x, value), (widths,)))

    def take(self, x: Node) -> None:
        """Rows of an array, as many as `x` has."""
        rank = int(self.rng.integers(1, len(x.shape) + 1))
        places = self.new(x.shape[:rank], self.one_of(("int64", "int64", "int32")))
        table = self.new((int(self.one_of((3, 7, 64))), *x.shape[rank:]), x.dtype.name)
        self.put(node("take", (table, places), (-len(table.shape),)))

    def take_along(self, x: Node) -> None:
        places = self.new((*x.shape[:-1], int(self.one_of((1, 1, 2, x.shape[-1])))), "int64")
        source = self.new((*x.shape[:-1], max(3, x.shape[-1])), x.dtype.name)
        self.put(node("take_along_axis", (source, places), (-1,)))

    @staticmethod
    def leaf_state(n: Node) -> State:
        state = classify(Graph((), (n,)), CPU)
        assert isinstance(state, State)
        return state


def check_drawn(seed: int) -> str | None:
    case = drawn(seed, OfPieces)
    if case is None or not any(n.op in MAPS for n in case[1].nodes):
        return None
    kind, graph, arrays, on, _ = case
    check_kernel(seed, OfPieces)
    schedule = kind_named(kind).schedule(graph, on)
    if not isinstance(schedule, LibraryCall):  # cache lines of a lone gather are more than it touches
        check(kind, graph, arrays, on)
    return f"{kind} {type(schedule).__name__}"


def test_kernels_join_pieces_as_numpy_does():
    counts = Counter(check_drawn(seed) for seed in range(200, 560))
    assert counts.keys() >= {"map Tiles", "row Tiles", "reduce Tiles", "total ResultsOfRows", "map WholeArrays"}


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_elements_taken_at_transposed_places_cost_the_calls_that_are_priced(on) -> None:
    table, places = read(0, (3,), np.float64), read(1, (640, 6, 25), np.int64)
    taken = node("take", (table, node("transpose", (places,), ((0, 2, 1),))), (-1,))
    graph = body([table, places], node("exp", (reduced("max", taken, -1),)))
    arrays = [np.arange(3.0), np.arange(640 * 6 * 25).reshape(640, 6, 25) % 3]
    judge("row", graph, arrays, device=on)
    check("row", graph, arrays, on)


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("long, short", [(2050, 3), (700, 1353), (65_000, 65_000)])
def test_pieces_of_one_axis_are_bounded_by_numbers(long: int, short: int, on) -> None:
    x, y = read(0, (long,), np.float64), read(1, (short,), np.float64)
    low, high = number(-1.0, np.float64), number(2.0, np.float64)
    bounded = [node("minimum", (high, x)), node("maximum", (node("negative", (y,)), low))]
    for pieces in (bounded, bounded[::-1]):
        judge("map", body([x, y], node("concat", tuple(pieces), (-1,))), device=on)


@pytest.mark.slow
def test_many_kernels_join_pieces_as_numpy_does():
    for seed in range(5000, 5000 + many(300)):
        check_drawn(seed)


class DrawingOfPieces(Drawing):
    """A body for a GPU whose leaves are now and then joined of pieces, or padded, behind views of that."""

    def leaf(self) -> Node:
        source = super().leaf()
        if source.op == "const" or not source.shape or self.rng.random() < 0.4:
            return source
        axis = -1 - int(self.rng.integers(len(source.shape)))
        n = source.shape[axis]
        if n < 2:
            return source
        by = int(self.rng.integers(1, n))
        way = int(self.rng.integers(5))
        if way == 0:
            return rolled(source, by, axis)
        if way == 1:
            return joined(axis, node("negative", (cut(source, axis, by, n),)), cut(source, axis, 0, by))
        if way == 2:
            widths = tuple((by, 1) if a - len(source.shape) == axis else (0, 1) for a in range(len(source.shape)))
            starts = [int(before > 0) for before, _ in widths]
            ranges = tuple((i, i + n, 1) for i, n in zip(starts, source.shape, strict=True))
            return node("slice", (padded(source, *widths),), (ranges,))
        if way == 3:
            return node("flip", (joined(axis, cut(source, axis, 0, by), cut(source, axis, 0, n - by)),), ((axis,),))
        return rolled(rolled(source, by, axis), 1, -1) if source.shape[-1] > 1 else rolled(source, by, axis)


def of_pieces(seed: int, count: int) -> list[tuple[str, Graph, list[np.ndarray]]]:
    rng, cases = np.random.default_rng(seed), []
    while len(cases) < count:
        drawing = DrawingOfPieces(rng)
        try:
            graph = drawing.body()
        except ef.EqfuseError:  # NumPy has no largest of nothing
            continue
        state = classify(graph, H100)
        if isinstance(state, State) and state.mapped and not any(o.op in ("input", "const") for o in graph.outputs):
            cases.append((state.kind, graph, drawing.data(graph)))
    return cases


def judge_on_gpu(bodies: list[tuple[str, Graph, list[np.ndarray]]], seed: int = 0) -> None:
    kernels = []
    for kind, graph, arrays in bodies:
        schedule = kind_named(kind).schedule(graph, H100)
        kernels.append((graph, arrays, source_of(graph, schedule, f"{kind}_{graph.key}")))
    code = module_source(list(dict.fromkeys(cuda.source for *_, cuda in kernels)))
    for graph, arrays, cuda in kernels:
        if not cuda.grid:
            continue
        for got, want in run_on_gpu(graph, arrays, cuda, code, seed % 3):
            zero = (want == 0) & (got == 0)  # whose sign max and min leave open
            assert (same(got, want) | zero).all(), f"{graph}\n{cuda.source}"


def run_on_gpu(
    graph: Graph, arrays: list[np.ndarray], cuda: CudaKernel, code: str, seed: int = 0, counted: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the emulator makes of each output, and what the evaluator does."""
    writes = [np.zeros(o.shape, o.dtype) for o in graph.outputs]
    workspace = [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    arguments = cuda.arguments(writes, arrays, cuda.constants, workspace)
    cudasim.CpuRawKernel(code, cuda.name, counted)(cuda.grid, cuda.block, arguments, seed=seed)
    with np.errstate(all="ignore"):
        return list(zip(writes, evaluate(graph, arrays), strict=True))


@cache
def scheduled(bodies: Callable[[], dict[str, Graph]]) -> tuple[dict[str, tuple[Graph, CudaSchedule, CudaKernel]], str]:
    """The kernel of each of the `bodies`, and the text of all, which is compiled once."""
    kernels = {}
    for name, graph in bodies().items():
        kind = classify(graph, H100).kind
        assert kind in ("map", "row", "reduce")
        schedule = kind_named(kind).schedule(graph, H100)
        kernels[name] = graph, schedule, source_of(graph, schedule, f"{kind}_{graph.key}")
    return kernels, module_source([cuda.source for *_, cuda in kernels.values()])


@pytest.mark.slow
@emulated
def test_gpu_kernels_join_pieces_as_numpy_does():
    judge_on_gpu(of_pieces(0, 25))


@pytest.mark.slow
@emulated
def test_many_gpu_kernels_join_pieces_as_numpy_does():
    judge_on_gpu(of_pieces(1, many(80)), 1)


def of_the_gpu() -> dict[str, Graph]:
    x, y, z = read(0, (6, 40)), read(1, (6, 8)), read(2, (3, 40))
    return {
        "rolled rows": body([x], add(x, rolled(x, 1, -2))),
        "rolled columns": body([x], add(x, rolled(x, 37, -1))),
        "rolled twice": body([x], add(x, rolled(rolled(x, 2, -2), 1, -1))),
        "unlike pieces": body([x, y], node("tanh", (joined(-1, node("exp", (x,)), node("negative", (y,))),))),
        "rows of unlike pieces": body([x, z], add(joined(-2, z, x), const(np.float32(1)))),
        "padded": body([x], node("exp", (padded(x, (1, 2), (0, 3)),))),
        "a stencil over padding": body([x], add(*[cut(padded(x, (1, 1), (0, 0)), 0, i, i + 6) for i in (0, 2)])),
        "a part of what is joined": body([x, y], node("exp", (cut(joined(-1, x, y), 1, 30, 45),))),
        "rows of what is joined": body([x, y], softmax(joined(-1, y, x))),
        "a norm of what is rolled": body([x], layer_norm(rolled(x, 3, -1))),
        "columns of what is rolled": body([x], reduced("max", add(x, rolled(x, 3, -1)), -2)),
    }


@emulated
@pytest.mark.parametrize("name", of_the_gpu())
def test_a_gpu_kernel_reads_the_pieces_that_its_schedule_says(name):
    kernels, code = scheduled(of_the_gpu)
    graph, schedule, cuda = kernels[name]
    for got, want in run_on_gpu(graph, data(graph), cuda, code, counted=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=cuda.source)
    reads, writes, _ = traffic(graph, cuda, code)
    assert tuple(t.read_by_pass for t in reads) == schedule.reads
    assert tuple(t.written for t in writes) == schedule.writes


@emulated
def test_gpu_kernels_read_the_pieces_that_their_schedules_say():
    kernels = []
    for kind, graph, _ in of_pieces(1, 8):
        if any(n.op in ("reshape", "take", "any", "all") for n in graph.nodes):
            continue  # parts of reshaped arrays are counted, not laid over each other; the others stop early
        schedule = kind_named(kind).schedule(graph, H100)
        kernels.append((graph, schedule, source_of(graph, schedule, f"{kind}_{graph.key}")))
    code = module_source(list(dict.fromkeys(cuda.source for *_, cuda in kernels)))
    for graph, schedule, cuda in kernels:
        reads, _, _ = traffic(graph, cuda, code) if cuda.grid else ([], [], [])
        assert tuple(t.read_by_pass for t in reads) == (schedule.reads if cuda.grid else ()), f"{graph}\n{cuda.source}"


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("shape", "more"),
    [((3000,), ((7, 0),)), ((70, 130), ((1, 0), (1, 1))), ((3, 40, 50), ((1, 0), (2, 1), (49, 2))),
     ((2, 3, 4, 500), ((1, 0), (1, 3))), ((9000, 2), ((1, 1), (2, 0)))],
)  # fmt: skip
def test_what_is_rolled_along_any_axes_is_read_where_it_lies(on, shape, more):
    x = read(0, shape)
    graph = body([x], plus_sine(x, *[rolled(x, by, axis - len(shape)) for by, axis in more]))
    judge("map", graph, device=on)
    check("map", graph, data(graph), on)


def test_a_tile_inside_one_piece_reads_it_without_a_copy():
    x = read(0, (1024, 1024))
    source = judge("map", body([x], mul(plus_sine(x, rolled(x, 1, -2)), rolled(x, 1, -1))))
    assert "rows_of(" in source and source.count("copyto") == 2  # of the two pieces along rows of 1024


def test_a_statement_goes_piece_by_piece_where_rows_are_long():
    x = read(0, (40, 20_000))
    assert "copyto" not in judge("map", body([x], mul(x, rolled(x, 3, -1))))


def test_pieces_of_unlike_work_are_computed_where_a_tile_meets_them():
    x, y = read(0, (600, 1000)), read(1, (424, 1000))
    graph = body([x, y], node("tanh", (joined(-2, node("exp", (x,)), node("sin", (y,))),)))
    assert "i1 = 0 if i < 600 else" in judge("map", graph)
    check("map", graph, data(graph), CPU)


def test_one_value_in_two_pieces_of_unlike_work_is_computed_on_whole_arrays():
    x = read(0, (600, 1000))
    e = node("exp", (x,))
    graph = body([x], node("tanh", (joined(-2, e, node("negative", (x,)), node("sqrt", (e,))),)))
    assert "share(" not in judge("map", graph)


def test_a_lone_concatenation_is_a_library_call():
    x, y = read(0, (600, 1000)), read(1, (424, 1000))
    assert isinstance(kind_named("map").schedule(body([x, y], joined(-2, x, y)), CPU), LibraryCall)


def test_many_pieces_are_joined_by_a_library():
    pieces = [read(i, (4, 4)) for i in range(17)]
    many_pieces = joined(-1, *pieces)
    assert classify(body(pieces, many_pieces), H100).kind == "library"
    assert "16 pieces" in str(classify(body(pieces, joined(-1, *[node("exp", (p,)) for p in pieces])), H100))


def test_a_product_reads_what_is_joined_from_memory():
    x, w = read(0, (64, 64)), read(1, (64, 64))
    for on in (CPU, H100):
        refusal = classify(body([x, w], node("matmul", (node("exp", (rolled(x, 1, -1),)), w))), on)
        assert isinstance(refusal, str) and "stored" in refusal


def of_places() -> dict[str, Graph]:
    table, indices, x = read(0, (9, 40)), read(1, (4, 6), np.int64), read(2, (12, 40))
    places, own = read(3, (12, 1), np.int64), read(4, (12, 3), np.int32)
    taken = node("take", (table, indices), (-2,))
    picked = node("take_along_axis", (x, places), (-1,))
    total = reduced("sum", node("exp", (node("subtract", (x, reduced("max", x))),)))
    other = node("take", (table, node("negative", (indices,))), (-2,))
    return {
        "rows and a norm": body([table, indices], layer_norm(taken)),
        "rows and work": body([table, indices], node("exp", (taken,))),
        "columns": body([x, indices], node("exp", (node("take", (x, indices), (-1,)),))),
        "an element of each row": body([x, places], node("subtract", (node("log", (total,)), picked))),
        "some of each row": body([x, own], node("negative", (node("take_along_axis", (x, own), (-1,)),))),
        "places that are computed": body([table, indices], node("exp", (other,))),
        "rows of what is rolled and taken": body([table, indices], softmax(rolled(taken, 3, -1))),
    }


@emulated
@pytest.mark.parametrize("name", of_places())
def test_a_gpu_kernel_gathers_where_it_computes(name):
    kernels, code = scheduled(of_places)
    graph, schedule, cuda = kernels[name]
    for got, want in run_on_gpu(graph, data(graph), cuda, code, counted=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=cuda.source)
    reads, _, _ = traffic(graph, cuda, code)
    assert all(t.read_by_pass <= said for t, said in zip(reads, schedule.reads, strict=True))


def test_what_is_gathered_is_read_from_memory():
    table, indices = read(0, (9, 40)), read(1, (4, 6), np.int64)
    refusal = classify(body([table, indices], node("take", (node("exp", (table,)), indices), (-2,))), H100)
    assert isinstance(refusal, str) and "memory" in refusal


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_tiles_gather_rows_and_elements_of_rows(on):
    table, indices, gain = read(0, (9, 40)), read(1, (400, 3), np.int64), read(2, (40,))
    x, places = read(3, (600, 40)), read(4, (600, 1), np.int32)
    rows = layer_norm(node("take", (table, indices), (-2,)))
    picked = node("subtract", (reduced("max", x), node("take_along_axis", (x, places), (-1,))))
    for graph in (body([table, indices, gain], mul(rows, gain)), body([x, places], picked)):
        judge("row", graph, device=on)
        check("row", graph, data(graph), on)


def test_tiles_do_not_gather_parts_of_rows():
    table, indices = read(0, (9, 4000)), read(1, (3,), np.int64)
    graph = body([table, indices], node("exp", (node("take", (table, indices), (-2,)),)))
    assert "share(" not in judge("map", graph)
