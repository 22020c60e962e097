"""How many instructions rows take an element, and how many bytes at a time they read and write, by disassembly of what
NVRTC makes of them."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.ir.graph import Node
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from tests.kernels import test_cuda_contract
from tests.support.kernels import PRICE, body, layer_norm, read, softmax

FOUND = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/**/bin/nvdisasm"))
missing = nvrtc.nvrtc_missing() or ("" if FOUND else "nvdisasm is not installed: pip install eqfuse[gpucheck]")
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "available")

# Instructions an element of a row: of a few hundred columns, then of those that threads hold with 32 elements each
MOST = {
    (softmax, np.float32): (24, 22), (softmax, ml_dtypes.bfloat16): (17, 19),
    (layer_norm, np.float32): (24, 19), (layer_norm, ml_dtypes.bfloat16): (25, 20),
}  # fmt: skip


def instructions(kernels: Iterable[CudaKernel], arch: str, folder: Path) -> dict[str, list[str]]:
    """The names of the instructions of each kernel."""
    cubin = folder / "kernels.cubin"
    cubin.write_bytes(nvrtc.compile_cuda(module_source([k.source for k in kernels]), arch).cubin)
    text = subprocess.run([FOUND[0], "-c", cubin], capture_output=True, text=True, check=True).stdout
    names_of = {}
    for part in re.split(r"^\s*\.section\s+\.text\.", text, flags=re.MULTILINE)[1:]:
        lines = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)", part, re.MULTILINE)
        names_of[re.match(r"\w+", part)[0]] = [line for line in lines if line != "NOP"]
    return names_of


def row_of(build: Callable[[Node], Node], columns: int, dtype: Any) -> CudaKernel:
    x = read(0, (4096, columns), dtype)
    return emit_kernel(Kernel("row", body([x], build(x)), (), (), PRICE), profile("h100"))


@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90", marks=pytest.mark.slow)])
def test_a_row_takes_few_instructions_an_element_and_moves_16_bytes_at_a_time(arch: str, tmp_path: Path) -> None:
    """All instructions of the kernel, over the elements of a thread."""
    lengths = {256: 0, 8192: 1, 49_152: 1}
    kernels = {(key, n): row_of(key[0], n, key[1]) for key in MOST for n in lengths}
    names_of = instructions(kernels.values(), arch, tmp_path)
    for (key, columns), kernel in kernels.items():
        assert "< end" not in kernel.source
        names = names_of[kernel.name]
        assert len(names) <= MOST[key][lengths[columns]] * kernel.schedule.items, (key, columns, len(names))
        accesses = {n for n in names if n.startswith(("LDG", "STG"))}
        assert all("128" in n for n in accesses), (key, columns, accesses)


@pytest.mark.parametrize("columns", [1024, 4096, 16_384])
def test_a_multiprocessor_has_room_for_768_threads_of_a_row_kernel_of_float32(columns: int) -> None:
    kernels = [row_of(build, columns, np.float32) for build in (softmax, layer_norm)]
    used = nvrtc.compile_cuda(module_source([k.source for k in kernels]), "sm_90").resources
    for kernel in kernels:
        threads = kernel.block[0] * kernel.block[1]
        registers = -(-used[kernel.name].registers // 8) * 8  # as they are given out
        assert 65_536 // (registers * threads) * threads >= 768


def test_operands_are_loaded_without_branches_or_limits_that_whole_tiles_do_not_need(tmp_path: Path) -> None:
    """A branch for each element would wait for it before the next one is asked for."""
    builds = {
        "product": (test_cuda_contract.linear("f2", 4096, 4096, 4096), 700),
        "convolution": (test_cuda_contract.LARGE["bfloat16 convolution"](), 950),
    }
    kernels = {name: test_cuda_contract.tiled(test_cuda_contract.kernel_of(outputs), profile("h100"))
               for name, (outputs, _) in builds.items()}  # fmt: skip
    names_of = instructions(kernels.values(), "sm_90", tmp_path)
    for name, (_, most) in builds.items():
        names = names_of[kernels[name].name]
        assert len(names) <= most and "BSSY" not in names, (name, len(names))
    assert "k < 4096" not in kernels["product"].source and "k_ < 4096" not in kernels["product"].source
