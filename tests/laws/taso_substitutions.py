"""The substitution lists of TASO and TENSAT as equalities of NumPy functions.

Read from the files that those projects published: TENSAT's ``converted.txt`` (120 substitutions, numbered by line),
``converted_multi.txt`` (13 pairs with two outputs each) and the 4 + 2 predefined in ``rewrites.rs``; `taso_axioms.py`
has the 44 axioms, 3 lemmas and 2 axioms marked as wrong of TASO's ``verify.py`` (numbered in its order). Written in
this project's notation:

* a convolution with the activation mode "relu" is relu of a convolution, which makes some substitutions identities;
* padding "same" is (k - 1) / 2 zeros on either side; groups are counted from the channels of image and weights;
* a split is two slices; ``enlarge`` frames a kernel with zeros; ``merge`` joins two groups, zeros between them;
* the constants ``Iconv``, ``Cpool``, ``Imatmul``, ``Iewmul`` are arrays made by NumPy.

Extents differ wherever an equality lets them, so that a proof does not rest on square shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.functions import conv as convolve
from eqfuse.functions import relu

F = np.float32


@dataclass(frozen=True)
class Substitution:
    """Both sides, as functions of arrays of `shapes`. The proof has the `laws`."""

    source: str
    left: Callable[..., Any]
    right: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    laws: tuple[str, ...] = ("all",)
    numerics: str = "reassociate"
    false: str = ""  # why it does not hold
    beyond: str = ""  # why it is no equality of programs


def conv(x: Any, w: Any, stride: int = 1, valid: bool = False) -> Any:
    padding = 0 if valid else tuple((k - 1) // 2 for k in w.shape[2:])
    return convolve(x, w, stride=stride, padding=padding, groups=x.shape[1] // w.shape[1])


def conv_relu(x: Any, w: Any, stride: int = 1, valid: bool = False) -> Any:
    return relu(conv(x, w, stride, valid))


def rows(*parts: Any) -> Any:
    return np.concatenate(parts, axis=0)


def columns(*parts: Any) -> Any:
    """Or channels."""
    return np.concatenate(parts, axis=1)


def split(x: Any, first: Any, axis: int) -> tuple[Any, Any]:
    """Two pieces of `x`, the first with the extent of `first`."""
    n = first.shape[axis]
    return (x[:n], x[n:]) if axis == 0 else (x[:, :n], x[:, n:])


def squared(x: Any) -> Any:
    return conv(x, x)


def squared_relu(x: Any) -> Any:
    return conv_relu(x, x)


M23, M33, M34, M43, M45, M56, M44 = (2, 3), (3, 3), (3, 4), (4, 3), (4, 5), (5, 6), (4, 4)
SAME = (2, 5)
IMAGE, FILTERS, MORE_FILTERS = (2, 3, 6, 7), (4, 3, 3, 3), (5, 3, 3, 3)
SQUARE = (2, 3, 3, 5)  # an image batch that is its own filters
GROWS = ("all", "distribution")
# one zero is every zero: with all laws its class would grow without end
ZEROS = ("blocks", "layout", "add_commutes", "plus_zero", "two_groups_apart", "conv_by_zeros")


def _single() -> list[Substitution]:
    chains: list[tuple[Any, ...]] = [
        (1, lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c), M23, M34, M45),
        (2, lambda a, b, c, d: (a @ b) @ (c @ d), lambda a, b, c, d: (a @ (b @ c)) @ d, M23, M34, M45, M56),
        (3, lambda a, b, c: rows(b, a @ b) @ c, lambda a, b, c: rows(b @ c, a @ (b @ c)), M23, M34, M45),
        (4, lambda a, b, c: ((a @ b) @ c) @ c, lambda a, b, c: a @ ((b @ c) @ c), M23, M34, M44),
        (5, lambda a, b, c, d: (a @ b) @ (c @ d), lambda a, b, c, d: a @ ((b @ c) @ d), M23, M34, M45, M56),
        (6, lambda a, b, c: a @ b + (a @ b) @ c, lambda a, b, c: a @ (b + b @ c), M23, M34, M44),
        (8, lambda a, b, c: columns(a @ b, (a @ b) @ c), lambda a, b, c: a @ columns(b, b @ c), M23, M34, M45),
        (9, lambda a, b, c: (a @ (b @ c)) @ b, lambda a, b, c: a @ (b @ (c @ b)), M23, M34, M43),
        (10, lambda b, c: (b @ c) @ ((b @ c) @ b), lambda b, c: (b @ (c @ b)) @ (c @ b), M34, M43),
        (11, lambda a, b, c: (a @ (b @ c)) @ b, lambda a, b, c: (a @ b) @ (c @ b), M23, M34, M43),
        (12, lambda b, c, d: (b @ (b @ c)) @ d, lambda b, c, d: b @ (b @ (c @ d)), M33, M34, M45),
        (13, lambda b, c, d: (c @ (b @ c)) @ d, lambda b, c, d: c @ (b @ (c @ d)), M43, M34, M45),
        (14, lambda b, c, d: (d @ (b @ c)) @ d, lambda b, c, d: d @ (b @ (c @ d)), M34, (4, 2), M23),
        (15, lambda b, c, d: (c + b @ c) @ d, lambda b, c, d: c @ d + b @ (c @ d), M33, M34, M45),
        (16, lambda b, c, d: (c @ (b @ c)) @ d, lambda b, c, d: (c @ b) @ (c @ d), M43, M34, M45),
        (17, lambda b, c, d: (d @ (b @ c)) @ d, lambda b, c, d: (d @ b) @ (c @ d), M34, (4, 2), M23),
        (18, lambda b, c, d: d @ (b @ (b @ c)), lambda b, c, d: ((d @ b) @ b) @ c, M33, M34, M23),
        (19, lambda b, c, d: (b @ d) @ (b @ c), lambda b, c, d: b @ ((d @ b) @ c), M34, M45, M43),
        (20, lambda b, c, d: (c @ d) @ (b @ c), lambda b, c, d: c @ ((d @ b) @ c), (5, 3), M34, M45),
        (21, lambda b, c, d: d @ (c @ (b @ c)), lambda b, c, d: ((d @ c) @ b) @ c, M43, M34, M23),
        (22, lambda a, b, c: a @ c + b @ c, lambda a, b, c: (a + b) @ c, M23, M23, M34),
        (31, lambda a, b, c: a @ b + a @ c, lambda a, b, c: a @ (b + c), M23, M34, M34),
        (70, lambda a, b, c, d: a @ c + b @ d, lambda a, b, c, d: columns(a, b) @ rows(c, d), M23, (2, 4), M34, M44),
        (73, lambda a, b, c: columns(a @ b, a @ c), lambda a, b, c: a @ columns(b, c), M23, M34, (3, 5)),
        (74, lambda a, b, c: rows(a @ c, b @ c), lambda a, b, c: rows(a, b) @ c, M23, M43, M34),
        (85, lambda a, b, c, d: a @ c + b @ d, lambda a, b, c, d: columns(a, b) @ rows(c, d), M23, (2, 4), M34, M44),
    ]  # fmt: skip
    grown_sums: list[tuple[Any, ...]] = [
        (7, lambda a, b, c: (a + a @ b) @ c, lambda a, b, c: a @ (c + b @ c), M23, M33, M34),
    ]  # fmt: skip
    grown: list[tuple[Any, ...]] = [
        (38, lambda a, b, c: a * b + c * (a * b), lambda a, b, c: b * (a + a * c)),
        (39, lambda a, b, c: c * (b + a * b), lambda a, b, c: b * (c + a * c)),
        (45, lambda a, b, c: a * b + c * (a * b), lambda a, b, c: a * (b + b * c)),
        (46, lambda a, b, c: c * (a + a * b), lambda a, b, c: a * (c + b * c)),
        (50, lambda a, b, c: c * (b + a * b), lambda a, b, c: b * c + a * (b * c)),
    ]  # fmt: skip
    sums: list[tuple[Any, ...]] = [
        (23, lambda a, b, c: c + (c + (a + b)), lambda a, b, c: (a + c) + (b + c)),
        (24, lambda a, b, c: c + (a + b), lambda a, b, c: b + (a + c)),
        (25, lambda a, b, c: (a + b) + (b + c), lambda a, b, c: b + (b + (a + c))),
        (26, lambda a, b, c: c + (c + (a + b)), lambda a, b, c: b + (c + (a + c))),
        (27, lambda a, b, c: c + (c + (a + b)), lambda a, b, c: (b + c) + (a + c)),
        (28, lambda a, b, c: c + (a + b), lambda a, b, c: a + (b + c)),
        (29, lambda a, b, c: (a + b) + (a + c), lambda a, b, c: a + (a + (b + c))),
        (30, lambda a, b, c: c + (c + (a + b)), lambda a, b, c: a + (c + (b + c))),
        (32, lambda a, b, c: squared(c + (a + b)), lambda a, b, c: squared(b + (a + c)), *(SQUARE,) * 3),
        (33, lambda a, b, c: squared_relu(c + (a + b)), lambda a, b, c: squared_relu(b + (a + c)), *(SQUARE,) * 3),
        (34, lambda a, b, c: squared(c + (a + b)), lambda a, b, c: squared(a + (b + c)), *(SQUARE,) * 3),
        (35, lambda a, b, c: squared_relu(c + (a + b)), lambda a, b, c: squared_relu(a + (b + c)), *(SQUARE,) * 3),
    ]  # fmt: skip
    products: list[tuple[Any, ...]] = [
        (41, lambda a, b, c: c * (c * (a * b)), lambda a, b, c: (a * c) * (b * c)),
        (42, lambda a, b, c: c * (a * b), lambda a, b, c: b * (a * c)),
        (43, lambda a, b, c: (a * b) * (b * c), lambda a, b, c: b * (b * (a * c))),
        (44, lambda a, b, c: c * (c * (a * b)), lambda a, b, c: b * (c * (a * c))),
        (48, lambda a, b, c: c * (c * (a * b)), lambda a, b, c: (b * c) * (a * c)),
        (49, lambda a, b, c: c * (a * b), lambda a, b, c: a * (b * c)),
        (51, lambda a, b, c: (a * b) * (a * c), lambda a, b, c: a * (a * (b * c))),
        (52, lambda a, b, c: c * (c * (a * b)), lambda a, b, c: a * (c * (b * c))),
        (53, lambda a, b, c: squared(c * (a * b)), lambda a, b, c: squared(b * (a * c)), *(SQUARE,) * 3),
        (54, lambda a, b, c: squared_relu(c * (a * b)), lambda a, b, c: squared_relu(b * (a * c)), *(SQUARE,) * 3),
        (55, lambda a, b, c: squared(c * (a * b)), lambda a, b, c: squared(a * (b * c)), *(SQUARE,) * 3),
        (56, lambda a, b, c: squared_relu(c * (a * b)), lambda a, b, c: squared_relu(a * (b * c)), *(SQUARE,) * 3),
        *(
            (n, lambda a, b, c, f=f: f(columns(b, columns(a, c))), lambda a, b, c, f=f: f(columns(a, columns(b, c))),
             (2, 1, 3, 3), (2, 2, 3, 3), (2, 3, 3, 3))
            for n, f in ((86, squared), (87, squared_relu))
        ),
        *(
            (n, lambda a, b, c, f=f: f(columns(c, columns(a, b))), lambda a, b, c, f=f: f(columns(b, columns(a, c))),
             (2, 1, 3, 3), (2, 2, 3, 3), (2, 3, 3, 3))
            for n, f in ((99, squared), (100, squared_relu))
        ),
        *(
            (n, lambda a, b, c, f=f: f(columns(c, columns(a, b))), lambda a, b, c, f=f: f(columns(a, columns(b, c))),
             (2, 1, 3, 3), (2, 2, 3, 3), (2, 3, 3, 3))
            for n, f in ((101, squared), (102, squared_relu))
        ),
    ]  # fmt: skip
    factors: list[tuple[Any, ...]] = [
        (36, lambda a, b, c: a * (b + c), lambda a, b, c: a * b + a * c),
        (37, lambda a, b, c: b * (a + c), lambda a, b, c: a * b + b * c),
        (40, lambda a, b, c: c * (a + b), lambda a, b, c: a * c + b * c),
        (47, lambda a, b, c: c * (a + b), lambda a, b, c: b * c + a * c),
        (57, lambda a, b, c: a * (b + c), lambda a, b, c: a * c + a * b),
        (58, lambda a, b, c: b * (a + c), lambda a, b, c: b * c + a * b),
    ]  # fmt: skip
    convolutions: list[tuple[Any, ...]] = [
        (59, lambda x, v, w: conv(x, v + w), lambda x, v, w: conv(x, v) + conv(x, w), IMAGE, FILTERS, FILTERS),
        (60, lambda x, y, w: conv(x + y, w), lambda x, y, w: conv(x, w) + conv(y, w), IMAGE, IMAGE, FILTERS),
        (61, lambda x, v, w: conv(x, v + w), lambda x, v, w: conv(x, w) + conv(x, v), IMAGE, FILTERS, FILTERS),
        (62, lambda x, y, w: conv(x + y, w), lambda x, y, w: conv(y, w) + conv(x, w), IMAGE, IMAGE, FILTERS),
        (63, lambda x, w: relu(conv(x, w)), conv_relu, IMAGE, FILTERS),
        (64, lambda x, v, w: conv_relu(relu(conv(x, v)), w), lambda x, v, w: relu(conv(conv_relu(x, v), w)), IMAGE,
         FILTERS, (5, 4, 3, 3)),
        (65, lambda x, y, w: relu(columns(x, conv(y, w))), lambda x, y, w: columns(relu(x), conv_relu(y, w)),
         (2, 5, 6, 7), IMAGE, FILTERS),
        (66, lambda x, y, w: relu(rows(x, conv(y, w))), lambda x, y, w: rows(relu(x), conv_relu(y, w)), (5, 4, 6, 7),
         IMAGE, FILTERS),
        *(
            (n, lambda x, y, v, w: conv(x, v) + conv(y, w), lambda x, y, v, w: conv(columns(x, y), columns(v, w)),
             IMAGE, (2, 5, 6, 7), FILTERS, (4, 5, 3, 3))
            for n in (91, 98)
        ),
        *(
            (n, lambda x, y, v, w: columns(conv(x, v), conv(y, w)),
             lambda x, y, v, w: conv(columns(x, y), rows(v, w)), IMAGE, IMAGE, FILTERS, FILTERS)
            for n in (92, 118)
        ),
        *(
            (n, lambda x, y, v, w: columns(conv_relu(x, v), conv_relu(y, w)),
             lambda x, y, v, w: conv_relu(columns(x, y), rows(v, w)), IMAGE, IMAGE, FILTERS, FILTERS)
            for n in (93, 119)
        ),
        (107, lambda x, y, w: rows(conv(x, w), conv(y, w)), lambda x, y, w: conv(rows(x, y), w), IMAGE, (3, 3, 6, 7),
         FILTERS),
        (108, lambda x, y, w: rows(conv_relu(x, w), conv_relu(y, w)), lambda x, y, w: relu(conv(rows(x, y), w)), IMAGE,
         (3, 3, 6, 7), FILTERS),
        (109, lambda x, y, w: rows(conv_relu(x, w), conv_relu(y, w)), lambda x, y, w: conv_relu(rows(x, y), w), IMAGE,
         (3, 3, 6, 7), FILTERS),
        (115, lambda x, v, w: columns(conv(x, v), conv(x, w)), lambda x, v, w: conv(x, rows(v, w)), IMAGE, FILTERS,
         MORE_FILTERS),
        (116, lambda x, v, w: columns(conv_relu(x, v), conv_relu(x, w)), lambda x, v, w: relu(conv(x, rows(v, w))),
         IMAGE, FILTERS, MORE_FILTERS),
        (117, lambda x, v, w: columns(conv_relu(x, v), conv_relu(x, w)), lambda x, v, w: conv_relu(x, rows(v, w)),
         IMAGE, FILTERS, MORE_FILTERS),
    ]  # fmt: skip
    parts: list[tuple[Any, ...]] = [
        (67, lambda a, b: columns(relu(a), relu(b)), lambda a, b: relu(columns(a, b)), M23, (2, 4)),
        (75, lambda a, b: rows(relu(a), relu(b)), lambda a, b: relu(rows(a, b)), M23, M43),
        (78, lambda a, b, c, d: rows(columns(a, b), columns(c, d)), lambda a, b, c, d: columns(rows(a, c), rows(b, d)),
         M23, (2, 4), (5, 3), (5, 4)),
        (88, lambda x, y: columns(relu(x), relu(y)), lambda x, y: relu(columns(x, y)), IMAGE, (2, 5, 6, 7)),
        (110, lambda x, y: rows(relu(x), relu(y)), lambda x, y: relu(rows(x, y)), IMAGE, (3, 3, 6, 7)),
        (120, lambda a, b, c: rows(columns(a, b), columns(b, c)), lambda a, b, c: columns(rows(a, b), rows(b, c)),
         IMAGE, IMAGE, IMAGE),
    ]  # fmt: skip

    def both(numbers: tuple[int, int], left: Any, right: Any, *shapes: tuple[int, ...]) -> None:
        for n, f in zip(numbers, (np.add, np.multiply), strict=True):
            parts.append((n, lambda *a, f=f: left(f, *a), lambda *a, f=f: right(f, *a), *shapes))

    for numbers, join, shape in (
        ((68, 69), columns, SAME), ((89, 90), columns, IMAGE), ((111, 112), rows, IMAGE),
    ):  # fmt: skip
        both(numbers, lambda f, a, b, c, j=join: j(f(a, b), f(b, c)), lambda f, a, b, c, j=join: f(j(a, b), j(b, c)),
             shape, shape, shape)  # fmt: skip
    for numbers, join, shape in (
        ((71, 72), columns, SAME), ((94, 95), columns, IMAGE), ((113, 114), rows, IMAGE),
    ):  # fmt: skip
        both(numbers, lambda f, a, b, c, j=join: j(f(a, b), f(b, c)), lambda f, a, b, c, j=join: f(j(b, c), j(a, b)),
             shape, shape, shape)  # fmt: skip
    unequal = (SAME, SAME, (3, 5), (3, 5))
    for numbers, right in (
        ((76, 77), lambda f, a, b, c, d: f(rows(a, c), rows(b, d))),
        ((79, 80), lambda f, a, b, c, d: f(rows(a, d), rows(b, c))),
        ((81, 82), lambda f, a, b, c, d: f(rows(b, c), rows(a, d))),
        ((83, 84), lambda f, a, b, c, d: f(rows(b, d), rows(a, c))),
    ):
        both(numbers, lambda f, a, b, c, d: rows(f(a, b), f(c, d)), right, *unequal)
    both((96, 97), lambda f, a, b, c, d: f(columns(a, b), columns(c, d)),
         lambda f, a, b, c, d: f(columns(c, b), columns(a, d)), IMAGE, (2, 5, 6, 7), IMAGE, (2, 5, 6, 7))  # fmt: skip
    for numbers, right in (
        ((103, 104), lambda f, a, b, c, d: f(rows(a, d), rows(b, c))),
        ((105, 106), lambda f, a, b, c, d: f(rows(b, c), rows(a, d))),
    ):
        both(numbers, lambda f, a, b, c, d: f(rows(a, c), rows(b, d)), right, IMAGE, IMAGE, (3, 3, 6, 7), (3, 3, 6, 7))

    substitutions = [_numbered("substitution", row) for row in (*chains, *products, *factors, *convolutions, *parts)]
    substitutions += [_numbered("substitution", row, GROWS) for row in grown]
    substitutions += [_numbered("substitution", row, numerics="approximate") for row in sums]  # which may cancel
    substitutions += [_numbered("substitution", row, GROWS, "approximate") for row in grown_sums]
    return sorted(substitutions, key=lambda e: int(e.source.split()[-1]))


def _numbered(
    what: str, row: tuple[Any, ...], laws: tuple[str, ...] = ("all",), numerics: str = "reassociate"
) -> Substitution:
    number, left, right, *shapes = row
    return Substitution(f"{what} {number}", left, right, tuple(shapes) or (SAME,) * 3, laws, numerics)


def _pairs() -> list[Substitution]:
    """Two outputs on either side: shared operands are concatenated, the product is split."""
    images, filters = (IMAGE, (3, 3, 6, 7), FILTERS), (IMAGE, FILTERS, MORE_FILTERS)
    pairs: list[tuple[Any, ...]] = [
        (1, lambda b, c: ((b @ c) @ b, c @ (b @ c)), lambda b, c: (b @ (c @ b), (c @ b) @ c), M34, M43),
        *(
            (n, lambda x, y, v, w: (relu(conv(x, v)), conv_relu(y, w)),
             lambda x, y, v, w: (conv_relu(x, v), relu(conv(y, w))), IMAGE, (3, 3, 6, 7), FILTERS, MORE_FILTERS)
            for n in (2, 3)
        ),
        (4, lambda a, b: (relu(a), relu(b)), lambda a, b: split(relu(columns(a, b)), a, 1), M23, (2, 4)),
        (5, lambda a, b, c: (a @ b, a @ c), lambda a, b, c: split(a @ columns(b, c), b, 1), M23, M34, (3, 5)),
        (6, lambda a, b, c: (a @ c, b @ c), lambda a, b, c: split(rows(a, b) @ c, a, 0), M23, M43, M34),
        (7, lambda a, b: (relu(a), relu(b)), lambda a, b: split(relu(rows(a, b)), a, 0), M23, M43),
        (8, lambda x, y: (relu(x), relu(y)), lambda x, y: split(relu(columns(x, y)), x, 1), IMAGE, (2, 5, 6, 7)),
        (9, lambda x, y, w: (conv(x, w), conv(y, w)), lambda x, y, w: split(conv(rows(x, y), w), x, 0), *images),
        (10, lambda x, y, w: (relu(conv(x, w)), conv_relu(y, w)),
         lambda x, y, w: split(conv_relu(rows(x, y), w), x, 0), *images),
        (11, lambda x, y: (relu(x), relu(y)), lambda x, y: split(relu(rows(x, y)), x, 0), IMAGE, (3, 3, 6, 7)),
        (12, lambda x, v, w: (conv(x, v), conv(x, w)), lambda x, v, w: _by_filters(conv(x, rows(v, w)), v), *filters),
        (13, lambda x, v, w: (relu(conv(x, v)), conv_relu(x, w)),
         lambda x, v, w: _by_filters(conv_relu(x, rows(v, w)), v), *filters),
    ]  # fmt: skip
    return [_numbered("pair", row) for row in pairs]


def _by_filters(y: Any, w: Any) -> tuple[Any, Any]:
    return y[:, : w.shape[0]], y[:, w.shape[0] :]


def enlarge(w: Any, extent: int) -> Any:
    """The kernel in the middle of one of `extent`."""
    widths = [((extent - k) // 2,) * 2 for k in w.shape[2:]]
    return np.pad(w, [(0, 0), (0, 0), *widths])


def merge(w: Any) -> Any:
    """Filters of two groups as filters of one."""
    o, zeros = w.shape[0] // 2, np.zeros((w.shape[0] // 2, *w.shape[1:]), F)
    return rows(columns(w[:o], zeros), columns(zeros, w[o:]))


def _predefined() -> list[Substitution]:
    approximate = {"numerics": "approximate"}  # zeros among the weights lose the NaN of what they meet
    single = [
        Substitution(f"predefined {n}", lambda x, w, f=f, s=s: f(x, w, s), lambda x, w, f=f, s=s: f(x, merge(w), s),
                 ((2, 4, 6, 7), (6, 2, 3, 3)), ZEROS, **approximate)  # type: ignore[misc]
        for n, (f, s) in enumerate(((conv, 1), (conv_relu, 1), (conv, 2), (conv_relu, 2)), 1)
    ]  # fmt: skip
    return single + [
        Substitution(f"predefined pair {n}", lambda x, v, w, f=f: (f(x, v), f(x, w)),
                 lambda x, v, w, f=f: _by_filters(f(x, rows(enlarge(v, 3), w)), v),
                 (IMAGE, (4, 3, 1, 1), MORE_FILTERS), **approximate)  # type: ignore[misc]
        for n, f in enumerate((conv, conv_relu), 1)
    ]  # fmt: skip


SUBSTITUTIONS = [*_single(), *_pairs(), *_predefined()]
