"""Where functions of real numbers are defined: guards of the laws that would otherwise call NaN a number.

In: the name of a function, tensors. Out: guards. Laws that hold only where a function is defined do not add up without
them: x and abs(x) both equal sqrt(x) * sqrt(x) there, so an e-graph would hold x and abs(x) equal everywhere.
"""

from __future__ import annotations

import math

from eqfuse.rewrites.language.guards import Guard, between, nonnegative
from eqfuse.rewrites.language.term import Term

FROM_BELOW = {"sqrt": 0.0, "log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0, "acosh": 1.0}
BETWEEN = {"asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-1.0, 1.0)}


def domain(function: str, *terms: Term) -> tuple[Guard, ...]:
    """The guards that `function` is defined of `terms`; none where it is defined everywhere."""
    if function in BETWEEN:
        return tuple(between(t, *BETWEEN[function]) for t in terms)
    lower = FROM_BELOW.get(function)
    if lower is None:
        return ()
    return tuple(nonnegative(t) if lower == 0 else between(t, lower, math.inf) for t in terms)
