"""``x[mask]`` of a traced mask: how many elements it has depends on data, but what is done to each does not.

In: elementwise work, sums and assignments on what a mask selects. Out: the same work on all elements, of which the mask
then chooses: ``x[mask] = f(y[mask])`` is ``where(mask, f(y), x)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.tracer import Tracer
from eqfuse.ir.accepted import ARRAY_TYPES
from eqfuse.ops.numpy_names import title

_REDUCTIONS = (np.sum, np.mean, np.var, np.std, np.prod, np.any, np.all)


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

    def __init__(self, values: Tracer, mask: Tracer) -> None:
        self.values, self.mask = values, mask
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

    def astype(self, dtype: Any) -> Selection:
        return Selection(self.values.astype(dtype), self.mask)

    def copy(self) -> Selection:
        return Selection(self.values.copy(), self.mask)

    sum, mean, var, std = (_method(f) for f in (np.sum, np.mean, np.var, np.std))
    prod, any, all = (_method(f) for f in (np.prod, np.any, np.all))
    shape, size, T = (property(_unknown(name)) for name in ("shape", "size", "T"))
    __len__, __iter__, __bool__, __getitem__ = (_unknown(n) for n in ("len()", "iteration", "truth value", "indexing"))
    __array__, max, min = _unknown("np.asarray()"), _unknown("max"), _unknown("min")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method != "__call__" or (out is not None and out[0] is not self):
            raise _depends_on_data(title(ufunc))
        values = ufunc(*(self._aligned(title(ufunc), i) for i in inputs), **kwargs)
        if out is None:
            return (
                tuple(Selection(v, self.mask) for v in values)
                if isinstance(values, tuple)
                else Selection(values, self.mask)
            )
        self.values = values.astype(self.dtype, casting="same_kind")
        return self

    def __array_function__(self, function: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        axis = kwargs.pop("axis", args[1] if len(args) == 2 else None)
        if function not in _REDUCTIONS or args[0] is not self or len(args) > 2 or axis not in (None, 0):
            raise _depends_on_data(title(function))
        leading = tuple(range(self.mask.ndim)) if axis == 0 else None
        mask = np.broadcast_to(self.spread, self.values.shape)
        return function(self.values, axis=leading, where=mask, **kwargs)

    def _aligned(self, name: str, value: Any) -> Any:
        """`value` as it meets the values: another selection by this mask, or what broadcasts behind the mask's axes."""
        if isinstance(value, Selection):
            if not value.is_by(self.mask):
                raise TraceError(f"{name} of selections by two masks: whether they fit together depends on data")
            return value.values
        if not isinstance(value, (bool, int, float, complex)) and lift(value).ndim >= self.ndim:
            raise _depends_on_data(f"{name} with an array of shape {lift(value).shape}")
        return value


ARRAY_TYPES.add(Selection)  # which itself refuses to be converted


def assigned(view: Tracer, mask: Tracer, selection: Selection) -> Tracer:
    """`view` after ``view[mask] = selection``."""
    if not selection.is_by(mask):
        raise TraceError("x[mask] = y[other mask]: whether they have equally many elements depends on data")
    return elementwise("where", selection.spread, selection.values.astype(view.dtype), view)
