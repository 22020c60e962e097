"""A library function's price counts what NumPy does around its work."""

from __future__ import annotations

import numpy as np

import eqfuse as ef
from eqfuse.emit.numpy.cost.figures import PYTHON_CALLS
from eqfuse.ops import Role, row
from tests.support.kernels import CPU


def test_what_is_counted_is_of_library_functions() -> None:
    assert {row(op).role for op in PYTHON_CALLS} == {Role.LIBRARY}


def test_a_small_decomposition_costs_as_many_calls() -> None:
    program = ef.compile(lambda x: np.linalg.svd(x, compute_uv=False), ef.spec((3, 3)), target=CPU)
    assert program.report.predicted_seconds > PYTHON_CALLS["svdvals"] * CPU.call_seconds
