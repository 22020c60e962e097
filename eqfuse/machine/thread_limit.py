"""How many threads a kernel may use, whichever target it was made for."""

from __future__ import annotations

import ctypes
import operator
import os

from eqfuse.errors import OptionError

THREADS_VARIABLE = "EQFUSE_NUM_THREADS"
NO_THREAD_LIMIT = 1 << 30  # threads: more than any machine has


def set_num_threads(count: int | None) -> None:
    """Let no kernel run on more than `count` threads, from the next call on; None: on as many as there are CPUs.

    The environment variable EQFUSE_NUM_THREADS says it for a process from its start. Programs made before stay as they
    are, and use fewer threads; those compiled from now on are planned for `count`. Products that BLAS computes whole
    run on BLAS's own threads, which threadpoolctl limits.
    """
    limit.value = NO_THREAD_LIMIT if count is None else _checked(count, "the number of threads")


def thread_count() -> int:
    """Threads for a new program: CPUs that this process may use, and no more than the limit."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, limit.value)


def _checked(count: object, what: str) -> int:
    try:
        number = operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if isinstance(count, bool) or number < 1:
        raise OptionError(f"{what} is {count!r}; it must be a whole number, 1 or more")
    return min(number, NO_THREAD_LIMIT)


def _of_environment() -> int:
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return NO_THREAD_LIMIT
    return _checked(int(text) if text.isdecimal() else text, THREADS_VARIABLE)


limit = ctypes.c_longlong(_of_environment())  # native code reads it too
