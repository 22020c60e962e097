"""What the operators of each price class cost on devices that nobody has measured here: one row per class."""

from __future__ import annotations

from typing import NamedTuple

from eqfuse.ops import TABLE
from eqfuse.ops.row import PriceClass


class UsualPrice(NamedTuple):
    """What one element costs."""

    gpu_flops: float  # cost in flops: in a clock, a multiprocessor computes 256, or 16 special functions
    cpu_ns: float  # float32, one core with NumPy's SIMD loops (measured on Zen 5, rounded)


USUAL_PRICES: dict[PriceClass, UsualPrice] = {
    PriceClass.FREE: UsualPrice(0, 0),
    PriceClass.TRANSPOSE: UsualPrice(0, 0.6),
    PriceClass.SIMPLE: UsualPrice(1, 0.1),
    PriceClass.LOGIC: UsualPrice(1, 0.5),
    PriceClass.REDUCTION: UsualPrice(1, 0.15),
    PriceClass.DOT: UsualPrice(1, 0.06),
    PriceClass.ONE_BY_ONE: UsualPrice(2, 1.5),
    PriceClass.DIVISION: UsualPrice(24, 0.3),
    PriceClass.EXPONENTIAL: UsualPrice(24, 0.4),
    PriceClass.TRIGONOMETRIC: UsualPrice(44, 0.4),
    PriceClass.INVERSE: UsualPrice(66, 4.0),
    PriceClass.ERF: UsualPrice(66, 7.0),  # about 25 FMA of 2 flops and a special function, counted, not measured
    PriceClass.POWER: UsualPrice(110, 1.0),
    PriceClass.WHOLE_POWER: UsualPrice(110, 48.0),  # NumPy 2.4 on Zen 5
    PriceClass.FLOOR_DIVISION: UsualPrice(40, 6.0),
    PriceClass.DIVISORS: UsualPrice(200, 20.0),
    PriceClass.SORTING: UsualPrice(20, 1.0),
    PriceClass.QUANTILE: UsualPrice(400, 4.0),
    PriceClass.COUNTING: UsualPrice(100, 5.0),
    PriceClass.LINEAR_ALGEBRA: UsualPrice(4, 0.05),
    PriceClass.TRANSFORM: UsualPrice(4, 0.06),  # of real numbers
    PriceClass.SHORT_PRODUCT: UsualPrice(2, 0.03),
    PriceClass.SPECIAL_SHORT: UsualPrice(128, 8.0),
    PriceClass.SPECIAL: UsualPrice(320, 20.0),
    PriceClass.SPECIAL_LONG: UsualPrice(960, 60.0),
    PriceClass.SPECIAL_ITERATED: UsualPrice(3200, 200.0),
}
# ways to compute an operator that have a price of their own
WAYS = {
    "vecdot": PriceClass.DOT, "whole_power": PriceClass.WHOLE_POWER,
    "short_product": PriceClass.SHORT_PRODUCT,
    "short_sort": PriceClass.SORTING, "stable_sort": PriceClass.SORTING,
}  # fmt: skip
USUAL_BY_OPERATOR: dict[str, UsualPrice] = {
    name: USUAL_PRICES[price]
    for name, price in ({op.name: op.price for op in TABLE.values()} | WAYS).items()
    if price is not PriceClass.PRODUCT  # by the rate of products
}
