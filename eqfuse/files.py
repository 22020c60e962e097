"""Files that eqfuse keeps: written in one step, and set aside with a warning when they turn out damaged."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The user's cache directory of eqfuse; the environment variable EQFUSE_CACHE_DIR moves it."""
    return Path(os.environ.get("EQFUSE_CACHE_DIR") or platformdirs.user_cache_dir("eqfuse", appauthor=False))


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            file.write(data)
            file.close()
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
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
