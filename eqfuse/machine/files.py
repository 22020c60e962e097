"""Files that eqfuse keeps: written in one step, and set aside with a warning when they turn out damaged."""

from __future__ import annotations

import os
import secrets
import warnings
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The user's cache directory of eqfuse; the environment variable EQFUSE_CACHE_DIR moves it."""
    return Path(os.environ.get("EQFUSE_CACHE_DIR") or platformdirs.user_cache_dir("eqfuse", appauthor=False))


def write_atomically(path: Path, data: bytes, private: bool = True) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part. Raises OSError.

    A `private` file only its user may read; of others the umask decides.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    part = path.with_name(f"{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(part, flags, 0o600 if private else 0o666), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def set_aside(path: Path, what: str, error: Exception, stacklevel: int = 3) -> None:
    """Rename a damaged file to ``*.corrupt`` and warn that it will be rebuilt."""
    aside = path.with_suffix(".corrupt")
    try:
        path.replace(aside)
        where = f"moved to {aside.name}"
    except OSError as reason:
        where = f"it cannot be moved ({reason})"
    damage = str(error).partition("\n")[0]
    warnings.warn(f"the {what} {path} is damaged ({damage}): {where}, made anew", stacklevel=stacklevel)
