"""Maps of arrays that lie with different axes fastest, which go through tiles in shared memory: judged by the
evaluator, on the emulator; the places in shared memory by the banks that threads meet in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.emit.cuda.scheduling.map import TilesSchedule
from eqfuse.emit.cuda.transposed import _first_kept, _places
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, node
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, add, body, data, read
from tests.support.some import some

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float64, np.int8, np.complex128]
# whole tiles; whole lines of 16 bytes along both axes, the first, the last, none
SHAPES = [(128, 64), (136, 72), (72, 67), (35, 136), (69, 33)]


def turned(rows: int, columns: int, dtype: Any) -> Graph:
    """Beside an array in order: one that lies the other way, and what is computed of another."""
    x, y, z = read(0, (3, rows, columns), dtype), read(1, (3, columns, rows), dtype), read(2, (columns, rows), dtype)
    other = node("transpose", (node("negative", (z,)),), ((1, 0),))
    return body([x, y, z], add(add(x, node("transpose", (y,), ((0, 2, 1),))), other))


def emitted(graph: Graph) -> CudaKernel:
    cuda = emit_kernel(Kernel("map", graph, (), (), PRICE), profile("h100"))
    assert isinstance(cuda, CudaKernel) and isinstance(cuda.schedule, TilesSchedule)
    return cuda


@emulated
@pytest.mark.parametrize("shape", some(SHAPES, 2), ids=str)
def test_tiles_of_every_width_equal_the_evaluator_whole_or_not(shape: tuple[int, int]) -> None:
    number = SHAPES.index(shape)
    graphs = [turned(*shape, dtype) for i, dtype in enumerate(DTYPES) if (number + i) % 3]  # every dtype at most shapes
    kernels = [emitted(graph) for graph in graphs]
    code = module_source([cuda.source for cuda in kernels])
    for graph, cuda in zip(graphs, kernels, strict=True):
        arrays, writes = data(graph), [np.empty(o.shape, o.dtype) for o in graph.outputs]
        cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, cuda.arguments(writes, arrays, cuda.constants, []))
        for got, want in zip(writes, evaluate(graph, arrays), strict=True):
            assert np.array_equal(got, want), (shape, graph.outputs[0].dtype)


def test_a_turned_copy_converts_nothing() -> None:
    x = read(0, (64, 64), ml_dtypes.bfloat16)
    cuda = emitted(body([x], node("transpose", (x,), ((1, 0),))))
    assert "x0.v[v] = r0v.v[v];" in cuda.source and "x0.v[v] = tile0[" in cuda.source


def conflicts(text: str, schedule: TilesSchedule, itemsize: int, bytes_at_once: int) -> int:
    """How often a bank has another word to give than the one that it gives first, in the accesses of one block."""
    first, row = text.removeprefix("&tile0[")[:-1].split("][")
    lanes = 32 // max(1, bytes_at_once // 4)  # those that shared memory serves together
    count = 0
    for start in range(0, schedule.block[0], lanes):
        banks: dict[int, set[int]] = {}
        for thread in range(start, start + lanes):
            names = {"v": 1, "thread": thread}
            place = [eval(t.replace("threadIdx.x", "thread").replace("/", "//"), names) for t in (first, row)]
            word = (place[0] * schedule.line(schedule.transposed[0]) + place[1]) * itemsize // 4
            for w in range(word, word + max(1, bytes_at_once // 4)):
                banks.setdefault(w % 32, set()).add(w)
        count += max(map(len, banks.values())) - 1
    return count


def schedule_of(shape: Sequence[int], dtype: Any) -> TilesSchedule:
    schedule = emitted(turned(*shape, dtype)).schedule
    assert isinstance(schedule, TilesSchedule)
    return schedule


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_threads_that_take_16_bytes_meet_in_no_bank(dtype: Any) -> None:
    schedule, size = schedule_of((128, 64), dtype), np.dtype(dtype).itemsize
    assert schedule.at_once == (True, True) and schedule.width * size == 16
    assert conflicts(_first_kept(schedule, 0), schedule, size, 16) == 0
    assert conflicts(_places(schedule)[1].replace("[", "&tile0[", 1), schedule, size, size) == 0


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_threads_that_take_single_elements_meet_in_no_bank(dtype: Any) -> None:
    schedule, size = schedule_of((69, 33), dtype), np.dtype(dtype).itemsize
    assert schedule.at_once == (False, False)
    for place in _places(schedule):
        assert conflicts(place.replace("[", "&tile0[", 1), schedule, size, size) == 0
