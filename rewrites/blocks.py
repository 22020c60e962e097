"""Laws of concatenated operands: work on the whole is work on the parts.

In: nothing. Out: `LAWS`. A concatenation of more than two is read as one of two, the first of which is one again. The
types of both sides decide most of what a guard would say: a law about rows cannot be read along columns.
"""

from __future__ import annotations

from typing import Any

from eqfuse.ops.index_map import Ranges
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import (
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    computed,
    guard,
    over_complex,
    tensors,
)
from eqfuse.rewrites.language.words import exp

x, y, z, w, u, s = tensors("x y z w u s")
p, q, axis, other, d = attrs("p q axis other d")
strides, padding, dilations, groups, window = attrs("strides padding dilations groups window")
GEOMETRY = (strides, padding, dilations)

JOINED_OPERATORS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
CONCAT_PARTS = 6  # of a concatenation, at most



def concat(*parts: Term, axis: Any = axis) -> Term:
    return apply("concat", *parts, attrs=(axis,))


def conv(x: Term, w: Term, groups: Any = groups) -> Term:
    return apply("conv", x, w, attrs=(*GEOMETRY, groups))


def agree(t: Term, u: Term) -> Guard:
    """Else a part of extent 1 could meet two elements."""
    return guard(f"{t} and {u} agree along the axis", lambda t, u, a: t.extent(a) == u.extent(a), t, u, axis)


# images count batch, channels, then space; weights output channels, input channels, then space
images = guard("the axis counts images", lambda x, a: a == -x.rank, x, axis)
channels = guard("the axis counts channels", lambda x, a: a == 1 - x.rank, x, axis)


def _first_axis(w: TensorType) -> int:
    return -w.rank


def _second_axis(w: TensorType) -> int:
    return 1 - w.rank


def _first_rows(w: TensorType, x: TensorType) -> Ranges:
    """Of `w`, the rows that meet the columns of `x`."""
    return (*((0, n, 1) for n in w.shape[:-2]), (0, x.shape[-1], 1), (0, w.shape[-1], 1))


def _last_rows(w: TensorType, x: TensorType) -> Ranges:
    return (*((0, n, 1) for n in w.shape[:-2]), (x.shape[-1], w.shape[-2], 1), (0, w.shape[-1], 1))


def _pieces_meet(s: Ranges, t: Ranges, axis: int) -> bool:
    """`t` goes on along `axis` where `s` stops, with equal steps, and both take the same elsewhere."""
    (start, stop, step), after = s[axis], t[axis]
    n = len(range(start, stop, step))
    here = len(s) + axis
    elsewhere = s[:here] + s[here + 1 :] == t[:here] + t[here + 1 :]
    return elsewhere and n > 0 and after[2] == step and after[0] == start + n * step


def _joined(s: Ranges, t: Ranges, axis: int) -> Ranges:
    here = len(s) + axis
    return (*s[:here], (s[axis][0], max(s[axis][1], t[axis][1]), s[axis][2]), *s[here + 1 :])


def _of_images(x: TensorType, s: Ranges) -> Ranges:
    return (s[0], *((0, n, 1) for n in x.shape[1:]))


def _of_filters(w: TensorType, s: Ranges) -> Ranges:
    return (s[1], *((0, n, 1) for n in w.shape[1:]))


def _laws_of_arity(n: int) -> list[Law]:
    parts = tensors(" ".join(f"x{i}" for i in range(n)))
    return [
        Law(f"concat_of_{n}_nests", concat(*parts), concat(concat(*parts[:-1]), parts[-1]), exactness=EXACT, both=True),
        Law(f"concat_of_{n}_flattens", concat(parts[0], concat(*parts[1:])), concat(*parts), exactness=EXACT),
    ]


def _law_of_binary(op: str) -> Law:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    return Law(f"{op}_part_by_part", f(concat(x, y), concat(z, w)), concat(f(x, z), f(y, w)), (agree(x, z),), EXACT)


