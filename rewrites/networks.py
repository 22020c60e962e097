"""Laws of convolutions, pooling and normalisation: what is known at build time folds into the weights.

In: nothing. Out: `LAWS`. Batch norm is ``(y - mean) / sqrt(var + eps) * scale + shift``; with known statistics the laws
of `algebra` bring it to ``y * s + t``, and the laws here put `s` into the weights that made `y`.
"""

from __future__ import annotations

from eqfuse.ir import TensorType
from eqfuse.rewrites.law import (
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    computed,
    floating,
    guard,
    known,
    over_complex,
    tensors,
)
from eqfuse.rewrites.words import exp, maximum, tanh

x, w, s, c = tensors("x w s c")
strides, padding, dilations, groups, window = attrs("strides padding dilations groups window")
CONV = (strides, padding, dilations, groups)
WINDOW = (window, strides, padding)


def conv(x: Term, w: Term) -> Term:
    return apply("conv", x, w, attrs=CONV)


def window_max(x: Term) -> Term:
    return apply("window_max", x, attrs=WINDOW)


def window_sum(x: Term) -> Term:
    return apply("window_sum", x, attrs=WINDOW)


def _output_weights(s: TensorType, w: TensorType) -> tuple[int, ...] | None:
    """Shape in which the scale `s` of output channels meets the weights [o, c, *kernel]; it fits no other `s`."""
    n = s.extent(1 - w.rank)
    return (n,) + (1,) * (w.rank - 1) if n in (1, w.shape[0]) else None


def _input_weights(s: TensorType, x: TensorType) -> tuple[int, ...] | None:
    n = s.extent(1 - x.rank)
    return (1, n) + (1,) * (x.rank - 2) if n in (1, x.shape[1]) else None


def _constant_in_window(c: TensorType, window: tuple[int, ...]) -> bool:
    return all(c.extent(-a) == 1 for a in range(1, len(window) + 1))


def _unpadded(padding: tuple[tuple[int, int], ...]) -> bool:
    return not any(n for pair in padding for n in pair)


def constant_in_window(c: Term) -> Guard:
    return guard(f"{c} has extent 1 along the window", _constant_in_window, c, window)


filled = guard("x is not empty", lambda x: x.size > 0, x)  # else a window holds nothing but padding

LAWS = [
    Law("channel_scale_into_conv", conv(x, w) * s, conv(x, w * s.reshape(computed(_output_weights, s, w))),
        (known(w, s),), REASSOCIATES),
    Law("known_scale_of_shifted_conv", (conv(x, w) + c) * s, conv(x, w) * s + c * s, (known(c, s),), REASSOCIATES),
    Law("input_scale_into_conv", conv(x * s, w), conv(x, w * s.reshape(computed(_input_weights, s, x))),
        (known(w, s), guard("nothing is padded", _unpadded, padding)), REASSOCIATES),  # 0 * inf is NaN
    Law("negative_out_of_conv", conv(-x, w), -conv(x, w), exactness=REASSOCIATES),
    # pooling
    Law("clamp_out_of_window_max", window_max(maximum(x, c)), maximum(window_max(x), c),
        (constant_in_window(c), filled), REASSOCIATES, both=True),
    Law("shift_out_of_window_max", window_max(x + c), window_max(x) + c,
        (constant_in_window(c), floating(x)), REASSOCIATES),
    Law("exp_out_of_window_max", window_max(exp(x)), exp(window_max(x)), (filled,), REASSOCIATES),
    Law("tanh_out_of_window_max", window_max(tanh(x)), tanh(window_max(x)), (filled,), REASSOCIATES),
    Law("scale_out_of_window_sum", window_sum(x * c), window_sum(x) * c,
        (constant_in_window(c),), REASSOCIATES),
    Law("divisor_out_of_window_sum", window_sum(x / c), window_sum(x) / c,
        (constant_in_window(c),), REASSOCIATES),
]  # fmt: skip

# sums are of complex numbers too; order is not
LAWS = over_complex(
    LAWS, REASSOCIATES, clamp_out_of_window_max=None, exp_out_of_window_max=None, tanh_out_of_window_max=None,
    shift_out_of_window_max=None,
)  # fmt: skip
