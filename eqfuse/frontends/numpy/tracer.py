"""The tracer: a lazy array that stands for an argument while a NumPy function runs, and records what is done to it.

In: operators, methods, ufuncs and array functions called on it. Out: graph nodes. Next stop: `trace.trace`.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import castable, tensor_dtype
from eqfuse.errors import DtypeError, ShapeError, TraceError, UnsupportedOp, user_place
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.constants import value_of
from eqfuse.frontends.numpy.ndarray import NdarrayFace, lazy
from eqfuse.frontends.numpy.registry import ARRAY_FUNCTIONS
from eqfuse.frontends.numpy.storage import UNWRITABLE, Rights, Storage, viewed_by
from eqfuse.frontends.numpy.tracing import current, differentiated, held_constant
from eqfuse.ir.graph import Node, const
from eqfuse.ir.strides import (
    IN_ORDER,
    MemoryLayout,
    Strides,
    ViewStep,
    always_view,
    changes_nothing,
    copy_strides,
    in_columns,
    is_line,
    memory_order,
    read_order,
    runs_in_order,
    view_of,
)
from eqfuse.ops import row
from eqfuse.ops.elementwise import broadcast_shapes
from eqfuse.ops.types import Shape, TensorType


class Tracer(NdarrayFace):
    """A lazy array: a view of a storage."""

    __slots__ = ("_type", "_node", "_trace", "_storage", "_steps", "_access", "_version", "user_place", "__weakref__")

    def __init__(self, type: TensorType, storage: Storage, steps: tuple[ViewStep, ...], access: Rights) -> None:
        trace = current()
        if trace is None:
            raise TraceError("a traced array was used outside its trace")
        trace.enter(self)
        self._type, self._trace = type, trace
        self.user_place = user_place()
        self._node: Node | None = None  # the value at `_version`, once somebody has asked for it
        self._storage, self._steps, self._access, self._version = storage, steps, access, storage.version
        if trace.places is not None and not steps:
            trace.places.setdefault(storage.value, self.user_place)

    @property
    def node(self) -> Node:
        """The graph node of this array's present value."""
        self._trace.require(self)
        if self._version != self._storage.version:
            self._rely_on_order()
            self._node, self._version = None, self._storage.version
        self._trace.layouts |= self._storage.doubted()
        if self._node is None:
            self._node = self._storage.read(self._steps)
        self._trace.reads(self._node, self._storage.trace)
        return self._node

    def constant_value(self) -> np.ndarray | None:
        """The value of an array that depends on no input."""
        return value_of(self.node, self._trace.constants)

    def real_array(self, memo: dict[int, Any]) -> Any:
        """What this stands for, where that depends on no input: arrays that share memory with others of `memo` as
        traced ones do."""
        value, constant = value_of(self._storage.value, self._trace.constants), self.constant_value()
        if value is None or constant is None:
            return None
        if self._access is Rights.SCALAR:
            return constant[()]
        if id(self._storage) not in memo:
            layout = self._storage.outline(())
            memo[id(self._storage)] = np.array(value) if layout is None else np.empty_like(layout)
            memo[id(self._storage)][...] = value
        return view_of(memo[id(self._storage)], self._steps)

    def viewed(self, *steps: ViewStep, access: Rights | None = None) -> Tracer:
        """The view `steps` of this array (a copy where NumPy would make one): it shares the memory."""
        if self._access is Rights.SCALAR:
            return wrap(viewed_by(self.node, steps), access)
        if self._version != self._storage.version:
            self._rely_on_order()
        type_, storage, before, reach = self._type, self._storage, self._steps, access or self._access
        for op, attr in steps:
            if changes_nothing(op, attr, type_.shape):
                continue
            after = row("reshape" if op == "flat" else op).type([type_], (attr,))
            if op == "reshape" and always_view(type_.shape, after.shape):
                op = "squeeze"
            if op == "reshape" and not storage.keeps(before, attr):
                storage, before = Storage(tidy.reshape(storage.read(before), attr), origin=storage, layout=IN_ORDER), ()
                reach = access or Rights.WRITABLE
            else:
                before = (*before, (op, attr))
            type_ = after
        return Tracer(type_, storage, before, reach)

    def sliced(self, shape: Shape, steps: Sequence[ViewStep]) -> Tracer:
        """As `viewed`, by slices, flips and squeezes that change something and together give `shape`."""
        if self._access is Rights.SCALAR:
            return wrap(viewed_by(self.node, steps))
        if self._version != self._storage.version:
            self._rely_on_order()
        return Tracer(TensorType(self._type.dtype, shape), self._storage, (*self._steps, *steps), self._access)

    @property
    def layout(self) -> MemoryLayout | None:
        """How the memory that this is a view of is laid out."""
        return self._storage.layout

    def set_layout(self, layout: MemoryLayout | None) -> None:
        """Say how NumPy lays out the new array that this is."""
        if self._steps:  # a view of what an implementation has made on the way
            self._storage, self._steps = Storage(self.node), ()
            self._version = 0
        self._storage.layout = layout

    def as_array(self) -> None:
        """Be an array, of rank 0, where a function gives no scalar."""
        self._access = Rights.WRITABLE

    def is_of(self, others: Sequence[Tracer]) -> bool:
        """Does this share memory with any of `others`?"""
        return any(self._storage is other._storage for other in others)

    def outline(self) -> np.ndarray | None:
        """An array without data that lies as this one does; None where that is not known."""
        return self._storage.outline(self._steps)

    def lying(self) -> np.ndarray:
        """As `outline`, which the trace then relies on."""
        self._trace.layouts |= self._storage.relied()
        outline = self.outline()
        if outline is None:
            raise TraceError("how this view of an array lies in memory is not known: copy it before (x.copy())")
        return outline

    def runs_in_order(self) -> bool:
        """Is this, as far as is known, an array in C order, or a part of one?"""
        return self.layout is not None and self.layout.strides is None and runs_in_order(self._steps)

    def ordered(self, order: str) -> Tracer:
        """This array if it lies in the memory order "C" or "F", else a copy that does."""
        if self._access is Rights.SCALAR:
            return self
        return self._in_place(self.shape) if self._has_no_gaps(order) else self.copy(order, self._storage)

    def raveled(self, order: str = "C") -> Tracer:
        """One axis, as np.ravel: a view of memory without gaps in that order, otherwise a copy."""
        flat = (self.size,)
        if self._access is Rights.SCALAR:
            return self.viewed(("reshape", flat))
        turned = self.in_columns() if order == "F" else self
        if turned._has_no_gaps("C"):
            return turned._in_place(flat)
        return turned.copy("C", self._storage).viewed(("reshape", flat))

    def _has_no_gaps(self, order: str) -> bool:
        """Does the view, as far as is known, lie in one piece in that memory order?"""
        array = self._storage.assumed(self._steps)
        return array is not None and bool(array.flags.f_contiguous if order == "F" else array.flags.c_contiguous)

    def _in_place(self, shape: Shape) -> Tracer:
        """The view in another shape, or in its own, which is one as long as the array lies as it does."""
        type = TensorType(self.dtype, shape)
        return Tracer(type, self._storage, (*self._steps, ("reshape", shape)), self._access)

    def in_columns(self) -> Tracer:
        """The view with all axes reversed."""
        return self.viewed(("transpose", tuple(range(self.ndim))[::-1]))

    def in_read_order(self) -> Tracer:
        """The view whose axes are as the memory order "K" goes through them, which the trace then relies on."""
        return self if is_line(self.shape) else self.viewed(("transpose", tuple(read_order(self.lying()))))

    def assign(self, value: Any) -> None:
        """``self[...] = value``: broadcast to this array's shape and cast to its dtype."""
        if isinstance(value, Tracer) and value._storage is self._storage and value._steps == self._steps:
            return  # x[i] += y assigns to x[i] the view that is already changed
        if self._access is Rights.SCALAR:
            raise DtypeError(f"a NumPy scalar ({self._type}) does not support item assignment")
        if self._access in UNWRITABLE:
            raise TraceError(UNWRITABLE[self._access])
        self._trace.may_write(self._storage.trace, self._storage.shape)
        new = ARRAY_FUNCTIONS["fitted"](value, self._type)
        self._rely_on_order()
        for source, _ in self._storage.origins():
            source.copies.append(self._storage)
            if source.argument is not None:
                self._trace.layouts |= source.relied()
        if self._storage.argument is not None:
            self._trace.written.add(self._storage.argument)
        self._storage.write(self._steps, new)

    def become(self, value: Tracer, casting: str = "same_kind", symbol: str = "") -> None:
        """Take on `value`, as NumPy's ``out=self``: of this shape, cast by the rule `casting`.

        `symbol`: the operator that was written, as in ``x += y``."""
        if broadcast_shapes(value.shape, self.shape) != self.shape:
            raise ShapeError(f"in-place result of shape {value.shape} does not fit into an array of shape {self.shape}")
        if not castable(value.dtype, self.dtype, casting):
            written = f"x {symbol}= y" if symbol else "an in-place call"
            instead = (
                f"x = x {symbol} y, which is a new array, or x[...] = (x {symbol} y).astype(x.dtype)"
                if symbol
                else f"into an array of {value.dtype}, or convert the result: x[...] = result.astype(x.dtype)"
            )
            raise DtypeError(
                f"{written}: the result of {value.dtype} cannot be cast to x of {self.dtype} by the rule {casting!r}. "
                f"Write {instead}"
            )
        self.assign(value)

    def _retake(self, view: Tracer) -> None:
        """Become `view` of this array."""
        if view._storage is not self._storage:
            raise TraceError("assignment to shape would need a copy: use x = x.reshape(...)")
        self._type, self._steps, self._node = view._type, view._steps, None

    def _rely_on_order(self) -> None:
        if "reshape" in [op for op, _ in self._steps]:
            self._trace.layouts |= self._storage.relied()

    # what is known without computing

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance sees: the user's branches on types go the way they go without a trace."""
        return self.dtype.type if self._access is Rights.SCALAR else np.ndarray

    @property
    def scalar(self) -> bool:
        """Would NumPy give a scalar here, rather than an array of rank 0?"""
        return self._access is Rights.SCALAR

    @property
    def writable(self) -> bool:
        return self._access is Rights.WRITABLE

    @property
    def tensor_type(self) -> TensorType:
        return self._type

    @property
    def argument(self) -> int | None:
        """The input whose memory this array is, all of it and not a view."""
        whole = all(step == ("reshape", self._storage.shape) for step in self._steps)  # as `ordered` leaves it
        return self._storage.argument if whole else None

    @property
    def dtype(self) -> np.dtype:
        return self._type.dtype

    @property
    def shape(self) -> Shape:
        return self._type.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._retake(self.reshape(shape))

    @property
    def ndim(self) -> int:
        return len(self._type.shape)

    @property
    def size(self) -> int:
        return self._type.size

    @property
    def itemsize(self) -> int:
        return self._type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self._type.nbytes

    def __repr__(self) -> str:
        return f"Tracer({self._type})"

    # arrays that share this one's memory, or that do not

    @property
    def real(self) -> Tracer:
        return self._part("real") if self.dtype.kind == "c" else self.viewed()

    @real.setter
    def real(self, value: Any) -> None:
        self.real.assign(ARRAY_FUNCTIONS["lift"](value))  # numbers are cast like arrays, whatever the dtype holds

    @property
    def imag(self) -> Tracer:
        if self.dtype.kind == "c":
            return self._part("imag")
        if self.scalar:
            return wrap(const(0, self.dtype))
        return lazy.zeros_like(self).viewed(access=Rights.READ_ONLY)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag.assign(ARRAY_FUNCTIONS["lift"](value))

    def view(self, dtype: Any = None, type: Any = None) -> Tracer:
        """The same memory, read in another dtype of equal width."""
        if type is not None or (isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray)):
            raise UnsupportedOp("view as another class of arrays cannot be traced")
        wanted = self.dtype if dtype is None else tensor_dtype(dtype, "the view")
        if wanted == self.dtype:
            return self.viewed()
        if wanted.itemsize != self.dtype.itemsize:
            raise UnsupportedOp(
                f"a view of {self.dtype} as {wanted} changes the number of elements, which cannot be traced; dtypes of "
                "equal width can"
            )
        if self._access is Rights.SCALAR:
            return wrap(tidy.VIEWS["bitcast"](self.node, wanted))
        step: ViewStep = ("bitcast", wanted)
        return Tracer(TensorType(wanted, self.shape), self._storage, (*self._steps, step), self._access)

    def __eqfuse_stopped__(self) -> Tracer:
        """This array as one that counts as a constant for a derivative."""
        held = held_constant(self.node)
        return self if held is self.node else wrap(held, None if self.scalar else Rights.WRITABLE)

    @staticmethod
    def __eqfuse_differentiated__() -> bool:
        """Is the function that is traced differentiated?"""
        return differentiated() is not None

    def _part(self, op: str) -> Tracer:
        if self._access is Rights.SCALAR:
            return wrap(tidy.complex_part(op, self.node))
        type = row(op).type([self._type], ())
        return Tracer(type, self._storage, (*self._steps, (op, ())), self._access)

    def flattened(self) -> Tracer:
        """The view of one axis, in C order, that NumPy writes through in every memory order."""
        if self._access is Rights.SCALAR:
            return self.viewed(("reshape", (1,)))
        step: ViewStep = ("flat", (self.size,))
        return Tracer(TensorType(self.dtype, (self.size,)), self._storage, (*self._steps, step), self._access)

    def astype(
        self, dtype: Any, order: str | None = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tracer:
        wanted = tensor_dtype(dtype, "astype")
        if not castable(self.dtype, wanted, casting):
            raise DtypeError(f"cannot cast {self.dtype} to {wanted} by the rule {casting!r}")
        if not copy and wanted == self.dtype:
            return self.conforming(memory_order(order, default="K"))
        return wrap(tidy.cast(self.node, wanted), self._access, layout=self._copied(order or "K", wanted))

    def conforming(self, order: str) -> Tracer:
        """This array if it lies in that memory order, else a copy that does."""
        if order == "A":
            return self if self.lying().flags.forc else self.copy("A")
        return self.ordered(order) if order in ("C", "F") else self

    def copy(self, order: str | None = "C", origin: Storage | None = None) -> Tracer:
        access = Rights.SCALAR if self._access is Rights.SCALAR else Rights.WRITABLE
        return Tracer(self._type, Storage(self.node, origin=origin, layout=self._copied(order, self.dtype)), (), access)

    def _copied(self, order: str | None, dtype: np.dtype) -> MemoryLayout | None:
        """How a copy in a memory order lies."""
        order = memory_order(order)
        if order == "C" or is_line(self.shape):
            return IN_ORDER
        if order == "F":
            return MemoryLayout(in_columns(self.shape, dtype.itemsize))
        if self.layout is None or self.runs_in_order():
            return self.layout
        array = self.outline()
        return None if array is None else MemoryLayout(copy_strides(array, order, dtype), self.layout.arguments)


def wrap(value: Node, like: Rights | None = None, layout: MemoryLayout | None = None) -> Tracer:
    """A tracer for `value`, with memory of its own. Of rank 0 it is a scalar, as NumPy's results are, unless `like`."""
    scalar = value.shape == () and like is not Rights.WRITABLE
    memory = Storage(value, layout=IN_ORDER if is_line(value.shape) else layout)
    return Tracer(value.type, memory, (), Rights.SCALAR if scalar else Rights.WRITABLE)


def argument(value: Node, place: int, scalar: bool, strides: Strides = None) -> Tracer:
    """The tracer that stands for an argument of the traced function: the input at `place`."""
    memory = Storage(value, place, layout=MemoryLayout(strides, frozenset({place})))
    return Tracer(value.type, memory, (), Rights.SCALAR if scalar else Rights.WRITABLE)
