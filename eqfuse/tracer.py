"""The tracer: a lazy array that stands for an argument while a NumPy function runs, and records what is done to it.

In: operators, methods, ufuncs and array functions called on it. Out: graph nodes. Next stop: `trace.trace`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends import refused, tidy
from eqfuse.frontends.accepted import supported
from eqfuse.frontends.registry import FUNCTIONS, METHODS, UFUNCS, title
from eqfuse.ir import Node, Shape

MAX_NODES = 100_000
_state = threading.local()
lazy: Any = np  # NumPy, for calls on tracers: its type stubs do not know that they come back to the tracer


class Trace:
    """One run of a user's function on tracers. Tracers live only while it is the innermost `with` of their thread."""

    def __init__(self) -> None:
        self.steps = 0

    def __enter__(self) -> Trace:
        self._outer = getattr(_state, "trace", None)
        _state.trace = self
        return self

    def __exit__(self, *_: object) -> None:
        _state.trace = self._outer


class _Storage:
    """The memory an array and its views would share in NumPy: an in-place change makes the others' nodes stale."""

    __slots__ = ("version", "argument")

    def __init__(self, argument: str | None = None) -> None:
        self.version = 0
        self.argument = argument


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`x + y`, its reflection and `x += y` for one elementwise operator."""

    def forward(self: Tracer, other: Any) -> Any:
        from eqfuse.frontends.promotion import operator

        return operator(name, self, other)

    def reflected(self: Tracer, other: Any) -> Any:
        from eqfuse.frontends.promotion import operator

        return operator(name, other, self)

    def in_place(self: Tracer, other: Any) -> Any:
        result = forward(self, other)
        return result if self.weak or result is NotImplemented else self._become(result)

    return forward, reflected, in_place


def _unary(name: str) -> Callable[..., Any]:
    def call(self: Tracer) -> Tracer:
        from eqfuse.frontends.promotion import unary_operator

        return unary_operator(name, self)

    return call


def _method(name: str) -> Callable[..., Any]:
    """The ndarray method that is the NumPy function of the same name."""
    function = getattr(np, name)

    def call(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return call


def _no_value(conversion: str, instead: str) -> Callable[..., Any]:
    def call(self: Tracer, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TraceError(
            f"{conversion} of a traced {self._node.type}: its value is not known while the function is traced. "
            f"{instead}"
        )

    return call


class Tracer:
    """A lazy array. `weak`: stands for a Python scalar, whose dtype gives way in promotion as NumPy's rules say."""

    __slots__ = ("_node", "_trace", "_storage", "_version", "weak")

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __init__(self, value: Node, storage: _Storage, weak: bool = False) -> None:
        trace = getattr(_state, "trace", None)
        if trace is None:
            raise TraceError("a traced array was used outside its trace")
        trace.steps += 1
        if trace.steps > MAX_NODES:
            raise TraceError(
                f"the function makes more than {MAX_NODES} operations: a Python loop over elements is unrolled when it "
                "is traced. Replace the loop by array operations"
            )
        self._node, self._trace, self._storage, self._version, self.weak = value, trace, storage, storage.version, weak

    @property
    def node(self) -> Node:
        """The graph node of this array's present value."""
        if self._trace is not getattr(_state, "trace", None):
            raise TraceError(
                f"a traced {self._node.type} is used outside the call that made it: it leaked through a global, a "
                "closure or an attribute. Return it from the traced function instead"
            )
        if self._version != self._storage.version:
            raise TraceError(
                "the memory of this array was changed in place through another view of it, which eqfuse does not "
                "follow. Take the view again after the change, or write x = x + y instead of x += y"
            )
        return self._node

    def _become(self, value: Tracer) -> Tracer:
        """In-place assignment of `value`, as NumPy's ``out=self``: same shape, same-kind cast."""
        if self._storage.argument is not None:
            raise TraceError(
                f"in-place change of the argument {self._storage.argument!r}: the change would not reach the caller's "
                "array. Write x = x + y instead of x += y, or copy it first: x = x.copy()"
            )
        if value.shape != self.shape:
            raise ShapeError(f"in-place result of shape {value.shape} does not fit into an array of shape {self.shape}")
        if not np.can_cast(value.dtype, self.dtype, "same_kind"):
            raise ShapeError(f"in-place result of {value.dtype} cannot be cast to {self.dtype}; write x = x + y")
        changed = tidy.cast(value.node, self.dtype)
        self._storage.version += 1
        self._node, self._version = changed, self._storage.version
        return self

    # what is known without computing

    @property
    def dtype(self) -> np.dtype:
        return self._node.dtype

    @property
    def shape(self) -> Shape:
        return self._node.shape

    @property
    def ndim(self) -> int:
        return self._node.type.rank

    @property
    def size(self) -> int:
        return self._node.type.size

    @property
    def itemsize(self) -> int:
        return self._node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self._node.type.nbytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tracer]:
        if not self.shape:
            raise TraceError("iteration over a traced 0-d array: it has no axis to run along")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Tracer({self._node.type})"

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    # what needs a value

    __bool__ = _no_value(
        "truth value", "Write np.where(condition, a, b) instead of if/and/or/not, or name a flag in static_argnames"
    )
    __float__ = _no_value(
        "float()", "Use NumPy functions (np.sqrt, not math.sqrt), or name the argument in static_argnames"
    )
    __complex__ = _no_value("complex()", "eqfuse has no complex tensors")
    __int__ = _no_value("int()", "Use .astype, or name the argument in static_argnames")
    __index__ = _no_value("use as an index, axis or size", "Name the argument in static_argnames, or use np.take")
    __array__ = _no_value(
        "np.array(), np.asarray() or assignment into a NumPy array",
        "Join traced arrays by np.stack or np.concatenate; a library function that converts its arguments cannot be "
        "traced (ef.softmax, ef.gelu and others stand in for scipy's)",
    )
    item = _no_value("item()", "Index with x[...] instead, which stays traced")
    tolist = _no_value("tolist()", "Iterate over the array itself instead")
    tobytes = _no_value("tobytes()", "Return the array and convert it outside")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TraceError(
            "assignment to items of a traced array. Build the new value instead: np.where(mask, new, x), "
            "or np.concatenate([x[:i], new, x[j:]])"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("__") and hasattr(np.ndarray, name):
            raise UnsupportedOp(f"ndarray.{name} is not among the methods that can be traced (eqfuse/tracer.py)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # NumPy's two protocols, and ours

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = title(ufunc) + ("" if method == "__call__" else f".{method}")
        _refuse_out_and_where(name, kwargs)
        implementation = UFUNCS.get(ufunc) if method == "__call__" else METHODS.get((ufunc, method))
        if implementation is None:
            raise refused.error(ufunc, method)
        return _call(name, implementation, inputs, kwargs)

    def __array_function__(self, func: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        implementation = FUNCTIONS.get(func)
        if implementation is None:
            raise refused.error(func)
        kwargs = dict(kwargs)
        if "out" in _parameters(implementation)[: len(args)]:
            at = _parameters(implementation).index("out")
            _refuse_out_and_where(title(func), {"out": args[at]})
        _refuse_out_and_where(title(func), kwargs)
        return _call(title(func), implementation, args, kwargs)

    @staticmethod
    def __eqfuse_apply__(op: str, args: Sequence[Any], attrs: tuple) -> Tracer:
        """The operator `op` of the table, with its arguments cast as NumPy would."""
        from eqfuse.frontends.promotion import apply

        return apply(op, args, attrs)

    # operators

    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power")
    __and__, __rand__, __iand__ = _binary("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__, __irshift__ = _binary("bitwise_right_shift")
    __eq__, _, _ = _binary("equal")
    __ne__, _, _ = _binary("not_equal")
    __lt__, _, _ = _binary("less")
    __le__, _, _ = _binary("less_equal")
    __gt__, _, _ = _binary("greater")
    __ge__, _, _ = _binary("greater_equal")
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("bitwise_invert")

    def __pos__(self) -> Tracer:
        from eqfuse.frontends.promotion import number

        return wrap(number(self.node), weak=True) if self.weak else lazy.positive(self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __matmul__(self, other: Any) -> Any:
        return lazy.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return lazy.matmul(other, self)

    def __imatmul__(self, other: Any) -> Any:
        return self._become(self @ other)

    def __getitem__(self, key: Any) -> Tracer:
        from eqfuse.frontends.numpy_indexing import index

        return index(self, key)

    # methods

    sum, prod, mean, var, std = (_method(n) for n in ("sum", "prod", "mean", "var", "std"))
    max, min, any, all = (_method(n) for n in ("max", "min", "any", "all"))
    argmax, argmin, cumsum, trace = (_method(n) for n in ("argmax", "argmin", "cumsum", "trace"))
    clip, round, dot, take, repeat = (_method(n) for n in ("clip", "round", "dot", "take", "repeat"))
    ravel, squeeze, swapaxes, diagonal = (_method(n) for n in ("ravel", "squeeze", "swapaxes", "diagonal"))
    conj, conjugate = _method("conjugate"), _method("conjugate")

    @property
    def T(self) -> Tracer:
        return lazy.transpose(self)

    @property
    def mT(self) -> Tracer:
        return lazy.matrix_transpose(self)

    @property
    def real(self) -> Tracer:
        return wrap(self.node, base=self)

    def reshape(self, *shape: Any, **kwargs: Any) -> Tracer:
        return lazy.reshape(self, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: Any) -> Tracer:
        return lazy.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tracer:
        wanted = supported(np.dtype(dtype), "astype")
        if not np.can_cast(self.dtype, wanted, casting):  # type: ignore[arg-type]
            raise ShapeError(f"cannot cast {self.dtype} to {wanted} by the rule {casting!r}")
        return wrap(tidy.cast(self.node, wanted))

    def copy(self, order: str = "C") -> Tracer:
        return wrap(self.node)

    def flatten(self, order: str = "C") -> Tracer:
        return lazy.ravel(self, order=order).copy()

    def __copy__(self) -> Tracer:
        return self.copy()

    def __deepcopy__(self, _memo: dict) -> Tracer:
        return self.copy()


def _refuse_out_and_where(name: str, kwargs: dict) -> None:
    """Drop ``out=None`` and ``where=True``; any other value is an error."""
    out = kwargs.pop("out", None)
    if out is not None and not (isinstance(out, tuple) and all(o is None for o in out)):
        raise TraceError(
            f"{name} with out= (or an in-place operator on a NumPy array) would write a traced value into memory. "
            "Write x = x + y instead of x += y, or start from np.zeros_like of a traced array"
        )
    if kwargs.pop("where", True) is not True:
        raise TraceError(f"{name} with where=: write np.where(mask, value, otherwise) instead")


@cache
def _parameters(implementation: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(implementation).parameters)


def _call(name: str, implementation: Callable[..., Any], args: Sequence[Any], kwargs: dict) -> Any:
    try:
        return implementation(*args, **kwargs)
    except TypeError as error:
        try:
            inspect.signature(implementation).bind(*args, **kwargs)
        except TypeError as misfit:
            raise UnsupportedOp(f"{name}: this use of its arguments cannot be traced ({misfit})") from None
        raise error


def wrap(value: Node, base: Tracer | None = None, weak: bool = False) -> Tracer:
    """A tracer for `value`; `base` is the array whose memory a NumPy view would share."""
    return Tracer(value, _Storage() if base is None else base._storage, weak)


def argument(value: Node, name: str, weak: bool) -> Tracer:
    """The tracer that stands for an argument of the traced function."""
    return Tracer(value, _Storage(name), weak)
