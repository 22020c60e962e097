"""Whether random examples are the same in every run, or new ones (EQFUSE_EXPLORE=1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import seed

EXPLORING = bool(os.environ.get("EQFUSE_EXPLORE"))


def drawn_alike(part: int) -> Callable[[Any], Any]:
    """For a test of which each `part` draws examples of its own."""
    return (lambda test: test) if EXPLORING else seed(part)
