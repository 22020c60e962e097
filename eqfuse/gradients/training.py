"""`ef.train_step`: loss, gradients and the update of the parameters as one function, and the optimisers that update.

In: a loss and an optimiser. Out: a plain function, for `ef.jit` to make one program of. The updates are NumPy's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eqfuse.dtypes import FLOAT32, NARROW_FLOATS
from eqfuse.errors import OptionError, TraceError
from eqfuse.frontends.numpy.carries import tree_text
from eqfuse.gradients.grad import value_and_grad
from eqfuse.ir.parameters import parameters_of
from eqfuse.ir.pytree import tree_leaves, unflatten


class Optimiser(Protocol):
    """`init` makes the state that `update` takes on from step to step; both nest as the parameters do."""

    def init(self, params: Any) -> Any: ...

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The parameters and the state after a step."""


def train_step(loss: Callable[..., Any], optimiser: Optimiser, has_aux: bool = False) -> Callable[..., Any]:
    """``step(params, state, *batch, **named)``, which gives ``(loss(params, *batch, **named), params, state)``, the
    latter after one step of the `optimiser`, whose ``init(params)`` is the first state. What a batch holds may nest.
    With `has_aux` the loss is ``(loss, aux)``."""
    if isinstance(optimiser, type) or not all(hasattr(optimiser, name) for name in ("init", "update")):
        raise OptionError(
            f"ef.train_step: {optimiser!r} is no optimiser: give ef.sgd, ef.adam, or one with init and update"
        )
    differentiated = value_and_grad(loss, has_aux=has_aux)

    def step(params: Any, state: Any, /, *batch: Any, **named: Any) -> tuple[Any, Any, Any]:
        value, gradient = differentiated(params, *batch, **named)
        params, state = optimiser.update(gradient, state, params)
        return value, params, state

    step.__signature__ = _signature(loss)  # type: ignore[attr-defined]
    return step


def _signature(loss: Callable[..., Any]) -> inspect.Signature | None:
    """Of a step: the parameters and the state, by position, and what `loss` takes behind the parameters."""
    of_loss = parameters_of(loss)
    if of_loss is None:
        return None
    batch = [p for i, p in enumerate(of_loss.parameters.values()) if i or p.kind is p.VAR_POSITIONAL]
    taken = {p.name for p in batch}
    names = [name if name not in taken else f"{name}_of_step" for name in ("params", "state")]
    return inspect.Signature([*(inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names), *batch])


def _mapped(fn: Callable[..., Any], first: Any, *others: Any) -> Any:
    """`first` with ``fn(x, *those of others)`` in the place of each array ``x``."""
    leaves, structure = tree_leaves(first)
    return unflatten(structure, [fn(*each) for each in zip(leaves, *(tree_leaves(o)[0] for o in others), strict=True)])


def _refuse_other(what: str, state: Any, like: Any) -> None:
    """TraceError unless `state` nests as `like`."""
    structure, wanted = (tree_text(tree_leaves(tree)[1]) for tree in (state, like))
    if structure != wanted:
        raise TraceError(
            f"the state of {what} nests as {structure}, and not as {wanted}: the first state is init(params) of this "
            "optimiser, and each step returns the next one"
        )


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
        gradient = _mapped(np.conj, gradient)  # downhill, where it is complex
        if self.momentum:
            _refuse_other("ef.sgd with a momentum", state, gradient)
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
        """The state before the first step: arrays of zeros, of the shapes of `params` and their dtypes, but float32
        for floats of 16 bits, in which `eps` and small squares are 0. Squares of complex gradients are real."""
        mean = _mapped(_zeros, params)
        return {"step": np.int64(0), "mean": mean, "square": _mapped(lambda m: np.zeros_like(m.real), mean)}

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The parameters and the state after a step."""
        _refuse_other("ef.adam", state, {"step": 0, "mean": gradient, "square": gradient})
        step = state["step"] + 1
        downhill = _mapped(lambda g, m: np.conj(g).astype(m.dtype), gradient, state["mean"])
        mean = _mapped(lambda m, g: self.b1 * m + (1 - self.b1) * g, state["mean"], downhill)
        square = _mapped(lambda v, g: self.b2 * v + (1 - self.b2) * (g * np.conj(g)).real, state["square"], downhill)
        corrections = [1 - b ** step.astype(np.float64) for b in (self.b1, self.b2)]

        def moved(p: Any, g: Any, m: Any, v: Any) -> Any:
            of_mean, of_square = (k.astype(v.dtype) for k in corrections)
            return (p - self.rate * (m / of_mean) / (np.sqrt(v / of_square) + self.eps)).astype(g.dtype)

        return _mapped(moved, params, gradient, mean, square), {"step": step, "mean": mean, "square": square}


def _zeros(param: Any) -> Any:
    zeros = np.zeros_like(param)
    return zeros.astype(FLOAT32) if zeros.dtype in NARROW_FLOATS else zeros
