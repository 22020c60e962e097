"""What is derived of values is true of what NumPy computes, and a guard's two faces say the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.dtypes import BFLOAT16, FLOAT8
from eqfuse.egraph import reachable
from eqfuse.engine import Engine
from eqfuse.errors import EqfuseError
from eqfuse.facts import Fact, of_array, of_dtype
from eqfuse.ir import Graph, Literal, Node, TensorType, topological
from eqfuse.meaning import evaluate
from eqfuse.ops import Role, row
from eqfuse.ops.ranges import RANGES, range_of
from eqfuse.rewrites import APPROXIMATE, EXACT, FAMILIES, admitted, select
from eqfuse.rewrites.cases import drawn as drawn_case
from eqfuse.rewrites.data import PLAIN, obeyed
from eqfuse.rewrites.data import SPECIAL as SPECIAL_DATA
from eqfuse.rewrites.data import arrays as arrays_of
from eqfuse.rewrites.rule import Decline
from eqfuse.rewrites.samples import sample_attr
from eqfuse.testing.random_graphs import random_graph

DTYPES = [*map(np.dtype, ("f2", "f4", "f8", "i1", "u1", "i4", "i8", "u8", "?")), BFLOAT16, FLOAT8[0]]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 7.0, np.inf, -np.inf, np.nan, 1e-7, -1e-7, 300.0, 6e4, 3e38, 1e-45)


def drawn(dtype: np.dtype, shape: tuple[int, ...], rng: random.Random) -> np.ndarray:
    """Numbers from a few, so that the bounds are met: all small, or all of one sign, or anything."""
    few = rng.sample(SPECIAL, rng.randint(1, 4))
    if rng.random() < 0.4:
        few = [abs(v) for v in few]
    if rng.random() < 0.4:
        few = [v for v in few if np.isfinite(v)] or [1.0]
    values = np.array([rng.choice(few) for _ in range(int(np.prod(shape)))]).reshape(shape)
    with np.errstate(all="ignore"):
        if dtype.kind in "biu":
            limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            values = np.clip(np.nan_to_num(values), *(float(v) for v in limits))
            return np.array([min(max(int(v), limits[0]), limits[1]) for v in values.reshape(-1)], dtype).reshape(shape)
        return values.astype(dtype)


def loosened(fact: Fact, dtype: np.dtype, rng: random.Random) -> Fact:
    """A weaker fact: bounds further out."""
    whole = of_dtype(dtype)
    lower = rng.choice((fact.lower, fact.lower, whole.lower, min(fact.lower, 0)))
    upper = rng.choice((fact.upper, fact.upper, whole.upper, max(fact.upper, 1)))
    return Fact(lower, upper, fact.nan or (rng.random() < 0.3 and whole.nan), fact.zero or rng.random() < 0.3)


def cases(op: str, rng: random.Random) -> Any:
    """(argument arrays, facts that hold of them, attributes) on which `op` is defined."""
    dtype = rng.choice(DTYPES)
    arity = 2 if row(op).arity is None else row(op).arity
    shape = tuple(rng.choice((1, 2, 3)) for _ in range(rng.choice((4,) if op == "conv" else (1, 2, 2, 3))))
    dtypes, shapes = [dtype] * arity, [shape] * arity
    if op == "where":
        dtypes[0] = np.dtype(bool)
    if op.startswith("take"):
        dtypes[1], shapes[1] = np.dtype("i8"), (1,) * len(shape)
    if op == "pad":
        shapes[1] = ()
    if op == "matmul":
        shapes[1] = (*shape[:-2], shape[-1], 2)
    if row(op).role is Role.ELEMENTWISE and rng.random() < 0.3:
        shapes[-1] = ()
    arrays = [drawn(d, s, rng) for d, s in zip(dtypes, shapes, strict=True)]
    if op.startswith("take"):
        arrays[1] = np.zeros_like(arrays[1])
    types = [TensorType(a.dtype, a.shape) for a in arrays]
    attrs: tuple = ()
    for name in row(op).attrs:
        if name == "widths":
            value: Any = tuple((rng.randrange(2), rng.randrange(2)) for _ in shape)
        elif name == "value":
            value = Literal(drawn(dtype, shape, rng))
        elif name == "windows":
            value = ((-1, 1),)
        elif name in ("stable", "kth"):
            value = {"stable": True, "kth": (0,)}[name]
        else:
            value = sample_attr(op, name, types, attrs, dtype, rng)
        attrs = (*attrs, value)
    row(op).type(types, attrs)
    facts = [loosened(of_array(a), a.dtype, rng) for a in arrays]
    return arrays, types, facts, attrs


@pytest.mark.parametrize("op", RANGES)
def test_what_is_derived_of_an_operator_holds_of_what_numpy_computes(op: str) -> None:
    rng = random.Random(op)
    done = 0
    for _ in range(400):
        try:
            arrays, types, facts, attrs = cases(op, rng)
            with np.errstate(all="ignore"):
                result = np.asarray(row(op).meaning(*arrays, *attrs))
        except (EqfuseError, Decline, ValueError, TypeError):
            continue
        derived = range_of(op, attrs, types, facts)
        text = f"{op}{attrs} of {[(a.dtype.name, a.tolist()) for a in arrays]} with {facts}: {derived}"
        assert derived.includes(result), f"{text} but {result.dtype} {result.tolist()}"
        done += 1
    assert done > 40


def test_what_the_egraph_knows_of_a_program_holds_of_its_values_under_all_exact_laws() -> None:
    more_than_its_dtype = 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        graph, arrays = random_graph(rng, 16)
        engine = Engine()
        engine.add(graph.nodes)
        engine.load(reachable(graph, admitted(select("all"), "strict")))
        engine.track_ranges()
        for _ in range(3):
            engine.round(2000)
        known = engine.known_values()
        arrays = [np.where(rng.random(a.shape) < 0.3, rng.choice(SPECIAL, a.shape), a) for a in arrays]
        with np.errstate(all="ignore"):
            for n, value in zip(graph.nodes, evaluate(Graph(graph.inputs, graph.nodes), arrays), strict=True):
                assert known[n].includes(value), f"{n}: {known[n]} but {value.tolist()}"
        more_than_its_dtype += sum(fact != of_dtype(n.dtype) for n, fact in known.items() if n.op != "const")
    assert more_than_its_dtype > 30


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
        for _ in range(12):
            case = drawn_case(law, rng)
            if case is None or case.complex:
                continue
            given = arrays_of(case, SPECIAL_DATA if law.exactness is EXACT else PLAIN, numbers)
            if not obeyed(case, given):
                continue
            facts: dict[Node, Fact] = {}
            for n in topological(case.graph.outputs):
                facts[n] = of_array(given[str(n.attrs[0])]) if n.op == "input" else range_of(
                    n.op, n.attrs, [a.type for a in n.args], [facts[a] for a in n.args])  # fmt: skip
            with np.errstate(all="ignore"):
                try:
                    results = evaluate(case.graph, [given[str(i.attrs[0])] for i in case.graph.inputs])
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
