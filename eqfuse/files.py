"""Files that eqfuse keeps: written in one step, and set aside with a warning when they turn out damaged."""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The user's cache directory of eqfuse; the environment variable EQFUSE_CACHE_DIR moves it."""
    return Path(os.environ.get("EQFUSE_CACHE_DIR") or platformdirs.user_cache_dir("eqfuse", appauthor=False))


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(data)
    try:
        os.replace(file.name, path)
    except OSError:
        os.unlink(file.name)
        raise


def set_aside(path: Path, what: str, error: Exception, stacklevel: int = 3) -> None:
    """Rename a damaged file to ``*.corrupt`` and warn that it will be rebuilt."""
    aside = path.with_suffix(".corrupt")
    with suppress(OSError):
        path.replace(aside)
    message = f"the {what} {path} is damaged ({error}): moved to {aside.name}, and made anew"
    warnings.warn(message, stacklevel=stacklevel)
