"""The type of a tensor: its dtype and its shape."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from eqfuse.dtypes import supported  # (the import registers bfloat16 and float8 with NumPy)

Shape = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape of one tensor. Prints as ``float32[8, 512]``. Equal dtypes are the same object."""

    dtype: np.dtype
    shape: Shape
    size: int = field(init=False, repr=False, compare=False)  # elements

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", supported(self.dtype, "a tensor"))
        object.__setattr__(self, "size", math.prod(self.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def extent(self, axis: int) -> int:
        """Extent along `axis`, counted from the right (negative); 1 beyond the rank, as broadcasting has it."""
        return self.shape[axis] if -axis <= len(self.shape) else 1

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


def tensor_type(text: str) -> TensorType:
    """The type that prints as `text`."""
    name, _, extents = text.rstrip("]").partition("[")
    return TensorType(np.dtype(name), tuple(int(n) for n in extents.split(",") if n.strip()))


def with_entry(values: tuple[T, ...], axis: int, value: T) -> tuple[T, ...]:
    """`values`, one for each axis, with another `value` along the negative `axis`."""
    position = len(values) + axis
    return (*values[:position], value, *values[position + 1 :])
