"""Products of many terms that make few sums are computed in parts, which threads share, and added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device
from eqfuse.machine.thread_limit import limit
from eqfuse.ops import Role
from tests.support.c_kernels import needs_compiler

DEVICE = compiled_device(DEVICES["cpu"])


def products(plan: ef.Plan) -> list[tuple[int, ...]]:
    """The shapes of the products that a plan computes."""
    return [n.shape for k in plan.kernels for n in k.body.of_role(Role.CONTRACTION)]


def gram(x: Any, y: Any) -> Any:
    return x.T @ y


def drawn(terms: int, rows: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((terms, n)) for n in (rows, columns)]


@needs_compiler
@pytest.mark.parametrize("terms", [16384, 10000])
def test_many_terms_are_added_in_parts_as_exactly_as_by_numpy(terms: int) -> None:
    x, y = drawn(terms, 32, 16)
    program = ef.compile(gram, x, y, target=DEVICE)
    (shape,) = products(program.plan)
    assert shape[0] > 1 and shape[1:] == (32, 16) and terms % shape[0] == 0
    np.testing.assert_allclose(program(x, y), gram(x, y), rtol=1e-12, atol=1e-10)


@needs_compiler
def test_sums_of_parts_have_the_same_bits_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = drawn(16384, 32, 16)
    program = ef.compile(gram, x, y, target=DEVICE)
    together = program(x, y)
    monkeypatch.setattr(limit, "value", 1)
    np.testing.assert_array_equal(program(x, y), together)


@pytest.mark.parametrize("shape", [(64, 64, 64), (16384, 16, 1), (1024, 512, 512)])
def test_other_products_are_computed_whole(shape: tuple[int, int, int]) -> None:
    x, y = drawn(*shape)
    assert all(len(s) == 2 for s in products(ef.compile(gram, x, y, target=DEVICE).plan))


def test_strict_programs_add_terms_as_written() -> None:
    x, y = drawn(16384, 32, 16)
    plan = ef.compile(gram, x, y, target=DEVICES["cpu"], numerics="strict").plan
    assert products(plan) == [(32, 16)]
