"""Laws of rounding to steps: quantising what was dequantised changes nothing, and clamps pass through rounding.

In: nothing. Out: `LAWS`. A quantised x is ``round(x / s)``, dequantised ``q * s``. That this is x again is false (see
`eqfuse.rewrites.refuted`): it is off by up to s / 2. That quantising q * s gives q again is true while the two
roundings of q * s / s stay under one half: for abs(q) < 2 ** (p - 2), where p counts the bits of the significand.
"""

from __future__ import annotations

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.casts import significant_bits
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    REASSOCIATES,
    Law,
    attrs,
    guard,
    over_complex,
    tensors,
)
from eqfuse.rewrites.language.words import constant, function, maximum, minimum

x, s = tensors("x s")
n, d = attrs("n d")
rounded = function("round")


def _whole(value: Literal) -> bool:
    return kind(value.array.dtype) in "biuf" and bool((value.array == np.rint(value.array)).all())


def _fits_twice_over(x: TensorType, d: np.dtype) -> bool:
    """Every q of `x` has abs(q) < 2 ** (p - 2) in `d`."""
    return kind(x.dtype) in "biu" and kind(d) == "f" and significant_bits(x.dtype) + 2 <= significant_bits(d)


whole = guard("n is whole", _whole, n)
fits = guard("x holds whole numbers that leave two bits of d", _fits_twice_over, x, d)

LAWS = [
    Law("clamp_out_of_round", rounded(maximum(x, constant(n))), maximum(rounded(x), constant(n)), (whole,),
        REASSOCIATES, both=True),
    Law("cap_out_of_round", rounded(minimum(x, constant(n))), minimum(rounded(x), constant(n)), (whole,),
        REASSOCIATES, both=True),
    Law("quantise_dequantised", rounded(x.cast(d) * s / s), x.cast(d), (fits,), APPROXIMATE),  # s = 0
    Law("quantise_twice", rounded(rounded(x / s) * s / s), rounded(x / s), exactness=APPROXIMATE),
]  # fmt: skip

LAWS = over_complex(LAWS, None)
