"""Programs that scan: running products, maxima and sums, with work before and after them; statistics of signals.

In: nothing. Out: `SCANS`, cases like those of `suite.GRAPHS`. In other systems of kernels a scan is one of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32

F = np.float32


def cumulative_returns(n: int, d: int) -> TypedFunction:
    def program(r: Any) -> Any:
        return np.cumprod(1 + F(0.01) * r, axis=0) - 1

    return program, [f32(n, d)]


def drawdown(n: int, d: int) -> TypedFunction:
    def program(r: Any) -> Any:
        value = np.cumprod(1 + F(0.01) * r, axis=-1)
        peak = np.maximum.accumulate(value, axis=-1)
        return ((peak - value) / peak).max(-1)

    return program, [f32(n, d)]


def distribution(n: int, d: int) -> TypedFunction:
    def program(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.cumsum(e, -1) / e.sum(-1, keepdims=True)

    return program, [f32(n, d)]


def integral_image(n: int, d: int) -> TypedFunction:
    def program(x: Any) -> Any:
        return np.sqrt(np.cumsum(np.cumsum(x * x, 0), 1))

    return program, [f32(n, d)]


def return_moments(n: int) -> TypedFunction:
    def program(r: Any) -> Any:
        z = np.log1p(F(0.01) * r)
        c = z - z.mean()
        v = (c * c).mean()
        return v, (c * c * c).mean() / v**F(1.5), (c * c * c * c).mean() / (v * v), z.min(), z.max()

    return program, [f32(n)]


def spectrogram(n: int, w: int, k: int) -> TypedFunction:
    angles = np.arange(w, dtype=F)[:, None] * np.arange(k, dtype=F) * F(2 * np.pi / w)
    window = F(0.5) - F(0.5) * np.cos(np.arange(w, dtype=F) * F(2 * np.pi / w))

    def program(x: Any) -> Any:
        emphasised = x - F(0.97) * np.concatenate([x[:1], x[:-1]])
        frames = emphasised.reshape(n // w, w) * window
        return np.log((frames @ np.cos(angles)) ** 2 + (frames @ np.sin(angles)) ** 2 + F(1e-6))

    return program, [f32(n)]


_FULL, _SMALL = {"n": 16384, "d": 1024}, {"n": 6, "d": 5}
SCANS: dict[str, Case] = {
    case.id: case
    for case in (
        Case("S1", cumulative_returns, _FULL, _SMALL, "one kernel, with a running product for each column"),
        Case("S2", drawdown, _FULL, _SMALL, "one kernel of two scans and a reduction of each row"),
        Case("S3", distribution, _FULL, _SMALL, "one kernel of two reductions and a scan of each row"),
        Case("S4", integral_image, _FULL, _SMALL, "two kernels: the axes of its scans differ"),
        Case("S5", return_moments, {"n": 1 << 24}, {"n": 50}, "one pass of five statistics", "R"),
        Case("S6", spectrogram, {"n": 1 << 24, "w": 512, "k": 64}, {"n": 24, "w": 6, "k": 3},
             "the window folded into one product with both matrices", "R"),
    )
}  # fmt: skip
