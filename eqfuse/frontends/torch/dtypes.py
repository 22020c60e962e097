"""The dtypes of torch and NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from eqfuse.errors import UnsupportedOp

_SAME = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip


@cache
def _pairs() -> dict[Any, np.dtype]:
    import ml_dtypes
    import torch

    own = {getattr(torch, name): np.dtype(name) for name in _SAME}
    return own | {
        torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
        torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
        torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    }


def numpy_dtype(dtype: Any) -> np.dtype:
    """NumPy's dtype of torch's. UnsupportedOp where no tensor of ours has it."""
    try:
        return _pairs()[dtype]
    except KeyError:
        raise UnsupportedOp(f"tensors of eqfuse do not hold {dtype}") from None


def is_supported(dtype: Any) -> bool:
    return dtype in _pairs()


@cache
def torch_dtype(dtype: np.dtype) -> Any:
    """torch's dtype of NumPy's."""
    return next(torch_name for torch_name, numpy_name in _pairs().items() if numpy_name == dtype)
