"""A function of the user's that is called as it is: `pure_callback`, whose attribute holds it.

In: arrays. Out: what the function returns for them, one result as it is, several as one vector of bytes (`loops.py`).
Text names a function by a key that means something in this process alone: a function is code, which no file holds.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, EqfuseError, ShapeError
from eqfuse.ops.loops import packed_results, packed_type
from eqfuse.ops.row import Op, PriceClass, Role, Types, no_flops
from eqfuse.ops.types import TensorType


class HostFunction:
    """`call` takes arrays to a list of results; it is that of the user's `function`, which `name` is the name of, with
    arguments and results that nest as `nesting` says. Two are equal where these two are."""

    __slots__ = ("call", "name", "key", "_same", "__weakref__")

    def __init__(
        self, call: Callable[[Sequence[np.ndarray]], Sequence[Any]], function: Any, name: str, nesting: Hashable
    ) -> None:
        self.call, self.name, self.key = call, name, uuid.uuid4().hex[:16]
        of_object = isinstance(function, MethodType)
        identity = (id(function.__self__), id(function.__func__)) if of_object else (id(function),)
        self._same = (identity, nesting)  # `call` keeps the function, so that no other has its id
        _functions[self.key] = self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostFunction) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)

    def __repr__(self) -> str:
        return f"host_function({self.key!r})"

    def results(self, arrays: Sequence[np.ndarray], types: Sequence[TensorType]) -> list[np.ndarray]:
        """What the function returns for `arrays`, which it may read only. ShapeError or DtypeError where that is not of
        `types`."""
        returned = self.call([_read_only(a) for a in arrays])
        return [self._checked(value, t, i) for i, (value, t) in enumerate(zip(returned, types, strict=True))]

    def _checked(self, value: Any, t: TensorType, place: int) -> np.ndarray:
        is_number = type(value) in (bool, int, float, complex)
        fits = is_number and np.result_type(t.dtype, type(value)()) == t.dtype
        array = np.asarray(value, t.dtype if fits else None)
        if array.shape != t.shape or array.dtype != t.dtype:
            error = DtypeError if array.shape == t.shape else ShapeError
            got = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
            raise error(
                f"{self.name}, called by ef.pure_callback, returned {got} as result {place}, and was said to return {t}"
            )
        return array


_functions: weakref.WeakValueDictionary[str, HostFunction] = weakref.WeakValueDictionary()


def host_function(key: str, name: str = "the function") -> HostFunction:
    """The function that `key` names; of another process, one of that `name` which cannot be called."""
    function = _functions.get(key)
    if function is not None:
        return function

    def missing(_arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        raise EqfuseError(
            f"{name}, called by ef.pure_callback, is code of another process, and no file holds it: compile the "
            "program in this one"
        )

    return HostFunction(missing, missing, name, key)


def _read_only(array: np.ndarray) -> Any:
    if not array.shape:
        return array[()]
    view = array.view()
    view.flags.writeable = False
    return view


def callback_types(attrs: tuple) -> list[TensorType]:
    return [TensorType(np.dtype(name), shape) for name, shape in attrs[1]]


def _type(_types: Types, attrs: tuple) -> TensorType:
    return packed_type(callback_types(attrs))


def _meaning(*operands: Any) -> np.ndarray:
    *arrays, function, _ = operands
    types = callback_types(operands[-2:])
    return packed_results(function.results(arrays, types), types)


ROWS = [
    Op(
        "pure_callback", Role.LIBRARY, None, ("function", "results"), _type, _meaning, no_flops, PriceClass.ONE_BY_ONE
    ),
]
