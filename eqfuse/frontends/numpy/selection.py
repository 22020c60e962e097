"""``x[mask]`` of a traced mask: how many elements it has depends on data, but what is done to each does not.

In: elementwise work, sums, products and assignments on what a mask selects. Out: the same work on all elements, of
which the mask then chooses: ``x[mask] = f(y[mask])`` is ``where(mask, f(y), x)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.promotion import elementwise, fitted, lift
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.accepted import ARRAY_TYPES
from eqfuse.ops.numpy_names import title

_REDUCTIONS = (
    np.sum, np.mean, np.var, np.std, np.prod, np.any, np.all, np.nansum, np.nanmean, np.nanvar, np.nanstd, np.nanprod,
)  # fmt: skip
_OF_ROWS = (*_REDUCTIONS, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin, np.linalg.norm)
_AXIS_BY_NAME = (np.linalg.norm,)  # whose second parameter is another
_ELEMENTWISE = (
    np.where, np.clip, np.round, np.around, np.fix, np.real, np.imag, np.angle, np.nan_to_num, np.isclose, np.isreal,
    np.iscomplex, np.isposinf, np.isneginf, np.sinc, np.i0, np.select, np.piecewise, np.copy, np.zeros_like,
    np.ones_like, np.empty_like, np.full_like, np.broadcast_arrays,
)  # fmt: skip
_PARTS = (np.real, np.imag)  # which share memory with what they are parts of
_OF_NATURALS = (np.power,)  # where integers as exponents must not be negative, wherever they are selected
_PRODUCTS = (np.matmul, np.dot)
_TAKING_LISTS = (np.select, np.piecewise)  # of arrays that each meet the others
_OF_ONE = {np.interp: 0, np.digitize: 0, np.isin: 0, np.searchsorted: 1, np.polyval: 1}  # elementwise in this argument
_OF_DTYPES = (np.result_type, np.can_cast, np.common_type, np.min_scalar_type, np.iscomplexobj, np.isrealobj)


def _method(function: Any) -> Callable[..., Any]:
    def call(self: Selection, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return call


def _unknown(what: str) -> Callable[..., Any]:
    def call(self: Selection, *_: Any, **__: Any) -> NoReturn:
        raise _depends_on_data(what)

    return call


def _depends_on_data(what: str) -> TraceError:
    return TraceError(
        f"{what} of x[mask] with a traced mask: the result's shape would depend on data. Elementwise work, sums, "
        "means, any, all and x[mask] = ... can be traced; for the rest use np.where(mask, x, fill), "
        "np.count_nonzero(mask), or np.max(x, where=mask, initial=...)"
    )


class Selection(NDArrayOperatorsMixin):
    """The elements of `values` where `mask`, which stands for the leading axes, is true."""

    __hash__ = None  # type: ignore[assignment]
    device = "cpu"

    def __init__(self, values: Tracer, mask: Tracer, writable: bool = True) -> None:
        self.values, self.mask, self.writable = values, mask, writable
        self.no_result = _depends_on_data("return")  # made here, where the user's line is known

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return self.values.ndim - self.mask.ndim + 1

    @property
    def spread(self) -> Tracer:
        """The mask in the shape of the values."""
        return self.mask.reshape(self.mask.shape + (1,) * (self.ndim - 1))

    def is_by(self, mask: Tracer) -> bool:
        """Is it `mask` that selects?"""
        return self.mask.node is mask.node

    def astype(
        self, dtype: Any, order: str | None = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Selection:
        values = self.values.astype(dtype, order, casting)
        return self if not copy and values.dtype == self.dtype else Selection(values, self.mask)

    def copy(self, order: str | None = "C") -> Selection:
        return Selection(self.values.copy(), self.mask)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        raise _depends_on_data(name)

    sum, mean, var, std = (_method(f) for f in (np.sum, np.mean, np.var, np.std))
    prod, any, all = (_method(f) for f in (np.prod, np.any, np.all))
    clip, round, conj, conjugate = (_method(f) for f in (np.clip, np.round, np.conjugate, np.conjugate))
    real, imag = property(_method(np.real)), property(_method(np.imag))
    shape, size, T = (property(_unknown(name)) for name in ("shape", "size", "T"))
    __len__, __iter__, __bool__ = (_unknown(name) for name in ("len()", "iteration", "truth value"))
    __array__, max, min = _unknown("np.asarray()"), _unknown("max"), _unknown("min")

    def __getitem__(self, key: Any) -> Selection:
        return self if self._is_all(key) else Selection(self.values.copy(), self._mask_within(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        mask = self.mask if self._is_all(key) else self._mask_within(key)
        within = Selection(self.values, mask)
        new = within._aligned("assignment", value)
        self._become(elementwise("where", within.spread, wrap(fitted(new, self.values.tensor_type)), self.values))

    def _become(self, values: Tracer) -> None:
        if not self.writable:
            raise TraceError("a write into the real or imaginary part of x[mask] would have to change x[mask]")
        self.values = values

    @staticmethod
    def _is_all(key: Any) -> bool:
        return key is Ellipsis or (isinstance(key, slice) and key == slice(None))

    def _mask_within(self, key: Any) -> Tracer:
        """The mask of what `key`, a mask of what is selected, selects of it."""
        if not isinstance(key, Selection) or key.dtype.kind != "b" or key.ndim != 1 or not key.is_by(self.mask):
            raise _depends_on_data("indexing")
        return self.mask & key.values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if ufunc in _PRODUCTS and method == "__call__" and out is None and not kwargs:
            return _product(title(ufunc), *inputs)
        if ufunc.signature is not None or method != "__call__" or (out is not None and out[0] is not self):
            raise _depends_on_data(title(ufunc))
        align = partial(self._aligned, title(ufunc))
        operands = [align(i) for i in inputs]
        if ufunc in _OF_NATURALS and isinstance(inputs[1], Selection) and inputs[1].dtype.kind == "i":
            operands[1] = inputs[1].filled(1)
        values = ufunc(*operands, **{key: align(value) for key, value in kwargs.items()})
        if out is None:
            return self._selected(values)
        self._become(values.astype(self.dtype, casting="same_kind"))
        return self

    def __array_function__(self, function: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        name = title(function)
        align = partial(self._aligned, name)
        if function in _PRODUCTS and len(args) == 2 and not kwargs:
            return _product(name, *args)
        if function in _OF_DTYPES:
            return function(*(a.values if isinstance(a, Selection) else a for a in args), **kwargs)
        if function in _ELEMENTWISE and kwargs.get("out") is None and kwargs.get("shape") is None:
            lists = list if function in _TAKING_LISTS else ()
            aligned = [[*map(align, a)] if isinstance(a, lists) else align(a) for a in args]
            values = function(*aligned, **{key: align(value) for key, value in kwargs.items()})
            return Selection(values, self.mask, writable=False) if function in _PARTS else self._selected(values)
        if function in _OF_ONE and len(args) > _OF_ONE[function] and args[_OF_ONE[function]] is self:
            place = _OF_ONE[function]
            return self._selected(function(*args[:place], self.values, *args[place + 1 :], **kwargs))
        if function in _IN_OTHERS and len(args) == 1 and args[0] is self and not kwargs:
            return _IN_OTHERS[function](self)
        return self._reduced(function, args, dict(kwargs))

    def _reduced(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Over all that is selected, over its first axis, or over the axis `axis` of each of its rows."""
        positions = () if function in _AXIS_BY_NAME or "axis" in kwargs else ("axis",)
        if not args or args[0] is not self or len(args) > 1 + len(positions):
            raise _depends_on_data(title(function))
        kwargs |= dict(zip(positions, args[1:], strict=False))
        axis = kwargs.pop("axis", None)
        if function in _OF_ROWS and isinstance(axis, int) and axis % self.ndim and -self.ndim < axis < self.ndim:
            return self._selected(function(self.values, axis=axis - self.ndim if axis > 0 else axis, **kwargs))
        if function not in _REDUCTIONS or axis not in (None, 0):
            raise _depends_on_data(title(function))
        leading = tuple(range(self.mask.ndim)) if axis == 0 else None
        mask = np.broadcast_to(self.spread, self.values.shape)
        return function(self.values, axis=leading, where=mask, **kwargs)

    def _aligned(self, name: str, value: Any) -> Any:
        """`value` as it meets the values: another selection by this mask, or what broadcasts behind the mask's axes."""
        if isinstance(value, Selection):
            if not value.is_by(self.mask) or value.ndim != self.ndim:
                raise TraceError(f"{name} of selections that differ: whether they fit together depends on data")
            return value.values
        if value is None or isinstance(value, (bool, int, float, complex, str, type, np.dtype)) or callable(value):
            return value
        if lift(value).ndim >= self.ndim:
            raise _depends_on_data(f"{name} with an array of shape {lift(value).shape}")
        return value

    def _selected(self, values: Any) -> Any:
        """Of all elements `values`, those that the mask selects."""
        return tuple(map(self._selected, values)) if isinstance(values, (tuple, list)) else Selection(values, self.mask)

    def filled(self, value: int) -> Tracer:
        """The values, `value` where the mask is not true."""
        return elementwise("where", self.spread, self.values, self.dtype.type(value))

    def in_one_axis(self) -> Tracer:
        """The values, 0 where the mask is not true, the axes of the mask as one."""
        return self.filled(0).reshape((-1, *self.values.shape[self.mask.ndim :]))


