"""`@ef.jit`: a function that compiles itself for the shapes and dtypes it is called with, and remembers the programs.

In: user arguments. Out: the compiled program's results. A warm call is one dictionary look-up before the kernels run.
At most so many programs are kept; with `dynamic`, sizes that change share plans (`eqfuse/specialise/family.py`).
"""

from __future__ import annotations

import functools
import threading
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from eqfuse.budget import Meter, budget_of
from eqfuse.errors import TraceError, user_level
from eqfuse.frontends.numpy.trace import Spec, is_apart, layout_of
from eqfuse.frontends.numpy.tracing import current
from eqfuse.gradients.nans import debugging, nan_checked
from eqfuse.ir.arithmetic import NUMBER_KINDS
from eqfuse.ir.graph import Graph
from eqfuse.ir.parameters import CallForms, are_parameters, parameters_of, static_names
from eqfuse.ir.pytree import LEAF, told_apart, tree_leaves, unflatten
from eqfuse.ir.signature import input_names
from eqfuse.options import one_size, refuse_unknown
from eqfuse.show.progress import patiently
from eqfuse.specialise.calls import FunctionCall
from eqfuse.specialise.disabled import is_disabled
from eqfuse.specialise.groups import CallGroup, Dynamic
from eqfuse.specialise.tuning import compiled
from eqfuse.specialise.versions import CallKey, Version, Versions, changing
from eqfuse.summary import SummarisedValue, Summary, rest

P = ParamSpec("P")
R = TypeVar("R")

MANY_PROGRAMS = 8  # programs of one function; one more brings a warning
CALLS_KEPT = 32  # of them; the least recently used go first
KEPT_SIZES = 64  # of one with `dynamic`, where a size costs little
GROUPS = 8  # of calls that differ in their extents alone, with `dynamic`


