"""Which NumPy functions and ufuncs the tracer knows. The families in this package fill the tables when imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
METHODS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}

F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Make the decorated function what `functions` do when one of their arguments is a tracer."""

    def register(implementation: F) -> F:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register


@lru_cache(1000)
def title(function: Any) -> str:
    """The name a user knows `function` by: ``np.sum``, ``scipy.special.erf``."""
    name = getattr(function, "__name__", repr(function))
    module = getattr(function, "__module__", None) or _home(function, name)
    return f"{module}.{name}".replace("numpy.", "np.", 1)


def _home(ufunc: np.ufunc, name: str) -> str:
    """Where a ufunc lives; most do not tell."""
    if hasattr(np, name):
        return "numpy"
    if ufunc is getattr(np._core.umath, name, None):  # type: ignore[attr-defined]
        return "numpy._core.umath" if getattr(ufunc, "types", None) else "numpy.strings"
    return "scipy.special"
