"""Runs emitted CUDA text, unchanged, on the CPU. In: the source and a kernel's name. Out: a callable shaped like
`cupy.RawKernel`, which runs the grid one fibre per CUDA thread (`cudasim.cpp`) under a schedule chosen by `seed`.
A stuck barrier, a wrong warp mask or a bad address is a `CudaSimError`. Next stop: tests/kernels."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from eqfuse.errors import EqfuseError, TargetUnavailable
from eqfuse.machine.files import cache_dir

EMULATOR_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-w", "-fvisibility=hidden", "-ffp-contract=off",
         "-fsanitize=alignment,bounds,signed-integer-overflow,shift,float-cast-overflow,integer-divide-by-zero",
         "-fsanitize-undefined-trap-on-error")  # fmt: skip
# g++ calls the hooks of cudacount.hpp, and leaves out no read
COUNTED = ("-DEQF_COUNTED", "-fsanitize=thread", "--param=tsan-distinguish-volatile=1", "-fno-threadsafe-statics",
           "-O0")  # fmt: skip
OURS = ("-fno-sanitize=all", "-O2")  # of the scheduler and the hooks, which are called at every read and write
CUDA_HEADERS = ("cuda_fp16.h", "cuda_bf16.h")  # their contents are in cudawords.hpp
LARGEST_DYNAMIC_SHARED = 227 * 1024  # bytes of a block, on sm_90 (CUDA programming guide, compute capabilities)
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+'
                     r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KIND = {**dict.fromkeys("?bBhHiIlLqQ", "i"), "f": "f", "d": "f"}  # by dtype.char; others: struct
_running = threading.Lock()  # a library keeps its threads and shared memory in static storage


class CudaSimError(EqfuseError):
    """The kernel does not compile, was launched wrongly, or did something a GPU does not define."""


class CpuRawModule:
    """The kernels of one source, as `cupy.RawModule(code=...)`. A kernel is an `extern "C" __global__ void`."""

    def __init__(self, code: str) -> None:
        self.code = code

    def get_function(self, name: str) -> CpuRawKernel:
        return CpuRawKernel(self.code, name)


@dataclass(frozen=True)
class Traffic:
    """Distinct bytes of an array that a launch touches: those that it reads, the sum of those that it reads in each
    pass (between two places where threads wait for one another), those that it writes."""

    read: int
    read_by_pass: int
    written: int


class CpuRawKernel:
    """One kernel, called as `cupy.RawKernel`; `seed` picks the order of blocks, warps and lanes (0 natural, 1 reversed,
    others random). A kernel without races gives the same bits under every seed. `blocks`: run only those of these
    numbers, which count along x first. `counted`: compiled so that `traffic` can count."""

    _stacks: ClassVar[int | None] = None  # one region for all kernels of the process

    def __init__(self, code: str, name: str, counted: bool = False) -> None:
        self.name = name
        self.max_dynamic_shared_size_bytes = 48 * 1024
        library = _load(code, counted)
        self._library = library
        try:
            self._launch = library[f"eqf_launch_{name}"]
            signature = library[f"eqf_signature_{name}"]
        except AttributeError:
            contents = f'it has {_kernels(code)} (extern "C" only)'
            raise CudaSimError(f"no kernel {name!r} in this source; {contents}") from None
        signature.restype = ctypes.c_char_p
        self._reserve_stacks = library["eqf_reserve_stacks"]
        self._reserve_stacks.restype = ctypes.c_void_p
        self._launch.restype = None
        self._parameters = [(text[0], int(text[1:])) for text in signature().decode().split()]

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[object], shared_mem: int = 0,
                 seed: int = 0, blocks: Sequence[int] = ()) -> None:  # fmt: skip
        sizes = _sizes(grid) + _sizes(block)
        self._check_launch(sizes, shared_mem)
        if len(args) != len(self._parameters):
            raise CudaSimError(f"{self.name} takes {len(self._parameters)} arguments, {len(args)} given")
        values = [self._bytes(i, argument) for i, argument in enumerate(args)]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        message = ctypes.create_string_buffer(1024)
        with _running:
            CpuRawKernel._stacks = CpuRawKernel._stacks or self._reserve_stacks()
            self._launch(pointers, (ctypes.c_uint * 6)(*sizes), ctypes.c_size_t(shared_mem),
                         (ctypes.c_size_t * len(blocks))(*blocks), ctypes.c_size_t(len(blocks)), ctypes.c_uint(seed),
                         ctypes.c_void_p(CpuRawKernel._stacks), message, ctypes.c_size_t(len(message)))  # fmt: skip
        if message.value:
            raise CudaSimError(f"{self.name}: {message.value.decode()}")

    def traffic(self, grid: Sequence[int], block: Sequence[int], args: Sequence[object],
                shared_mem: int = 0) -> list[Traffic | None]:  # fmt: skip
        """What a launch reads and writes of each argument that is an array; the kernel was made to be `counted`."""
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        counters = (ctypes.c_size_t * 3)()
        counts = []
        self._count(arrays)
        try:
            self(grid, block, args, shared_mem)
            for i in range(len(arrays)):
                self._library.eqf_counted(ctypes.c_size_t(i), counters)
                counts.append(Traffic(*counters))
        finally:
            self._count([])  # what a later launch reads may lie where this one wrote
        rest = iter(counts)
        return [next(rest) if isinstance(a, np.ndarray) else None for a in args]

    def _count(self, arrays: Sequence[np.ndarray]) -> None:
        starts = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        nbytes = (ctypes.c_size_t * len(arrays))(*[a.nbytes for a in arrays])
        self._library.eqf_count(starts, nbytes, ctypes.c_size_t(len(arrays)))

    def _check_launch(self, sizes: list[int], shared_mem: int) -> None:
        threads = sizes[3] * sizes[4] * sizes[5]
        if threads > 1024 or sizes[5] > 64:
            raise CudaSimError(f"{self.name}: block {tuple(sizes[3:])} is too large (1024 threads, 64 along z)")
        if sizes[0] > 2**31 - 1 or max(sizes[1:3]) > 65535:
            raise CudaSimError(f"{self.name}: grid {tuple(sizes[:3])} is too large (65535 along y and z)")
        if shared_mem > self.max_dynamic_shared_size_bytes or shared_mem > LARGEST_DYNAMIC_SHARED:
            raise CudaSimError(f"{self.name}: {shared_mem} bytes of dynamic shared memory, "
                               f"max_dynamic_shared_size_bytes is {self.max_dynamic_shared_size_bytes}")  # fmt: skip

    def _bytes(self, position: int, argument: object) -> ctypes.Array[ctypes.c_char]:
        """The argument as CuPy lays it out, refused where a GPU would silently read something else."""
        kind, size = self._parameters[position]
        layout, data = _layout(argument)
        narrowed = layout == kind == "i" and isinstance(argument, int)  # little-endian: the low bytes are the value
        if layout != kind or (len(data) != size and not narrowed):
            raise CudaSimError(
                f"{self.name}: argument {position} is a {type(argument).__name__} ({layout}{len(data)}), the kernel's "
                f"parameter is {kind}{size} (p pointer, i integer, f float, s struct; bytes)"
            )
        return ctypes.create_string_buffer(data[:size], size)


def _layout(argument: object) -> tuple[str, bytes]:
    if argument is None:
        return "p", bytes(8)
    if isinstance(argument, np.ndarray):
        return "p", int(argument.ctypes.data).to_bytes(8, sys.byteorder)
    if isinstance(argument, np.generic):
        return _KIND.get(argument.dtype.char, "s"), argument.tobytes()
    if isinstance(argument, bool):
        return "i", bytes([argument])
    if isinstance(argument, int):
        return "i", np.int64(argument).tobytes()
    if isinstance(argument, float):
        return "f", np.float64(argument).tobytes()
    raise CudaSimError(f"a {type(argument).__name__} cannot be a kernel argument: pass an array or a NumPy scalar")


def _sizes(extents: Sequence[int]) -> list[int]:
    padded = [int(extent) for extent in extents] + [1, 1, 1]
    return [max(1, extent) for extent in padded[:3]]  # CuPy launches grid (0,) as one block


def _kernels(code: str) -> list[str]:
    return _KERNEL.findall(_COMMENT.sub(" ", code))


def cudasim_missing() -> str:
    """Empty when kernels can be run here, else the reason why not."""
    if sys.platform != "linux":
        return "the CUDA emulator needs Linux (ELF sections, POSIX signals)"
    return "" if shutil.which("g++") else "the CUDA emulator needs g++ on PATH"


def cache_directory() -> Path:
    """Where compiled kernels are kept."""
    return cache_dir() / "cudasim"


@functools.cache
def _beside(*names: str) -> str:
    return "".join((Path(__file__).parent / name).read_text() for name in names)


@functools.cache
def _compiler_version() -> str:
    return subprocess.run(["g++", "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True).stdout


@functools.cache
def _load(code: str, counted: bool = False) -> ctypes.CDLL:
    if reason := cudasim_missing():
        raise TargetUnavailable(reason)
    more, cache = COUNTED if counted else (), cache_directory()
    header = _precompiled(cache, counted)
    exports = "".join(f"EQF_EXPORT({name})\n" for name in dict.fromkeys(_kernels(code)))
    code = f"#line 1 \"kernel.cu\"\n{code}\n{exports}"
    path = cache / f"{_key(header.name, code)}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.replace(_compile(Path(folder), code, header, more), path)
    _runtime()
    return ctypes.CDLL(str(path))


@functools.cache
def _runtime() -> ctypes.CDLL:
    """The library of g++, which kernels find in their process: its link takes as long as a small kernel's compile."""
    return ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)


