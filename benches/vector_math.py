"""How accurate and how fast the C target's elementary functions are, beside NumPy's.

In: the texts of `eqfuse.emit.c.vector_math`. Out: errors in units of the last place, against the system's libm in a
wider type, and nanoseconds. Run: eqfuse bench vector_math [name…], which prints the table of that folder's README; all
of it takes an hour.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import scipy.special

from eqfuse.emit.c import vector_math
from eqfuse.machine import c_compiler
from eqfuse.ops import TABLE
from eqfuse.show.progress import progress

PLAIN = ("-U__FMA__", "-U__ARM_FEATURE_FMA")  # as on machines without fused products
_TYPES = {
    "float32": "#define T float\n#define WIDE double\n#define BITS 24\n#define LEAST -149\n#define MOST 128\n",
    "float64": "#define T double\n#define WIDE long double\n#define BITS 53\n#define LEAST -1074\n#define MOST 1024\n",
}
# What a function is in C, where its name does not say it, and what it is in Python, where no operator has the name.
_IN_C = {"sigmoid": "x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))", "rsqrt": "1 / sqrt(x)", "power": "pow(x, y)"}
_IN_PYTHON: dict[str, Callable] = {"sigmoid": scipy.special.expit, "rsqrt": lambda x: 1 / np.sqrt(x)}
_BLOCK = 1 << 20
Block = tuple[np.ndarray, ...]  # one array per argument
_SPECIAL = (
    0.0, math.inf, math.nan, 1.0, 0.5, 2.0, 3.0, 1e-45, 1e-40, 1e-323, 1e-310, 1e300,
    88.8, 89.2, 104.0, 709.8, 710.3, 745.2,  # where exponentials overflow and vanish
    16367173 * 2.0**72, 6381956970095103 * 2.0**797,  # the float32 and the float64 next to a multiple of pi/2
)  # fmt: skip


@dataclass(frozen=True)
class Error:
    """The largest error met, and the arguments that it was met at."""

    ulps: float
    arguments: tuple[float, ...] = ()
    got: float = math.nan


class FunctionSubject:
    """One function on one dtype, compiled as the C target does, and with `flags`."""

    def __init__(self, name: str, dtype: str, flags: tuple[str, ...] = ()) -> None:
        self.name, self.dtype = name, np.dtype(dtype)
        self.arguments = vector_math.ARGUMENTS[name]
        self._ours, self._report = _compiled(_loop(name, dtype), *flags)
        self._judge, _ = _compiled(_judge(dtype))
        self._judge.worst.restype = self._judge.worst_beside.restype = ctypes.c_double

    @property
    def vector_bytes(self) -> int | None:
        """Of the widest loop that the compiler says it made; 0 where there is none, None where it does not say."""
        if self._report is None:
            return None
        return max(map(int, re.findall(r"loop vectorized using (\d+) byte", self._report)), default=0)

    def ours(self, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        self.bound(out, *arrays)()
        return out

    def bound(self, out: np.ndarray, *arrays: np.ndarray) -> Callable[[], None]:
        """A call that is nothing but the loop: the caller keeps the arrays."""
        addresses = _address(arrays[0]), _address(arrays[-1]), _address(out)
        return partial(self._ours.run, *addresses, ctypes.c_long(out.size))

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        call = _IN_PYTHON.get(self.name) or TABLE[self.name].meaning
        with np.errstate(all="ignore"):
            return np.asarray(call(*arrays))

    def error(self, got: np.ndarray, *arrays: np.ndarray) -> Error:
        """Of results `got` at these arguments."""
        where, size = ctypes.c_long(), ctypes.c_long(got.size)
        addresses = (_address(arrays[0]), _address(arrays[-1]), _address(got))
        reference = getattr(self._judge, f"{self.name}_")
        most = self._judge.worst(reference, *addresses, size, ctypes.byref(where))
        return Error(most, tuple(float(array[where.value]) for array in arrays), float(got[where.value]))

    def worst(self, call: Callable[..., np.ndarray], blocks: Iterable[Block], threads: int = 1) -> Error:
        """The largest error of `call` over these blocks of arguments."""
        with ThreadPool(threads) as pool:  # (its imap takes the next block when one is done)
            errors = pool.imap_unordered(lambda block: self.error(call(*block), *block), blocks)
            return max(errors, key=lambda error: error.ulps)

    def worst_float32(self, call: Callable[..., np.ndarray], stride: int, threads: int) -> Error:
        """The same of all 2**32 numbers, or one in `stride`, beside our own function on float64: libm takes minutes."""
        wide = FunctionSubject(self.name, "float64")

        def error(start: int) -> Error:
            bits = np.arange(start, min(start + _BLOCK * stride, 1 << 32), stride, dtype=np.uint64)
            x = bits.astype(np.uint32).view(np.float32)
            with np.errstate(all="ignore"):
                wanted, got, where = wide.ours(x.astype(np.float64)), call(x), ctypes.c_long()
            size = ctypes.c_long(x.size)
            most = self._judge.worst_beside(_address(wanted), _address(got), size, ctypes.byref(where))
            return Error(most, (float(x[where.value]),), float(got[where.value]))

        with ThreadPool(threads) as pool:
            return max(pool.imap_unordered(error, range(0, 1 << 32, _BLOCK * stride)), key=lambda error: error.ulps)


def samples(dtype: np.dtype, arguments: int, count: int, seed: int = 0) -> Iterator[Block]:
    """Special values in all pairs, then `count` numbers: of all binades, of usual size, near 1 and near multiples of
    pi/2."""
    largest = float(np.finfo(dtype).max)
    special = np.array([x for x in (*_SPECIAL, largest) if not largest < x < math.inf], dtype)
    yield tuple(axis.ravel().copy() for axis in np.meshgrid(*[np.concatenate([special, -special])] * arguments))
    rng = np.random.default_rng(seed)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        yield tuple(_numbers(dtype, size, rng) for _ in range(arguments))


def _numbers(dtype: np.dtype, count: int, rng: np.random.Generator) -> np.ndarray:
    some = count // 5 + 1
    signs = rng.choice([-1.0, 1.0], some)
    parts = [
        np.frombuffer(rng.bytes(some * dtype.itemsize), dtype),
        signs * 10 ** rng.uniform(-8, 3.2, some),
        3 * rng.standard_normal(some),
        1 + signs * 2 ** -rng.uniform(0, 53, some),
        np.rint(signs * 2 ** rng.uniform(0, 50, some)) * (math.pi / 2),
    ]
    numbers = np.concatenate([part.astype(dtype) for part in parts])
    rng.shuffle(numbers)
    return numbers[:count]


def nanoseconds(call: Callable[[], object], elements: int) -> float:
    """Of this thread's processor, per element: the best of nine."""
    best = math.inf
    for _ in range(9):
        start, calls = time.thread_time_ns(), 0
        while time.thread_time_ns() - start < 3e6:
            call()
            calls += 1
        best = min(best, (time.thread_time_ns() - start) / calls / elements)
    return best


