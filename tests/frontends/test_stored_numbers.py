"""Numbers beyond the range of an integer array are refused, or wrap around, wherever NumPy does so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

BEYOND = {
    "int8": 300, "uint8": 300, "int16": 70000, "int32": 2**31, "uint32": 2**32, "int64": 2**63, "uint64": 2**63,
    "bool": 7, "float16": 10**6,
}  # fmt: skip


def _masked(x: np.ndarray, v: Any) -> None:
    x[x > 0] = v


WAYS: dict[str, Callable[[np.ndarray, Any], Any]] = {
    "a slice": lambda x, v: x.__setitem__(slice(None), v),
    "an element": lambda x, v: x.__setitem__(0, v),
    "indices": lambda x, v: x.__setitem__([0, 2], v),
    "a list by indices": lambda x, v: x.__setitem__([0, 2], [v, v]),
    "a list": lambda x, v: x.__setitem__(slice(None), [v, v, v]),
    "an array": lambda x, v: x.__setitem__(slice(None), np.array([v])),
    "an array of rank 0": lambda x, v: x.__setitem__(slice(None), np.asarray(v)),
    "what is computed": lambda x, v: x.__setitem__(slice(None), np.int64(v) * 1),
    "a mask": _masked,
    "fill": lambda x, v: x.fill(v),
    "put": lambda x, v: np.put(x, [0], v),
    "copyto": lambda x, v: np.copyto(x, v, casting="unsafe"),
    "where": lambda x, v: np.where(x > 0, x, v),
    "pad": lambda x, v: np.pad(x, 1, constant_values=v),
    "pad by sides": lambda x, v: np.pad(x, 1, constant_values=[v, 0]),
    "a ramp": lambda x, v: np.pad(x, 2, mode="linear_ramp", end_values=v),
}


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return call()
    except OverflowError as error:
        return error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", BEYOND)
@pytest.mark.parametrize("way", WAYS)
def test_a_number_is_stored_or_refused_as_in_numpy(way: str, dtype: str) -> None:
    def f(x: np.ndarray, v: Any) -> Any:
        result = WAYS[way](x, v)
        return x if result is None else result

    values: list[Any] = [BEYOND[dtype], -3, 5.0]
    if BEYOND[dtype] < 2**63:
        values += [np.int64(BEYOND[dtype]), np.float64(BEYOND[dtype]), np.uint64(BEYOND[dtype]), np.int64(-3)]
    for v in values:
        want = _outcome(lambda v=v: f(np.ones(3, dtype), v))
        x = np.ones(3, dtype)
        got = _outcome(lambda x=x, v=v: ef.meaning(ef.trace(lambda x: f(x, v), x), x))
        if isinstance(want, OverflowError):
            assert isinstance(got, OverflowError), (v, got)
        else:
            np.testing.assert_array_equal(got, want, repr(v), strict=True)
