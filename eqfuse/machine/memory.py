"""Memory: how much of it this process holds now, and new one that begins at a cache line.

Used by `eqfuse/budget.py`, and by what lends memory to kernels.
"""

from __future__ import annotations

import os
import sys
from functools import cache

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and the widest vector; one that lies across two lines takes twice as long
_STATM = "/proc/self/statm"


def aligned_memory(nbytes: int) -> np.ndarray:
    """At least `nbytes` bytes, whatever they hold, from the begin of a cache line on."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % ALIGNMENT :]


def resident_bytes() -> int:
    """Bytes of this process that are in memory. Where the system does not tell (anywhere but on Linux) the most that
    there ever were; 0 on Windows."""
    if _tells():
        file = os.open(_STATM, os.O_RDONLY)
        try:
            return int(os.read(file, 256).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        finally:
            os.close(file)
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@cache
def _tells() -> bool:
    return os.path.exists(_STATM)
