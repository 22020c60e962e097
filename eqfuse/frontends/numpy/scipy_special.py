"""scipy.special: its ufuncs that are operators. (`ufuncs.py` has those that are compositions of others.)

In: ufunc calls on tracers. Out: tracers.
"""

from __future__ import annotations

from functools import partial

from eqfuse.frontends.numpy.promotion import elementwise
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from eqfuse.ops.special import SPECIAL_UFUNCS

for _name, _ufunc in SPECIAL_UFUNCS.items():
    TRACED_UFUNCS[_ufunc] = partial(elementwise, _name)
