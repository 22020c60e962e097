"""NumPy's calls on traced arrays: which implementation they run, and where ``out=`` and ``where=`` lead.

In: ufuncs and array functions with a tracer among their arguments. Out: what the implementation in the tables returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from typing import Any, cast

import numpy as np

from eqfuse.dtypes import castable
from eqfuse.errors import EqfuseError, ShapeError, TraceError, UnsupportedOp, as_ours, is_users_own
from eqfuse.frontends.numpy import refused
from eqfuse.frontends.numpy.laid_out import lay_out
from eqfuse.frontends.numpy.masked import MASKED
from eqfuse.frontends.numpy.number import Number
from eqfuse.frontends.numpy.promotion import defers, elementwise, holds_tracer, lift
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_METHODS, TRACED_UFUNCS, F, of_arrays
from eqfuse.frontends.numpy.selection import Selection
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.graph import const
from eqfuse.ir.strides import MemoryLayout, strides_of
from eqfuse.ops.numpy_names import title


def _explaining(entrance: F) -> F:
    """`entrance`, where what NumPy raises on the way is an error of ours with the user's line."""

    @wraps(entrance)
    def call(*args: Any) -> Any:
        try:
            return entrance(*args)
        except EqfuseError:
            raise
        except (ValueError, IndexError, OverflowError, TypeError) as error:
            if is_users_own(error):
                raise
            raise as_ours(error) from error

    return cast(F, call)


@of_arrays
@_explaining
def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    name = title(ufunc) + ("" if method == "__call__" else f".{method}")
    implementation = TRACED_UFUNCS.get(ufunc) if method == "__call__" else TRACED_METHODS.get((ufunc, method))
    if implementation is None:
        return on_values(name, getattr(ufunc, method), inputs, kwargs)
    if any(map(defers, inputs)):
        return NotImplemented
    if method == "at" and not isinstance(inputs[0], Tracer):
        raise _no_tracer(name)
    kwargs = _keywords(kwargs)
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    if where is not True and method == "reduce":
        kwargs["where"] = where
    folds = method in ("reduce", "accumulate", "reduceat")
    if folds:
        _fold_in(out, kwargs)
    results = _call(name, implementation, inputs, kwargs)
    if where is not True and method == "__call__":
        results = _chosen(where, results, out, kwargs.get("casting", "same_kind"))
        kwargs["where"] = where
    if out is None:
        lay_out(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs, results)
    return _into(name, out, results, kwargs.get("casting", "same_kind"), exact=folds)