@functools.cache
def _precompiled(cache: Path, counted: bool) -> Path:
    """What every kernel includes first; beside it g++'s precompiled form, which takes half as long to read, and the
    object that is linked to every kernel."""
    header = _beside("cudasim.hpp", "cudawords.hpp")
    threads = _beside("cudasim.cpp", "cudawgmma.hpp", *["cudacount.hpp"] * counted)
    flags = (*EMULATOR_FLAGS, *(COUNTED if counted else ()))
    path = cache / f"{_key(header, threads, *flags, *OURS, *CUDA_HEADERS, platform.machine(), _compiler_version())}.hpp"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            folder = Path(name)
            (folder / "header.hpp").write_text(header)
            (folder / "threads.cpp").write_text(threads)
            _run(folder, "g++", *flags, "-x", "c++-header", "-o", "header.gch", "header.hpp")
            _run(folder, "g++", *flags, *OURS, "-include", "header.hpp", "-c", "-o", "threads.o", "threads.cpp")
            os.replace(folder / "header.gch", path.with_suffix(".hpp.gch"))
            os.replace(folder / "threads.o", path.with_suffix(".o"))
            os.replace(folder / "header.hpp", path)
    return path


def _key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def _compile(folder: Path, code: str, header: Path, more: Sequence[str]) -> Path:
    for name in CUDA_HEADERS:
        (folder / name).touch()
    (folder / "kernel.cpp").write_text(code)
    library = folder / "kernel.so"
    _run(folder, "g++", *EMULATOR_FLAGS, *more, "-I.", "-include", str(header), "-c", "-o", "kernel.o", "kernel.cpp")
    _run(folder, "gcc", "-shared", "-o", library.name, "kernel.o", str(header.with_suffix(".o")), "-lm")
    return library


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise CudaSimError(f"g++ refuses the emitted CUDA text:\n{done.stderr[:4000]}")
