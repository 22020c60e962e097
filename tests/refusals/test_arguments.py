"""Calls that Python refuses are refused as errors of eqfuse that are TypeErrors too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.ones(3)
CALLS: dict[str, tuple[tuple, dict[str, Any]]] = {
    "without an argument": ((), {}),
    "with one too many": ((X, 2, 3), {}),
    "by a name that is no parameter": ((X,), {"power": 2}),
    "of a parameter twice": ((X,), {"x": X}),
}


def _scaled(x: np.ndarray, times: float = 1) -> np.ndarray:
    return x * times


@pytest.mark.parametrize("way", ["jit", "trace", "compile", "grad"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_does_not_fit_the_function_is_refused_as_python_does(way: str, call: str) -> None:
    args, kwargs = CALLS[call]
    with pytest.raises(TypeError):
        _scaled(*args, **kwargs)
    with pytest.raises(ef.EqfuseError, match="argument") as refused:
        if way == "jit":
            ef.jit(_scaled)(*args, **kwargs)
        elif way == "grad":
            ef.grad(lambda x, times=1: _scaled(x, times).sum())(*args, **kwargs)
        else:
            getattr(ef, way)(_scaled, *args, **kwargs)
    assert isinstance(refused.value, TypeError)