def _norm(selection: Selection) -> Any:
    if selection.ndim > 1:
        raise _depends_on_data("np.linalg.norm")
    return np.sqrt(np.sum(np.square(np.abs(selection) * 1.0)))


_IN_OTHERS: dict[Any, Callable[[Selection], Any]] = {  # of all that is selected, in functions above
    np.count_nonzero: lambda selection: np.sum(selection != 0), np.average: lambda selection: np.mean(selection),
    np.linalg.norm: _norm,
}  # fmt: skip


def _product(name: str, left: Any, right: Any) -> Any:
    """A product of each row that is selected, or along the axis that the same mask selects of both."""
    if isinstance(left, Selection) and isinstance(right, Selection):
        if left.is_by(right.mask) and left.ndim == 1 and right.ndim < 3:
            return left.in_one_axis() @ right.in_one_axis()
    elif isinstance(left, Selection) and left.ndim > 1 and lift(right).ndim in (1, 2):
        return Selection(left.values @ right, left.mask)
    raise _depends_on_data(name)


ARRAY_TYPES.add(Selection)  # which itself refuses to be converted


def assigned(view: Tracer, mask: Tracer, selection: Selection) -> Tracer:
    """`view` after ``view[mask] = selection``."""
    if not selection.is_by(mask):
        raise TraceError("x[mask] = y[other mask]: whether they have equally many elements depends on data")
    return elementwise("where", selection.spread, selection.values.astype(view.dtype), view)
