"""What a traced array can be asked to do, as NumPy's ndarray can: operators, protocols, methods.

In: Python's and NumPy's calls. Out: calls of NumPy's functions, which come back through `dispatch`, and of what the
modules that are written in terms of tracers have put into `registry.ARRAY_FUNCTIONS`. The memory is `tracer.Tracer`'s.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from eqfuse import xp
from eqfuse.errors import TraceError, UnsupportedOp
from eqfuse.frontends.numpy.constructs import lines_instead
from eqfuse.frontends.numpy.memory_flags import MemoryFlags
from eqfuse.frontends.numpy.registry import ARRAY_FUNCTIONS

lazy: Any = np  # NumPy, for calls on tracers: its type stubs do not know that they come back to the tracer


def _binary(name: str, symbol: str = "") -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`x + y`, its reflection and `x += y` for one elementwise operator."""

    def forward(self: Any, other: Any) -> Any:
        return ARRAY_FUNCTIONS["python_operator"](name, self, other)

    def reflected(self: Any, other: Any) -> Any:
        return ARRAY_FUNCTIONS["python_operator"](name, other, self)

    def in_place(self: Any, other: Any) -> Any:
        result = forward(self, other)
        if result is NotImplemented or self.scalar:
            return result
        self.become(result, symbol=symbol)
        return self

    return forward, reflected, in_place


def _unary(name: str) -> Callable[..., Any]:
    def call(self: Any) -> Any:
        return ARRAY_FUNCTIONS["unary_operator"](name, self)

    return call


