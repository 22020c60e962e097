"""NumPy and SciPy under CuPy's names, with nothing that CuPy does not have: for the emulated GPU.

In: the table of `emit/cuda/scheduling/cupy_names.py`. Out: modules in which a name CuPy lacks is an AttributeError, and
a call with a parameter or a dtype that CuPy's function does not take a TypeError, as they are in CuPy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from eqfuse.emit.cuda.scheduling.cupy_names import AT, CUPY_LOOPS, SIGNATURES

STABLE = ("cupy.sort", "cupy.argsort")  # whatever kind is asked for, and NumPy's are not by themselves
Counted = Callable[[str, Callable[[], Any]], Any]


class StandInModule(ModuleType):
    """The module CuPy knows as `name`; what it has runs as the functions of `real`, their results `marked` as arrays
    of the device. `counted(name, work)` does the work of a call and takes note of it."""

    def __init__(self, name: str, real: Any, marked: Callable[[Any], Any], counted: Counted) -> None:
        super().__init__(name)
        self._real, self._marked, self._counted = real, marked, counted

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if full in CUPY_LOOPS:
            return _Ufunc(full, getattr(self._real, name), self._counted)
        if full == "cupy.asnumpy":
            return lambda a: np.array(a.view(np.ndarray))
        if full in SIGNATURES:
            real = getattr(self._real, name)
            if full in STABLE:
                real = functools.wraps(real)(functools.partial(real, kind="stable"))
            return checked_call(full, real, self._marked, self._counted)
        if any(entry.startswith(f"{full}.") for entry in (*CUPY_LOOPS, *SIGNATURES)):
            return StandInModule(full, getattr(self._real, name), self._marked, self._counted)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Ufunc:
    def __init__(self, name: str, real: np.ufunc, counted: Counted) -> None:
        self._name, self._real, self._counted = name, real, counted

    def __call__(self, *args: Any, out: Any = None) -> Any:
        dtypes = [getattr(a, "dtype", None) for a in args]
        if not any(_fits(loop, dtypes) for loop in CUPY_LOOPS[self._name]):
            raise TypeError(f"{self._name} has no loop for {dtypes}")
        return self._counted(self._name, lambda: self._real(*args, out=out))

    def at(self, a: Any, indices: Any, values: Any) -> None:
        if self._name not in AT:
            raise NotImplementedError(f"`{self._name}.at` is not supported yet")
        if a.dtype.name not in ("int32", "uint32", "uint64", "float16", "float32", "float64"):
            raise TypeError(f"scatter does not support {a.dtype}")
        self._counted(self._name, lambda: self._real.at(a, indices, values))


def _fits(loop: str, dtypes: list[np.dtype | None]) -> bool:
    """May arguments of these dtypes be cast to those of a loop? None: a number of Python's."""
    chars = loop.partition("->")[0]
    pairs = zip(dtypes, chars, strict=False)
    return len(chars) == len(dtypes) and all(d is None or d.char == c or (c not in "EV" and np.can_cast(d, c))
                                            for d, c in pairs)  # fmt: skip


def checked_call(name: str, real: Any, marked: Callable[[Any], Any], counted: Counted) -> Any:
    """`real`, called as CuPy's function `name` can be."""
    namespace: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef stub{SIGNATURES[name]}: ...", namespace)
    signature = inspect.signature(namespace["stub"])

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)
        return marked(counted(name, lambda: real(*args, **kwargs)))

    return call
