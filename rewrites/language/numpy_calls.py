"""What calls of NumPy's functions and of arrays' methods with terms stand for: the tables, and what misses in them.

In: a call that NumPy hands to a term. Out: what the row of the table makes of it, else a LawError that says what to
write instead. `notation` fills the tables when the package is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NoReturn

import numpy as np

from eqfuse.errors import LawError
from eqfuse.ops import TABLE
from eqfuse.ops.numpy_names import title

UFUNC_TERMS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTION_TERMS: dict[Callable[..., Any], Callable[..., Any]] = {}
METHOD_TERMS: dict[str, Callable[..., Any]] = {}
PROPERTY_TERMS: dict[str, Callable[[Any], Any]] = {}


def ufunc(called: np.ufunc, method: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a ufunc, or of a method of one."""
    name = title(called)
    if method != "__call__":
        raise LawError(f"{name}.{method} cannot stand in a law; write x.sum(p), x.prod(p), x.max(p) or x.min(p)")
    if kwargs:
        raise LawError(f"{name} takes no {', '.join(kwargs)} in a law: write the arguments alone, and casts as terms")
    implementation = UFUNC_TERMS.get(called)
    return _refuse(name) if implementation is None else implementation(*args)


def numpy_function(called: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's other functions."""
    implementation = FUNCTION_TERMS.get(called)
    return _refuse(title(called)) if implementation is None else _call(title(called), implementation, args, kwargs)


def attribute(term: Any, name: str) -> Any:
    """What ``term.name`` is: a method of arrays, or one of their properties."""
    if name in METHOD_TERMS:
        return partial(_method, name, term)
    if name in PROPERTY_TERMS:
        return PROPERTY_TERMS[name](term)
    if name.startswith("__") or name not in dir(np.ndarray):
        raise AttributeError(f"a term has no attribute {name!r}")
    return _refuse(f"ndarray.{name}")


def _method(name: str, term: Any, *args: Any, **kwargs: Any) -> Any:
    return _call(f"ndarray.{name}", METHOD_TERMS[name], (term, *args), kwargs)


def _call(name: str, implementation: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    signature = _signature(implementation)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as misfit:
        raise LawError(f"{name} has the arguments {signature} in a law: {misfit}") from None
    return implementation(*args, **kwargs)


_signature = cache(inspect.signature)  # the book calls the same few functions a thousand times


def _refuse(name: str) -> NoReturn:
    short = name.rpartition(".")[2]
    op = TABLE.get(short)
    instead = "write it in operators of the table (eqfuse/ops)"
    if op is not None:
        tensors = ", ".join("xyzw"[: 2 if op.arity is None else op.arity])
        attrs = f", attrs=({', '.join(op.attrs)},)" if op.attrs else ""
        instead = f"write apply({short!r}, {tensors}{attrs})"
    raise LawError(f"{name} cannot stand in a law; {_INSTEAD.get(short, instead)}")


_PRODUCT = "write x @ y for matrices, (x * y).sum(p) for a sum of products"
_JOINED = "write np.concatenate((x, y), -1), and x.reshape(s) for another axis"
_MEAN = "write x.sum(p) / computed(n, x, p), where n(x, p) counts the elements"
_TYPE = "guards and computed values see the types of tensors: guard(sentence, predicate, x)"
_SAME = "write x itself: a term has no memory of its own"
_PART = "write x.slice(r) with (r,) = attrs('r') and a guard that says which part"
_SHAPED = "write x.reshape(s) with (s,) = attrs('s'), or x.reshape(computed(shape, x))"
_INSTEAD = {
    **dict.fromkeys(("dot", "vdot", "inner", "tensordot", "einsum", "vecdot", "matvec", "vecmat", "outer"), _PRODUCT),
    **dict.fromkeys(("stack", "hstack", "vstack", "dstack", "column_stack", "append", "block"), _JOINED),
    **dict.fromkeys(("mean", "average", "std", "var", "nanmean"), _MEAN),
    **dict.fromkeys(("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "iscomplexobj", "result_type"), _TYPE),
    **dict.fromkeys(("copy", "asanyarray", "asarray", "ascontiguousarray", "base", "data", "flags"), _SAME),
    **dict.fromkeys(("diagonal", "split", "array_split", "item", "nonzero", "compress", "extract", "diff"), _PART),
    **dict.fromkeys(("ravel", "flatten", "flat", "squeeze", "expand_dims", "atleast_1d", "atleast_2d"), _SHAPED),
    **dict.fromkeys(("swapaxes", "moveaxis", "rollaxis"), "write x.transpose(p) with (p,) = attrs('p')"),
    **dict.fromkeys(("array_equal", "array_equiv", "allclose"), "write (x == y).all(p)"),
    "isclose": "write abs(x - y) <= 1e-8 + 1e-5 * abs(y)",
    "nan_to_num": "write np.where(np.isnan(x), 0.0, x)",
    "float_power": "write x ** y", "fabs": "write abs(x)",
    "sort": "write np.sort(x, axis=a)", "ptp": "write x.max(p) - x.min(p)",
    "broadcast_arrays": "write x.broadcast_to(s)", "repeat": "write x.take(i, a), where i is a tensor of places",
}  # fmt: skip
