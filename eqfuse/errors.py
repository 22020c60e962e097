"""The errors that eqfuse raises. Each says what is wrong, where (the user's own line) and what to do."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy

_OURS = str(Path(__file__).resolve().parent)
_BESIDE = tuple(str(Path(__file__).resolve().parent.parent / name) for name in ("rewrites", "extract"))
_GENERATED = "eqfuse."
_PYTHON = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"])
_ARRAYS = tuple(os.path.dirname(s.origin) + os.sep for s in map(find_spec, ("numpy", "scipy")) if s and s.origin)
_INSTALLED = {"site-packages", "dist-packages"}  # there may be several: the system's, the user's, a virtual one's


def user_line() -> str | None:
    """The innermost stack frame that is neither eqfuse's nor a library's, as ``file:line: source text``."""
    frame = _users_frame(sys._getframe(1))
    return None if frame is None else line_text(frame.f_code, frame.f_lineno)


def user_place() -> tuple[CodeType, int] | None:
    """The code of the frame that `user_line` tells of, and how far it has come: for `line_of`, if ever."""
    frame = _users_frame(sys._getframe(1))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def line_of(place: tuple[CodeType, int]) -> str:
    """A `user_place` as `user_line` gives it."""
    return line_text(place[0], line_number(place))


def line_number(place: tuple[CodeType, int]) -> int:
    """The line of a `user_place`."""
    code, last = place
    return next((line for start, stop, line in code.co_lines() if start <= last < stop and line is not None), 0)


def line_text(code: CodeType, line: int) -> str:
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame from `frame` on that is neither eqfuse's nor a library's."""
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return frame


def user_level() -> int:
    """The `stacklevel` with which `warnings.warn` points at the line that `user_line` names."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and not is_users(frame):
        frame, level = frame.f_back, level + 1
    return level


def is_users(frame: FrameType) -> bool:
    """Is it code that is neither eqfuse's nor a library's?"""
    path = frame.f_code.co_filename
    generated = path == "<string>" and str(frame.f_globals.get("__name__")).startswith(_GENERATED)  # by dataclasses
    return not generated and _is_users_file(path)


@cache
def _is_users_file(path: str) -> bool:
    return not is_librarys_file(path) and not path.startswith((_OURS, *_BESIDE, "<frozen", "<eqfuse "))


def is_librarys_file(path: str) -> bool:
    """Is it of Python's own library, of NumPy or SciPy wherever they are, or where libraries are installed?"""
    return path.startswith((*_PYTHON, *_ARRAYS)) or not _INSTALLED.isdisjoint(Path(path).parts)


class EqfuseError(Exception):
    """Base of all errors raised by eqfuse. ``where`` is the user's line, or None.

    Where NumPy or Python would raise an error of their own, the class here is a kind of that one too.
    """

    def __init__(self, message: str, where: str | None = None) -> None:
        self.where = where or user_line()
        super().__init__(message + (f"\n  at {self.where}" if self.where else ""))

    def __reduce__(self) -> tuple:
        return _restored, (type(self), self.args, vars(self))


def as_ours(error: Exception) -> EqfuseError:
    """What NumPy raises, as the kind of it that is ours."""
    kinds: tuple[type[ShapeError], ...] = (AxisError, MatrixError, BoundsError, RangeError, DtypeError)
    ours = next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), ShapeError)
    return ours(str(error))


def is_users_own(error: Exception) -> bool:
    """Did the user's code raise it itself, or call what has no frame of its own?"""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and is_users(step.tb_frame)


def users_line_of(error: Exception) -> str | None:
    """The innermost of the user's lines on the way to `error`, as `user_line` gives it."""
    line, step = None, error.__traceback__
    while step is not None:
        line = line_text(step.tb_frame.f_code, step.tb_lineno) if is_users(step.tb_frame) else line
        step = step.tb_next
    return line


def _restored(kind: type[EqfuseError], args: tuple, attributes: dict[str, Any]) -> EqfuseError:
    """A pickled or copied error, with the line that it had."""
    error = Exception.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class TraceError(EqfuseError):
    """The function cannot be turned into a graph (data-dependent branch, side effect, unsupported argument).

    No kind of Python's own errors, but for calls that Python refuses too: a traced function that catches those must not
    go on as NumPy never would.
    """


class ArgumentError(TraceError, TypeError):
    """The arguments of a call are not those that the function takes: one is missing, or there are too many."""


class ShapeError(EqfuseError, ValueError):
    """Shapes or dtypes do not fit an operator, or differ from those a program was compiled for."""


class DtypeError(ShapeError, TypeError):
    """A dtype that does not fit: there is no such loop, no common dtype, no such cast."""


class BoundsError(ShapeError, IndexError):
    """An index that an array does not have."""


class AxisError(BoundsError, numpy.exceptions.AxisError):
    """An axis that an array does not have."""

    __str__ = Exception.__str__

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message, where)
        self.args = (numpy.exceptions.AxisError.__str__(self),)  # which it keeps elsewhere


class MatrixError(ShapeError, numpy.linalg.LinAlgError):
    """A matrix that is not of the shape that linear algebra asks for, or of which it finds no result."""


class RangeError(ShapeError, OverflowError):
    """A Python number that does not fit the dtype of the array it meets."""


class OptionError(EqfuseError, ValueError):
    """A value that an option does not have, such as ``numerics="fast"``."""


class UnsupportedOp(EqfuseError, NotImplementedError):
    """An operator, or an operator on a target, that eqfuse does not have. Names the operator and the missing table."""


class LawError(EqfuseError, ValueError):
    """A rewrite law is ill-formed, unknown, or changed the type of the program it was applied to."""


class GradientError(EqfuseError, AssertionError):
    """A function does not change by what its derivative says."""


class NanError(EqfuseError, FloatingPointError):
    """An operator makes a NaN, within `ef.debug_nans`."""


class MemoryLimitError(EqfuseError, MemoryError):
    """No plan that was found keeps a call's memory under the limit. `least`: the bytes with which one was found;
    `unlimited`: predicted seconds and bytes of the plan without a limit, where these are known."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least
        self.unlimited: tuple[float | None, int | None] = (None, None)


class TargetUnavailable(EqfuseError, RuntimeError):
    """A target, device, extractor or optional package that does not exist here."""
