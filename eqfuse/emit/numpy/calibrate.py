"""Measures this CPU with NumPy and keeps the result, so that plans made here stay the same until it is measured again.

In: nothing but the machine. Out: a `Device` (`eqfuse/cost/device.py`), stored as JSON in the cache directory.
"""

from __future__ import annotations

import hashlib
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from eqfuse.cost.device import Device, Rates
from eqfuse.cost.price_classes import USUAL_BY_OPERATOR
from eqfuse.cost.profiles import DEVICES, LASTING, LOCK, WAKE
from eqfuse.cost.work import SHORT_ROW
from eqfuse.dtypes import kind
from eqfuse.emit.numpy.concurrency import Caches, lasting_of, lock_of, memory_of, seconds_of, wake_of
from eqfuse.emit.numpy.cost.figures import BLAS, LANES
from eqfuse.emit.numpy.ops import JOINS
from eqfuse.emit.numpy.transpose_copy import COPY_BUFFER, copy_transposed
from eqfuse.errors import TargetUnavailable, UnsupportedOp, user_level
from eqfuse.machine.files import cache_dir, set_aside, write_atomically
from eqfuse.machine.quiet import Watch, look_together
from eqfuse.machine.thread_limit import thread_count
from eqfuse.ops import TABLE, Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.row import PriceClass
from eqfuse.ops.special import SPECIAL_UFUNCS

REAL = ("float32", "float64", "float16", "bfloat16", "int64")  # dtypes of products: a complex one is four of its parts
DTYPES = (*REAL, "complex64", "complex128")
TURNED = 512  # rows and columns of the array that is transposed
MEASUREMENTS = 2  # at a quick measurement, where the machine is busy
AGAIN = 3600.0  # seconds after which what was measured on a busy machine is measured again
VALUES = 5  # to be raised where what a figure means changes: profiles kept before are measured again
ELEMENTS = 16384  # per measured call: three float32 arrays fill 192 KiB, a usual tile
COMPLEX_ELEMENTS = 2048  # the same of complex numbers, whose functions take up to a hundred times as long
FEW_TERMS = 8  # terms of a sum of a short product

# Operators without a call of their own: the one they are priced as.
SAME_AS = {
    "window_max": "maximum", "window_sum": "add",
    "cumprod": "cumsum", "accumulate": "cumsum", "digitize": "searchsorted", "interp": "searchsorted",
    "concat": "cast", "pad": "cast", "slice_scatter": "cast", "bitcast": "cast",
    "real": "cast", "imag": "cast", "complex": "cast",
}  # fmt: skip
# Operators priced in proportion to one that is measured, as the generic table has them: they are many, and slow.
_MEASURED_CALLS = ("cumsum", "sort", "argsort", "searchsorted")
# for each element: levels of the 1,024, or 128, of its row, or places to look at
_STEPS = dict.fromkeys(("sort", "argsort", "stable_sort", "searchsorted"), 10) | {"short_sort": 7}
_USUAL = {op: usual.cpu_ns for op, usual in USUAL_BY_OPERATOR.items()}
_IN_PROPORTION = dict.fromkeys(SPECIAL_UFUNCS, "erf") | {
    name: "sort" if _USUAL[name] >= _USUAL["sort"] else "add"
    for name, op in TABLE.items()
    if op.role is Role.LIBRARY and name not in SAME_AS and name not in _MEASURED_CALLS
}
# Operators that are not defined everywhere: where their values lie, and the signs these have. What a power does to
# negative numbers it does to whole exponents alone (`whole_power`); others give NaN.
_DOMAINS = dict.fromkeys(("sqrt", "log", "log2", "log10", "power"), (0.1, 3.0, (1,))) | {
    "asin": (0.1, 0.9, (-1, 1)), "acos": (0.1, 0.9, (-1, 1)), "atanh": (0.1, 0.9, (-1, 1)),
    "log1p": (0.1, 0.9, (-1, 1)), "acosh": (1.1, 3.0, (1,)), "prod": (0.9, 1.1, (-1, 1)),
}  # fmt: skip
_NATURAL = ("power", "bitwise_left_shift", "bitwise_right_shift")  # of integers: defined for no negative second operand
_FREE = frozenset(name for name, op in TABLE.items() if op.price is PriceClass.FREE)


