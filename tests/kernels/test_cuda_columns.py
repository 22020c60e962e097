"""Reductions over leading axes: threads side by side take 16 bytes of neighbouring rows, and ask for several of them
before they use the first."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.cost.work import Work
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.emit.cuda.scheduling.row import RowsSchedule, rows_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.kernels import test_cuda_budgets
from tests.support.kernels import PRICE, add, body, cast, cut, joined, layer_norm, mul, number, read, reduced, softmax
from tests.support.some import some

H200 = profile("h200")
BF16 = ml_dtypes.bfloat16
Build = Callable[[], tuple[Node, ...]]
EVERY = ("sum", "max", "min", "argmax")
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def several(x: Node, *axes: int, ops: tuple[str, ...] = ("sum", "argmax")) -> tuple[Node, ...]:
    return tuple(reduced(op, x, *axes) for op in ops)


def with_work_before_and_after() -> tuple[Node, ...]:
    x, scale, weight = read(0, (700, 48)), read(1, (48,)), read(2, (700, 1))
    seen = mul(node("exp", (mul(node("subtract", (x, scale)), number(0.1)),)), weight)
    total = reduced("sum", seen, -2)
    return node("sqrt", (add(mul(total, total), scale),)), reduced("max", seen, -2)


def centred() -> tuple[Node, ...]:
    """Full results beside those of rows, and a vector of each row that only the last pass needs."""
    x = read(0, (90, 64))
    y = mul(node("subtract", (x, reduced("max", x, -2))), read(1, (64,)))
    return y, reduced("max", x, -2), mul(reduced("min", x, -2), number(2.0))


def views() -> tuple[Node, ...]:
    """Some lie side by side, others do not."""
    x, y = read(0, (300, 44)), read(1, (40, 300))
    shifted, even = cut(x, 1, 3, 43), cut(x, 1, 4, 44)
    backwards = node("flip", (even,), ((-2,),))
    together = add(add(shifted, backwards), node("transpose", (y,), ((1, 0),)))
    return reduced("sum", together, -2), reduced("max", even, -2)


def pieces() -> tuple[Node, ...]:
    x, y = read(0, (300, 24)), read(1, (300, 16))
    both = joined(-1, x, y)
    return reduced("sum", both, -2), node("subtract", (reduced("max", both, -2), read(2, (40,))))


def regrouped() -> tuple[Node, ...]:
    x = read(0, (24, 50, 12))
    flat = node("reshape", (read(1, (24, 600)),), ((24, 50, 12),))
    return reduced("sum", mul(x, flat), -2), reduced("max", flat, -2)


CASES: dict[str, Build] = {
    "one part": lambda: several(read(0, (100, 1200)), -2, ops=EVERY),
    "several parts": lambda: several(read(0, (5000, 72)), -2, ops=EVERY),
    "parts of unequal lengths": lambda: several(read(0, (3001, 40)), -2),
    "columns that divide nothing": lambda: several(read(0, (2000, 37)), -2),
    "two at a time": lambda: several(read(0, (2000, 30)), -2),
    "few columns": lambda: several(read(0, (7000, 3)), -2),
    "many short columns": lambda: several(read(0, (5, 4100)), -2),
    "the middle axis": lambda: several(read(0, (5, 130, 36)), -2),
    "the first and the third axis": lambda: several(read(0, (30, 4, 25, 12)), -4, -2, ops=EVERY[:3]),
    "double precision": lambda: several(read(0, (900, 26), np.float64), -2),
    "half precision": lambda: several(read(0, (900, 40), np.float16), -2, ops=("max", "argmin")),
    "bfloat16": lambda: several(read(0, (900, 48), BF16), -2, ops=EVERY),
    "bytes": lambda: several(read(0, (900, 64), np.int8), -2, ops=EVERY),
    "64-bit integers": lambda: several(read(0, (900, 34), np.uint64), -2, ops=("min", "argmax")),
    "truth values": lambda: tuple(reduced(op, read(0, (900, 48), np.bool_), -2) for op in ("any", "all", "argmin")),
    "counts": lambda: (reduced("sum", cast(read(0, (900, 48), np.bool_), np.int64), -2),),
    "products of integers": lambda: (reduced("prod", read(0, (900, 48), np.int32), -2),),
    "complex numbers": lambda: (reduced("sum", read(0, (900, 24), np.complex64), -2),
                                reduced("prod", read(1, (900, 24), np.complex64), -2)),
    "work before and after": with_work_before_and_after, "centred": centred, "views": views, "pieces": pieces,
    "regrouped": regrouped, "softmax": lambda: (softmax(read(0, (200, 72)), -2),),
    "softmax of odd columns": lambda: (softmax(read(0, (203, 35)), -2),),
    "softmax of the middle axis": lambda: (softmax(read(0, (3, 70, 24), BF16), -2),),
    "norm": lambda: (layer_norm(read(0, (150, 40)), -2),),
}  # fmt: skip


def graph_of(outputs: tuple[Node, ...]) -> Graph:
    inputs = (n for n in Graph((), outputs).nodes if n.op == "input")
    return body(sorted(inputs, key=lambda n: n.attr("name")), *outputs)


def emit(graph: Graph) -> CudaKernel:
    return emit_kernel(Kernel("row", graph, (), (), PRICE), H200)


@cache
def emitted() -> tuple[dict[str, tuple[Graph, CudaKernel]], str]:
    graphs = {name: graph_of(build()) for name, build in CASES.items()}
    kernels = {name: (graph, emit(graph)) for name, graph in graphs.items()}
    return kernels, module_source(list(dict.fromkeys(cuda.source for _, cuda in kernels.values())))


def argument(n: Node, special: bool) -> np.ndarray:
    rng = np.random.default_rng(n.type.size % 1000)
    values = rng.integers(-4, 5, n.shape) / (2 if n.dtype.kind not in "iub" else 1)  # sums of them are exact
    if n.dtype.kind == "c":
        return np.exp(2j * np.pi * rng.integers(0, 4, n.shape) / 4).round().astype(n.dtype)
    array = (np.abs(values) if n.dtype.kind == "u" else values).astype(n.dtype)
    if special and n.dtype.kind not in "iub":
        places = rng.integers(0, n.type.size, 9)
        array.reshape(-1)[places] = np.resize([np.nan, np.inf, -np.inf, -0.0], 9)
    return array


def judge(graph: Graph, got: list[np.ndarray], arrays: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, arrays)
    for output, result, want in zip(graph.outputs, got, wanted, strict=True):
        if output.dtype.kind in "iub":
            np.testing.assert_array_equal(result, want)
            continue
        tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-5 if output.dtype.kind == "c" else 1e-12}[output.dtype.itemsize]
        wide = np.complex128 if output.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(result.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


@emulated
@pytest.mark.parametrize("special", [False, True], ids=["numbers", "NaN and infinities"])
@pytest.mark.parametrize("name", some(reversed(CASES), 3))
def test_emulated_kernels_equal_the_evaluator_in_any_order_of_blocks_and_threads(name: str, special: bool) -> None:
    kernels, code = emitted()
    graph, cuda = kernels[name]
    arrays = [argument(n, special) for n in graph.inputs]
    workspace, runs = [np.zeros(n, dtype) for dtype, n in cuda.workspace], []
    for seed in range(2):  # one workspace: each launch must leave it fit for the next
        writes = [np.full(o.shape, 3, o.dtype) for o in graph.outputs]
        given = cuda.arguments(writes, arrays, cuda.constants, workspace)
        cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, given, seed=seed)
        runs.append(writes)
    judge(graph, runs[0], arrays)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*runs, strict=True))


def schedule_of(name: str) -> RowsSchedule:
    schedule = emitted()[0][name][1].schedule
    assert isinstance(schedule, RowsSchedule)
    return schedule


def test_the_cases_take_every_way() -> None:
    schedules = [schedule_of(name) for name in CASES]
    assert all(s.rows.layout == "column" for s in schedules)
    assert {s.rows.width for s in schedules} >= {1, 2, 4, 8}
    for way in (lambda s: s.splits > 1, lambda s: s.whole, lambda s: bool(s.held), lambda s: s.full_turns < s.turns):
        assert {way(s) for s in schedules} == {True, False}


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_no_register_is_kept_in_memory(arch: str) -> None:
    """Of every second kernel on each architecture."""
    sources = list(dict.fromkeys(cuda.source for _, cuda in emitted()[0].values()))[arch == "sm_90" :: 2]
    for name, uses in nvrtc.compile_cuda(module_source(sources), arch).resources.items():
        assert uses.spill_bytes == 0 and uses.registers <= 128, (name, uses)


# At the sizes that people run


def statistics(*shape: int, dtype: type = np.float32) -> Graph:
    x = read(0, shape, dtype)
    return body([x], reduced("sum", x, -2), reduced("max", x, -2))


@pytest.mark.slow
@pytest.mark.skipif(bool(test_cuda_budgets.missing), reason=test_cuda_budgets.missing or "available")
def test_a_thread_asks_for_several_rows_16_bytes_each_before_it_uses_the_first(tmp_path: Path) -> None:
    kernels = [emit(statistics(16_384, 1024, dtype=dtype)) for dtype in (np.float32, BF16)]
    for names in test_cuda_budgets.instructions(kernels, "sm_90", tmp_path).values():
        loads = [position for position, name in enumerate(names) if name.startswith("LDG") and "128" in name]
        first = names[loads[0] : loads[0] + 4]
        assert all("128" in name for name in first), first


@pytest.mark.parametrize("shape", [(262_144, 64), (16_384, 1024), (16_384, 1023), (16_000, 4000)])
def test_long_columns_are_split_among_blocks_enough_for_the_device(shape: tuple[int, int]) -> None:
    schedule = rows_schedule(statistics(*shape), H200)
    assert schedule.blocks >= 1.8 * H200.multiprocessors


def test_a_row_of_few_columns_is_read_by_one_block_all_across() -> None:
    schedule = rows_schedule(statistics(262_144, 64), H200)
    assert isinstance(schedule, RowsSchedule) and schedule.rows.groups == 1 and math.prod(schedule.block) >= 256


def test_the_block_that_comes_last_joins_parts_with_all_its_threads() -> None:
    source = emit(statistics(262_144, 64)).source
    splits, lanes = (int(n) for n in re.findall(r"int j = lane; j < (\d+); j \+= (\d+)", source)[0])
    assert splits / lanes <= 16


def seconds_a_byte(*shape: int) -> float:
    price = rows_schedule(graph_of((softmax(read(0, shape), -2),)), H200).price(H200, Work(1, 0.0, 1))
    assert price is not None
    return price.seconds / (price.bytes_read + price.bytes_written)


def test_columns_of_few_blocks_or_short_segments_are_priced_so() -> None:
    usual = seconds_a_byte(256, 65_536)
    assert seconds_a_byte(262_144, 64) > 4 * usual  # 8 blocks
    assert 1.5 * usual < seconds_a_byte(4096, 4096) < 2.5 * usual  # 32 bytes side by side
