"""Under strict numerics an e-graph holds equal what has the same bits, and what is derived of a value is true of it."""

from __future__ import annotations

import random

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.budget import Budget
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.saturate import Saturation, freeze, reachable
from eqfuse.ir.graph import Graph
from eqfuse.ops import Role, row
from eqfuse.ops.ranges import RANGES
from eqfuse.rewrites import Law, admitted, laws_named
from tests.laws.corners import REFUSALS, drawn_program, planted
from tests.laws.left_open import determined, same, undefined
from tests.support.drawing import EXPLORING, many

COMMON = "add subtract multiply divide negative abs maximum minimum where cast less greater_equal transpose reshape"
OTHERS = "isnan isfinite logical_not logical_and equal copysign signbit remainder"
OPS = [*RANGES, *COMMON.split() * 3, *OTHERS.split()]
LAWS = admitted(laws_named("all"), "strict")


@pytest.mark.parametrize("seed", range(2))
def test_all_that_an_egraph_calls_equal_has_the_same_bits(seed: int) -> None:
    _egraphs(seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_all_that_many_egraphs_call_equal_has_the_same_bits(seed: int) -> None:
    _egraphs(1000 + seed, many(10))


def _egraphs(seed: int, count: int) -> None:
    rng, compared = random.Random(None if EXPLORING else seed), 0
    for _ in range(count):
        graph, arrays = drawn_program(OPS, 14, rng)
        compared += _classes_agree(graph, arrays)
    assert compared > count


@pytest.mark.parametrize("law", [law for law in LAWS if any(g.wanted for g in law.when)], ids=lambda law: law.name)
def test_where_a_law_asks_for_a_fact_equal_values_have_the_same_bits(law: Law) -> None:
    _planted(law, 3)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_where_any_law_matches_equal_values_have_the_same_bits(part: int) -> None:
    for law in LAWS[part::16]:
        _planted(law, 10 if any(g.wanted for g in law.when) else 1)


@pytest.mark.parametrize("seed", range(2))
def test_a_compiled_program_gives_every_bit_that_numpy_does_not_leave_open(seed: int) -> None:
    _compiled(seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_compiled_programs_give_every_bit_that_numpy_does_not_leave_open(seed: int) -> None:
    _compiled(1000 + seed, many(8))


def _compiled(seed: int, count: int) -> None:
    rng, elements = random.Random(None if EXPLORING else seed), 0
    for _ in range(count):
        graph, arrays = drawn_program(OPS, 14, rng)
        wanted = determined(graph, arrays, rng)
        if wanted is None:
            continue
        program = ef.compile(graph, numerics="strict")
        with np.errstate(all="ignore"):
            results = program.run(arrays)
        for n, got, (value, alike) in zip(graph.outputs, results, wanted, strict=True):
            agree = same(got, value) | ~alike
            assert agree.all(), f"{n} is {value.tolist()}, not {got.tolist()}, in\n{graph}\nof {arrays}\n{program.plan}"
            elements += int(alike.sum())
    assert elements > 10 * count


def _planted(law: Law, count: int) -> None:
    rng = random.Random(None if EXPLORING else law.name)
    for _ in range(count):
        program = next(filter(None, (planted(law, rng) for _ in range(3000))), None)
        if program is not None:
            _classes_agree(*program)


def _classes_agree(graph: Graph, arrays: list[np.ndarray]) -> int:
    """Evaluates every node of the saturated e-graph on the values of its arguments' classes: how many were compared
    with another node of their class."""
    values = dict(zip(graph.inputs, arrays, strict=True))
    for n in graph.nodes:
        if n not in values and values.keys() >= set(n.args):
            result = value_of(n.op, [values[a] for a in n.args], n.attrs)
            if result is not None:
                values[n] = result
    graph = Graph(graph.inputs, tuple(o for o in graph.outputs if o in values))
    engine = Engine()
    engine.add((*graph.inputs, *graph.nodes))
    engine.track_ranges()
    for _ in Saturation(engine, reachable(graph, LAWS), Budget(nodes=1000, rounds=5)):
        pass
    for n, fact in engine.value_facts().items():
        if n in values:
            assert fact.includes(values[n]), f"{n}: {fact} but {values[n].tolist()} in\n{graph}\nof {arrays}"
    classes, origin = freeze(engine, graph)
    of_class = {c: values[n] for n, c in origin.items() if n in values}
    compared, waiting = 0, [(c, enode) for c, cls in enumerate(classes) for enode in cls.nodes if enode.op != "input"]
    while ready := [(c, enode) for c, enode in waiting if of_class.keys() >= set(enode.args)]:
        waiting = [w for w in waiting if w not in ready]
        for c, enode in ready:
            given = [of_class[a] for a in enode.args]
            value = value_of(enode.op, given, enode.attrs)
            if value is None:
                continue
            alike = same(of_class.setdefault(c, value), value) | undefined(enode.op, given, value)
            compared += 1
            assert alike.all(), (
                f"class {c} is {of_class[c].tolist()}, but {enode.op}{enode.attrs} of {[a.tolist() for a in given]} is "
                f"{value.tolist()}; its nodes are {classes[c].nodes} in\n{graph}\nof {arrays}"
            )
    return compared - len(of_class)


def value_of(op: str, arrays: list[np.ndarray], attrs: tuple) -> np.ndarray | None:
    """What the operator gives along contiguous memory, where NumPy always rounds a function alike; None where NumPy
    refuses the data."""
    if row(op).role is Role.ELEMENTWISE and arrays:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        arrays = [np.array(np.broadcast_to(a, shape), order="C") for a in arrays]
    try:
        with np.errstate(all="ignore"):
            return np.asarray(row(op).meaning(*arrays, *attrs))
    except REFUSALS:
        return None
