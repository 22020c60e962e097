"""What a value costs that a kernel reads through several views: in tiles it is computed for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.views import push_views

CPU = DEVICES["cpu"]


def cube(u: Any) -> Any:
    return u * u * u


def stencil(v: Any) -> Any:
    return v[1:-1, 1:-1] * 4 - v[:-2, 1:-1] - v[2:, 1:-1] - v[1:-1, :-2] - v[1:-1, 2:]


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda u: stencil(cube(u)),
    lambda u: cube(u)[1:] - cube(u)[:-1],
    lambda u: np.exp(u) + np.exp(u).T,
    lambda u: stencil(np.exp(stencil(u))),
    lambda u: np.exp(u)[::2] * 3,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kernel_is_priced_with_the_work_that_its_views_repeat(program: Callable[[Any], Any]) -> None:
    graph = ef.trace(program, ef.spec((512, 512), np.float32))
    answer = priced(graph, CPU)
    assert not isinstance(answer, str), answer
    pushed = push_views(graph)
    flops = sum(n.row.flops([a.type for a in n.args], n.type, n.attrs) for n in pushed.operators)
    assert answer[1].flops == pytest.approx(flops, rel=1e-3)


def test_a_costly_value_that_a_stencil_reads_is_stored_first() -> None:
    def program(u: Any) -> Any:
        return stencil(np.tanh(np.exp(np.sin(u))))

    plan = ef.extract(ef.saturate(ef.trace(program, ef.spec((4096, 4096), np.float32)), laws="none"), target=CPU)
    assert [[n.op for n in k.body.operators].count("exp") for k in plan.kernels if not k.is_view] == [1, 0]
