"""What stands in for NumPy's functions that make arrays while a function is traced: they then give traced arrays.

In: a value that the function can reach. Out: what stands in for it, which `placing.py` puts in its place: ``np.zeros``
and its like make tracers when called from the thread that traces. For every other thread, and for calls from inside
libraries, they remain what they are.
"""

from __future__ import annotations

import functools
import random
import secrets
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from eqfuse.dtypes import tensor_dtype
from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.converted import (
    REDUCED,
    AxisConcatenator,
    ClassStandIn,
    Constant,
    ReducingLists,
    StandIn,
    StartedIterator,
    taking_lists,
)
from eqfuse.frontends.numpy.dispatch import are_constant, call_function, on_values
from eqfuse.frontends.numpy.distributions import ReplacedNames, drawing, frozen
from eqfuse.frontends.numpy.flat import FlatIterator
from eqfuse.frontends.numpy.promotion import as_dtype, holds_tracer, lift
from eqfuse.frontends.numpy.random import GENERATORS, TracedGenerator, legacy
from eqfuse.frontends.numpy.reach import CACHED, MOST_ELEMENTS, Builtin, of_library
from eqfuse.frontends.numpy.readings import ASKED, READINGS
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, implements
from eqfuse.frontends.numpy.seeds import SEEDED, default_rng, system_bits
from eqfuse.frontends.numpy.selection import Selection
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import current, untraced
from eqfuse.frontends.numpy.writes import copied
from eqfuse.ir.accepted import ARRAY_TYPES
from eqfuse.ir.graph import const
from eqfuse.ir.strides import IN_ORDER, MemoryLayout, in_columns, memory_order, strides_of
from eqfuse.ops.numpy_names import title

# ---- arrays made from nothing


def _filled(value: int, shape: Any, dtype: Any, order: str | None) -> Tracer:
    extents = tuple(int(n) for n in shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) else (int(shape),)
    source = const(value, tensor_dtype(dtype, "the new array"))
    in_rows = memory_order(order, "CF") == "C"
    layout = MemoryLayout(None if in_rows else in_columns(extents, source.dtype.itemsize))
    return wrap(tidy.broadcast_to(source, extents), Rights.WRITABLE, layout=layout)


def _zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: None = None, like: None = None) -> Tracer:
    return _filled(0, shape, float if dtype is None else dtype, order)


def _ones(shape: Any, dtype: Any = None, order: str = "C", *, device: None = None, like: None = None) -> Tracer:
    return _filled(1, shape, float if dtype is None else dtype, order)


def _full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: None = None, like: None = None
) -> Tracer:
    value = lift(fill_value) if dtype is None else fill_value
    extents = tuple(shape) if np.ndim(shape) else (shape,)
    array = _filled(0, extents, value.dtype if dtype is None else dtype, order)
    array.assign(copied(value, array, "unsafe"))
    return array


def _array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: str | None = "K", subok: bool = False,
    ndmin: int = 0, ndmax: int = 0, like: None = None,
) -> Tracer:  # fmt: skip
    always = copy in (True, np._CopyMode.ALWAYS)
    never = copy in (False, np._CopyMode.NEVER)
    x = _converted(object, dtype, order, None if not (always or never) else always)
    if 0 < ndmax < x.ndim and not isinstance(object, (Tracer, np.ndarray)):
        raise ShapeError(f"np.array: what is nested {x.ndim} deep has more than ndmax={ndmax} dimensions")
    return x if x.ndim >= ndmin else x.reshape((1,) * (ndmin - x.ndim) + x.shape)


def _asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, device: None = None, copy: bool | None = None,
    like: None = None,
) -> Tracer:  # fmt: skip
    return _converted(a, dtype, order, copy)


def _ascontiguousarray(a: Any, dtype: Any = None, *, like: None = None) -> Tracer:
    x = _converted(a, dtype, "C")
    return x if x.ndim else x.reshape(1)


def _asfortranarray(a: Any, dtype: Any = None, *, like: None = None) -> Tracer:
    x = _converted(a, dtype, "F")
    return x if x.ndim else x.reshape(1)


_REQUIREMENTS = {
    "C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F", "ALIGNED": "A", "WRITEABLE": "W",
    "OWNDATA": "O", "ENSUREARRAY": "E",
}  # fmt: skip


def _require(a: Any, dtype: Any = None, requirements: Any = None, *, like: None = None) -> Tracer:
    names = [name.upper() for name in requirements or ()]  # of a text, each letter
    unknown = [name for name in names if name not in _REQUIREMENTS and name not in _REQUIREMENTS.values()]
    if unknown:
        raise TraceError(f"np.require: there is no requirement {unknown[0]!r}")
    wanted = {_REQUIREMENTS.get(name, name) for name in names}
    if wanted >= {"C", "F"}:
        raise ShapeError("np.require: an array cannot be required to lie in C order and in Fortran order")
    if "O" in wanted:
        raise UnsupportedOp("np.require: whether an array owns its data is not known while tracing; use x.copy()")
    order = "C" if "C" in wanted else "F" if "F" in wanted else "A"
    x = _converted(a, dtype, order)
    return x.copy(order) if "W" in wanted and not x.writable else x


