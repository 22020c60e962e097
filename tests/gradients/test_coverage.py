"""How much of the operator table has a derivative, and that what counts as having none has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ops import TABLE
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import TensorType
from tests.support.derivatives import tangent

LEAVES = {"input", "const"}
STEPS = {op for op, row in DERIVATIVES.items() if row.jumps}  # step functions, places, and what is no number
REFUSED = {op for op, row in DERIVATIVES.items() if row.refuses}
SHARE = 0.95


# An elementwise operator counts with a derivative in one argument: orders and degrees of special functions have none.
def test_at_least_95_of_100_differentiable_operators_have_a_derivative() -> None:
    differentiable = TABLE.keys() - LEAVES - STEPS
    assert differentiable >= REFUSED
    assert len(REFUSED) <= (1 - SHARE) * len(differentiable), sorted(REFUSED)
    for op in differentiable - REFUSED:
        row = DERIVATIVES[op]
        linear = row.transpose is not None
        assert linear or row.formula or row.several or row.part or row.tangent is not type(row)().tangent, op


OF_FLOATS = {"bitcast", "argmax", "argmin", "argsort", "any", "all"}
ATTRS: dict[str, tuple[Any, ...]] = {
    "bitcast": (np.dtype(np.int64),), "argsort": (-1, True),
    **dict.fromkeys(("any", "all", "argmax", "argmin"), ((-1,),)),
}  # fmt: skip


@pytest.mark.parametrize("op", sorted(STEPS & (UFUNCS.keys() | OF_FLOATS)))
def test_an_operator_that_counts_as_constant_is_no_float_or_stays_where_it_is(op: str) -> None:
    rng = np.random.default_rng(0)
    count = UFUNCS[op].nin if op in UFUNCS else 1
    xs = [rng.uniform(0.2, 0.8, 5) + np.arange(5) for _ in range(count)]
    attrs = ATTRS.get(op, ())
    try:
        result = TABLE[op].type([TensorType(x.dtype, x.shape) for x in xs], attrs)
    except ef.EqfuseError:
        return  # of integers alone
    before, after = (TABLE[op].meaning(*(x + h for x in xs), *attrs) for h in (0.0, 1e-9))
    assert result.dtype.kind not in "fc" or (before == after).all()
    assert tangent(op, xs, [np.ones_like(x) for x in xs], attrs) is None