def calibrate(quick: bool = False) -> Device:
    """Measure this CPU and keep the profile, in place of an earlier one. Less than a second when quick, else 20 s.

    On a busy machine, of which there is a warning, an earlier profile stays; where there is none, `this_cpu` says what
    is used.
    """
    measured, trouble = _measured(quick)
    _load.cache_clear()
    if trouble is None:
        return _store(measured, replace=True)
    _warn_busy(trouble)
    if not profile_path().exists():
        _store_for_now(measured)
    return this_cpu()


def this_cpu() -> Device:
    """The stored profile of this CPU; where there is none, or a damaged one, a quick estimate, which is then stored.

    What was measured while other programs were at work is used by this process, and for AGAIN seconds by others.
    """
    return _load(profile_path())


def profile_path() -> Path:
    """Where this CPU's profile lives. The name changes with the CPU, its threads, and what is measured on what."""
    key = f"{VALUES}|{cpu_name()}|{thread_count()}|{sorted(_USUAL)}|{sorted(_FREE)}|{list(Device.__dataclass_fields__)}"
    return cache_dir() / "devices" / f"cpu-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


@cache
def _load(path: Path) -> Device:
    try:
        return Device.from_json(path.read_text())
    except OSError:
        return _estimated(path, replace=False)
    except (TargetUnavailable, UnicodeDecodeError) as error:
        set_aside(path, "device profile", error)
        return _estimated(path, replace=True)


def _estimated(path: Path, replace: bool) -> Device:
    """A quick measurement, stored; or on a busy machine one that others have made lately, or are to use for now."""
    with suppress(OSError, TargetUnavailable, UnicodeDecodeError):
        if 0 <= time.time() - _for_now(path).stat().st_mtime < AGAIN:
            return Device.from_json(_for_now(path).read_text())
    measured, trouble = _measured(quick=True)
    if trouble is None:
        return _store(measured, replace)
    _warn_busy(trouble)
    return _store_for_now(measured)


def _measured(quick: bool) -> tuple[Device, str | None]:
    """A measurement, and what says that the machine was busy: a quick one is repeated if it was."""
    for _ in range(MEASUREMENTS if quick else 1):
        watch = Watch(partial(look_together, thread_count()))
        measured = measure(quick, watch.look)
        if watch.trouble is None:
            break
    return measured, watch.trouble


def _warn_busy(trouble: str) -> None:
    warnings.warn(
        f"this CPU was measured while other programs ran ({trouble}): plans are priced by rough figures until it is "
        f"measured again, after {AGAIN // 60:.0f} minutes or by `eqfuse calibrate` on a quiet machine",
        stacklevel=user_level(),
    )


def _for_now(path: Path) -> Path:
    return path.with_suffix(".busy")


def _store_for_now(measured: Device) -> Device:
    with suppress(OSError):
        write_atomically(_for_now(profile_path()), measured.to_json().encode())
    return measured


def _store(measured: Device, replace: bool) -> Device:
    """Write the profile in one step. Without `replace`, the profile another process stored first wins."""
    path = profile_path()
    with suppress(OSError):
        _for_now(path).unlink()
    try:
        if not replace and path.exists():
            return Device.from_json(path.read_text())
        write_atomically(path, measured.to_json().encode())
    except OSError as error:
        message = f"the device profile cannot be kept ({error}): other runs may measure, and plan, differently"
        warnings.warn(message, stacklevel=user_level())
    return measured


