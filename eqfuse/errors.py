"""What can go wrong with a user's program. Each error says what, where (the user's own line) and what to do."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).resolve().parent)
_BESIDE = tuple(str(Path(__file__).resolve().parent.parent / name) for name in ("rewrites", "extract"))
LIBRARIES = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"])


def user_line() -> str | None:
    """The innermost stack frame that is neither eqfuse's nor a library's, as ``file:line: source text``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame):
            path = frame.f_code.co_filename
            text = linecache.getline(path, frame.f_lineno).strip()
            return f"{path}:{frame.f_lineno}" + (f": {text}" if text else "")
        frame = frame.f_back
    return None


def user_level() -> int:
    """The `stacklevel` with which `warnings.warn` points at the line that `user_line` names."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and not _is_users(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_users(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return not path.startswith((_OURS, *_BESIDE, *LIBRARIES, "<frozen"))


class EqfuseError(Exception):
    """Base of all errors raised by eqfuse. ``where`` is the user's line, or None."""

    def __init__(self, message: str) -> None:
        self.where = user_line()
        super().__init__(message + (f"\n  at {self.where}" if self.where else ""))


class TraceError(EqfuseError):
    """The function cannot be turned into a graph (data-dependent branch, side effect, unsupported argument)."""


class ShapeError(EqfuseError):
    """Shapes or dtypes do not fit an operator, or differ from those a program was compiled for."""


class UnsupportedOp(EqfuseError):
    """An operator, or an operator on a target, that eqfuse does not have. Names the operator and the missing table."""


class LawError(EqfuseError):
    """A rewrite law is ill-formed, unknown, or changed the type of the program it was applied to."""


class MemoryLimitError(EqfuseError):
    """No plan that was found keeps a call's memory under the limit. `least`: the bytes with which one was found."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least


class TargetUnavailable(EqfuseError):
    """A target, device, extractor or optional package that does not exist here."""
