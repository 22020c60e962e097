"""Whether random examples are the same in every run, or new ones, and how many: EQFUSE_EXPLORE=5 draws new ones, five
times as many in the slow tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import seed

_TIMES = int(os.environ.get("EQFUSE_EXPLORE", "0"))
EXPLORING = _TIMES > 0


def drawn_alike(part: int) -> Callable[[Any], Any]:
    """For a test of which each `part` draws examples of its own."""
    return (lambda test: test) if EXPLORING else seed(part)


def many(count: int) -> int:
    """How many examples a slow test draws that has `count` by itself."""
    return count * max(1, _TIMES)
