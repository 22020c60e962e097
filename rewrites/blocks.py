"""Laws of concatenated operands: work on the whole is work on the parts.

In: nothing. Out: `LAWS`, and `GROUPING`, which concatenates what shares an operand: only by name, as it brings all of
`LAWS` into every program with products. A concatenation of more than two is read as one of two, the first of which is
one again. The types of both sides decide most of what a guard would say: a law about rows cannot be read along columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ir import TensorType
from eqfuse.ops.contractions import window_extents
from eqfuse.rewrites.law import (
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    computed,
    given,
    guard,
    over_complex,
    tensors,
)
from eqfuse.rewrites.words import maximum, minimum

x, y, z, w, u, s = tensors("x y z w u s")
p, q, axis, other, d = attrs("p q axis other d")
strides, padding, dilations, groups, window = attrs("strides padding dilations groups window")
GEOMETRY = (strides, padding, dilations)

UNARY = ("negative", "abs", "exp", "log", "sqrt", "square", "tanh", "erf", "sin", "cos")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
PARTS = 6  # of a concatenation, at most

Ranges = tuple[tuple[int, int, int], ...]


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


def _moved(p: tuple[int, ...], axis: int) -> int:
    """Where `axis` stands before the transpose `p`."""
    return p[axis] - len(p)


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


def _of_part(t: TensorType, s: Ranges, axis: int) -> Ranges:
    here = len(s) + axis
    return (*s[:here], (0, t.extent(axis), 1), *s[here + 1 :])


def _of_images(x: TensorType, s: Ranges) -> Ranges:
    return (s[0], *((0, n, 1) for n in x.shape[1:]))


def _of_filters(w: TensorType, s: Ranges) -> Ranges:
    return (s[1], *((0, n, 1) for n in w.shape[1:]))


def _columns_of(x: TensorType, *weights: TensorType) -> Ranges:
    """Where the product with the last of `weights` stands in the product with all of them side by side."""
    batch = np.broadcast_shapes(x.shape[:-2], weights[0].shape[:-2])
    start = sum(w.shape[-1] for w in weights[:-1])
    return (*((0, n, 1) for n in (*batch, x.shape[-2])), (start, start + weights[-1].shape[-1], 1))


def _rows_of(w: TensorType, *images: TensorType) -> Ranges:
    batch = np.broadcast_shapes(images[0].shape[:-2], w.shape[:-2])
    start = sum(x.shape[-2] for x in images[:-1])
    return (*((0, n, 1) for n in batch), (start, start + images[-1].shape[-2], 1), (0, w.shape[-1], 1))


def _filters_of(x: TensorType, strides: Any, padding: Any, dilations: Any, *filters: TensorType) -> Ranges:
    """Where the channels that the last of `filters` makes stand among those of all."""
    space = window_extents("conv", (x,), filters[-1].shape[2:], strides, padding, dilations)
    start = sum(w.shape[0] for w in filters[:-1])
    return ((0, x.shape[0], 1), (start, start + filters[-1].shape[0], 1), *((0, n, 1) for n in space))


def _stacked(x: TensorType) -> tuple[int, ...]:
    return (1, *x.shape)


def _first_layer(x: TensorType, w: TensorType) -> Ranges:
    return ((0, 1, 1), *((0, n, 1) for n in _result(x, w)))


def _second_layer(x: TensorType, w: TensorType) -> Ranges:
    return ((1, 2, 1), *((0, n, 1) for n in _result(x, w)))


def _new_axis(x: TensorType) -> int:
    return -1 - x.rank


def _result(x: TensorType, w: TensorType) -> tuple[int, ...]:
    return (*np.broadcast_shapes(x.shape[:-2], w.shape[:-2]), x.shape[-2], w.shape[-1])


def _stack(a: Term, b: Term) -> Term:
    return concat(a.reshape(computed(_stacked, a)), b.reshape(computed(_stacked, b)), axis=computed(_new_axis, a))


def _shared_left(*weights: Term) -> Law:
    together = x @ concat(*weights, axis=-1)
    slices = [together.slice(computed(_columns_of, x, *weights[: at + 1])) for at in range(len(weights))]
    return Law(f"{len(weights)}_products_share_left", tuple(x @ w for w in weights), tuple(slices),
               (given(*weights),), REASSOCIATES)  # fmt: skip


def _laws_of_arity(n: int) -> list[Law]:
    parts = tensors(" ".join(f"x{i}" for i in range(n)))
    return [
        Law(f"concat_of_{n}_nests", concat(*parts), concat(concat(*parts[:-1]), parts[-1]), exactness=EXACT, both=True),
        Law(f"concat_of_{n}_flattens", concat(parts[0], concat(*parts[1:])), concat(*parts), exactness=EXACT),
    ]


def _law_of_unary(op: str) -> Law:
    def f(a: Term) -> Term:
        return apply(op, a)

    return Law(f"{op}_of_parts", f(concat(x, y)), concat(f(x), f(y)), exactness=EXACT, both=True)


def _laws_of_binary(op: str) -> list[Law]:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    laws = [
        Law(f"{op}_of_parts", f(concat(x, y), concat(z, w)), concat(f(x, z), f(y, w)), (agree(x, z),), EXACT),
        Law(f"{op}_of_parts_and_constant", f(concat(x, y), s), concat(f(x, s), f(y, s)), exactness=EXACT, both=True),
    ]
    if op in ("subtract", "divide"):
        name = f"{op}_of_constant_and_parts"
        laws.append(Law(name, f(s, concat(x, y)), concat(f(s, x), f(s, y)), exactness=EXACT, both=True))
    return laws


def _laws_of_reduction(op: str, meet: Callable[[Term, Term], Term]) -> list[Law]:
    def f(a: Term) -> Term:
        return apply(op, a, attrs=(p,))

    return [
        Law(f"{op}_of_each_part", f(concat(x, y)), concat(f(x), f(y)), exactness=REASSOCIATES, both=True),
        Law(f"{op}_over_parts", f(concat(x, y)), meet(f(x), f(y)), exactness=REASSOCIATES),
    ]


def _law_of_window(op: str) -> Law:
    def f(a: Term) -> Term:
        return apply(op, a, attrs=(window, strides, padding))

    outside = guard("the axis is not in the window", lambda w, a: -a > len(w), window, axis)
    return Law(f"{op}_of_parts", f(concat(x, y)), concat(f(x), f(y)), (outside,), REASSOCIATES, both=True)


LAWS = [
    # more than two parts, parts of parts, parts that are slices of one tensor
    *(law for n in range(3, PARTS + 1) for law in _laws_of_arity(n)),
    Law("blocks_by_rows_or_columns", concat(concat(x, y, axis=other), concat(z, w, axis=other)),
        concat(concat(x, z), concat(y, w), axis=other),
        (guard("the axes differ", lambda a, b: a != b, axis, other),), EXACT),
    Law("neighbouring_slices_meet", concat(x.slice(p), x.slice(q)), x.slice(computed(_joined, p, q, axis)),
        (guard("the second slice goes on where the first stops", _pieces_meet, p, q, axis),), EXACT),
    Law("slice_of_parts", concat(x, y).slice(p),
        concat(x.slice(computed(_of_part, x, p, axis)), y.slice(computed(_of_part, y, p, axis))), exactness=EXACT),
    Law("concat_of_transposes", concat(x.transpose(p), y.transpose(p)),
        concat(x, y, axis=computed(_moved, p, axis)).transpose(p), exactness=EXACT),
    # work on elements, reductions, pooling
    *map(_law_of_unary, UNARY),
    Law("cast_of_parts", concat(x, y).cast(d), concat(x.cast(d), y.cast(d)), exactness=EXACT, both=True),
    *(law for op in BINARY for law in _laws_of_binary(op)),
    *_laws_of_reduction("sum", lambda a, b: a + b),
    *_laws_of_reduction("max", maximum),
    *_laws_of_reduction("min", minimum),
    *map(_law_of_window, ("window_max", "window_sum")),
    # products: [x; y] z, x [y z], [x z] [y; w], [x y] w
    Law("rows_in_parts", concat(x, y) @ z, concat(x @ z, y @ z), exactness=REASSOCIATES, both=True),
    Law("columns_in_parts", x @ concat(y, z), concat(x @ y, x @ z), exactness=REASSOCIATES, both=True),
    Law("contracted_parts", concat(x, z, axis=-1) @ concat(y, w, axis=-2), x @ y + z @ w, exactness=REASSOCIATES),
    Law("contracted_parts_of_one", concat(x, y, axis=-1) @ w,
        x @ w.slice(computed(_first_rows, w, x)) + y @ w.slice(computed(_last_rows, w, x)), exactness=REASSOCIATES),
    # convolutions: images, filters, channels
    Law("images_in_parts", conv(concat(x, y), w), concat(conv(x, w), conv(y, w)), (images,), REASSOCIATES, both=True),
    Law("filters_in_parts", conv(x, concat(w, u), 1),
        concat(conv(x, w, 1), conv(x, u, 1), axis=computed(_second_axis, w)),
        exactness=REASSOCIATES),
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

_side_by_side = concat(x, y, axis=-2) @ w
_both_filters = conv(x, concat(w, u, axis=computed(_first_axis, w)), 1)
_batch = _stack(x, y) @ _stack(w, u)

GROUPING = over_complex([
    _shared_left(w, u),
    _shared_left(w, u, z),
    Law("2_products_share_right", (x @ w, y @ w),
        (_side_by_side.slice(computed(_rows_of, w, x)), _side_by_side.slice(computed(_rows_of, w, x, y))),
        (given(x, y),), REASSOCIATES),
    Law("2_products_in_a_batch", (x @ w, y @ u),
        (_batch.slice(computed(_first_layer, x, w)).reshape(computed(_result, x, w)),
         _batch.slice(computed(_second_layer, x, w)).reshape(computed(_result, y, u))),
        (guard("x and w have one rank", lambda x, w: x.rank == w.rank, x, w), given(x, y, w, u)), REASSOCIATES),
    Law("2_convolutions_share_image", (conv(x, w, 1), conv(x, u, 1)),
        (_both_filters.slice(computed(_filters_of, x, *GEOMETRY, w)),
         _both_filters.slice(computed(_filters_of, x, *GEOMETRY, w, u))), (given(w, u),), REASSOCIATES),
], REASSOCIATES)  # fmt: skip

# parts hold complex numbers too; order is not
LAWS = over_complex(LAWS, EXACT, **{
    law.name: None if "max" in law.name or "min" in law.name else REASSOCIATES
    for law in LAWS if law.exactness == REASSOCIATES or law.lhs.op not in ("concat", "slice")
})  # fmt: skip
