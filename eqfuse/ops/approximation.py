"""What NumPy computes, and how far it may be from the reals: one operator on approximate arguments.

In: an operator, its arguments with their errors. Out: `Approximation`. `eqfuse.ops.error_bounds` has the rule of each
operator, `eqfuse.ir.running_errors` applies them to a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import BFLOAT16, epsilon, kind

if TYPE_CHECKING:
    from eqfuse.ir.graph import Node

COMPLEX_ULPS = 4  # of the modulus, in arithmetic of complex numbers


@dataclass(frozen=True, eq=False)
class Approximation:
    """What NumPy computes, and a bound on its absolute error, in float64: of complex numbers, of the modulus.

    An infinite bound says nothing: an infinity, an undefined result such as 0/0, or a number out of range was met on
    the way. Where the value is NaN and the bound finite, a NaN was given. Of booleans, 1: it may be either.
    """

    value: np.ndarray
    error: np.ndarray

    @cached_property
    def wide(self) -> np.ndarray:
        """The value in float64 or complex128."""
        return np.asarray(self.value).astype(np.complex128 if self.value.dtype.kind == "c" else np.float64)

    @cached_property
    def magnitude(self) -> np.ndarray:
        """Absolute values; of NaN, 0."""
        magnitudes = np.abs(self.wide)
        return np.where(np.isnan(magnitudes), 0.0, magnitudes)

    def within(self, error: np.ndarray) -> Approximation:
        """The same value with another bound."""
        other = Approximation(self.value, error)
        vars(other).update({**vars(self), "error": error})  # what was computed of the value
        return other

    @property
    def inexact(self) -> np.ndarray:
        return self.error > 0


Args = Sequence[Approximation]


@cache
def safe_range(dtype: np.dtype) -> tuple[float, float]:
    """The magnitudes of which something is promised; a smaller one counts as an error as large as the least.

    Products of two numbers within it, and sums of 2^27 such products, neither overflow nor underflow. Of float16 it is
    the whole range.
    """
    if dtype in (np.float64, np.complex128):
        return 2.0**-480, 2.0**480
    if dtype in (np.float32, np.complex64, BFLOAT16):
        return 2.0**-50, 2.0**50
    return 0.0, float(ml_dtypes.finfo(dtype).max)


@cache
def full_range(dtype: np.dtype) -> tuple[float, float]:
    """All magnitudes that keep full precision; of float16, subnormal ones too."""
    info = ml_dtypes.finfo(dtype)
    return float(info.smallest_normal) * (dtype != np.float16), float(info.max)


def any_order(n: int) -> float:
    """How often a term is rounded at most in a sum of `n` that is added in any order."""
    return max(n - 1, 0)


def pairwise(n: int) -> float:
    """The same in a sum of blocks, which are added in pairs, as NumPy adds along contiguous memory."""
    return min(any_order(n), 16 + math.log2(max(n, 1)))


@dataclass(frozen=True)
class ErrorModel:
    """`within` gives the magnitudes of a dtype beyond which nothing is said; `roundings` those of a term of a sum.

    `margin`: a number counts as beyond them when as many errors more would be. `coarseness`: how many times as coarse
    as the dtype's each rounding is.
    """

    within: Callable[[np.dtype], tuple[float, float]]
    roundings: Callable[[int], float]
    margin: float = 0.0
    coarseness: float = 1.0


SAFE = ErrorModel(safe_range, any_order, margin=64.0)


@dataclass(frozen=True, eq=False)
class Operation:
    """The operator `node` on `args`, which gives `value`."""

    node: Node
    args: Args
    value: np.ndarray
    arithmetic: ErrorModel

    @cached_property
    def result(self) -> Approximation:
        """The value before its bound is known."""
        return Approximation(self.value, np.full((), np.inf))

    @property
    def floating(self) -> bool:
        return kind(self.node.dtype) in "fc"

    @property
    def unit(self) -> float:
        """What one addition or product of the result's dtype is off by, relatively."""
        one = epsilon(self.node.dtype) / 2 * (2 * COMPLEX_ULPS if self.node.dtype.kind == "c" else 1)
        return one * self.arithmetic.coarseness

    @property
    def least(self) -> float:
        return self.arithmetic.within(self.node.dtype)[0]

    @property
    def largest(self) -> float:
        return self.arithmetic.within(self.node.dtype)[1]

    @property
    def underflow(self) -> float:
        """What a number that is too small is off by: of float16, which is promised whole, its last digit."""
        least = self.least or float(ml_dtypes.finfo(self.node.dtype).smallest_subnormal)
        return least * self.arithmetic.coarseness

    def call(self, *arrays: Any) -> np.ndarray:
        """The operator on other arrays."""
        return np.asarray(self.node.row.meaning(*arrays, *self.node.attrs))
