"""`ef.pure_callback`: a function that cannot be traced, called as it is, with JAX's conventions.

In: the function, the types of what it returns, its arguments. Out: in a function that is traced, one operator
(`ops/host_function.py`) that nothing is fused with; elsewhere what Python computes by calling it, with the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import tensor_dtype
from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.carries import Carries, tree_text
from eqfuse.frontends.numpy.loops import taken_apart
from eqfuse.frontends.numpy.tracing import current
from eqfuse.ir.graph import const, node
from eqfuse.ir.pytree import paths, tree_leaves, unflatten
from eqfuse.ops.host_function import HostFunction
from eqfuse.ops.types import TensorType


def pure_callback(callback: Callable[..., Any], result: Any, *args: Any, **kwargs: Any) -> Any:
    """``callback(*args, **kwargs)``, a function that need not be traceable; `result` says what it returns: an
    `ef.spec`, or a container of these.

    It is called with NumPy's arrays, which it may read only, once the program runs. It must be pure: it may be called
    more often than is written here, or not at all where its results are not used.
    """
    if not callable(callback):
        raise TraceError(f"ef.pure_callback takes a function first, not {callback!r}")
    name = str(getattr(callback, "__name__", type(callback).__name__))
    leaves, returns = tree_leaves(result)
    types = [_type(leaf, path) for leaf, path in zip(leaves, paths(returns, "result"), strict=True)]
    arguments = Carries("ef.pure_callback", "arguments", (*args, kwargs))
    nesting = arguments.structure

    def call(arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        *positional, named = unflatten(nesting, arrays)
        values, structure = tree_leaves(callback(*positional, **named))
        if structure != returns and tree_text(structure) != tree_text(returns):
            raise TraceError(
                f"{name}, called by ef.pure_callback, returned {tree_text(structure)}, and was said to return "
                f"{tree_text(returns)}"
            )
        return values

    function = HostFunction(call, callback, name, (nesting, returns))
    if current() is None:
        values = [np.array(v)[()] for v in function.results([np.asarray(v) for v in arguments.values], types)]
        return unflatten(returns, values)
    nodes = [v.node for v in arguments.values] or [const(False)]  # a kernel reads something
    called = node("pure_callback", nodes, (function, tuple((t.dtype.name, t.shape) for t in types)))
    return unflatten(returns, taken_apart(called, types))


def _type(leaf: Any, path: str) -> TensorType:
    try:
        return TensorType(tensor_dtype(leaf.dtype, f"the {path} of ef.pure_callback"), tuple(map(int, leaf.shape)))
    except (AttributeError, TypeError):
        raise TraceError(
            f"the {path} of ef.pure_callback is {leaf!r}: say what the function returns by ef.spec(shape, dtype)"
        ) from None
