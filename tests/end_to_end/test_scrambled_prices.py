"""Whatever plan the prices lead to, the answer stays the same: extraction under scrambled prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.device import Device
from eqfuse.demo import programs
from eqfuse.emit.numpy.calibrate import this_cpu
from eqfuse.ir.pytree import tree_leaves
from tests.support.some import some

SHORT = ef.Budget(nodes=1000, rounds=6)
EXAMPLES = {
    "transformer": programs.transformer(batch=2, tokens=5, width=8, heads=2),
    "options": programs.options(count=19),
    "convolution": programs.convolution(batch=2, channels=3, filters=4, size=6),
}


def scrambled(seed: int) -> Device:
    """This CPU with every rate off by up to a factor of a thousand either way."""
    rng = np.random.default_rng(seed)

    def off(x: float) -> float:
        return float(x * 10 ** rng.uniform(-3, 3))

    base = this_cpu()
    return replace(
        base,
        name=f"scrambled-{seed}",
        launch_seconds=off(base.launch_seconds),
        call_seconds=off(base.call_seconds),
        dispatch_seconds=off(base.dispatch_seconds),
        levels=tuple((size, off(rate)) for size, rate in base.levels),
        thread_levels=tuple((size, off(rate)) for size, rate in base.thread_levels),
        flops=tuple((dtype, off(rate)) for dtype, rate in base.flops),
        elements=tuple((op, tuple((dtype, off(s)) for dtype, s in row)) for op, row in base.elements),
    )


def agree(function: Any, arguments: tuple, device: Device) -> None:
    graph = ef.trace(function, *arguments)
    got = tree_leaves(ef.compile(graph, target=device, budget=SHORT)(*arguments))[0]
    for g, w in zip(got, tree_leaves(ef.meaning(graph, *arguments))[0], strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        scale = max(1.0, float(np.abs(w.astype(np.float64)).max(initial=0)))
        near = 64 * float(np.finfo(w.dtype).eps) * scale
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=0, atol=near)


@pytest.mark.parametrize("seed", some(range(4), 4))
@pytest.mark.parametrize("name", some(reversed(EXAMPLES), 3))
def test_a_demo_program_means_the_same_under_any_prices(name: str, seed: int) -> None:
    function, arguments = EXAMPLES[name].build(np.float32)
    agree(function, arguments, scrambled(seed))


@pytest.mark.parametrize("id", some(GRAPHS, 2))
def test_a_suite_program_means_the_same_under_any_prices(id: str) -> None:
    function, types = GRAPHS[id].program(small=True)
    seed = list(GRAPHS).index(id)
    rng = np.random.default_rng(seed)
    arguments = tuple(np.asarray(rng.standard_normal(t.shape)).astype(t.dtype) for t in types)
    agree(function, arguments, scrambled(100 + seed))
