"""A graph is called as the function that it was traced from: on arrays, and within other functions that are traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import DtypeError

X, W = np.random.default_rng(0).standard_normal((2, 4, 4))
ONNX = """<ir_version: 9, opset_import: ["" : 21]> main (float[4, 4] x, float[4, 4] w) => (float[4, 4] y) {
    h = MatMul(x, w)
    y = Sigmoid(h) }"""


def layer(x: Any, w: Any) -> Any:
    return np.tanh(x @ w)


GRAPH = ef.trace(layer, X, W)


def body(graph: Any) -> Callable[[Any, Any], Any]:
    return lambda x, w: ef.scan(lambda carry, _: (graph(carry, w), None), x, None, 3)[0]


COMPOSED: dict[str, Callable[[Any], Callable[[Any, Any], Any]]] = {
    "alone": lambda f: f,
    "with a named argument": lambda f: lambda x, w: f(x, w=w),
    "twice": lambda f: lambda x, w: f(f(x, w), w),
    "below a loss": lambda f: lambda x, w: np.sum(f(x, w) ** 2),
    "in the gradient": lambda f: ef.grad(lambda x, w: np.sum(f(x, w))),
    "in the second derivative": lambda f: ef.grad(lambda x, w: np.sum(ef.grad(lambda y: np.sum(f(y, w)))(x) ** 2)),
    "in the other argument's gradient": lambda f: lambda x, w: ef.grad(lambda v: f(x, v).sum())(w),
    "forwards": lambda f: lambda x, w: ef.jvp(lambda y: f(y, w), (x,), (w,)),
    "in a loop": body,
    "in the gradient of a loop": lambda f: ef.grad(lambda x, w: np.sum(body(f)(x, w))),
    "in a branch": lambda f: lambda x, w: ef.cond(x.sum() > 0, lambda y: f(y, w), lambda y: y, x),
    "of a constant": lambda f: lambda x, w: f(np.ones((4, 4)), w) + f(W, W) + x,
    "with a checkpoint": lambda f: ef.grad(lambda x, w: np.sum(ef.checkpoint(f)(x, w))),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_graph_does_what_its_function_does(name: str) -> None:
    wanted = COMPOSED[name](layer)(X, W)
    of_graph = COMPOSED[name](GRAPH)
    for result in (of_graph(X, W), ef.jit(of_graph)(X, W), ef.compile(ef.trace(of_graph, X, W))(X, W)):
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-14)


def test_of_arrays_it_gives_what_the_evaluator_gives() -> None:
    np.testing.assert_array_equal(GRAPH(X, W), ef.meaning(GRAPH, X, W))
    unnamed = ef.Graph(GRAPH.inputs, GRAPH.outputs)
    np.testing.assert_array_equal(unnamed(X, W)[0], GRAPH(X, W))
    np.testing.assert_array_equal(ef.jit(unnamed)(X, W)[0], GRAPH(X, W))
    parsed = ef.parse(str(GRAPH))
    np.testing.assert_array_equal(ef.jit(lambda x: parsed(x, W))(X), ef.meaning(parsed, X, W))


@pytest.mark.outside
def test_models_compose_and_a_loss_on_a_model_has_a_gradient() -> None:
    onnx = pytest.importorskip("onnx")
    model, x, w = ef.from_onnx(onnx.parser.parse_model(ONNX)), X.astype(np.float32), W.astype(np.float32)

    def by_hand(x: Any, w: Any) -> Any:
        return ef.sigmoid(ef.sigmoid(x @ w) @ w)

    def composed(x: Any, w: Any) -> Any:
        return model(model(x, w), w=w)

    np.testing.assert_allclose(ef.jit(composed)(x, w), by_hand(x, w), rtol=1e-6)
    for loss in (np.sum, lambda y: np.mean((y - 1) ** 2)):
        wanted = ef.grad(lambda x, w, loss=loss: loss(by_hand(x, w)), (0, 1))(x, w)
        for result in zip(ef.grad(lambda x, w, loss=loss: loss(composed(x, w)), (0, 1))(x, w), wanted, strict=True):
            np.testing.assert_allclose(*result, rtol=1e-5)
    far = np.full((4, 4), -1e4, np.float32)
    assert not ef.grad(lambda x: np.sum(model(x, np.eye(4, dtype=np.float32))))(far).any(), "exp overflows, and no NaN"


def test_static_values_stay_with_the_graph() -> None:
    graph = ef.trace(lambda x, axis: x.sum(axis), X, 1, static_argnames="axis")
    np.testing.assert_array_equal(ef.jit(lambda x: graph(x, axis=1) * 2)(X), X.sum(1) * 2)


def test_a_graph_has_the_parameters_of_its_function() -> None:
    assert [*inspect.signature(ef.grad(GRAPH)).parameters] == ["x", "w"]
    np.testing.assert_array_equal(ef.jit(GRAPH)(w=W, x=X), layer(X, W))


@pytest.mark.outside
@pytest.mark.parametrize("words", ["class x", "1 x"])
def test_inputs_whose_names_are_no_parameters_are_given_by_position(words: str) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(ONNX)
    graph = ef.from_onnx(model)
    renamed = ef.parse(str(graph).replace("'x'", repr(words.split()[0])).replace("'w'", repr(words.split()[1])))
    x = X.astype(np.float32)
    gradients = [ef.grad(lambda y, g=g: np.sum(g(y, x)))(x) for g in (renamed, graph)]
    np.testing.assert_array_equal(*gradients)
    assert np.shape(ef.vjp(renamed, x, x)[1]) == ()


def changed(x: Any) -> Any:
    x += 1
    return x.sum()


@ef.custom_vjp
def ruled(x: Any) -> Any:
    return x * 1


ruled.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "another shape": (lambda: ef.jit(lambda x: GRAPH(x[1:], W))(X), ef.ShapeError, r"'x' is float64\[4, 4\], f"),
    "another dtype": (lambda: ef.jit(lambda x: GRAPH(x > 0, W))(X), DtypeError, r"'x' is float64\[4, 4\], bool\["),
    "too many": (lambda: ef.jit(lambda x: GRAPH(x, W, W))(X), ef.ShapeError, "nest differently"),
    "too few of a graph without names": (
        lambda: ef.jit(lambda x: ef.Graph(GRAPH.inputs, GRAPH.outputs)(x))(X), ef.ShapeError, "2 inputs, 1 arrays"
    ),
    "one that changes its argument": (
        lambda: ef.jit(lambda x: ef.trace(changed, X)(x))(X), ef.TraceError, "a graph is called in a traced function"
    ),
    "one with a rule, differentiated": (
        lambda: ef.grad(lambda x: np.sum(ef.trace(ruled, X)(x)))(X), ef.TraceError, "has a gradient of its own .ruled"
    ),
    "one that calls one with a rule": (
        lambda: ef.grad(ef.trace(lambda x: ef.trace(ruled, X)(x).sum(), X))(X), ef.TraceError, "gradient of its own"
    ),
    "a program": (lambda: ef.jit(lambda x: ef.compile(GRAPH)(x, W))(X), ef.TraceError, "program.plan.graph"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_a_graph_does_not_answer_is_refused(name: str) -> None:
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()
