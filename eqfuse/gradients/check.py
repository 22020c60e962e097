"""`ef.check_grad`: derivatives of a user's function, compared with differences of its values.

In: a function, and where to look. Out: how far the two are apart; GradientError where that is more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.dtypes import epsilon, kind
from eqfuse.errors import GradientError
from eqfuse.gradients.call import name_of
from eqfuse.gradients.products import jvp, vjp
from eqfuse.ir.pytree import flatten, unflatten
from eqfuse.ir.signature import input_names, parameters_of

STEPS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences of the sixth order
STEP = 1e-3
DIFFERENCE_ERROR = 1e-9  # of these, in double precision


def check_grad(fun: Callable[..., Any], *args: Any, rtol: float | None = None, seed: int = 0) -> float:
    """The largest relative error of the derivatives of `fun` at `args`, forward and reverse, in one random direction
    for each array of floats.

    They are compared with differences of the sixth order, in double precision. GradientError, which names the argument,
    where an error is above `rtol` (by default what rounding in the arguments' dtypes explains): the function may have a
    kink nearby.
    """
    leaves, structure = flatten(args)
    names = input_names(parameters_of(fun), flatten((args, {}))[1])
    places = [i for i, leaf in enumerate(leaves) if kind(np.asarray(leaf).dtype) in "fc"]
    if not places:
        raise GradientError(f"ef.check_grad: no argument of {name_of(fun)} is a float or an array of floats")
    given = [np.asarray(leaves[i]) for i in places]
    rtol = max(1e4 * max(epsilon(x.dtype) for x in given), 1e-6) if rtol is None else rtol

    def of_leaves(*values: Any) -> tuple[Any, ...]:
        filled = dict(enumerate(leaves)) | dict(zip(places, values, strict=True))
        return tuple(flatten(fun(*unflatten(structure, list(filled.values()))))[0])

    rng = np.random.default_rng(seed)
    worst = 0.0
    for at, place in enumerate(places):
        error = _error(of_leaves, given, at, rng)
        if not error <= rtol:
            raise GradientError(
                f"ef.check_grad: where {names[place]} changes, {name_of(fun)} changes by what its derivative says only "
                f"up to a relative error of {error:.1e}, above {rtol:.1e}"
            )
        worst = max(worst, error)
    return worst


def _error(fun: Callable[..., Any], arguments: list[np.ndarray], position: int, rng: np.random.Generator) -> float:
    """How far the derivative along a random change of the argument at `position` is from differences, and from its
    transpose."""
    step = _random(arguments[position], rng)
    changes = tuple(step if i == position else np.zeros_like(x) for i, x in enumerate(arguments))
    _, forward = jvp(fun, tuple(arguments), changes)
    results, pullback = vjp(fun, *arguments)
    given_back = tuple(_random(np.asarray(r), rng) for r in results)
    backward = pullback(given_back)[position]
    wanted = _differences(fun, arguments, position, step)
    error = max(_apart(f, w) for f, w in zip(forward, wanted, strict=True))
    along = sum(np.sum(_wide(f) * _wide(c)).real for f, c in zip(forward, given_back, strict=True))
    size = sum(np.sum(np.abs(_wide(f) * _wide(c))) for f, c in zip(forward, given_back, strict=True))
    return float(max(error, abs(np.sum(_wide(backward) * _wide(step)).real - along) / max(size, 1e-3)))


def _differences(fun: Callable[..., Any], arguments: list[np.ndarray], position: int, step: np.ndarray) -> list[Any]:
    wide = [_wide(x) for x in arguments]
    found: list[Any] = []
    for times, weight in STEPS:
        for sign in (1, -1):
            moved = [x + sign * times * STEP * _wide(step) if i == position else x for i, x in enumerate(wide)]
            values = [_wide(v) * (sign * weight / STEP) for v in fun(*moved)]
            found = values if not found else [a + b for a, b in zip(found, values, strict=True)]
    return found


def _apart(computed: Any, wanted: Any) -> float:
    scale = np.abs(wanted).max(initial=0.0) + DIFFERENCE_ERROR * 1e6
    return float((np.abs(_wide(computed) - wanted) / scale).max(initial=0.0))


def _random(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.uniform(-1, 1, like.shape)
    return np.asarray(drawn + 1j * rng.uniform(-1, 1, like.shape) if like.dtype.kind == "c" else drawn, like.dtype)


def _wide(x: Any) -> np.ndarray:
    return np.asarray(x, np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64)
