"""`ef.check_grad`: derivatives of a user's function, compared with differences of its values.

In: a function, and where to look. Out: how far the two are apart; GradientError where that is more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.dtypes import epsilon, kind
from eqfuse.errors import GradientError, UnsupportedOp
from eqfuse.gradients.call import name_of
from eqfuse.gradients.products import jvp, vjp
from eqfuse.ir.parameters import parameters_of
from eqfuse.ir.pytree import tree_leaves, unflatten
from eqfuse.ir.signature import input_names

STEPS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences of the sixth order
CHANGE = 1e-3  # in units of the direction
DIFFERENCE_ERROR = 1e-9  # of these, in double precision, and of results of about 1; of others in proportion
ROUNDING_ERROR = 1e-11  # of these, beside the results they are taken of


def check_grad(fun: Callable[..., Any], *args: Any, rtol: float | None = None, seed: int = 0) -> float:
    """The largest relative error of the derivatives of `fun` at `args`, forward and reverse, in one random direction
    for each array of floats. Where there is one of both alone, that one: reverse, of functions with a rule
    (`ef.custom_vjp`), forward, of `ef.while_loop`. Results that are no floats are left out.

    They are compared with differences of the sixth order, in double precision. GradientError, which names the argument,
    where an error is above `rtol` (by default what rounding in the arguments' dtypes explains): the function may have a
    kink nearby.
    """
    leaves, structure = tree_leaves(args)
    names = input_names(parameters_of(fun), tree_leaves((args, {}))[1])
    places = [i for i, leaf in enumerate(leaves) if kind(np.asarray(leaf).dtype) in "fc"]
    if not places:
        raise GradientError(f"ef.check_grad: no argument of {name_of(fun)} is a float or an array of floats")
    arrays = [np.asarray(leaves[i]) for i in places]
    rtol = max(1e4 * max(epsilon(x.dtype) for x in arrays), 1e-6) if rtol is None else rtol

    def of_leaves(*values: Any) -> tuple[Any, ...]:
        filled = dict(enumerate(leaves)) | dict(zip(places, values, strict=True))
        results = tree_leaves(fun(*unflatten(structure, list(filled.values()))))[0]
        return tuple([r for r in results if kind(getattr(r, "dtype", np.dtype(bool))) in "fc"])

    of_leaves.__name__ = name_of(fun)
    rng = np.random.default_rng(seed)
    worst = 0.0
    for position, place in enumerate(places):
        error = _error(of_leaves, arrays, position, rng)
        if not error <= rtol:
            raise GradientError(
                f"ef.check_grad: where {names[place]} changes, {name_of(fun)} changes by what its derivative says only "
                f"up to a relative error of {error:.1e}, above {rtol:.1e}"
            )
        worst = max(worst, error)
    return worst


def _error(fun: Callable[..., Any], arguments: list[np.ndarray], position: int, rng: np.random.Generator) -> float:
    """How far the derivatives along a random change of the argument at `position` are from differences; the transpose,
    where there are both, from the derivative."""
    step = _random(arguments[position], rng)
    wanted, scales = _differences(fun, arguments, position, step)
    if not wanted:
        raise GradientError(f"ef.check_grad: no result of {name_of(fun)} is a float or an array of floats")
    changes = tuple(step if i == position else np.zeros_like(x) for i, x in enumerate(arguments))
    error, along = np.float64(0), wanted
    refused: UnsupportedOp | None = None
    try:
        _, along = jvp(fun, tuple(arguments), changes)
        error = np.max([_apart(f, w, scale) for f, w, scale in zip(along, wanted, scales, strict=True)])
    except UnsupportedOp as e:
        refused = e
    try:
        results, pullback = vjp(fun, *arguments)
    except UnsupportedOp:
        if refused is not None:
            raise refused from None
        return float(error)
    given_back = tuple(_random(np.asarray(r), rng) for r in results)
    backward = np.sum(_wide(pullback(given_back)[position]) * _wide(step)).real
    forward = sum(np.sum(_wide(f) * _wide(c)).real for f, c in zip(along, given_back, strict=True))
    size = sum(np.sum(np.abs(_wide(f) * _wide(c))) for f, c in zip(along, given_back, strict=True))
    return float(np.max([error, abs(backward - forward) / max(size, *scales)]))  # (a NaN where either is one)


def _differences(
    fun: Callable[..., Any], arguments: list[np.ndarray], position: int, step: np.ndarray
) -> tuple[list[Any], list[float]]:
    """Differences of the results; and for each the size below which their own errors would show."""
    wide = [_wide(x) for x in arguments]
    differences: list[Any] = []
    sizes: list[float] = []
    for times, weight in STEPS:
        for sign in (1, -1):
            moved = [x + sign * times * CHANGE * _wide(step) if i == position else x for i, x in enumerate(wide)]
            results = [_wide(v) for v in fun(*moved)]
            parts = [v * (sign * weight / CHANGE) for v in results]
            differences = [a + b for a, b in zip(differences, parts, strict=True)] if differences else parts
            now = [float(np.abs(v).max(initial=0.0)) for v in results]
            sizes = [max(a, b) for a, b in zip(sizes, now, strict=True)] if sizes else now
    return differences, [1e6 * (DIFFERENCE_ERROR * min(size, 1.0) + ROUNDING_ERROR * size) for size in sizes]


def _apart(computed: Any, wanted: Any, scale: float) -> float:
    """The largest difference, relative to the largest derivative, or to `scale`."""
    difference = np.abs(_wide(computed) - wanted).max(initial=0.0)
    return float(difference / (np.abs(wanted).max(initial=0.0) + scale)) if difference != 0 else 0.0


def _random(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.uniform(-1, 1, like.shape)
    return np.asarray(drawn + 1j * rng.uniform(-1, 1, like.shape) if like.dtype.kind == "c" else drawn, like.dtype)


def _wide(x: Any) -> np.ndarray:
    return np.asarray(x, np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64)
