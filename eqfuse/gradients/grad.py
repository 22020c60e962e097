"""`ef.grad` and `ef.value_and_grad`: gradients of functions with one real result.

In: a function. Out: a function of the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from eqfuse.dtypes import kind
from eqfuse.errors import DtypeError, ShapeError
from eqfuse.gradients.call import DifferentiatedCall, argument_places, name_of
from eqfuse.gradients.derived import DerivedFunction
from eqfuse.ir.graph import Node, const


def grad(
    fun: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of `fun`, whose result is one real number, in its arguments `argnums`.

    The gradient nests as the argument does, and is a tuple where `argnums` is one. With `has_aux`, `fun` returns
    ``(result, aux)``, and its gradient function ``(gradient, aux)``. `holomorphic` says that `fun` is, of complex
    numbers.
    """

    def compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _, aux, gradient = _gradient("ef.grad", fun, args, kwargs, argnums, has_aux, holomorphic)
        return (gradient, aux) if has_aux else gradient

    return DerivedFunction("ef.grad", fun, compute, _places("ef.grad", fun, argnums))


def value_and_grad(
    fun: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """As `grad`, of a function that gives ``(result, gradient)``; with `has_aux`, ``((result, aux), gradient)``."""

    def compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result, aux, gradient = _gradient("ef.value_and_grad", fun, args, kwargs, argnums, has_aux, holomorphic)
        return ((result, aux) if has_aux else result), gradient

    return DerivedFunction("ef.value_and_grad", fun, compute, _places("ef.value_and_grad", fun, argnums))


def _places(what: str, fun: Any, argnums: Any) -> Callable[[int], Collection[int]]:
    return lambda count: argument_places(argnums, count, what, name_of(fun))[0]


def _gradient(
    what: str, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool, holomorphic: bool
) -> tuple[Any, Any, Any]:
    chosen, one = argument_places(argnums, len(args), what, name_of(fun))
    call = DifferentiatedCall(what, fun, args, kwargs, chosen, has_aux)
    loss = _one_number(call, holomorphic)
    steps = call.steps()
    gradient_nodes = call.cotangents(call.changes(steps), steps, [const(1, loss.dtype)])
    aux = call.aux.tree(call.back(call.aux.nodes))
    gradients = call.argument_trees(call.back(gradient_nodes))
    return call.result.tree(call.back([loss])), aux, gradients[0] if one else gradients


def _one_number(call: DifferentiatedCall, holomorphic: bool) -> Node:
    """The result that has a gradient."""
    name, nodes = name_of(call.fn), call.result.nodes
    if len(nodes) != 1 or not call.result.all_arrays:
        count = len(call.result.paths)
        values = f"{count} values: add up what is minimised" if count > 1 else "no array: return what is minimised"
        raise ShapeError(
            f"{call.what} is of functions with one number as their result, and {name} returns {values}, or return the "
            "rest as aux, with has_aux=True"
        )
    (loss,) = nodes
    if loss.shape:
        raise ShapeError(
            f"{call.what} is of functions with one number as their result, and {name} returns an array of shape "
            f"{loss.shape}: return its sum or its mean, or use ef.vjp or ef.jacrev"
        )
    wanted = "c" if holomorphic else "f"
    if kind(loss.dtype) != wanted:
        instead = (
            "return a complex result, or leave out holomorphic=True"
            if holomorphic
            else "return a real one; of a holomorphic function, say so by holomorphic=True"
            if loss.dtype.kind == "c" and any(n.dtype.kind == "c" for n in call.arguments)
            else "of real arguments, return a real one"
            if loss.dtype.kind == "c"
            else "return a float"
        )
        raise DtypeError(f"{call.what}: {name} returns a result of {loss.dtype.name}, which has no gradient: {instead}")
    if holomorphic:
        for path, n in zip(call.paths, call.arguments, strict=True):
            if n.dtype.kind != "c":
                raise DtypeError(f"{call.what} with holomorphic=True: the argument {path} is {n.type}, and not complex")
    return loss
