"""ONNX Fourier transforms and the filter bank of mel frequencies.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, dtype_of, need_shape, one, operator


def _transformed(x: Any, length: int, axis: int, onesided: int, inverse: int) -> Any:
    """`x` has its real and imaginary parts along the last axis, or the real part alone; so has the result."""
    z = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    if inverse and onesided:
        return lazy.expand_dims(lazy.fft.irfft(z, length, axis), -1).astype(x.dtype)
    y = lazy.fft.ifft(z, length, axis) if inverse else lazy.fft.fft(z, length, axis)
    if onesided:
        y = y[(slice(None),) * axis + (slice(length // 2 + 1),)]
    return lazy.stack((y.real, y.imag), -1).astype(x.dtype)


@operator("DFT", since=20)
def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    return dft_by_attribute(
        x, length, axis=-2 if axis is None else one(axis, "the axis"), inverse=inverse, onesided=onesided
    )


@operator("DFT", since=17)
def dft_by_attribute(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    along = axis_of(axis, x.ndim)
    n = x.shape[along] if not (inverse and onesided) else 2 * (x.shape[along] - 1)
    return _transformed(x, n if length is None else one(length, "dft_length"), along, onesided, inverse)


@operator("STFT", since=17)
def stft(x: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    """[batch, frame, frequency, part] of ``x[batch, time, part]``."""
    hop = one(step, "frame_step")
    whole = x.shape[1] if window is None else window.shape[0]
    n = whole if length is None else one(length, "frame_length")
    need_shape(window, (n,), "the window")
    signal = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    frames = lazy.lib.stride_tricks.sliding_window_view(signal, n, axis=1)[:, ::hop]
    y = lazy.fft.fft(frames if window is None else frames * window, n, -1)
    y = y[..., : n // 2 + 1] if onesided else y
    return lazy.stack((y.real, y.imag), -1).astype(x.dtype)


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(
    bins: Any, length: Any, rate: Any, lower: Any, upper: Any, *, output_datatype: int = 1
) -> Any:
    n, size, samples, low, high = (
        one(v, what)
        for v, what in (
            (bins, "num_mel_bins"), (length, "dft_length"), (rate, "sample_rate"),
            (lower, "lower_edge_hertz"), (upper, "upper_edge_hertz"),
        )
    )  # fmt: skip
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (low, high))
    mels = np.arange(n + 2) * ((high - low) / (n + 2)) + low
    places = ((size + 1) * (700 * (np.power(10, mels / 2595) - 1)) // samples).astype(int)
    y = np.zeros((size // 2 + 1, n))
    for i in range(n):
        first, centre, last = places[i : i + 3]
        if centre == first:
            y[centre, i] = 1
        else:
            y[first : centre + 1, i] = (np.arange(first, centre + 1) - first) / (centre - first)
        if last > centre:
            y[centre:last, i] = (last - np.arange(centre, last)) / (last - centre)
    return y.astype(dtype_of(output_datatype))
