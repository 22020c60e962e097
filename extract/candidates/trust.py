"""Trust: kernels are taken to run until something is made of them, as nearly all do.

A kernel whose price is an estimate may have no schedule: the pieces of the arrays that it joins may meet in too many
ways. To know takes as long as making the schedule, and most kernels that a search looks at are none of its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from eqfuse.extract.candidates.prices import Prices

if TYPE_CHECKING:
    from eqfuse.extract.candidates.cuts import Cut
    from eqfuse.extract.covers.cover import Group

T = TypeVar("T")


def trusted(
    prices: Prices, make: Callable[[], T], kernels: Callable[[T], Iterable[Cut | Group]], goes_by_prices: bool = True
) -> T:
    """What `make` makes, by kernels that run as far as their estimates say. Where one of the `kernels` of that does not
    run, it makes it again, and asks each. `goes_by_prices`: does it ask what kernels cost, so that their schedules are
    made anyway, but where a search goes by estimates?"""
    if goes_by_prices and not prices.goes_by_estimates:
        return make()
    before, prices.stage.trusts = prices.stage.trusts, True
    try:
        result = make()
    finally:
        prices.stage.trusts = before
    return result if all(kernel.runs for kernel in kernels(result)) else make()
