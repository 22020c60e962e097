"""Which dtypes and arrays can be tensors; everything else is refused by name.

In: whatever stands where an array is expected. Out: a plain ndarray of a supported dtype, or a TraceError.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from eqfuse.dtypes import supported
from eqfuse.errors import TraceError
from eqfuse.machine.device_arrays import SHARING_ERRORS

ARRAY_TYPES: set[type] = {np.ndarray, np.memmap}  # and what stands for them while a function is traced


def ndarray(value: Any, what: str) -> np.ndarray:
    """`value` as np.asarray reads it. Masked arrays, matrices and other subclasses are refused by name."""
    if isinstance(value, np.ndarray) and type(value) not in ARRAY_TYPES:
        if hasattr(value, "constant_value"):
            raise TraceError(
                f"{what} is a traced value, which a compiled program cannot take: in a traced function call the "
                "function that it was compiled from, one of ef.jit, or the program's graph (program.plan.graph)"
            )
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TraceError(f"{what} is a {name}: its own rules cannot be traced. Pass a plain array: np.asarray(...)")
    if type(value) is np.ndarray:
        return value
    try:
        array = np.asarray(value)
    except SHARING_ERRORS as error:  # of a torch tensor that needs a gradient
        raise TraceError(f"{what} is not an array: {error}") from None
    if array.dtype == object and not array.ndim and not isinstance(value, numbers.Number):
        name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TraceError(f"{what} is of type {name}, not an array or a number")
    return array


def supported_array(value: Any, what: str) -> np.ndarray:
    """`value` as an ndarray of a supported dtype."""
    array = ndarray(value, what)
    supported(array.dtype, what)
    return array


def constant_of(value: Any, what: str, instead: str = "name the argument in static_argnames") -> np.ndarray:
    """`value` where only numbers that are known while tracing can stand; TraceError naming `what` otherwise."""
    array: Any = np.asarray(value)  # of traced arrays, a traced one, which passes for an ndarray
    constant: np.ndarray | None = array.constant_value() if hasattr(array, "constant_value") else array
    if constant is None:
        advice = instead if "static_argnames" in instead else f"{instead}, or name the argument in static_argnames"
        raise TraceError(f"{what} is a traced value: the shape of the result depends on data; {advice}")
    return constant
