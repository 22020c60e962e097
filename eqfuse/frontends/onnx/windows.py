"""ONNX convolutions and pooling.

In: calls of rows from `nodes.py`. Out: traced arrays, by `eqfuse.functions` where its windows suffice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqfuse import functions as f
from eqfuse.dtypes import lowest
from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import ints, need_shape, one_of, operator
from eqfuse.functions import apply

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def _pads(auto_pad: str, pads: Ints, extents: Ints, reach: Ints, strides: Ints) -> Pads:
    """(before, after) per axis. "SAME" pads so that an axis of n elements gives ceil(n / stride)."""
    one_of(auto_pad, ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"), "auto_pad")
    if auto_pad in ("NOTSET", ""):
        amounts = per_axis(pads, 2 * len(extents), 0, "pads")
        return tuple(zip(amounts[: len(extents)], amounts[len(extents) :], strict=True))
    if auto_pad == "VALID":
        return ((0, 0),) * len(extents)
    padding = []
    for n, k, s in zip(extents, reach, strides, strict=True):
        both = max((-(-n // s) - 1) * s + k - n, 0)
        padding.append((both // 2, both - both // 2) if auto_pad == "SAME_UPPER" else (both - both // 2, both // 2))
    return tuple(padding)


def per_axis(attribute: Ints, count: int, otherwise: int, what: str) -> Ints:
    """The numbers that an attribute gives, `count` of them; `otherwise`, the least there is, where it is left out."""
    if attribute and len(attribute) != count:
        raise ShapeError(f"{what} has {len(attribute)} numbers instead of {count}")
    if any(n < otherwise for n in attribute):
        raise ShapeError(f"{what} is {attribute}, with a number less than {otherwise}")
    return attribute or (otherwise,) * count


def _reach(window: Ints, dilations: Ints) -> Ints:
    return tuple((k - 1) * d + 1 for k, d in zip(window, dilations, strict=True))


@operator("Conv")
def conv(
    x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1,
    kernel_shape: Ints = (), pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    spatial = x.ndim - 2
    if kernel_shape and kernel_shape != w.shape[2:]:
        raise ShapeError(f"kernel_shape is {kernel_shape}, the weights have {w.shape[2:]}")
    strides, dilations = per_axis(strides, spatial, 1, "strides"), per_axis(dilations, spatial, 1, "dilations")
    padding = _pads(auto_pad, pads, x.shape[2:], _reach(w.shape[2:], dilations), strides)
    return f.conv(x, w, bias, stride=strides, padding=padding, dilation=dilations, groups=group)


@operator("ConvTranspose")
def conv_transpose(
    x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1,
    kernel_shape: Ints = (), output_padding: Ints = (), output_shape: Ints = (), pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    """The convolution that takes the output's gradient to the input's: by phases, or where there are dilations too,
    with zeros between the elements and the flipped weights."""
    spatial = x.ndim - 2
    strides, dilations = per_axis(strides, spatial, 1, "strides"), per_axis(dilations, spatial, 1, "dilations")
    extra = per_axis(output_padding, spatial, 0, "output_padding")
    reach = _reach(w.shape[2:], dilations)
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, reach, strict=True)]
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = output_shape[-spatial:] or tuple(n * s for n, s in zip(x.shape[2:], strides, strict=True))
        both = [n + e - m for n, e, m in zip(full, extra, wanted, strict=True)]
        small = [p // 2 for p in both]
        upper = auto_pad != "SAME_LOWER" if not output_shape else auto_pad == "SAME_UPPER"
        padding = [(a, p - a) if upper else (p - a, a) for a, p in zip(small, both, strict=True)]
    else:
        padding = list(_pads(auto_pad, pads, x.shape[2:], reach, strides))
    if any(s > 1 for s in strides) and all(d == 1 for d in dilations):
        axes = [
            _TransposedAxis(n, k, stride, before, whole + e - before - after)
            for n, k, stride, (before, after), whole, e in zip(
                x.shape[2:], w.shape[2:], strides, padding, full, extra, strict=True
            )
        ]
        return _by_phases(x, w, bias, group, axes)
    if any(s > 1 for s in strides):
        spaced = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True)]
        apart = lift(np.zeros((*x.shape[:2], *spaced), x.dtype)).copy()
        apart[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
        x = apart
    widths = [(k - 1 - a, k - 1 - b + e) for k, (a, b), e in zip(reach, padding, extra, strict=True)]
    crop = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape[2:], strict=True))
    if any(a < 0 or b < 0 for a, b in widths):
        x = x[(slice(None), slice(None), *crop)]
    flipped = lazy.flip(w, tuple(range(2, w.ndim)))
    turned = lazy.swapaxes(flipped.reshape(group, w.shape[0] // group, *w.shape[1:]), 1, 2)
    turned = turned.reshape(group * w.shape[1], w.shape[0] // group, *w.shape[2:])
    kept = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    return f.conv(x, turned, bias, padding=kept, dilation=dilations, groups=group)


@dataclass(frozen=True)
class _TransposedAxis:
    """An axis of a transposed convolution: of its results, `before` are left out and `results` follow."""

    extent: int
    window: int
    stride: int
    before: int
    results: int

    @property
    def taps(self) -> int:
        """The most elements that meet in a result."""
        return -(-self.window // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros around the elements, or elements left out, for the results of each phase."""
        first, end = self.before // self.stride, -(-(self.before + self.results) // self.stride)
        return self.taps - 1 - first, end - self.extent

    @property
    def elements(self) -> slice:
        before, after = self.padding
        return slice(max(-before, 0), self.extent + min(after, 0))

    @property
    def kept(self) -> slice:
        first = self.before % self.stride
        return slice(first, first + self.results)


