"""What operators cost in C, by price class: vector instructions of their polynomials, beside one addition.

In: an operator of a body. Out: seconds of an element on one thread, operands in the nearest cache.
"""

from __future__ import annotations

from eqfuse.cost.device import PRICED_AS, Device
from eqfuse.dtypes import BFLOAT16, FLOAT16
from eqfuse.ir.graph import Node
from eqfuse.ops import row
from eqfuse.ops.row import PriceClass

# Beside an addition of the dtype. Counted in the text of `vector_math`; division and square root by the tables of
# uops.info for 512-bit vectors; what the C library computes element by element, in measured nanoseconds.
ADDITIONS = {
    PriceClass.FREE: 0, PriceClass.SIMPLE: 1, PriceClass.LOGIC: 1, PriceClass.REDUCTION: 1, PriceClass.DIVISION: 8,
    PriceClass.EXPONENTIAL: 20, PriceClass.TRIGONOMETRIC: 40, PriceClass.INVERSE: 60, PriceClass.ERF: 40,
    PriceClass.POWER: 80, PriceClass.ONE_BY_ONE: 100, PriceClass.FLOOR_DIVISION: 400, PriceClass.DIVISORS: 2000,
}  # fmt: skip
ROUNDING = 10  # of 16-bit floats, loaded, stored, and rounded after each operator


def operator_seconds(n: Node, device: Device) -> float:
    """Of one element of `n` on one thread. (A target's `scalar_flops` are those of its own loops.)"""
    dtype = n.args[0].dtype if n.op != "where" else n.dtype
    times = ADDITIONS.get(row(n.op).price, 100)
    name = dtype.name
    if dtype in (FLOAT16, BFLOAT16):
        times, name = times + ROUNDING, "float32"
    base, share = PRICED_AS.get(name, (name, 1))
    return times * share * device.threads / device.scalar_rate(base)