def cpu_name() -> str:
    """The CPU's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def caches() -> Caches:
    """Cache sizes from sysfs; those of the generic profile where the system does not tell."""
    generic = DEVICES["cpu"]
    sizes = {1: generic.l1_bytes, 2: generic.l2_bytes, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            sizes[int((index / "level").read_text())] = int(size.rstrip("KM")) << (20 if size.endswith("M") else 10)
    return Caches(sizes[1], sizes[2], sizes[3])


def measure(quick: bool, look: Callable[[], None] = lambda: None) -> Device:
    """This CPU's profile. Every figure is the best of several runs, so that other programs disturb it little; `look` is
    called between figures, to notice where they disturb it all the same."""
    threads, sizes = thread_count(), caches()
    look()
    stop_after = 2e-5 if quick else 2e-3  # seconds spent on one figure
    call = seconds_of(partial(np.add, *[np.zeros(1, np.float32)] * 2, out=np.zeros(1, np.float32)), 2e-3)
    launch = max(seconds_of(partial(_smallest_kernel, *[np.zeros(1, np.float32)] * 2), 2e-3) - call, 1e-8)
    with np.errstate(all="ignore"):
        seconds = {op: _elements(op, call, stop_after) for op in _measured_ops()}
        look()
        flops = tuple((dtype, _product(dtype, quick)) for dtype in REAL)
    look()
    for op, as_op in SAME_AS.items():
        seconds[op] = seconds[as_op]
    for op, other in _IN_PROPORTION.items():
        seconds[op] = tuple((dtype, s * _USUAL[op] / _USUAL[other]) for dtype, s in seconds[other])
    for way in ("whole_power", "short_sort", "stable_sort"):
        seconds[way] = _elements(way, call, stop_after)
    seconds["vecdot"] = tuple((dtype, _dotted(np.dtype(dtype), stop_after)) for dtype in BLAS)
    seconds["short_product"] = tuple((dtype, _short_product(np.dtype(dtype), stop_after)) for dtype in BLAS)
    seconds["transpose"] = tuple((dtype, _transposed(np.dtype(dtype), stop_after)) for dtype in DTYPES)
    for op in _FREE:
        seconds[op] = tuple((dtype, 0.0) for dtype in DTYPES)
    near, all_levels, dispatch = memory_of(sizes, threads, quick)
    look()
    lasting = LASTING if quick or threads == 1 else lasting_of(threads)
    lock = LOCK if threads == 1 else lock_of(threads, call)
    wake = WAKE if threads == 1 else wake_of(threads, dispatch, naps=5 if quick else 30)
    look()
    return Device(
        name=cpu_name(), kind="cpu", target="numpy", arch=platform.machine(), threads=threads,
        launch_seconds=launch, call_seconds=call, dispatch_seconds=dispatch,
        lock=lock, lasting_seconds=lasting, wake=wake,
        levels=all_levels, thread_levels=near,
        flops=flops, tiled_flops=(),
        scalar_flops=tuple((dtype, threads / s) for dtype, s in seconds["add"]),
        elements=tuple((op, tuple((d, s / threads) for d, s in row)) for op, row in sorted(seconds.items())),
        l1_bytes=sizes.l1, l2_bytes=sizes.l2, shared_bytes=sizes.l1,
        max_arguments=DEVICES["cpu"].max_arguments, multiprocessors=0, depth=DEVICES["cpu"].depth,
        reads=f"{'quick' if quick else 'full'} measurement, {date.today()}, NumPy {np.__version__}",
    )  # fmt: skip


def _smallest_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, x.dtype)
    np.add(x, y, out=out)
    return out


def _measured_ops() -> Iterator[str]:
    """Every operator that computes, except products and those priced as another."""
    unmeasured = _FREE | {"transpose"} | set(SAME_AS) | set(_IN_PROPORTION)
    yield from (name for name, op in TABLE.items() if op.role is not Role.CONTRACTION and name not in unmeasured)


def _elements(op: str, call_seconds: float, stop_after: float) -> Rates:
    """Seconds per element on one thread, by dtype. A dtype the operator is not defined for has no row."""
    row = []
    for dtype in DTYPES:
        try:
            took = seconds_of(_call(op, np.dtype(dtype)), stop_after)
        except TypeError:
            continue
        row.append((dtype, max(took - call_seconds, 1e-8) / _count(np.dtype(dtype)) / _STEPS.get(op, 1)))
    return tuple(row)


def _call(op: str, dtype: np.dtype) -> Callable[[], Any]:
    """One NumPy call of the operator over an array of `_values`, writing into an array that exists where NumPy can."""
    x = _values(op, dtype)
    if op == "whole_power":
        if kind(dtype) != "f":
            raise TypeError("a power of integers is one whatever the exponent")
        return partial(np.power, x, dtype.type(3), out=np.empty_like(x))
    if op in ("short_sort", "stable_sort"):
        stable = op == "stable_sort"
        return partial(TABLE["sort"].meaning, x.reshape(-1, 1024 if stable else SHORT_ROW), -1, stable)
    if op in UFUNCS:
        arguments = [x, x[::-1].copy()][: UFUNCS[op].nin]
        if op == "ldexp":
            arguments[1] = np.ones(x.size, np.int32)
        return partial(UFUNCS[op], *arguments, out=UFUNCS[op](*arguments))
    meaning, rows = TABLE[op].meaning, x.reshape(-1, 1024)
    match op, TABLE[op].role:
        case "where", _:
            return partial(meaning, x > np.median(x), x, x)
        case "cast", _:
            targets = {"float64": "float32", "complex128": "complex64", "complex64": "complex128"}
            target = targets.get(dtype.name, "float64")
            return partial(np.copyto, np.empty(x.size, target), x, casting="unsafe")
        case "scatter", _:
            return partial(meaning, x, np.random.default_rng(0).permutation(x.size), x, -1, "add")
        case "searchsorted", _:
            return partial(meaning, np.sort(x)[::16].copy(), x, "left")
        case "take", _:
            return partial(np.take, x, np.random.default_rng(0).permutation(x.size))
        case "take_along_axis", _:
            return partial(np.take_along_axis, rows, np.random.default_rng(0).integers(0, 1024, rows.shape), -1)
        case _, Role.REDUCTION if op in JOINS:  # as kernels call it
            return partial(UFUNCS[JOINS[op]].reduce, rows, axis=-1, out=meaning(rows, (-1,)), keepdims=True)
        case _, Role.REDUCTION:
            return partial(meaning, rows, (-1,))
        case "cumsum", _:
            return partial(meaning, rows, -1)
        case "sort" | "argsort", _:
            return partial(meaning, rows, -1, False)
    raise UnsupportedOp(
        f"emit/numpy/calibrate.py cannot measure operator {op!r}: add a case to _call, or a row to SAME_AS"
    )


def _count(dtype: np.dtype) -> int:
    """Elements of `_values`."""
    return COMPLEX_ELEMENTS if dtype.kind == "c" else ELEMENTS


@cache
def _values(op: str, dtype: np.dtype) -> np.ndarray:
    """Values of both signs and of usual size, as far as the domain of `op` allows, in no order that a branch predictor
    could learn."""
    random = np.random.default_rng(0)
    least, most, signs = _DOMAINS.get(op, (0.1, 3.0, (-1, 1)))
    if dtype.kind == "i":
        least, most = 1, 9
        signs = (1,) if op in _NATURAL else signs
    values = random.uniform(least, most, _count(dtype)) * random.choice(signs, _count(dtype))
    return (values + 1j * random.permutation(values) if dtype.kind == "c" else values).astype(dtype)


def _transposed(dtype: np.dtype, stop_after: float) -> float:
    """Seconds per element of reading an array across the axis it lies along, by blocks, on one thread."""
    x = np.zeros((TURNED, TURNED), dtype)
    call = partial(copy_transposed, np.empty_like(x), x.T, np.empty(COPY_BUFFER, np.uint8))
    return seconds_of(call, stop_after) / x.size


def _dotted(dtype: np.dtype, stop_after: float) -> float:
    """Seconds per element of the dot products of rows with ones, on one thread."""
    rows = _values("vecdot", dtype).reshape(16, -1)
    return seconds_of(partial(np.vecdot, rows, np.ones_like(rows[0]), np.empty(16, dtype)), stop_after) / rows.size


def _short_product(dtype: np.dtype, stop_after: float) -> float:
    """Seconds for each pair of numbers that a product of a few columns multiplies and adds, on one thread."""
    rows, right = np.ones((1024, FEW_TERMS), dtype), np.ones((FEW_TERMS, LANES // dtype.itemsize), dtype)
    with threadpool_limits(1, "blas"):
        took = seconds_of(partial(np.matmul, rows, right, out=rows @ right), stop_after)
    return took / rows.size / right.shape[1]


def _product(dtype: str, quick: bool) -> float:
    """Operations per second of a square matrix product on every thread, as in a kernel's tiles.

    Measured on one: BLAS threads wait for each other, on a machine with other work up to fifty times as long.
    """
    blas = dtype in BLAS
    n = (512 if quick else 1024) if blas else (32 if quick else 128)
    a = np.ones((n, n), np.dtype(dtype))
    stop_after = (0.01 if blas else 2e-3) if quick else 0.3
    with threadpool_limits(1, "blas"):
        return thread_count() * 2 * n**3 / seconds_of(partial(np.matmul, a, a, out=np.empty_like(a)), stop_after)
