"""``x.flags`` of a traced array: in which memory order it lies, as far as that is known.

In: names of flags. Out: what NumPy says of an array that lies so; the trace then relies on it, so that a program is
made for each layout of the arguments.
"""

from __future__ import annotations

from typing import Any, NoReturn

from eqfuse.errors import UnsupportedOp

_ORDERS = {
    "C_CONTIGUOUS": "c_contiguous", "C": "c_contiguous", "CONTIGUOUS": "contiguous", "F_CONTIGUOUS": "f_contiguous",
    "F": "f_contiguous", "FORTRAN": "fortran", "FNC": "fnc", "FORC": "forc",
}  # fmt: skip


class MemoryFlags:
    """The flags of `array`, a tracer."""

    __slots__ = ("_array",)
    _array: Any

    def __init__(self, array: Any) -> None:
        object.__setattr__(self, "_array", array)

    def __getattr__(self, name: str) -> bool:
        if name not in _ORDERS.values():
            _refuse(name)
        return bool(getattr(self._array.lying().flags, name))

    def __getitem__(self, name: str) -> bool:
        return bool(getattr(self, _ORDERS.get(name, name)))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        _refuse(name)

    __setitem__ = __setattr__


def _refuse(name: str) -> NoReturn:
    raise UnsupportedOp(
        f"ndarray.flags.{name} cannot be traced: of the flags of a traced array only the memory orders are known. "
        "Whether it can be written to is settled when it is made: set it outside of the traced function"
    )
