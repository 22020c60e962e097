"""A C compiler for tests that need one, and native kernels of a few lines for them."""

from __future__ import annotations

import ctypes
import shutil
import sys
from typing import Any

import numpy as np
import pytest

from eqfuse.machine import c_threads
from eqfuse.machine.c_objects import loaded_library

needs_compiler = pytest.mark.skipif(
    sys.platform == "win32" or not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="needs a C compiler: cc, gcc or clang",
)

CHUNK = 1024
SAXPY = f"""
void saxpy(void *const *args, long long chunk) {{
    float a = *(const float *)args[0];
    const float *restrict x = args[1];
    float *restrict y = args[2];
    for (long long i = chunk * {CHUNK}; i < (chunk + 1) * {CHUNK}; i++)
        y[i] = a * x[i] + y[i];
}}
"""


RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong)


def run(kernel: int, args: int, chunks: int, threads: int) -> None:
    """Call the function at the address `kernel` with `args` and each number below `chunks`, on so many threads."""
    RUN(c_threads.runner())(kernel, args, chunks, threads)


def address(function: Any) -> int:
    pointer = ctypes.cast(function, ctypes.c_void_p).value
    assert pointer is not None
    return pointer


class Saxpy:
    """The kernel, its arguments for some chunks, and its right result."""

    def __init__(self, chunks: int) -> None:
        rng = np.random.default_rng(chunks)
        self.chunks = chunks
        self.a = np.array(rng.integers(1, 9), np.float32)
        self.x = rng.integers(-99, 99, chunks * CHUNK).astype(np.float32)
        self.y = rng.integers(-99, 99, chunks * CHUNK).astype(np.float32)
        self.right = self.a * self.x + self.y
        self._args = (ctypes.c_void_p * 3)(*(array.ctypes.data for array in (self.a, self.x, self.y)))
        self.args = ctypes.addressof(self._args)
        self.kernel = address(loaded_library(SAXPY).saxpy)

    def run(self) -> Saxpy:
        """All chunks, by this thread."""
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_longlong)(self.kernel)
        for chunk in range(self.chunks):
            call(self.args, chunk)
        return self

    def check(self) -> None:
        np.testing.assert_array_equal(self.y, self.right)