def _method(name: str) -> Callable[..., Any]:
    """The ndarray method that is the NumPy function of the same name."""
    function = getattr(np, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return call


def _needs_value(conversion: str, convert: Callable[..., Any], instead: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = self.constant_value()
        if value is not None:
            return convert(value, *args, **kwargs)
        raise TraceError(
            f"{conversion} of a traced {self.tensor_type}: its value is not known while the function is traced. "
            f"{instead}{lines_instead()}"
        )

    return call


def _assigning(function: Callable[..., Any]) -> Callable[..., None]:
    """The ndarray method that changes the array to what `function` makes of it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        self.assign(function(self, *args, **kwargs))

    return call


_WHERE = "it tells where the array lies, and a traced one lies nowhere. "
_OUTPUT = "it writes values, which are not known while tracing. Return the array, and write it outside"
_REFUSED = {
    "base": _WHERE + "Write into the array itself, or into a copy of it",
    "ctypes": _WHERE + "Call foreign code outside of the traced function",
    "data": _WHERE + "Call foreign code outside of the traced function",
    "strides": _WHERE + "np.ascontiguousarray(x) and np.asfortranarray(x) give an array as it is needed",
    "byteswap": "tensors have native byte order. Swap outside of the traced function",
    "getfield": "structured arrays are not tensors. Use x.view(dtype) for the same memory in a dtype of equal width",
    "setfield": "structured arrays are not tensors. Write into x.view(dtype), in a dtype of equal width",
    "resize": "the array would change its size in place. Use x = np.resize(x, shape)",
    "setflags": "whether an array can be written to is settled when it is made. Leave it out, or set it outside",
    "dump": _OUTPUT, "dumps": _OUTPUT, "tofile": _OUTPUT,
}  # fmt: skip


_VECTORIZE = np.vectorize.__init__.__code__


class Operators:
    """What a traced array and a traced number have in common."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    # what needs a value

    __bool__ = _needs_value(
        "truth value",
        bool,
        "Write np.where(condition, a, b) or ef.cond instead of if/and/or/not, ef.while_loop instead of while, "
        "np.minimum, np.maximum, np.sort, np.any and np.all instead of min, max, sorted, any and all, or name a flag "
        "in static_argnames",
    )
    __float__ = _needs_value(
        "float()",
        float,
        "Use NumPy functions (np.sqrt, not math.sqrt), name the argument in static_argnames, or call what needs the "
        "value by ef.pure_callback",
    )
    __complex__ = _needs_value("complex()", complex, "Use .astype(complex)")
    __int__ = _needs_value("int()", int, "Use .astype, or name the argument in static_argnames")
    __index__ = _needs_value(
        "use as an index, axis or size", operator.index, "Name the argument in static_argnames, or use np.take"
    )
    _as_ndarray = _needs_value(
        "np.array(), np.asarray() or assignment into a NumPy array",
        np.array,
        "Join traced arrays by np.stack or np.concatenate, write into np.array(k) instead of an array k that NumPy "
        "made, np.empty(shape) for np.ndarray(shape), index one made outside as np.asarray(table)[i], write "
        "x.astype(np.float64) for np.float64(x) and f(x) for np.vectorize(f)(x); a library that converts its arguments "
        "cannot be traced: call it by ef.pure_callback (ef.softmax, ef.gelu and others stand in for scipy's)",
    )

    def __array__(self: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_code
        if caller.co_qualname.startswith("vectorize.") and caller.co_filename == _VECTORIZE.co_filename:
            raise TraceError(
                "np.vectorize(f) calls f for one element after another. Call f itself, which may take whole arrays as "
                "it is; where it branches, write np.where(condition, a, b), or call np.vectorize(f) by ef.pure_callback"
            )
        return self._as_ndarray(*args, **kwargs)

    # NumPy's two protocols, and ours

    def __array_ufunc__(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAY_FUNCTIONS["call_ufunc"](ufunc, method, inputs, kwargs)

    def __array_function__(self: Any, func: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        return ARRAY_FUNCTIONS["call_function"](func, args, kwargs)

    @staticmethod
    def __eqfuse_apply__(op: str, args: Sequence[Any], attrs: tuple) -> Any:
        """The operator `op` of the table, with its arguments cast as NumPy would."""
        return ARRAY_FUNCTIONS["apply"](op, args, attrs)

    @staticmethod
    def __eqfuse_inlined__(graph: Any, args: Any, kwargs: Any) -> Any:
        """A call of `graph`, some of whose arguments are traced."""
        return ARRAY_FUNCTIONS["inlined"](graph, args, kwargs)

    # operators

    __add__, __radd__, __iadd__ = _binary("add", "+")
    __sub__, __rsub__, __isub__ = _binary("subtract", "-")
    __mul__, __rmul__, __imul__ = _binary("multiply", "*")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide", "/")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide", "//")
    __mod__, __rmod__, __imod__ = _binary("remainder", "%")
    __pow__, __rpow__, __ipow__ = _binary("power", "**")
    __and__, __rand__, __iand__ = _binary("bitwise_and", "&")
    __or__, __ror__, __ior__ = _binary("bitwise_or", "|")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor", "^")
    __lshift__, __rlshift__, __ilshift__ = _binary("bitwise_left_shift", "<<")
    __rshift__, __rrshift__, __irshift__ = _binary("bitwise_right_shift", ">>")
    __eq__, _, _ = _binary("equal")
    __ne__, _, _ = _binary("not_equal")
    __lt__, _, _ = _binary("less")
    __le__, _, _ = _binary("less_equal")
    __gt__, _, _ = _binary("greater")
    __ge__, _, _ = _binary("greater_equal")
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("bitwise_invert")

    def __contains__(self: Any, value: Any) -> bool:
        return bool((self == value).any())

    def __divmod__(self: Any, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> tuple[Any, Any]:
        return other // self, other % self


class NdarrayFace(Operators):
    """The part of a tracer that is written in terms of NumPy's own functions."""

    __slots__ = ()

    # what needs a value

    item = _needs_value("item()", np.ndarray.item, "Index with x[...] instead, which stays traced")
    tolist = _needs_value("tolist()", np.ndarray.tolist, "Iterate over the array itself instead")
    tobytes = _needs_value("tobytes()", np.ndarray.tobytes, "Return the array and convert it outside")
    __dlpack__ = _needs_value("DLPack export", np.ndarray.__dlpack__, "Return the array and export it outside")
    __dlpack_device__ = _needs_value("DLPack export", np.ndarray.__dlpack_device__, "Return the array instead")

    def __getattr__(self: Any, name: str) -> NoReturn:
        if name in _REFUSED:
            raise UnsupportedOp(f"ndarray.{name} cannot be traced: {_REFUSED[name]}")
        if name == "__array_interface__":
            raise AttributeError(
                "a traced array lies nowhere: instead of np.lib.stride_tricks.as_strided(x, …) write "
                "np.lib.stride_tricks.sliding_window_view(x, …), slices or a reshape"
            )
        kind = f"numpy.{self.dtype.name if self.scalar else 'ndarray'}"
        if not name.startswith("__") and hasattr(self.__class__, name):
            raise UnsupportedOp(f"{kind}.{name} of a traced {self.tensor_type} cannot be traced")
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def __format__(self: Any, spec: str) -> str:
        value = self.constant_value()
        if value is None and spec:
            raise TraceError(
                f"the text of a traced {self.tensor_type}: its value is not known while the function is traced. Return "
                "it, and write about it outside"
            )
        return repr(self) if value is None else format(value[()], spec)

    # what Python and the Array API ask of a sequence of numbers

    def __len__(self: Any) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __round__(self: Any, digits: int | None = None) -> Any:
        if not self.scalar:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        return self._rounded() if digits is None else lazy.round(self, digits)

    _rounded = _needs_value(
        "round(), which gives a Python int,", lambda value: round(value[()]), "Write np.rint(x).astype(int)"
    )

    def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
        if api_version is not None and api_version not in xp.API_VERSIONS:
            raise ValueError(f"version {api_version!r} of the Array API is not among {', '.join(xp.API_VERSIONS)}")
        return xp

    device = "cpu"

    def to_device(self: Any, device: Any, /, *, stream: None = None) -> Any:
        if device != "cpu" or stream is not None:
            raise TraceError(f"to_device({device!r}): a traced array stays where the program's target= puts it")
        return self

    # operators

    def __pos__(self: Any) -> Any:
        return lazy.positive(self)

    def __matmul__(self: Any, other: Any) -> Any:
        return lazy.matmul(self, other)

    def __rmatmul__(self: Any, other: Any) -> Any:
        return lazy.matmul(other, self)

    def __imatmul__(self: Any, other: Any) -> Any:
        self.become(self @ other, symbol="@")
        return self

    def __getitem__(self: Any, key: Any) -> Any:
        return ARRAY_FUNCTIONS["index"](self, key)

    def __setitem__(self: Any, key: Any, value: Any) -> None:
        if self.scalar:
            self.assign(value)  # which refuses it, whatever the key
        ARRAY_FUNCTIONS["assign_items"](self, key, value)

    # methods

    sum, prod, mean, var, std = (_method(n) for n in ("sum", "prod", "mean", "var", "std"))
    max, min, any, all = (_method(n) for n in ("max", "min", "any", "all"))
    argmax, argmin, cumsum, trace = (_method(n) for n in ("argmax", "argmin", "cumsum", "trace"))
    argsort, cumprod, searchsorted, choose = (_method(n) for n in ("argsort", "cumprod", "searchsorted", "choose"))
    argpartition, nonzero = _method("argpartition"), _method("nonzero")
    clip, round, dot, take, repeat = (_method(n) for n in ("clip", "round", "dot", "take", "repeat"))
    ravel, squeeze, swapaxes, diagonal = (_method(n) for n in ("ravel", "squeeze", "swapaxes", "diagonal"))

    def conj(self: Any) -> Any:
        return lazy.conjugate(self) if self.dtype.kind == "c" else self

    conjugate = conj

    @property
    def T(self: Any) -> Any:
        return self.transpose()

    @property
    def mT(self: Any) -> Any:
        return lazy.matrix_transpose(self)

    @property
    def flags(self: Any) -> MemoryFlags:
        return MemoryFlags(self)

    @property
    def flat(self: Any) -> Any:
        return ARRAY_FUNCTIONS["FlatIterator"](self)

    @flat.setter
    def flat(self: Any, value: Any) -> None:
        self.flat[:] = value

    def reshape(self: Any, *shape: Any, **kwargs: Any) -> Any:
        return ARRAY_FUNCTIONS["reshape"](self, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self: Any, *axes: Any) -> Any:
        return ARRAY_FUNCTIONS["transpose"](self, axes[0] if len(axes) == 1 else axes or None)

    def compress(self: Any, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        return lazy.compress(condition, self, axis, out)

    def fill(self: Any, value: Any) -> None:
        if not self.scalar:  # of which NumPy fills a copy
            self[...] = value

    put = _method("put")
    sort, partition = _assigning(np.sort), _assigning(np.partition)

    def flatten(self: Any, order: str = "C") -> Any:
        return lazy.ravel(self, order=order).copy()

    def __copy__(self: Any) -> Any:
        return self.copy("K")

    def __deepcopy__(self: Any, _memo: dict) -> Any:
        return self.copy("K")
