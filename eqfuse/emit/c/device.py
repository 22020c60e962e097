"""This CPU as compiled loops see it.

In: the NumPy target's measurement of this machine, and what its CPU can do. Out: a `Device`. Bandwidths, products and
the calls that stay NumPy's are as measured; the rate of additions is that of the CPU's vectors.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.c.rates import HALF_ROUNDING
from eqfuse.emit.numpy import device as numpy_device
from eqfuse.errors import TargetUnavailable
from eqfuse.machine.c_compiler import find_compiler

GIGAHERTZ = 3.0  # of a server core while all work: 2.6 to 3.7 by the data sheets of Xeon and EPYC since 2020
LOADS = 1.0  # vector additions a cycle whose operands come from the nearest cache: two loads and a store
BASELINE = 16  # bytes of the vectors that every CPU has
CALL = 2e-7  # seconds of a call of a C function from Python, and the line of the program around it


def device() -> Device:
    """TargetUnavailable where there is no C compiler."""
    find_compiler()
    return compiled_device(numpy_device())


def compiled_device(here: Device, width: int | None = None) -> Device:
    """The machine `here`, a profile of the NumPy target, for compiled loops of `width` bytes a vector: this CPU's."""
    width = width or vector_bytes()
    single = width / 4 * GIGAHERTZ * 1e9 * LOADS * here.threads
    half = single / (1 + HALF_ROUNDING)
    rates = {"float32": single, "float64": single / 2, "int64": single / 2, "float16": half, "bfloat16": half}
    return replace(
        here, name=f"{here.name} (C)", target="c", launch_seconds=CALL, scalar_flops=tuple(rates.items()),
        reads=f"{here.reads}; C kernels: {width * 8}-bit vectors at {GIGAHERTZ} GHz",
    )  # fmt: skip


@cache
def vector_bytes() -> int:
    """Of a vector of this CPU, as NumPy found its features when it was loaded, if the compiler makes code for it."""
    with suppress(TargetUnavailable):
        if "-march=native" not in find_compiler().flags:
            return BASELINE
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return 64 if features.get("AVX512F") else 32 if features.get("AVX2") else BASELINE
