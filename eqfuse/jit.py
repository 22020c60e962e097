"""`@ef.jit`: a function that compiles itself for the shapes and dtypes it is called with, and remembers the programs.

In: user arguments. Out: the compiled program's results. A warm call is one dictionary look-up before the kernels run.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.pytree import LEAF, Structure, flatten, unflatten
from eqfuse.trace import SCALARS, Spec, as_array, parameters_of, split_static, static_names, trace
from eqfuse.tracer import Tracer

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function with one compiled program per structure, shapes, dtypes and static values of its arguments."""

    def __init__(self, fn: Callable[P, R], static_argnames: str | Iterable[str], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.options = options
        self._static = static_names(static_argnames)
        self._parameters = parameters_of(fn)
        self._programs: dict[Hashable, tuple[Any, Structure]] = {}
        self._by_arrays: dict[tuple, tuple[Any, Structure]] = {}  # the same, for calls with arrays by position alone
        self._lock = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs and not self._static:
            key: list[Any] = []
            for array in args:
                if type(array) is not np.ndarray:
                    break
                key.append(array.shape)
                key.append(array.dtype)
            else:
                flat = tuple(key)
                found = self._by_arrays.get(flat)
                if found is None:
                    found = self._by_arrays[flat] = self._find(args, kwargs)[0]
                program, results = found
                outputs = program.call(args)
                return outputs[0] if results is LEAF else unflatten(results, outputs)
        found, leaves = self._find(args, kwargs)
        if found is None:
            return self.fn(*args, **kwargs)
        program, results = found
        return unflatten(results, program.call([as_array(leaf) for leaf in leaves]))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<eqfuse.jit of {getattr(self.fn, '__qualname__', self.fn)}, {len(self._programs)} program(s)>"

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The compiled program that a call with these arguments runs (for its report, its source, `save`)."""
        found, _ = self._find(args, kwargs)
        if found is None:
            raise TraceError("inside a traced function there is no program of this function alone: call it instead")
        return found[0]

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The program and the structure of its results, compiled when needed, and the arrays to run it on.

        None instead of a program when an argument is a tracer: the function is then part of the outer trace.
        """
        dynamic, fixed = split_static(self._parameters, self._static, args, kwargs)
        leaves, structure = flatten(dynamic)
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return None, leaves
        key = (
            structure,
            tuple([_leaf_key(leaf) for leaf in leaves]),
            tuple([(name, _static_key(name, fixed[name])) for name in sorted(fixed)]),
        )
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._compiled(args, kwargs)
        return found, leaves

    def _compiled(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Structure]:
        from eqfuse.compiler import compile_graph

        graph = trace(self.fn, *args, static_argnames=self._static, **kwargs)
        return compile_graph(graph, **self.options), graph.signature.results  # type: ignore[union-attr]


def _leaf_key(leaf: Any) -> Any:
    if type(leaf) in SCALARS:
        return type(leaf)
    if type(leaf) is np.ndarray or isinstance(leaf, (np.generic, Spec)):
        return (leaf.shape, leaf.dtype)
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return (type(leaf), leaf.shape, leaf.dtype)
    return type(leaf)  # tracing refuses it, by its name


def _static_key(name: str, value: Any) -> Hashable:
    """Equal only for values that trace alike: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, tuple):
        return (type(value), tuple([_static_key(name, v) for v in value]))
    if isinstance(value, float):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError:
        raise TraceError(
            f"the static argument {name!r} is a {type(value).__name__}, which has no hash: pass a tuple instead of a "
            "list, or leave arrays out of static_argnames"
        ) from None
    return (type(value), value)


@overload
def jit(fn: Callable[P, R], /) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    target: Any = ...,
    numerics: str = ...,
    static_argnames: str | Iterable[str] = ...,
    laws: Any = ...,
    extractor: str = ...,
    budget: Any = ...,
    verify: bool = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    target: Any = "cpu",
    numerics: str = "reassociate",
    static_argnames: str | Iterable[str] = (),
    laws: Any = "all",
    extractor: str = "flow",
    budget: Any = None,
    verify: bool = False,
) -> Any:
    """Compile `fn` when it is first called with new shapes or dtypes; use as ``@ef.jit`` or ``@ef.jit(target=...)``.

    Python scalars among the arguments are inputs (a new value costs no new program); name arguments that decide shapes,
    axes or branches in `static_argnames`. Arrays from closures and globals are constants of the program.
    """
    options = {
        "target": target, "numerics": numerics, "laws": laws, "extractor": extractor, "budget": budget,
        "verify": verify,
    }  # fmt: skip

    def decorate(function: Callable[..., Any]) -> Jitted[..., Any]:
        return Jitted(function, static_argnames, options)

    return decorate if fn is None else decorate(fn)
