"""Generated tests can draw every attribute of every operator but loops, so a law about any of them is tested."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eqfuse.errors import ShapeError
from eqfuse.ops import TABLE
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.match import Decline
from eqfuse.rewrites.language.samples import sample_attr

LEFT = ("input", "loop_result", "pure_callback", *LOOPS)  # no law is about them
DRAWN = [op for op, row in TABLE.items() if row.attrs and op not in LEFT]


@pytest.mark.parametrize("op", DRAWN)
def test_attributes_that_fit_are_drawn_for(op: str) -> None:
    rng, described = random.Random(0), TABLE[op]
    for _ in range(4000):
        arity = described.arity if described.arity is not None else rng.randint(1, 3)
        types = [_type(rng) for _ in range(arity)]
        attrs: list = []
        try:
            for name in described.attrs:
                attrs.append(sample_attr(op, name, types, tuple(attrs), np.dtype(np.float32), rng))
            described.type(types, tuple(attrs))
        except (ShapeError, Decline, IndexError, ValueError, TypeError, StopIteration):
            continue
        return
    pytest.fail(f"no arguments of {op} were found in 4000 tries")


def _type(rng: random.Random) -> TensorType:
    rank = rng.choice((0, 1, 1, 2, 2, 3, 4))
    extents = (1, 2, 3, 4) if rng.random() < 0.6 else (3,)
    dtype = rng.choice(("float32", "float32", "float32", "float64", "int64", "complex64"))
    return TensorType(np.dtype(dtype), tuple(rng.choice(extents) for _ in range(rank)))
