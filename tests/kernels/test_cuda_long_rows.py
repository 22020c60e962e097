"""Rows as long as the registers and the shared memory of a block hold, and longer ones: they are read as often as
priced, the emulator computes them as NumPy does, and no order of threads changes a bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.row import RowsSchedule, rows_schedule
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine import nvrtc
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.kernels.test_cuda_traffic import traffic
from tests.support.drawing import many
from tests.support.gpu import emulated_function, program_on
from tests.support.kernels import add, body, cast, cut, layer_norm, mul, read, reduced, softmax
from tests.support.some import some

H100 = profile("h100")
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def weighted_norm(x: Node) -> Node:
    """In float32, in which the length of a row is a number."""
    weights, wide = [read(i, x.shape[1:]) for i in (1, 2)], cast(x, np.float32)
    return add(mul(layer_norm(wide), weights[0]), weights[1])


def of_two_arrays(x: Node) -> Node:
    gradient, s = read(1, x.shape, x.dtype), softmax(x)
    return mul(s, node("subtract", (gradient, reduced("sum", mul(gradient, s)))))


def log_of_one(x: Node) -> Node:
    """A loss: the logarithm of the weight of one element, which is found by an index."""
    top, chosen = reduced("max", x), node("take_along_axis", (x, read(1, (x.shape[0], 1), np.int64)), (-1,))
    total = reduced("sum", node("exp", (node("subtract", (x, top)),)))
    return node("subtract", (add(top, node("log", (total,))), chosen))


def of_the_other_end(x: Node) -> Node:
    """Its neighbours do not lie side by side."""
    return mul(node("subtract", (x, reduced("max", x))), node("flip", (x,), ((-1,),)))


BODIES: dict[str, Callable[[Node], Node]] = {
    "softmax": softmax, "norm": weighted_norm, "two arrays": of_two_arrays, "loss": log_of_one,
    "the other end": of_the_other_end,
}  # fmt: skip
Case = tuple[str, np.dtype, int]
DTYPES = [np.dtype(d) for d in (np.float32, np.float16, ml_dtypes.bfloat16)]
LENGTHS = (50_257, 65_536, 90_112)
CASES: list[Case] = [*itertools.product(BODIES, DTYPES, LENGTHS)]


@cache
def emission(name: str, dtype: np.dtype, columns: int, device: Device = H100) -> tuple[Graph, RowsSchedule, CudaKernel]:
    graph = graph_of(name, dtype, (2, columns))
    schedule = rows_schedule(graph, device)
    cuda = source_of(graph, schedule, f"row_{graph.key}")
    assert isinstance(schedule, RowsSchedule) and isinstance(cuda, CudaKernel)
    return graph, schedule, cuda


def graph_of(name: str, dtype: np.dtype, shape: tuple[int, int]) -> Graph:
    output = BODIES[name](read(0, shape, dtype))
    inputs = {n.attr("name"): n for n in Graph((), (output,)).nodes if n.op == "input"}
    return body([inputs[key] for key in sorted(inputs)], output)


def arrays_of(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 5, n.shape) if n.dtype.kind == "i" else rng.normal(size=n.shape).astype(n.dtype)
            for n in graph.inputs]  # fmt: skip


@emulated
@pytest.mark.parametrize("case", some(CASES, 4), ids=str)
def test_the_emulator_computes_long_rows_as_numpy_in_whatever_order_threads_run(case: Case) -> None:
    name, dtype, columns = case
    graph, _, cuda = emission(*case)
    function = emulated_function(cuda, module_source([cuda.source]))
    arrays, workspace = arrays_of(graph), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    runs = []
    for seed in range(3):
        writes = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
        arguments = cuda.arguments(writes, arrays, cuda.constants, workspace)
        function(cuda.grid, cuda.block, arguments, cuda.shared_bytes, seed=seed)
        runs.append([w.astype(np.float64) for w in writes])
    exact = graph_of(name, np.dtype(float), (2, columns))
    wide = [a.astype(n.dtype) for a, n in zip(arrays, exact.inputs, strict=True)]
    for result, *others, want in zip(*runs, evaluate(exact, wide), strict=True):
        rounding = 16 * dtypes.epsilon(dtype)
        np.testing.assert_allclose(result, want, rtol=rounding, atol=rounding * np.abs(want).max())
        assert all(other.tobytes() == result.tobytes() for other in others)


@emulated
@pytest.mark.parametrize("case", some(CASES, 4), ids=str)
def test_long_rows_are_read_as_often_as_priced(case: Case) -> None:
    graph, schedule, cuda = emission(*case)
    reads, writes, _ = traffic(graph, cuda, module_source([cuda.source]))
    got = tuple(t.read_by_pass for t in reads)
    assert got == schedule.reads or (case[0] == "loss" and got <= schedule.reads), schedule
    assert tuple(t.written for t in writes) == schedule.writes


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("device", ["h100", "a100"])
def test_rows_of_up_to_49152_columns_are_read_once(device: str, dtype: np.dtype) -> None:
    """And those of float64 up to 24,576."""
    for name in ("softmax", "norm", "loss"):
        for columns in (300, 1000, 1024, 2000, 16_384, 20_000, *((32_000, 49_152) if dtype.itemsize <= 4 else ())):
            graph, schedule, _ = emission(name, dtype, columns, profile(device))
            again = 32 * graph.inputs[0].shape[0] if name == "loss" else 0  # of what memory moves for one element
            assert schedule.reads[0] <= graph.inputs[0].type.nbytes + 2 * again, (name, columns)


@pytest.mark.parametrize("device", ["h100", "a100", "4090", "v100"])
def test_a_block_has_as_much_shared_memory_as_the_device_gives_it(device: str) -> None:
    most = profile(device).shared_bytes
    given = {emission(*case, profile(device))[1].shared_bytes for case in itertools.product(BODIES, DTYPES, LENGTHS)}
    assert most / 2 < max(given) <= most - 512


@pytest.mark.slow
@compiled
def test_threads_that_hold_a_long_row_as_it_was_read_keep_little_of_it_elsewhere() -> None:
    """Beside what it holds, a thread has 16 registers: two vectors may not find room in some pass."""
    kernels = [cuda for case in CASES[2::3] for _, schedule, cuda in (emission(*case),) if schedule.shared_bytes]
    assert len(kernels) > 8
    used = nvrtc.compile_cuda(module_source([cuda.source for cuda in kernels]), "sm_90").resources
    assert not {name: uses for name, uses in used.items() if uses.spill_bytes > 32}


@emulated
@pytest.mark.parametrize("graphs", [False, True])
def test_a_program_launches_blocks_with_the_shared_memory_that_they_need(graphs: bool) -> None:
    small = replace(H100, multiprocessors=1)  # which a block for each row keeps busy
    plan = ef.compile(softmax_of, ef.spec((2, 60_000), np.float32), target=small).plan
    program = program_on(plan, EmulatedGpu())  # type: ignore[arg-type]
    (function,) = program.executable.functions  # type: ignore[attr-defined]
    assert isinstance(function, CudaKernel) and function.shared_bytes > 48 << 10
    if graphs:
        program.executable.use_graphs()  # type: ignore[attr-defined]
    x = np.random.default_rng(6).normal(size=(2, 60_000)).astype(np.float32)
    for _ in range(3):
        np.testing.assert_allclose(program(x), softmax_of(x), rtol=1e-5)


def norm_of(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("rows", [64, 300, 4096])
@pytest.mark.parametrize("columns", [98_304, 131_072, 1 << 20])
def test_longer_rows_are_read_twice(rows: int, columns: int) -> None:
    for function in (softmax_of, norm_of):
        plan = ef.compile(function, ef.spec((rows, columns), np.float32), target="cuda:h100").plan
        assert sum(k.price.bytes_read for k in plan.kernels) < 2.01 * 4 * rows * columns, function.__name__


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype, longest", [(np.float32, 40_960), (np.float16, 65_536)])
def test_a_multiprocessor_has_room_for_two_blocks_of_rows_that_half_of_it_holds(dtype: type, longest: int) -> None:
    for name, columns in itertools.product(("softmax", "norm", "loss"), (16_384, 20_000, longest)):
        schedule = rows_schedule(graph_of(name, np.dtype(dtype), (200, columns)), H100)
        assert isinstance(schedule, RowsSchedule) and schedule.block == (512, 1) and schedule.resident == 2
        assert 2 * (schedule.shared_bytes + 3072) <= H100.l1_bytes, name
        few = rows_schedule(graph_of(name, np.dtype(dtype), (8, columns)), H100)
        assert few.block == (1024, 1) or columns == 16_384 or few.grid[1] > 1, name


def test_a_block_alone_waits_for_memory_and_then_computes() -> None:
    """Of as many bytes, softmax of 49,152 columns took 1.2 times as long on an H200 as of 16,384."""
    def seconds(rows: int, columns: int) -> float:
        answer = priced(graph_of("softmax", DTYPES[0], (rows, columns)), profile("h200"))
        assert not isinstance(answer, str), answer
        return answer[1].seconds

    assert 1.15 < seconds(341, 49_152) / seconds(1024, 16_384) < 1.45


def test_blocks_that_share_rows_run_all_at_a_time() -> None:
    """Those of a loss of few rows, of 8 MB and more: nearly two for each multiprocessor, and never more."""
    for device, rows in itertools.product((H100, profile("a100"), profile("4090")), (1, 2, 4, 16, 64)):
        schedule = rows_schedule(graph_of("loss", DTYPES[0], (rows, (1 << 24) // rows)), device)
        blocks = schedule.grid[0] * schedule.grid[1]
        assert 1.5 * device.multiprocessors <= blocks <= 2 * device.multiprocessors or schedule.kept_bytes > 160


def test_an_index_of_each_row_does_not_narrow_what_is_read_at_once() -> None:
    _, schedule, cuda = emission("loss", np.dtype(np.float16), 65_536)
    assert schedule.rows.width == 8 and "Vec<__half, 8>" in cuda.source


def at_random(rng: np.random.Generator) -> Graph:
    """A body over long rows, whose arrays are read as they lie, backwards, shifted, broadcast and in pieces."""
    dtype, columns = DTYPES[int(rng.integers(3))], int(rng.choice([17_000, 33_000, 40_004, 50_257]))
    x = read(0, (2, columns), dtype)
    other, start = read(1, (2, columns), dtype), int(rng.integers(9))
    views = [
        x, other, node("flip", (x,), ((-1,),)), read(2, (columns,), dtype), read(3, (2, 1), dtype),
        node("reshape", (read(4, (2 * columns,), dtype),), (x.shape,)),
        cut(read(5, (2, columns + 8), dtype), 1, start, start + columns),
        node("concat", (cut(other, 1, 0, 1000), cut(x, 1, 1000, columns)), (-1,)),
    ]  # fmt: skip
    values = [x, *(views[int(i)] for i in rng.integers(0, len(views), int(rng.integers(1, 4))))]
    for _ in range(int(rng.integers(1, 7))):
        value = values[int(rng.integers(len(values)))]
        if rng.random() < 0.3 and value.shape == x.shape:
            values.append(reduced("max", value))
        else:
            op = str(rng.choice(["add", "multiply", "subtract", "maximum"]))
            values.append(node(op, (value, values[int(rng.integers(len(values)))])))
    whole = add(x, values[-1])
    output = node("subtract", (whole, reduced("max", whole)))
    inputs = {n.attr("name"): n for n in Graph((), (output,)).nodes if n.op == "input"}
    return body([inputs[key] for key in sorted(inputs)], output)


@emulated
@pytest.mark.parametrize("seed", some(range(4), 4))
def test_random_bodies_of_long_rows_read_what_is_priced_and_compute_what_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    emitted = []
    for graph in (at_random(rng) for _ in range(many(12))):
        schedule = rows_schedule(graph, H100)
        cuda = source_of(graph, schedule, f"row_{graph.key}")
        assert isinstance(schedule, RowsSchedule) and isinstance(cuda, CudaKernel)
        emitted.append((graph, schedule, cuda))
    assert any(schedule.shared_bytes for _, schedule, _ in emitted)
    code = module_source(list(dict.fromkeys(cuda.source for *_, cuda in emitted)))
    for graph, schedule, cuda in emitted:
        reads, _, _ = traffic(graph, cuda, code)
        assert tuple(t.read_by_pass for t in reads) == schedule.reads, graph
        arrays = [rng.integers(-3, 4, n.shape).astype(n.dtype) for n in graph.inputs]
        got, function = np.full((2, *graph.outputs[0].shape), 7, graph.outputs[0].dtype), emulated_function(cuda, code)
        for order, result in enumerate(got):
            arguments = cuda.arguments([result], arrays, cuda.constants, [])
            function(cuda.grid, cuda.block, arguments, cuda.shared_bytes, seed=3 * order)
        for result in got:
            np.testing.assert_array_equal(result, evaluate(graph, arrays)[0], str(graph))
