"""A guard has two faces that are one object: what the e-graph derives, and the same said of NumPy arrays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ops.facts import Fact, of_array
from eqfuse.rewrites import (
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    ascending,
    at_least,
    at_most,
    attrs,
    between,
    book,
    defined,
    finite,
    nonnegative,
    nonpositive,
    nonzero,
    positive,
    symmetric,
    tensors,
)
from eqfuse.rewrites.checking.agreement import compare_sides
from eqfuse.rewrites.checking.cases import drawn
from eqfuse.rewrites.checking.check import check, without_guard
from eqfuse.rewrites.checking.data import obeyed
from eqfuse.rewrites.language.words import maximum, minimum
from tests.laws.corners import drawn_fact, satisfying
from tests.support.some import some

F = np.float32
x, y, z = tensors("x y z")
(p,) = attrs("p")
NAN, INF = np.nan, np.inf


def says(guard: Guard, *arrays: Any) -> bool:
    """The array face of a guard."""
    subject, *others = (np.asarray(a, F) for a in arrays)
    assert guard.wanted is not None
    return guard.wanted(*map(of_array, others)).includes(subject)


@pytest.mark.parametrize(
    "guard, true, false",
    [
        (positive(x), [[1e-45, INF], [NAN]], [[0.0], [-1.0]]),
        (nonnegative(x), [[0.0, 2.0], [INF, NAN]], [[-0.0], [-1e-45]]),
        (nonpositive(x), [[-0.0, -INF], [NAN]], [[0.0], [1.0]]),
        (nonzero(x), [[1.0, -1.0], [NAN]], [[0.0], [-0.0]]),
        (between(x, -1.0, 1.0), [[-1.0, 1.0, NAN]], [[1.5], [-INF]]),
        (defined(x), [[INF, 0.0]], [[NAN]]),
        (finite(x), [[3e38, -0.0]], [[INF], [-INF], [NAN]]),
        (symmetric(x), [[[1.0, NAN], [NAN, 2.0]]], [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [-0.0, 0.0]], [1.0]]),
    ],
    ids=lambda value: value.sentence if isinstance(value, Guard) else "",
)
def test_what_a_guard_says_of_arrays(guard: Guard, true: list, false: list) -> None:
    assert all(says(guard, a) for a in true)
    assert not any(says(guard, a) for a in false)


def test_what_a_guard_says_of_two_arrays() -> None:
    assert says(at_least(x, y), [2.0, 3.0], [1.0, 2.0]) and not says(at_least(x, y), [2.0, 3.0], [1.0, 2.5])
    assert says(at_most(x, y), [-2.0], [-1.0, -2.0]) and not says(at_most(x, y), [-1.5], [-1.0, -2.0])
    assert says(at_least(x, y), [0.0], [0.0]) and not says(at_least(x, y), [0.0], [-0.0, 0.0])


def test_an_array_is_made_to_obey_a_guard() -> None:
    rng = np.random.default_rng(0)
    for guard in (positive(x), nonnegative(x), nonzero(x), between(x, 0.0, 1.0), defined(x), finite(x)):
        for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint8):
            array = rng.choice(np.array([-2.0, -0.0, 0.0, 0.5, 3.0, NAN, INF, -INF]), 50)
            with np.errstate(invalid="ignore"):
                array = array.astype(dtype)
            assert guard.wanted is not None
            values = guard.wanted().obeying(array)
            assert values.dtype == dtype and guard.wanted().includes(values), guard.sentence
    matrix = Fact(symmetric=True).obeying(rng.standard_normal((2, 3, 3)))
    np.testing.assert_array_equal(matrix, matrix.swapaxes(1, 2))


ABOUT_VALUES = [law for law in book() if any(g.wanted for g in law.when)]


@pytest.mark.parametrize("law", some(ABOUT_VALUES, 4), ids=lambda law: law.name)
def test_where_the_egraph_lets_a_law_through_its_arrays_are_as_the_guards_say(law: Law) -> None:
    """Facts from which both faces are asked; a law that claims the same bits then gives them."""
    rng, met = random.Random(law.name), 0
    for _ in range(6000):
        case = drawn(law, rng)
        if case is None or case.complex or any(t.size == 0 for t in case.types.values()):
            continue
        facts = {name: drawn_fact(t.dtype, rng, t.extent(-1) == t.extent(-2) > 1) for name, t in case.types.items()}
        asked = [(g, [facts[t.name] for t in g.tensors]) for g in law.when if g.wanted is not None]
        if not all(subject.within(g.wanted(*others)) for g, (subject, *others) in asked if g.wanted is not None):
            continue
        arrays = {name: satisfying(facts[name], t, rng) for name, t in case.types.items()}
        assert obeyed(case, arrays), f"{law}\n{facts} but {arrays}"
        met += 1
        comparison = compare_sides(case, arrays) if law.exactness is EXACT else None
        assert comparison is None or comparison.holds, f"{law}\n{facts}\n{comparison.counterexample}"
        if met == 40:
            break
    assert met > 10


GUARDED = {
    "sigmoid is nonnegative": (nonnegative(x), lambda a: 1 / (1 + np.exp(-a)), lambda a: a),
    "exp may underflow to zero": (positive(x), lambda a: np.exp(np.clip(a, -1, 1)), np.exp),
    "a square is nonnegative": (nonnegative(x), np.square, lambda a: np.square(a) - 1),
    "a sum of nonnegative terms is nonnegative": (
        nonnegative(x), lambda a: np.abs(a).sum(0, keepdims=True), lambda a: a.sum(0, keepdims=True)),
    "a sum of finite terms may be infinite": (finite(x), lambda a: np.isnan(a).sum(0), lambda a: np.tanh(a).sum(0)),
    "tanh is bounded": (between(x, -1, 1), np.tanh, lambda a: np.tanh(a) + np.tanh(a)),
    "unsigned integers are nonnegative": (
        nonnegative(x), lambda a: a.astype(np.uint8) + np.uint8(3), lambda a: a.astype(np.int8) + np.int8(3)),
    "an unsigned difference wraps around": (
        between(x, 0, 1), lambda a: (a > 0).astype(np.uint8), lambda a: (a > 0).astype(np.uint8) - np.uint8(1)),
    "one more than a square is nonzero": (nonzero(x), lambda a: np.square(a) + 1, lambda a: a + 1),
    "a number beside NaN is defined": (defined(x), lambda a: np.fmax(a, 0), lambda a: np.maximum(a, 0)),
    "a matrix plus its transpose is symmetric": (symmetric(x), lambda a: a + a.T, lambda a: a - a.T),
    "what is done to each element keeps the symmetry": (symmetric(x), lambda a: np.exp(a * a.T) / 2, lambda a: a / 2),
    "of a constant everything is known": (positive(x), lambda a: np.array([[2.0]], F), lambda a: np.array([[-2.0]], F)),
}  # fmt: skip


@pytest.mark.parametrize("guard, true, false", GUARDED.values(), ids=GUARDED)
def test_what_the_egraph_derives(guard: Guard, true: Callable, false: Callable) -> None:
    law = Law("marked", x * y, y * x, (guard,), EXACT, check=False)
    for function, holds in ((true, True), (false, False)):
        space = saturate(trace(lambda a, b, f=function: f(a) * b, spec((3, 3), F), spec((3, 3), F)), laws=[law])
        assert ("marked" in space.laws_fired) is holds


@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
@pytest.mark.parametrize(
    "function, same",
    [
        (lambda a, b: np.maximum(1 / (1 + np.exp(-a)), 0), lambda a, b: 1 / (1 + np.exp(-a))),
        (lambda a, b: np.clip(np.tanh(a), -1, 1), lambda a, b: np.tanh(a)),
        (lambda a, b: np.abs(a * a), lambda a, b: a * a),
        (lambda a, b: np.maximum(np.sqrt(np.exp(a)), 0), lambda a, b: np.sqrt(np.exp(a))),
        (lambda a, b: np.clip(np.clip(a, 0, 6), -1, 7), lambda a, b: np.clip(a, 0, 6)),
        (lambda a, b: (a + a.T).T, lambda a, b: a + a.T),
    ],
    ids=["relu of sigmoid", "clip of tanh", "abs of square", "relu of sqrt", "clip of clip", "transpose of symmetric"],
)
def test_idle_work_equals_its_argument(function: Callable, same: Callable, numerics: str) -> None:
    (segment,) = saturate(
        trace(lambda a, b: (function(a, b), same(a, b)), spec((3, 3), F), spec((3, 3), F)), numerics=numerics
    ).segments
    assert segment.roots[0] == segment.roots[1]


@pytest.mark.parametrize(
    "law",
    [
        Law("_", maximum(x, 0.0), x, (nonnegative(x),), EXACT),
        Law("_", minimum(x, 1.0), x, (between(x, -1.0, 1.0),), EXACT),
        Law("_", maximum(x, y), x, (at_least(x, y), defined(y)), EXACT),
        Law("_", x / y * y, x, (nonzero(y), finite(y)), REASSOCIATES),
        Law("_", x.transpose(p), x, (ascending(p),), EXACT),
    ],
    ids=str,
)
def test_without_its_guard_a_law_has_a_counterexample(law: Law) -> None:
    report = check(law)
    assert report.ok and {g.status for g in report.guards} == {"needed"}, report
    for i in range(len(law.when)):
        assert not check(without_guard(law, i)).ok


@pytest.mark.parametrize(
    "law, function",
    [
        (Law("_", x * 0.5, x, check=False), lambda a: np.tanh(a) * 0.5),
        (Law("_", x + 1, x, check=False), lambda a: (a > 0).astype(np.int64) + 1),
        (Law("_", x + 1, x, check=False), lambda a: np.square(a) + 1),
    ],
    ids=["halves", "whole numbers", "sums"],
)
def test_what_is_derived_of_a_value_that_depends_on_itself_ends(law: Law, function: Callable) -> None:
    guarded = Law("marked", x * y, y * x, (positive(x),), EXACT)  # (such laws are false, and no reason to hang)
    graph = trace(lambda a: (function(a), a * a), spec((3,)))
    assert saturate(graph, laws=[law, guarded]).laws_fired["_"] >= 1


def test_what_is_known_of_one_form_is_not_said_of_another_where_the_first_is_nan() -> None:
    """exp(log(x)) is x where it is defined, and nonnegative; x is not."""
    program = ef.compile(lambda a: (np.exp(np.log(a)), np.maximum(a, 0)), np.ones(2), numerics="approximate")
    np.testing.assert_array_equal(program(np.array([-1.0, 2.0]))[1], [0.0, 2.0])
    (segment,) = saturate(trace(lambda a: (np.abs(a * a), a * a), spec((3,), F)), numerics="approximate").segments
    assert segment.roots[0] == segment.roots[1]
