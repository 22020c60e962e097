"""Programs that sum over pairs of elements of two arrays, which NumPy stores as an array of all pairs.

In: nothing. Out: `PAIRS`, cases like those of `suite.GRAPHS`. Other systems of kernels reduce either the short axis of
coordinates or the long one of pairs, and store what stands between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32


def forces(n: int, k: int) -> TypedFunction:
    def program(x: Any, m: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        r2 = (d * d).sum(-1) + np.float32(1e-3)
        return (d * (m[None, :] * r2 ** np.float32(-1.5))[..., None]).sum(1)

    return program, [f32(n, k), f32(n)]


def radial_sums(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        return np.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) / np.float32(0.5)).sum(1)

    return program, [f32(n, k), f32(n, k)]


def density(n: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        return np.exp(np.float32(-0.5) * ((x[:, None] - y[None, :]) / np.float32(0.3)) ** 2).mean(1)

    return program, [f32(n), f32(n)]


def nearest(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1).argmin(1)

    return program, [f32(n, k), f32(n, k)]


def least_distance(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        return np.linalg.norm(x[:, None, :] - y[None, :, :], axis=-1).min(1)

    return program, [f32(n, k), f32(n, k)]


_FULL, _SMALL = {"n": 4096, "k": 3}, {"n": 9, "k": 3}
PAIRS: dict[str, Case] = {
    case.id: case
    for case in (
        Case("P1", forces, _FULL, _SMALL, "one kernel of three sums, which share distances and powers"),
        Case("P2", radial_sums, _FULL, _SMALL, "one kernel that adds up squares of slices"),
        Case("P3", density, {"n": 4096}, {"n": 9}, "one kernel; so does fusion alone"),
        Case("P4", nearest, _FULL, _SMALL, "one kernel that finds places"),
        Case("P5", least_distance, _FULL, _SMALL, "one kernel, whose root is taken of the least alone"),
    )
}
