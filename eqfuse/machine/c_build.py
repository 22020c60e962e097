"""C texts compiled. In: C11 without headers, a compiler. Out: shared objects, as bytes. Next stop: `c_objects`.

Each is made in a private folder of its own, within a time limit. Whatever the compiler does, there comes an object that
looks whole, or a CompilerError.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eqfuse.errors import EqfuseError
from eqfuse.machine.cpu import cpu_features
from eqfuse.machine.files import cache_dir, own_folder
from eqfuse.machine.foreign import ForeignProcess
from eqfuse.machine.thread_limit import thread_count

# Integers wrap as NumPy's do, a product and a sum are two roundings unless the text says __builtin_fma, and memory
# holds values of one dtype after another.
C_FLAGS = ("-std=c11", "-O3", "-shared", "-w", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing")
# Loops that gcc jams are no vectors. The last two: a function of a text is that function, whatever else of its name the
# process has.
WANTED = (
    "-fPIC", "-march=native", "-mprefer-vector-width=512", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math",
    "-fno-loop-unroll-and-jam", "-fno-semantic-interposition", "-Wl,-Bsymbolic",
)  # fmt: skip
# A quarter to a half less time to compile a text, of which loops that it calls so are vectors, too. Without the second,
# gcc leaves the upper halves of vector registers in use, and all code for SSE that follows takes twice as long. Without
# the last two, loops of values of several sizes, and some short ones, are no vectors.
QUICK_FLAGS = ("-O1", "-fexpensive-optimizations", "-ftree-pre", "-ftree-loop-vectorize")
LIBRARIES = () if os.name == "nt" else ("-lm",)
OBJECT_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
COMPILER_SECONDS = 120.0  # for one text
PAUSE = 0.005  # seconds between looks at whether one of several is compiled
LINES_SHOWN = 12  # lines of what a compiler prints
FULL = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system", re.IGNORECASE)


class CompilerError(EqfuseError):
    """The C compiler makes no object of a text; the message has the first lines of what it printed. `late`: it was not
    done in time."""

    def __init__(self, message: str, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C, and what it is: equal ones make equal objects."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...] = C_FLAGS + WANTED
    seconds: float = COMPILER_SECONDS

    def identity(self) -> str:
        """All but the text that an object depends on."""
        return repr((self.command, self.version, self.flags, LIBRARIES, cpu_features()))

    def build(self, text: str, *more: str) -> bytes:
        """The shared object of `text`. `more`: flags for this one, such as those of a sanitizer."""
        (data,) = self.build_all([text], *more)
        return data

    def build_all(self, texts: Sequence[str], *more: str, quick: Collection[str] = ()) -> Generator[bytes, None, None]:
        """The shared objects of `texts`, in order, as many of them compiled at once as there are threads, the longest
        first, as all wait for it; those of `quick` ones in little time."""
        command = [*self.command, *self.flags, *more]
        waiting, begun = deque(sorted(range(len(texts)), key=lambda i: -len(texts[i]))), dict[int, _Build]()
        try:
            for number in range(len(texts)):
                while number not in begun or (waiting and not begun[number].ended):
                    if sum(not build.ended for build in begun.values()) >= thread_count():
                        time.sleep(PAUSE)
                        continue
                    text = texts[waiting[0]]
                    flags = [*command, *(QUICK_FLAGS if text in quick else ())]
                    begun[waiting.popleft()] = _Build(flags, text, self.seconds)
                yield begun[number].result()
                begun.pop(number).end()
        finally:
            for build in begun.values():
                build.end()


def is_zig(command: Sequence[str]) -> bool:
    return Path(command[0]).stem == "zig" or "ziglang" in command


class _Build:
    """One text that is being compiled, in a private folder that goes with it."""

    def __init__(self, command: Sequence[str], text: str, seconds: float) -> None:
        self._command, self._text, self._seconds = command, text, seconds
        self._rooms = rooms()
        self._begin()

    def _begin(self) -> None:
        """Begin in the first folder where a text can be written."""
        refused = "there is no folder for temporary files"
        for room in self._rooms:
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="eqfuse-", dir=room, ignore_cleanup_errors=True)
                folder = Path(self._folder.name)
                (folder / "kernel.c").write_text(self._text, encoding="utf-8")
                command = [*self._command, "kernel.c", "-o", f"kernel{OBJECT_SUFFIX}", *LIBRARIES]
                self._run = ForeignProcess(command, folder, self._seconds, self._environment(folder))
                return
            except OSError as error:
                refused = str(error)
        raise CompilerError(f"{self._command[0]} cannot be run ({refused})")

    def _environment(self, folder: Path) -> dict[str, str]:
        if not is_zig(self._command):
            return {"TMPDIR": str(folder)}
        return {"ZIG_GLOBAL_CACHE_DIR": _zig_folder(), "ZIG_LOCAL_CACHE_DIR": str(folder)}

    @property
    def ended(self) -> bool:
        """Whether `result` need not wait."""
        return self._run.ended

    def result(self) -> bytes:
        status, said = self._run.result()
        path = Path(self._folder.name) / f"kernel{OBJECT_SUFFIX}"
        if status == 0:
            with suppress(OSError):
                return _whole(path.read_bytes(), self._command[0])
            raise CompilerError(f"{self._command[0]} wrote no object; it printed: {short(said)}")
        if status is not None and FULL.search(said):
            self.end()
            with suppress(CompilerError):
                self._begin()
                return self.result()
        raise CompilerError(f"{self._command[0]} failed ({ending(status)}): {short(said)}", status is None)

    def end(self) -> None:
        self._run.end()
        self._folder.cleanup()


def _zig_folder() -> str:
    """Where zig keeps the library that it makes at its first use."""
    if asked := os.environ.get("ZIG_GLOBAL_CACHE_DIR"):
        return asked
    user = os.geteuid() if hasattr(os, "geteuid") else 0  # Windows has a temporary folder for each user
    for folder in (cache_dir() / "zig", Path(tempfile.gettempdir()) / f"eqfuse-zig-{user}"):
        with suppress(OSError):
            if os.access(own_folder(folder), os.W_OK):
                return str(folder)
    raise OSError("there is no folder for zig's own library")


def rooms() -> Iterator[str]:
    """Folders in which to make a private one; the next where the one before is full, or nobody may write there."""
    with suppress(OSError):
        yield tempfile.gettempdir()
    with suppress(OSError):
        yield str(own_folder(cache_dir() / "c"))
    yield "/dev/shm"


@contextmanager
def written(data: bytes, room: str) -> Iterator[Path]:
    """A file in the folder `room` that holds `data`, is known to nobody else, and goes. OSError where it cannot be."""
    path = Path(room) / f"eqfuse-{secrets.token_hex(16)}{OBJECT_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(path, flags, 0o700), "wb") as file:
            file.write(data)
        yield path
    finally:
        with suppress(OSError):  # it was never made; or Windows keeps it while it is loaded
            path.unlink()


def _whole(data: bytes, name: str) -> bytes:
    """`data` where it can be a whole object: to load a part of one may end the process."""
    if sys.platform == "linux":
        order, wide = ("<" if data[5:6] == b"\1" else ">"), data[4:5] == b"\2"
        with suppress(struct.error):  # too short for a header
            table = ("Q10xHH", 0x28) if wide else ("I10xHH", 0x20)
            start, size, count = struct.unpack_from(order + table[0], data, table[1])
            if data[:4] == b"\x7fELF" and count and len(data) >= start + size * count:
                return data  # the table at its end is there
    elif data:
        return data
    raise CompilerError(f"{name} wrote what is no whole object ({len(data)} bytes)")


def ending(status: int | None) -> str:
    """How a program came to its end."""
    if status is None:
        return "not done in time"
    return f"signal {-status}" if status < 0 else f"status {status}"


def short(said: str) -> str:
    """The first lines, without what would steer a terminal."""
    lines = re.sub(r"[^\n\t\x20-\x7e]+", "?", said.strip()).splitlines()
    more = ["…"] if len(lines) > LINES_SHOWN else []
    return "\n".join([line[:300] for line in lines[:LINES_SHOWN]] + more) or "nothing"
