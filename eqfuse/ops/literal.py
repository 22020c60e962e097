"""Arrays as values: what a constant of a program holds.

In: an array. Out: `Literal`, which prints as text that `literal_from_text` reads.
"""

from __future__ import annotations

import base64
import hashlib
import math

import numpy as np

from eqfuse.dtypes import kind, supported
from eqfuse.ops.types import TensorType, tensor_type


class Literal:
    """An array as a value, compared and hashed by dtype, shape and bits: NaN equals itself, -0.0 differs from 0.0."""

    __slots__ = ("array", "_key")

    def __init__(self, array: np.ndarray) -> None:
        self._lie_at(array.tobytes(), TensorType(supported(array.dtype, "a constant"), array.shape))

    @classmethod
    def stored(cls, tensor: TensorType, data: bytes | memoryview) -> Literal:
        """The literal of the type `tensor` whose bits are `data`, which is not copied and which nobody may write."""
        literal = cls.__new__(cls)
        literal._lie_at(data, tensor)
        return literal

    def _lie_at(self, data: bytes | memoryview, tensor: TensorType) -> None:
        self._key = (tensor.dtype, tensor.shape, data)
        self.array = np.ndarray(tensor.shape, tensor.dtype, data)  # not writeable, as `data` is not

    @property
    def type(self) -> TensorType:
        return TensorType(self.array.dtype, self.array.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.text()})"

    def digest(self) -> str:
        """Short text, different for different literals."""
        dtype, shape, data = self._key
        return f"{dtype.name}{shape}{data.hex() if len(data) <= 64 else hashlib.blake2b(data).hexdigest()}"

    def text(self) -> str:
        """Python text that `literal_from_text` turns back into the same bits."""
        if self.array.size == 1 and kind(self.array.dtype) in "biuf":
            value = self.array.item()
            if not (isinstance(value, float) and not math.isfinite(value)):
                return f'"{self.type}", {value!r}'
        return f'"{self.type}", "{base64.b64encode(self.array.tobytes()).decode()}"'


def literal_from_text(type_text: str, value: object) -> Literal:
    """Inverse of `Literal.text`."""
    t = tensor_type(type_text)
    if isinstance(value, str):
        return Literal(np.frombuffer(base64.b64decode(value), t.dtype).reshape(t.shape))
    return Literal(np.full(t.shape, value, t.dtype))
