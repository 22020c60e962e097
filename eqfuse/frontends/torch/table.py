"""The table of torch's operators: one row per overload, a function from traced arrays and numbers to traced arrays.

In: rows, from the families in this package. Out: the row of an operator, by the name that torch prints. Used by
`nodes.py`. A row's parameters are those of torch's schema, in its order and under its names; dtypes come as NumPy's. A
row that has the parameter ``result`` is given the dtype of the operator's result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.tracer import lazy

F = TypeVar("F", bound=Callable[..., Any])

RESULT = "the dtype of the result"
OPERANDS = "the dtype that torch promotes the operands to"
AS_IT_IS = "the dtype that each operand has"


@dataclass(frozen=True)
class TorchRow:
    """One operator. `computes_in`: which dtype its arrays are cast to before; 16-bit floats then become float32."""

    function: Callable[..., Any]
    computes_in: str
    is_view: bool

    @cached_property
    def parameters(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.function).parameters)


TORCH_OPERATORS: dict[str, TorchRow] = {}


def aten(*names: str, computes_in: str = AS_IT_IS, is_view: bool = False) -> Callable[[F], F]:
    """Make the decorated function what the operators `names` do: aten's, where they name no other namespace."""

    def register(function: F) -> F:
        for name in names:
            full = name if name.startswith("prims.") else f"aten.{name}"
            TORCH_OPERATORS[full if full.count(".") == 2 else f"{full}.default"] = TorchRow(
                function, computes_in, is_view
            )
        return function

    return register


def wide(dtype: Any) -> np.dtype:
    """The dtype that torch computes in: float32 for floats of 16 bits."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if kind(dtype) == "f" and dtype.itemsize < 4 else dtype


def axis_from_front(axis: int, rank: int) -> int:
    """`axis` counted from the front; a number has one axis, as torch has it."""
    return axis % max(rank, 1)


def axes_of(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """The axes of a reduction, counted from the front: all of them where none is named."""
    if axes is None or (not isinstance(axes, int) and not axes):
        return tuple(range(rank))
    listed = (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(axis_from_front(a, rank) for a in listed)) if rank else ()


def per_spatial_axis(numbers: Sequence[int] | int, count: int) -> tuple[int, ...]:
    """One number for each of `count` axes."""
    listed = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return listed * count if len(listed) == 1 else listed


def wide_product(a: Any, b: Any) -> Any:
    """``a @ b``; of 16-bit floats, summed in float32. The caller rounds the result."""
    return lazy.matmul(a.astype(wide(a.dtype)), b.astype(wide(b.dtype)))


def insist(condition: bool, what: str) -> None:
    """UnsupportedOp that says `what` unless the condition holds."""
    if not condition:
        raise UnsupportedOp(what)
