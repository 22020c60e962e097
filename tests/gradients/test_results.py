"""What a function returns, its scalars, arrays and the containers around them, comes out the same of every way to call
it: as it is, compiled, as a graph, and as a part of what its derivatives return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.pytree import tree_leaves

X = np.linspace(1.0, 2.0, 4)


class Pair(NamedTuple):
    total: Any
    rest: Any


@dataclass
class Moments:
    mean: Any
    square: Any


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a sum": (np.sum, X),
    "a mean that keeps its axis": (lambda x: x.mean(keepdims=True), X),
    "an element": (lambda x: x[1], X),
    "an element by an ellipsis": (lambda x: x[1, ...], X),
    "a sum as an array": (lambda x: np.asarray(np.sum(x)), X),
    "a sum into an array": (lambda x: np.sum(x, out=np.zeros(())), X),
    "a scalar's sine": (np.sin, np.float64(2.0)),
    "a sine of rank 0": (np.sin, np.array(2.0)),
    "an array of rank 0, copied": (lambda x: x.copy(), np.array(2.0)),
    "a dict": (lambda x: {"total": np.sum(x), "all": x * 2}, X),
    "a list in a tuple": (lambda x: ([np.sum(x), x[0]], x + 1), X),
    "a named tuple": (lambda x: Pair(np.sum(x), np.asarray(np.prod(x))), X),
    "a dataclass": (lambda x: Moments(np.mean(x), np.sum(x * x)), X),
    "none beside an array": (lambda x: (np.sum(x), None), X),
}
AUX: dict[str, Callable[[Any], Any]] = {
    "a comparison": lambda x: (np.sum(x) > 0, x > 0),
    "an index": lambda x: {"best": np.argmax(x), "bool": np.allclose(x, 1)},
    "a Python number": lambda x: (3, 2.5, np.max(x)),
}


def described(tree: Any) -> tuple[Any, list[Any]]:
    """How `tree` nests, and the class, shape and dtype of each leaf."""
    leaves, structure = tree_leaves(tree)
    return structure, [(type(leaf), np.shape(leaf), np.result_type(leaf)) for leaf in leaves]


def whole(fn: Callable[[Any], Any], x: Any) -> dict[str, Any]:
    """What `fn` returns, by ways that return it alone."""
    graph = ef.trace(fn, x)
    return {
        "jit": ef.jit(fn)(x), "compile": ef.compile(fn, x)(x), "compile of the graph": ef.compile(graph)(x),
        "the graph": graph(x), "meaning": ef.meaning(graph, x), "jit of the graph": ef.jit(graph)(x),
        "the graph's call within a function": ef.jit(lambda y: graph(y))(x),
    }  # fmt: skip


def differentiated(fn: Any, x: Any) -> dict[str, Any]:
    """What `fn` returns, by ways that differentiate it."""
    split = ef.split_vjp(fn, x)
    jvp = ef.jvp(fn, (x,), (x,))
    return {
        "vjp": ef.vjp(fn, x)[0], "vjp, compiled": ef.jit(lambda y: ef.vjp(fn, y)[0])(x), "jvp": jvp[0],
        "the change of jvp": jvp[1], "jvp, compiled": ef.jit(lambda y: ef.jvp(fn, (y,), (y,))[0])(x),
        "split_vjp": split.forward(x)[0], "checkpoint": ef.vjp(ef.checkpoint(lambda y: fn(y)), x)[0],
    }  # fmt: skip


def beside_a_loss(pair: Any, x: Any) -> dict[str, Any]:
    """The aux that `pair` returns beside a loss."""
    return {
        "grad": ef.grad(pair, has_aux=True)(x)[1], "value_and_grad": ef.value_and_grad(pair, has_aux=True)(x)[0][1],
        "value_and_grad, compiled": ef.jit(ef.value_and_grad(pair, has_aux=True))(x)[0][1],
        "vjp": ef.vjp(pair, x, has_aux=True)[2], "jvp": ef.jvp(pair, (x,), (x,), has_aux=True)[2],
        "train_step": ef.train_step(pair, ef.sgd(0.1), has_aux=True)(x, ())[0][1],
        "checkpoint": ef.grad(ef.checkpoint(lambda y: pair(y)), has_aux=True)(x)[1],
    }  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_returns_the_same_by_every_way_to_call_it(name: str) -> None:
    fn, x = FUNCTIONS[name]
    graph, wanted = ef.trace(fn, x), described(fn(x))
    ways = whole(fn, x) | differentiated(fn, x) | {f"{k} of the graph": v for k, v in differentiated(graph, x).items()}
    assert {way: described(result) for way, result in ways.items()} == dict.fromkeys(ways, wanted)


@pytest.mark.parametrize("name", [*FUNCTIONS, *AUX])
def test_aux_comes_out_as_the_function_returns_it(name: str) -> None:
    fn, x = FUNCTIONS[name] if name in FUNCTIONS else (AUX[name], X)

    def pair(y: Any) -> Any:
        return np.sum(y), fn(y)

    graph, wanted = ef.trace(pair, x), described(fn(x))
    ways = whole(fn, x) | beside_a_loss(pair, x)
    ways |= {f"{k} of the graph": v for k, v in beside_a_loss(graph, x).items()}
    assert {way: described(result) for way, result in ways.items()} == dict.fromkeys(ways, wanted)


@pytest.mark.parametrize("scalar", [True, False])
def test_loss_and_derivatives_are_of_the_kinds_of_value_and_argument(scalar: bool) -> None:
    def loss(x: Any) -> Any:
        return np.sum(x * x) if scalar else np.asarray(np.sum(x * x))

    for fn in (loss, ef.trace(loss, X)):
        for call in (ef.value_and_grad(fn), ef.jit(ef.value_and_grad(fn))):
            assert described(call(X)) == described((loss(X), X))
        assert described(ef.train_step(fn, ef.sgd(0.1))(X, ())) == described((loss(X), X, ()))
    for x in (np.float64(2.0), np.array(2.0)):
        for fn in (loss, ef.trace(loss, x)):
            assert described(ef.grad(fn)(x)) == described(ef.jit(ef.grad(fn))(x)) == described(x)
            assert described(ef.hessian(fn)(x)) == described(ef.hessian(loss)(x))


def test_a_function_with_a_rule_of_its_own_takes_and_returns_bools() -> None:
    @ef.custom_vjp
    def pair(x: Any, alike: bool) -> Any:
        return np.where(alike, x, 2 * x).sum(), (alike, np.allclose(x, 1))

    pair.defvjp(lambda x, alike: (pair(x, alike), x), lambda x, ct: (ct[0] * x, None))

    def loss(x: Any) -> Any:
        value, bools = pair(x, np.allclose(x, X))
        return value, [isinstance(b, bool) for b in bools], bools

    assert ef.grad(lambda x: (loss(x)[0], loss(x)[1:]), has_aux=True)(X)[1] == ([True, True], (True, False))
