"""Stand-ins for NumPy's functions, equal to what they stand for; and for what NumPy does before it asks a traced
array: ``np.max([x, y])``, ``np.maximum.reduce([x, y])``, ``TABLE[x]``.

NumPy looks for tracers among a call's arguments, not inside their lists, and an array asks nobody how to read its
index. In: the functions, ufuncs, arrays themselves. Out: the same, except where a tracer is met. Used by `stand_ins`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.dispatch import call_function, call_ufunc
from eqfuse.frontends.numpy.promotion import OUR_HOOKS, holds_tracer, lift
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.frontends.numpy.tracing import current

REDUCED = (
    np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or, np.bitwise_and, np.bitwise_or,
    np.bitwise_xor,
)  # fmt: skip


class StandIn:
    """Stands for the function `original`, and is called as `call`: it has the class and the attributes of the function,
    is equal to it, and finds the same in a dict."""

    def __init__(self, original: Any, call: Callable[..., Any]) -> None:
        self._original, self._call = original, call

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        binds = instance is not None and hasattr(type(self._original), "__get__")
        return types.MethodType(self, instance) if binds else self

    def __eq__(self, other: Any) -> bool:
        return bool(self._original == (other._original if issubclass(type(other), StandIn) else other))

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> tuple:
        return _itself, (self._original,)


class ClassStandIn(StandIn):
    """Stands for a class: what it made is its instance, and classes may be derived from it."""

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._original)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._original)

    def __mro_entries__(self, bases: tuple) -> tuple:
        return (self._original,)


class StartedIterator(StandIn):
    """An iterator from outside the traced function, which takes nothing of it."""

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator, iterator)

    def __iter__(self) -> StartedIterator:
        return self

    def __next__(self) -> Any:
        if current() is not None:
            raise TraceError(
                f"the function takes the next element of a {type(self._original).__name__} from outside of it: its "
                "program would have the same element at every call. Pass the element as an argument, or make the "
                "iterator inside"
            )
        return next(self._original)


def _itself(value: Any) -> Any:
    return value


def taking_lists(function: Callable[..., Any]) -> StandIn:
    """`function` of the table, which also sees the tracers in a list that it is given first."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) in (list, tuple) and current() is not None and holds_tracer(args[0]):
            return call_function(function, args, kwargs)
        return function(*args, **kwargs)

    return StandIn(function, call)


class ReducingLists(StandIn):
    """A ufunc whose ``reduce`` also sees the tracers in a list."""

    def __init__(self, ufunc: np.ufunc) -> None:
        super().__init__(ufunc, ufunc)

    def reduce(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        if type(array) in (list, tuple) and current() is not None and holds_tracer(array):
            return call_ufunc(self._original, "reduce", (lift(array), *args), kwargs)
        return self._original.reduce(array, *args, **kwargs)


class AxisConcatenator:
    """``np.r_`` or ``np.c_``, which also join traced arrays: along the first axis, or as columns along the last."""

    def __init__(self, real: Any, columns: bool) -> None:
        self._real, self._columns = real, columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __len__(self) -> int:
        return len(self._real)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if current() is None or not holds_tracer(parts):
            return self._real[key]
        if isinstance(parts[0], str):
            raise TraceError("np.r_ and np.c_ with directives cannot be traced; use np.concatenate or np.stack")
        return lazy.concatenate([self._piece(part) for part in parts], -1 if self._columns else 0)

    def _piece(self, part: Any) -> Tracer:
        x: Tracer = lift(self._real[part].reshape(-1) if isinstance(part, slice) else part)
        if self._columns:
            return x.reshape(-1, 1) if x.ndim < 2 else x
        return x if x.ndim else x.reshape(1)


def _refuse_to_write(array: Any) -> None:
    """TraceError where `array` is memory from outside of the function that is traced, and no copy of it."""
    if current() is not None and isinstance(array, Constant) and not (array.flags.owndata or _is_copy(array.base)):
        raise TraceError(
            "the traced function would write into a NumPy array made outside of it: its program would not do so at "
            "every call. Make the array inside: np.zeros, np.empty, np.array(x), or pass it as an argument"
        )


def _is_copy(base: Any) -> bool:
    return isinstance(base, Constant) and base.flags.owndata


def _writing(name: str) -> Callable[..., Any]:
    """The method of arrays that changes them, refused while its thread traces."""

    def call(self: Constant, *args: Any, **kwargs: Any) -> Any:
        _refuse_to_write(self)
        return getattr(np.ndarray, name)(self, *args, **kwargs)

    return call


def _as_ndarray(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Constant) else value


class Constant(np.ndarray):
    """An array from outside the traced function, which may be read at traced places. `original`: it itself."""

    original: np.ndarray | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @staticmethod
    def from_array(array: np.ndarray) -> Constant:
        constant = array.view(Constant)
        constant.original = array
        return constant

    def __getitem__(self, key: Any) -> Any:
        if current() is not None and holds_tracer(key if isinstance(key, tuple) else (key,)):
            return lift(self.view(np.ndarray))[key]
        return self.view(np.ndarray)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        _refuse_to_write(self)
        self.view(np.ndarray)[key] = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple = (), **kwargs: Any) -> Any:
        for written in (*out, *inputs[: method == "at"]):
            _refuse_to_write(written)
        out_keyword = {"out": tuple(map(_as_ndarray, out))} if out else {}
        result = getattr(ufunc, method)(*map(_as_ndarray, inputs), **out_keyword, **kwargs)
        return out[0] if len(out) == 1 else result

    fill, sort, put, partition = (_writing(name) for name in ("fill", "sort", "put", "partition"))
    resize, setfield = (_writing(name) for name in ("resize", "setfield"))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)


OUR_HOOKS.add(Constant.__array_ufunc__)
