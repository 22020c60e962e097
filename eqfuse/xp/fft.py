"""`ef.xp.fft`: the standard's Fourier transforms, which are NumPy's; frequencies also in a wanted dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.fft import (  # noqa: F401  the namespace is its names
    fft,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    frequencies = np.fft.fftfreq(n, d, device=device)
    return frequencies if dtype is None else np.astype(frequencies, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    frequencies = np.fft.rfftfreq(n, d, device=device)
    return frequencies if dtype is None else np.astype(frequencies, dtype)
