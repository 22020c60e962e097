"""What a program computes with Python numbers: by Python itself, at each call, with Python's errors.

In: the numbers among a call's arguments. Out: the numbers that the traced function makes of them, of any size, and
arrays of rank 0 for the graph, where they meet arrays: converted as NumPy does there, with its range checks. A straight
line of steps, recorded while the function runs on the first call's numbers (`eqfuse/frontends/numpy/recorder.py`).
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy import array, asarray  # themselves: while a function is traced, others stand in for them

from eqfuse.errors import BoundsError, DtypeError, EqfuseError, RangeError, ShapeError

NUMBER_KINDS: dict[type, np.dtype] = {
    bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128),
}  # fmt: skip
NAMED = {kind.__name__: kind for kind in NUMBER_KINDS}
ARRAY = "array"  # in place of a kind


class ScalarOperation(NamedTuple):
    """One value: `op` of earlier values, at the places `args`. `kind`: of number it is, or `ARRAY`.

    `attr`: of an argument its place among the leaves and its name, of a drawn number the draw's place, of a literal its
    text, of a conversion the dtype's name, of an index the extent.
    """

    op: str
    args: tuple[int, ...]
    attr: Any
    kind: str


def natural(exponent: int) -> int:
    """`exponent`, where NumPy raises integers to it."""
    if exponent < 0:
        raise ValueError("integers to negative integer powers are not allowed; cast the base to a float first")
    return exponent


def index_within(extent: int, index: int) -> int:
    """`index` into an axis of `extent`, counted from its start."""
    if not -extent <= index < extent:
        raise IndexError(f"index {number_text(index)} is out of bounds for axis with size {extent}")
    return index % extent


def converted(dtype: np.dtype, value: Any) -> np.ndarray:
    """`value` as NumPy converts a Python number that meets an array of `dtype`, or is assigned to one."""
    return array(value, dtype)


def wrapped(dtype: np.dtype, value: Any) -> np.ndarray:
    """`value` as an array of its own, cast to `dtype`: an integer that does not fit wraps around."""
    return asarray(value).astype(dtype)


# by the names that operators on arrays have; the rest by Python's own
NUMBER_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
    "negative": operator.neg, "positive": operator.pos, "abs": operator.abs, "bitwise_invert": operator.inv,
    "real": operator.attrgetter("real"), "imag": operator.attrgetter("imag"),
    "conjugate": operator.methodcaller("conjugate"), "round": builtins.round, "floor": math.floor, "ceil": math.ceil,
    "trunc": math.trunc, "max": builtins.max, "min": builtins.min, "natural": natural,
}  # fmt: skip
_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>",
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "negative": "-", "positive": "+", "bitwise_invert": "~",
}  # fmt: skip
_OF_DTYPES = {"converted": converted, "wrapped": wrapped}


@lru_cache(10_000)
def step_function(op: str, attr: Any) -> Callable[..., Any]:
    """What computes a step that is neither an argument nor drawn."""
    if op == "literal":
        value = _number(*attr)
        return lambda: value
    if op in _OF_DTYPES:
        return partial(_OF_DTYPES[op], np.dtype(attr))
    return partial(index_within, attr) if op == "within" else NUMBER_OPERATORS[op]


def literal(value: Any) -> tuple[str, ...]:
    """A number as text, different for different ones (0.0 and -0.0, 1 and True); `_number` is the inverse."""
    if isinstance(value, complex):
        return ("complex", value.real.hex(), value.imag.hex())
    return (type(value).__name__, value.hex() if isinstance(value, float) else hex(value))


def _number(kind: str, text: str, imag: str = "") -> Any:
    if kind == "complex":
        return complex(float.fromhex(text), float.fromhex(imag))
    return float.fromhex(text) if kind == "float" else NAMED[kind](int(text, 16))


def number_text(value: Any) -> str:
    """A number as messages give it: Python refuses to print the largest."""
    large = isinstance(value, int) and value.bit_length() > 256
    return f"an int of {value.bit_length()} bits" if large else repr(value)


def value_text(steps: Sequence[ScalarOperation], place: int, depth: int = 3) -> str:
    """A value as a user would write it, as far as `depth` operators go."""
    op, args, attr, _ = steps[place]
    if op == "argument":
        return str(attr[1])
    if op == "literal":
        return number_text(_number(*attr))
    if not depth:
        return "…"
    parts = [value_text(steps, a, depth - 1) for a in args]
    if op in _OF_DTYPES:
        return f"{attr}({parts[0]})"
    if op not in _SIGNS:
        return f"{op}({', '.join(parts)})"
    parts = [f"({part})" if steps[a].op in _SIGNS else part for a, part in zip(args, parts, strict=True)]
    return f" {_SIGNS[op]} ".join(parts) if len(parts) > 1 else _SIGNS[op] + parts[0]


def explained(error: Exception, steps: Sequence[ScalarOperation], place: int, values: Sequence[Any]) -> Exception:
    """`error` of computing the step at `place`, with what was computed; one of NumPy's as one of ours."""
    op, args, attr, _ = steps[place]
    operands = ", ".join(f"{value_text(steps, a)} = {number_text(values[a])}" for a in args if steps[a].op != "literal")
    if op in _OF_DTYPES:
        return conversion_error(error, attr, operands)
    if op in ("natural", "within"):
        raised = ShapeError if op == "natural" else BoundsError
        return raised(f"{error}: {operands}")
    error.add_note(f"in {value_text(steps, place)}, with {operands}")
    return error


