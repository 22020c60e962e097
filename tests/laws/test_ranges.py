"""What is derived of an operator's result holds of what NumPy computes, whatever the arguments are and in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from eqfuse.dtypes import BFLOAT16, TENSORS, kind
from eqfuse.errors import ShapeError
from eqfuse.ir.graph import topological
from eqfuse.ops import Role, row
from eqfuse.ops.facts import Fact, of_array, of_dtype
from eqfuse.ops.ranges import RANGES, range_of
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.checking.exhaust import all_values
from tests.laws.corners import FLOATS, REFUSALS, drawn_arguments, drawn_call, drawn_program
from tests.laws.left_open import TERMS, folded
from tests.support.drawing import EXPLORING, many

PROGRAM = [
    *RANGES, *("add", "multiply", "maximum", "where", "cast", "sum", "subtract", "divide") * 2,
    "remainder", "isnan", "less", "logical_not", "copysign", "fold", "scatter",
]  # fmt: skip
_TRIES = 40  # calls of an operator to draw for one that fits


@pytest.mark.parametrize("op", RANGES)
def test_what_is_derived_of_an_operator_holds_of_what_numpy_computes(op: str) -> None:
    _holds(op, 2)


@pytest.mark.slow
@pytest.mark.parametrize("op", RANGES)
def test_what_is_derived_of_an_operator_holds_however_often_it_is_tried(op: str) -> None:
    _holds(op, many(8))


def _holds(op: str, rounds: int) -> None:
    rng, done = random.Random(None if EXPLORING else op), 0
    for dtype in (*TENSORS, *FLOATS, *FLOATS) * rounds:
        call = next(filter(None, (drawn_call(op, dtype, rng) for _ in range(_TRIES))), None)
        if call is None:
            continue
        types, attrs = call
        arrays, facts = drawn_arguments(types, rng)
        derived = range_of(op, attrs, types, facts)
        text = f"{op}{attrs} of {[(a.dtype.name, a.tolist()) for a in arrays]} with {facts}: {derived}"
        with np.errstate(all="ignore"):
            for result in _results(op, arrays, attrs, rng):
                done += 1
                assert derived.includes(result), f"{text} but {result.dtype} {result.tolist()}"
    assert done > 2 * rounds


F64 = np.dtype(np.float64)


@pytest.mark.parametrize(
    "op, attrs, arrays, facts",
    [
        ("divide", (), ([-5.0], [np.inf]), (Fact(-np.inf, 0.5), Fact(np.inf, np.inf))),  # -0
        ("divide", (), ([5.0], [np.inf]), (Fact(-0.0, np.inf), Fact(np.inf, np.inf))),  # +0
        ("prod", ((-1,),), ([1e-200, 1e-200, np.inf],), (Fact(1e-250, nan=False),)),  # 0 * inf
        ("prod", ((-1,),), ([1e-200, 1e-200, 1e200, 1e200],), (Fact(1e-250, 1e250, nan=False),)),
        ("window_max", ((2,), (1,), ((1, 1),)), ([],), (Fact(0.0),)),  # of padding alone
        ("add", (), ([-1.797e308], [0.0]), (Fact(-1.797e308, 0.0), Fact(0.0, 0.0))),  # no three bits are as low
        ("exp", (), ([-745.2],), (Fact(-1000.0, -745.2),)),  # what is next to 0 may be rounded to it, or away from it
    ],
)
def test_what_was_once_derived_wrongly(op: str, attrs: tuple, arrays: tuple, facts: tuple) -> None:
    given = [np.array(a) for a in arrays]
    derived = range_of(op, attrs, [TensorType(F64, a.shape) for a in given], facts)
    with np.errstate(all="ignore"):
        for result in _results(op, given, attrs, random.Random(0)):
            assert derived.includes(result)
    assert op != "exp" or derived.upper > 0


FUNCTIONS = [op for op in RANGES if row(op).role is Role.ELEMENTWISE and row(op).arity == 1 and op != "cast"]


@pytest.mark.parametrize("op", FUNCTIONS)
def test_what_is_derived_of_a_function_holds_of_all_numbers_of_16_bits(op: str) -> None:
    for dtype in map(np.dtype, (np.float16, BFLOAT16, np.int16, np.uint16)):
        _holds_between(op, all_values(dtype), 12)


@pytest.mark.slow
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_derived_of_a_function_holds_where_it_is_largest_and_where_it_is_steep(op: str, dtype: type) -> None:
    """Next to multiples of pi / 2, and of numbers of every magnitude."""
    rng = np.random.default_rng(0)
    near = np.arange(50_000) * (np.pi / 2)
    any_bits = rng.integers(0, 256, 100_000 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    some = np.concatenate([near, -near, rng.standard_normal(50_000), np.linspace(-1, 1, 50_001)]).astype(dtype)
    _holds_between(op, np.concatenate([any_bits, some, np.nextafter(some, dtype(np.inf))]), 12)


def _holds_between(op: str, numbers: np.ndarray, intervals: int) -> None:
    """Facts about the numbers between two of them, and about all of them."""
    try:
        row(op).type([TensorType(numbers.dtype, ())], ())
    except ShapeError:  # NumPy would cast them first
        return
    with np.errstate(all="ignore"):
        results = np.asarray(row(op).meaning(numbers))
    rng = np.random.default_rng(0)
    finite = numbers[np.isfinite(numbers)] if kind(numbers.dtype) == "f" else numbers
    for i in range(intervals):
        bounds = [float(v) for v in rng.choice(finite, 2)] if i else [-np.inf, np.inf]
        fact = Fact(min(bounds), max(bounds), nan=False)
        inside = fact.allows(numbers)
        t = TensorType(numbers.dtype, (int(inside.sum()),))
        derived = range_of(op, (), [t], [fact])
        outside = results[inside][~derived.allows(results[inside])]
        assert not outside.size, f"{op} of {numbers.dtype} with {fact}: {derived} but {outside[:5]}"


def _results(op: str, arrays: list[np.ndarray], attrs: tuple, rng: random.Random) -> Iterator[np.ndarray]:
    """What the operator gives; of a sum or product also what other orders give."""
    try:
        result = np.asarray(row(op).meaning(*arrays, *attrs))
    except REFUSALS:  # NumPy refuses these data
        return
    yield result
    if op in TERMS:
        ufunc = np.multiply if op == "prod" else np.add
        terms = [np.broadcast_to(np.asarray(t, result.dtype), result.shape) for t in TERMS[op](*arrays, *attrs)]
        for _ in range(3 if terms else 0):
            yield folded(ufunc, terms, rng)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_derived_of_a_program_holds_of_its_values(seed: int) -> None:
    _programs(seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_what_is_derived_of_a_program_holds_however_many_are_tried(seed: int) -> None:
    _programs(1000 + seed, many(50))


def _programs(seed: int, count: int) -> None:
    rng, said = random.Random(None if EXPLORING else seed), 0
    for _ in range(count):
        graph, arrays = drawn_program(PROGRAM, 16, rng)
        values = dict(zip(graph.inputs, arrays, strict=True))
        facts = {n: of_array(a) if rng.random() < 0.5 else Fact() for n, a in values.items()}
        for n in topological(graph.outputs):
            if n.op == "input" or not values.keys() >= set(n.args):
                continue
            facts[n] = range_of(n.op, n.attrs, [a.type for a in n.args], [facts[a] for a in n.args])
            with np.errstate(all="ignore"):
                results = list(_results(n.op, [values[a] for a in n.args], n.attrs, rng))
            if not results:  # NumPy refuses these data
                continue
            values[n] = rng.choice(results)
            assert facts[n].includes(values[n]), f"{n}: {facts[n]} but {values[n].tolist()} in {graph} of {arrays}"
            said += facts[n] != of_dtype(n.dtype)
    assert said > 2 * count
