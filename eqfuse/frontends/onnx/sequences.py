"""ONNX sequences and options: lists of tensors, and what may be left out.

In: calls of rows from `nodes.py`. Out: traced arrays, and lists of them. Positions must not depend on data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.errors import BoundsError, ShapeError
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.manipulation import split_parts
from eqfuse.frontends.onnx.table import axis_of, ints, one, operator


@operator("Optional", "OptionalGetElement")
def optional(x: Any = None, *, type: Any = None) -> Any:
    return ([*x],) if isinstance(x, list) else x


@operator("OptionalHasElement")
def optional_has_element(x: Any = None) -> Any:
    return np.array(x is not None)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Any:
    return ([],)


@operator("SequenceConstruct")
def sequence_construct(*xs: Any) -> Any:
    return (list(xs),)


@operator("SequenceAt")
def sequence_at(xs: list[Any], position: Any) -> Any:
    return xs[_place(position, len(xs), len(xs) - 1)]


@operator("SequenceInsert")
def sequence_insert(xs: list[Any], x: Any, position: Any = None) -> Any:
    sequence = list(xs)
    sequence.insert(len(xs) if position is None else _place(position, len(xs), len(xs)), x)
    return (sequence,)


@operator("SequenceErase")
def sequence_erase(xs: list[Any], position: Any = None) -> Any:
    sequence = list(xs)
    del sequence[len(xs) - 1 if position is None else _place(position, len(xs), len(xs) - 1)]
    return (sequence,)


def _place(position: Any, length: int, last: int) -> int:
    """`position`, maybe from the end, in a sequence of `length` tensors."""
    place = one(position, "the position in a sequence")
    if not -length <= place <= last:
        raise BoundsError(f"position {place} is out of range: the sequence has {length} tensors")
    return place


@operator("SequenceLength")
def sequence_length(xs: list[Any]) -> Any:
    return np.array(len(xs), np.int64)


@operator("SplitToSequence")
def split_to_sequence(x: Any, split_input: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    along, n = axis_of(axis, x.ndim), x.shape[axis]
    if split_input is None:
        parts = lazy.split(x, n, along) if n else []
        return ([p if keepdims else lazy.squeeze(p, along) for p in parts],)
    sizes = ints(split_input, "the split")
    if split_input.ndim == 0:
        if sizes[0] <= 0:
            raise ShapeError(f"parts of {sizes[0]} elements")
        sizes = (sizes[0],) * (n // sizes[0]) + ((n % sizes[0],) if n % sizes[0] else ())
    return (list(split_parts(x, sizes, along)),)


@operator("ConcatFromSequence")
def concat_from_sequence(xs: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    return lazy.stack(xs, axis) if new_axis else lazy.concatenate(xs, axis)
