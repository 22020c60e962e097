"""Programs where algebra, maps, cascades and recomputation meet: right answers, and plans no costlier than others'."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.ablations import without_maps
from eqfuse.benches.corpus.index_maps import INDEX_MAPS
from eqfuse.benches.corpus.interplay import INTERPLAY
from eqfuse.benches.corpus.scans import SCANS
from eqfuse.benches.corpus.suite import Case
from eqfuse.cost.profiles import DEVICES, profile
from eqfuse.egraph.space import Space
from eqfuse.emit.c.device import compiled_device
from eqfuse.extract.greedy import GREEDY
from eqfuse.ir.pytree import tree_leaves
from tests.support.some import some

CASES = INTERPLAY | INDEX_MAPS | SCANS
DEVICE = {"a100": profile("a100"), "c": compiled_device(DEVICES["cpu"])}


def arguments(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    of_floats = [np.asarray(rng.uniform(0.1, 1, t.shape)).astype(t.dtype) for t in case.program(small=True)[1]]
    return [rng.integers(0, 4, a.shape).astype(a.dtype) if a.dtype.kind == "i" else a for a in of_floats]


@cache
def space_of(id: str) -> Space:
    function, types = CASES[id].program(small=False)
    return ef.saturate(ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types]))


@pytest.mark.parametrize("case", some(CASES.values(), 5), ids=lambda case: case.id)
def test_the_answer_is_numpys(case: Case) -> None:
    function, _ = case.program(small=True)
    given = arguments(case)
    program = ef.compile(function, *given, target="numpy", budget=ef.Budget(nodes=1000, rounds=6))
    for got, want in zip(tree_leaves(program(*given))[0], tree_leaves(function(*given))[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


# Kernels of more than a few numbers, on an A100
KERNELS = {
    "J2": 1, "J5": 1, "J6": 1, "J7": 1, "J9": 1, "J13": 1, "J14": 1, "J18": 1, "J21": 1, "J22": 1, "J23": 1, "M8": 1,
    "M9": 1, "M12": 2, "S5": 1,
}  # fmt: skip


@pytest.mark.parametrize("id", some(KERNELS, 4))
def test_what_can_be_one_kernel_is_one(id: str) -> None:
    plan = ef.extract(space_of(id), target=DEVICE["a100"])
    large = [k for k in plan.kernels if not k.is_view and k.price.bytes_read > 1000]
    assert len(large) == KERNELS[id], plan


def test_greedy_fusion_without_maps_stores_what_they_read() -> None:
    space = space_of("J2")
    with without_maps():
        plans = [ef.extract(space, target=DEVICE["a100"], extractor=name) for name in GREEDY]
    joined = [n.op for plan in plans for k in plan.kernels for n in k.body.nodes if n.op == "concat"]
    assert joined and min(plan.seconds for plan in plans) > 2 * ef.extract(space, target=DEVICE["a100"]).seconds
    assert all(k.kind == "library" for plan in plans for k in plan.kernels for n in k.body.nodes if n.op == "concat")


@pytest.mark.slow
@pytest.mark.parametrize(("id", "where"), list(zip([*INTERPLAY][::2], cycle(DEVICE))))
def test_the_plan_is_never_costlier_than_greedy_ones(id: str, where: str) -> None:
    space = space_of(id)
    joint = ef.extract(space, target=DEVICE[where]).seconds
    for name in GREEDY:
        assert joint <= ef.extract(space, target=DEVICE[where], extractor=name).seconds * (1 + 1e-9), name
