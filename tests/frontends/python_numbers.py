"""Python numbers as NumPy takes them: values of each kind, and what differs from NumPy where a function gets them.

A function is traced for one value of each kind, and then called with all of them.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.ir.arithmetic import literal

PYTHON = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)
OPERATORS = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift",
                 "lt", "le", "eq", "ne", "gt", "ge")
}  # fmt: skip
UNARY = (operator.neg, operator.pos, operator.inv, abs, round)
KINDS: dict[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (2, 0, 1, -1, 3, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1,
          2**64 - 1, 2**64, -(2**70), 10**400),
    float: (1.5, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-300, 65520.0, 1e300, float("inf"), float("-inf"),
            float("nan")),
    complex: (1 + 2j, 0j, complex(-0.0, -0.0), -1j, complex(float("inf"), 1), complex(float("nan"), 0)),
}  # fmt: skip
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8 and d.name not in ("int16", "uint16", "uint32")]

X, U = np.array([[0.5, -1.5, 2.0, 3.0]] * 3, np.float32), np.array([0, 1, 200, 255], np.uint8)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except Exception as error:
            return error


def values(dtype: np.dtype) -> np.ndarray:
    """Numbers among which all special ones are."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, limits.max, limits.min], dtype)
    floats = np.array([0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan]).astype(dtype)
    return floats + (floats[::-1] * 1j).astype(dtype) if dtype.kind == "c" else floats


def same(got: Any, wanted: Any) -> bool:
    """Equal in type, dtype and bits, but for the last digits of powers and the sign of a NaN."""
    if isinstance(wanted, tuple):
        return isinstance(got, tuple) and len(got) == len(wanted) and all(map(same, got, wanted))
    if type(wanted) in KINDS:
        return type(got) is type(wanted) and literal(got) == literal(wanted)
    g, w = np.asarray(got), np.asarray(wanted)
    if g.dtype != w.dtype or g.shape != w.shape or isinstance(got, np.generic) != isinstance(wanted, np.generic):
        return False
    if g.tobytes() == w.tobytes() or dtypes.kind(w.dtype) not in "fc":  # (the other way takes twenty times as long)
        return g.tobytes() == w.tobytes()
    a, b = dtypes.real_parts(g).astype(np.float64), dtypes.real_parts(w).astype(np.float64)
    signs = np.isnan(b) | (np.signbit(a) == np.signbit(b))
    return bool(signs.all()) and np.allclose(a, b, rtol=4 * dtypes.epsilon(w.dtype), atol=0, equal_nan=True)


def refused_alike(got: Exception, wanted: Exception) -> bool:
    """Does the ``except`` that catches NumPy's error catch ours? Whose class is Python's own, or one of eqfuse's."""
    fits = all(isinstance(got, kind) >= isinstance(wanted, kind) for kind in PYTHON)
    return fits and (isinstance(got, ef.EqfuseError) or type(got) is type(wanted))


def beyond_int64(*numbers: Any) -> bool:
    return any(type(n) is int and not -(2**63) <= n < 2**63 for n in numbers)


def fits(got: Any, wanted: Any, numbers: tuple, kinds: Any) -> bool:
    """Is `got` what NumPy gives, or refused as NumPy does, or refused by name? `kinds`: of the example's result."""
    if not isinstance(got, Exception):
        return not isinstance(wanted, Exception) and same(got, wanted)
    if isinstance(wanted, Exception):
        return refused_alike(got, wanted) or (isinstance(got, ef.EqfuseError) and beyond_int64(*numbers))
    if "give the number a dtype" in str(got):
        return beyond_int64(*numbers)
    return "name its arguments in static_argnames" in str(got) and types_of(wanted) != kinds


def types_of(result: Any) -> Any:
    return tuple(map(type, result)) if isinstance(result, tuple) else type(result)


def misfits(
    function: Callable[..., Any], arrays: tuple, tried: Iterable[tuple], run: Callable[..., Any] = ef.meaning
) -> Iterator[str]:
    """What is wrong with ``function(*arrays, *numbers)`` for each `numbers` of `tried`, all of the same kinds."""
    graph, kinds = None, None
    for numbers in tried:
        wanted = outcome(function, *arrays, *numbers)
        if graph is None:  # what NumPy refuses gives no graph
            traced = outcome(ef.trace, function, *arrays, *numbers)
            kinds, graph = types_of(wanted), None if isinstance(traced, Exception) else traced
        got = traced if graph is None else outcome(run, graph, *arrays, *numbers)
        if not fits(got, wanted, numbers, kinds):
            yield f"{numbers}: {got!r}, NumPy gives {wanted!r}"


def report(texts: Iterable[str]) -> None:
    lines = list(texts)
    assert not lines, "\n".join(lines[:20])