class JitFunction(SummarisedValue, Generic[P, R]):
    """A function with one compiled program per structure, shapes, dtypes and static values of its arguments."""

    def __init__(
        self, fn: Callable[P, R], static_argnames: str | Iterable[str], dynamic: Dynamic, options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, fn, updated=() if isinstance(fn, Graph) else functools.WRAPPER_UPDATES)
        self.fn = fn
        self.options = {name: value for name, value in options.items() if name != "autotune"}
        self._autotune = bool(options.get("autotune"))
        self.dynamic = dynamic
        self._static = static_names(static_argnames)
        self._parameters = parameters_of(fn)
        are_parameters(self._static, self._parameters)
        self._forms = CallForms(self._parameters, self._static)
        self._versions = Versions(KEPT_SIZES if dynamic else CALLS_KEPT)
        self._by_arrays: dict[tuple, Version] = {}  # the same, for calls with arrays by position alone, of any layout
        self._asked: dict[CallKey, frozenset[int]] = {}  # which arrays' layouts a key has
        self._groups = Versions(GROUPS)
        self._lock = threading.RLock()
        self._warned = False

    def __reduce__(self) -> str:
        """Pickled, and copied, by name, as functions are: its programs are of this process."""
        return str(getattr(self, "__qualname__", self.fn))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_disabled() or current() is not None:  # it is then part of the outer trace
            return self.fn(*args, **kwargs)
        if debugging():
            return nan_checked(self, self.fn, self._static, args, kwargs)
        if not kwargs and not self._static:
            key: list[Any] = []
            array: Any
            for array in args:
                if type(array) is not np.ndarray:
                    if not hasattr(type(array), "__cuda_array_interface__"):
                        break
                    key.append(type(array))
                key.append(array.shape)
                key.append(array.dtype)
            else:
                version = self._by_arrays.get(tuple(key)) or self._found_by_arrays(tuple(key), args)
                version.used = self._versions.now()
                outputs = version.program.call(args)
                return outputs[0] if version.results is LEAF else unflatten(version.results, outputs)
        version, leaves = self._find(args, kwargs)
        return unflatten(version.results, version.program.call(leaves))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def summary(self) -> Summary:
        name = getattr(self.fn, "__qualname__", repr(self.fn))
        title = f"<eqfuse.jit of {name}, {len(self._versions)} program(s), {self._versions.dropped} dropped>"
        rows = [[line] for group in self._groups for line in str(group.program).splitlines()]
        if not rows:
            used = sorted(self._versions, key=lambda version: -version.used)
            plans = [version.program.plan for version in used]
            rows = [[plan.graph.heading, plan.summary().title.removeprefix("Plan: ")] for plan in plans]
        return Summary(title, rows, rest(len(rows), "other line"))

    def __str__(self) -> str:
        return "\n".join([self.summary().title, *(str(group.program) for group in self._groups)])

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The compiled program that a call with these arguments runs (for its report, its source, `save`)."""
        if current() is not None:
            raise TraceError("inside a traced function there is no program of this function alone: call it instead")
        version, _ = self._find(args, kwargs)
        return version.program

    def _found_by_arrays(self, flat: tuple, args: tuple) -> Version:
        with self._lock:  # so that no version is listed here after it was dropped
            version, _ = self._find(args, {})
            if not version.key.layouts:
                version.flat = flat
                self._by_arrays[flat] = version
            return version

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Version, list[Any]]:
        """The version for these arguments, compiled when needed, and the arrays to run it on."""
        arguments, fixed = self._forms.split(args, kwargs)
        leaves, structure = tree_leaves(arguments)
        key = CallKey(
            structure,
            tuple([_leaf_key(leaf) for leaf in leaves]),
            tuple([(name, _static_key(name, fixed[name])) for name in sorted(fixed)]),
        )
        version = self._versions.get(self._with_layouts(key, leaves))
        if version is None:
            with self._lock:
                version = self._versions.get(self._with_layouts(key, leaves))
                if version is None:
                    version = self._compiled(key, args, kwargs)
                    if version.layouts:
                        self._asked[key] = self._asked.get(key, frozenset()) | {i for i, _ in version.layouts}
                    self._keep(self._with_layouts(key, leaves), version)
        return version, leaves

    def _with_layouts(self, key: CallKey, leaves: list[Any]) -> CallKey:
        """`key` with the layouts that decided what the function did in a call of that key before."""
        asked = self._asked and self._asked.get(key)
        if not asked:
            return key
        arrays = [leaf for leaf in leaves if not is_apart(leaf)]
        return key._replace(layouts=tuple((i, layout_of(arrays[i])) for i in sorted(asked)))

    def _compiled(self, key: CallKey, args: tuple, kwargs: dict[str, Any]) -> Version:
        call = FunctionCall(self.fn, self._static, args, kwargs)
        if not self.dynamic:
            meter = Meter(budget_of(self.options["budget"]))
            with patiently() as tell:
                tell("tracing")
                graph = call.trace()
                return Version(compiled(graph, meter, self._autotune, self.options), graph.signature, "")
        alike = key.without_extents()
        group = self._groups.get(alike)
        if group is None:
            group = Version(CallGroup(call, self.dynamic, self.options), None, "")
            self._groups.keep(alike, group)
        version: Version = group.program.make(call)
        return version

    def _keep(self, key: CallKey, version: Version) -> None:
        dropped = self._versions.keep(key, version)
        if dropped is not None:
            if dropped.flat is not None:
                self._by_arrays.pop(dropped.flat, None)
            self._asked.pop(dropped.key._replace(layouts=()), None)
        if len(self._versions) == MANY_PROGRAMS + 1 and not self.dynamic and not self._warned:
            self._warned = True
            keys = [v.key for v in self._versions]
            what, axis = changing(keys, input_names(self._parameters, key.structure))
            advice = (
                f"With ef.jit(dynamic=True), or dynamic={axis}, one plan serves many sizes"
                if axis
                else "Call it with fewer kinds of arguments, or jit a function for each"
            )
            warnings.warn(
                f"{getattr(self.fn, '__qualname__', self.fn)} is compiled again and again: {what} keeps changing. "
                f"Only the {CALLS_KEPT} programs used last are kept. {advice}",
                stacklevel=user_level(),
            )


def _leaf_key(leaf: Any) -> tuple:
    """(class where it matters, shape, dtype)."""
    if type(leaf) is np.ndarray or isinstance(leaf, Spec):
        return (None, leaf.shape, leaf.dtype)
    if type(leaf) in NUMBER_KINDS or isinstance(leaf, np.generic):  # a NumPy scalar has no memory to write to
        return (type(leaf), None, None)
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return (type(leaf), leaf.shape, leaf.dtype)
    return (type(leaf), None, None)  # tracing refuses it, by its name


def _static_key(name: str, value: Any) -> Hashable:
    try:
        return told_apart(value)
    except TypeError as kind:
        raise TraceError(
            f"the static argument {name!r} is a {kind}, which has no hash: pass a tuple instead of a list, or leave "
            "arrays out of static_argnames"
        ) from None


@overload
def jit(fn: Callable[P, R], /) -> JitFunction[P, R]: ...


@overload
def jit(
    fn: Callable[P, R],
    /,
    *,
    target: Any = ...,
    numerics: str = ...,
    static_argnames: str | Iterable[str] = ...,
    dynamic: Dynamic = ...,
    laws: Any = ...,
    extractor: str = ...,
    budget: Any = ...,
    memory_limit: float | None = ...,
    verify: bool = ...,
    wait: bool = ...,
    graphs: bool = ...,
    autotune: bool = ...,
) -> JitFunction[P, R]: ...


@overload
def jit(
    *,
    target: Any = ...,
    numerics: str = ...,
    static_argnames: str | Iterable[str] = ...,
    dynamic: Dynamic = ...,
    laws: Any = ...,
    extractor: str = ...,
    budget: Any = ...,
    memory_limit: float | None = ...,
    verify: bool = ...,
    wait: bool = ...,
    graphs: bool = ...,
    autotune: bool = ...,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    target: Any = "cpu",
    numerics: str = "reassociate",
    static_argnames: str | Iterable[str] = (),
    dynamic: Dynamic = False,
    laws: Any = "all",
    extractor: str = "flow",
    budget: Any = None,
    memory_limit: float | None = None,
    verify: bool = False,
    wait: bool = True,
    graphs: bool = False,
    autotune: bool = False,
) -> Any:
    """Compile `fn` when it is first called with new shapes or dtypes; use as ``@ef.jit`` or ``@ef.jit(target=...)``.

    Python scalars among the arguments are inputs (a new value costs no new program); name arguments that decide shapes,
    axes or branches in `static_argnames`. Arrays from closures and globals are constants of the program.
    `dynamic`: True lets extents that change share a plan; ``{"x": ("n", 64)}`` names them (None: as it is).
    """
    options = {
        "target": target, "numerics": numerics, "laws": laws, "extractor": extractor, "budget": budget,
        "memory_limit": memory_limit, "verify": verify, "wait": wait, "graphs": graphs, "autotune": autotune,
    }  # fmt: skip
    if not isinstance(dynamic, (bool, Mapping)):
        raise TraceError(f"dynamic is {dynamic!r}: it takes True, or a shape by argument, as in {{'x': ('n', 64)}}")

    refuse_unknown(options)
    if dynamic:
        one_size(options, "leave out dynamic")
    static_names(static_argnames)

    def decorate(function: Callable[..., Any]) -> JitFunction[..., Any]:
        if not callable(function):
            raise TraceError(f"jit takes a function, not {function!r}; options are given by name, as in target='cuda'")
        return JitFunction(function, static_argnames, dynamic, options)

    return decorate if fn is None else decorate(fn)
