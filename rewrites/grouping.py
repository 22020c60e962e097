"""Laws of several outputs: work that shares an operand is done at once, on what else it reads side by side.

In: nothing. Out: `LAWS`. Each makes a larger kernel and cuts its result apart. What is put side by side must be the
program's own, so that the laws do not go on to put pairs of pairs side by side. They are used only by name: a copy that
puts inputs side by side is seldom worth the launch it saves, unless they are known when the program is built.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqfuse.ops import row
from eqfuse.ops.index_map import Ranges
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import (
    REASSOCIATES,
    Law,
    Term,
    apply,
    attrs,
    computed,
    guard,
    in_program,
    over_complex,
    tensors,
)

x, y, a, b, c = tensors("x y a b c")
CONV = strides, padding, dilations, groups = attrs("strides padding dilations groups")



def _columns(x: TensorType, *before: TensorType) -> Ranges:
    """Where the product of `x` with the last of `before` stands in its product with all side by side."""
    batch = np.broadcast_shapes(x.shape[:-2], before[-1].shape[:-2])
    return (*((0, n, 1) for n in (*batch, x.shape[-2])), _last([t.shape[-1] for t in before]))


def _rows(x: TensorType, *before: TensorType) -> Ranges:
    batch = np.broadcast_shapes(x.shape[:-2], before[-1].shape[:-2])
    return (*((0, n, 1) for n in batch), _last([t.shape[-2] for t in before]), (0, x.shape[-1], 1))


def _last(extents: list[int]) -> tuple[int, int, int]:
    return (sum(extents[:-1]), sum(extents), 1)


def beside(axis: object, *parts: Term) -> Term:
    return apply("concat", *parts, attrs=(axis,))


def _columns_of(*weights: Term) -> Law:
    """x @ a, x @ b == the columns of x @ [a b]"""
    product = x @ beside(-1, *weights)
    columns = tuple(product.slice(computed(_columns, x, *weights[: i + 1])) for i in range(len(weights)))
    name = f"{'two' if len(weights) == 2 else 'three'}_products_of_one_left"
    return Law(name, tuple(x @ w for w in weights), columns, (in_program(*weights),), REASSOCIATES)


def _rows_of(*factors: Term) -> Law:
    """a @ x, b @ x == the rows of [a; b] @ x"""
    product = beside(-2, *factors) @ x
    rows = tuple(product.slice(computed(_rows, x, *factors[: i + 1])) for i in range(len(factors)))
    name = f"{'two' if len(factors) == 2 else 'three'}_products_of_one_right"
    return Law(name, tuple(f @ x for f in factors), rows, (in_program(*factors),), REASSOCIATES)


def _result(x: TensorType, w: TensorType) -> tuple[int, ...]:
    return row("matmul").type([x, w], ()).shape


def _layer(layer: int) -> Callable[[TensorType, TensorType], Ranges]:
    """The slice that takes one of two stacked results."""
    return lambda x, w: ((layer, layer + 1, 1), *((0, n, 1) for n in _result(x, w)))


def _stack(a: Term, b: Term) -> Term:
    stacked = (t.reshape(computed(lambda t: (1, *t.shape), t)) for t in (a, b))
    return beside(computed(lambda t: -1 - t.rank, a), *stacked)


def _in_one_batch() -> Law:
    """x @ a, y @ b == the layers of [x, y] @ [a, b], stacked"""
    product = _stack(x, y) @ _stack(a, b)
    layers = tuple(product.slice(computed(_layer(i), x, a)).reshape(computed(_result, x, a)) for i in (0, 1))
    alike = guard("x and a have one rank", lambda x, a: x.rank == a.rank, x, a)
    return Law("two_products_in_one_batch", (x @ a, y @ b), layers, (alike, in_program(x, y, a, b)), REASSOCIATES)


def conv(x: Term, w: Term) -> Term:
    return apply("conv", x, w, attrs=CONV)


def _channels(
    x: TensorType, strides: tuple, padding: tuple, dilations: tuple, groups: int, *filters: TensorType
) -> Ranges:
    """Where the channels of the last of `filters` stand in the convolution with all side by side."""
    n, _, *extents = row("conv").type([x, filters[-1]], (strides, padding, dilations, groups)).shape
    return ((0, n, 1), _last([t.shape[0] for t in filters]), *((0, extent, 1) for extent in extents))


image = conv(x, beside(computed(lambda a: -a.rank, a), a, b))
first = computed(_channels, x, *CONV, a)
second = computed(_channels, x, *CONV, a, b)

LAWS = over_complex(
    [
        _columns_of(a, b),
        _columns_of(a, b, c),
        _rows_of(a, b),
        _rows_of(a, b, c),
        _in_one_batch(),
        # the channels of a convolution with all filters
        Law("two_convolutions_of_one_image", (conv(x, a), conv(x, b)), (image.slice(first), image.slice(second)),
            (in_program(a, b), guard("there is one group", lambda groups: groups == 1, groups)), REASSOCIATES),
    ],
    REASSOCIATES,
)  # fmt: skip
