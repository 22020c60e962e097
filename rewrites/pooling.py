"""Laws of pooling: what is done before or after the maximum or the sum of windows, and pooling that is simpler.

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

from typing import Any

from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.domains import domain
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    computed,
    finite,
    floating,
    guard,
    nonempty,
    over_complex,
    over_float16,
    positive,
    tensors,
)
from eqfuse.rewrites.language.words import maximum, minimum

x, y, c = tensors("x y c")
window, strides, padding = WINDOW = attrs("window strides padding")
window2, strides2, padding2 = WINDOW2 = attrs("window2 strides2 padding2")

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
# functions that never fall: with a least value, without one, of positive numbers only
BOUNDED = ("exp", "expm1", "tanh", "erf", "atan", "sign")
UNBOUNDED = ("cbrt", "asinh", "floor", "ceil", "round")
PARTIAL_FUNCTIONS = ("sqrt", "log", "log1p")


def window_max(x: Term, geometry: tuple = WINDOW) -> Term:
    return apply("window_max", x, attrs=geometry)


def window_sum(x: Term, geometry: tuple = WINDOW) -> Term:
    return apply("window_sum", x, attrs=geometry)


def _constant_in_window(c: TensorType, window: Ints) -> bool:
    return all(c.extent(-a) == 1 for a in range(1, len(window) + 1))


def constant_in_window(c: Term) -> Guard:
    return guard(f"{c} has extent 1 along the window", _constant_in_window, c, window)


def is_unpadded(padding: Pairs) -> bool:
    return all(p == (0, 0) for p in padding)


def _composed(window: Ints, strides: Ints, window2: Ints) -> Ints | None:
    if len(window) != len(window2):
        return None
    return tuple(k + (k2 - 1) * s for k, s, k2 in zip(window, strides, window2, strict=True))


def _product(strides: Ints, strides2: Ints) -> Ints:
    return tuple(a * b for a, b in zip(strides, strides2, strict=True))


def _no_gaps(window: Ints, strides: Ints, padding: Pairs, padding2: Pairs) -> bool:
    return is_unpadded(padding) and is_unpadded(padding2) and all(s <= k for k, s in zip(window, strides, strict=True))


def _tiles(window: Ints, strides: Ints, padding: Pairs, padding2: Pairs) -> bool:
    return is_unpadded(padding) and is_unpadded(padding2) and window == strides


def _holds_all(x: TensorType, window: Ints, padding: Pairs) -> bool:
    return is_unpadded(padding) and x.shape[x.rank - len(window) :] == window


def _window_axes(window: Ints) -> Ints:
    return tuple(range(-len(window), 0))


same_shape = guard("x and y have one shape", lambda x, y: x.shape == y.shape, x, y)
x_nonempty = nonempty(x)  # else a window holds nothing but padding
over_all = guard("the window holds everything", _holds_all, x, window, padding)
point = guard("the window is a point", lambda w: set(w) == {1}, window)


def linear(name: str, f: Any, when: tuple[Guard, ...], a: Term, b: Term) -> list[Law]:
    """What is linear is done once: f(a) + f(b) is f(a + b), f(a) - f(b) is f(a - b)."""
    return [
        Law(f"sum_of_{name}", f(a) + f(b), f(a + b), when, REASSOCIATES),
        Law(f"difference_of_{name}", f(a) - f(b), f(a - b), when, REASSOCIATES),
    ]


LAWS = [
    # order and pooling
    Law("clamp_out_of_window_max", window_max(maximum(x, c)), maximum(window_max(x), c),
        (constant_in_window(c), x_nonempty), REASSOCIATES, both=True),
    Law("cap_out_of_window_max", window_max(minimum(x, c)), minimum(window_max(x), c),
        (constant_in_window(c),), REASSOCIATES),
    Law("shift_out_of_window_max", window_max(x + c), window_max(x) + c,
        (constant_in_window(c), floating(x)), REASSOCIATES),
    Law("positive_scale_out_of_window_max", window_max(x * c), window_max(x) * c,
        (constant_in_window(c), positive(c), floating(x)), REASSOCIATES),
    Law("positive_divisor_out_of_window_max", window_max(x / c), window_max(x) / c,
        (constant_in_window(c), positive(c), finite(c)), REASSOCIATES),
    *(Law(f"{f}_out_of_window_max", window_max(apply(f, x)), apply(f, window_max(x)), (x_nonempty,), REASSOCIATES)
      for f in BOUNDED),
    *(Law(f"{f}_out_of_window_max", window_max(apply(f, x)), apply(f, window_max(x)), exactness=REASSOCIATES)
      for f in UNBOUNDED),
    *(Law(f"{f}_out_of_window_max", window_max(apply(f, x)), apply(f, window_max(x)), domain(f, x), APPROXIMATE)
      for f in PARTIAL_FUNCTIONS),
    Law("scale_out_of_window_sum", window_sum(x * c), window_sum(x) * c,
        (constant_in_window(c),), REASSOCIATES),
    Law("divisor_out_of_window_sum", window_sum(x / c), window_sum(x) / c,
        (constant_in_window(c),), REASSOCIATES),
    Law("negative_out_of_window_sum", window_sum(-x), -window_sum(x), exactness=REASSOCIATES),
    *linear("window_sums", window_sum, (same_shape,), x, y),
    # pooling that is something simpler
    Law("window_max_twice", window_max(window_max(x), WINDOW2),
        window_max(x, (computed(_composed, window, strides, window2), computed(_product, strides, strides2), padding)),
        (guard("the first leaves no gaps, unpadded", _no_gaps, window, strides, padding, padding2),), REASSOCIATES),
    Law("window_sum_twice", window_sum(window_sum(x), WINDOW2),
        window_sum(x, (computed(_composed, window, strides, window2), computed(_product, strides, strides2), padding)),
        (guard("the first tiles the image", _tiles, window, strides, padding, padding2),), REASSOCIATES),
    Law("window_max_over_all", window_max(x), x.max(computed(_window_axes, window)), (over_all,), EXACT),
    Law("window_sum_over_all", window_sum(x), x.sum(computed(_window_axes, window)), (over_all,), REASSOCIATES),
    Law("window_max_of_points", window_max(x), x, (point,), EXACT),
    Law("window_sum_of_points", window_sum(x), x, (point,), REASSOCIATES),
]  # fmt: skip

LAWS = over_float16(
    LAWS, "scale_out_of_window_sum", "divisor_out_of_window_sum", "window_sum_twice", "sum_of_window_sums",
    "difference_of_window_sums",
)  # fmt: skip

# sums are of complex numbers too; order is not
LAWS = over_complex(LAWS, REASSOCIATES, **{law.name: None for law in LAWS if "window_max" in law.name})
