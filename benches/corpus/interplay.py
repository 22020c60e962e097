"""Programs where algebra, index maps, reductions of pairs, cascades, scans and recomputation meet.

In: nothing. Out: `INTERPLAY`, cases like those of `suite.GRAPHS`; the last three are controls, of which nothing is to
be gained. Greedy fusers store what two readers share or one map moves; an algebraic pass before fusion does not know
which form makes one kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32, softmax
from eqfuse.ops.types import TensorType

F = np.float32


def i32(*shape: int) -> TensorType:
    return TensorType(np.dtype(np.int32), shape)


def around(u: Any) -> Any:
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


# Fluids and partial differential equations


def conservative_diffusion(n: int) -> TypedFunction:
    def program(u: Any) -> Any:
        k = np.exp(-u)
        x, y = ((k + np.roll(k, -1, a)) * (np.roll(u, -1, a) - u) for a in (0, 1))
        return u + F(0.1) * (x - np.roll(x, 1, 0) + y - np.roll(y, 1, 1))

    return program, [f32(n, n)]


def shallow_water(n: int) -> TypedFunction:
    def program(h: Any, u: Any) -> Any:
        flux, force = h * u, h * u * u + F(4.9) * h * h
        mass = (np.roll(h, 1, 0) + np.roll(h, -1, 0)) / 2 - F(0.1) * (np.roll(flux, -1, 0) - np.roll(flux, 1, 0))
        moved = (np.roll(flux, 1, 0) + np.roll(flux, -1, 0)) / 2
        return mass, (moved - F(0.1) * (np.roll(force, -1, 0) - np.roll(force, 1, 0))) / mass

    return program, [f32(n, n), f32(n, n)]


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


# Pairs


def forces_and_energy(n: int, k: int) -> TypedFunction:
    def program(x: Any, m: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        r2 = (d * d).sum(-1) + F(1e-3)
        force = (d * (m[None, :] / (r2 * np.sqrt(r2)))[..., None]).sum(1)
        return force, (m[None, :] / np.sqrt(r2)).sum(1)

    return program, [f32(n, k), f32(n)]


def kernel_regression(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any, v: Any) -> Any:
        w = np.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))
        return (w * v[None, :]).sum(1) / w.sum(1)

    return program, [f32(n, k), f32(n, k), f32(n)]


def discrepancy(n: int, k: int) -> TypedFunction:
    def kernel(x: Any, y: Any) -> Any:
        return np.exp(F(-0.5) * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)).sum(1).mean()

    return lambda x, y: kernel(x, x) + kernel(y, y) - 2 * kernel(x, y), [f32(n, k), f32(n, k)]


# Attention


def linear_attention(h: int, s: int, d: int) -> TypedFunction:
    def program(q: Any, k: Any, v: Any) -> Any:
        a, b = np.exp(q), np.exp(k)
        scores = a @ b.transpose(0, 2, 1)
        return (scores @ v) * F(0.125)

    return program, [f32(h, s, d)] * 3


def rotary_scores(h: int, s: int, d: int) -> TypedFunction:
    def turned(x: Any, c: Any, w: Any) -> Any:
        return x * c + np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1) * w

    def program(q: Any, k: Any, c: Any, w: Any) -> Any:
        return (turned(q, c, w) * turned(k, c, w)).sum(-1), turned(k, c, w)

    return program, [f32(h, s, d), f32(h, s, d), f32(s, d), f32(s, d)]


def pooled_values(n: int, d: int) -> TypedFunction:
    def program(scores: Any, x: Any, w: Any) -> Any:
        return np.maximum(softmax(scores) @ (x @ w), 0)

    return program, [f32(1, n), f32(n, d), f32(d, d)]


# Embeddings, and losses by gather


def embedded_norm(v: int, s: int, d: int) -> TypedFunction:
    def program(table: Any, places: Any, position: Any) -> Any:
        x = table[places] + position
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + F(1e-5))

    return program, [f32(v, d), i32(s), f32(s, d)]


def bag_of_embeddings(v: int, b: int, s: int, d: int) -> TypedFunction:
    def program(table: Any, places: Any, weights: Any) -> Any:
        bag = (table[places] * weights[..., None]).sum(1)
        return bag / np.sqrt((bag * bag).sum(-1, keepdims=True) + F(1e-6))

    return program, [f32(v, d), i32(b, s), f32(b, s)]


def smoothed_cross_entropy(m: int, n: int) -> TypedFunction:
    def program(x: Any, labels: Any) -> Any:
        log_p = np.log(softmax(x))
        picked = np.take_along_axis(log_p, labels[:, None], -1)[:, 0]
        return -(F(0.9) * picked + F(0.1) * log_p.mean(-1)).mean()

    return program, [f32(m, n), i32(m)]


def focal_loss(m: int, n: int) -> TypedFunction:
    def program(x: Any, labels: Any) -> Any:
        p = np.take_along_axis(softmax(x), labels[:, None], -1)[:, 0]
        return -((1 - p) ** 2 * np.log(p)).mean()

    return program, [f32(m, n), i32(m)]


# Image filters


def bilateral(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        p = np.pad(x, 1, mode="edge")
        shifted = [p[i : i + n, j : j + n] for i in range(3) for j in range(3)]
        weights = [np.exp(-((s - x) ** 2)) for s in shifted]
        return sum(w * s for w, s in zip(weights, shifted, strict=True)) / sum(weights)

    return program, [f32(n, n)]


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


# Scans and statistics in finance and signal processing


def rolling_scores(n: int, d: int, w: int) -> TypedFunction:
    def program(r: Any) -> Any:
        sums = np.cumsum(np.log1p(r), 0)
        change = sums[w:] - sums[:-w]
        return (change - change.mean(0)) / np.sqrt(change.var(0) + F(1e-6))

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


# Controls: no law, map or cascade helps


def distances_from_a_median_like_centre(m: int, n: int) -> TypedFunction:
    return lambda x: np.abs(x - x.mean(-1, keepdims=True)).sum(-1), [f32(m, n)]


def one_map(n: int) -> TypedFunction:
    return lambda x, y: np.sqrt(x * x + y * y), [f32(n, n), f32(n, n)]


def one_product(n: int) -> TypedFunction:
    return lambda a, b: a @ b, [f32(n, n), f32(n, n)]


_N, _PAIRS, _PAIR = {"n": 6}, {"n": 4096, "k": 3}, {"n": 7, "k": 3}
_HEADS, _HEAD = {"h": 16, "s": 4096, "d": 64}, {"h": 2, "s": 6, "d": 4}
_LOGITS, _LOGIT = {"m": 8192, "n": 32000}, {"m": 4, "n": 7}
INTERPLAY: dict[str, Case] = {
    case.id: case
    for case in (
        Case("J1", conservative_diffusion, {"n": 4096}, _N, "one kernel that computes fluxes twice"),
        Case("J2", shallow_water, {"n": 4096}, _N, "one kernel of two results, fluxes computed for each reader"),
        Case("J3", reaction_and_diffusion, {"n": 4096}, _N, "one or two kernels, laplacians read where they lie"),
        Case("J4", advection_with_energy, {"n": 4096}, _N, "one kernel of rows: the step, its energy, its variance"),
        Case("J5", forces_and_energy, _PAIRS, _PAIR, "one kernel of four sums"),
        Case("J6", kernel_regression, _PAIRS, _PAIR, "one kernel of two sums"),
        Case("J7", discrepancy, _PAIRS, _PAIR, "three kernels of sums over pairs"),
        Case("J8", linear_attention, _HEADS, _HEAD, "exp(q) @ (exp(k)ᵀ @ v)", "R"),
        Case("J9", rotary_scores, {"h": 16, "s": 8192, "d": 64}, _HEAD, "one kernel that swaps halves"),
        Case("J10", pooled_values, {"n": 65536, "d": 512}, {"n": 9, "d": 3}, "(p @ x) @ w, a row kernel before", "R"),
        Case("J11", embedded_norm, {"v": 50000, "s": 16384, "d": 1024}, {"v": 9, "s": 4, "d": 6}, "one kernel"),
        Case("J12", bag_of_embeddings, {"v": 50000, "b": 4096, "s": 32, "d": 128},
             {"v": 9, "b": 3, "s": 4, "d": 5}, "one kernel, or two"),
        Case("J13", smoothed_cross_entropy, _LOGITS, _LOGIT, "logsumexp(x) - x[t], mean(x)", "A"),
        Case("J14", focal_loss, _LOGITS, _LOGIT, "x[t] and the sum of exponentials alone", "R"),
        Case("J15", bilateral, {"n": 4096}, _N, "one kernel, whose edges are repeated"),
        Case("J16", normalised_edges, {"n": 4096}, _N, "sizes computed twice"),
        Case("J17", sharpened_contrast, {"n": 4096}, _N, "moments in one pass, then the filter again", "R"),
        Case("J18", rolling_scores, {"n": 16384, "d": 512, "w": 64}, {"n": 12, "d": 3, "w": 4}, "moments in one pass"),
        Case("J19", return_moments, {"n": 1 << 24}, {"n": 50}, "one pass of five statistics", "R"),
        Case("J20", spectrogram, {"n": 1 << 24, "w": 512, "k": 64}, {"n": 24, "w": 6, "k": 3},
             "the window folded into one product with both matrices", "R"),
        Case("J21", distances_from_a_median_like_centre, {"m": 16384, "n": 1024}, {"m": 4, "n": 6}, "one kernel"),
        Case("J22", one_map, {"n": 4096}, _N, "as it is"),
        Case("J23", one_product, {"n": 2048}, _N, "as it is"),
    )
}  # fmt: skip
