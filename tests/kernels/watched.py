"""What an emitted NumPy kernel really does: its calls, its tiles, and the elements of each array that it touches.

In: a kernel and a device. Out: `Watched` figures of one run, in which every function that the source may call is
counted, and marks what its arguments share with the arrays that the kernel reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.plan.plan import Kernel

UNCOUNTED = (
    "divmod", "min", "max", "slice", "range", "iter", "every", "empty", "broadcast_to", "flip", "sliding_window",
    "as_strided", "blocks_of", "fill", "dtype", "host_function",
)  # fmt: skip  # what makes arrays, and views of them, without looking at elements
METHODS = ("reduce", "accumulate", "reduceat", "at")


class Array(np.ndarray):
    """An array that tells `watch` when elements are assigned to it, taken as numbers, or copied by a method."""

    watch: CallLog | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.watch = getattr(source, "watch", None)

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, np.generic) and self.watch is not None:
            self.watch.mark(self._element(key))
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.watch is not None:
            self.watch.call([value], [self._element(key)])
        self.view(np.ndarray)[key] = value

    def _element(self, key: Any) -> Any:
        """What stands there, one element as an array too."""
        value = self.view(np.ndarray)[key]
        every = key if isinstance(key, tuple) else (key,)
        return value if isinstance(value, np.ndarray) else self.view(np.ndarray)[(*every, ...)]

    def reshape(self, *shape: Any) -> Any:
        return self._marked(super().reshape(*shape))

    def copy(self, *options: Any) -> Any:
        return self._counted(super().copy(*options))

    def astype(self, *options: Any) -> Any:
        return self._counted(super().astype(*options))

    def _marked(self, other: Any) -> Any:
        if self.watch is not None and self.size and not np.shares_memory(self, other):
            self.watch.mark(self)
        return other

    def _counted(self, other: Any) -> Any:
        if self.watch is not None:
            self.watch.call([self], [])
        return other


@dataclass
class CallLog:
    """`calls` so far; what was touched of each array; the tiles of each `share`, and the calls of each tile."""

    calls: int = 0
    arrays: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    per_tile: list[int] = field(default_factory=list)
    set_up: int = 0  # calls of a thread before its first tile

    def array(self, values: np.ndarray) -> Array:
        self.arrays.append((values, np.zeros(values.size, bool)))
        array = values.view(Array)
        array.watch = self
        return array

    def mark(self, value: Any) -> None:
        if not isinstance(value, np.ndarray) or not value.size:
            return
        value = value.view(np.ndarray)
        for array, touched in self.arrays:
            if np.shares_memory(array, value):
                first = (value.ctypes.data - array.ctypes.data) // array.itemsize
                size = value.itemsize // array.itemsize or 1
                strides = [s // array.itemsize for s in value.strides]
                for k in range(size):
                    as_strided(touched[first + k :], value.shape, strides)[...] = True

    def call(self, read: Sequence[Any], written: Sequence[Any] = ()) -> None:
        self.calls += 1
        for value in (*read, *written):
            for part in value if isinstance(value, tuple) else (value,):
                self.mark(part)

    def function(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.call([*args, *kwargs.values()])
            value = call(*map(_as_ndarray, args), **{k: _as_ndarray(v) for k, v in kwargs.items()})
            if type(value) is not np.ndarray:
                return value
            result = value.view(Array)  # so that its methods are counted
            result.watch = self
            return result

        for name in METHODS:
            if isinstance(call, np.ufunc):
                setattr(counted, name, self.function(getattr(call, name)))
        return counted

    def module(self, module: ModuleType) -> Any:
        watch = self

        class Names:
            def __getattr__(self, name: str) -> Any:
                return watch.function(getattr(module, name))

        return Names()

    def share(self, tiles: Callable[[Iterator[int]], None], count: int, threads: int, blas: bool) -> None:
        self.shared.append(count)
        start = self.calls

        def numbers() -> Iterator[int]:
            for number in range(count):
                before = self.calls
                if not number:
                    self.set_up = before - start
                yield number
                self.per_tile.append(self.calls - before)

        tiles(numbers())

    def touched(self, number: int) -> int:
        array, marks = self.arrays[number]
        return int(np.count_nonzero(marks)) * array.itemsize


def _as_ndarray(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_ndarray, value))
    return value.view(np.ndarray) if isinstance(value, Array) else value


def watched(kernel: Kernel, arrays: Sequence[np.ndarray], device: Device) -> CallLog:
    """One run of the kernel on `arrays`."""
    emitted, watch = emit_kernel(kernel, device), CallLog()
    names: dict[str, Any] = {}
    for name, value in emitted.parts.names.items():
        if name not in emitted.source:  # of hundreds that a kernel may call, most are not
            continue
        if isinstance(value, ModuleType):
            names[name] = watch.module(value)
        elif callable(value) and not isinstance(value, type) and name not in UNCOUNTED:
            names[name] = watch.function(value)
        else:
            names[name] = value
    names |= {"__builtins__": {}, "share": watch.share, "keep": lambda memory: None}
    names["scratch"] = lambda size: watch.array(np.zeros(size, np.uint8))
    exec(compile(emitted.source, "<watched kernel>", "exec"), names)
    ins = [watch.array(np.array(a, order="C")) for a in arrays]
    outs = [watch.array(np.zeros(o.shape, o.dtype)) for o in kernel.body.outputs]
    names["run"](outs, ins)
    if emitted.parts.returned:
        watch.calls -= 1  # a program takes the array that is returned as it is
    return watch
