"""Loops that a C text calls vectors are vectors, too, where gcc takes little time to compile it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c.kernels import module_text
from eqfuse.machine.c_build import QUICK_FLAGS
from eqfuse.machine.c_compiler import find_compiler
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted

pytestmark = needs_compiler


def peaks(x: np.ndarray, is_level: np.ndarray, strength: np.ndarray) -> tuple[np.ndarray, ...]:
    """Values of one byte choose among neighbours of eight bytes, and are results beside such."""
    p = np.pad(x, 1)
    level, upright = np.maximum(p[1:-1, :-2], p[1:-1, 2:]), np.maximum(p[:-2, 1:-1], p[2:, 1:-1])
    kept = np.where(x < np.where(is_level, level, upright), 0.0, x)
    kept = np.where(kept < 0.4, 0.0, kept)
    return kept > 0, kept, strength * (kept > 0)


X, MASK = np.zeros((300, 302)), np.zeros((300, 302), bool)


def vectors(text: str, folder: Path, *flags: str) -> set[int]:
    """The lines of the loops of `text` that are called vectors and that gcc makes such."""
    file, compiler = folder / "kernel.c", find_compiler()
    file.write_text(text)
    command = [*compiler.command, *compiler.flags, *flags, "-fopt-info-vec", "-c", str(file), "-o", str(folder / "k.o")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    lines = [int(line) for line in re.findall(r"kernel\.c:(\d+):\d+: optimized: loop vectorized", said)]
    loops = [i + 2 for i, line in enumerate(text.split("\n")) if "#pragma omp simd" in line]
    return {max(head for head in loops if head <= m) for m in lines if m >= loops[0]} if loops else set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if "clang" in find_compiler().version or "gcc" not in find_compiler().version.lower():
        pytest.skip("which loops are vectors is asked of gcc")
    return tmp_path


def test_loops_are_vectors_in_little_time_as_with_all_optimisations(folder: Path) -> None:
    text = module_text([emitted("map", ef.trace(peaks, X, MASK, X))])
    assert vectors(text, folder) and vectors(text, folder) <= vectors(text, folder, *QUICK_FLAGS)
