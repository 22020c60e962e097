"""How much memory a call really takes, by `tracemalloc`: what `Program.peak_bytes` promises.

In: a program and its arguments. Out: bytes.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from typing import Any

from eqfuse.emit.numpy.executable import NumpyExecutable
from eqfuse.machine.threads import scratch
from eqfuse.plan.memory import arenas
from eqfuse.runtime.program import Program


def call_bytes(program: Program, arrays: Sequence[Any]) -> int:
    """The most that calls of `program` hold beside its arguments and results.

    Memory that earlier programs left behind is dropped first, but for that of results, where `memory.Results` keeps it:
    it must be of 32 KiB to 32 MiB each. Some kilobytes are Python's own objects.
    """
    program.run(arrays)
    arenas.forget()
    assert isinstance(program.executable, NumpyExecutable)
    program.executable._memory._ready.clear()
    scratch.kept.clear()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(2):  # in the second call threads hold what the first one made
        program.run(arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before
