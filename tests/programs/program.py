"""One of the programs of this folder: a plain NumPy function and its arguments, small to test and large to time.

The programs are written as people write NumPy, without regard for what is convenient to trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class ExampleProgram:
    """`make(rng, size)` gives the positional arguments, and those by name when it returns two things."""

    function: Callable[..., Any]
    make: Callable[[np.random.Generator, int], Any]
    small: int
    large: int
    static: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, size: int, seed: int = 0) -> Arguments:
        values = self.make(np.random.default_rng(seed), size)
        return (values[0], dict(values[1])) if isinstance(values[-1], Named) else (values, {})


class Named(dict[str, Any]):
    """Arguments passed by name."""
