"""An argument some of whose extents have names: what `ef.spec(("n", 64), dtype)` makes."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.ops.types import TensorType


class SymbolicSpec:
    """Stands for an array argument with symbols among its extents; equal symbols are equal extents."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple[int | str, ...], dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"spec({self.shape}, {self.dtype.name!r})"

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def type_at(self, sizes: dict[str, int]) -> TensorType:
        """The type where the symbols have these sizes."""
        return TensorType(self.dtype, tuple(sizes[n] if isinstance(n, str) else n for n in self.shape))


def symbolic_shape(shape: Iterable[Any]) -> tuple[int | str, ...]:
    """`shape` with its extents checked."""
    return tuple(map(_extent, shape))


def _extent(n: Any) -> int | str:
    if not isinstance(n, str):
        try:
            return operator.index(n)
        except TypeError:
            raise ShapeError(f"{n!r} is no extent: give an int, or a symbol such as 'n'") from None
    if not n.isidentifier():
        raise ShapeError(f"{n!r} cannot name an extent: a symbol is written like a variable, such as 'n'")
    return n
