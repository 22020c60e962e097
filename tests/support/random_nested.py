"""Random functions with a loop in a loop, which tracing unrolls: each step writes an element of a table from others."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

BEFORE = ("h[i - 1, j - 1]", "h[i - 1, j]", "h[i, j - 1]", "h[i - 1, j + 1]", "h[i - 2, j]", "h[i, j - 2]")
OF_ALL = ("h[i + 1, j]", "h[j, i]", "h[i, i]", "h[i, :j].sum()", "h[i, :j] @ h[j, :j]", "h[i - 1].max()")
ARGUMENT = ("s[i, j]", "s[j, i]", "z[i] - z[j]", "np.abs(z[j])", "0.1 * j", "z[i + j] * 0.5", "s[i, j - 1] * z[i]")
TWO = (
    "np.maximum({a}, {b})", "np.minimum({a}, {b})", "0.5 * ({a} + {b})", "0.4 * {a} - 0.3 * {b}", "np.tanh({a} * {b})",
    "np.where({a} > {b}, {a}, {b} - 0.1)",
)  # fmt: skip
WRITTEN = (
    "h[i, j] = a", "h[i, j] = a", "h[i, j] = a", "h[i, j] += 0.2 * a", "h[i, j] = a; h[i + 1, j - 1] += 0.1 * a",
    "h[i, j] = h[j, i] = a", "h[i, j] = a; g[j] = 0.5 * a", "h[i, j : j + 2] += 0.1 * a",
)  # fmt: skip
RETURNED = ("h, g", "h", "h[n - 1, m - 1]", "np.clip(h, 0, 1)")
OUTER = ("range(2, n)", "range(2, n)", "range(n - 1, 1, -1)")
INNER = (
    "range(2, m)", "range(2, m)", "range(m - 1, 1, -1)", "range(2, i + 1)", "range(i, n)", "range(i + 1, n)",
    "range(2, n - i)",
)  # fmt: skip


def random_nested(seed: int) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Text, function and arguments."""
    rng = random.Random(seed)
    n = rng.randint(19, 21)
    text = "\n".join(_lines(rng, n))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    draws = np.random.default_rng(seed)
    return text, scope["fn"], (draws.normal(size=(n + 2, n + 2)), draws.normal(size=2 * n))


def _lines(rng: random.Random, n: int) -> list[str]:
    value = rng.choice(BEFORE)
    for _ in range(rng.randint(1, 3)):
        others = BEFORE if rng.random() < 0.5 else ARGUMENT if rng.random() < 0.7 else (*OF_ALL, "g[j]", "g[j - 1]")
        a, b = rng.sample([value, rng.choice(others)], 2)
        value = rng.choice(TWO).format(a=a, b=b)
    begun = rng.choice(("np.zeros_like(s)", "s.copy()", "np.outer(z[: n + 2], 0.1 * np.arange(n + 2))"))
    after = rng.choice(("", "        h[i] = h[i] / (1 + np.abs(h[i, 2]))", "        g[i] = h[i, 2:m].sum()"))
    return [
        "def fn(s, z):", f"    n, m = {n}, {rng.choice((n, 6))}", f"    h, g = {begun}, np.zeros(n + 2)",
        f"    for i in {rng.choice(OUTER)}:", f"        for j in {rng.choice(INNER)}:", f"            a = {value}",
        f"            {rng.choice(WRITTEN)}", *[after] * bool(after), f"    return {rng.choice(RETURNED)}",
    ]  # fmt: skip
