"""How many instructions maps take an element, by disassembly of what NVRTC makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel
from eqfuse.emit.cuda.scheduling.map import MapSchedule, TilesSchedule
from eqfuse.ir.graph import Node, const, node
from eqfuse.plan.plan import Kernel
from tests.kernels.test_cuda_budgets import instructions, missing
from tests.support.kernels import PRICE, add, body, gelu, mul, read
from tests.support.some import some

pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "available")


def wide(x: Node) -> Node:
    """Of 16-bit floats, computed in float32 and rounded once."""
    return node("cast", (gelu(node("cast", (x,), (np.dtype(np.float32),))),), (x.dtype,))


def turned(x: Node) -> Node:
    return node("tanh", (add(node("transpose", (x,), ((1, 0),)), read(1, x.shape[::-1], x.dtype)),))


def stencil(x: Node) -> Node:
    """The ratio of neighbouring differences, and how it differs from that of the next ones."""
    rows, columns = x.shape
    one = const(np.float32(1))

    def moved(by: int) -> Node:
        return node("slice", (x,), (((0, rows, 1), (by, by + columns - 4, 1)),))

    def ratio(by: int) -> Node:
        steps = [node("subtract", (moved(by + j + 1), moved(by + j))) for j in (0, 1)]
        return node("divide", (steps[0], add(mul(steps[1], steps[1]), one)))

    return node("subtract", (ratio(1), ratio(0)))


MOST: dict[str, tuple[Callable[[Node], Node], Any, float]] = {
    "GELU": (gelu, np.float32, 29), "GELU of bfloat16": (wide, ml_dtypes.bfloat16, 28),
    "turned": (turned, np.float32, 28), "turned bfloat16": (turned, ml_dtypes.bfloat16, 14),
    "stencil": (stencil, np.float32, 30),
}  # fmt: skip


@pytest.mark.parametrize("arch", some(["sm_80", "sm_90"], 2))
def test_a_map_takes_few_instructions_an_element(arch: str, tmp_path: Path) -> None:
    """All instructions of the kernel, over the elements of a thread and turn."""
    kernels: dict[str, CudaKernel] = {}
    for name, (build, dtype, _) in MOST.items():
        output = build(read(0, (4096, 4096), dtype))
        inputs = [read(0, (4096, 4096), dtype), *([read(1, (4096, 4096), dtype)] if build is turned else [])]
        cuda = emit_kernel(Kernel("map", body(inputs, output), (), (), PRICE), profile("h100"))
        assert isinstance(cuda, CudaKernel)
        kernels[name] = cuda
    names_of = instructions(kernels.values(), arch, tmp_path)
    for name, cuda in kernels.items():
        assert isinstance(cuda.schedule, MapSchedule | TilesSchedule)
        count = len(names_of[cuda.name]) / cuda.schedule.width
        assert count <= MOST[name][2], (name, count)
