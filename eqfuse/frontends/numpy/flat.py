"""``x.flat`` of a traced array: its elements in C order, one after the other.

In: an array. Out: `FlatIterator`, of which items are taken and to which they are assigned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.indexing import assign_items
from eqfuse.frontends.numpy.promotion import as_dtype
from eqfuse.frontends.numpy.registry import of_arrays
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import constant_of


@of_arrays
class FlatIterator:
    """What is taken of it is a copy; what is assigned to it is written to the array `base`, again and again. It is its
    own iterator, at the element `index`, and begins anew where an item is taken or assigned."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Tracer) -> None:
        self.base = base
        self.index = 0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.flatiter

    def __len__(self) -> int:
        return self.base.size

    @property
    def coords(self) -> tuple[int, ...]:
        """The place in `base` of the element that comes next."""
        coordinates, rest = [], self.index
        for extent in reversed(self.base.shape[1:]):
            rest, coordinate = divmod(rest, extent)
            coordinates.append(coordinate)
        return (rest, *reversed(coordinates)) if self.base.ndim else ()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.index >= len(self):
            raise StopIteration
        taken = self.base.flattened()[self.index]
        self.index += 1
        return taken

    def __getitem__(self, key: Any) -> Any:
        self.index = 0
        taken = self.base.flattened()[key]
        return taken if isinstance(taken, Tracer) and taken.scalar else taken.copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.index = 0
        if isinstance(value, Tracer) and value.is_of([self.base]) and not value.scalar:
            raise TraceError(
                "x.flat is assigned what shares memory with x: NumPy would read there what it has just written. Assign "
                "a copy of the value"
            )
        elements, new = self.base.flattened(), wrap(as_dtype(value, self.base.dtype))
        if not new.size:
            return
        if new.size != 1:
            places = np.arange(elements.size)[_constant(key)]
            new = lazy.resize(new.reshape(-1), places.shape) if places.ndim else new.reshape(-1)[0]
        assign_items(elements, key, new.reshape(()) if new.size == 1 else new)

    def copy(self) -> Tracer:
        return self.base.copy().reshape(-1)

    def raveled(self) -> Tracer:
        """The array that np.asarray makes of it."""
        return self.base.raveled()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        value = self.base.constant_value()
        if value is None:
            raise TraceError("x.flat of a traced array stands for no array in NumPy's functions: use x.ravel()")
        return value.reshape(-1)


def _constant(key: Any) -> Any:
    return constant_of(key, "the index of x.flat, set to several values,") if isinstance(key, Tracer) else key
