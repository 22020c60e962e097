"""Laws with several outputs: matched together, applied once per set of tensors, never to their own work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.rewrites import EXACT, FAMILIES, REASSOCIATES, Law, in_program, is_constant, tensors
from eqfuse.rewrites.checking.check import check
from eqfuse.rewrites.language.words import cos, sin

F = np.float32
x, a, b = tensors("x a b")


TWO, THREE = (law for law in FAMILIES["grouping"] if law.name.endswith("one_left"))


def products(n: int) -> Any:
    return trace(lambda x, *ws: tuple(x @ w for w in ws), spec((4, 3), F), *(spec((3, 2 + i), F) for i in range(n)))


def operators(space: Any, op: str) -> int:
    return sum(n.op == op for s in space.segments for k in s.classes for n in k.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("law", [TWO, THREE], ids=["two", "three"])
def test_all_outputs_are_judged(law: Law) -> None:
    left, right = law.lefts, law.rights
    wrong = Law("wrong", left, (right[1], right[0], *right[2:]), law.when, REASSOCIATES)
    counterexample = check(wrong).counterexample
    assert counterexample is not None and counterexample.left.shape == counterexample.right.shape


def test_both_outputs_of_a_match_become_equal_to_what_is_made() -> None:
    space = saturate(products(2), laws=[TWO])
    (segment,) = space.segments
    for root in segment.roots:
        assert {n.op for n in segment.classes[root].nodes} == {"matmul", "slice"}


@pytest.mark.parametrize("n, pairs, threes", [(1, 0, 0), (2, 1, 0), (3, 3, 1), (5, 10, 10)])
def test_each_set_of_products_is_met_once_and_what_is_made_is_not_met(n: int, pairs: int, threes: int) -> None:
    for law, wanted in ((TWO, pairs), (THREE, threes)):
        space = saturate(products(n), laws=[law])
        assert space.stop_reason == "saturated"
        assert operators(space, "concat") == wanted and operators(space, "matmul") == n + wanted


def test_a_tensor_is_not_paired_with_itself() -> None:
    graph = trace(lambda x, w: (x @ w, x @ (w + 0.0)), spec((4, 3), F), spec((3, 2), F))
    space = saturate(graph, laws=["plus_zero", TWO])
    assert operators(space, "concat") <= 1  # before the two are found equal


def test_outputs_that_cannot_change_places_are_met_in_their_order() -> None:
    law = Law("circle", (sin(x), cos(x)), (sin(x * 1.0), cos(x * 1.0)), (in_program(x),), EXACT)
    graph = trace(lambda a: (np.cos(a), np.sin(a)), spec((3,), F))
    assert saturate(graph, laws=[law]).laws_fired["circle"] == 1


def test_a_guard_on_one_of_two_outputs_keeps_both_orders() -> None:
    guards = (is_constant(a), in_program(a, b))
    law = Law("known_left", (x @ a, x @ b), (x @ (a + 0.0), x @ (b + 0.0)), guards, REASSOCIATES)
    weight = np.ones((3, 2), F)
    for function in (lambda x, w: (x @ w, x @ weight), lambda x, w: (x @ weight, x @ w)):
        graph = trace(function, spec((4, 3), F), spec((3, 2), F))
        assert saturate(graph, laws=[law]).laws_fired["known_left"] == 1


def test_a_law_of_several_outputs_is_read_both_ways() -> None:
    law = Law("turned", (x * a, x * b), (a * x, b * x), (), EXACT, both=True)
    assert [len(lefts) for _, lefts, _ in law.directions] == [2, 2]
    assert check(law).ok
