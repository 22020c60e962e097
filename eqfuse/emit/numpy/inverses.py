"""Inverses by halves, whose work is in products: NumPy's own factors a triangle as any matrix, and takes 2 to 7 times
as long (orders 64 to 1024, one thread).

In: matrices, in stacks. Out: what the operators of these names mean, written into an array. LAPACK gets transposes,
which lie in memory as it has its matrices.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from eqfuse.ops.linalg import inverse_and_slogdet, inverse_of_triangle

NUMPY_ORDER = 8  # the order up to which NumPy, which takes a stack in one call, inverts triangles quickest
LAPACK_ORDER = 64  # up to which LAPACK does
FACTORED_ORDER = 48  # up to which NumPy's two calls take less than the parts here


def inv_triangular(a: np.ndarray, out: np.ndarray) -> None:
    """The inverse of the lower triangle of `a`, which may be `out` itself; NaN where it is singular."""
    singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(-1)
    _inverted_triangle(a, out)
    out[singular] = np.nan


def _inverted_triangle(a: np.ndarray, out: np.ndarray) -> None:
    order = a.shape[-1]
    if order <= NUMPY_ORDER:
        np.copyto(out, inverse_of_triangle(a))
    elif order <= LAPACK_ORDER:
        _inverted_triangles(a, out)
    else:
        first, second = slice(0, order // 2), slice(order // 2, order)
        for half in (first, second):
            _inverted_triangle(a[..., half, half], out[..., half, half])
        out[..., first, second] = 0
        corner = out[..., second, first]
        np.matmul(out[..., second, second], a[..., second, first] @ out[..., first, first], corner)
        np.negative(corner, corner)


def _inverted_triangles(a: np.ndarray, out: np.ndarray) -> None:
    invert = _lapack("trtri", a)
    for place in np.ndindex(a.shape[:-2]):
        out[place] = invert(a[place].T)[0].T
    np.copyto(out, 0, where=_above(a.shape[-1]))


def _lapack(name: str, a: np.ndarray) -> Any:
    """LAPACK's function of that name for the dtype of `a`. SciPy's is imported where a program needs it."""
    from scipy.linalg import lapack

    (function,) = lapack.get_lapack_funcs((name,), (a,))
    return function


@functools.cache
def _above(order: int) -> np.ndarray:
    return ~np.tri(order, dtype=bool)


def inv_slogdet(a: np.ndarray, out: np.ndarray) -> None:
    """The inverse of `a`, or NaN, and the sign and the logarithm of its determinant, of one factorisation."""
    order = a.shape[-1]
    inverse, sign, log = np.split(out, [a.size, a.size + math.prod(a.shape[:-2])])
    if order <= FACTORED_ORDER:
        for part, value in zip((inverse, sign, log), inverse_and_slogdet(a), strict=True):
            part[:] = np.ravel(value)
        return
    whole = inverse.reshape(a.shape)
    for i, place in enumerate(np.ndindex(a.shape[:-2])):
        sign[i], log[i] = _inverted(a[place], whole[place])


def _inverted(a: np.ndarray, out: np.ndarray) -> tuple[complex, float]:
    """Fills `out` with the inverse of one matrix; the sign and the logarithm of its determinant."""
    factor = _lapack("getrf", a)
    factors, pivots, singular = factor(a.T)
    if singular > 0:
        out[...] = np.nan
        return 0, -np.inf
    places = list(range(len(a)))
    for i, pivot in enumerate(pivots.tolist()):
        places[i], places[pivot] = places[pivot], places[i]
    diagonal = np.diagonal(factors).copy()
    inv_triangular(factors.T, out)
    np.fill_diagonal(factors, 1)
    inv_triangular(factors, factors)
    out[places] = factors.T @ out
    size = np.abs(diagonal)
    swaps = np.count_nonzero(pivots != np.arange(len(a)))
    return (-1) ** swaps * np.prod(diagonal / size), np.log(size).sum()
