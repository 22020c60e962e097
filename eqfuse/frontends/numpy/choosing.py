"""NumPy's functions that choose between arrays element by element.

In: array-function calls on tracers. Out: chains of where, or a gather from the stacked choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy.manipulation import broadcast_arrays, expand_dims, stack
from eqfuse.frontends.numpy.promotion import common, common_dtype, elementwise, lift, operand, with_dtype
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import input_node, substitute, topological
from eqfuse.ops import Role


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tracer:
    if len(condlist) != len(choicelist) or len(condlist) == 0:
        raise ShapeError(f"np.select: {len(condlist)} conditions for {len(choicelist)} choices")
    dtype = common_dtype((*choicelist, default))
    result = lift(default).astype(dtype)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        if lift(condition).dtype.kind != "b":
            raise DtypeError("np.select: every condition must be boolean")
        result = elementwise("where", condition, lift(choice).astype(dtype), result)
    return wrap(result.node, Rights.WRITABLE)  # an array even of rank 0


@implements(np.choose)
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Tracer:
    indices, count = lift(a), len(choices)
    if mode not in ("raise", "wrap", "clip"):
        raise ShapeError(f"np.choose: mode must be raise, wrap or clip, not {mode!r}")
    if not np.can_cast(indices.dtype, np.intp):
        raise DtypeError(f"np.choose: the choice must be an integer, not {indices.dtype}")
    indices = indices.astype(np.intp)
    indices, *arrays = broadcast_arrays(indices, *(wrap(n) for n in common(list(choices))))
    if mode == "raise":
        places = elementwise("where", indices < 0, count, indices)  # so that the gather refuses it
        return lazy.take_along_axis(stack(arrays), expand_dims(places, 0), 0)[0]
    indices = indices % count if mode == "wrap" else lazy.clip(indices, 0, count - 1)
    result = arrays[-1]
    for i, choice in list(enumerate(arrays[:-1]))[::-1]:
        result = elementwise("where", indices == i, choice, result)
    return result.copy()


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tracer:
    x = lift(x)
    conditions = [lift(c).astype(bool) for c in _conditions(condlist, x.ndim)]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(f"np.piecewise: {len(funclist)} functions for {len(conditions)} conditions")
    if any(c.shape != x.shape for c in conditions):
        raise ShapeError(f"np.piecewise: every condition must have the shape {x.shape} of the array")
    result = lift(0).astype(x.dtype)
    if len(funclist) > len(conditions):
        result = _piece(funclist[-1], x, args, kw)
    for condition, function in zip(conditions, funclist, strict=False):
        result = elementwise("where", condition, _piece(function, x, args, kw), result)
    return result if result.shape == x.shape else lazy.broadcast_to(result, x.shape).copy()


def _conditions(condlist: Any, rank: int) -> Any:
    """The conditions one by one; a single one may stand without a list around it."""
    if not isinstance(condlist, (list, tuple)) and np.ndim(condlist) == 0:
        return [condlist]
    first = condlist[0]
    single = not isinstance(first, list) and np.ndim(first) == 0
    return [condlist] if single and rank else condlist


def _piece(function: Any, x: Tracer, args: tuple, kw: dict[str, Any]) -> Tracer:
    """`function` of all of `x`, where NumPy would take the elements that meet the condition alone."""
    if not isinstance(function, Callable):  # type: ignore[arg-type]
        return wrap(with_dtype(operand(function), x.dtype))
    rows = input_node("the elements of one piece", x.node.type)
    piece = lift(function(wrap(rows), *args, **kw)).node
    depends = {rows}
    for n in topological((piece,)):
        if depends.isdisjoint(n.args):
            continue
        depends.add(n)
        others = (a.shape for a in n.args if a not in depends)
        if n.row.role is not Role.ELEMENTWISE or n.shape != x.shape or not {*others} <= {(), (1,)}:
            raise TraceError(
                "np.piecewise: a function that is not elementwise sees only the elements of its condition, whose "
                "number depends on data. Compute the piece before, and choose by np.where"
            )
    if piece not in depends and piece.shape not in ((), (1,)):
        raise ShapeError(f"np.piecewise: a piece of shape {piece.shape} does not fit the elements of its condition")
    (whole,) = substitute((piece,), {rows: x.node})
    return wrap(whole).astype(x.dtype)
