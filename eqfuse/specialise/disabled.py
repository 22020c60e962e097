"""`ef.disable`: functions of `ef.jit` run as plain Python and NumPy, to step through them or to compare results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

DISABLE_VARIABLE = "EQFUSE_DISABLE"

_disabled = ContextVar("eqfuse_disabled", default=os.environ.get(DISABLE_VARIABLE, "") not in ("", "0"))


@contextmanager
def disable() -> Iterator[None]:
    """Inside `with ef.disable():`, or in a function decorated with it, functions of `ef.jit` are not compiled: a call
    runs the function itself, on the arrays as they are. Of this thread and task alone; the environment variable
    EQFUSE_DISABLE=1 says it for a whole process. `ef.compile` and programs made before are not affected."""
    before = _disabled.set(True)
    try:
        yield
    finally:
        _disabled.reset(before)


is_disabled = _disabled.get
