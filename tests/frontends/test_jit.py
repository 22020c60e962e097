"""`ef.jit`: one program per shapes, dtypes, structure and static values; the compiler is stood in for."""

from __future__ import annotations

import dataclasses
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eqfuse.budget import Budget
from eqfuse.errors import ShapeError, TraceError
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.evaluate import evaluate
from eqfuse.specialise.jit import jit
from tests.frontends.agreement import sample

X = sample((3, 4), "float32")


class Evaluated:
    """A program that runs by the evaluator."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def call(self, leaves: Any) -> list[Any]:
        fed = self.graph.signature.feed(leaves)
        return self.graph.signature.settle(fed, evaluate(self.graph, fed.arrays))


@pytest.fixture
def compiled(monkeypatch):
    """The graphs and options handed to the compiler, in order."""
    calls: list[tuple[Any, dict]] = []

    def compile_graph(graph: Any, **options: Any) -> Evaluated:
        calls.append((graph, options))
        return Evaluated(graph)

    monkeypatch.setattr("eqfuse.specialise.tuning.compile_graph", compile_graph)
    return calls


def test_equal_shapes_and_dtypes_share_a_program(compiled):
    @jit
    def f(x, y):
        return np.exp(x) + y

    for array in (X, 2 * X, X.astype("f8"), X[:2], X):
        np.testing.assert_allclose(f(array, array), np.exp(array) + array, rtol=1e-6)
    assert len(compiled) == 3
    assert f.__name__ == "f"


def test_options_reach_the_compiler(compiled):
    @jit(target="numpy", numerics="strict", laws="none", extractor="exact", verify=True)
    def f(x):
        return x

    f(X)
    wanted = {
        "target": "numpy",
        "numerics": "strict",
        "laws": "none",
        "extractor": "exact",
        "budget": None,
        "verify": True,
        "memory_limit": None,
        "wait": True,
        "graphs": False,
    }
    meter = compiled[0][1].pop("meter")  # of the compile, which began with the trace
    assert compiled[0][1] == wanted and meter.budget == Budget()


def test_python_scalars_are_inputs_and_their_type_is_part_of_the_key(compiled):
    f = jit(lambda x, s: x * s)
    for scalar in (2, 3, 0.5, 0.25, True, 7):
        result = f(X, scalar)
        np.testing.assert_array_equal(result, X * scalar)
        assert result.dtype == np.float32
    assert len(compiled) == 3


def test_static_values_are_part_of_the_key(compiled):
    @jit(static_argnames=("axis", "scale"))
    def f(x, axis=0, *, scale=1):
        return x.sum(axis) * scale if axis is not None else x * scale

    np.testing.assert_allclose(f(X, 1), X.sum(1))
    np.testing.assert_allclose(f(X, axis=1), X.sum(1))
    np.testing.assert_allclose(f(x=X, axis=1), X.sum(1))
    np.testing.assert_allclose(f(X), X.sum(0))
    assert len(compiled) == 2
    assert f(X.astype("i4"), scale=1).dtype == np.int64
    assert f(X.astype("i4"), scale=1.0).dtype == np.float64
    assert f(X.astype("i4"), scale=True).dtype == np.int64
    assert len(compiled) == 5
    assert np.signbit(f(abs(X), None, scale=-0.0)).all() and not np.signbit(f(abs(X), None, scale=0.0)).any()


def test_a_static_value_without_a_hash_is_refused(compiled):
    f = jit(static_argnames="axes")(lambda x, axes: x.sum(tuple(axes)))
    with pytest.raises(TraceError, match="pass a tuple"):
        f(X, [0])


def test_containers_nest_in_and_out(compiled):
    @jit
    def f(params, *, batch):
        return {"y": [batch @ w + b for w, b in params]}

    params = [(X.T, np.zeros(3, np.float32)), (X.T * 2, np.ones(3, np.float32))]
    for _ in range(2):
        result = f(params, batch=X)
    np.testing.assert_allclose(result["y"][1], X @ (X.T * 2) + 1)
    f(params[:1], batch=X)
    assert len(compiled) == 2


def test_a_jitted_function_inside_a_trace_is_part_of_it(compiled):
    inner = jit(lambda x: np.exp(x))
    outer = jit(lambda x: inner(x) + 1)
    np.testing.assert_allclose(outer(X), np.exp(X) + 1)
    assert len(compiled) == 1
    assert [n.op for n in trace(lambda x: inner(x) * 2, X).operators] == ["exp", "multiply"]


def test_a_method_can_be_jitted_with_self_static(compiled):
    class Model:
        scale = 3.0

        @jit(static_argnames="self")
        def call(self, x):
            return x * self.scale

    model = Model()
    np.testing.assert_array_equal(model.call(X), X * 3)


def test_threads_compile_once(compiled):
    f = jit(lambda x: x + 1)
    threads = [threading.Thread(target=f, args=(X,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(compiled) == 1


def test_a_program_can_be_had_for_its_report(compiled):
    f = jit(lambda x, s=1: x + s)
    assert f.program(spec(X.shape, X.dtype)).graph == compiled[0][0]
    assert f.program(X).graph == compiled[0][0]
    f(X)
    assert len(compiled) == 1


def test_errors_of_the_function_do_not_poison_the_cache(compiled):
    f = jit(lambda x, y: x @ y)
    for _ in range(2):
        with pytest.raises(ShapeError):
            f(X, X)
    np.testing.assert_allclose(f(X, X.T), X @ X.T)


def test_bad_arguments_are_refused_by_name(compiled):
    f = jit(lambda x, mode: x)
    with pytest.raises(TraceError, match="'mode'"):
        f(X, {1, 2})
    with pytest.raises(TraceError, match="MaskedArray"):
        f(np.ma.masked_array([1.0]), X)
    with pytest.raises(ShapeError, match=r"too large.*x = an int of .* bits meets int64"):
        jit(lambda x: np.add(x, 1))(2**700)


@dataclasses.dataclass(frozen=True)
class Options:
    scale: Any
    name: str = "a"


ALIKE = (  # values that are equal to each other, as Python compares them
    (0.0, -0.0, 0, False, 0j, np.float32(0), np.float32(-0.0), np.float64(-0.0), complex(-0.0, 0), np.int8(0),
     Decimal("-0"), Decimal("0.0"), Fraction(0)),
    (1, 1.0, True, np.float16(1), np.True_, 1 + 0j, Decimal("1.0"), Decimal("1")),
    (float("nan"), np.float32("nan"), complex("nan"), Decimal("nan")),
)  # fmt: skip
NESTS: tuple[Any, ...] = (
    lambda v: v, lambda v: (v, 2), lambda v: ((v,),), lambda v: frozenset([v, 5]), Options, lambda v: Options((v,)),
)  # fmt: skip


@pytest.mark.parametrize("nest", NESTS)
def test_static_values_that_trace_differently_have_programs_of_their_own(compiled, nest):
    f = jit(lambda x, s: {"s": repr(s), "x": x * 2}, static_argnames="s")
    for values in ALIKE:
        for value in (*values, *values):
            assert f(X, nest(value))["s"] == repr(nest(value))
    assert len(compiled) == sum(map(len, ALIKE))


def test_static_classes_and_objects_without_equality_are_themselves(compiled):
    f = jit(lambda x, s: x * 2, static_argnames="s")
    thing = object()
    for value in (Options, Options, thing, thing, object(), len, None, "a", range(3), range(3)):
        f(X, value)
    assert len(compiled) == 7
    with pytest.raises(TraceError, match="the static argument 's' is a list, which has no hash"):
        f(X, Options([1]))
