"""Where functions of real numbers are defined: guards of the laws that would otherwise call NaN a number.

In: the name of a function, tensors. Out: guards. Laws that hold only where a function is defined do not add up without
them: x and abs(x) both equal sqrt(x) * sqrt(x) there, so an e-graph would hold x and abs(x) equal everywhere.
"""

from __future__ import annotations

import math

from eqfuse.ops import row
from eqfuse.ops.row import REALS
from eqfuse.rewrites.language.guards import Guard, between, nonnegative
from eqfuse.rewrites.language.term import Term


def domain(function: str, *terms: Term) -> tuple[Guard, ...]:
    """The guards that `function` is defined of `terms`; none where it is defined everywhere."""
    lower, upper = row(function).domain
    if (lower, upper) == REALS:
        return ()
    return tuple(nonnegative(t) if (lower, upper) == (0, math.inf) else between(t, lower, upper) for t in terms)


def has_upper_end(function: str) -> bool:
    """Is `function` undefined of what is large?"""
    return row(function).domain[1] < math.inf
