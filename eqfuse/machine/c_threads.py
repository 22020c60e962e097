"""Native kernels run by chunks, on several threads. In: nothing. Out: the address of the function that runs them.

A kernel is ``void kernel(void *args, long long chunk)``. Threads of our own in C (`c_threads.c`) hand a chunk over in a
fraction of a microsecond while they are awake; Python's threads, `threads.pool`, take 20 and more. Where the C library
has no POSIX threads, one chunk runs after the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread

from eqfuse.errors import EqfuseError
from eqfuse.machine.c_build import CompilerError
from eqfuse.machine.c_objects import LoadError, loaded_library
from eqfuse.machine.thread_limit import limit

ONE_THREAD = """
void eqfuse_run(void (*chunk)(void *, long long), void *args, long long chunks, long long threads) {
    for (long long i = 0; i < chunks; i++)
        chunk(args, i);
}
"""


@cache
def runner() -> int:
    """The address of ``void run(void (*kernel)(void *, long long), void *args, long long chunks, long long threads)``,
    on up to `threads` threads. Any thread may call it, and a kernel may from its chunks. Where a chunk takes less than
    some 10 µs, do not share: say one thread. Chunks may use a megabyte of stack."""
    library = _library() or loaded_library(ONE_THREAD)
    address = ctypes.cast(library.eqfuse_run, ctypes.c_void_p).value
    assert address is not None
    return address


@contextmanager
def compiling() -> Iterator[None]:
    """What `runner` needs is compiled beside what this thread does meanwhile."""

    def begin() -> None:
        with suppress(EqfuseError):  # which `runner` raises
            runner()

    beside = Thread(target=begin, daemon=True)
    with suppress(RuntimeError):  # no more threads: `runner` compiles it
        beside.start()
    try:
        yield
    finally:
        if beside.ident is not None:
            beside.join()


@cache
def _library() -> ctypes.CDLL | None:
    """The threads in C; None where this system has none of the kind."""
    try:
        library = loaded_library((Path(__file__).parent / "c_threads.c").read_text(), "-pthread")
    except (CompilerError, LoadError):
        return None
    library.eqfuse_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong)
    library.eqfuse_run.restype = None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(limit))  # threads may read it while Python itself ends
    library.eqfuse_start(ctypes.byref(limit))
    return library
