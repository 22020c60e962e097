"""A value that pays only when several readers turn to it at once is found: it takes one move to store it for all."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.hardware import datasheet
from eqfuse.testing.suite import GRAPHS


@pytest.mark.parametrize("extractor", ["flow", "exact"])
def test_three_products_of_one_left_become_one_where_a_law_offers_it(extractor: str) -> None:
    function, types = GRAPHS["G12"].program(small=False)
    graph = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    space = ef.saturate(graph, laws=["three_products_of_one_left"])
    plan = ef.extract(space, target=datasheet("a100"), extractor=extractor)
    (kernel,) = [k for k in plan.kernels if k.kind != "view"]
    assert [n.op for n in kernel.body.operators] == ["matmul"]


def test_the_one_product_gives_the_three_answers() -> None:
    function, types = GRAPHS["G12"].program(small=True)
    x = np.random.default_rng(0).standard_normal(types[0].shape, np.float32)
    program = ef.compile(function, x, target="numpy", laws=["three_products_of_one_left"])
    for got, wanted in zip(program(x), function(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
