"""Laws of matrix products: association, factors, scales that move through, transposes, sums and traces.

In: nothing. Out: `LAWS`. A product contracts the last axis of its left operand with the last but one of its right.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ops.literal import Literal
from eqfuse.ops.types import Shape, TensorType
from eqfuse.rewrites.language.constants import difference_remains, sum_remains
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    attrs,
    bounded,
    computed,
    distinct,
    floating,
    guard,
    in_program,
    is_constant,
    nonempty,
    over_complex,
    over_float16,
    tensors,
)
from eqfuse.rewrites.language.views import Perm, inverse, last_two_swapped
from eqfuse.rewrites.language.words import constant

x, y, z, w, u, v = tensors("x y z w u v")
r, c, g, a, b = tensors("r c g a b")
p, q, s, t, n = attrs("p q s t n")
TERMS_OF_A_PART = 256  # of a product in parts, at least
PARTS_OF_TERMS = 32
SUMS_OF_A_PART = 1 << 11  # at most



def _row_scale(r: TensorType) -> bool:
    return r.extent(-1) == 1


def _column_scale(c: TensorType) -> bool:
    return c.extent(-2) == 1


def _vector(g: TensorType) -> bool:
    return g.rank >= 1 and g.size == g.shape[-1]


def _as_column(g: TensorType) -> tuple[int, int]:
    return (g.shape[-1], 1)


def _as_row(g: TensorType) -> tuple[int, int]:
    return (1, g.shape[-1])


def _moves_batch(x: TensorType, y: TensorType, p: Perm) -> bool:
    """`p` exchanges the two matrix axes and permutes the batch axes among themselves."""
    return x.rank == y.rank == len(p) and p[-2:] == (len(p) - 1, len(p) - 2)


def _keeps_matrix(x: TensorType, y: TensorType, p: Perm) -> bool:
    return x.rank == y.rank == len(p) and p[-2:] == (len(p) - 2, len(p) - 1)


def row_scale(r: Term) -> Guard:
    return guard(f"{r} has extent 1 on its last axis", _row_scale, r)


def column_scale(c: Term) -> Guard:
    return guard(f"{c} has extent 1 on its last but one axis", _column_scale, c)


def _is_diagonal(x: TensorType, y: TensorType, ranges: tuple) -> bool:
    """Of the flattened square product, `ranges` takes every (n + 1)-th element."""
    n = x.shape[-2]
    return x.rank == y.rank == 2 and n == y.shape[-1] and ranges == ((0, n * n, n + 1),)


def _column(g: TensorType) -> bool:
    return g.rank >= 2 and g.size == g.shape[-2]


def _beside_rows(x: TensorType, y: TensorType, shape: Shape) -> bool:
    return x.rank >= 2 and y.rank == 2 and x.shape[-1] == y.shape[0] and shape == (*x.shape, 1)


def _row_sums(x: TensorType, y: TensorType) -> Shape:
    return (*x.shape[:-1], 1, y.shape[-1])


def _flat(g: TensorType) -> tuple[int]:
    return (g.size,)


def _sums_all(x: TensorType, y: TensorType, q: tuple[int, ...]) -> bool:
    return x.rank == y.rank == len(q)


def _low_rank(u: TensorType, v: TensorType) -> bool:
    """The factors are smaller than their product."""
    return u.shape[-1] * (u.shape[-2] + v.shape[-1]) < u.shape[-2] * v.shape[-1]


def _parts(x: TensorType) -> int:
    """Into how many equal parts the terms of x @ y are cut: each has enough for a kernel's loops to run well."""
    terms = x.shape[-1]
    return max(n for n in range(1, min(PARTS_OF_TERMS, max(3, terms // TERMS_OF_A_PART)) + 1) if terms % n == 0)


def _parts_of_rows(x: TensorType) -> Shape:
    rows, terms = x.shape
    return (rows, _parts(x), terms // _parts(x))


def _parts_of_columns(x: TensorType, y: TensorType) -> Shape:
    terms, columns = y.shape
    return (_parts(x), terms // _parts(x), columns)


def _matrix(x: TensorType, y: TensorType) -> Shape:
    return (x.shape[0], y.shape[1])


def _many_terms(x: TensorType, y: TensorType) -> bool:
    """Threads have little else to share than terms, and what each adds up stays near."""
    (rows, terms), columns = x.shape, y.shape[1]
    return terms >= 2 * TERMS_OF_A_PART and columns > 1 and 1 < rows * columns <= min(4 * terms, SUMS_OF_A_PART)


def _is_identity(value: Literal) -> bool:
    a = value.array
    return a.ndim == 2 and a.shape[0] == a.shape[1] and bool((a == np.eye(len(a))).all())


_SWAPPED = computed(last_two_swapped, y)
identity = guard("n is an identity matrix", _is_identity, n)
one_row = guard("g is one row", _vector, g)
one_column = guard("g is one column", _column, g)
matrices = guard("x and y are matrices", lambda x, y: x.rank == y.rank == 2, x, y)
low_rank = bounded("u @ v has a low rank", _low_rank, u, v)

LAWS = [
    # factors and association
    Law(
        "terms_in_parts", x @ y,
        (x.reshape(computed(_parts_of_rows, x)).transpose((1, 0, 2)) @ y.reshape(computed(_parts_of_columns, x, y)))
        .sum(-3, keepdims=True).reshape(computed(_matrix, x, y)),
        (matrices, bounded("many terms make few sums", _many_terms, x, y)), REASSOCIATES,
    ),
    Law("common_left_factor", x @ y + x @ z, x @ (y + z), exactness=REASSOCIATES),
    Law("common_right_factor", y @ x + z @ x, (y + z) @ x, exactness=REASSOCIATES),
    Law("common_left_factor_of_difference", x @ y - x @ z, x @ (y - z), exactness=REASSOCIATES),
    Law("common_right_factor_of_difference", y @ x - z @ x, (y - z) @ x, exactness=REASSOCIATES),
    # n factors have n² / 2 products of neighbours, so both ways come to an end
    Law("associate_products", (x @ y) @ z, x @ (y @ z), exactness=REASSOCIATES, both=True),
    # u @ v may cancel w
    Law("low_rank_update_on_right", x @ (w + u @ v), x @ w + (x @ u) @ v, (low_rank,), APPROXIMATE),
    Law("low_rank_update_on_left", (w + u @ v) @ x, w @ x + u @ (v @ x), (low_rank,), APPROXIMATE),
    Law("known_row_of_shifts_through", (x + g) @ w, x @ w + g.reshape(computed(_as_row, g)) @ w,
        (one_row, is_constant(g, w)), APPROXIMATE),  # g may cancel x
    Law("known_shift_through", (x + b) @ w, x @ w + w.sum(-2, keepdims=True) * b,
        (guard("b is a scalar", lambda b: b.rank == 0, b), is_constant(b, w)), APPROXIMATE),
    # what is added to a product, which has rounded what it cancels
    Law("known_shifts_of_product_meet", x @ w + a + b, x @ w + (a + b),
        (is_constant(a, b), in_program(b), sum_remains(a, b)), REASSOCIATES),
    Law("known_shifts_of_product_meet_in_difference", x @ w + a - b, x @ w + (a - b),
        (is_constant(a, b), distinct(a, b), difference_remains(a, b)), REASSOCIATES),
    # products that are broadcast products or sums
    Law("outer_product", x @ y, x * y, (guard("one term is contracted", lambda x: x.shape[-1] == 1, x),), REASSOCIATES),
    Law("product_with_column", x @ y, (x * y.transpose(_SWAPPED)).sum(-1, keepdims=True),
        (in_program(y),), REASSOCIATES),
    Law("weighted_sum_over_columns", (x * g).sum(-1, keepdims=True), x @ g.reshape(computed(_as_column, g)),
        (one_row, in_program(g)), REASSOCIATES),
    Law("weighted_sum_over_rows", (x.reshape(s) * y).sum(-2, keepdims=True), (x @ y).reshape(computed(_row_sums, x, y)),
        (guard("a column of x is beside each row of y", _beside_rows, x, y, s),), REASSOCIATES),
    Law("weighted_sum_of_product", (x * (u @ v)).sum((-2, -1), keepdims=True),
        ((x @ v.transpose(computed(last_two_swapped, v))) * u).sum((-2, -1), keepdims=True),
        (floating(x), low_rank), REASSOCIATES),
    Law("transpose_changes_sides", (x * y.transpose(p)).sum(q), (x.transpose(computed(inverse, p)) * y).sum(q),
        (guard("all is summed", _sums_all, x, y, q),), REASSOCIATES),
    Law("broadcast_idle_on_left", x.broadcast_to(s) @ y, x @ y, exactness=REASSOCIATES),
    Law("broadcast_idle_on_right", x @ y.broadcast_to(s), x @ y, exactness=REASSOCIATES),
    # scales that move through a product
    Law("row_scale_through", (x * r) @ w, (x @ w) * r, (row_scale(r),), REASSOCIATES, both=True),
    Law("row_divisor_through", (x / r) @ w, (x @ w) / r, (row_scale(r), nonempty(x)), REASSOCIATES, both=True),
    Law("column_scale_through", x @ (w * c), (x @ w) * c, (column_scale(c),), REASSOCIATES, both=True),
    Law("column_divisor_through", x @ (w / c), (x @ w) / c, (column_scale(c), nonempty(w)), REASSOCIATES, both=True),
    Law(
        "diagonal_into_right", (x * g) @ w, x @ (g.reshape(computed(_as_column, g)) * w),
        (one_row,), REASSOCIATES,
    ),
    Law("diagonal_into_left", x @ (w * g), (x * g.reshape(computed(_flat, g))) @ w, (one_column, in_program(g)),
        REASSOCIATES),
    # behind a product only: applied to every sum, this makes as many values as there are subsets of its constants
    Law("known_scale_of_shifted_product", (x @ w + c) * r, (x @ w) * r + c * r, (is_constant(c, r),), REASSOCIATES),
    Law("known_divisor_of_shifted_product", (x @ w + c) / r, (x @ w) / r + c / r, (is_constant(c, r),), REASSOCIATES),
    Law("negative_out_of_left", (-x) @ w, -(x @ w), exactness=REASSOCIATES),
    Law("negative_out_of_right", x @ (-w), -(x @ w), exactness=REASSOCIATES),
    # transposes
    Law(
        "transpose_of_product", (x @ y).transpose(p), y.transpose(p) @ x.transpose(p),
        (guard("p exchanges the matrix axes", _moves_batch, x, y, p),), REASSOCIATES, both=False,
    ),
    Law(
        "product_of_transposes", y.transpose(p) @ x.transpose(p), (x @ y).transpose(p),
        (guard("p exchanges the matrix axes", _moves_batch, x, y, p),), REASSOCIATES,
    ),
    Law(
        "batch_transpose_of_product", (x @ y).transpose(p), x.transpose(p) @ y.transpose(p),
        (guard("p keeps the matrix axes", _keeps_matrix, x, y, p),), REASSOCIATES,
    ),
    # sums of products
    Law("sum_over_rows", (x @ w).sum(p), x.sum(p) @ w, exactness=REASSOCIATES),
    Law("sum_over_columns", (x @ w).sum(p), x @ w.sum(p), exactness=REASSOCIATES),
    Law(
        "sum_of_product", (x @ w).sum(p), x.sum(-2, keepdims=True) @ w.sum(-1, keepdims=True),
        (floating(x),), REASSOCIATES,
    ),
    Law(
        "trace_of_product", (x @ y).reshape(t).slice(q).sum(p),
        (x * y.transpose(_SWAPPED)).sum((-2, -1), keepdims=True).reshape((1,)),
        (guard("the slice is the diagonal", _is_diagonal, x, y, q), floating(x)), REASSOCIATES,
    ),
]  # fmt: skip

# what is a product in another order may overflow in float16
LAWS = over_float16(
    LAWS, "common_left_factor", "common_right_factor", "common_left_factor_of_difference",
    "common_right_factor_of_difference", "associate_products", "low_rank_update_on_right", "low_rank_update_on_left",
    "weighted_sum_of_product", "row_scale_through", "row_divisor_through", "column_scale_through",
    "column_divisor_through", "diagonal_into_right", "diagonal_into_left", "known_scale_of_shifted_product",
    "known_divisor_of_shifted_product",
    "sum_over_rows", "sum_over_columns", "sum_of_product", "trace_of_product", "terms_in_parts",
)  # fmt: skip

# and of complex numbers
LAWS = over_complex(
    LAWS, REASSOCIATES, sum_of_product=None, trace_of_product=None, weighted_sum_of_product=None,
)  # fmt: skip

# x is x @ I, (x @ I) @ I, x @ (I @ I), ...: this never ends
EXPANSION = over_complex([
    Law("identity_on_right", x @ constant(n), x, (identity,), APPROXIMATE),  # 0 * inf is NaN
    Law("identity_on_left", constant(n) @ x, x, (identity,), APPROXIMATE),
], APPROXIMATE)  # fmt: skip
