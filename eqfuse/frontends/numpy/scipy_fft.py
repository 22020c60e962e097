"""scipy.fft: its transforms that are NumPy's too, by the protocol for backends that scipy.fft has.

In: calls of scipy.fft on tracers, also by scipy.signal. Out: tracers, by np.fft's functions of these names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.promotion import holds_tracer
from eqfuse.frontends.numpy.tracer import Tracer

_OF_SPEED = ("overwrite_x", "workers", "plan")  # keywords that do not change what is computed
_SHARED = 4  # positions that both have: the array, its extents, its axes and the norm


class TracedTransforms:
    """A backend of scipy.fft."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not holds_tracer((args, kwargs)):
            return NotImplemented
        transform = getattr(np.fft, method.__name__, None)
        if transform is None:
            raise UnsupportedOp(
                f"scipy.fft.{method.__name__} cannot be traced: np.fft has no such transform. Call it by "
                "ef.pure_callback, or write it with those of np.fft"
            )
        keywords = {key: value for key, value in kwargs.items() if key not in _OF_SPEED}
        return transform(*map(_widened, args[:_SHARED]), **keywords)


def _widened(value: Any) -> Any:
    """SciPy transforms float16 in float32."""
    return value.astype(np.float32) if isinstance(value, Tracer) and value.dtype == np.float16 else value


def traced_transforms() -> AbstractContextManager[Any]:
    """Within it, scipy.fft takes tracers, in this thread."""
    fft: Any = sys.modules.get("scipy.fft")
    return nullcontext() if fft is None else fft.set_backend(TracedTransforms)
