"""`ef.debug_nans`: names the operator, and the user's line, that made the first NaN of a call.

In: a call whose results hold a NaN. Out: NanError. The function is traced once more, and evaluated operator by
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import NanError, line_of
from eqfuse.frontends.numpy.origins import Origin, noting
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import every_value
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.pytree import flatten, unflatten

_active: ContextVar[bool] = ContextVar("_active", default=False)


class debug_nans:
    """Within ``with ef.debug_nans():``, a call of a function that `ef.jit`, or `ef.grad` and its like, have made raises
    NanError where a result holds a NaN that is not an argument's. It names the operator that made the first one. Such
    calls are slower; arguments that they change are changed all the same."""

    def __init__(self, on: bool = True) -> None:
        self._on = on

    def __enter__(self) -> None:
        self._token = _active.set(self._on)

    def __exit__(self, *_: object) -> None:
        _active.reset(self._token)


def debugging() -> bool:
    return _active.get()


def checked(
    call: Callable[..., Any], fn: Callable[..., Any], static: Iterable[str], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """``call(*args, **kwargs)``, a form of `fn`; NanError where a result or an argument that it changes holds a NaN."""
    before = _copied((args, kwargs))
    token = _active.set(False)
    try:
        result = call(*args, **kwargs)
        if any(_is_nan(x) for x in flatten((result, args, kwargs))[0]):
            _blame(fn, static, *before)
    finally:
        _active.reset(token)
    return result


def _copied(tree: Any) -> Any:
    leaves, structure = flatten(tree)
    return unflatten(structure, [x.copy() if isinstance(x, np.ndarray) else x for x in leaves])


def _is_nan(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)):
        return isinstance(value, float) and value != value
    return kind(value.dtype) in "fc" and bool(np.isnan(value).any())


def _blame(fn: Callable[..., Any], static: Iterable[str], args: tuple[Any, ...], kwargs: Any) -> None:
    """NanError, about the first NaN of a call."""
    with noting() as origins:
        graph = trace(fn, *args, static_argnames=static, **kwargs)
    signature = graph.signature
    assert signature is not None
    with np.errstate(all="ignore"):
        values = every_value(graph, signature.feed(signature.flatten(args, kwargs)).arrays)
    first = _first(graph, values, origins)
    if first is not None:
        raise NanError(_said(first, values[first], origins.get(first, Origin(None))))
    if any(_is_nan(values[n]) for n in graph.outputs):
        return  # it is an argument's
    raise NanError(
        "a result of the compiled program holds a NaN, and none of the operators makes one by NumPy: an infinity, or "
        'what is outside the safe range, may have met another order of operations; compile with numerics="strict"'
    )


def _first(graph: Graph, values: dict[Node, Any], origins: dict[Node, Origin]) -> Node | None:
    """A node that makes the NaN of a result of what is none, of the forward pass where there is one."""
    makes, seen = [], set()
    stack = list(graph.outputs)
    while stack:
        n = stack.pop()
        if n in seen or not _is_nan(values[n]):
            continue
        seen.add(n)
        stack += _arguments(n)
        if n.args and not any(_is_nan(values[a]) for a in _arguments(n)):
            makes.append(n)
    return min(makes, key=lambda n: origins.get(n, Origin(None)).operator is not None, default=None)


def _arguments(n: Node) -> tuple[Node, ...]:
    return n.args[0].args if n.op == "loop_result" else n.args


def _said(n: Node, value: Any, origin: Origin) -> str:
    op = n.args[0].op if n.op == "loop_result" else n.op
    place = "" if n.shape == () else f" at {tuple(map(int, np.argwhere(np.isnan(value))[0]))}"
    within = "" if origin.operator is None else f", in the derivative of {origin.operator}"
    line = "" if origin.place is None else f"\n  {'made' if origin.operator is None else 'differentiated'} at "
    text = f"{op} makes the first NaN, of {n.type}{place}{within}"
    return text + (line + line_of(origin.place) if origin.place else "")
