"""Laws of softmax and its relatives: shifts, masks, and sums of exponentials that are made block by block.

In: nothing. Out: `LAWS`. Attention over blocks of keys rests on them: where scores are concatenated, the exponentials
of each block about its own maximum are brought to the common one by ``exp(m1 - m)``. That a kernel can walk over any
number of blocks, keeping one maximum and one sum, is a loop and so no law: the kind `back_to_back` does.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, Law, attrs, guard, over_complex, tensors
from eqfuse.rewrites.language.views import one_along
from eqfuse.rewrites.language.words import exp, log, where

x, y, z, m, c = tensors("x y z m c")
(p,) = attrs("p")


def _has_infinity(x: TensorType) -> bool:
    return bool(np.isinf(np.asarray(np.inf).astype(x.dtype)))


infinite = guard("the dtype of x has an infinity", _has_infinity, x)
constant = guard("m has extent 1 along p", one_along, m, p)
shifted = exp(x - m)
infinity = float("inf")

LAWS = [
    # shifts cancel: softmax(x + c) = softmax(x), layer_norm(x + c) = layer_norm(x); what c rounded away comes back
    Law("same_shift_of_both", (x + z) - (y + z), x - y, exactness=APPROXIMATE),
    Law("same_shift_taken_from_both", (x - z) - (y - z), x - y, exactness=APPROXIMATE),
    Law("differences_meet", (x - y) + (y - z), x - z, exactness=APPROXIMATE),
    # the maximum is only taken off against overflow
    Law("softmax_without_shift", shifted / shifted.sum(p), exp(x) / exp(x).sum(p), (constant,), APPROXIMATE),
    Law("log_softmax_without_shift", (x - m) - log(shifted.sum(p)), x - log(exp(x).sum(p)), (constant,), APPROXIMATE),
    # masks: what is left out weighs nothing
    Law("exp_of_masked", exp(where(c, x, -infinity)), where(c, exp(x), 0.0), (infinite,), EXACT),
    Law("exp_of_masked_else", exp(where(c, -infinity, x)), where(c, 0.0, exp(x)), (infinite,), EXACT),
    Law("shift_of_masked", where(c, x, -infinity) - y, where(c, x - y, -infinity), exactness=APPROXIMATE),  # y = -inf
    # two blocks about one maximum
    Law("sum_of_exp_about_another", exp(x - y).sum(p) * exp(y - z), exp(x - z).sum(p), exactness=APPROXIMATE),
]

LAWS = over_complex(
    LAWS, APPROXIMATE, log_softmax_without_shift=None, exp_of_masked=None, exp_of_masked_else=None,
    shift_of_masked=None,
)  # fmt: skip
