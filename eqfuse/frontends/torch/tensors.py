"""Tensors as NumPy arrays of the same memory, and back; dtypes that one side lacks go by a view of their bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.torch.dtypes import numpy_dtype, torch_dtype

_BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def array_of_tensor(tensor: Any) -> np.ndarray:
    """The tensor's memory as an array."""
    import torch

    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _BITS:
        return tensor.view(getattr(torch, _BITS[name])).numpy().view(numpy_dtype(tensor.dtype))
    return tensor.numpy()


def tensor_of(array: Any) -> Any:
    """A tensor of the array's memory; of a copy where the array may not be written to."""
    import torch

    array = np.asarray(array)
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    dtype = torch_dtype(array.dtype)
    name = str(dtype).removeprefix("torch.")
    if name in _BITS:
        return torch.from_numpy(array.view(_BITS[name])).view(dtype)
    return torch.from_numpy(array)


def tensor_with_strides(tensor: Any, strides: Sequence[int]) -> Any:
    """`tensor`, or a copy, with these strides: 0 where its elements repeat along an axis."""
    import torch

    if all(n < 2 or own == wanted for n, own, wanted in zip(tensor.shape, tensor.stride(), strides, strict=True)):
        return tensor
    if not tensor.numel():
        return tensor
    repeats = [n > 1 and not stride for n, stride in zip(tensor.shape, strides, strict=True)]
    once = tensor[tuple(slice(0, 1) if repeat else slice(None) for repeat in repeats)]
    copy = torch.empty_strided(once.shape, tuple(strides), dtype=tensor.dtype)
    copy.copy_(once)
    return copy.expand(tensor.shape) if any(repeats) else copy


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides without gaps, the axes in `order` from the one that changes slowest."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strides
