"""Laws of casts. Only a cast whose target holds every value of its source may be undone or skipped.

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ir import TensorType
from eqfuse.rewrites.law import EXACT, Law, attrs, guard, over_complex, tensors

(x,) = tensors("x")
d, e = attrs("d e")


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


LAWS = [
    Law("cast_to_own_dtype", x.cast(d), x, exactness=EXACT),  # both sides have one type
    Law(
        "cast_of_widened",
        x.cast(d).cast(e),
        x.cast(e),
        (guard("d holds every x, and e what d rounds to integers", _widens, x, d, e),),
        EXACT,
        complex=EXACT,
    ),
]

LAWS = over_complex(LAWS, EXACT)
