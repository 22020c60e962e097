"""Laws of choices between two tensors by comparing them: the larger or the smaller of both.

In: nothing. Out: `LAWS`. Where one of the two is NaN a comparison picks the other, which max and min do not.
"""

from __future__ import annotations

from eqfuse.rewrites.law import APPROXIMATE, Law, tensors
from eqfuse.rewrites.words import maximum, minimum, where

x, y = tensors("x y")

LAWS = [
    Law("larger_unless_less", where(x < y, y, x), maximum(x, y), exactness=APPROXIMATE),
    Law("larger_unless_less_or_equal", where(x <= y, y, x), maximum(x, y), exactness=APPROXIMATE),
    Law("smaller_unless_greater", where(x > y, y, x), minimum(x, y), exactness=APPROXIMATE),
    Law("smaller_unless_greater_or_equal", where(x >= y, y, x), minimum(x, y), exactness=APPROXIMATE),
]