@of_arrays
@_explaining
def call_function(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    name = title(function)
    implementation = TRACED_FUNCTIONS.get(function)
    for value in (*args, *kwargs.values()):
        if isinstance(value, Selection) and function not in _TAKING_SELECTIONS:
            return value.__array_function__(function, (), args, kwargs)
    if implementation is None:
        if not holds_tracer((args, kwargs)):
            raise refused.error(name)  # called with like=
        return on_values(name, function, args, kwargs)
    kwargs, args = _keywords(kwargs), list(args)
    if kwargs.get("where", True) is True:
        kwargs.pop("where", None)
    elif function in MASKED:
        implementation = MASKED[function]
    out = kwargs.pop("out", None)
    place = _out_place(implementation)
    if place is not None and place < len(args):
        out, args[place] = args[place], None
    if function in _FOLDS and len(args) < 3:
        _fold_in(out, kwargs)
    results = _call(name, implementation, args, kwargs)
    if out is None:
        lay_out(function, args, kwargs, results)
    return _into(name, out, results, kwargs.get("casting", "same_kind"), exact=function not in _SPREAD)


def _keywords(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that say something: np._NoValue is the default of functions that pass theirs on."""
    return {name: value for name, value in kwargs.items() if value is not np._NoValue}


_TAKING_SELECTIONS = (np.place,)
_SPREAD = (  # functions that broadcast their results into ``out=``
    np.clip, np.fix, np.isposinf, np.isneginf, np.percentile, np.quantile, np.nanmedian, np.nanpercentile,
    np.nanquantile,
)  # fmt: skip
_FOLDS = (np.sum, np.prod, np.cumsum, np.cumprod, np.cumulative_sum, np.cumulative_prod)


def _fold_in(out: Any, kwargs: dict[str, Any]) -> None:
    """A fold whose result goes into an array is computed in that array's dtype, unless ``dtype=`` says otherwise."""
    (place,) = out if isinstance(out, tuple) and len(out) == 1 else (out,)
    if isinstance(place, Tracer) and kwargs.get("dtype") is None:
        kwargs["dtype"] = place.dtype


def on_values(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function that is in no table, on arrays whose values are known: computed at once, by NumPy."""
    if not are_constant((args, kwargs)):
        raise refused.error(name)
    return _mapped(function(*_mapped(tuple(args), _value), **_mapped(kwargs, _value)), _constant)


def are_constant(tree: Any) -> bool:
    """Are the values of all traced arrays and numbers in `tree` known?"""
    return all(t.constant_value() is not None for t in tracers(tree))


def _value(leaf: Any) -> Any:
    return leaf.constant_value() if isinstance(leaf, Tracer) else leaf


def _constant(leaf: Any) -> Any:
    if type(leaf) is not np.ndarray:
        return leaf
    tracer = wrap(const(leaf), Rights.WRITABLE, layout=MemoryLayout(strides_of(leaf)))
    return tracer if leaf.flags.writeable else tracer.viewed(access=Rights.READ_ONLY)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """`change` of every leaf of nested tuples, lists and dicts."""
    if isinstance(tree, dict):
        return {key: _mapped(child, change) for key, child in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(_mapped(child, change) for child in tree)
    return change(tree)


def tracers(tree: Any) -> Iterator[Tracer | Number]:
    if isinstance(tree, (Tracer, Number)):
        yield tree
    elif isinstance(tree, (tuple, list, dict)):
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from tracers(child)


def _chosen(where: Any, results: Any, out: Any, casting: str) -> Any:
    """`results` where the mask says so, else what `out` held (without `out`, NumPy leaves it undefined: zero here).
    What does not fit there by the rule `casting` stays as it is, to be refused."""
    several = isinstance(results, tuple)
    values = results if several else (results,)
    before = out if isinstance(out, tuple) else (out,) * len(values)
    kept = []
    for r, b in zip(values, before, strict=True):
        if not isinstance(b, Tracer):
            kept.append(elementwise("where", where, r, 0 if b is None else b))
        elif castable(lift(r).dtype, b.dtype, casting):
            kept.append(elementwise("where", where, lift(r).astype(b.dtype), b))
        else:
            kept.append(r)
    return tuple(kept) if several else kept[0]


def _into(name: str, out: Any, results: Any, casting: str, exact: bool) -> Any:
    """Write `results` into the arrays given as ``out=`` and return those; without them, `results` themselves. `exact`:
    they must have the same shape."""
    if out is None or (isinstance(out, tuple) and all(o is None for o in out)):
        return results
    several = isinstance(results, tuple)
    places = out if isinstance(out, tuple) else (out,)
    delivered = []
    for place, result in zip(places, results if several else (results,), strict=True):
        if place is None:
            delivered.append(result)
            continue
        if not isinstance(place, Tracer):
            raise _no_tracer(name)
        if exact and place.shape != lift(result).shape:
            raise ShapeError(f"{name}: its result of shape {lift(result).shape} goes into out= of shape {place.shape}")
        place.become(lift(result), casting)
        delivered.append(place)
    return tuple(delivered) if several else delivered[0]


def _no_tracer(name: str) -> TraceError:
    return TraceError(
        f"{name} would write a traced value into an array k of plain numbers. Write k = k + y instead of k += y, or "
        "make it an array that takes traced values: k = np.array(k). One made outside of the traced function stays as "
        "it is: pass it as an argument, if it is to change"
    )


@cache
def _out_place(implementation: Callable[..., Any]) -> int | None:
    names = list(inspect.signature(implementation).parameters)
    return names.index("out") if "out" in names else None


def _call(name: str, implementation: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return implementation(*args, **kwargs)
    except TypeError as error:
        try:
            inspect.signature(implementation).bind(*args, **kwargs)
        except TypeError as misfit:
            raise UnsupportedOp(f"{name}: this use of its arguments cannot be traced ({misfit})") from None
        raise error
