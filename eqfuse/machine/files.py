"""Files that eqfuse keeps: written in one step, sealed, and set aside with a warning when they turn out damaged."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import warnings
from contextlib import suppress
from pathlib import Path

import platformdirs

from eqfuse.errors import EqfuseError, user_level


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


def users_file(path: str | os.PathLike[str]) -> Path:
    """Where a file is that a user names `path`: what links lead to. EqfuseError where no file can have that name."""
    try:
        file = Path(os.path.realpath(path))
    except (TypeError, ValueError) as error:
        raise EqfuseError(f"{path!r} is no name of a file: {error}") from None
    if file.is_dir():
        raise EqfuseError(f"{str(path)!r} is a folder: name a file in it")
    return file


def write_users_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to the file that a user names `path`, in one step; a device or a pipe is written to, and stays what
    it is. Raises OSError."""
    file = users_file(path)
    if file.exists() and not file.is_file():
        file.write_bytes(data)
    else:
        write_atomically(file, data, private=False)


def own_folder(path: Path) -> Path:
    """`path`, made where it is missing: its user's own, where nobody else may write. PermissionError otherwise."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid"):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not this user's own folder")
        if status.st_mode & 0o022:
            path.chmod(0o700)
    return path


def read_own(path: Path) -> bytes:
    """The content of a file of an `own_folder`. PermissionError where another user has put it there."""
    own_folder(path.parent)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid != os.geteuid():
            raise PermissionError(f"{path} is another user's")
        return file.read()


def sealed(name: str, body: bytes) -> bytes:
    """The content of a file that is called `name`: a digest of the name and all that follows, a line's end, `body`."""
    return _digest(name, body) + b"\n" + body


def unsealed(name: str, data: bytes) -> bytes:
    """What `sealed` put in. ValueError when a byte has changed, or the file had another name."""
    digest, _, body = data.partition(b"\n")
    if digest != _digest(name, body):
        raise ValueError("its digest is that of another content or another program")
    return body


def _digest(name: str, body: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + body, digest_size=20).hexdigest().encode()


def prune(folder: Path, suffix: str, files: int, nbytes: int) -> None:
    """Delete the oldest files beyond so many, or so many bytes; another process may be doing the same."""
    ages = []
    for entry in os.scandir(folder):
        if entry.name.endswith(suffix):
            with suppress(FileNotFoundError):
                status = entry.stat()
                ages.append((status.st_mtime, status.st_size, entry.path))
    left = sum(size for _, size, _ in ages)
    for number, (_, size, path) in zip(range(len(ages), 0, -1), sorted(ages), strict=True):
        if number <= files and left <= nbytes:
            break
        Path(path).unlink(missing_ok=True)
        left -= size


def set_aside(path: Path, what: str, error: Exception) -> None:
    """Rename a damaged file to ``*.corrupt`` and warn that it will be rebuilt."""
    aside = path.with_suffix(".corrupt")
    try:
        path.replace(aside)
        where = f"moved to {aside.name}"
    except OSError as reason:
        where = f"it cannot be moved ({reason})"
    damage = str(error).partition("\n")[0]
    warnings.warn(f"the {what} {path} is damaged ({damage}): {where}, made anew", stacklevel=user_level())
