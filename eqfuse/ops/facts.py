"""What is known of a tensor's values: the set of arrays that it may be.

In: bounds, arrays. Out: `Fact`. `eqfuse.ops.ranges` derives one for every operator, the e-graph keeps one for every
class, a guard of a law asks for one, and the check of that law asks the same one about arrays.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from eqfuse.dtypes import kind, real_parts

INFINITY = math.inf
LARGEST = sys.float_info.max
SMALLEST = math.ulp(0.0)  # no dtype has a positive number below it


def sort_key(value: float) -> tuple[float, float]:
    """The key that puts -0.0 below +0.0."""
    return (value, math.copysign(1.0, value))


@dataclass(frozen=True, eq=False)
class Fact:
    """Every element that is not NaN lies in [lower, upper], where -0.0 is below +0.0 and infinities are numbers. (There
    is none where `lower` is above `upper`.)

    `nan`: an element may be NaN. `zero`: one may be a zero. `symmetric`: the last two axes may change places. Of
    complex numbers, each part lies there.
    """

    lower: float = -INFINITY
    upper: float = INFINITY
    nan: bool = True
    zero: bool = True
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "zero", self.zero and self.lower <= 0 <= self.upper)

    def _key(self) -> tuple:
        return sort_key(self.lower), sort_key(self.upper), self.nan, self.zero, self.symmetric

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def within(self, wanted: Fact) -> bool:
        """Whether `wanted` allows every array that this allows."""
        return (
            sort_key(wanted.lower) <= sort_key(self.lower)
            and sort_key(self.upper) <= sort_key(wanted.upper)
            and self.nan <= wanted.nan
            and self.zero <= wanted.zero
            and self.symmetric >= wanted.symmetric
        )

    def meet(self, other: Fact) -> Fact:
        """Both hold. Where they contradict each other, as a rounding apart they may, this one."""
        lower = max(self.lower, other.lower, key=sort_key)
        upper = min(self.upper, other.upper, key=sort_key)
        if sort_key(lower) > sort_key(upper):
            return self
        return Fact(lower, upper, self.nan and other.nan, self.zero and other.zero, self.symmetric or other.symmetric)

    def join(self, other: Fact) -> Fact:
        """Each element is as one of them says."""
        lower = min(self.lower, other.lower, key=sort_key)
        upper = max(self.upper, other.upper, key=sort_key)
        return Fact(lower, upper, self.nan or other.nan, self.zero or other.zero)

    @property
    def above(self) -> Fact:
        """What is at least as large as any element. Of two zeros of different sign, NumPy's maximum gives either."""
        mixed = self.upper == 0 and sort_key(self.lower) < (0, 1)
        return Fact(lower=SMALLEST if mixed else self.upper)

    @property
    def below(self) -> Fact:
        """What is at most as large as any element."""
        mixed = self.lower == 0 and sort_key(self.upper) > (0, -1)
        return Fact(upper=-SMALLEST if mixed else self.lower)

    @property
    def largest(self) -> float:
        """No element is larger in magnitude."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def smallest(self) -> float:
        """No element is smaller in magnitude."""
        return 0.0 if self.lower <= 0 <= self.upper else min(abs(self.lower), abs(self.upper))

    @property
    def infinite(self) -> bool:
        """May an element be an infinity?"""
        return self.lower == -INFINITY or self.upper == INFINITY

    def includes(self, array: np.ndarray) -> bool:
        """Whether `array` is as this says."""
        return bool(self.allows(array).all()) and not (self.symmetric and not _is_symmetric(array))

    def allows(self, array: np.ndarray) -> np.ndarray:
        """Which elements are as this says, the symmetry apart."""
        allowed = self.zero | (array != 0)
        values = real_parts(array)
        if kind(array.dtype) not in "fc":
            return allowed & (values >= self.lower) & (values <= self.upper)
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            values = values.astype(np.float64)
        minus, zeros = np.signbit(values), values == 0
        inside = (values >= self.lower) & (values <= self.upper)
        inside &= ~(zeros & minus) | (sort_key(self.lower) <= (0, -1))
        inside &= ~(zeros & ~minus) | (sort_key(self.upper) >= (0, 1))
        inside |= np.isnan(values) & self.nan
        return allowed & (inside.all(-1) if array.dtype.kind == "c" else inside)

    def obeying(self, array: np.ndarray) -> np.ndarray:
        """An array much like `array` that is as this says, where there is one."""
        if array.dtype.kind == "c":
            values = np.array(array)
            values.real, values.imag = self._clipped(array.real), self._clipped(array.imag)
        else:
            values = self._clipped(array)
        if not self.zero:
            values = np.where(values == 0, np.ones_like(values), values)
        if self.symmetric and values.ndim >= 2 and values.shape[-1] == values.shape[-2]:
            values = np.where(np.tri(values.shape[-1], dtype=bool), values, values.swapaxes(-1, -2))
        return values

    def _clipped(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "b":
            return array
        if kind(array.dtype) == "f":
            strange = np.isnan(array) & (not self.nan)
            strange |= (array == INFINITY) & (self.upper < INFINITY) | (array == -INFINITY) & (self.lower > -INFINITY)
            array = np.where(strange, np.ones_like(array), array)
        if self.lower >= 0:
            array = np.abs(array)
        elif self.upper <= 0:
            array = np.negative(np.abs(array))
        with np.errstate(over="ignore"):  # a bound beyond the dtype
            for bound, outside in ((self.lower, array < self.lower), (self.upper, array > self.upper)):
                if outside.any():
                    array = np.where(outside, _near(bound, array.dtype), array)
        return array


@cache
def of_dtype(dtype: np.dtype) -> Fact:
    """What the dtype alone says."""
    if dtype.kind == "b":
        return Fact(0, 1, nan=False)
    if dtype.kind in "iu":
        return Fact(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), nan=False)
    return Fact()


def of_array(array: np.ndarray) -> Fact:
    """All that can be said of a constant, but of a complex one only the symmetry."""
    symmetric = _is_symmetric(array)
    if array.dtype.kind == "c" or not array.size:
        return replace(of_dtype(array.dtype), symmetric=symmetric)
    values = array.reshape(-1).tolist()
    numbers = [v for v in values if v == v]
    lower, upper = (min(numbers, key=sort_key), max(numbers, key=sort_key)) if numbers else (INFINITY, -INFINITY)
    return Fact(lower, upper, len(numbers) < len(values), 0 in numbers, symmetric)


def _is_symmetric(array: np.ndarray) -> bool:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    a = real_parts(array)
    b = real_parts(array.swapaxes(-1, -2))
    same = a == b
    if kind(array.dtype) in "fc":
        same = same & (np.signbit(a) == np.signbit(b)) | (a != a) & (b != b)
    return bool(same.all())


def _near(bound: float, dtype: np.dtype) -> np.generic:
    """A number of `dtype` at a bound, as far as it has one; not so small that arithmetic loses it."""
    if abs(bound) == SMALLEST:
        bound = math.copysign(1.0, bound)
    if kind(dtype) == "f":
        return dtype.type(float(bound))
    limits = np.iinfo(dtype)
    return dtype.type(max(limits.min, min(limits.max, bound if math.isinf(bound) else math.ceil(bound))))
