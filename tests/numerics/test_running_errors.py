"""The running error bound holds: what a dtype computes is within it of what float64 does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.dtypes import kind
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.running_errors import running_errors
from eqfuse.ops.literal import Literal
from tests.numerics.forms import random_program

SLACK = 1.01  # the bound is of the first order


def in_float64(graph: Graph, arrays: Sequence[np.ndarray]) -> dict[Node, np.ndarray]:
    """Every node of `graph`, computed in float64 from the same numbers."""
    values = {n: _wide(a) for n, a in zip(graph.inputs, arrays, strict=True)}
    with np.errstate(all="ignore"):
        for n in graph.nodes:
            if n.op == "const":
                (literal,) = n.attrs
                assert isinstance(literal, Literal)
                values[n] = _wide(literal.array)
            elif n not in values:
                values[n] = np.asarray(n.row.meaning(*(values[a] for a in n.args), *n.attrs))
    return values


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if kind(array.dtype) == "f" else array


@pytest.mark.parametrize("part", range(2))
def test_every_value_of_a_program_is_within_its_bound(part: int) -> None:
    said = 0
    for seed in range(200 * part, 200 * (part + 1)):
        rng = np.random.default_rng(seed)
        graph, arrays = random_program(rng, steps=int(rng.integers(1, 8)))
        if any(kind(n.dtype) not in "fb" or n.dtype == np.float64 or n.op == "cast" for n in graph.nodes):
            continue
        exact = in_float64(graph, arrays)
        for n, bound in running_errors(graph, arrays).items():
            known = np.isfinite(bound.error) & np.isfinite(exact[n]) if kind(n.dtype) == "f" else bound.error == 0
            apart = np.abs(bound.wide[known] - exact[n][known])
            assert (apart <= SLACK * bound.error[known]).all(), f"seed {seed}, {n}\n{graph}\n{arrays}"
            said += int(known.sum())
    assert said > 2000


def test_a_difference_that_cancels_keeps_the_error_of_its_terms() -> None:
    x = np.array([3.0, 1000.0], np.float32)
    graph = ef.trace(lambda x: (x * 1.1) - x, x)
    result = running_errors(graph, [x])[graph.outputs[0]]
    assert (result.error > 2.0**-24 * x).all() and (result.error < 2.0**-22 * x).all()


def test_what_is_exact_has_no_error() -> None:
    x = np.array([1.5, -2.25], np.float32)
    graph = ef.trace(lambda x: (np.abs(-x) * 4 / 2, np.maximum(x, 0), np.where(x > 0, x, 1)), x)
    errors = running_errors(graph, [x])
    assert all((errors[o].error == 0).all() for o in graph.outputs)


@pytest.mark.parametrize(
    "function, x",
    [(lambda x: x * x, 2.0**40), (lambda x: 1 / (x - x), 3.0), (lambda x: np.log(-x), 2.0), (lambda x: x + np.inf, 1.0),
     (lambda x: np.exp(x), 60.0)],
)  # fmt: skip
def test_nothing_is_said_of_what_leaves_the_safe_range_or_is_not_defined(function, x: float) -> None:
    array = np.array([x], np.float32)
    graph = ef.trace(function, array)
    assert np.isinf(running_errors(graph, [array])[graph.outputs[0]].error).all()
    wide = np.array([x], np.float64)
    graph = ef.trace(lambda x: x * x, wide)
    assert np.isfinite(running_errors(graph, [wide])[graph.outputs[0]].error).all()
