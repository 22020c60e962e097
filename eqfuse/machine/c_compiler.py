"""The C compiler of this machine, found at the first need. In: nothing. Out: a `Compiler`. Next stop: `c_objects`.

It is `$CC` where that is set, else `cc`, `gcc` or `clang`, else the one in the wheel `ziglang`: the first that soon
makes an object which another process can load, and which is right. The command line is fixed: of the flags in WANTED a
compiler gets those that it takes, which is tried once and remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from eqfuse.errors import EqfuseError, TargetUnavailable
from eqfuse.machine.c_build import C_FLAGS, WANTED, Compiler, CompilerError, ending, is_zig, rooms, short, written
from eqfuse.machine.files import cache_dir, own_folder, read_own, sealed, set_aside, unsealed, write_atomically
from eqfuse.machine.foreign import ForeignProcess

COMPILER_PATIENCE = 10.0  # seconds for a compiler's answer to the first questions
FIRST_ZIG = 300.0  # and where it builds its own library first
INSTALL = "install gcc or clang (apt install gcc libc6-dev, xcode-select --install), or pip install 'eqfuse[cc]'"

PROBE = """
float probe(const float *x, float *y, long long n) {
    float total = 0;
    #pragma omp simd reduction(+ : total)
    for (long long i = 0; i < n; i++) {
        y[i] = 2 * x[i] + y[i];
        total += y[i];
    }
    return total;
}
"""
# By another process, since what is no good object may end the one that loads it.
TRIAL = """
import ctypes, sys
sys.tracebacklimit = 0
n = 1003
x, y = ((ctypes.c_float * n)(*range(n)) for _ in "xy")
probe = ctypes.CDLL(sys.argv[1]).probe
probe.argtypes, probe.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong), ctypes.c_float
sys.exit(0 if probe(x, y, n) == 3 * n * (n - 1) // 2 and list(y) == [3 * i for i in range(n)] else 3)
"""


def find_compiler() -> Compiler:
    """The compiler to use here. TargetUnavailable says what to install."""
    asked = (os.environ.get("CC"), os.environ.get("PATH"), str(cache_dir()))
    compiler = _compilers.get(asked)
    if compiler is None:
        compiler = _compilers[asked] = _search()
    if isinstance(compiler, str):
        raise TargetUnavailable(compiler)
    return compiler


_compilers: dict[tuple[str | None, ...], Compiler | str] = {}


def _search() -> Compiler | str:
    """The first compiler that works, or why there is none."""
    refused = []
    for name, command in _candidates():
        try:
            return _compiler_of(command)
        except EqfuseError as error:
            refused.append(f"{name}: " + str(error).removesuffix(f"\n  at {error.where}"))
    return "\n".join([f"there is no C compiler that works: {INSTALL}", *refused])


def _candidates() -> Iterator[tuple[str, tuple[str, ...]]]:
    asked = os.environ.get("CC")
    for name in [asked] if asked else ["cc", "gcc", "clang"]:
        first, *rest = _words(name)
        program = shutil.which(first)
        if program is not None and not _offers_to_install(program):
            yield name, (os.path.abspath(program), *rest)
        elif asked:
            yield "$CC", (first, *rest)
    if not asked and (zig := find_spec("ziglang")) is not None:
        for folder in zig.submodule_search_locations or []:
            yield "ziglang", (os.path.join(folder, "zig.exe" if os.name == "nt" else "zig"), "cc")


def _offers_to_install(program: str) -> bool:
    """Whether it is macOS's stand-in for a compiler that is missing, which would open a window."""
    homes = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
    return sys.platform == "darwin" and program.startswith("/usr/bin/") and not any(map(os.path.exists, homes))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, posix=os.name != "nt") or [command]
    except ValueError:
        return [command]  # a quotation without its end: there is no such program


def _compiler_of(command: tuple[str, ...]) -> Compiler:
    """The compiler that `command` is, with the flags that it takes. EqfuseError where it is none."""
    compiler = Compiler(command, _version(command))
    name = hashlib.blake2b(repr((compiler.identity(), sys.executable)).encode(), digest_size=20).hexdigest()
    path = cache_dir() / "c" / f"{name}.flags"
    taken = _remembered(path)
    if taken is None:
        taken = _accepted_flags(compiler)
        with suppress(OSError):
            write_atomically(own_folder(path.parent) / path.name, sealed(name, json.dumps(taken).encode()))
    return Compiler(command, compiler.version, C_FLAGS + tuple(taken))


def _version(command: tuple[str, ...]) -> str:
    """What the program at the head of `command` is: its place, size and age, and what it says itself."""
    try:
        place = os.path.realpath(command[0])
        status = os.stat(place)
        said = _zig_version() if is_zig(command) else _version_text([*command, "--version"])
    except OSError as error:
        raise CompilerError(f"it cannot be run ({error})") from None
    return f"{place} {status.st_size} {status.st_mtime_ns} {said[:1000]}"


def _zig_version() -> str:
    """That of the wheel: to ask the program takes longer."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return metadata.version("ziglang")
    return ""


def _version_text(command: list[str]) -> str:
    status, said = ForeignProcess(command, Path(os.sep), COMPILER_PATIENCE, {}).result()
    if status is None:
        raise CompilerError(f"it is not done after {COMPILER_PATIENCE:.0f} s when asked for its version")
    return said


def _remembered(path: Path) -> list[str] | None:
    """The flags that were found at an earlier time to be taken, if that has been kept."""
    try:
        kept = json.loads(unsealed(path.stem, read_own(path)))
        return [flag for flag in WANTED if flag in kept]
    except OSError:
        return None
    except (ValueError, TypeError) as error:
        set_aside(path, "list of flags", error)
        return None


def _accepted_flags(compiler: Compiler) -> list[str]:
    """The flags of WANTED that `compiler` takes: all, or those that it takes one after the other."""
    seconds = FIRST_ZIG if is_zig(compiler.command) else COMPILER_PATIENCE
    try:
        _probe(Compiler(compiler.command, "", C_FLAGS + WANTED, seconds))
        return [*WANTED]
    except CompilerError as error:
        if error.late:
            raise
        _probe(Compiler(compiler.command, "", C_FLAGS, seconds))
    taken: list[str] = []
    for flag in WANTED:
        with suppress(CompilerError):
            _probe(Compiler(compiler.command, "", (*C_FLAGS, *taken, flag), seconds))
            taken.append(flag)
    return taken


def _probe(compiler: Compiler) -> None:
    """CompilerError unless what `compiler` makes is loaded, and is right."""
    data = compiler.build(PROBE)
    if "python" not in Path(sys.executable or "").name.lower():
        return  # a program that embeds Python: it knows no command that starts one
    refused = "there is no folder for temporary files"
    status: int | None = 0
    for room in rooms():
        with suppress(OSError), written(data, room) as path:
            command = [sys.executable, "-I", "-S", "-c", TRIAL, str(path)]
            status, said = ForeignProcess(command, path.parent, COMPILER_PATIENCE, {}).result()
            if status == 0:
                return
            refused = f"{ending(status)}: {short(said)}"
            if status is None:
                break
    raise CompilerError(f"its object does not run here ({refused})", status is None)
