"""Laws of casts. Only a cast whose target holds every value of its source may be undone or skipped.

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ops.reductions import reduction_dtype
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    apply,
    attrs,
    guard,
    over_complex,
    tensors,
)
from eqfuse.rewrites.language.words import logical_not, where

x, y, c = tensors("x y c")
d, e, p, axis = attrs("d e p axis")


def significant_bits(dtype: np.dtype) -> int:
    if dtype.kind == "b":
        return 1
    if dtype.kind in "iu":
        return dtype.itemsize * 8 - (dtype.kind == "i")
    return int(ml_dtypes.finfo(dtype).nmant) + 1


def holds_all(narrow: np.dtype, wide: np.dtype) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if narrow == wide:
        return True
    if kind(wide) == "b" or not np.can_cast(narrow, wide, "safe"):
        return False
    return significant_bits(narrow) <= significant_bits(wide)


def _widens(t: TensorType, wide: np.dtype, last: np.dtype) -> bool:
    """Integers that do not fit wrap around; floating numbers that do not fit become anything."""
    wraps = kind(last) in "iu" and kind(wide) not in "biu" and not holds_all(t.dtype, last)
    return holds_all(t.dtype, wide) and not wraps


def _order_kept(t: TensorType, d: np.dtype) -> bool:
    """Floating numbers keep their order in any floating dtype."""
    return kind(d) == "f" and (kind(t.dtype) in "biuf")


def _holds_both(t: TensorType, u: TensorType, wide: np.dtype) -> bool:
    return t.dtype == u.dtype and holds_all(t.dtype, wide)


def _sums_fit(t: TensorType, d: np.dtype) -> bool:
    """Bools and narrow integers, whose sums do not wrap around in NumPy's accumulator."""
    return kind(t.dtype) in "biu" and t.dtype.itemsize <= 4 and kind(d) == "f"


def _accumulates(t: TensorType, d: np.dtype) -> bool:
    return t.dtype.itemsize < 8 and kind(t.dtype) in "biu" and reduction_dtype("sum", t.dtype) == d


keeps_order = guard("d keeps the order of x", _order_kept, x, d)
holds_x = guard("d holds every x", lambda t, d: holds_all(t.dtype, d), x, d)
holds_both = guard("d holds every x and y, of one dtype", _holds_both, x, y, d)
real = guard("x, d floating", lambda t, d: kind(t.dtype) == kind(d) == "f", x, d)

SIGNS = ("negative", "abs")
ROUNDINGS = ("floor", "ceil", "trunc", "round")
COMPARED = ("less", "less_equal", "equal", "not_equal")
LATTICE = ("maximum", "minimum")
PREDICATES = ("isnan", "isinf", "isfinite")

_OF_REALS = [
    # the narrower numbers are worked on: their results are the wider ones', and move fewer bytes
    *(Law(f"{f}_of_cast", apply(f, x.cast(d)), apply(f, x).cast(d), (real,), EXACT) for f in SIGNS),
    *(Law(f"{f}_of_cast", apply(f, x.cast(d)), apply(f, x).cast(d), (holds_x,), EXACT) for f in ROUNDINGS),
    *(Law(f"{f}_of_casts", apply(f, x.cast(d), y.cast(d)), apply(f, x, y).cast(d), (holds_both,), REASSOCIATES)
      for f in LATTICE),
    *(Law(f"{f}_of_cast_and_zero", apply(f, x.cast(d), 0.0), apply(f, x, 0.0).cast(d), (holds_x,), REASSOCIATES)
      for f in LATTICE),
    *(Law(f"{f}_of_casts", apply(f, x.cast(d), y.cast(d)), apply(f, x, y), (holds_both,), EXACT)
      for f in COMPARED),
    *(Law(f"{f}_of_cast_and_zero", apply(f, x.cast(d), 0.0), apply(f, x, 0.0), (holds_x,), EXACT) for f in COMPARED),
    *(Law(f"{f}_of_zero_and_cast", apply(f, 0.0, x.cast(d)), apply(f, 0.0, x), (holds_x,), EXACT)
      for f in ("less", "less_equal")),
    *(Law(f"{f}_of_cast", apply(f, x.cast(d)), apply(f, x), (holds_x,), EXACT) for f in PREDICATES),
    Law("signbit_of_cast", apply("signbit", x.cast(d)), apply("signbit", x), exactness=EXACT),
    *(Law(f"cast_out_of_{f}", apply(f, x.cast(d), attrs=(p,)), apply(f, x, attrs=(p,)).cast(d), (keeps_order,),
          REASSOCIATES)
      for f in ("max", "min")),
    *(Law(f"cast_out_of_{f}", apply(f, x.cast(d), attrs=(p,)), apply(f, x, attrs=(p,)), (holds_x,), EXACT)
      for f in ("argmax", "argmin")),
    # bools and counts
    Law("sum_of_cast_whole", x.cast(d).sum(p), x.sum(p).cast(d),
        (guard("sums of x do not wrap around, and d is floating", _sums_fit, x, d),), REASSOCIATES),
    Law("cast_of_whole_sum", x.cast(d).sum(p), x.sum(p), (guard("d is x's accumulator", _accumulates, x, d),), EXACT),
    Law("not_of_cast", logical_not(x.cast(d)), logical_not(x), (holds_x,), EXACT),
    Law("mask_product", x * c.cast(d), where(c, x, 0.0), exactness=APPROXIMATE),
]

_OF_ALL = [
    Law("cast_to_own_dtype", x.cast(d), x, exactness=EXACT),  # both sides have one type
    Law(
        "cast_of_widened",
        x.cast(d).cast(e),
        x.cast(e),
        (guard("d holds every x, and e what d rounds to integers", _widens, x, d, e),),
        EXACT,
    ),
    Law("where_of_casts", where(c, x.cast(d), y.cast(d)), where(c, x, y).cast(d), exactness=EXACT),
    Law("concat_of_casts", apply("concat", x.cast(d), y.cast(d), attrs=(axis,)),
        apply("concat", x, y, attrs=(axis,)).cast(d), exactness=EXACT),
]  # fmt: skip

LAWS = [*over_complex(_OF_ALL, EXACT), *_OF_REALS]
