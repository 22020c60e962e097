"""Programs that read arrays through index maps: rolled, padded, joined of parts, with slices replaced.

In: nothing. Out: `INDEX_MAPS`, cases like those of `suite.GRAPHS`. Other systems of kernels end one at each map.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32, i32

F = np.float32


def roll_step(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        return np.sin(x) + F(0.3) * np.roll(x, 1, 0) * np.roll(x, 1, 1) * x

    return program, [f32(n, n)]


def around(u: Any) -> Any:
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


def fluid_step(n: int) -> TypedFunction:
    def program(u: Any) -> Any:
        return u + F(0.1) * around(u) - F(0.05) * u * (np.roll(u, -1, 0) - np.roll(u, 1, 0))

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
        v[1:-1, 1:-1] += F(0.1) * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inside)
        v[0], v[-1] = v[1], v[-2]
        v[:, 0] = 0
        return v

    return program, [f32(n, n)]


def rotary(s: int, h: int, d: int) -> TypedFunction:
    def program(q: Any, cosine: Any, sine: Any) -> Any:
        turned = np.concatenate([-q[..., d // 2 :], q[..., : d // 2]], -1)
        return q * cosine + turned * sine

    return program, [f32(s, h, d), f32(s, 1, d), f32(s, 1, d)]


def conservative_diffusion(n: int) -> TypedFunction:
    def program(u: Any) -> Any:
        k = np.exp(-u)
        x, y = ((k + np.roll(k, -1, a)) * (np.roll(u, -1, a) - u) for a in (0, 1))
        return u + F(0.1) * (x - np.roll(x, 1, 0) + y - np.roll(y, 1, 1))

    return program, [f32(n, n)]


def reaction_and_diffusion(n: int) -> TypedFunction:
    def program(u: Any, v: Any) -> Any:
        reaction = u * v * v
        du, dv = F(0.16) * around(u) - reaction + F(0.04) * (1 - u), F(0.08) * around(v) + reaction - F(0.1) * v
        return u + du, v + dv, np.abs(du).max()

    return program, [f32(n, n), f32(n, n)]


def advection_with_energy(n: int) -> TypedFunction:
    def program(u: Any, c: Any) -> Any:
        new = u - np.maximum(c, 0) * (u - np.roll(u, 1, 1)) - np.minimum(c, 0) * (np.roll(u, -1, 1) - u)
        return new, (new * new).sum(1), new.var(1)

    return program, [f32(n, n), f32(n, 1)]


def rotary_scores(h: int, s: int, d: int) -> TypedFunction:
    def turned(x: Any, c: Any, w: Any) -> Any:
        return x * c + np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1) * w

    def program(q: Any, k: Any, c: Any, w: Any) -> Any:
        return (turned(q, c, w) * turned(k, c, w)).sum(-1), turned(k, c, w)

    return program, [f32(h, s, d), f32(h, s, d), f32(s, d), f32(s, d)]


def bag_of_embeddings(v: int, b: int, s: int, d: int) -> TypedFunction:
    def program(table: Any, places: Any, weights: Any) -> Any:
        bag = (table[places] * weights[..., None]).sum(1)
        return bag / np.sqrt((bag * bag).sum(-1, keepdims=True) + F(1e-6))

    return program, [f32(v, d), i32(b, s), f32(b, s)]


def normalised_edges(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        p = np.pad(x, 1, mode="reflect")
        dx, dy = p[1:-1, 2:] - p[1:-1, :-2], p[2:, 1:-1] - p[:-2, 1:-1]
        size = np.sqrt(dx * dx + dy * dy)
        return size / size.max()

    return program, [f32(n, n)]


def sharpened_contrast(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        sharp = x - F(0.2) * around(x)
        return (sharp - sharp.mean()) / np.sqrt(sharp.var() + F(1e-5))

    return program, [f32(n, n)]


_N = {"n": 6}
INDEX_MAPS: dict[str, Case] = {
    case.id: case
    for case in (
        Case("M1", roll_step, {"n": 4096}, _N, "one kernel that reads rolled arrays where they lie"),
        Case("M2", fluid_step, {"n": 4096}, _N, "one kernel, of four neighbours around"),
        Case("M3", reflecting_stencil, {"n": 4096}, _N, "one kernel, whose boundary is reflected"),
        Case("M4", rotary, {"s": 8192, "h": 16, "d": 64}, {"s": 3, "h": 2, "d": 4}, "one kernel that swaps halves"),
        Case("M5", borders_step, {"n": 4096}, _N, "one kernel, of the inside and of the borders written after it"),
        Case("M6", conservative_diffusion, {"n": 4096}, _N, "one kernel that computes fluxes twice"),
        Case("M7", reaction_and_diffusion, {"n": 4096}, _N, "one or two kernels, laplacians read where they lie"),
        Case("M8", advection_with_energy, {"n": 4096}, _N, "one kernel of rows: the step, its energy, its variance"),
        Case("M9", rotary_scores, {"h": 16, "s": 8192, "d": 64}, {"h": 2, "s": 6, "d": 4},
             "one kernel that swaps halves"),
        Case("M10", bag_of_embeddings, {"v": 50000, "b": 4096, "s": 32, "d": 128},
             {"v": 9, "b": 3, "s": 4, "d": 5}, "one kernel, or two"),
        Case("M11", normalised_edges, {"n": 4096}, _N, "sizes computed twice"),
        Case("M12", sharpened_contrast, {"n": 4096}, _N, "moments in one pass, then the filter again", "R"),
    )
}  # fmt: skip
