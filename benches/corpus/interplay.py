"""Programs where algebra, index maps, reductions of pairs, cascades, scans and recomputation meet.

In: nothing. Out: `INTERPLAY`, cases like those of `suite.GRAPHS`; the last three are controls, of which nothing is to
be gained. Greedy fusers store what two readers share or one map moves; an algebraic pass before fusion does not know
which form makes one kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, f32, i32, softmax

F = np.float32


def apart(x: Any, y: Any) -> Any:
    """The square of the distance of each pair of points."""
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


# Fluids


def burgers_with_energy(n: int) -> TypedFunction:
    def along(a: Any, axis: int) -> Any:
        return (np.roll(a, -1, axis) - np.roll(a, 1, axis)) / 2

    def around(u: Any) -> Any:
        return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u

    def program(u: Any, v: Any) -> Any:
        new = [w - F(0.1) * (u * along(w, 0) + v * along(w, 1)) + F(0.01) * around(w) for w in (u, v)]
        return *new, (new[0] * new[0] + new[1] * new[1]).mean()

    return program, [f32(n, n), f32(n, n)]


def shallow_water(n: int) -> TypedFunction:
    def program(h: Any, u: Any) -> Any:
        flux, force = h * u, h * u * u + F(4.9) * h * h
        mass = (np.roll(h, 1, 0) + np.roll(h, -1, 0)) / 2 - F(0.1) * (np.roll(flux, -1, 0) - np.roll(flux, 1, 0))
        moved = (np.roll(flux, 1, 0) + np.roll(flux, -1, 0)) / 2
        return mass, (moved - F(0.1) * (np.roll(force, -1, 0) - np.roll(force, 1, 0))) / mass

    return program, [f32(n, n), f32(n, n)]


# Bodies, and kernel methods


def forces_and_energy(n: int, k: int) -> TypedFunction:
    def program(x: Any, m: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        r2 = (d * d).sum(-1) + F(1e-3)
        force = (d * (m[None, :] / (r2 * np.sqrt(r2)))[..., None]).sum(1)
        return force, (m[None, :] / np.sqrt(r2)).sum(1)

    return program, [f32(n, k), f32(n)]


def lennard_jones(n: int, k: int) -> TypedFunction:
    def program(x: Any) -> Any:
        r2 = apart(x, x) + F(0.1)
        s = 1 / (r2 * r2 * r2)
        return 4 * (s * s - s).sum(1), (s * s - s).sum()

    return program, [f32(n, k)]


def kernel_regression(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any, v: Any) -> Any:
        w = np.exp(-apart(x, y))
        return (w * v[None, :]).sum(1) / w.sum(1)

    return program, [f32(n, k), f32(n, k), f32(n)]


def discrepancy(n: int, k: int) -> TypedFunction:
    def kernel(x: Any, y: Any) -> Any:
        return np.exp(F(-0.5) * apart(x, y)).sum(1).mean()

    return lambda x, y: kernel(x, x) + kernel(y, y) - 2 * kernel(x, y), [f32(n, k), f32(n, k)]


def decision(n: int, k: int) -> TypedFunction:
    def program(x: Any, support: Any, weights: Any) -> Any:
        return np.sign((np.exp(-apart(x, support)) * weights).sum(1) - F(0.5))

    return program, [f32(n, k), f32(n, k), f32(n)]


def mean_shift(n: int, k: int) -> TypedFunction:
    def program(x: Any) -> Any:
        w = np.exp(-2 * apart(x, x))
        new = (w[..., None] * x).sum(1) / w.sum(1)[:, None]
        return new, ((new - x) ** 2).sum(-1).max()

    return program, [f32(n, k)]


def energy_distance(n: int, k: int) -> TypedFunction:
    def mean(x: Any, y: Any) -> Any:
        return np.sqrt(apart(x, y) + F(1e-12)).sum(1).mean()

    return lambda x, y: 2 * mean(x, y) - mean(x, x) - mean(y, y), [f32(n, k), f32(n, k)]


def hausdorff(n: int, k: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        d = apart(x, y)
        return np.sqrt(np.maximum(d.min(1).max(), d.min(0).max()))

    return program, [f32(n, k), f32(n, k)]


# Attention


def linear_attention(h: int, s: int, d: int) -> TypedFunction:
    def program(q: Any, k: Any, v: Any) -> Any:
        a, b = np.exp(q), np.exp(k)
        scores = a @ b.transpose(0, 2, 1)
        return (scores @ v) * F(0.125)

    return program, [f32(h, s, d)] * 3


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


def scored_embeddings(v: int, b: int, d: int) -> TypedFunction:
    return lambda table, places, w: 1 / (1 + np.exp(-(table[places] @ w))), [f32(v, d), i32(b), f32(d, 1)]


def policy_gradient(m: int, n: int) -> TypedFunction:
    def program(x: Any, actions: Any, advantages: Any) -> Any:
        p = softmax(x)
        log_p = np.log(p)
        picked = np.take_along_axis(log_p, actions[:, None], -1)[:, 0]
        return -(picked * advantages).mean() + F(0.01) * (p * log_p).sum(-1).mean()

    return program, [f32(m, n), i32(m), f32(m)]


def brier_score(m: int, n: int) -> TypedFunction:
    def program(x: Any, labels: Any) -> Any:
        p = softmax(x)
        return ((p * p).sum(-1) - 2 * np.take_along_axis(p, labels[:, None], -1)[:, 0] + 1).mean()

    return program, [f32(m, n), i32(m)]


def focal_loss(m: int, n: int) -> TypedFunction:
    def program(x: Any, labels: Any) -> Any:
        p = np.take_along_axis(softmax(x), labels[:, None], -1)[:, 0]
        return -((1 - p) ** 2 * np.log(p)).mean()

    return program, [f32(m, n), i32(m)]


# Images


def bilateral(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        p = np.pad(x, 1, mode="edge")
        shifted = [p[i : i + n, j : j + n] for i in range(3) for j in range(3)]
        weights = [np.exp(-((s - x) ** 2)) for s in shifted]
        return sum(w * s for w, s in zip(weights, shifted, strict=True)) / sum(weights)

    return program, [f32(n, n)]


# Finance and signal processing


def market_beta(n: int, d: int) -> TypedFunction:
    def program(r: Any, market: Any) -> Any:
        a, b = r - r.mean(-1, keepdims=True), market - market.mean()
        beta = (a * b).mean(-1) / (b * b).mean()
        return beta, r.mean(-1) - beta * market.mean()

    return program, [f32(n, d), f32(d)]


def rolling_scores(n: int, d: int, w: int) -> TypedFunction:
    def program(r: Any) -> Any:
        sums = np.cumsum(np.log1p(r), 0)
        change = sums[w:] - sums[:-w]
        return (change - change.mean(0)) / np.sqrt(change.var(0) + F(1e-6))

    return program, [f32(n, d)]


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
        Case("J1", burgers_with_energy, {"n": 4096}, _N, "one kernel of two steps and their energy"),
        Case("J2", shallow_water, {"n": 4096}, _N, "one kernel of two results, fluxes computed for each reader"),
        Case("J3", forces_and_energy, _PAIRS, _PAIR, "one kernel of four sums"),
        Case("J4", lennard_jones, _PAIRS, _PAIR, "one kernel of sums over pairs, and the sum of these"),
        Case("J5", kernel_regression, _PAIRS, _PAIR, "one kernel of two sums"),
        Case("J6", discrepancy, _PAIRS, _PAIR, "three kernels of sums over pairs"),
        Case("J7", decision, _PAIRS, _PAIR, "one kernel of sums over pairs"),
        Case("J8", mean_shift, _PAIRS, _PAIR, "one kernel of sums over pairs, and what the shifts are"),
        Case("J9", energy_distance, _PAIRS, _PAIR, "three kernels of sums over pairs"),
        Case("J10", hausdorff, _PAIRS, _PAIR, "two kernels that compute the distances anew"),
        Case("J11", linear_attention, _HEADS, _HEAD, "exp(q) @ (exp(k)ᵀ @ v)", "R"),
        Case("J12", pooled_values, {"n": 65536, "d": 512}, {"n": 9, "d": 3}, "(p @ x) @ w, a row kernel before", "R"),
        Case("J13", embedded_norm, {"v": 50000, "s": 16384, "d": 1024}, {"v": 9, "s": 4, "d": 6}, "one kernel"),
        Case("J14", scored_embeddings, {"v": 50000, "b": 1 << 18, "d": 256}, {"v": 5, "b": 9, "d": 3},
             "(table @ w)[places]"),
        Case("J15", policy_gradient, _LOGITS, _LOGIT, "logsumexp(x), x[t] and sums with x alone", "A"),
        Case("J16", brier_score, _LOGITS, _LOGIT, "x[t] and sums of exponentials alone", "R"),
        Case("J17", focal_loss, _LOGITS, _LOGIT, "x[t] and the sum of exponentials alone", "R"),
        Case("J18", bilateral, {"n": 4096}, _N, "one kernel, whose edges are repeated"),
        Case("J19", market_beta, {"n": 8192, "d": 2048}, {"n": 4, "d": 7}, "moments in one pass", "R"),
        Case("J20", rolling_scores, {"n": 16384, "d": 512, "w": 64}, {"n": 12, "d": 3, "w": 4}, "moments in one pass"),
        Case("J21", distances_from_a_median_like_centre, {"m": 16384, "n": 1024}, {"m": 4, "n": 6}, "one kernel"),
        Case("J22", one_map, {"n": 4096}, _N, "as it is"),
        Case("J23", one_product, {"n": 2048}, _N, "as it is"),
    )
}  # fmt: skip