def _by_phases(x: Any, w: Any, bias: Any, group: int, axes: Sequence[_TransposedAxis]) -> Any:
    """A transposed convolution without zeros between elements: every s-th result, with the weights that meet elements
    there, is a convolution of steps of 1, a phase. All phases are filters of one convolution."""
    need_shape(bias, (group * w.shape[1],), "the bias")
    spatial, strides, taps = len(axes), [a.stride for a in axes], [a.taps for a in axes]
    whole = lazy.pad(w, [(0, 0), (0, 0), *((0, a.taps * a.stride - a.window) for a in axes)])
    split = [n for a in axes for n in (a.taps, a.stride)]
    parts = whole.reshape(group, w.shape[0] // group, w.shape[1], *split)
    by_tap = tuple(range(3, 3 + 2 * spatial, 2))
    parts = lazy.transpose(lazy.flip(parts, by_tap), (0, 2, *(a + 1 for a in by_tap), 1, *by_tap))
    filters = parts.reshape(group * w.shape[1] * math.prod(strides), w.shape[0] // group, *taps)
    padding = tuple((max(before, 0), max(after, 0)) for before, after in (a.padding for a in axes))
    y = f.conv(x[(slice(None), slice(None), *(a.elements for a in axes))], filters, padding=padding, groups=group)
    phases = y.reshape(x.shape[0], group * w.shape[1], *strides, *y.shape[2:])
    joined = lazy.transpose(phases, (0, 1, *(a for i in range(2, 2 + spatial) for a in (i + spatial, i))))
    joined = joined.reshape(*joined.shape[:2], *(n * s for n, s in zip(y.shape[2:], strides, strict=True)))
    joined = joined[(slice(None), slice(None), *(a.kept for a in axes))]
    return joined if bias is None else joined + bias.reshape(-1, *[1] * spatial)


# ---- pooling


class _Window:
    """Where the windows of a pooling operator lie."""

    def __init__(
        self, x: Any, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, auto_pad: str, ceil_mode: int
    ) -> None:
        spatial = x.ndim - 2
        self.kernel = per_axis(kernel, spatial, 1, "kernel_shape")
        self.strides = per_axis(strides, spatial, 1, "strides")
        self.dilations = per_axis(dilations, spatial, 1, "dilations")
        reach = _reach(kernel, self.dilations)
        self.pads = _pads(auto_pad, pads, x.shape[2:], reach, self.strides)  # the operator's own
        padding = []
        for n, k, s, (a, b) in zip(x.shape[2:], reach, self.strides, self.pads, strict=True):
            room = n + a + b - k
            count = -(-room // s) if ceil_mode else room // s
            if ceil_mode and count * s >= n + a:  # a window must begin within the array or the padding before it
                count -= 1
            padding.append((a, max(count * s + k - n - a, b)))
        self.padding: Pads = tuple(padding)  # with what ceil_mode adds behind

    @property
    def is_in_table(self) -> bool:
        """Is this one of the windows of the operator table?"""
        return all(d == 1 for d in self.dilations) and all(
            a < k and b < k for k, (a, b) in zip(self.kernel, self.padding, strict=True)
        )

    def padded(self, x: Any, fill: Any) -> Any:
        return lazy.pad(x, ((0, 0), (0, 0), *self.padding), constant_values=fill)

    def views(self, x: Any) -> Any:
        """[n, c, *positions, *window] of a padded array."""
        reach = _reach(self.kernel, self.dilations)
        axes = tuple(range(2, x.ndim))
        view = lazy.lib.stride_tricks.sliding_window_view(x, reach, axis=axes)
        steps = [slice(None, None, s) for s in self.strides]
        return view[(slice(None), slice(None), *steps, *(slice(None, None, d) for d in self.dilations))]

    def sum(self, x: Any) -> Any:
        if self.is_in_table:
            return apply("window_sum", (x,), (self.kernel, self.strides, self.padding))
        return lazy.sum(self.views(self.padded(x, 0)), tuple(range(-len(self.kernel), 0)), dtype=x.dtype)

    def max(self, x: Any) -> Any:
        if self.is_in_table:
            return apply("window_max", (x,), (self.kernel, self.strides, self.padding))
        return lazy.max(self.views(self.padded(x, lowest(x.dtype))), tuple(range(-len(self.kernel), 0)))

    def count(self, extents: Ints, include_pad: int) -> np.ndarray:
        """How many elements each window covers, with or without those of the operator's own padding."""
        ones = np.ones((1, 1, *extents))
        inside = [(0, 0), (0, 0), *(self.pads if include_pad else ((0, 0),) * len(extents))]
        counted = np.pad(ones, inside, constant_values=1)
        beyond = [
            (0, after - own) if include_pad else (before, after)
            for (before, after), (_, own) in zip(self.padding, self.pads, strict=True)
        ]
        counted = np.pad(counted, [(0, 0), (0, 0), *beyond])
        reach = _reach(self.kernel, self.dilations)
        view = sliding_window_view(counted, reach, axis=tuple(range(2, counted.ndim)))
        steps = [slice(None, None, s) for s in self.strides]
        view = view[(slice(None), slice(None), *steps, *(slice(None, None, d) for d in self.dilations))]
        return view.sum(axis=tuple(range(-len(self.kernel), 0)))


@operator("MaxPool")
def max_pool(
    x: Any, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = (),
    pads: Ints = (), storage_order: int = 0, strides: Ints = (), outputs: int = 1,
) -> Any:  # fmt: skip
    window = _Window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    if outputs == 1:
        return window.max(x)
    one_of(storage_order, (0, 1), "storage_order")
    places = np.arange(math.prod(x.shape[2:]))
    own = places.reshape(x.shape[:1:-1]).T if storage_order else places.reshape(x.shape[2:])
    places = np.broadcast_to(own, x.shape) + math.prod(x.shape[2:]) * np.arange(math.prod(x.shape[:2])).reshape(
        *x.shape[:2], *(1,) * (x.ndim - 2)
    )
    least = lowest(x.dtype)
    values, indices = window.views(window.padded(x, least)), window.views(window.padded(lift(places), -1))
    flat = (*values.shape[: x.ndim], math.prod(kernel_shape))
    values, indices = values.reshape(flat), indices.reshape(flat)
    first = lazy.argmax(values, -1, keepdims=True)
    if any(pair != (0, 0) for pair in window.padding):  # where nothing is larger, the first that is no padding
        none = lazy.take_along_axis(values, first, -1) == least
        first = f.where(none, lazy.argmax(indices >= 0, -1, keepdims=True), first)
    return window.max(x), lazy.take_along_axis(indices, first, -1)[..., 0].astype(np.int64)


@operator("AveragePool")
def average_pool(
    x: Any, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Ints = (), pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    window = _Window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    count = window.count(x.shape[2:], count_include_pad)
    if (count == count.flat[0]).all():
        return window.sum(x) / float(count.flat[0])
    return window.sum(x) / count.astype(x.dtype)


@operator("LpPool")
def lp_pool(
    x: Any, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = (), p: int = 2,
    pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    window = _Window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return _root(window.sum(np.abs(x) ** p), p)


def _root(x: Any, p: int) -> Any:
    return x if p == 1 else lazy.sqrt(x) if p == 2 else x ** (1 / p)


def _spatial(x: Any) -> Ints:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(x: Any) -> Any:
    return lazy.mean(x, _spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Any) -> Any:
    return lazy.max(x, _spatial(x), keepdims=True)


@operator("GlobalLpPool", since=2)
def global_lp_pool(x: Any, *, p: int = 2) -> Any:
    return _root(lazy.sum(np.abs(x) ** p, _spatial(x), keepdims=True), p)


@operator("MaxUnpool")
def max_unpool(
    x: Any, places: Any, output_shape: Any = None, *, kernel_shape: Ints, pads: Ints = (), strides: Ints = ()
) -> Any:
    """Zeros, with the elements of `x` at `places` of the flattened unpooled array."""
    spatial = x.ndim - 2
    strides, pads = per_axis(strides, spatial, 1, "strides"), per_axis(pads, 2 * spatial, 0, "pads")
    own = tuple(
        (n - 1) * s + k - a - b
        for n, s, k, a, b in zip(x.shape[2:], strides, kernel_shape, pads[:spatial], pads[spatial:], strict=True)
    )
    shape = (*x.shape[:2], *own)
    need_shape(places, x.shape, "where the elements go")
    flat = lift(np.zeros(math.prod(shape), x.dtype)).copy()
    flat[places.reshape(-1)] = x.reshape(-1)
    y = flat.reshape(shape)
    if output_shape is None:
        return y
    wanted = ints(output_shape, "the output shape")
    if any(m < n for m, n in zip(wanted, shape, strict=True)):
        raise UnsupportedOp(f"MaxUnpool to {wanted}, which is smaller than {shape}")
    return lazy.pad(y, [(0, m - n) for m, n in zip(wanted, shape, strict=True)])


@operator("Col2Im")
def col2im(
    x: Any, image: Any, block: Any, *, dilations: Ints = (), pads: Ints = (), strides: Ints = ()
) -> Any:
    """The columns of blocks added up where they lie in the image."""
    extents, kernel = ints(image, "the image shape"), ints(block, "the block shape")
    spatial = len(extents)
    dilations, strides = per_axis(dilations, spatial, 1, "dilations"), per_axis(strides, spatial, 1, "strides")
    padding = _pads("NOTSET", pads, extents, kernel, strides)
    padded = [n + a + b for n, (a, b) in zip(extents, padding, strict=True)]
    reach = _reach(kernel, dilations)
    counts = [(n - k) // s + 1 for n, k, s in zip(padded, reach, strides, strict=True)]
    columns = x.reshape(x.shape[0], -1, *kernel, *counts)
    y = lift(np.zeros((*columns.shape[:2], *padded), x.dtype)).copy()
    for offset in np.ndindex(*kernel):
        where = [
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(offset, dilations, counts, strides, strict=True)
        ]
        y[(slice(None), slice(None), *where)] += columns[(slice(None), slice(None), *offset)]
    return y[(slice(None), slice(None), *_inside(padding, padded))]


def _inside(padding: Pads, padded: Sequence[int]) -> list[slice]:
    return [slice(a, n - b) for (a, b), n in zip(padding, padded, strict=True)]
