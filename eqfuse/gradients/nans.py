"""`ef.debug_nans`: names the operator, and the user's line, that made the first NaN of a call.

In: a call whose results hold a NaN. Out: NanError. The function is traced once more, and evaluated operator by
operator; of a loop that makes the NaN, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import NanError, line_of
from eqfuse.frontends.numpy.origins import Origin, Origins, noting
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import every_value, values_of
from eqfuse.ir.graph import Body, Graph, Node
from eqfuse.ir.loops import result_number
from eqfuse.ir.pytree import tree_leaves, unflatten
from eqfuse.ops.loops import LOOPS

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


def nan_checked(
    call: Callable[..., Any], fn: Callable[..., Any], static: Iterable[str], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """``call(*args, **kwargs)``, a form of `fn`; NanError where a result or an argument that it changes holds a NaN."""
    before = _copied((args, kwargs))
    token = _active.set(False)
    try:
        result = call(*args, **kwargs)
        if any(_is_nan(x) for x in tree_leaves((result, args, kwargs))[0]):
            _blame(fn, static, *before)
    finally:
        _active.reset(token)
    return result


def _copied(tree: Any) -> Any:
    leaves, structure = tree_leaves(tree)
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
        first = _first(graph.outputs, values, origins)
    if first is not None:
        raise NanError(first.said())
    if any(_is_nan(values[n]) for n in graph.outputs):
        return  # it is an argument's
    raise NanError(
        "a result of the compiled program holds a NaN, and none of the operators makes one by NumPy: an infinity, or "
        'what is outside the safe range, may have met another order of operations; compile with numerics="strict"'
    )


@dataclass(frozen=True)
class _First:
    """The node that makes the first NaN, its `value`, and the steps of the loops around it, innermost first."""

    node: Node
    value: Any
    origin: Origin
    steps: tuple[tuple[str, Origin], ...] = ()

    def said(self) -> str:
        n, (place, operator) = self.node, self.origin
        op = n.args[0].op if n.op == "loop_result" else n.op
        index = "" if n.shape == () else f" at {tuple(map(int, np.argwhere(np.isnan(self.value))[0]))}"
        within = "" if operator is None else f", in the derivative of {operator}"
        text = f"{op} makes the first NaN, of {n.type}{index}{within}" + "".join(f", {step}" for step, _ in self.steps)
        places = [("made" if operator is None else "differentiated", place)]
        places += [("run", origin.place) for _, origin in self.steps]
        return text + "".join(f"\n  {what} at {line_of(place)}" for what, place in places if place is not None)


def _first(outputs: Sequence[Node], values: dict[Node, Any], origins: Origins) -> _First | None:
    """What makes the NaN of one of `outputs` of what is none, of the forward pass where there is one."""

    def origin(n: Node) -> Origin:
        return origins.origin_of(n) or Origin(None)

    nans = _nans(outputs, values)
    makes = [n for n in nans if n.args and not any(a in nans for a in _arguments(n))]
    first = min(makes, key=lambda n: origin(n).operator is not None, default=None)
    if first is None:
        return None
    loop = first.args[0] if first.op == "loop_result" else first
    inner = None
    if loop.op in LOOPS:
        inner = _within(loop, 0 if loop is first else result_number(first), values, origins)
    return inner or _First(first, values[first], origin(first))


def _nans(outputs: Iterable[Node], values: dict[Node, Any]) -> dict[Node, None]:
    """The NaNs of which those of `outputs` are made, and these."""
    seen: dict[Node, None] = {}
    stack = [*outputs]
    while stack:
        n = stack.pop()
        if n not in seen and _is_nan(values[n]):
            seen[n] = None
            stack += _arguments(n)
    return seen


def _arguments(n: Node) -> tuple[Node, ...]:
    return n.args[0].args if n.op == "loop_result" else n.args


class _BodyWatch:
    """A body that notes of each of its results the step in which it was a NaN first, and what that step read."""

    def __init__(self, body: Body) -> None:
        self.body, self.gives = body, body.gives
        self.steps = 0
        self.first: dict[int, tuple[int, tuple[Any, ...]]] = {}

    def __call__(self, *arrays: Any) -> list[Any]:
        results = self.body(*arrays)
        for i, value in enumerate(results):
            if i not in self.first and _is_nan(value):
                self.first[i] = self.steps, arrays
        self.steps += 1
        return results


def _within(loop: Node, result: int, values: dict[Node, Any], origins: Origins) -> _First | None:
    """What makes the first NaN of the `result` of a loop or a choice, whose arguments are none; by its steps, from that
    with the NaN back to those with the carries of which it was made."""
    bodies = [_BodyWatch(a) if isinstance(a, Body) else a for a in loop.attrs]
    loop.row.meaning(*(values[a] for a in loop.args), *bodies)
    body = next(b for b in bodies if isinstance(b, _BodyWatch) and result in b.first)
    before = body.steps
    while body.first.get(result, (before, ()))[0] < before:
        before, arrays = body.first[result]
        graph = body.body.graph
        inside = values_of(graph, dict(zip(graph.inputs, arrays, strict=True)))
        inner = _first([graph.outputs[result]], inside, _placed(origins, graph, loop))
        if inner is not None:
            step = (_step(loop, before, arrays), origins.origin_of(loop) or Origin(None))
            return replace(inner, steps=(*inner.steps, step))
        carries = graph.inputs[loop.op in ("scan", "fori_loop") :][: len(graph.outputs)]
        nans = _nans([graph.outputs[result]], inside)
        result = next((i for i, carry in enumerate(carries) if carry in nans), -1)
    return None


def _placed(origins: Origins, graph: Graph, loop: Node) -> Origins:
    """`origins`, where nodes of a body without one have that of what is made of them; else that of the loop."""
    whole = origins.origin_of(loop)
    for n in reversed(graph.nodes):
        origin = origins.origin_of(n) or whole
        if origin is not None:
            origins.noted[n] = origin
            for a in n.args:
                if origins.origin_of(a) is None:
                    origins.noted[a] = origin
    return origins


def _step(loop: Node, step: int, arrays: Sequence[Any]) -> str:
    if loop.op == "if_else":
        return "in a branch of if_else"
    return f"in step {step} of while_loop" if loop.op == "while_loop" else f"at index {int(arrays[0])} of {loop.op}"
