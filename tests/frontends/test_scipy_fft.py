"""scipy.fft's transforms in a traced function, and what scipy.signal makes of them, are SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal
from scipy.fft import irfft, rfft

import eqfuse as ef
from tests.frontends.agreement import agrees

NAMES = (
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
    "irfftn", "fftshift", "ifftshift",
)  # fmt: skip
X = np.random.default_rng(0).standard_normal((3, 16))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_a_transform_is_scipys(name: str, dtype: str) -> None:
    x = (X + 1j * X[::-1] if "complex" in dtype else np.round(4 * X)).astype(dtype)
    agrees(getattr(scipy.fft, name), x)


CALLS: dict[str, Callable[[Any], Any]] = {
    "keywords": lambda x: rfft(x, n=10, axis=0, norm="ortho", workers=2, overwrite_x=True),
    "positions": lambda x: irfft(x, 9, -1, "forward", False),
    "axes": lambda x: scipy.fft.fftn(x, s=(4, 8), axes=(0, 1)),
    "frequencies": lambda x: x * scipy.fft.fftfreq(16, 0.1) * scipy.fft.next_fast_len(17),
    "hilbert": lambda x: scipy.signal.hilbert(x), "resample": lambda x: scipy.signal.resample(x, 10, axis=1),
    "fftconvolve": lambda x: scipy.signal.fftconvolve(x, x, "same"),
    "stft": lambda x: scipy.signal.stft(x, nperseg=8)[2],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_a_transform_is_scipys(name: str) -> None:
    agrees(CALLS[name], X)


def test_arrays_from_outside_are_transformed_by_scipy() -> None:
    weights = np.arange(9.0)
    agrees(lambda x: x[:, :6] * scipy.fft.dct(weights)[:6], X)


def test_a_transform_that_numpy_does_not_have_is_refused_with_the_line() -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"scipy\.fft\.dct(.|\n)*pure_callback(.|\n)*scipy\.fft\.dct\(x\)"):
        ef.trace(lambda x: scipy.fft.dct(x), X)
