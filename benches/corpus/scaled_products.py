"""Random small programs of linear algebra: scales, divisors, transposes and means around products, as gradients have.

In: a seeded generator and the extents of a matrix. Out: a function over that matrix and three vectors, with its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LONG = ("r", "({long} * 2)", "({long} - y)", "(X @ {short})", "({long} / len(y))", "np.tanh({long})")
SHORT = (
    "w", "(X.T @ {long})", "((2 * X.T) @ {long})", "({short} / len(y))", "({short} * 0.1)", "(w - {short})",
    "(X.T @ {long} / len(y))", "X.mean(axis=0)", "((X / len(y)).T @ {long})", "((X.T * {short}[:, None]) @ {long})",
)  # fmt: skip


def random_products(rng: np.random.Generator) -> tuple[str, Callable[..., Any]]:
    """The text of a program, and the program: of X (n, m), w (m,), r and y (n,)."""
    text = _drawn(rng, "{short}", 4)
    function: Callable[..., Any] = eval(f"lambda X, w, r, y: {text}", {"np": np})
    return text, function


def arguments(rng: np.random.Generator, n: int, m: int, dtype: Any = np.float64) -> list[np.ndarray]:
    """Values for a program that is drawn."""
    return [rng.standard_normal(shape).astype(dtype) for shape in ((n, m), m, n, n)]


def _drawn(rng: np.random.Generator, text: str, depth: int) -> str:
    """`text` with every blank filled, by nothing deep after `depth` steps."""
    while "{" in text:
        depth -= 1
        name = text[text.index("{") + 1 : text.index("}")]
        choices = LONG if name == "long" else SHORT
        filled = choices[int(rng.integers(1, len(choices)))] if depth >= 0 else choices[0]
        text = text.replace(f"{{{name}}}", filled, 1)
    return text
