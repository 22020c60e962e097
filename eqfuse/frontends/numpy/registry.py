"""Which NumPy functions and ufuncs the tracer knows. The families in this package fill the tables when imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

TRACED_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
TRACED_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
TRACED_METHODS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
ARRAY_FUNCTIONS: dict[str, Callable[..., Any]] = {}  # what the operators and methods of traced arrays call, by name

F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Make the decorated function what `functions` do when one of their arguments is a tracer."""

    def register(implementation: F) -> F:
        for function in functions:
            stored = TRACED_FUNCTIONS.setdefault(function, implementation)
            assert stored is implementation, f"{function} has two implementations"
        return implementation

    return register


def of_arrays(implementation: F) -> F:
    """Make the decorated function what the operators and methods of traced arrays find under its name."""
    ARRAY_FUNCTIONS[implementation.__name__] = implementation
    return implementation
