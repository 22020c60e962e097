"""What dtype NumPy gives, learnt from arrays of one element: the type rules of library calls rest on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError


@cache
def result_dtype(function: Callable[..., Any], *dtypes: np.dtype) -> np.dtype:
    """The dtype of ``function(*arrays)`` for arrays of one element. DtypeError if refused."""
    with np.errstate(all="ignore"):
        try:
            return np.asarray(function(*(np.ones(1, d) for d in dtypes))).dtype
        except TypeError as error:
            name = getattr(function, "__name__", "this call")
            raise DtypeError(f"{name} is not defined for {', '.join(d.name for d in dtypes)}: {error}") from None
