"""The names that a user knows NumPy's and SciPy's functions by."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np


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
    return "numpy.frompyfunc" if name.endswith(" (vectorized)") else "scipy.special"
