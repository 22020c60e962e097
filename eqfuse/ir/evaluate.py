"""The evaluator: what a graph means. The specification against which every law, plan and kernel is judged.

In: a `Graph` and NumPy arrays. Out: NumPy arrays. One NumPy call per node, never optimised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray  # itself: while a function is traced, np.asarray is what stands in for it

from eqfuse.errors import DtypeError, ShapeError
from eqfuse.ir.accepted import ndarray

if TYPE_CHECKING:
    from eqfuse.ir.graph import Graph, Node


def meaning(graph: Graph, /, *args: Any, **kwargs: Any) -> Any:
    """What the traced function returns for `args`, by the evaluator, which leaves them as they are.

    A graph that was not traced (built by hand, or by `parse`) takes one array per input and returns a tuple.
    """
    if graph.signature is None:
        return evaluate(graph, args)
    signature = graph.signature
    fed = signature.feed(signature.flatten(args, kwargs))
    return signature.rebuild(signature.select(fed, evaluate(graph, fed.arrays)))


def evaluate(graph: Graph, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The outputs of `graph` for `arrays`, one per graph input, in order. Raises ShapeError on a misfit."""
    values = every_value(graph, arrays)
    return tuple(values[o] for o in graph.outputs)


def every_value(graph: Graph, arrays: Sequence[Any]) -> dict[Node, np.ndarray]:
    """The same of all nodes of `graph`."""
    return values_of(graph, bind(graph, arrays))


def bind(graph: Graph, args: Sequence[Any]) -> dict[Node, np.ndarray]:
    """`args` by input node, each checked against its declared type."""
    if len(args) != len(graph.inputs):
        raise ShapeError(f"the graph has {len(graph.inputs)} inputs, {len(args)} arrays were given")
    values = {}
    for n, value in zip(graph.inputs, args, strict=True):
        array = ndarray(value, f"the argument {n.attr('name')!r}")
        if array.dtype != n.dtype or array.shape != n.shape:
            got = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
            misfit = ShapeError if array.dtype == n.dtype else DtypeError
            raise misfit(f"input {n.attr('name')!r} is {n.type}, an array of {got} was given")
        values[n] = array
    return values


def values_of(graph: Graph, values: dict[Node, np.ndarray]) -> dict[Node, np.ndarray]:
    """`values`, those of the inputs, and those of all other nodes of `graph`: one NumPy call per node."""
    for n in graph.nodes:
        if n not in values:
            values[n] = asarray(n.row.meaning(*(values[a] for a in n.args), *n.attrs))
    return values
