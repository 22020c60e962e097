"""What a law does to floating point: the three classes."""

from __future__ import annotations

from enum import IntEnum


class Exactness(IntEnum):
    """What a law does to floating point, from the safest to the loosest. README.md says what each promises."""

    EXACT = 0  # the same bits, infinities and signed zeros included, and NaN at the same places
    REASSOCIATES = 1  # as accurate: the running error bound grows by a small factor at most, wherever it says something
    APPROXIMATE = 2  # equal over the reals: may cancel, overflow, or lose a NaN


EXACT, REASSOCIATES, APPROXIMATE = Exactness
