"""What may be said of arrays that were computed in different ways: how they may differ, and whether they do.

In: an array, the right one, other runs' of it. Out: how it is wrong, in words. Used by `run` and `checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from eqfuse import dtypes
from tests.frontends.onnx_random.judges import Array

SLACK = 4  # times what other runs differ by


@dataclass(frozen=True)
class Tolerance:
    """How results of an operator may differ between implementations: by so many units in the last place, as if those
    that it reads did. `absolute`: by units of the largest number there. `coarse`: the judges compute float64 with
    numbers of float32."""

    ulps: int
    of_inputs: bool = False
    absolute: bool = False
    coarse: bool = False

    def step(self, dtype: np.dtype) -> float:
        eps = dtypes.epsilon(dtype)
        return self.ulps * (max(eps, 2.0**-23) if self.coarse else eps)


EXACT = Tolerance(0)  # data that are moved, compared or chosen
ROUNDED = Tolerance(1)  # correctly rounded
COMPUTED = Tolerance(4, of_inputs=True)  # sums in some order, functions of some accuracy
ABSOLUTE = Tolerance(4, of_inputs=True, absolute=True)  # functions that subtract inside
SUMMED = Tolerance(16, of_inputs=True, absolute=True)  # Fourier transforms
QUANTISED = Tolerance(1, of_inputs=True)  # rounded to whole numbers in the end
COARSE = Tolerance(4, of_inputs=True, absolute=True, coarse=True)


def special(x: Array) -> bool:
    """Has `x` an infinity or a NaN?"""
    if isinstance(x, list):
        return any(map(special, x))
    return x is not None and dtypes.kind(x.dtype) == "f" and not np.isfinite(x.astype(np.float64)).all()


def safe(x: Array) -> Array:
    """`x` with NaN where it is neither zero nor in the range whose products and sums are finite and normal."""
    if isinstance(x, list):
        elements = [safe(y) for y in x]
        return x if all(a is b for a, b in zip(x, elements, strict=True)) else elements
    if x is None or dtypes.kind(x.dtype) != "f":
        return x
    far = {2: 16.0, 4: 60.0, 8: 500.0}.get(x.dtype.itemsize, 8.0)
    far = 60.0 if x.dtype == dtypes.BFLOAT16 else far
    with np.errstate(all="ignore"):
        size = np.abs(x.astype(np.float64))
    inside = (x == 0) | ((size <= 2.0**far) & (size >= 2.0**-far))
    return x if inside.all() else np.where(inside, x, x.dtype.type(np.nan))


def moderate(x: Array) -> bool:
    """Do sums and products of a few such numbers stay finite?"""
    if isinstance(x, list):
        return all(map(moderate, x))
    if x is None or dtypes.kind(x.dtype) != "f" or special(x):
        return not special(x)
    return largest([x]) <= float(ml_dtypes.finfo(x.dtype).max) ** (1 / 3)


def largest(xs: Iterable[Array]) -> float:
    """The largest finite number among floats, by magnitude."""
    magnitude = 0.0
    for x in xs:
        if isinstance(x, list):
            magnitude = max(magnitude, largest(x))
        elif x is not None and dtypes.kind(x.dtype) == "f" and x.size:
            wide = np.abs(x.astype(np.float64))
            magnitude = max(magnitude, float(wide[np.isfinite(wide)].max(initial=0)))
    return magnitude


# ---- comparing


def misses(
    got: Array, right: Array, disturbed: Iterable[Array | None], rounding: Tolerance = COMPUTED, scale: float = 0
) -> str:
    """How `got` is not `right`, as far as the disturbed runs tell; empty where it is."""
    disturbed = list(disturbed)
    if got is None or right is None:
        return "" if got is right else f"{got} instead of {right}"
    if isinstance(right, list):
        if not isinstance(got, list) or len(got) != len(right):
            return f"{describe(got)} instead of {describe(right)}"
        each = [[None if d is None or len(d) != len(right) else d[i] for d in disturbed] for i in range(len(right))]
        reasons = (misses(g, r, e, rounding, scale) for g, r, e in zip(got, right, each, strict=True))
        return "; ".join(filter(None, reasons))
    if isinstance(got, list) or (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"{describe(got)} instead of {describe(right)}"
    wrong = ~within(got, right, room(right, disturbed, rounding, scale))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} elements, {got[place]} instead of {right[place]} at {place}"


def describe(x: Array) -> str:
    return f"a sequence of {len(x)}" if isinstance(x, list) else f"{x.dtype.name}{list(x.shape)}"


def room(right: np.ndarray, disturbed: Sequence[Array | None], rounding: Tolerance, scale: float = 0) -> np.ndarray:
    """How far from `right` each element may be; infinity where it is left open."""
    if any(d is None or isinstance(d, list) or d.shape != right.shape for d in disturbed):
        return np.full(right.shape, np.inf)
    if dtypes.kind(right.dtype) != "f":
        distance = np.zeros(right.shape)
        for d in disturbed:
            distance = np.where(d == right, distance, np.inf)
        return distance
    r = right.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = rounding.step(right.dtype) * np.maximum(np.abs(r), scale)
        distance = np.where(np.isfinite(r), distance + (least(right.dtype) if rounding.ulps else 0), 0)
        for d in disturbed:
            wide = d.astype(np.float64)
            away = np.abs(wide - r)
            equal = (d == right) | (np.isnan(r) & np.isnan(wide))
            distance = np.maximum(distance, np.where(equal, 0, np.where(np.isfinite(away), SLACK * away, np.inf)))
    return distance


def least(dtype: np.dtype) -> float:
    """What may be lost of any number: a few of the smallest, or, of float32, what is less than normal."""
    return max(4 * float(ml_dtypes.finfo(dtype).smallest_subnormal), float(np.finfo(np.float32).tiny))


def within(got: np.ndarray, right: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Which elements are right."""
    if dtypes.kind(right.dtype) != "f":
        return np.asarray((got == right) | (room == np.inf))
    g, r = got.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(g - r) <= room
    return near | (g == r) | (np.isnan(g) & np.isnan(r)) | (room == np.inf)
