"""Every substitution of TASO and TENSAT that holds is proved by the law book; the others are refuted by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from taso_substitutions import EQUALITIES, Equality, F

from eqfuse.egraph import Budget, saturate_segment
from eqfuse.rewrites import admitted, select
from eqfuse.trace import spec, trace

IDS = [e.source for e in EQUALITIES]


def outputs(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def proved(equality: Equality) -> bool:
    """Whether both sides, inserted in one e-graph, end in one class."""

    def both(*arrays: Any) -> tuple[Any, ...]:
        return (*outputs(equality.left(*arrays)), *outputs(equality.right(*arrays)))

    graph = trace(both, *(spec(shape, F) for shape in equality.shapes))
    laws = admitted(select(["all", *equality.laws]), equality.numerics)
    segment = saturate_segment(graph, laws, Budget(seconds=20, nodes=20_000, rounds=12))
    half = len(segment.roots) // 2
    return segment.roots[:half] == segment.roots[half:]


def agree(equality: Equality) -> bool:
    """Whether NumPy gives equal arrays for both sides."""
    rng = np.random.default_rng(0)
    arrays = [(rng.integers(-8, 9, shape) / 2).astype(F) for shape in equality.shapes]
    left, right = outputs(equality.left(*arrays)), outputs(equality.right(*arrays))
    return len(left) == len(right) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("equality", EQUALITIES, ids=IDS)
def test_what_holds_in_numpy_is_proved_and_what_does_not_is_refuted(equality: Equality) -> None:
    assert agree(equality) is not bool(equality.false)
    if not equality.beyond:
        assert proved(equality) is not bool(equality.false)
