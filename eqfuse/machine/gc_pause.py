"""Pauses the cyclic garbage collector while compiling, which makes many objects that all stay.

A full collection visits every object of the process, and the collections grow with their number: they took a sixth of
the time of compiling 12 transformer blocks.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()  # a signal handler may compile too
_callers: set[object] = set()  # who has put it off, in all threads
_before: bool | None = None  # was it on before the first of them? Kept until it is as before


@contextmanager
def gc_paused() -> Iterator[None]:
    """A context in which no collection runs, in any thread; it may be nested.

    Afterwards collections are enabled as before; where an interrupt comes at that very moment, after the next context.
    """
    global _before
    caller = object()
    try:
        with _lock:
            _before = gc.isenabled() if _before is None else _before
            _callers.add(caller)
            gc.disable()
        yield
    finally:
        with _lock:
            _callers.discard(caller)
            if not _callers:
                if _before:
                    gc.enable()
                _before = None
