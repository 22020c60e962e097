"""The table of ONNX operators: one row per operator, a function from traced arrays and attributes to traced arrays.

In: rows, from the families in this package. Out: the row of an operator at an opset version. Used by `model.py`.
A row's positional parameters are the operator's inputs (None where one is left out), its keywords the attributes, under
the names and with the defaults of the standard. What a later version changed is a row of its own, `since` that version.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from eqfuse.dtypes import supported
from eqfuse.errors import EqfuseError, ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer
from eqfuse.ir.graph import Node, const, topological

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class OnnxRow:
    """One operator since one opset version."""

    since: int
    function: Callable[..., Any]

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that the function takes; ``outputs``, how many results are wanted, is not among them."""
        parameters = inspect.signature(self.function).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY) - {"outputs"}

    @cached_property
    def counts_outputs(self) -> bool:
        return "outputs" in inspect.signature(self.function).parameters


ONNX_OPERATORS: dict[tuple[str, str], list[OnnxRow]] = {}


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Make the decorated function what the operators `names` do from opset version `since` on."""

    def register(function: F) -> F:
        for name in names:
            rows = ONNX_OPERATORS.setdefault((domain, name), [])
            rows.append(OnnxRow(since, function))
            rows.sort(key=lambda row: row.since)
        return function

    return register


def operator_row(domain: str, name: str, version: int) -> OnnxRow | None:
    """The row of an operator at an opset version, or None."""
    rows = [row for row in ONNX_OPERATORS.get((domain, name), ()) if row.since <= version]
    return rows[-1] if rows else None


# ---- values that must be known while a model is loaded


class UnknownValue(TraceError):
    """A value that decides shapes or control flow depends on the model's inputs `inputs`."""

    def __init__(self, message: str, inputs: tuple[str, ...] = ()) -> None:
        self.inputs = inputs
        super().__init__(message)


def value(x: Any, what: str) -> np.ndarray:
    """The value of `x`; UnknownValue naming the inputs it depends on where there is none."""
    array = lift(x).constant_value()
    if array is None:
        names = tuple(n.attr("name") for n in topological((lift(x).node,)) if n.op == "input")
        listed = ", ".join(map(repr, names))
        raise UnknownValue(
            f"{what} depends on the model's input {listed}, and must be known while the model is loaded: give the "
            f"value, ef.from_onnx(model, {{{names[0]!r}: value}})",
            names,
        )
    return array


def ints(x: Any, what: str) -> tuple[int, ...]:
    """The numbers of a known integer array."""
    return tuple(int(n) for n in value(x, what).reshape(-1))


def one(x: Any, what: str) -> Any:
    """The only element of a known array, as a Python number."""
    array = value(x, what)
    if array.size != 1:
        raise EqfuseError(f"{what} has {array.size} elements instead of one")
    return array.reshape(-1)[0].item()


def one_of(setting: Any, choices: Sequence[Any], what: str) -> Any:
    """`setting`, if it is one of the `choices`; UnsupportedOp naming the attribute `what` otherwise."""
    if setting not in choices:
        raise UnsupportedOp(f"{what} is {setting!r}, which is none of {', '.join(map(repr, choices))}")
    return setting


def axis_of(axis: int, rank: int) -> int:
    """`axis` counted from the front; ShapeError where there is none of that number."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of an array of rank {rank}")
    return axis % rank


def need_shape(x: Any, shape: Sequence[int], what: str) -> None:
    """ShapeError naming `what` where `x`, if it is there, has another shape."""
    if x is not None and x.shape != tuple(shape):
        raise ShapeError(f"{what} has the shape {x.shape} instead of {tuple(shape)}")


def dtype_of(element: int, what: str = "the result") -> np.dtype:
    """The dtype of an ONNX element type; TraceError naming `what` where tensors do not have it."""
    import onnx

    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, TypeError):
        raise TraceError(f"{what} has the unknown element type {element}") from None
    return supported(dtype, what)


def uniform(array: np.ndarray) -> Node:
    """`array` as a constant: as one number, broadcast, where all its elements have the same bits."""
    whole = const(array)
    if array.size <= 1:
        return whole
    first = const(array.reshape(-1)[0])
    spread = tidy.broadcast_to(first, array.shape)
    return spread if const(np.broadcast_to(array.reshape(-1)[0], array.shape)) is whole else whole


def bare_numbers(*xs: Any) -> list[Any]:
    """`xs`, those that are one known number without their axes, as long as the others have as many."""
    operands = list(xs)
    for i, x in enumerate(xs):
        others = max(y.ndim for j, y in enumerate(operands) if j != i)
        value = x.constant_value() if x.size == 1 and 0 < x.ndim <= others else None
        if value is not None:
            operands[i] = lift(value.reshape(()))
    return operands


def matrix_product(a: Any, b: Any) -> Tracer:
    """``a @ b`` in the dtype of both: NumPy gives that of bfloat16 in float32."""
    return (a @ b).astype(a.dtype)
