"""Every elementwise operator that has a CUDA row, in every dtype, on special values: what the emulator computes from
emitted text is what NumPy computes, bit for bit where the result of the operator is exactly defined."""

from __future__ import annotations

import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

import ml_dtypes
import numpy as np
import pytest

from eqfuse import dtypes
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.machine import nvrtc
from eqfuse.ops.elementwise import UFUNCS, loop_dtypes
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, read

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8]
Pair = tuple[np.ndarray, np.ndarray]

# What a function of the math library returns is as exact as that library is.
NEAR = frozenset({
    "power", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "sin", "cos", "tan", "asin",
    "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "hypot", "erf", "erfc",
})  # fmt: skip
SPECIAL = frozenset(ops.SPECIAL_ROWS)  # these are compared where SciPy is exact itself
EITHER_ZERO = ("maximum", "minimum", "fmax", "fmin")  # of 0.0 and -0.0, NumPy gives either
NEAR_IF_COMPLEX = ("abs", "divide", "reciprocal")
MAY_BE_CONTRACTED = ("multiply", "square")  # of complex numbers: NumPy rounds once or twice, as the processor has it

INTEGERS = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128]
NUMBERS = [
    0.0, 0.5, 1, 1.5, 2, 2.5, 3, 7.5, 11, 88, 89, 127, 127.5, 128, 255, 255.5, 256, 300, 710, 2047, 2049, 32767, 32768,
    65535, 65536, 2.0**31 - 1, 2.0**31, 2.0**32, 2.0**32 + 5, 2.0**63, 2.0**64, 1 / 3, 0.1, np.pi, 1e-3, 1e-5, np.inf,
]  # fmt: skip


