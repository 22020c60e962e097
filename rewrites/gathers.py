"""Laws of gathers: what takes rows by a list of indices, or picks one element along an axis.

In: nothing. Out: `LAWS`. Gathers move inwards, where they save work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqfuse.ops import row
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import EXACT, REASSOCIATES, Law, Term, apply, attrs, bounded, computed, guard, tensors
from eqfuse.rewrites.language.views import Ranges, moved_axis
from eqfuse.rewrites.layout import ARITHMETIC, COMMON, of_complex, unary

x, y, w, i, j = tensors("x y w i j")
p, s, d, axis, stable = attrs("p s d axis stable")


def pick(a: Term, indices: Term) -> Term:
    return apply("take_along_axis", a, indices, attrs=(axis,))


def _matrices_and_list(t: TensorType, u: TensorType, i: TensorType) -> bool:
    return (t.rank, u.rank, i.rank) == (2, 2, 1)


def _axis_free(t: TensorType, axis: int) -> bool:
    return t.extent(axis) == 1


def _same_axis(t: TensorType, u: TensorType, axis: int) -> int | None:
    """The axis of `u` that `t` has, too: of another extent, the indices would mean other elements."""
    return axis if t.shape == u.shape else None


def _takes_less(t: TensorType, i: TensorType, axis: int) -> bool:
    return i.size < t.extent(axis)


def _list_of(ranges: Ranges, axis: int) -> Ranges:
    return (ranges[axis],)


def _but_axis(t: TensorType, ranges: Ranges, axis: int) -> Ranges:
    """The slice before a gather along `axis`: all along it."""
    position = len(ranges) + axis
    return (*ranges[:position], (0, t.shape[axis], 1), *ranges[position + 1 :])


a_list = guard("i is a list", lambda i: i.rank == 1, i)
constant_along = guard("y has extent 1 on the axis", _axis_free, y, axis)
scalar = guard("y is a scalar", lambda y: y.rank == 0, y)


def _laws_of_binary(op: str) -> list[Law]:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    sides: list[tuple[Callable[[Any, Any], Term], str]] = [(f, "")]
    if not row(op).commutes:
        sides.append((lambda a, b: f(b, a), "_right"))
    return [
        Law(f"take_into_{op}", f(x, y).take(i, axis), f(x.take(i, axis), y.take(i, computed(_same_axis, x, y, axis))),
            (bounded("i takes less than all of x", _takes_less, x, i, axis),), EXACT),
        *(Law(f"take_into_{op}_over_scalar{side}", g(x, y).take(i, axis), g(x.take(i, axis), y), (scalar,), EXACT)
          for g, side in sides),
        *(Law(f"take_into_{op}_over_constant{side}", g(x, y).take(i, axis), g(x.take(i, axis), y),
              (constant_along, a_list), EXACT) for g, side in sides),
    ]  # fmt: skip


_OF_REALS = [
    *(Law(f"take_into_{op}", unary(op)(x).take(i, axis), unary(op)(x.take(i, axis)), exactness=EXACT)
      for op in COMMON),
    *(law for op in ARITHMETIC for law in _laws_of_binary(op)),
    Law("take_into_cast", x.cast(d).take(i, axis), x.take(i, axis).cast(d), exactness=EXACT),
    Law("take_of_take", x.take(i, axis).take(j, axis), x.take(i.take(j, -1), axis), exactness=EXACT),
    Law("take_of_transpose", x.transpose(p).take(i, axis), x.take(i, computed(moved_axis, p, axis)).transpose(p),
        exactness=EXACT),
    Law("slice_of_take", x.take(i, axis).slice(s),
        x.slice(computed(_but_axis, x, s, axis)).take(i.slice(computed(_list_of, s, axis)), axis), (a_list,), EXACT),
    *(Law(f"take_into_{op}", apply(op, x, attrs=(p,)).take(i, axis), apply(op, x.take(i, axis), attrs=(p,)),
          (guard("the axis is not reduced", lambda axis, p: axis not in p, axis, p),),
          EXACT if op in ("any", "all") else REASSOCIATES)
      for op in ("sum", "prod", "max", "min", "any", "all")),
    Law("take_rows_of_product", (x @ w).take(i, -2), x.take(i, -2) @ w,
        (guard("x and w are matrices, i is a list", _matrices_and_list, x, w, i),), REASSOCIATES),
    Law("take_columns_of_product", (x @ w).take(i, -1), x @ w.take(i, -1),
        (guard("x and w are matrices, i is a list", _matrices_and_list, x, w, i),), REASSOCIATES),
    # gathers that pick along an axis
    *(Law(f"pick_into_{op}", pick(unary(op)(x), i), unary(op)(pick(x, i)), exactness=EXACT)
      for op in ("negative", "log", "exp", "sqrt", "tanh", "abs")),
    Law("pick_from_difference", pick(x - y, i), pick(x, i) - y, (constant_along,), EXACT),
    Law("pick_from_quotient", pick(x / y, i), pick(x, i) / y, (constant_along,), EXACT),
    Law("pick_from_sum", pick(x + y, i), pick(x, i) + y, (constant_along,), EXACT),
    Law("pick_from_product", pick(x * y, i), pick(x, i) * y, (constant_along,), EXACT),
    Law("largest_picked", pick(x, apply("argmax", x, attrs=(p,))), x.max(p),
        (guard("p is the axis", lambda p, axis: p == (axis,), p, axis),), REASSOCIATES),
    Law("smallest_picked", pick(x, apply("argmin", x, attrs=(p,))), x.min(p),
        (guard("p is the axis", lambda p, axis: p == (axis,), p, axis),), REASSOCIATES),
    Law("sorted_by_argsort", pick(x, apply("argsort", x, attrs=(axis, stable))),
        apply("sort", x, attrs=(axis, stable)), exactness=REASSOCIATES),
]  # fmt: skip

# an index does not look at what it moves
LAWS = [of_complex(law) for law in _OF_REALS]
