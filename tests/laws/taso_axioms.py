"""TASO's axioms and lemmas, and the two axioms that it marks as wrong, in the notation of `taso_substitutions.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.functions import avg_pool, max_pool, relu
from tests.laws.taso_substitutions import (
    FILTERS,
    IMAGE,
    M23,
    M34,
    M43,
    M44,
    M45,
    MORE_FILTERS,
    SAME,
    F,
    Substitution,
    columns,
    conv,
    conv_relu,
    enlarge,
    rows,
    split,
)

GEOMETRIES = ((1, False), (2, False), (1, True), (2, True))  # stride, whether nothing is padded


def everywhere(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` of arrays, stride and padding, for every stride and padding."""
    return lambda *arrays: tuple(f(*arrays, *geometry) for geometry in GEOMETRIES)


def everywhere_activated(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` of the convolution with or without relu, arrays, stride and padding."""
    return lambda *arrays: tuple(f(g, *arrays, *geometry) for g in (conv, conv_relu) for geometry in GEOMETRIES)


def average(x: Any, stride: int = 1, valid: bool = False) -> Any:
    return avg_pool(x, 3, stride=stride, padding=0 if valid else 1)


def largest(x: Any, stride: int = 1, valid: bool = False) -> Any:
    return max_pool(x, 3, stride=stride, padding=0 if valid else 1)


def mean_kernel(channels: int) -> np.ndarray:
    """TASO's Cpool: every channel's own mean."""
    return np.full((channels, 1, 3, 3), 1 / 9, F)


def identity_kernel(channels: int) -> np.ndarray:
    """TASO's Iconv."""
    kernel = np.zeros((channels, channels, 3, 3), F)
    kernel[range(channels), range(channels), 1, 1] = 1
    return kernel


ICONV = identity_kernel(3)


def _axioms() -> list[Substitution]:
    three, two, scaled, twice = (SAME,) * 3, (SAME,) * 2, (SAME, ()), (SAME, SAME, ())
    blocks = (M23, (2, 4), (5, 3), (5, 4))
    by_channels, by_images = (IMAGE, (2, 5, 6, 7)), (IMAGE, (3, 3, 6, 7))
    constants = "both sides are constants, which are computed when the program is built and need no law"
    axioms: list[tuple[Any, ...]] = [
        (lambda a, b, c: a + (b + c), lambda a, b, c: (a + b) + c, three, ("all",), "approximate"),  # may cancel
        (lambda a, b: a + b, lambda a, b: b + a, two),
        (lambda a, b, c: a * (b * c), lambda a, b, c: (a * b) * c, three),
        (lambda a, b: a * b, lambda a, b: b * a, two),
        (lambda a, b, c: (a + b) * c, lambda a, b, c: a * c + b * c, three),
        (lambda a, s, t: (a * s) * t, lambda a, s, t: a * (s * t), (SAME, (), ())),
        (lambda a, b, s: (a + b) * s, lambda a, b, s: a * s + b * s, twice),
        (lambda a, b, s: (a * b) * s, lambda a, b, s: a * (b * s), twice),
        (lambda a, s: a.T * s, lambda a, s: (a * s).T, scaled),
        (lambda a, b, s: (a @ b) * s, lambda a, b, s: a @ (b * s), (M23, M34, ())),
        (lambda a, b, s: (columns(a, b) * s, rows(b, b) * s),
         lambda a, b, s: (columns(a * s, b * s), rows(b * s, b * s)), (M23, (2, 4), ())),
        (everywhere_activated(lambda f, x, w, s, *g: f(x * s, w, *g)),
         everywhere_activated(lambda f, x, w, s, *g: f(x, w * s, *g)), (IMAGE, FILTERS, ()), ("all",), "approximate"),
        (everywhere(lambda x, w, s, *g: conv(x, w, *g) * s), everywhere(lambda x, w, s, *g: conv(x * s, w, *g)),
         (IMAGE, FILTERS, ()), ("all",), "approximate"),
        (everywhere(lambda x, w, *g: relu(conv(x, w, *g))), everywhere(lambda x, w, *g: conv_relu(x, w, *g)),
         (IMAGE, FILTERS)),
        (lambda a, b: (relu(columns(a, b)), relu(rows(b, b))),
         lambda a, b: (columns(relu(a), relu(b)), rows(relu(b), relu(b))), (M23, (2, 4))),
        (lambda a: relu(a.T), lambda a: relu(a).T, (SAME,)),
        (everywhere(lambda x, v, w, *g: conv(x, v + w, *g)),
         everywhere(lambda x, v, w, *g: conv(x, v, *g) + conv(x, w, *g)), (IMAGE, FILTERS, FILTERS)),
        (everywhere(lambda x, y, w, *g: conv(x + y, w, *g)),
         everywhere(lambda x, y, w, *g: conv(x, w, *g) + conv(y, w, *g)), (IMAGE, IMAGE, FILTERS)),
        (everywhere(lambda x, y, v, w, *g: conv(x, v, *g) + conv(y, w, *g)),
         everywhere(lambda x, y, v, w, *g: conv(columns(x, y), columns(v, w), *g)),
         (*by_channels, FILTERS, (4, 5, 3, 3))),
        (lambda a, b, c, d: a @ c + b @ d, lambda a, b, c, d: columns(a, b) @ rows(c, d), (M23, (2, 4), M34, M44)),
        (lambda a, b, c, d: rows(a + b, c + d), lambda a, b, c, d: rows(a, c) + rows(b, d), (*two, (3, 5), (3, 5))),
        (lambda a, b, c, d: rows(a * b, c * d), lambda a, b, c, d: rows(a, c) * rows(b, d), (*two, (3, 5), (3, 5))),
        (everywhere_activated(lambda f, x, y, w, *g: rows(f(x, w, *g), f(y, w, *g))),
         everywhere_activated(lambda f, x, y, w, *g: f(rows(x, y), w, *g)), (*by_images, FILTERS)),
        (everywhere_activated(lambda f, x, v, w, *g: columns(f(x, v, *g), f(x, w, *g))),
         everywhere_activated(lambda f, x, v, w, *g: f(x, rows(v, w), *g)), (IMAGE, FILTERS, MORE_FILTERS)),
        (lambda a, b, c: a @ (b @ c), lambda a, b, c: (a @ b) @ c, (M23, M34, M45)),
        (lambda a, b: split(columns(a, b), a, 1)[0], lambda a, b: a, (M23, (2, 4))),
        (lambda a, b: split(columns(a, b), a, 1)[1], lambda a, b: b, (M23, (2, 4))),
        (lambda a, b, c: a @ columns(b, c), lambda a, b, c: columns(a @ b, a @ c), (M23, M34, (3, 5))),
        (lambda a, b, c: a @ (b + c), lambda a, b, c: a @ b + a @ c, (M23, M34, M34)),
        (lambda a: a.T.T, lambda a: a, (SAME,)),
        (lambda a, b: (a @ b).T, lambda a, b: b.T @ a.T, (M23, M34)),
        (lambda a, b: rows(a, b).T, lambda a, b: columns(a.T, b.T), (M23, M43)),
        (lambda a, b, c, d: rows(columns(a, b), columns(c, d)), lambda a, b, c, d: columns(rows(a, c), rows(b, d)),
         blocks),
        (lambda a, b: (a + b).T, lambda a, b: a.T + b.T, two),
        (lambda a, b: (a * b).T, lambda a, b: a.T * b.T, two),
        (everywhere(lambda x, y, *g: columns(average(x, *g), average(y, *g))),
         everywhere(lambda x, y, *g: average(columns(x, y), *g)), by_channels),
        (everywhere(lambda x, y, *g: rows(largest(x, *g), largest(y, *g))),
         everywhere(lambda x, y, *g: largest(rows(x, y), *g)), by_images),
        (everywhere(lambda x, y, *g: columns(largest(x, *g), largest(y, *g))),
         everywhere(lambda x, y, *g: largest(columns(x, y), *g)), by_channels),
        (everywhere(lambda x, *g: conv(x, mean_kernel(3), *g)), everywhere(average), (IMAGE,), ("all",),
         "approximate"),  # 1/9 is rounded
        (lambda x: conv(x, ICONV), lambda x: x, (IMAGE,), ("conv_by_identity",), "approximate"),
        (lambda a: a @ np.eye(5, dtype=F), lambda a: a, (SAME,), ("identity_on_right",), "approximate"),
        (lambda a: a * np.ones(SAME, F), lambda a: a, (SAME,)),
        (lambda: average(identity_kernel(1)), lambda: mean_kernel(1), (), ("none",), "", constants),
        (lambda x, w: tuple(f(x, w, s) for f in (conv, conv_relu) for s in (1, 2)),
         lambda x, w: tuple(f(x, enlarge(w, 3), s) for f in (conv, conv_relu) for s in (1, 2)),
         (IMAGE, (4, 3, 1, 1)), ("all",), "approximate"),
    ]  # fmt: skip
    lemmas: list[tuple[Any, ...]] = [
        (lambda: np.eye(5, dtype=F).T, lambda: np.eye(5, dtype=F), (), ("none",), "", constants),
        (lambda a: np.eye(2, dtype=F) @ a, lambda a: a, (SAME,), ("identity_on_left",), "approximate"),
        (everywhere(lambda x, y, *g: rows(average(x, *g), average(y, *g))),
         everywhere(lambda x, y, *g: average(rows(x, y), *g)), by_images),
    ]  # fmt: skip
    marked_wrong: list[tuple[Any, ...]] = [
        (lambda a, b, c: (rows(a, rows(b, c)), columns(a, columns(a, b))),
         lambda a, b, c: (rows(rows(a, b), c), columns(columns(a, a), b)), (SAME, SAME, (3, 5))),
        (everywhere_activated(lambda f, x, y, v, w, *g: columns(f(x, v, *g), f(y, w, *g))),
         everywhere_activated(lambda f, x, y, v, w, *g: f(columns(x, y), rows(v, w), *g)),
         (IMAGE, IMAGE, (3, 3, 3, 3), (5, 3, 3, 3)), ("all",), "reassociate", "",
         "3 + 5 filters make two groups of 4: the fourth sees the wrong channels"),
    ]  # fmt: skip
    return [
        *(_axiom(f"axiom {n}", *row) for n, row in enumerate(axioms, 1)),
        *(_axiom(f"lemma {n}", *row) for n, row in enumerate(lemmas, 1)),
        *(_axiom(f"axiom marked wrong {n}", *row) for n, row in enumerate(marked_wrong, 1)),
    ]


def _axiom(
    source: str, left: Any, right: Any, shapes: tuple, laws: tuple[str, ...] = ("all",), numerics: str = "reassociate",
    beyond: str = "", false: str = "",
) -> Substitution:  # fmt: skip
    return Substitution(source, left, right, shapes, laws, numerics, false, beyond)


AXIOMS = _axioms()
