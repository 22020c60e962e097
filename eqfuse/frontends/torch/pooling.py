"""torch's pooling: windows of two spatial axes, their largest elements and means, and the gradients of these.

In: calls of rows from `nodes.py`. Out: traced arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.torch.table import aten, insist, per_spatial_axis, wide

Ints = Sequence[int]


def _last_axes_as_batch(x: Any) -> Any:
    """`x[n, c, h, w]`; a batch of one where there is none."""
    return x if x.ndim == 4 else x[None]


def _covered(x: Any, window: Ints, steps: Ints, edges: Ints, ceil_mode: bool) -> list[tuple[int, int]]:
    """(before, after) per axis; with `ceil_mode` the last window may reach beyond the padding after."""
    widths = []
    for n, k, s, p in zip(x.shape[2:], window, steps, edges, strict=True):
        room = n + 2 * p - k
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + p:
            count += 1
        widths.append((p, max((count - 1) * s + k - n - p, 0)))
    return widths


@aten("max_pool2d_with_indices")
def max_pool2d(
    x: Any, kernel_size: Ints, stride: Ints = (), padding: Ints | int = 0, dilation: Ints | int = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    insist(set(per_spatial_axis(dilation, 2)) == {1}, "pooling with gaps in its windows")
    insist(kind(x.dtype) == "f", "pooling of integers")
    window, edges = per_spatial_axis(kernel_size, 2), per_spatial_axis(padding, 2)
    steps = per_spatial_axis(stride, 2) if stride else window
    images = _last_axes_as_batch(x)
    widths = _covered(images, window, steps, edges, ceil_mode)
    largest = f.max_pool(images, window, stride=steps, padding=widths)
    places = _largest_places(images, window, steps, widths)
    return (largest, places) if x.ndim == 4 else (largest[0], places[0])


def _largest_places(x: Any, window: Ints, steps: Ints, widths: Sequence[tuple[int, int]]) -> Any:
    """Where the largest element of each window lies in its image, whose elements are counted row by row."""
    low = lift(np.asarray(-np.inf).astype(x.dtype))
    padded = lazy.pad(x, [(0, 0), (0, 0), *widths], constant_values=low)
    windows = sliding_window_view(padded, tuple(window), axis=(2, 3))[:, :, :: steps[0], :: steps[1]]
    first = lazy.argmax(windows.reshape(*windows.shape[:4], math.prod(window)), -1)
    rows = (np.arange(windows.shape[2]) * steps[0] - widths[0][0])[:, None] + first // window[1]
    columns = np.arange(windows.shape[3]) * steps[1] - widths[1][0] + first % window[1]
    return rows * x.shape[3] + columns


@aten("max_pool2d_with_indices_backward")
def max_pool2d_backward(
    grad_output: Any, x: Any, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool,
    indices: Any,
) -> Any:  # fmt: skip
    lead, spatial = x.shape[:-2], x.shape[-2:]
    count, size = math.prod(lead), math.prod(spatial)
    grad = grad_output.astype(wide(grad_output.dtype)).reshape(count, -1)
    y = lazy.zeros_like(grad, shape=(count, size))
    np.add.at(y, (np.arange(count)[:, None], indices.reshape(count, -1)), grad)
    return y.reshape(x.shape)


@aten("avg_pool2d")
def avg_pool2d(
    x: Any, kernel_size: Ints, stride: Ints = (), padding: Ints | int = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    insist(not ceil_mode, "average pooling with ceil_mode")
    window, edges = per_spatial_axis(kernel_size, 2), per_spatial_axis(padding, 2)
    insist(count_include_pad or not any(edges), "average pooling that does not count the padding")
    images = _last_axes_as_batch(x.astype(wide(x.dtype)))
    y = f.avg_pool(images, window, stride=per_spatial_axis(stride, 2) if stride else window, padding=edges)
    y = y if divisor_override is None else y * (math.prod(window) / divisor_override)
    return y if x.ndim == 4 else y[0]


@aten("avg_pool2d_backward")
def avg_pool2d_backward(
    grad_output: Any, x: Any, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    insist(not ceil_mode, "average pooling with ceil_mode")
    window, edges = per_spatial_axis(kernel_size, 2), per_spatial_axis(padding, 2)
    insist(count_include_pad or not any(edges), "average pooling that does not count the padding")
    steps = per_spatial_axis(stride, 2) if stride else window
    grad = grad_output.astype(wide(grad_output.dtype)) / (divisor_override or math.prod(window))
    padded = (*x.shape[:-2], *(n + 2 * p for n, p in zip(x.shape[-2:], edges, strict=True)))
    y = lazy.zeros_like(grad, shape=padded)
    rows, columns = grad.shape[-2:]
    for i in range(window[0]):
        for j in range(window[1]):
            y[..., i : i + rows * steps[0] : steps[0], j : j + columns * steps[1] : steps[1]] += grad
    inside = (slice(p, p + n) for n, p in zip(x.shape[-2:], edges, strict=True))
    return y[(..., *inside)]


@aten("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(x: Any, output_size: Ints) -> Any:
    insist(all(n % m == 0 for n, m in zip(x.shape[-2:], output_size, strict=True)), "windows of several sizes")
    rows, columns = output_size
    parts = x.astype(wide(x.dtype)).reshape(
        *x.shape[:-2], rows, x.shape[-2] // rows, columns, x.shape[-1] // columns
    )  # fmt: skip
    return lazy.mean(parts, (-3, -1))


@aten("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(grad_output: Any, x: Any) -> Any:
    rows, columns = grad_output.shape[-2:]
    insist(x.shape[-2] % rows == 0 and x.shape[-1] % columns == 0, "windows of several sizes")
    high, broad = x.shape[-2] // rows, x.shape[-1] // columns
    grad = grad_output.astype(wide(grad_output.dtype)) / (high * broad)
    return lazy.broadcast_to(grad[..., :, None, :, None], (*grad.shape[:-1], high, columns, broad)).reshape(x.shape)
