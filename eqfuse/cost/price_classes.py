"""What the operators of each price class cost on devices that nobody has measured here: one row per class."""

from __future__ import annotations

from typing import NamedTuple

from eqfuse.ops import TABLE
from eqfuse.ops.row import PriceClass


class Usual(NamedTuple):
    """What one element costs."""

    gpu_flops: float  # cost in flops: in a clock, a multiprocessor computes 256, or 16 special functions
    cpu_ns: float  # float32, one core with NumPy's SIMD loops (measured on Zen 5, rounded)


USUAL_PRICES: dict[PriceClass, Usual] = {
    PriceClass.FREE: Usual(0, 0),
    PriceClass.TRANSPOSE: Usual(0, 0.6),
    PriceClass.SIMPLE: Usual(1, 0.1),
    PriceClass.LOGIC: Usual(1, 0.5),
    PriceClass.REDUCTION: Usual(1, 0.15),
    PriceClass.DOT: Usual(1, 0.06),
    PriceClass.ONE_BY_ONE: Usual(2, 1.5),
    PriceClass.DIVISION: Usual(24, 0.3),
    PriceClass.EXPONENTIAL: Usual(24, 0.4),
    PriceClass.TRIGONOMETRIC: Usual(44, 0.4),
    PriceClass.INVERSE: Usual(66, 4.0),
    PriceClass.ERF: Usual(66, 7.0),  # about 25 FMA of 2 flops and a special function, counted, not measured
    PriceClass.POWER: Usual(110, 1.0),
    PriceClass.WHOLE_POWER: Usual(110, 48.0),  # NumPy 2.4 on Zen 5
    PriceClass.FLOOR_DIVISION: Usual(40, 6.0),
    PriceClass.DIVISORS: Usual(200, 20.0),
    PriceClass.SORTING: Usual(200, 10.0),
    PriceClass.QUANTILE: Usual(400, 20.0),
    PriceClass.COUNTING: Usual(100, 5.0),
    PriceClass.LINEAR_ALGEBRA: Usual(4, 0.05),
    PriceClass.TRANSFORM: Usual(4, 0.1),
    PriceClass.SPECIAL_SHORT: Usual(128, 8.0),
    PriceClass.SPECIAL: Usual(320, 20.0),
    PriceClass.SPECIAL_LONG: Usual(960, 60.0),
    PriceClass.SPECIAL_ITERATED: Usual(3200, 200.0),
}
# ways to compute an operator that have a price of their own
WAYS = {"vecdot": PriceClass.DOT, "whole_power": PriceClass.WHOLE_POWER}
USUAL_BY_OPERATOR: dict[str, Usual] = {
    name: USUAL_PRICES[price]
    for name, price in ({op.name: op.price for op in TABLE.values()} | WAYS).items()
    if price is not PriceClass.PRODUCT  # by the rate of products
}
