"""CUDA text compiled by NVRTC, with a GPU or without. In: source, architecture, options. Out: the cubin, the log, and
what each kernel uses (registers, shared memory, spills), read from ptxas's report. Next stop: `gpu`, tests."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.errors import EqfuseError, TargetUnavailable

# Products are not contracted into sums: that would undo what computes with roundings.
NVRTC_FLAGS = ("-std=c++17", "-fmad=false")
FAST = (*NVRTC_FLAGS, "-ftz=true", "--device-as-default-execution-space")  # with those that CuPy adds
# Subnormal numbers count, divisions and roots are rounded once.
STRICT = (*NVRTC_FLAGS, "-ftz=false", "-prec-div=true", "-prec-sqrt=true")


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
class CudaBinary:
    cubin: bytes
    log: str
    resources: dict[str, Resources]


def nvrtc_missing() -> str:
    """Empty when kernels can be compiled here, else the reason why not."""
    try:
        _library()
    except TargetUnavailable as error:
        return str(error)
    return ""


def compile_cuda(code: str, arch: str, flags: tuple[str, ...] = FAST) -> CudaBinary:
    """Compiles for a real architecture, e.g. ``sm_90``."""
    library = _library()
    program = ctypes.c_void_p()
    _must(library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None))
    try:
        options = [f"-arch={arch}", *flags, "--ptxas-options=-v", *(f"-I{folder}" for folder in _headers())]
        log = _compiled(program, options)
        if "__global__" in code and not _resources(log):  # from 12.9 on, NVRTC keeps what it compiles, but no report
            log = _compiled(program, [*options, "--no-cache"])
        return CudaBinary(_read(program, "CUBIN"), log, _resources(log))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _compiled(program: ctypes.c_void_p, options: Sequence[str]) -> str:
    """The log of a compilation. NvrtcError where it fails."""
    library = _library()
    encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = library.nvrtcCompileProgram(program, len(options), encoded)
    log = _read(program, "ProgramLog").rstrip(b"\0").decode()
    if status:
        raise NvrtcError(f"{library.nvrtcGetErrorString(status).decode()} with {options[0]}\n{log}")
    return log


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        raise TargetUnavailable("cuda-pathfinder is not installed: pip install eqfuse[gpucheck]") from None
    try:
        library = ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except (DynamicLibNotFoundError, OSError) as error:
        raise TargetUnavailable(f"libnvrtc is not found ({error}): pip install eqfuse[gpucheck]") from None
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


@functools.cache
def _headers() -> tuple[str, ...]:
    """Where cuda_fp16.h and cuda_bf16.h are; a kernel that includes neither needs none."""
    from cuda.pathfinder import find_nvidia_header_directory

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