def _law_of_constant(op: str) -> Law:
    """The way back from `eqfuse.rewrites.joins`: blocks of exponentials are made apart."""

    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    return Law(f"{op}_into_parts", f(concat(x, y), s), concat(f(x, s), f(y, s)), exactness=EXACT)


def _law_of_window(op: str) -> Law:
    def f(a: Term) -> Term:
        return apply(op, a, attrs=(window, strides, padding))

    outside = guard("the axis is not in the window", lambda w, a: -a > len(w), window, axis)
    return Law(f"{op}_of_parts", f(concat(x, y)), concat(f(x), f(y)), (outside,), REASSOCIATES, both=True)


LAWS = [
    # more than two parts, parts of parts, parts that are slices of one tensor
    *(law for n in range(3, CONCAT_PARTS + 1) for law in _laws_of_arity(n)),
    Law("blocks_by_rows_or_columns", concat(concat(x, y, axis=other), concat(z, w, axis=other)),
        concat(concat(x, z), concat(y, w), axis=other),
        (guard("the axes differ", lambda a, b: a != b, axis, other),), EXACT),
    Law("neighbouring_slices_meet", concat(x.slice(p), x.slice(q)), x.slice(computed(_joined, p, q, axis)),
        (guard("the second slice goes on where the first stops", _pieces_meet, p, q, axis),), EXACT),
    # work on elements, pooling
    Law("cast_of_parts", concat(x, y).cast(d), concat(x.cast(d), y.cast(d)), exactness=EXACT, both=True),
    *map(_law_of_binary, JOINED_OPERATORS),
    *map(_law_of_constant, ("add", "subtract", "multiply", "divide")),
    Law("exp_into_parts", exp(concat(x, y)), concat(exp(x), exp(y)), exactness=EXACT),
    *map(_law_of_window, ("window_max", "window_sum")),
    # products: [x; y] z, x [y z], [x z] [y; w], [x y] w
    Law("rows_in_parts", concat(x, y) @ z, concat(x @ z, y @ z), exactness=REASSOCIATES, both=True),
    Law("columns_in_parts", x @ concat(y, z), concat(x @ y, x @ z), exactness=REASSOCIATES, both=True),
    Law("contracted_parts_of_one", concat(x, y, axis=-1) @ w,
        x @ w.slice(computed(_first_rows, w, x)) + y @ w.slice(computed(_last_rows, w, x)), exactness=REASSOCIATES),
    # convolutions: images, filters, channels
    Law("images_in_parts", conv(concat(x, y), w), concat(conv(x, w), conv(y, w)), (images,), REASSOCIATES, both=True),
    Law("filters_in_parts", conv(x, concat(w, u), 1),
        concat(conv(x, w, 1), conv(x, u, 1), axis=computed(_second_axis, w)), exactness=REASSOCIATES),
    Law("filters_meet", concat(conv(x, w, 1), conv(x, u, 1)), conv(x, concat(w, u, axis=computed(_first_axis, w)), 1),
        exactness=REASSOCIATES),
    Law("channels_in_parts", conv(concat(x, y), concat(w, u), 1), conv(x, w, 1) + conv(y, u, 1), (channels,),
        REASSOCIATES),
    Law("filters_in_groups", concat(conv(x, w, groups), conv(y, u, groups)),
        conv(concat(x, y), concat(w, u, axis=computed(_first_axis, w)), computed(lambda g: 2 * g, groups)),
        (guard("as many filters of each", lambda w, u: w.shape[0] == u.shape[0], w, u),), REASSOCIATES),
    Law("slice_into_conv", conv(x, w, 1).slice(p),
        conv(x.slice(computed(_of_images, x, p)), w.slice(computed(_of_filters, w, p)), 1), exactness=REASSOCIATES),
]  # fmt: skip

# parts hold complex numbers too; order is not
LAWS = over_complex(LAWS, EXACT, **{
    law.name: None if "max" in law.name or "min" in law.name else REASSOCIATES
    for law in LAWS if law.exactness == REASSOCIATES or law.lefts[0].op not in ("concat", "slice")
})  # fmt: skip
