"""`ef.train_step`: loss, gradients and the update of the parameters as one function, and the optimisers that update.

In: a loss and an optimiser. Out: a plain function, for `ef.jit` to make one program of. The updates are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eqfuse.errors import OptionError
from eqfuse.gradients.grad import value_and_grad
from eqfuse.ir.pytree import flatten, unflatten


class Optimiser(Protocol):
    """`init` makes the state that `update` takes on from step to step; both nest as the parameters do."""

    def init(self, params: Any) -> Any: ...

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The parameters and the state after a step."""


def train_step(loss: Callable[..., Any], optimiser: Optimiser, has_aux: bool = False) -> Callable[..., Any]:
    """``step(params, state, *batch)``, which gives ``(loss(params, *batch), params, state)``, the latter after one step
    of the `optimiser`, whose ``init(params)`` is the first state. With `has_aux` the loss is ``(loss, aux)``."""
    if not all(hasattr(optimiser, name) for name in ("init", "update")):
        raise OptionError(
            f"ef.train_step: {optimiser!r} is no optimiser: give ef.sgd, ef.adam, or one with init and update"
        )
    differentiated = value_and_grad(loss, has_aux=has_aux)

    def step(params: Any, state: Any, *batch: Any) -> tuple[Any, Any, Any]:
        value, gradient = differentiated(params, *batch)
        params, state = optimiser.update(gradient, state, params)
        return value, params, state

    return step


def _mapped(fn: Callable[..., Any], first: Any, *others: Any) -> Any:
    """`first` with ``fn(x, *those of others)`` in the place of each array ``x``."""
    leaves, structure = flatten(first)
    return unflatten(structure, [fn(*each) for each in zip(leaves, *(flatten(o)[0] for o in others), strict=True)])


@dataclass(frozen=True)
class sgd:
    """Steps against the gradient, at `rate`; with a `momentum`, against the sum of gradients that fade by it."""

    rate: float
    momentum: float = 0.0

    def init(self, params: Any) -> Any:
        """The state before the first step: arrays of zeros, of the shapes and dtypes of `params`."""
        return _mapped(np.zeros_like, params) if self.momentum else ()

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The parameters and the state after a step."""
        if self.momentum:
            state = gradient = _mapped(lambda v, g: self.momentum * v + g, state, gradient)
        return _mapped(lambda p, g: p - self.rate * g, params, gradient), state


@dataclass(frozen=True)
class adam:
    """Adam (Kingma and Ba, 2015): steps of about `rate`, by running means of gradients and of their squares."""

    rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def init(self, params: Any) -> Any:
        """The state before the first step: arrays of zeros, of the shapes and dtypes of `params`."""
        return {"step": np.int64(0), "mean": _mapped(np.zeros_like, params), "square": _mapped(np.zeros_like, params)}

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The parameters and the state after a step."""
        step = state["step"] + 1
        mean = _mapped(lambda m, g: self.b1 * m + (1 - self.b1) * g, state["mean"], gradient)
        square = _mapped(lambda v, g: self.b2 * v + (1 - self.b2) * g * g, state["square"], gradient)
        known = [1 - b ** step.astype(np.float64) for b in (self.b1, self.b2)]

        def moved(p: Any, m: Any, v: Any) -> Any:
            of_mean, of_square = (k.astype(p.dtype) for k in known)
            return p - self.rate * (m / of_mean) / (np.sqrt(v / of_square) + self.eps)

        return _mapped(moved, params, mean, square), {"step": step, "mean": mean, "square": square}