def special_values(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        ends = (limits.min, limits.min + 1, limits.max // 2, limits.max - 1, limits.max)
        every = {*ends, *INTEGERS, *(-i for i in INTEGERS)}
        return np.array(sorted(i for i in every if limits.min <= i <= limits.max), dtype)
    if dtype.kind == "c":
        parts = np.array([0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, 3e-39])
        grid = np.zeros((len(parts), len(parts)), dtype)
        grid.real, grid.imag = parts[:, None], parts
        return grid.reshape(-1)
    limits = ml_dtypes.finfo(dtype)
    least, tiny, most, eps = map(float, (limits.smallest_subnormal, limits.tiny, limits.max, limits.eps))
    every = [*NUMBERS, least, 3 * least, tiny - least, tiny, 1.5 * tiny, most, most / 2, most / 3, eps, 1 + eps]
    with np.errstate(over="ignore"):
        values = np.array([*every, *(-x for x in every), np.nan]).astype(dtype)
    return np.unique(values.view(f"u{dtype.itemsize}")).view(dtype)


def operators(dtype: np.dtype, emits: Callable[..., bool] = ops.emits) -> Iterator[tuple[str, Node]]:
    """Every operator of `dtype` that a target `emits`: of all pairs of special values, where it takes two."""
    size = len(special_values(dtype))
    arguments = (read(0, (size, 1), dtype), read(1, (size,), dtype))
    x, y = arguments
    for name, ufunc in UFUNCS.items():
        args = (x, read(2, (size,), np.int32)) if name == "ldexp" else arguments[: ufunc.nin]
        wanted = [a.dtype for a in args]
        loop = _loop(name, wanted)
        takes = bool(loop) and wanted == list(loop[:-1]) and emits(name, wanted, loop[-1])
        if takes and not (name == "power" and dtype.kind == "i"):
            yield name, node(name, args)
    yield "where", node("where", (node("equal", (x, x)), x, y))
    if dtype.kind == "c":
        yield from ((name, node(name, (x,))) for name in ("real", "imag"))
    elif dtype.name in ("float32", "float64"):
        yield "complex", node("complex", (x, y))


def _loop(name: str, wanted: list[np.dtype]) -> tuple[np.dtype, ...]:
    try:
        return loop_dtypes(name, *wanted)
    except EqfuseError:
        return ()


def run(kernels: Sequence[Graph], data: Sequence[dict[Node, np.ndarray]]) -> list[list[Pair]]:
    """What the emulator makes of each body's outputs, and what the evaluator does. All are compiled together."""
    emitted = [emit_kernel(Kernel("map", body, (), (), PRICE), profile("h100")) for body in kernels]
    code, pairs = module_source([cuda.source for cuda in emitted]), []
    for body, cuda, arrays in zip(kernels, emitted, data, strict=True):
        given, writes = [arrays[n] for n in body.inputs], [np.empty(o.shape, o.dtype) for o in body.outputs]
        function = cudasim.CpuRawKernel(code, cuda.name)
        function(cuda.grid, cuda.block, cuda.arguments(writes, given, cuda.constants, []))
        with np.errstate(all="ignore"):
            pairs.append(list(zip(writes, evaluate(body, given), strict=True)))
    return pairs


def body(outputs: Iterable[Node]) -> Graph:
    outputs = tuple(outputs)
    return Graph(tuple(n for n in Graph((), outputs).nodes if n.op == "input"), outputs)


def same(got: np.ndarray, want: np.ndarray, zeros_too: bool = True) -> np.ndarray:
    """Where both are the same number (or both NaN); a zero's sign counts where `zeros_too`."""
    if want.dtype.kind in "biu":
        return got == want
    if want.dtype.kind == "c":
        return same(got.real, want.real) & same(got.imag, want.imag)
    got, want = (a.astype(np.float64) for a in (got, want))
    signed = (np.signbit(got) == np.signbit(want)) | ((want == 0) & (not zeros_too))
    return ((got == want) & signed) | (np.isnan(got) & np.isnan(want))


def near(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    """Where both are finite and `ulps` apart at most, or the same."""
    if want.dtype.kind not in "fc" and want.dtype not in dtypes.ADDED:
        return same(got, want)
    limits = ml_dtypes.finfo(want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(wide) - want.astype(wide))
        allowed = ulps * (float(limits.eps) * np.abs(want.astype(wide)) + float(limits.smallest_subnormal))
    return same(got, want, zeros_too=False) | (apart <= allowed)


@emulated
@pytest.mark.slow
def test_every_operator_cast_and_constant_of_every_dtype_gives_what_numpy_gives_for_special_values():
    groups, wrong = every_row(), []
    bodies = [body(named.values()) for _, named in groups]
    for (dtype, named), pairs in zip(groups, run(bodies, [specials(b) for b in bodies]), strict=True):
        for (name, n), (got, want) in zip(named.items(), pairs, strict=True):
            right = judged(name, n, got, want, special_values(dtype))
            for index in map(tuple, np.argwhere(~right)[:1]):
                values = [np.broadcast_to(specials(body([n]))[a], want.shape)[index] for a in n.args if a.op == "input"]
                wrong.append(f"{name} of {values}: {got[index]!r}, NumPy has {want[index]!r}; {(~right).sum()} such")
    assert not wrong, "\n".join(wrong)


def every_row() -> list[tuple[np.dtype, dict[str, Node]]]:
    """Operators, casts and constants by name, those of one dtype and one shape of results together. Functions of 16-bit
    floats are those of float32: either dtype has every second one."""
    functions = sorted(NEAR | SPECIAL)
    others = {dtypes.BFLOAT16: functions[::2], dtypes.FLOAT16: functions[1::2]}
    groups: dict[tuple[np.dtype, tuple[int, ...]], dict[str, Node]] = {}
    for dtype in DTYPES:
        for name, n in (*operators(dtype), *casts(dtype), *constants(dtype)):
            if name not in others.get(dtype, ()):
                groups.setdefault((dtype, n.shape), {})[name] = n
    return [(dtype, named) for (dtype, _), named in groups.items()]


def casts(dtype: np.dtype) -> Iterator[tuple[str, Node]]:
    x = read(0, (len(special_values(dtype)), 1), dtype)
    for to in DTYPES:
        if dtype.kind != "c" or to.kind in "bc":
            yield f"cast {to.name}", node("cast", (x,), (to,))


def constants(dtype: np.dtype) -> Iterator[tuple[str, Node]]:
    """Numbers and arrays of them that the kernel is passed."""
    values = special_values(dtype)
    x = read(0, (len(values), 1), dtype)
    kept = [const(v, dtype) for v in values[:: max(1, len(values) // 6)]]
    for i, c in enumerate([*kept, const(values.reshape(-1, 1))]):
        yield f"constant {i}", node("where", (node("equal", (x, x)), c, x))


def specials(kernel: Graph) -> dict[Node, np.ndarray]:
    """Special values in the shape of each input."""
    return {n: np.resize(special_values(n.dtype), n.type.size).reshape(n.shape) for n in kernel.inputs}


def judged(name: str, n: Node, got: np.ndarray, want: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where `got` is as good as `want`, the results of one operator on `values`."""
    dtype = values.dtype
    if n.op == "cast":
        return cast_judged(n, got, want, values)
    if name in SPECIAL:
        usual = (np.abs(values) > 1e-20) & (np.abs(values) < 20) & (np.abs(values - 1) > 1e-9)
        return near(got, want, 40) | ~usual[:, None]
    if dtype.kind == "c" and name in MAY_BE_CONTRACTED:
        with np.errstate(all="ignore"):
            size = np.abs(values[:, None]) * np.abs(values[:, None] if name == "square" else values)
            return ~np.isfinite(size) | (np.abs(got - want) <= 2 * np.finfo(size.dtype).eps * size)
    if (name in NEAR and dtypes.kind(dtype) in "fc") or (name in NEAR_IF_COMPLEX and dtype.kind == "c"):
        return near(got, want, 4)
    return same(got, want, zeros_too=name not in EITHER_ZERO)


def cast_judged(n: Node, got: np.ndarray, want: np.ndarray, values: np.ndarray) -> np.ndarray:
    right = same(got, want)
    if dtypes.kind(values.dtype) == "f" and n.dtype.kind in "iu":  # what does not fit, NumPy leaves to the processor
        limits, whole = np.iinfo(n.dtype), np.trunc(values.astype(np.float64))[:, None]
        wraps = platform.machine() == "x86_64"  # there, small and unsigned integers keep the lowest bits
        least, most = (-(2.0**31), 2.0**31) if wraps else (limits.min, limits.max)
        right |= ~((whole >= min(least, limits.min)) & (whole < max(most, float(limits.max))))
    return right


EXACT = ("add", "subtract", "multiply", "divide", "sqrt", "negative", "abs", "square", "floor", "round", "sign",
         "remainder", "fmod", "floor_divide", "where", "there and back",
)  # no copysign: a NaN may have either sign  # fmt: skip


def random_outputs(rng: np.random.Generator, dtype: np.dtype, x: Node, y: Node) -> list[Node]:
    """Values that operators with exactly defined results make of one another."""
    values = [x, y, const(0.1, dtype), const(3, dtype)]
    while len(values) < 24:
        op = str(rng.choice(EXACT))
        a, b = (values[int(i)] for i in rng.integers(len(values), size=2))
        if op == "where":
            value = node("where", (node("less", (a, b)), b, a))
        elif op == "there and back":
            wide = node("add", (node("cast", (a,), (np.dtype(np.float32),)), const(np.float32(1e-3))))
            value = node("cast", (wide,), (dtype,))
        else:
            value = node(op, (a, b)[: UFUNCS[op].nin])
        values.append(value)
    return [n for n in values[-8:] if n.shape == (40, 7)] or [node("add", (x, y))]


@emulated
def test_kernels_round_after_every_operator_as_numpy_does():
    rng, bodies, data = np.random.default_rng(0), [], []
    for dtype in (d for d in DTYPES if dtypes.kind(d) == "f"):
        x, y = read(0, (40, 7), dtype), read(1, (7,), dtype)
        with np.errstate(over="ignore"):
            wide = (rng.standard_normal((40, 7)) * 2.0 ** rng.integers(-9, 9, (40, 7))).astype(dtype)
            narrow = np.array([0.1, 3, -1e-3, 1e3, -0.0, np.inf, np.nan]).astype(dtype)
        bodies.append(body(dict.fromkeys(n for _ in range(5) for n in random_outputs(rng, dtype, x, y))))
        data.append({x: wide, y: narrow})
    for kernel, pairs in zip(bodies, run(bodies, data), strict=True):
        for n, (got, want) in zip(kernel.outputs, pairs, strict=True):
            assert same(got, want).all(), str(Graph(kernel.inputs, (n,)))


@compiled
@pytest.mark.parametrize("arch, every", [("sm_80", 16), pytest.param("sm_90", 1, marks=pytest.mark.slow)])
def test_every_operator_cast_and_constant_of_every_dtype_compiles_without_spilling_a_register(arch, every):
    rows = [list(named.values()) for _, named in every_row()]
    together = [nodes[i : i + 12] for nodes in rows for i in range(0, len(nodes), 12)][::every]
    kernels = [Kernel("map", body(nodes), (), (), PRICE) for nodes in together]
    code = module_source([emit_kernel(k, profile("h100")).source for k in kernels])
    for uses in nvrtc.compile_cuda(code, arch).resources.values():
        assert uses.spill_bytes == 0, uses


def arithmetic(flags: tuple[str, ...]) -> set[str]:
    """The instructions with which a GPU adds to a product and compares."""
    x, y = read(0, (64,)), read(1, (64,))
    outputs = (node("add", (node("multiply", (x, y)), y)), node("less", (x, y)))
    source = emit_kernel(Kernel("map", body(outputs), (), (), PRICE), profile("h100")).source
    cubin = nvrtc.compile_cuda(module_source([source]), "sm_90", flags).cubin
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        from cuda.pathfinder import find_nvidia_binary_utility

        tool = find_nvidia_binary_utility("nvdisasm")
        text = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(?:FMUL|FADD|FFMA|FSETP)[.A-Z]*", text))


@pytest.mark.slow
@compiled
def test_no_options_contract_and_strict_ones_do_not_flush():
    fast, strict = arithmetic(nvrtc.FAST), arithmetic(nvrtc.STRICT)
    assert {"FMUL.FTZ", "FADD.FTZ"} <= fast and not {i for i in fast if "FFMA" in i}
    assert {"FMUL", "FADD"} <= strict and not {i for i in strict if "FFMA" in i or "FTZ" in i}