def usual(dtype: np.dtype, name: str, count: int = 1 << 13) -> np.ndarray:
    """Arguments of usual size in the domain of function `name`, which stay in cache."""
    x = 2 * np.random.default_rng(0).standard_normal(count)
    row = TABLE.get(name)
    lower, upper = row.domain if row and row.domain else (-math.inf, math.inf)
    if upper < math.inf:
        x = np.tanh(x)
    elif lower > -math.inf or name in ("power", "rsqrt"):
        x = np.abs(x) + max(lower, 0.0)
    return x.astype(dtype)


@cache
def _folder() -> tempfile.TemporaryDirectory:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="eqfuse-vector-math-")


@cache
def _compiled(text: str, *flags: str) -> tuple[ctypes.CDLL, str | None]:
    """The library, and what gcc says of the loops in it."""
    compiler = c_compiler.find_compiler()
    name = hashlib.blake2b(repr((text, flags)).encode(), digest_size=8).hexdigest()
    folder = Path(_folder().name)
    library, report = folder / f"{name}.so", folder / f"{name}.txt"
    is_gcc = "Free Software Foundation" in compiler.version
    library.write_bytes(compiler.build(text, *flags, *([f"-fopt-info-vec={report}"] if is_gcc else [])))
    return ctypes.CDLL(str(library)), report.read_text() if is_gcc else None


def _loop(name: str, dtype: str) -> str:
    number = {"float32": "float", "float64": "double"}[dtype]
    operands = ", ".join(["x[i]", "y[i]"][: vector_math.ARGUMENTS[name]])
    return vector_math.texts([(name, dtype)]) + f"""
void run(const {number} *restrict x, const {number} *y, {number} *restrict out, long n) {{
    (void)y;
#pragma omp simd
    for (long i = 0; i < n; i++) out[i] = {vector_math.symbol(name, dtype)}({operands});
}}
"""


def _judge(dtype: str) -> str:
    """C text with the reference of each function, called as that with an underscore."""
    references = [
        f"WIDE {name}_(WIDE x, WIDE y) {{ (void)y; return {_in_c(name, arguments)}; }}"
        for name, arguments in vector_math.ARGUMENTS.items()
    ]
    return "\n".join([_TYPES[dtype], (resources.files(__package__) / "vector_math.c").read_text(), *references])


def _in_c(name: str, arguments: int) -> str:
    return _IN_C.get(name, f"{name}({', '.join(['x', 'y'][:arguments])})")


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def row_of_table(name: str, dtype: str) -> str:
    """Errors of ours and of NumPy's, and what each costs. Ours on float32 with one argument is tried on all numbers."""
    subject = FunctionSubject(name, dtype)
    whole = dtype == "float32" and subject.arguments == 1
    errors = []
    for call, stride in ((subject.ours, 1), (subject.numpy, 5)):
        if whole:
            worst = subject.worst_float32(call, stride, threads=2)
        else:
            worst = subject.worst(call, samples(subject.dtype, subject.arguments, 30_000_000), threads=2)
        errors.append(f"{worst.ulps:.2f}")
    arrays = [usual(subject.dtype, name)] * subject.arguments
    out = np.empty_like(arrays[0])
    calls = (subject.bound(out, *arrays), lambda: subject.numpy(*arrays))
    costs = [f"{nanoseconds(call, out.size):.2f}" for call in calls]
    return f"| {' | '.join([name, dtype, *errors, *costs])} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench vector_math", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name", help="functions; without names, all of them")
    names = parser.parse_args(arguments).names or vector_math.ARGUMENTS
    print("| function | dtype | ulp | NumPy's ulp | ns | NumPy's ns |\n|---|---|---|---|---|---|")
    rows = [(name, dtype) for name in names for dtype in vector_math.SUFFIXES]
    with progress(len(rows)) as display:
        for name, dtype in rows:
            display.step(f"{name}, {dtype}")
            print(row_of_table(name, dtype), flush=True)


if __name__ == "__main__":
    main()
