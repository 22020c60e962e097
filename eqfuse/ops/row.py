"""What one row of the operator table holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from eqfuse.errors import ShapeError
from eqfuse.ops.types import TensorType

Types = Sequence[TensorType]


class Role(Enum):
    """How an operator moves data; the kinds of kernels are built on this."""

    LEAF = "leaf"
    ELEMENTWISE = "elementwise"  # every output element from the same element of each (broadcast) argument
    REDUCTION = "reduction"  # attrs[0] = axes, negative, ascending; kept with extent 1
    VIEW = "view"  # an index map of one argument: no arithmetic, each output element is one input element
    GATHER = "gather"  # an index map that depends on data (second argument)
    CONTRACTION = "contraction"  # a product or convolution
    WINDOW = "window"  # a reduction over a sliding window of one argument
    UPDATE = "update"  # the first argument with some elements replaced: its memory may become the result's
    LIBRARY = "library"  # one call that fusion works around


@dataclass(frozen=True)
class Op:
    """One operator.

    `type(argument types, attrs)` gives the result type or raises ShapeError; `meaning(*arrays, *attrs)` is the
    specification, one NumPy call; `flops(argument types, result type, attrs)` counts arithmetic, one per elementary
    operation (a function such as exp counts 1: its price is in the device profile).
    """

    name: str
    role: Role
    arity: int | None  # None: any number
    attrs: tuple[str, ...]
    type: Callable[[Types, tuple], TensorType]
    meaning: Callable[..., Any]
    flops: Callable[[Types, TensorType, tuple], int]


def need(condition: bool, op: str, types: Types, why: str, *values: object) -> None:
    """Raise ShapeError naming the operator and its argument types unless `condition`.

    `values` fill the ``{}`` of `why`: text that is never raised would take longer than the rules themselves.
    """
    if not condition:
        raise ShapeError(f"{op}({', '.join(map(str, types))}): {why.format(*values) if values else why}")


def no_flops(_types: Types, _out: TensorType, _attrs: tuple) -> int:
    return 0
