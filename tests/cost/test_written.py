"""What laws may not do: make a plan that costs more than the program as written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.scaled_products import arguments, random_products
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.extract.kernel_price import priced
from eqfuse.ops import Role
from eqfuse.plan.plan import Kernel, Plan
from tests.support.some import some

CPU = DEVICES["cpu"]
TALL = ((100_000, 20), (10_000, 300), (4096, 1024), (2000, 50))


def taken(function: Callable[..., Any], *shapes: tuple[int, ...], device: Device = CPU) -> float:
    answer = priced(ef.trace(function, *[ef.spec(s, np.float64) for s in shapes]), device)
    assert not isinstance(answer, str), answer
    return answer[1].seconds


def computed(plan: Plan) -> int:
    """Elements that operators make, and products multiply: a sum of elementwise products may stand for one."""
    operators = [n for k in plan.kernels for n in k.body.operators]
    elementwise = sum(n.type.size for n in operators if n.row.role is Role.ELEMENTWISE)
    return elementwise + sum(n.type.size * n.args[0].shape[-1] for n in operators if n.row.role is Role.CONTRACTION)


@pytest.mark.parametrize("shape", some(TALL, 4))
def test_a_scale_on_the_transposed_matrix_costs_more_than_one_on_the_vector(shape: tuple[int, int]):
    n, _ = shape
    on_vector = taken(lambda X, r: X.T @ r, shape, (n, 1)) + taken(lambda r: r * 2, (n, 1))
    assert taken(lambda X, r: (X.T * 2) @ r, shape, (n, 1)) > 1.5 * on_vector


def test_work_before_a_product_of_too_few_rows_for_two_tiles_is_done_by_one_thread():
    shapes = (300, 10_000), (10_000, 1)
    graph = ef.trace(lambda X, w: np.exp(X) @ w, *[ef.spec(s, np.float64) for s in shapes])
    state, price = priced(graph, CPU)  # type: ignore[misc]
    assert price.seconds > 3_000_000 * CPU.single.element_seconds("exp", "float64")
    assert "share" not in emit_kernel(Kernel(state.kind, graph, (), (), price), CPU).source


@pytest.mark.slow
@pytest.mark.parametrize("shape", TALL)
def test_laws_move_no_scale_onto_the_large_operand(shape: tuple[int, int]):
    """The plan is no costlier than that of the program as written; on a CPU, which hides no work behind memory, it
    computes no matrix more."""
    rng = np.random.default_rng(math.prod(shape))
    for devices in ((CPU, datasheet("a100")), (CPU.one_thread(),)):
        text, function = random_products(rng)
        graph = ef.trace(function, *[ef.spec(a.shape, a.dtype) for a in arguments(rng, *shape)])
        space, alone = ef.saturate(graph), ef.saturate(graph, laws="none")
        for device in devices:
            plan, written = (ef.extract(s, target=device) for s in (space, alone))
            assert plan.seconds <= written.seconds * (1 + 1e-9), (device.name, text)
            more = computed(plan) - computed(written)
            assert device.kind == "gpu" or more < math.prod(shape) / 2, (device.name, text)
