"""scipy.special: its ufuncs that are operators. (`ufuncs.py` has those that are compositions of others.)

In: ufunc calls on tracers. Out: tracers.
"""

from __future__ import annotations

from functools import partial

from eqfuse.frontends.numpy.promotion import elementwise
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from eqfuse.ops.special import SPECIAL

for _name, _ufunc in SPECIAL.items():
    TRACED_UFUNCS[_ufunc] = partial(elementwise, _name)
