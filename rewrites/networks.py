"""Laws of convolutions: what is known at build time folds into the weights, and what is a product is one.

In: nothing. Out: `LAWS`. Batch norm is ``(y - mean) / sqrt(var + eps) * scale + shift``; with known statistics the laws
of `algebra` bring it to ``y * s + t``, and the laws here put `s` into the weights that made `y`. Images count batch,
channels, then space; weights output channels, input channels, then space.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse.ops.contractions import window_extents
from eqfuse.ops.index_map import Ranges
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.constants import difference_remains, sum_remains
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    REASSOCIATES,
    Law,
    Term,
    apply,
    attrs,
    computed,
    distinct,
    guard,
    in_program,
    is_constant,
    over_complex,
    over_float16,
    tensors,
    varies,
)
from eqfuse.rewrites.language.views import one_along
from eqfuse.rewrites.language.words import constant
from eqfuse.rewrites.pooling import Ints, Pairs, is_unpadded, linear, same_shape, window_sum

x, y, w, v, s, a, c = tensors("x y w v s a c")
n, q, t, axis, widths = attrs("n q t axis widths")
strides, padding, dilations, groups = attrs("strides padding dilations groups")
strides2, padding2, dilations2, groups2 = attrs("strides2 padding2 dilations2 groups2")
CONV, CONV2 = (strides, padding, dilations, groups), (strides2, padding2, dilations2, groups2)
UNGROUPED = (strides, padding, dilations, 1)

def conv(x: Term, w: Term, geometry: tuple = CONV) -> Term:
    return apply("conv", x, w, attrs=geometry)


def _output_weights(s: TensorType, w: TensorType) -> Ints | None:
    """Shape in which the scale `s` of output channels meets the weights [o, c, *kernel]; it fits no other `s`."""
    n = s.extent(1 - w.rank)
    return (n,) + (1,) * (w.rank - 1) if n in (1, w.shape[0]) else None


def _input_weights(s: TensorType, x: TensorType) -> Ints | None:
    n = s.extent(1 - x.rank)
    return (1, n) + (1,) * (x.rank - 2) if n in (1, x.shape[1]) else None


def _per_channel(s: TensorType) -> Ints:
    """Shape in which `s`, one per filter, meets the channels of an image."""
    return s.shape[:1] + (1,) * (s.rank - 2)


def _one_per_filter(s: TensorType, w: TensorType) -> bool:
    return s.rank in (0, w.rank) and s.size == s.extent(-w.rank)


def _one_per_image(s: TensorType, x: TensorType) -> bool:
    return one_along(s, tuple(range(1 - x.rank, 0)))


def _all_but_first(w: TensorType) -> Ints:
    return tuple(range(1 - w.rank, 0))


def _everywhere(strides: Ints, padding: Pairs) -> bool:
    return set(strides) <= {1} and is_unpadded(padding)


def _matrix(w: TensorType) -> tuple[int, int]:
    return w.shape[0], math.prod(w.shape[1:])


def _rows_of_kernels(w: TensorType) -> tuple[int, int, int]:
    return w.shape[0], w.shape[1], math.prod(w.shape[2:])


def _result(x: TensorType, w: TensorType) -> Ints:
    return (x.shape[0], w.shape[0], *x.shape[2:])


def _one_position(x: TensorType, w: TensorType) -> Ints:
    return (x.shape[0], w.shape[0], *(1,) * (x.rank - 2))


def _as_kernel(w: TensorType, x: TensorType) -> Ints:
    return (*w.shape, *(1,) * (x.rank - 2))


def _places(x: TensorType, w: TensorType, strides: Ints, padding: Pairs, dilations: Ints) -> Ints:
    return tuple(window_extents("conv", (x,), w.shape[2:], strides, padding, dilations))


def _few_places(x: TensorType, w: TensorType, strides: Ints, padding: Pairs, dilations: Ints) -> bool:
    return 1 < math.prod(_places(x, w, strides, padding, dilations)) < math.prod(w.shape[2:])


def _image_padding(padding: Pairs) -> Pairs:
    return ((0, 0), (0, 0), *padding)


def _reaches(w: TensorType, dilations: Ints) -> tuple[tuple[int, int], ...]:
    """The windows that hold the kernel, by axes."""
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    return tuple((a - len(extents), n) for a, n in enumerate(extents))


def _seen_of_windows(x: TensorType, w: TensorType, strides: Ints, padding: Pairs, dilations: Ints) -> Ranges:
    """What of [n, c, *places, *windows] the kernel meets."""
    places = _places(x, w, strides, padding, dilations)
    moved = [(0, (m - 1) * s + 1, s) for m, s in zip(places, strides, strict=True)]
    met = [(0, (k - 1) * d + 1, d) for k, d in zip(w.shape[2:], dilations, strict=True)]
    return ((0, x.shape[0], 1), (0, x.shape[1], 1), *moved, *met)


def _channels_after_places(x: TensorType) -> Ints:
    return (0, *range(2, x.rank), 1, *range(x.rank, 2 * x.rank - 2))


def _rows_of_windows(x: TensorType, w: TensorType, strides: Ints, padding: Pairs, dilations: Ints) -> tuple[int, int]:
    return x.shape[0] * math.prod(_places(x, w, strides, padding, dilations)), math.prod(w.shape[1:])


def _filters_last(x: TensorType, w: TensorType, strides: Ints, padding: Pairs, dilations: Ints) -> Ints:
    return (x.shape[0], *_places(x, w, strides, padding, dilations), w.shape[0])


def _filters_second(x: TensorType) -> Ints:
    return (0, x.rank - 1, *range(1, x.rank - 1))


def _merges_space(x: TensorType, w: TensorType, q: Ints, t: Ints) -> bool:
    """[n, c, *space] is read as [n, c, points], times [o, c], and becomes [n, o, *space]."""
    merged = x.rank >= 3 and q == _rows_of_kernels(x)
    return merged and w.rank == 2 and t == _result(x, w)


def _kernels_after(v: TensorType, w: TensorType) -> Ints:
    return (v.shape[0], *w.shape[1:])


def _kernels_before(v: TensorType, w: TensorType) -> Ints:
    return (w.shape[0], v.shape[1], *w.shape[2:])


def _inner_padding(padding: Pairs, widths: Pairs, dilations: Ints) -> Pairs | None:
    """The padding that is left when `widths` are taken off the kernel."""
    left = [
        (a - b * d, c - e * d) for (a, c), (b, e), d in zip(padding, widths[2:], dilations, strict=True)
    ]  # fmt: skip
    return tuple(left) if all(p >= 0 for pair in left for p in pair) else None


def _conv_shape(x: TensorType, s: Ints, strides: Ints, padding: Pairs, dilations: Ints) -> Ints:
    return (x.shape[0], s[0], *window_extents("conv", (x,), s[2:], strides, padding, dilations))


def _is_zero(value: Literal) -> bool:
    return not value.array.any()


def _leaves_images(value: Literal, strides: Ints, padding: Pairs, dilations: Ints) -> bool:
    """The filters take the middle of their own channel, and nothing else."""
    w = value.array
    if w.ndim < 3 or w.shape[0] != w.shape[1] or set(strides) != {1}:
        return False
    middle = tuple(before // d for (before, _), d in zip(padding, dilations, strict=True))
    if any(m * d != before for m, d, (before, _) in zip(middle, dilations, padding, strict=True)):
        return False
    if any(m >= k for m, k in zip(middle, w.shape[2:], strict=True)):
        return False
    wanted = np.zeros(w.shape, bool)
    places: tuple[Any, ...] = (range(len(w)), range(len(w)), *middle)
    wanted[places] = True
    return bool((w == wanted).all())


def _averages_channels(s: Ints, dilations: Ints) -> bool:
    return s[1:2] == (1,) and set(dilations) <= {1}


def _kernel(s: Ints) -> Ints:
    return s[2:]


def _half(t: TensorType, axis: int, start: int) -> Ranges:
    n = t.shape[axis] // 2
    return tuple((start * n, (start + 1) * n, 1) if a == axis else (0, e, 1) for a, e in enumerate(t.shape))


def _first_channels(x: TensorType) -> Ranges:
    return _half(x, 1, 0)


def _last_channels(x: TensorType) -> Ranges:
    return _half(x, 1, 1)


def _first_filters(w: TensorType) -> Ranges:
    return _half(w, 0, 0)


def _last_filters(w: TensorType) -> Ranges:
    return _half(w, 0, 1)


def _channels(x: TensorType) -> int:
    return 1 - x.rank


same_weights = guard("v and w have one shape", lambda v, w: v.shape == w.shape, v, w)
everywhere = guard("the windows stand everywhere, unpadded", _everywhere, strides, padding)
everywhere2 = guard("the second's windows stand everywhere, unpadded", _everywhere, strides2, padding2)
one_per_image = guard("s is one number per image", _one_per_image, s, x)
unpadded = guard("nothing is padded", is_unpadded, padding)
padded = guard("something is padded", lambda p: not is_unpadded(p), padding)
few_places = guard("windows have fewer places than elements", _few_places, x, w, strides, padding, dilations)
unpadded2 = guard("the second is not padded", is_unpadded, padding2)  # where only padding is seen, NaN weights are not
zero = guard("n is zero", _is_zero, n)


points_before = (
    conv(conv(x, v), w, CONV2),
    conv(x, (v.reshape(computed(_matrix, v)).transpose((1, 0)) @ w.reshape(computed(_rows_of_kernels, w)))
         .reshape(computed(_kernels_before, v, w)), CONV2),
)  # fmt: skip

def _product_of_windows(image: Term) -> Term:
    """The convolution of `x`, which is `image` with its padding, as a product with its windows, which are stored."""
    windows = apply("sliding_window", image, attrs=(computed(_reaches, w, dilations),))
    seen = windows.slice(computed(_seen_of_windows, x, w, strides, padding, dilations))
    rows = seen.transpose(computed(_channels_after_places, x)).reshape(
        computed(_rows_of_windows, x, w, strides, padding, dilations))
    product = rows @ w.reshape(computed(_matrix, w)).transpose((1, 0))
    return product.reshape(computed(_filters_last, x, w, strides, padding, dilations)).transpose(
        computed(_filters_second, x))


LAWS = [
    # scales and shifts
    Law("channel_scale_into_conv", conv(x, w) * s, conv(x, w * s.reshape(computed(_output_weights, s, w))),
        (is_constant(w, s),), REASSOCIATES),
    Law("channel_divisor_into_conv", conv(x, w) / s, conv(x, w / s.reshape(computed(_output_weights, s, w))),
        (is_constant(w, s),), REASSOCIATES),
    Law("known_divisor_of_shifted_conv", (conv(x, w) + c) / s, conv(x, w) / s + c / s,
        (is_constant(c, s),), REASSOCIATES),
    Law("known_scale_of_shifted_conv", (conv(x, w) + c) * s, conv(x, w) * s + c * s,
        (is_constant(c, s),), REASSOCIATES),
    Law("input_scale_into_conv", conv(x * s, w), conv(x, w * s.reshape(computed(_input_weights, s, x))),
        (is_constant(w, s), unpadded), REASSOCIATES),  # 0 * inf is NaN
    Law("scale_of_images_out_of_conv", conv(x * s, w), conv(x, w) * s, (one_per_image, unpadded), REASSOCIATES),
    Law("scale_of_images_out_of_padded_conv", conv(x * s, w), conv(x, w) * s, (one_per_image,), APPROXIMATE),
    Law("scale_of_filters_out_of_conv", conv(x, w * s), conv(x, w) * s.reshape(computed(_per_channel, s)),
        (guard("s is one number per filter", _one_per_filter, s, w), varies(s)), REASSOCIATES),
    Law("known_shift_through_unpadded_conv", conv(x + s, w, UNGROUPED),
        conv(x, w, UNGROUPED) + (w * s.reshape(computed(_input_weights, s, x))).sum(computed(_all_but_first, w))
        .reshape(computed(_per_channel, w)),
        (unpadded, is_constant(w, s)), APPROXIMATE),  # s may cancel x
    # what is added to a convolution, which has rounded what it cancels
    Law("known_shifts_of_conv_meet", conv(x, w) + a + c, conv(x, w) + (a + c),
        (is_constant(a, c), in_program(c), sum_remains(a, c)), REASSOCIATES),
    Law("known_shifts_of_conv_meet_in_difference", conv(x, w) + a - c, conv(x, w) + (a - c),
        (is_constant(a, c), distinct(a, c), difference_remains(a, c)), REASSOCIATES),
    Law("negative_out_of_conv", conv(-x, w), -conv(x, w), exactness=REASSOCIATES),
    # what is linear is done once
    *linear("convs_of_two", lambda a: conv(a, w), (same_shape,), x, y),
    *linear("convs_by_two", lambda a: conv(x, a), (same_weights,), v, w),
    # convolutions of convolutions, with one point per kernel; weights meet when the program is built
    Law("pointwise_after_conv", conv(conv(x, w, UNGROUPED), v, CONV2),
        conv(x, (v.reshape(computed(_matrix, v)) @ w.reshape(computed(_matrix, w)))
             .reshape(computed(_kernels_after, v, w)), UNGROUPED), (everywhere2, is_constant(v, w)), REASSOCIATES),
    Law("pointwise_before_conv", *points_before, (everywhere, unpadded2, is_constant(v, w)), REASSOCIATES),
    Law("pointwise_before_padded_conv", *points_before, (everywhere, is_constant(v, w)), APPROXIMATE),
    # convolutions that are products
    Law("pointwise_conv_is_product", conv(x, w),
        (w.reshape(computed(_matrix, w)) @ x.reshape(computed(_rows_of_kernels, x)))
        .reshape(computed(_result, x, w)), (everywhere,), REASSOCIATES),
    Law("conv_at_one_position_is_product", conv(x, w),
        (x.reshape(computed(_matrix, x)) @ w.reshape(computed(_matrix, w)).transpose((1, 0)))
        .reshape(computed(_one_position, x, w)), (unpadded,), REASSOCIATES),
    Law("conv_at_few_places_is_product", conv(x, w, UNGROUPED), _product_of_windows(x), (unpadded, few_places),
        REASSOCIATES),
    Law("padded_conv_at_few_places_is_product", conv(x, w, UNGROUPED),
        _product_of_windows(apply("pad", x, 0.0, attrs=(computed(_image_padding, padding),))), (padded, few_places),
        REASSOCIATES),
    # zeros around images and kernels, among weights; 0 * inf is NaN
    Law("zeros_around_kernel", conv(x, apply("pad", w, 0.0, attrs=(widths,))),
        conv(x, w, (strides, computed(_inner_padding, padding, widths, dilations), dilations, groups)),
        exactness=APPROXIMATE),
    # groups, and channels that are pooled
    Law("conv_by_one_number", conv(x, constant(n).broadcast_to(q)),
        window_sum(x, (computed(_kernel, q), strides, padding)) * constant(n),
        (guard("every channel is filtered alone, closely", _averages_channels, q, dilations),), REASSOCIATES),
]  # fmt: skip

# scaled elsewhere, or filtered twice at once, a sum may leave the range of float16
LAWS = over_float16(
    LAWS, "channel_scale_into_conv", "channel_divisor_into_conv", "known_scale_of_shifted_conv",
    "known_divisor_of_shifted_conv", "input_scale_into_conv",
    "scale_of_images_out_of_conv", "scale_of_filters_out_of_conv", "pointwise_after_conv", "pointwise_before_conv",
    "conv_by_one_number",
    *(f"{kind}_of_{what}" for kind in ("sum", "difference") for what in ("convs_of_two", "convs_by_two")),
)  # fmt: skip

LAWS = over_complex(LAWS, REASSOCIATES, zeros_around_kernel=APPROXIMATE)

EXPANSION = [
    Law("conv_by_zeros", conv(x, constant(n).broadcast_to(q)),
        constant(n).broadcast_to(computed(_conv_shape, x, q, strides, padding, dilations)), (zero,), APPROXIMATE),
    Law("product_is_pointwise_conv", (w @ x.reshape(q)).reshape(t),
        conv(x, w.reshape(computed(_as_kernel, w, x)), (computed(lambda x: (1,) * (x.rank - 2), x),
             computed(lambda x: ((0, 0),) * (x.rank - 2), x), computed(lambda x: (1,) * (x.rank - 2), x), 1)),
        (guard("the reshapes merge space and part it again", _merges_space, x, w, q, t),), REASSOCIATES),
    Law("conv_by_identity", conv(x, constant(n)), x,
        (guard("n leaves images as they are", _leaves_images, n, strides, padding, dilations),), APPROXIMATE),
    Law("two_groups_apart", conv(x, w),
        apply("concat",
              conv(x.slice(computed(_first_channels, x)), w.slice(computed(_first_filters, w)), UNGROUPED),
              conv(x.slice(computed(_last_channels, x)), w.slice(computed(_last_filters, w)), UNGROUPED),
              attrs=(computed(_channels, x),)), exactness=REASSOCIATES),  # types leave no other number of groups
]  # fmt: skip

EXPANSION = over_complex(EXPANSION, REASSOCIATES, conv_by_identity=APPROXIMATE, conv_by_zeros=APPROXIMATE)
