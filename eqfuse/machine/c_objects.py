"""Shared objects of C texts, loaded here. In: texts. Out: what `ctypes` calls. Next stop: `emit/c`.

Objects are kept in the cache folder, which must be its user's own, by text, compiler and CPU. Such a file is no library
but a digest and one: what is loaded is a copy that nobody else knows, gone as soon as it is loaded, so that no other
process can damage it meanwhile. An object stays loaded for good: any kernel may be at work in it.
"""

from __future__ import annotations

import ctypes
import hashlib
import warnings
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from eqfuse.errors import EqfuseError, user_level
from eqfuse.machine.c_build import QUICK_FLAGS, Compiler, rooms, written
from eqfuse.machine.c_compiler import find_compiler
from eqfuse.machine.files import cache_dir, own_folder, prune, read_own, sealed, set_aside, unsealed, write_atomically

OBJECTS_KEPT, OBJECTS_BYTES = 1024, 256 << 20  # objects, and what they take; the oldest go first
OBJECT = ".object"

_loaded: dict[str, ctypes.CDLL] = {}


class LoadError(EqfuseError):
    """An object was compiled, but this process cannot load it."""


def loaded_library(text: str, *flags: str) -> ctypes.CDLL:
    """The library of one C11 text: found among those kept, or compiled. TargetUnavailable where there is no compiler,
    CompilerError where it refuses the text. `flags`: beside the usual ones."""
    return load_all([text], *flags)[0]


def load_all(texts: Sequence[str], *flags: str, quick: Collection[str] = ()) -> list[ctypes.CDLL]:
    """The library of each text; what is not kept is compiled side by side, long texts first: they take the longest.
    Those of `quick` ones are to be made in little time."""
    compiler = find_compiler()
    names = [_name(compiler, (*flags, *(QUICK_FLAGS if text in quick else ())), text) for text in texts]
    missing = {name: text for name, text in zip(names, texts, strict=True) if name not in _loaded}
    for name in [*missing]:
        if (data := _stored_object(name)) is not None:
            with suppress(LoadError):  # a system that shares the folder has another C library
                _loaded[name] = _opened(data)
                del missing[name]
    missing = dict(sorted(missing.items(), key=lambda item: -len(item[1])))
    with closing(compiler.build_all([*missing.values()], *flags, quick=quick)) as objects:
        for name, data in zip(missing, objects, strict=True):
            _loaded[name] = _opened(data)
            _keep(name, data)
    return [_loaded[name] for name in names]


def _name(compiler: Compiler, flags: Sequence[str], text: str) -> str:
    return hashlib.blake2b(f"{compiler.identity()} {flags}\n{text}".encode(), digest_size=20).hexdigest()


def _path(name: str) -> Path:
    return cache_dir() / "c" / f"{name}{OBJECT}"


def _stored_object(name: str) -> bytes | None:
    """The object of that name, if it is kept and whole."""
    path = _path(name)
    try:
        return unsealed(name, read_own(path))
    except OSError:
        return None
    except ValueError as error:
        set_aside(path, "compiled kernel", error)
        return None


def _keep(name: str, data: bytes) -> None:
    path = _path(name)
    try:
        own_folder(path.parent)
        write_atomically(path, sealed(name, data))
        prune(path.parent, OBJECT, OBJECTS_KEPT, OBJECTS_BYTES)
    except OSError as error:
        _warn_unwritable(str(error))


@cache
def _warn_unwritable(error: str) -> None:
    message = f"compiled kernels are not kept across processes: {error}; EQFUSE_CACHE_DIR names another folder"
    warnings.warn(message, stacklevel=user_level())


def _opened(data: bytes) -> ctypes.CDLL:
    """The library in `data`, from the first folder where it can be written and run."""
    refused = "there is no folder for temporary files"
    for room in rooms():
        try:
            with written(data, room) as path:
                return ctypes.CDLL(str(path))
        except OSError as error:
            refused = str(error)
    raise LoadError(f"a compiled kernel cannot be loaded: {refused}")
