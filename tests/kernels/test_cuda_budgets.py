"""How many instructions rows take an element, by disassembly of what NVRTC makes of them."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import device
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from tests.support.kernels import PRICE, body, layer_norm, read, softmax

FOUND = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/**/bin/nvdisasm"))
missing = nvrtc.available() or ("" if FOUND else "nvdisasm is not installed: pip install eqfuse[gpucheck]")
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "available")


def instructions(source: str, folder: Path) -> int:
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(nvrtc.compile_cuda(module_source([source]), "sm_90").cubin)
    text = subprocess.run([FOUND[0], "-c", cubin], capture_output=True, text=True, check=True).stdout
    return sum("NOP" not in line for line in re.findall(r"^\s+/\*[0-9a-f]{4,}\*/.*", text, re.MULTILINE))


@pytest.mark.parametrize("dtype, most", [(np.float32, 50), (ml_dtypes.bfloat16, 60)], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("build", [softmax, layer_norm])
def test_a_row_of_whole_blocks_takes_few_instructions_an_element(build, dtype, most, tmp_path: Path) -> None:
    """All of the kernel's, over the elements of a thread."""
    x = read(0, (256, 8192), dtype)
    kernel = emit_kernel(Kernel("row", body([x], build(x)), (), (), PRICE), device("h100"))
    assert "if (col < end)" not in kernel.source
    assert instructions(kernel.source, tmp_path) <= most * kernel.schedule.items
