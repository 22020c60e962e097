"""Sums and products of many terms are equal in every order, at the price of one more form each."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.dtypes import epsilon
from eqfuse.egraph.equality import equality
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute
from eqfuse.rewrites import Law, admitted, laws_named
from eqfuse.rewrites.procedures.chains import LAWS, reordered

DEFAULT, APPROXIMATE = (admitted(laws_named("all"), numerics) for numerics in ("reassociate", "approximate"))
SHAPES = ((2, 3), (3,), (1, 3), (2, 1), ())
INVERSE = {"add": "subtract", "multiply": "divide"}


def tree(op: str, leaves: list[Node], rng: random.Random) -> Node:
    """A random bracketing of a random order of `leaves`."""
    terms = leaves[:]
    rng.shuffle(terms)
    while len(terms) > 1:
        first = rng.randrange(len(terms) - 1)
        terms[first : first + 2] = [node(op, terms[first : first + 2])]
    return terms[0]


def same(a: Node, b: Node, leaves: list[Node], laws: tuple[Law, ...] = APPROXIMATE) -> bool:
    return equality(Graph(tuple(leaves), (a,)), Graph(tuple(leaves), (b,)), laws) is not None


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "logical_or", "bitwise_xor"])
@pytest.mark.parametrize("n", [3, 5, 9])
def test_two_orders_of_the_same_terms_are_proved_equal(op: str, n: int) -> None:
    rng = random.Random(n)
    dtype = "int32" if op == "bitwise_xor" else "bool" if op == "logical_or" else "float32"
    leaves = [input_node(f"x{i}", ef.spec((2, 3), dtype).type) for i in range(n)]
    for _ in range(3):
        assert same(tree(op, leaves, rng), tree(op, leaves, rng), leaves)


@pytest.mark.parametrize(
    "op, dtype, n, proved",
    [("add", "int32", 6, True), ("multiply", "uint8", 6, True), ("multiply", "float32", 4, True),
     ("multiply", "float32", 6, False), ("multiply", "float16", 3, False), ("add", "float64", 3, False),
     ("maximum", "float16", 6, True)],
)  # fmt: skip
def test_by_default_floats_meet_in_no_order_in_which_they_might_cancel_or_overflow(
    op: str, dtype: str, n: int, proved: bool
) -> None:
    leaves = [input_node(f"x{i}", ef.spec((2, 3), dtype).type) for i in range(n)]
    up, down = (reduce(lambda a, b: node(op, (a, b)), some) for some in (leaves, leaves[::-1]))
    assert same(up, down, leaves, DEFAULT) == proved


@pytest.mark.parametrize("numerics", ["strict", "reassociate", "approximate"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32"])
def test_many_factors_and_numbers_among_them_have_their_product(dtype: str, numerics: str) -> None:
    def product(a: Any, b: Any, c: Any, d: Any) -> Any:
        return 3 * a * 5 * b * (c * 2) * d * 7 * a

    values = [np.array([1, -2, 3]).astype(ef.spec(3, dtype).dtype) for _ in range(4)]
    got = ef.compile(product, *values, numerics=numerics)(*values)
    assert got.dtype == values[0].dtype
    wanted = product(*(v.astype(complex) for v in values))
    np.testing.assert_allclose(got.astype(complex), wanted, rtol=0 if dtype == "int32" else 16 * epsilon(got.dtype))


def test_differences_and_quotients_are_terms_too() -> None:
    def traced(f: Callable[..., Any]) -> Graph:
        return ef.trace(f, *[ef.spec((4, 5))] * 4)

    for f, g in (
        (lambda x, y, z, w: (x + y) - (z - w), lambda x, y, z, w: (w - z) + (y + x)),
        (lambda x, y, z, w: (x / y) * (z / w), lambda x, y, z, w: z * x / y / w),
    ):
        a, b = traced(f), traced(g)
        b = Graph(a.inputs, substitute(b.outputs, dict(zip(b.inputs, a.inputs, strict=True))))
        assert equality(a, b, APPROXIMATE) is not None


def test_other_terms_are_not_equal() -> None:
    x, y, z = (input_node(name, ef.spec((3,)).type) for name in "xyz")
    once, twice = node("add", (node("add", (x, y)), z)), node("add", (node("add", (x, y)), node("add", (y, z))))
    assert not same(once, twice, [x, y, z])


def test_small_terms_meet_before_they_are_broadcast() -> None:
    def total(x: np.ndarray, *small: np.ndarray) -> Any:
        return reduce(np.add, small, x)

    specs = ef.spec((1000, 1000)), *[ef.spec(1000)] * 12
    program = ef.compile(total, *specs, target=DEVICES["cpu"], numerics="approximate")
    assert program.report.flops == 1_000_000 + 11 * 1000
    assert program.report.laws_fired["sums_in_one_order"] > 0


def test_a_long_sum_grows_by_no_more_than_its_length() -> None:
    def total(*xs: Any) -> Any:
        return reduce(np.add, xs)

    specs = [ef.spec((4,) if i % 2 else (8, 4)) for i in range(40)]
    space = ef.saturate(ef.trace(total, *specs))
    assert space.stop_reason == "saturated"
    assert sum(len(c.nodes) for s in space.segments for c in s.classes) <= 4 * len(specs)


@pytest.mark.parametrize("seed", range(10))
def test_every_reordering_has_the_same_value(seed: int) -> None:
    rng = random.Random(seed)
    values = np.random.default_rng(seed)
    law = rng.choice(LAWS[:2])
    op = law.chain[0]  # type: ignore[index]
    leaves = [input_node(f"x{i}", ef.spec(rng.choice(SHAPES), "float64").type) for i in range(rng.randint(3, 8))]
    root = tree(op, leaves, rng)
    if rng.random() < 0.7:
        root = node(INVERSE[op], (root, node(INVERSE[op], (leaves[0], tree(op, leaves[1:], rng)))))
    graph = Graph(tuple(leaves), (root,))
    pairs = reordered(law, [*leaves, *graph.operators], set(leaves[:2]))
    arrays = [values.uniform(0.5, 2, n.shape) for n in leaves]
    for n, other in pairs:
        assert other.type == n.type
        both = ef.meaning(Graph(tuple(leaves), (n, other)), *arrays)
        np.testing.assert_allclose(both[0], both[1], rtol=1e-12)


def test_the_truth_of_numbers_is_a_term_like_any_other() -> None:
    """``logical_and`` of numbers is one of their truth values, which cannot be taken apart."""
    x, y, mask = np.array([0.0, 1.0, np.nan]), np.array([2.0, 0.0, 1.0]), np.array([True, True, False])

    def both(x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> tuple:
        either = np.logical_and(np.logical_or(mask, y > 0), np.logical_and(x, y))
        return either, np.logical_and(mask, np.logical_and(np.logical_and(x, y), y > 0))

    for got, wanted in zip(ef.compile(both, x, y, mask)(x, y, mask), both(x, y, mask), strict=True):
        np.testing.assert_array_equal(got, wanted)
