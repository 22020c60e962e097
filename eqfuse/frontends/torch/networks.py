"""torch's convolutions and their gradients.

In: calls of rows from `nodes.py`. Out: traced arrays, by `eqfuse.functions`. Normalisations are decomposed by torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqfuse import functions as f
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.windows import conv_transpose
from eqfuse.frontends.torch.table import aten, insist, per_spatial_axis, wide

Ints = Sequence[int]


@aten("convolution")
def convolution_either_way(
    input: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    output_padding: Ints, groups: int,
) -> Any:  # fmt: skip
    x, w = input.astype(wide(input.dtype)), weight.astype(wide(weight.dtype))
    bias = None if bias is None else bias.astype(x.dtype)
    spatial = w.ndim - 2
    insist(spatial > 0 and x.ndim == w.ndim, "a convolution without a batch")
    steps, gaps, edges = (per_spatial_axis(numbers, spatial) for numbers in (stride, dilation, padding))
    if not transposed:
        return f.conv(x, w, bias, stride=steps, padding=edges, dilation=gaps, groups=groups)
    return conv_transpose(
        x, w, bias, group=groups, strides=steps, dilations=gaps, pads=edges * 2,
        output_padding=per_spatial_axis(output_padding, spatial),
    )  # fmt: skip


@aten("convolution_backward")
def convolution_backward(
    grad_output: Any, input: Any, weight: Any, bias_sizes: Ints | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    insist(not transposed, "the gradient of a transposed convolution")
    dtype = wide(grad_output.dtype)
    grad, x, w = (v.astype(dtype) for v in (grad_output, input, weight))
    spatial = w.ndim - 2
    steps, gaps, edges = (per_spatial_axis(numbers, spatial) for numbers in (stride, dilation, padding))
    of_input = _of_input(grad, x, w, steps, edges, gaps, groups) if output_mask[0] else None
    of_weight = _of_weight(grad, x, w, steps, edges, gaps, groups) if output_mask[1] else None
    of_bias = lazy.sum(grad, (0, *range(2, grad.ndim))) if output_mask[2] else None
    return of_input, of_weight, of_bias


def _of_input(grad: Any, x: Any, w: Any, steps: Any, edges: Any, gaps: Any, groups: int) -> Any:
    """The transposed convolution, as far as the input reaches."""
    rest = tuple(
        n - ((m - 1) * s + (k - 1) * d + 1 - 2 * p)
        for n, m, k, s, d, p in zip(x.shape[2:], grad.shape[2:], w.shape[2:], steps, gaps, edges, strict=True)
    )
    return conv_transpose(
        grad, w, group=groups, strides=steps, dilations=gaps, pads=edges * 2, output_padding=rest
    )  # fmt: skip


def _of_weight(grad: Any, x: Any, w: Any, steps: Any, edges: Any, gaps: Any, groups: int) -> Any:
    """The input convolved with the gradient: samples are summed as channels are, steps and gaps change roles."""
    n, own = x.shape[0], x.shape[1] // groups
    images = lazy.moveaxis(x.reshape(n, groups, own, *x.shape[2:]), (2, 1), (0, 1))  # own, groups, n
    images = images.reshape(own, groups * n, *x.shape[2:])
    kernels = lazy.swapaxes(grad, 0, 1)
    y = f.conv(images, kernels, stride=gaps, padding=edges, dilation=steps, groups=groups)
    y = y[(slice(None), slice(None), *(slice(k) for k in w.shape[2:]))]
    return lazy.swapaxes(y, 0, 1)
