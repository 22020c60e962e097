"""Whether a traced function does what NumPy does: the same dtype, the same shape, the same values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqfuse.errors import EqfuseError
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from eqfuse.ir.pytree import tree_leaves

DTYPES = ("bool", "int32", "int64", "float16", "float32", "float64")


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small half-integers (positive and negative), so that most arithmetic is exact."""
    values = np.random.default_rng(seed).integers(-6, 7, shape)
    if dtype == "bool":
        return values > 0
    return values.astype(dtype) if "int" in dtype else (values / 2).astype(dtype)


def agrees(fn: Callable[..., Any], *args: Any) -> None:
    """`fn` traced means what `fn` computes; where NumPy refuses, tracing (or evaluating) refuses."""
    try:
        _agrees(fn, *args)
    except BaseException as failure:  # pytest's own are no Exceptions
        failure.add_note("of " + ", ".join(f"{np.asarray(a).dtype}{np.shape(a)}" for a in args))
        raise


def _agrees(fn: Callable[..., Any], *args: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = fn(*args)
        except (
            TypeError,
            ValueError,
            IndexError,
            OverflowError,
            ZeroDivisionError,
            np.linalg.LinAlgError,
            np.exceptions.AxisError,
        ) as refusal:
            with pytest.raises((EqfuseError, ValueError, IndexError, TypeError)):
                meaning(trace(fn, *args), *args)
                pytest.fail(f"NumPy refuses: {refusal!r}")
            return
        got = meaning(trace(fn, *args), *args)
    wanted, structure = tree_leaves(expected)
    results, result_structure = tree_leaves(got)
    assert _kinds(structure) == _kinds(result_structure)
    for w, g in zip(wanted, results, strict=True):
        if isinstance(w, (bool, int, float)) and not isinstance(w, np.generic):
            assert w == g
            continue
        assert g.dtype == w.dtype, f"dtype {g.dtype}, NumPy gives {w.dtype}"
        assert g.shape == w.shape, f"shape {g.shape}, NumPy gives {w.shape}"
        assert isinstance(g, np.ndarray) == isinstance(w, np.ndarray), f"{type(g)}, NumPy gives {type(w)}"
        if w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
        else:
            digits = {2: 4e-3, 4: 2e-6, 8: 1e-13}[w.real.dtype.itemsize]
            np.testing.assert_allclose(g, w, rtol=digits, atol=digits)


def _kinds(structure: Any) -> Any:
    if structure.kind is not None and structure.kind.__name__ == "Static":
        return structure.keys
    children = [_kinds(child) for child in structure.children]
    return (tuple if structure.kind in (tuple, list) else structure.kind, structure.keys, children)
