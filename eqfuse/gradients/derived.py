"""Functions made of another one by differentiation, and what they do where nothing is traced.

In: a function, and what computes its derivative within a trace. Out: `DerivedFunction`, which `ef.jit`, `ef.compile`
and `ef.trace` take as they take the function. Called with plain arrays it is traced for them and evaluated, operator by
operator, at each call: ``ef.jit(ef.grad(f))`` is the compiled form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.trace import trace
from eqfuse.frontends.numpy.tracing import current
from eqfuse.gradients.call import callable_of, name_of
from eqfuse.gradients.nans import debugging, nan_checked
from eqfuse.ir.arithmetic import NUMBER_KINDS
from eqfuse.ir.evaluate import meaning
from eqfuse.ir.graph import Graph
from eqfuse.ir.parameters import bound_arguments, parameters_of
from eqfuse.ir.pytree import tree_leaves

Compute = Callable[[tuple[Any, ...], dict[str, Any]], Any]


class DerivedFunction:
    """What `compute` gives for the arguments of the function `fn`, under the name `what`.

    `chosen`: the places of those, among so many, in which it is differentiated. `takes`: the names of its arguments,
    where these are not the function's.
    """

    def __init__(
        self, what: str, fn: Any, compute: Compute, chosen: Callable[[int], Collection[int]], takes: Sequence[str] = ()
    ) -> None:
        callable_of(fn)
        functools.update_wrapper(self, fn, updated=())
        if takes:
            named = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in takes]
            self.__signature__: inspect.Signature | None = inspect.Signature(named)
        elif isinstance(fn, Graph):
            self.__signature__ = parameters_of(fn)
        self._what, self._compute, self._chosen = what, compute, chosen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return self._compute(args, kwargs)
        if debugging():
            return nan_checked(self, self, self._numbers(args, kwargs), args, kwargs)
        graph = trace(self, *args, static_argnames=self._numbers(args, kwargs), **kwargs)
        with np.errstate(all="ignore"):
            return meaning(graph, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._what} of {name_of(self.__wrapped__)}>"  # type: ignore[attr-defined]

    def _numbers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """The parameters whose arguments are Python numbers and functions alone, in which nothing is differentiated:
        these stay what they are, so that shapes and branches may depend on them, and functions are called."""
        signature = parameters_of(self)
        arguments = {} if signature is None else bound_arguments(signature, args, kwargs).arguments
        chosen = self._chosen(len(args))
        if signature is None:
            return []
        candidates = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        free = [p.name for i, p in enumerate(candidates) if i not in chosen and p.name in arguments]
        leaves = {n: tree_leaves(arguments[n])[0] for n in free}
        return [n for n in free if all(type(leaf) in NUMBER_KINDS or callable(leaf) for leaf in leaves[n])]
