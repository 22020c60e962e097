"""numpy.fft, traced, gives NumPy's dtypes, shapes and values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.agreement import DTYPES, agrees, sample

SINGLE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")


def spectrum(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (sample(shape, "float64") + 1j * sample(shape, "float64", 1)).astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
@pytest.mark.parametrize("name", SINGLE)
def test_a_transform_along_one_axis_agrees_with_numpy(name, dtype):
    function = getattr(np.fft, name)
    x = spectrum((3, 4, 5), dtype) if "complex" in dtype else sample((3, 4, 5), dtype)
    for n in (None, 3, 8):
        for axis in (-1, 0):
            for norm in (None, "ortho", "forward"):
                agrees(lambda a, n=n, ax=axis, k=norm: function(a, n, ax, k), x)


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64", "complex128"])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_transform_over_several_axes_agrees_with_numpy(name, dtype):
    function = getattr(np.fft, name)
    x = spectrum((3, 4, 5), dtype) if "complex" in dtype else sample((3, 4, 5), dtype)
    agrees(function, x)
    agrees(lambda a: function(a, s=(4, 6), axes=(0, 2)), x)
    agrees(lambda a: function(a, s=(4, -1), axes=(1, 2), norm="ortho"), x)
    agrees(lambda a: function(a, axes=(2, 0), norm="forward"), x)
    agrees(lambda a: function(a, s=(2,), axes=(1, 2)), x)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_agree_with_numpy(name):
    function = getattr(np.fft, name)
    for axes in (None, 0, (1,), (0, 2)):
        agrees(lambda a, ax=axes: function(a, axes=ax), sample((3, 4, 5), "float32"))


def test_frequencies_of_a_traced_spacing_agree_with_numpy():
    agrees(lambda x, d: (np.fft.fftfreq(x.size, d), np.fft.rfftfreq(len(x), d) * x[0]), sample((6,), "float64"), 0.5)


def test_what_numpy_refuses_is_refused():
    x = sample((4,), "float64")
    for call in (
        lambda a: np.fft.fft(a, 0),
        lambda a: np.fft.fft(a, norm="other"),
        lambda a: np.fft.fft(a, axis=1),
        lambda a: np.fft.fftn(a, s=(2, 2), axes=(0,)),
        lambda a: np.fft.rfft(a * 1j),
        np.fft.fft2,
    ):
        agrees(call, x)
    agrees(np.fft.fft, np.ones(0))
