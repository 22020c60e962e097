"""The constants of one type that an e-graph has, by when they came: those near another are found by their order.

In: literals. Out: the first to come of those that equal one up to rounding. Used by `callbacks.py`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort

import numpy as np

from eqfuse.ops.literal import Literal


class Constants:
    """Arrays of one type with elements, all finite, in the order of their first elements."""

    def __init__(self) -> None:
        self._numbers: dict[Literal, int] = {}
        self._sorted: list[tuple[float, int]] = []
        self._literals: list[Literal] = []

    def keep(self, literal: Literal) -> Literal:
        if literal not in self._numbers and literal.array.size:
            number = self._numbers[literal] = len(self._literals)
            self._literals.append(literal)
            insort(self._sorted, (complex(literal.array.flat[0]).real, number))
        return literal

    def near(self, literal: Literal, slack: float) -> Literal | None:
        """The first to come of those that differ from `literal` by a share of at most `slack` in every element."""
        if not literal.array.size:
            return None
        first = complex(literal.array.flat[0])
        apart = slack * abs(first)
        low = bisect_left(self._sorted, (first.real - apart, -1))
        high = bisect_right(self._sorted, (first.real + apart, math.inf))
        for number in sorted(number for _, number in self._sorted[low:high]):
            if np.allclose(self._literals[number].array, literal.array, rtol=slack, atol=0):
                return self._literals[number]
        return None
