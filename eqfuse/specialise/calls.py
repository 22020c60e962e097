"""One call of a function, flat: its arrays and numbers, and the graph of the same call with arrays of other types.

In: a function and arguments, static ones among them. Out: leaves, their names, and graphs. Holds no array's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.random import GENERATORS
from eqfuse.frontends.numpy.trace import Spec, layout_of, leaf_type, trace
from eqfuse.ir.arithmetic import NUMBER_KINDS
from eqfuse.ir.graph import Graph
from eqfuse.ir.parameters import CallForms, parameters_of
from eqfuse.ir.pytree import tree_leaves, unflatten
from eqfuse.ir.signature import input_names
from eqfuse.ir.strides import Strides
from eqfuse.ir.symbolic import SymbolicSpec
from eqfuse.ops.types import Shape, TensorType


class FunctionCall:
    """A call of `fn`. `leaves`: a `Spec` or `SymbolicSpec` for each array; numbers and random generators themselves."""

    def __init__(self, fn: Callable[..., Any], static: frozenset[str], args: tuple, kwargs: dict[str, Any]) -> None:
        self.fn, self.static = fn, static
        self._parameters = parameters_of(fn)
        normal, _ = CallForms(self._parameters, static).split(args, kwargs)
        leaves, self.structure = tree_leaves(normal)
        self.names = input_names(self._parameters, self.structure)
        self.leaves = [_without_data(leaf, name) for leaf, name in zip(leaves, self.names, strict=True)]
        self._args, self._kwargs = self._with(args, kwargs, self.leaves)

    @property
    def shapes(self) -> list[Shape | None]:
        return [leaf.shape if isinstance(leaf, Spec) else None for leaf in self.leaves]

    @property
    def layouts(self) -> list[Strides]:
        return [leaf.strides if isinstance(leaf, Spec) else None for leaf in self.leaves]

    @property
    def dtypes(self) -> list[np.dtype | None]:
        return [leaf.dtype if isinstance(leaf, (Spec, SymbolicSpec)) else None for leaf in self.leaves]

    def take_numbers(self, leaves: Sequence[Any]) -> None:
        """Trace from now on with the Python numbers of another call, whose arguments have these `leaves`."""
        self.leaves = [new if type(old) in NUMBER_KINDS else old for old, new in zip(self.leaves, leaves, strict=True)]
        self._args, self._kwargs = self._with(self._args, self._kwargs, self.leaves)

    def trace(
        self, types: Sequence[TensorType | None] | None = None, layouts: Sequence[Strides] | None = None
    ) -> Graph:
        """The graph of this call; with `types`, its arrays have these instead of their own, and lie in C order or as
        `layouts` says."""
        args, kwargs = self._args, self._kwargs
        if types is not None:
            lie = layouts or [None] * len(types)
            leaves = [leaf if t is None else Spec(t, s) for leaf, t, s in zip(self.leaves, types, lie, strict=True)]
            args, kwargs = self._with(args, kwargs, leaves)
        return trace(self.fn, *args, static_argnames=self.static, **kwargs)

    def _with(self, args: tuple, kwargs: dict[str, Any], leaves: Iterable[Any]) -> tuple[tuple, dict[str, Any]]:
        """(args, kwargs) with `leaves` in the places of their own; static arguments stay."""
        rest = iter(leaves)
        if self._parameters is None or not (kwargs or self.static):
            return _swapped((args, kwargs), rest)
        bound = self._parameters.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name not in self.static:
                bound.arguments[name] = _swapped(value, rest)
        return bound.args, bound.kwargs


def _swapped(tree: Any, leaves: Iterator[Any]) -> Any:
    old, structure = tree_leaves(tree)
    return unflatten(structure, [next(leaves) for _ in old])


def _without_data(leaf: Any, name: str) -> Any:
    if type(leaf) in NUMBER_KINDS or isinstance(leaf, (SymbolicSpec, np.generic, *GENERATORS)):
        return leaf
    return Spec(leaf_type(leaf, name), layout_of(leaf))
