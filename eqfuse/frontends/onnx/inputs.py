"""What the inputs of an ONNX model are: their types, from the model and the sizes that a user gives, and given values.

In: declared inputs, sizes by name, values by name. Out: types and arrays. Used by `model.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError
from eqfuse.frontends.onnx.table import dtype_of
from eqfuse.ir.accepted import supported_array
from eqfuse.ops.types import TensorType


def input_types(
    title: str, free: Sequence[Any], with_values: Sequence[Any], fixed: Mapping[str, Any], sizes: Mapping[str, Any]
) -> list[TensorType]:
    """The types of the inputs `free`, with the sizes that the user gives, or that the shapes of `fixed` tell."""
    sizes = dict(sizes)
    symbols = {d.dim_param for i in (*free, *with_values) for d in _dims(i) if d.dim_param}
    whole = {i.name: sizes.pop(i.name) for i in free if isinstance(sizes.get(i.name), (Sequence, np.ndarray))}
    if set(sizes) - symbols:
        raise ShapeError(
            f"{title} has no symbolic size {', '.join(map(repr, sorted(set(sizes) - symbols)))}; it has "
            f"{', '.join(map(repr, sorted(symbols))) or 'none'}"
        )
    dtypes = [_dtype(title, i) for i in free]
    shapes = {i.name: _whole(title, i, whole[i.name]) for i in free if i.name in whole}
    numbers = _numbers(title, sizes, [
        *((i, shapes[i.name]) for i in free if i.name in shapes), *((i, np.shape(fixed[i.name])) for i in with_values)
    ])  # fmt: skip
    missing: dict[str, None] = {}
    types = [
        TensorType(dtype, shapes[i.name] if i.name in shapes else _shape(i, numbers, missing))
        for i, dtype in zip(free, dtypes, strict=True)
    ]
    if missing:
        raise ShapeError(
            f"{title} has sizes without a number: {', '.join(missing)}. Give them by name: "
            "ef.from_onnx(model, batch=8)"
        )
    return types


def _numbers(
    title: str, sizes: Mapping[str, Any], shapes: Sequence[tuple[Any, Sequence[int]]]
) -> dict[str, int]:
    """The symbolic sizes, as the user gives them and as the `shapes` of inputs tell. ShapeError where they differ."""
    numbers, told = {}, {}
    for name, n in sizes.items():
        numbers[name], told[name] = _extent(n, f"{title}: the size {name!r}"), f"{name}={n}"
    for i, shape in shapes:
        for d, n in zip(_dims(i), shape, strict=False):
            if d.dim_param and numbers.setdefault(d.dim_param, n) != n:
                raise ShapeError(
                    f"{title}: the size {d.dim_param!r} is {n} by the shape {tuple(shape)} of {i.name!r}, and "
                    f"{numbers[d.dim_param]} by {told[d.dim_param]}"
                )
            told.setdefault(d.dim_param, f"that of {i.name!r}")
    return numbers


def _dims(i: Any) -> Sequence[Any]:
    return i.type.tensor_type.shape.dim


def _declared(d: Any) -> int | None:
    """The extent that the model declares, if it is a number: some write -1 for one that is not known."""
    return d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None


def _dtype(title: str, i: Any) -> np.dtype:
    kind = i.type.WhichOneof("value")
    if kind != "tensor_type":
        raise TraceError(f"{title}: the input {i.name!r} is a {str(kind).removesuffix('_type')}, not a tensor")
    return dtype_of(i.type.tensor_type.elem_type, f"{title}: the input {i.name!r}")


def _shape(i: Any, numbers: Mapping[str, int], missing: dict[str, None]) -> tuple[int, ...]:
    """The shape of an input; what it needs and has no number is added to `missing`."""
    if not i.type.tensor_type.HasField("shape"):
        missing[f"the shape of {i.name!r}, {i.name}=(…)"] = None
    shape = []
    for d in _dims(i):
        n = _declared(d)
        if n is None and d.dim_param not in numbers:
            unnamed = f"an unnamed size of {i.name!r}, whose shape {i.name}=(…) gives"
            missing[f"{d.dim_param!r} of {i.name!r}" if d.dim_param else unnamed] = None
        shape.append(numbers.get(d.dim_param, 0) if n is None else n)
    return tuple(shape)


def _whole(title: str, i: Any, sizes: Any) -> tuple[int, ...]:
    """The shape that the user gives to an input."""
    what = f"{title}: the shape of {i.name!r}"
    shape = tuple(_extent(n, what) for n in sizes)
    if not fits(i, shape):
        raise ShapeError(f"{what} is {shape}, and the model declares {declared_shape(i)}")
    return shape


def declared_shape(i: Any) -> str:
    """The shape of an input or an output as the model declares it."""
    return f"({', '.join(map(_written, _dims(i)))})"


def _written(d: Any) -> str:
    n = _declared(d)
    return (d.dim_param or "?") if n is None else str(n)


def fits(i: Any, shape: Sequence[int]) -> bool:
    """May the input or output have this shape?"""
    if not i.type.tensor_type.HasField("shape"):
        return True
    return len(_dims(i)) == len(shape) and all(
        _declared(d) in (None, n) for d, n in zip(_dims(i), shape, strict=True)
    )


def _extent(n: Any, what: str) -> int:
    try:
        extent = -1 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        extent = -1
    if not 0 <= extent < 1 << 63:
        raise ShapeError(f"{what} is {n!r}, not a whole number from 0 on")
    return extent


def given_value(title: str, declared: Any, value: Any) -> np.ndarray:
    """The value that the user gives to an input, in its type."""
    what = f"{title}: the value of {declared.name!r}"
    dtype = dtype_of(declared.type.tensor_type.elem_type, what)
    array = np.asarray(value)
    if isinstance(value, (bool, int, float, list, tuple)) and _holds(dtype, array):
        array = array.astype(dtype)
    array = supported_array(array, what)
    if array.dtype != dtype or not fits(declared, array.shape):
        raise ShapeError(f"{what} is {TensorType(array.dtype, array.shape)}, which the model does not declare")
    return array


def _holds(dtype: np.dtype, array: np.ndarray) -> bool:
    """May Python's numbers be of `dtype`? Whole numbers are what they are, others are rounded."""
    if array.dtype.kind not in "biuf":
        return False
    with np.errstate(all="ignore"):
        return dtype.kind not in "biu" or bool((array.astype(dtype) == array).all())
