"""Compiles CUDA text for a GPU without one. In: source and architecture. Out: the cubin, the log, and what each kernel
uses (registers, shared memory, spills), read from ptxas's report. Next stop: tests/kernels and the cost model."""

from __future__ import annotations

import ctypes
import functools
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from eqfuse.errors import EqfuseError, TargetUnavailable

# CuPy's flags, plus ptxas's report.
FLAGS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space", "--ptxas-options=-v")
_WHEELS = ("nvidia/cu13/lib/libnvrtc.so.1*", "nvidia/cuda_nvrtc/lib/libnvrtc.so.1*")


class NvrtcError(EqfuseError):
    """NVRTC refuses the source; the message is its log."""


@dataclass(frozen=True)
class Resources:
    """What one kernel uses, per thread except `shared_bytes` (static, per block)."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


@dataclass(frozen=True)
class Compiled:
    cubin: bytes
    log: str
    resources: dict[str, Resources]


def available() -> str:
    """Empty when kernels can be compiled here, else the reason why not."""
    try:
        _library()
    except TargetUnavailable as error:
        return str(error)
    return ""


def compile_cuda(code: str, arch: str) -> Compiled:
    """Compiles for a real architecture, e.g. ``sm_90``."""
    library = _library()
    program = ctypes.c_void_p()
    _must(library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None))
    try:
        options = [f"-arch={arch}", *FLAGS, *(f"-I{folder}" for folder in _include_directories())]
        encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), encoded)
        log = _read(program, "ProgramLog").rstrip(b"\0").decode()
        if status:
            raise NvrtcError(f"{library.nvrtcGetErrorString(status).decode()} for {arch}\n{log}")
        return Compiled(_read(program, "CUBIN"), log, _resources(log))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def _library() -> ctypes.CDLL:
    site = Path(sysconfig.get_paths()["purelib"])
    found = [str(path) for pattern in _WHEELS for path in sorted(site.glob(pattern))]
    for name in (*found, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise TargetUnavailable("libnvrtc is not installed: pip install eqfuse[gpucheck]")


@functools.cache
def _include_directories() -> tuple[str, ...]:
    """Where cuda_fp16.h and cuda_bf16.h are; a kernel that includes neither needs none."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    folder = find_nvidia_header_directory("cudart")
    return (folder,) if folder else ()


def _must(status: int) -> None:
    if status:
        raise NvrtcError(_library().nvrtcGetErrorString(status).decode())


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _must(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _must(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _resources(log: str) -> dict[str, Resources]:
    parts = log.split("Compiling entry function '")[1:]
    return {part[: part.index("'")]: _kernel_resources(part) for part in parts}


def _kernel_resources(part: str) -> Resources:
    def number(pattern: str) -> int:
        match = re.search(pattern, part)
        return int(match[1]) if match else 0

    return Resources(
        registers=number(r"Used (\d+) registers"),
        shared_bytes=number(r"(\d+) bytes smem"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
        spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
    )