def _converted(value: Any, dtype: Any, order: str | None, copy: bool | None = None) -> Tracer:
    """`value` as an array of that dtype and memory order: itself if it is one already, unless `copy` says that it be
    new. ShapeError where `copy` says that it be not new, and it is."""
    order = memory_order(order, default="K")
    if isinstance(value, Selection):
        selection = value if dtype is None else value.astype(dtype, copy=False)
        return cast(Tracer, selection.copy() if copy else selection)
    if isinstance(value, FlatIterator):
        value = value.raveled()
    own = isinstance(value, Tracer) and not value.scalar
    if own:
        same = dtype is None or tensor_dtype(dtype, "the new array") == value.dtype
        wanted = "K" if order == "A" else order
        x = value.conforming(wanted) if same else value.astype(dtype, wanted)
        array = x.copy(order) if copy and x.is_of([value]) else x
    else:
        array = _new(value, dtype, order, copy)
    if copy is False:
        if not (own and array.is_of([value])):
            raise ShapeError("Unable to avoid copy while creating an array as requested: leave out copy=False")
        if order in ("C", "F"):
            array.lying()
    return array


def _new(value: Any, dtype: Any, order: str, copy: bool | None) -> Tracer:
    """What is no traced array as one. Where NumPy takes over the memory of one made outside, it can only be read."""
    wanted = None if dtype is None else tensor_dtype(dtype, "the new array")
    if holds_tracer(value):
        x = wrap(lift(value).node if wanted is None else as_dtype(value, wanted), Rights.WRITABLE, layout=IN_ORDER)
        return x.astype(x.dtype, "C" if order == "K" else order)
    lift(value)  # which refuses by name what is no tensor
    array = np.array(value, wanted, copy=copy, order=order)  # type: ignore[call-overload]
    x = wrap(const(array), Rights.WRITABLE, layout=MemoryLayout(strides_of(array)))
    return x.viewed(access=Rights.READ_ONLY) if np.may_share_memory(array, value) else x


