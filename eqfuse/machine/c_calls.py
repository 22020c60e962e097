"""C functions that Python calls as it calls its own: what ctypes does for a call takes longer than small kernels do.

In: a library whose text begins with `TEXT`, and names of functions
``void *f(void *self, Object *const *arguments, __PTRDIFF_TYPE__ count)``. Out: functions of Python, which must be given
the arguments that the text reads, since nobody checks. They return ``eqf_none()``, or ``eqf_true(self)``, something
that is true; those that take long call ``eqf_python.release`` before and ``eqf_python.resume`` behind their work, so
that other threads of Python go on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

TEXT = """struct { void *(*release)(void); void (*resume)(void *); void (*keep)(void *); void *none; } eqf_python;
static void *eqf_none(void) { eqf_python.keep(eqf_python.none); return eqf_python.none; }
static void *eqf_true(void *self) { eqf_python.keep(self); return self; }
"""
_FASTCALL = 0x80  # METH_FASTCALL, of Python's stable interface
_CALLED = ("PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef")


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


def library_functions(library: ctypes.CDLL, names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """The functions of those names. They belong to the library, which stays loaded."""
    called = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _CALLED]
    (ctypes.c_void_p * 4).in_dll(library, "eqf_python")[:] = [*called, id(None)]
    return {name: _function(library, name) for name in names}


def address_of(function: Callable[..., Any]) -> int:
    """Where the C function lies that a function of `library_functions` calls."""
    address: int = function.__self__.function  # type: ignore[attr-defined]
    return address


@cache
def _function(library: ctypes.CDLL, name: str) -> Any:
    """One for good, as the library is. A function reads its method once more when it is dropped; by then the garbage
    collector would have cleared a method that is garbage too."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p)
    method = _Method(name.encode(), address, _FASTCALL, None)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    new = make(("PyCFunction_NewEx", ctypes.pythonapi))
    return new(ctypes.addressof(method), method, None)