def conversion_error(error: Exception, dtype: str, what: str) -> EqfuseError:
    """NumPy's `error` of converting the Python number that `what` describes to `dtype`, as one of ours."""
    too_large, misfit = isinstance(error, OverflowError), isinstance(error, TypeError)
    kind = RangeError if too_large else DtypeError if misfit else ShapeError
    wider = "float64" if dtype in ("int64", "uint64") else "int64"
    return kind(f"{error}: {what} meets {dtype}. Cast the array first, or give the number a dtype: np.{wider}(…)")


@dataclass(frozen=True)
class Arithmetic:
    """The steps in order, and the places of those values that are inputs of the graph."""

    steps: tuple[ScalarOperation, ...] = ()
    inputs: tuple[int, ...] = ()

    @cached_property
    def drawn(self) -> frozenset[int]:
        """The draws that give numbers."""
        return frozenset(step.attr for step in self.steps if step.op == "drawn")

    @cached_property
    def _functions(self) -> list[tuple[Callable[..., Any] | None, tuple[int, ...], Any, type | None]]:
        """By step: what computes it (None: it is given), of which values, its attribute, and the type of the result."""
        leaf_ops = ("argument", "drawn")
        return [(None if op in leaf_ops else step_function(op, attr), args, attr, NAMED.get(kind))
                for op, args, attr, kind in self.steps]  # fmt: skip

    def values(self, leaves: Sequence[Any], drawn: Sequence[np.ndarray]) -> list[Any]:
        """The value of each step for the leaves of a call's arguments, and what was drawn for it."""
        values: list[Any] = []
        if not self.steps:
            return values
        with np.errstate(all="ignore"):
            for place, (compute, args, attr, kind) in enumerate(self._functions):
                if compute is None:
                    value = leaves[attr[0]] if self.steps[place].op == "argument" else drawn[attr].item()
                else:
                    try:
                        value = compute(*[values[a] for a in args])
                    except Exception as error:
                        raise explained(error, self.steps, place, values) from None
                if kind is not None and type(value) is not kind:
                    raise self._changed(place, value)
                values.append(value)
        return values

    def _changed(self, place: int, value: Any) -> DtypeError:
        what, kind = value_text(self.steps, place), self.steps[place].kind
        return DtypeError(
            f"{what} is of type {type(value).__name__} here, the program was compiled for a Python {kind}: "
            f"{'pass one' if self.steps[place].op == 'argument' else 'name its arguments in static_argnames'}, or "
            "compile for it"
        )