def _constant(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes arrays of numbers: a constant of the trace, unless it has a traced form."""

    def call(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        traced = TRACED_FUNCTIONS.get(function)
        if traced not in (None, call) and holds_tracer((args, kwargs)):
            return traced(*args, **kwargs)
        if not are_constant((args, kwargs)):
            raise TraceError(
                f"{title(function)} of a traced value: the numbers that it is made from, its size among them, must be "
                "known while the function is traced. Name the argument in static_argnames, or take a size from an "
                "array that has it: x.shape[0]"
            )
        return on_values(title(function), function, args, kwargs)

    return call


_MADE: dict[Any, Callable[..., Any]] = {
    np.zeros: _zeros, np.empty: _zeros, np.ones: _ones, np.full: _full,
    np.array: _array, np.asarray: _asarray, np.asanyarray: _asarray,
    np.ascontiguousarray: _ascontiguousarray, np.asfortranarray: _asfortranarray, np.require: _require,
    np.random.default_rng: default_rng, np.random.seed: TracedGenerator(None, np.random.mtrand._rand).refuse("seed"),
} | {
    function: _constant(function)
    for function in (
        np.arange, np.linspace, np.logspace, np.geomspace, np.eye, np.identity, np.tri, np.indices, np.fromfunction,
        np.fromiter, np.frombuffer, np.fromstring, np.hanning, np.hamming, np.bartlett, np.blackman, np.kaiser,
        np.tril_indices, np.triu_indices, np.diag_indices,
    )
} | {
    getattr(module, name): legacy(getattr(module, name))
    for module in (np.random, random)  # under whose names any code finds them
    for name in dir(module)
    if isinstance(getattr(getattr(module, name), "__self__", None), (np.random.RandomState, random.Random))
}  # fmt: skip
for _function in (
    np.arange, np.array, np.asanyarray, np.asarray, np.ascontiguousarray, np.asfortranarray, np.empty, np.eye,
    np.frombuffer, np.fromfunction, np.fromiter, np.fromstring, np.full, np.identity, np.ones, np.require, np.tri,
    np.zeros,
):  # fmt: skip
    implements(_function)(_MADE[_function])  # called with like=
ARRAY_TYPES.add(Constant)
_COPIES = (np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.copy, np.meshgrid, np.diag, np.tile)


def _dispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the table, also for arguments that hold no tracer."""
    return lambda *args, **kwargs: call_function(function, args, kwargs)


def _stand_in(original: Callable[..., Any], traced: Callable[..., Any]) -> StandIn:
    def call(*args: Any, **kwargs: Any) -> Any:
        if current() is None or (_called_by_library() and not holds_tracer((args, kwargs))):
            return original(*args, **kwargs)
        return traced(*args, **kwargs)

    return StandIn(original, call)


def _called_by_library() -> bool:
    return of_library(str(sys._getframe(3).f_globals.get("__name__")))


def _looked_up(cached: Any) -> StandIn:
    """A function that remembers its results, which it computes as if nothing were traced: others take them too."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return cached(*args, **kwargs)
        if holds_tracer((args, kwargs)):
            raise TraceError(
                f"{cached.__name__} remembers its results by its arguments (functools.cache), which a traced value "
                "cannot be. Name the argument in static_argnames, or call the function behind it, __wrapped__"
            )
        with untraced():
            result = cached(*args, **kwargs)
        return Constant.from_array(result) if type(result) is np.ndarray else result

    return StandIn(cached, call)


@functools.cache
def _stand_ins() -> dict[int, Any]:
    """By the identity of the function it stands for."""
    replacements = _MADE | {function: _dispatched(function) for function in _COPIES}
    seeded = {id(real): stand_in for real, stand_in in SEEDED.items()}
    listed = {id(function): taking_lists(function) for function in TRACED_FUNCTIONS if function not in replacements}
    reduced = {id(ufunc): ReducingLists(ufunc) for ufunc in REDUCED}
    joined = {id(np.r_): AxisConcatenator(np.r_, False), id(np.c_): AxisConcatenator(np.c_, True)}
    traced = {id(f): _stand_in(f, replacement) for f, replacement in replacements.items()}
    return READINGS | listed | reduced | joined | seeded | traced


def _type(*args: Any, **kwargs: Any) -> Any:
    """Python's `type`, which says of what stands in for a value the class of the value."""
    kind = type(*args, **kwargs)
    return args[0].__class__ if len(args) == 1 and kind.__module__.startswith(__package__) else kind


_TYPE = ClassStandIn(type, _type)

# NumPy as its compiled modules must see it: they have no frame to be told by, and take what it gives for memory.
_ORIGINAL = types.ModuleType("numpy")
vars(_ORIGINAL).update(vars(np))


def stand_in_for(value: Any) -> Any:
    """What stands in for `value`, or for parts of the tuple `value`; None where nothing does."""
    if isinstance(value, Builtin):
        return _TYPE
    if isinstance(value, GENERATORS):
        return TracedGenerator(value, value)
    if isinstance(value, CACHED):
        return _looked_up(value)
    if isinstance(value, (staticmethod, classmethod)):
        inner = stand_in_for(value.__func__)
        return None if inner is None else type(value)(inner)
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        return StartedIterator(value)
    if isinstance(value, tuple):
        return _tuple_with_stand_ins(value)
    if isinstance(value, _METHODS) and isinstance(value.__self__, GENERATORS):
        return _stand_in(value, legacy(value))
    stand_in = _stand_ins().get(id(value))
    return frozen(value) if stand_in is None else stand_in


_METHODS = (types.BuiltinMethodType, types.MethodType)


def _tuple_with_stand_ins(value: tuple) -> tuple | None:
    parts = [stand_in_for(part) for part in value] if len(value) <= MOST_ELEMENTS else []
    if all(part is None for part in parts):
        return None
    items = [own if part is None else part for own, part in zip(value, parts, strict=True)]
    return tuple.__new__(type(value), items)


def everywhere() -> list[ReplacedNames]:
    """Modules, and distributions, that any code may import while it runs, and what their names stand for then."""
    modules = [(module, {name: module[name] for name in names}, names) for module, names in _modules()]
    return [*modules, *drawing()]


@functools.cache
def _modules() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    stand_ins = _stand_ins()
    modules = (vars(np), vars(np.random), vars(np.linalg), vars(random))
    compiled = [vars(m) for m in vars(np.random).values() if isinstance(m, types.ModuleType) and hasattr(m, "np")]
    hidden: list[tuple[dict[str, Any], dict[str, Any]]] = [(module, {"np": _ORIGINAL}) for module in compiled]
    hidden.append((vars(np.random.bit_generator), {"randbits": system_bits}))
    hidden += [(vars(module), names) for module, names in ASKED.items()]
    hidden.append((vars(secrets), {name: stand_in_for(getattr(secrets, name)) for name in ("randbits", "choice")}))
    drawn_from = ((np.random.mtrand, "_rand"), (random, "_inst"), (secrets, "_sysrand"))
    for module, name in drawn_from:  # by libraries
        generator = getattr(module, name)
        hidden.append((vars(module), {name: TracedGenerator(generator, generator)}))
    return hidden + [
        (module, {name: stand_ins[id(value)] for name, value in module.items() if id(value) in stand_ins})
        for module in modules
    ]
