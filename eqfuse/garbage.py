"""Python's search for garbage in cycles, put off while a search of ours makes many objects that all stay.

It goes through every object of the process, again and again as these grow in number: a sixth of the time of compiling
12 transformer blocks.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_waiting = 0  # how many callers, in all threads, have put it off
_enabled = False  # before the first of them


@contextmanager
def uncollected() -> Iterator[None]:
    """No collections meanwhile, in any thread; afterwards as before. It may be nested."""
    global _waiting, _enabled
    with _lock:
        if not _waiting:
            _enabled = gc.isenabled()
            gc.disable()
        _waiting += 1
    try:
        yield
    finally:
        with _lock:
            _waiting -= 1
            if not _waiting and _enabled:
                gc.enable()
