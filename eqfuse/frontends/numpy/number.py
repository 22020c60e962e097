"""A Python number that a traced function is called with: what is done to it alone, Python does at each call.

In: operators between Python numbers. Out: further numbers; and an input of the graph, where one meets an array. Its
value is known for the example call alone, so nothing may branch on it. Used by `eqfuse/frontends/numpy/promotion.py`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from eqfuse.errors import TraceError, UnsupportedOp, user_place
from eqfuse.frontends.numpy.ndarray import Operators
from eqfuse.frontends.numpy.tracing import current
from eqfuse.ir.arithmetic import NUMBER_KINDS, step_function
from eqfuse.ir.graph import Node


class Number(Operators):
    """Stands for a Python number while a function is traced, as `Tracer` does for an array."""

    __slots__ = ("_trace", "_place", "user_place", "__weakref__")

    scalar = True

    def __init__(self, place: int) -> None:
        trace = current()
        assert trace is not None
        trace.enter(self)
        self._trace, self._place = trace, place
        self.user_place = user_place()

    @property
    def place(self) -> int:
        """Where its value is, in the arithmetic of this trace."""
        self._trace.require(self)
        return self._place

    @property
    def kind(self) -> type:
        return type(self._trace.numbers[self._place])

    @property
    def default(self) -> np.dtype:
        """The dtype it has as an array of its own."""
        return NUMBER_KINDS[self.kind]

    @property
    def tensor_type(self) -> str:
        """What messages call it."""
        return f"Python {self.kind.__name__}"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance sees: the user's branches on types go the way they go without a trace."""
        return self.kind

    def array(self, dtype: np.dtype, how: str = "converted") -> Node:
        """The input of the graph that is this number in `dtype`, as NumPy makes it where it meets such an array."""
        numbers, place = self._trace.numbers, self.place
        return numbers.input(numbers.computed(how, (place,), dtype.name))

    def constant_value(self) -> None:
        """Its value, which differs from call to call."""

    # what Python asks of a number

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TraceError(
            f"a traced {self.tensor_type} as a key, or in a set: its value is not known while the function is traced. "
            "Name the argument in static_argnames"
        )

    def __repr__(self) -> str:
        return f"Number({self._trace.numbers.text(self._place)})"

    def __format__(self, spec: str) -> str:
        if spec:
            raise TraceError(
                f"the text of a traced {self.tensor_type}: its value is not known while the function is traced. "
                "Name the argument in static_argnames"
            )
        return repr(self)

    def __pos__(self) -> Any:
        return computed_number("positive", self)

    def __round__(self, digits: int | None = None) -> Any:
        return computed_number("round", self) if digits is None else computed_number("round", self, digits)

    def __floor__(self) -> Any:
        return computed_number("floor", self)

    def __ceil__(self) -> Any:
        return computed_number("ceil", self)

    def __trunc__(self) -> Any:
        return computed_number("trunc", self)

    @property
    def real(self) -> Any:
        return computed_number("real", self)

    @property
    def imag(self) -> Any:
        return computed_number("imag", self)

    def conjugate(self) -> Any:
        return computed_number("conjugate", self)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, _memo: dict) -> Number:
        return self

    def __getattr__(self, name: str) -> NoReturn:
        kind = self.kind.__name__
        if not name.startswith("__") and hasattr(self.kind, name):
            raise UnsupportedOp(f"{kind}.{name} of a traced {self.tensor_type}: name the argument in static_argnames")
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def computed_number(op: str, *values: Any, attr: Any = None) -> Any:
    """`op` of Python numbers: now, where all are known, otherwise at each call."""
    if not any(isinstance(v, Number) for v in values):
        return step_function(op, attr)(*values)
    trace = current()
    places = [v.place if isinstance(v, Number) else None for v in values]
    assert trace is not None
    numbers = trace.numbers
    args = tuple([numbers.literal(v) if place is None else place for place, v in zip(places, values, strict=True)])
    return Number(numbers.computed(op, args, attr))


def number_kind(value: Any) -> type | None:
    """Which of Python's numbers `value` is, known or not; None for all else, such as NumPy's scalars."""
    if isinstance(value, Number):
        return value.kind
    return type(value) if type(value) in NUMBER_KINDS else None


def is_number(value: Any) -> bool:
    """Is it one of Python's numbers, known or not, enumerations and other subclasses among them?"""
    if isinstance(value, Operators):  # some of which stand for a Python bool
        return isinstance(value, Number)
    return isinstance(value, tuple(NUMBER_KINDS)) and not isinstance(value, np.generic)
