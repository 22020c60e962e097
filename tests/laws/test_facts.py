"""What is derived of values is true of what NumPy computes, and a guard's two faces say the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Node, topological
from eqfuse.ops.facts import Fact, of_array
from eqfuse.ops.ranges import range_of
from eqfuse.rewrites import APPROXIMATE, EXACT, FAMILIES
from eqfuse.rewrites.checking.cases import drawn as drawn_case
from eqfuse.rewrites.checking.data import PLAIN, obeyed
from eqfuse.rewrites.checking.data import SPECIAL as SPECIAL
from eqfuse.rewrites.checking.data import arrays as arrays_of


def nearly(fact: Fact) -> Fact:
    """`fact` of an equal value that was rounded otherwise."""
    below, above = (0.0 if np.isinf(v) else abs(v) * 1e-2 + 1e-3 for v in (fact.lower, fact.upper))
    return Fact(fact.lower - below, fact.upper + above)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_known_of_one_side_of_a_law_holds_of_the_other(family: str) -> None:
    """(Not of laws that may lose a NaN: `Engine.meet` treats them apart.)"""
    for law in FAMILIES[family]:
        if law.exactness is APPROXIMATE:
            continue
        rng, numbers = random.Random(law.name), np.random.default_rng(0)
        for _ in range(3):
            case = drawn_case(law, rng)
            if case is None or case.complex:
                continue
            given = arrays_of(case, SPECIAL if law.exactness is EXACT else PLAIN, numbers)
            if not obeyed(case, given):
                continue
            facts: dict[Node, Fact] = {}
            for n in topological(case.graph.outputs):
                facts[n] = of_array(given[n.attr("name")]) if n.op == "input" else range_of(
                    n.op, n.attrs, [a.type for a in n.args], [facts[a] for a in n.args])  # fmt: skip
            with np.errstate(all="ignore"):
                try:
                    results = evaluate(case.graph, [given[i.attr("name")] for i in case.graph.inputs])
                except (IndexError, ValueError):  # NumPy refuses these data
                    continue
            half = len(results) // 2
            for n, other in zip(case.graph.outputs, results[half:] + results[:half], strict=True):
                finite = other[np.isfinite(other)]
                assert nearly(facts[n]).includes(finite), f"{law}\n{facts[n]} but {finite} of {given}"


def test_truth_values_times_themselves_compile() -> None:
    x = np.array([True, False])
    program = ef.compile(lambda x: (x * x, np.maximum(x + 0.5, 0)), x)
    np.testing.assert_array_equal(program(x)[0], x)


MOST = np.finfo(np.float64).max


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.abs(np.clip(x, -MOST, MOST) + 1.0),
        lambda x: np.sqrt(np.clip(x, -1.34e154, 1.34e154) ** 2),
        lambda x: np.where(np.isnan(np.prod(np.fmax(x, 1e-200))), 7.0, 1.0),
        lambda x: np.abs(np.maximum(x, 0.0) / np.inf),
    ],
    ids=["clipped to all finite numbers", "squares that nearly overflow", "0 * inf in a product", "a zero over inf"],
)
def test_a_program_of_extreme_numbers_compiles_to_the_same_bits(function: Callable) -> None:
    x = np.array([0.0, -0.0, 1.0, -1e-200, 1e-200, MOST, -MOST, np.inf, np.nan])
    for part in (x, x[:-1], x[:-2], x[2:6], np.array([1e-200, 1e-200, np.inf])):
        with np.errstate(all="ignore"):
            got = ef.compile(function, part, numerics="strict")(part)
            assert np.array_equal(got, wanted := function(part), equal_nan=True)
            assert np.array_equal(np.signbit(got), np.signbit(wanted)) or np.isnan(wanted).any()
