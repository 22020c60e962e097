"""Programs that read arrays through index maps: rolled, padded, joined of parts, with slices replaced.

In: nothing. Out: `INDEX_MAPS`, cases like those of `suite.GRAPHS`. Other systems of kernels end one at each map.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32


def roll_step(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        return np.sin(x) + np.float32(0.3) * np.roll(x, 1, 0) * np.roll(x, 1, 1) * x

    return program, [f32(n, n)]


def fluid_step(n: int) -> TypedFunction:
    def program(u: Any) -> Any:
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        return u + np.float32(0.1) * around - np.float32(0.05) * u * (np.roll(u, -1, 0) - np.roll(u, 1, 0))

    return program, [f32(n, n)]


def reflecting_stencil(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        p = np.pad(x, 1, mode="reflect")
        return p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1] - 4 * x

    return program, [f32(n, n)]


def borders_step(n: int) -> TypedFunction:
    def program(u: Any) -> Any:
        v = u.copy()
        inside = u[1:-1, 1:-1]
        v[1:-1, 1:-1] += np.float32(0.1) * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inside)
        v[0], v[-1] = v[1], v[-2]
        v[:, 0] = 0
        return v

    return program, [f32(n, n)]


def rotary(s: int, h: int, d: int) -> TypedFunction:
    def program(q: Any, cosine: Any, sine: Any) -> Any:
        turned = np.concatenate([-q[..., d // 2 :], q[..., : d // 2]], -1)
        return q * cosine + turned * sine

    return program, [f32(s, h, d), f32(s, 1, d), f32(s, 1, d)]


_N = {"n": 6}
INDEX_MAPS: dict[str, Case] = {
    case.id: case
    for case in (
        Case("M1", roll_step, {"n": 4096}, _N, "one kernel that reads rolled arrays where they lie"),
        Case("M2", fluid_step, {"n": 4096}, _N, "one kernel, of four neighbours around"),
        Case("M3", reflecting_stencil, {"n": 4096}, _N, "one kernel, whose boundary is reflected"),
        Case("M4", rotary, {"s": 8192, "h": 16, "d": 64}, {"s": 3, "h": 2, "d": 4}, "one kernel that swaps halves"),
        Case("M5", borders_step, {"n": 4096}, _N, "one kernel, of the inside and of the borders written after it"),
    )
}
