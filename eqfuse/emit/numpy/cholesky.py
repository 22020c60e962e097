"""Changes of triangular factors of Hermitian matrices, and their transposes.

In: factors and changes of one shape, in stacks. Out: what the operators of these names mean, written into an array.
Blockwise and backwards (I. Murray, Differentiation of the Cholesky decomposition, arXiv 1602.07527), a cotangent takes
n³ operations instead of the 6 n³ of its formula.
"""

from __future__ import annotations

import functools

import numpy as np

from eqfuse.emit.numpy.inverses import inv_triangular
from eqfuse.ops.linalg import lower_half

FACTOR_ROWS = 64  # rows: the order up to which the formula is as quick


def cholesky_change(factor: np.ndarray, change: np.ndarray, out: np.ndarray) -> None:
    inverse = _inverse(factor)
    inner = inverse @ (change + change.mT.conj()) @ inverse.mT.conj()
    inner *= lower_half(factor)
    inner /= 2
    np.matmul(factor, inner, out)


def cholesky_cotangent(factor: np.ndarray, cotangent: np.ndarray, out: np.ndarray) -> None:
    """In the lower triangle, `parts` become what the blocks of the matrix get, if it is read there alone."""
    order = factor.shape[-1]
    if order <= FACTOR_ROWS:
        out[...] = _of_block(factor, _inverse(factor), cotangent)
        return
    parts, turned = np.tril(cotangent), factor.conj()
    for start in reversed(range(0, order, FACTOR_ROWS)):
        before, block, after = slice(0, start), slice(start, start + FACTOR_ROWS), slice(start + FACTOR_ROWS, order)
        corner, own, below = factor[..., block, block], parts[..., block, block], parts[..., after, block]
        inverse = _inverse(corner)
        below[...] = below @ inverse.conj()
        beside = below.mT.conj()
        parts[..., after, before] -= below @ turned[..., block, before]
        parts[..., block, before] -= beside @ turned[..., after, before]
        own[...] = _of_block(corner, inverse, own - beside @ turned[..., after, block])
        parts[..., block, before] -= 2 * own @ turned[..., block, before]
    np.add(parts, parts.mT.conj(), out)
    out /= 2


def _of_block(factor: np.ndarray, inverse: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    inner = factor.mT @ cotangent
    inner *= _quarters(factor.shape[-1], factor.dtype)
    result = inverse.mT @ inner @ inverse.conj()
    return result + result.mT.conj()


@functools.cache
def _quarters(order: int, dtype: np.dtype) -> np.ndarray:
    return lower_half(np.empty((order, order), dtype)) / dtype.type(2)


def _inverse(factor: np.ndarray) -> np.ndarray:
    inverse = np.empty_like(factor)
    inv_triangular(factor, inverse)
    return inverse
