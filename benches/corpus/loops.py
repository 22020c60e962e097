"""Programs written with Python loops, of any length: in, how many steps; out, the function and its arguments.

Traced, each is one long graph whose steps are alike. Used by `eqfuse.benches.loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Built = tuple[Callable[..., Any], tuple[Any, ...]]


def lstm(steps: int) -> Built:
    """An LSTM over `steps` inputs, one after another; the output of the last."""
    batch, width = 32, 64

    def run(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
        for t in range(steps):
            gates = x[t] @ w + h @ u + b
            i, f, o = (1 / (1 + np.exp(-gates[:, k * width : (k + 1) * width])) for k in range(3))
            c = f * c + i * np.tanh(gates[:, 3 * width :])
            h = o * np.tanh(c)
        return h

    shapes = (steps, batch, width), (batch, width), (batch, width), (width, 4 * width), (width, 4 * width), (4 * width,)
    return run, _normal(*shapes)


def monte_carlo(steps: int) -> Built:
    """Paths of a price by the method of Euler and Maruyama, and the mean payoff of an Asian option."""

    def price(draws: Any, s: Any, rate: float = 0.03, sigma: float = 0.2) -> Any:
        dt = 1 / steps
        total = np.zeros_like(s)
        for t in range(steps):
            s = s * np.exp((rate - 0.5 * sigma * sigma) * dt + sigma * np.sqrt(dt) * draws[t])
            total = total + s
        return np.exp(-rate) * np.maximum(total / steps - 100.0, 0.0).mean()

    return price, (_normal((steps, 10_000))[0], np.full(10_000, 100.0))


def lu_by_rows(n: int) -> Built:
    """The factors of a matrix of n rows in one array, each column eliminated from the rows below it."""

    def factor(a: Any) -> Any:
        a = a.copy()
        for k in range(n - 1):
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
        return a

    return factor, (_normal((n, n))[0] + n * np.eye(n),)


def taps(count: int) -> Built:
    """A filter of `count` taps, each a shifted slice of the signal times its weight."""
    size = 100_000

    def filtered(x: Any, weights: Any) -> Any:
        y = np.zeros(size)
        for k in range(count):
            y = y + weights[k] * x[k : k + size]
        return y

    return filtered, _normal((size + count,), (count,))


def scales(count: int) -> Built:
    """`count` products with constants, then as many quotients."""

    def scaled(x: Any) -> Any:
        for k in range(count):
            x = x * (1.0 + 0.01 * k)
        for k in range(count):
            x = x / (2.0 + 0.01 * k)
        return x

    return scaled, _normal((10_000,))


def python_sum(count: int) -> Built:
    """Python's sum() over the elements of an array."""
    return lambda x: sum(x[i] for i in range(count)), _normal((count,))


def stack(count: int) -> Built:
    """np.stack of pieces of an array, each its own computation."""
    return lambda x: np.stack([x[i] * 2.0 + 1.0 for i in range(count)]), _normal((count, 16))


def filled(rows: int) -> Built:
    """A matrix filled row by row, from one of as many rows."""

    def fill(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(rows):
            y[i] = np.exp(-x[i]) * i
        return y

    return fill, _normal((rows, rows))

def cholesky(n: int) -> Built:
    """The lower factor of a positive matrix, column by column."""

    def factor(a: Any) -> Any:
        lower = np.zeros_like(a)
        for j in range(n):
            lower[j, j] = np.sqrt(a[j, j] - lower[j, :j] @ lower[j, :j])
            if j + 1 < n:
                lower[j + 1 :, j] = (a[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
        return lower

    (a,) = _normal((n, n))
    return factor, (a @ a.T + n * np.eye(n),)


def gram_schmidt(n: int) -> Built:
    """The columns of a matrix made orthonormal, one after another."""

    def orthonormal(a: Any) -> Any:
        q = np.zeros_like(a)
        for k in range(n):
            v = a[:, k] - q[:, :k] @ (q[:, :k].T @ a[:, k]) if k else a[:, k]
            q[:, k] = v / np.sqrt((v * v).sum())
        return q

    return orthonormal, _normal((2 * n, n))


def back_substitution(n: int) -> Built:
    """The solution of an upper triangular system, from the last unknown on."""

    def solve(u: Any, b: Any) -> Any:
        x = np.zeros_like(b)
        for i in range(n - 1, -1, -1):
            x[i] = (b[i] - u[i, i + 1 :] @ x[i + 1 :]) / u[i, i]
        return x

    u, b = _normal((n, n), (n,))
    return solve, (np.triu(u) + n * np.eye(n), b)


def thomas(n: int) -> Built:
    """A tridiagonal system: one pass of elimination, one of substitution, both over the rows of an array."""

    def solve(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
        c, d, x = np.zeros_like(b), np.zeros_like(b), np.zeros_like(b)
        c[0], d[0] = upper[0] / diagonal[0], b[0] / diagonal[0]
        for i in range(1, n):
            pivot = diagonal[i] - lower[i] * c[i - 1]
            c[i] = upper[i] / pivot
            d[i] = (b[i] - lower[i] * d[i - 1]) / pivot
        x[n - 1] = d[n - 1]
        for i in range(n - 2, -1, -1):
            x[i] = d[i] - c[i] * x[i + 1]
        return x

    lower, diagonal, upper, b = _normal((n,), (n,), (n,), (n,))
    return solve, (lower, diagonal + 6.0, upper, b)


def shortest_paths(n: int) -> Built:
    """Floyd and Warshall's: each step lets paths lead through one node more."""

    def through(p: Any) -> Any:
        for k in range(n):
            p = np.minimum(p, p[:, k, None] + p[k])
        return p

    return through, (np.abs(_normal((n, n))[0]),)


def volatility(count: int) -> Built:
    """A GARCH(1, 1) model's variance, day by day, and its log-likelihood."""

    def likelihood(r: Any) -> Any:
        s = np.empty_like(r)
        s[0] = r.var()
        for t in range(1, count):
            s[t] = 0.05 + 0.1 * r[t - 1] ** 2 + 0.85 * s[t - 1]
        return -0.5 * (np.log(2 * np.pi * s) + r**2 / s).sum()

    return likelihood, _normal((count,))


def views(count: int) -> Built:
    """A deep program of views: each step turns an array and drops a row of it."""

    def turned(x: Any) -> Any:
        for _ in range(count):
            x = x.T[1:, :]
        return x

    return turned, _normal((count, count))


PROGRAMS: dict[str, tuple[Callable[[int], Built], Sequence[int]]] = {
    "lstm": (lstm, (16, 32, 64)),
    "monte carlo": (monte_carlo, (12, 25, 50)),
    "lu by rows": (lu_by_rows, (24, 48, 64)),
    "cholesky": (cholesky, (24, 48, 64)),
    "gram schmidt": (gram_schmidt, (16, 32, 64)),
    "substitution": (back_substitution, (24, 48, 64)),
    "thomas": (thomas, (50, 200, 800)),
    "shortest paths": (shortest_paths, (30, 60, 120)),
    "volatility": (volatility, (250, 500, 1000)),
    "views": (views, (500, 1000, 2000)),
    "taps": (taps, (12, 25, 49)),
    "scales": (scales, (10, 20, 30)),
    "sum": (python_sum, (500, 1000, 2000)),
    "stack": (stack, (100, 300, 690)),
    "filled": (filled, (60, 250, 500)),
}


def _normal(*shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape) for shape in shapes)
