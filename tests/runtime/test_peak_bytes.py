"""`peak_bytes` is what a call takes beside its arguments and results, as tracemalloc sees it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.traced_memory import call_bytes
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.graph import Graph, Node, const, node, topological
from eqfuse.machine.gc_pause import gc_paused
from tests.support.kernels import CPU, kernel, read
from tests.support.some import some

ONE_THREAD = replace(CPU, threads=1)
PYTHON = 24 << 10  # bytes of Python's own objects in a call
N = 40_000
V, W, Y = (read(i, (N,), np.float64) for i in range(3))
X, Z = read(0, (20, 40, 50), np.float64), read(0, (20, 40, 50), np.complex128)
A, B, T = read(0, (8, 40, 40), np.float64), read(1, (8, 40, 30), np.float64), read(0, (200, 30), np.float64)
I, C, Q = read(0, (N,), np.int64), read(0, (4, 30, 30), np.complex128), const([0.25, 0.5])  # noqa: E741
D = read(0, (160, 160), np.float64)
SPD = const(np.broadcast_to(np.eye(40) + 1, (8, 40, 40)).copy())
IMAGE, FILTERS = read(0, (2, 8, 40, 40)), read(1, (16, 8, 3, 3))
PLAIN = ((0, 0), (0, 0))
CASES: list[tuple[str, tuple[Node, ...], tuple]] = [
    ("bitcast", (X,), (np.dtype(np.int64),)),
    ("slice_scatter", (X, read(1, (10, 40, 50), np.float64)), ((((0, 10, 1), (0, 40, 1), (0, 50, 1)),),)),
    *(("scatter", (V, read(1, (N,), np.int64), Y), (-1, mode)) for mode in ("set", "add")),
    ("take", (X, read(1, (90,), np.int64)), (-2,)), ("take", (X, const(np.arange(100) * 13 % 40)), (-2,)),
    ("cumsum", (X,), (-2,)), ("accumulate", (X,), ("maximum", -2)), ("reduceat", (V, const([0, 5, 2])), ("add", -1)),
    ("fold", (X,), ("fmax", (-3, -1))), ("sort", (X,), (-2, False)), ("argsort", (X,), (-2, True)),
    ("partition", (X,), (-2, (2,))), ("argpartition", (X,), (-2, (2,))), ("lexsort", (I, W), (-1,)),
    ("searchsorted", (const(np.linspace(-2, 3, 100)), V), ("right",)), ("isin", (V, W), ()),
    ("digitize", (V, const(np.arange(-2.0, 3))), (True,)), ("median", (X,), ((-2,),)), ("median", (V,), ((-1,),)),
    ("nanmedian", (X,), ((-3, -1),)), ("nanmedian", (X,), ((-1,),)),
    *((op, (X, Q), ((-2,), "linear")) for op in ("quantile", "percentile", "nanquantile", "nanpercentile")),
    ("nanargmax", (X,), ((-1,),)), ("nanargmin", (X,), ((-2,),)),
    ("argmax", (X,), ((-1,),)), ("argmin", (X,), ((-2,),)),
    ("histogram", (V,), ((5,), (None,), False, False)), ("histogram", (V, W), ((4,), ((-2.0, 2.0),), True, True)),
    ("bincount", (I,), (9,)), ("convolve", (V, const(np.ones(50))), ("same",)),
    ("interp", (V, const(np.arange(-2.0, 3)), const(np.arange(5.0))), (None,)), ("interp", (V, W, Y), (1.5,)),
    *((op, (A,), ()) for op in ("inv", "det", "slogdet", "svdvals", "inv_slogdet", "inv_triangular")),
    *((op, (D,), ()) for op in ("inv_slogdet", "inv_triangular")),
    *((op, (a, read(1, a.shape, a.dtype)), ()) for op in ("cholesky_change", "cholesky_cotangent") for a in (A, D)),
    ("solve", (A, B), ()), ("cofactors", (A, read(1, A.shape, A.dtype), const(np.full(A.shape[0], 2.0))), ()),
    ("pinv", (T, const(0.1)), ()),
    ("cholesky", (SPD,), (False,)), ("eigh", (A,), ("L",)), ("eigvalsh", (A,), ("U",)), ("svd", (T,), (True,)),
    ("svd", (A,), (False,)), ("eig", (C,), ()), ("eigvals", (C,), ()), ("cond", (A,), ("1",)),
    *(("qr", (T,), (mode,)) for mode in ("reduced", "complete", "raw")),
    ("fft", (X,), (50, -1, None)), ("fft", (Z,), (40, -2, None)), ("rfft", (X,), (50, -1, None)),
    ("irfft", (Z,), (98, -1, None)), ("concat", (X, X), (-2,)), ("pad", (X, const(1.5)), (((1, 0), (0, 2), (0, 0)),)),
    ("matmul", (A, B), ()),
    ("matmul", (node("slice", (T,), (((0, 200, 2), (0, 30, 2)),)), read(1, (15, 200), T.dtype)), ()),
    ("conv", (IMAGE, FILTERS), ((1, 1), ((1, 1), (1, 1)), (1, 1), 1)),
    ("conv", (IMAGE, read(1, (16, 4, 3, 3))), ((2, 2), PLAIN, (1, 1), 2)),
    ("window_max", (IMAGE,), ((2, 2), (2, 2), PLAIN)), ("window_sum", (IMAGE,), ((2, 2), (2, 2), PLAIN)),
]  # fmt: skip
BOUNDED = ("isin", "interp", "histogram", "nanmedian", "nanargmin")  # values decide, or the rest of the call


@pytest.mark.parametrize("case", some(CASES, 2), ids=lambda case: case[0])
def test_kernels_of_one_operator_say_what_numpy_allocates_for_them(case: tuple[str, tuple, tuple]) -> None:
    op, args, attrs = case
    inputs = [n for n in topological(args) if n.op == "input"]
    graph = Graph(tuple(inputs), (node(op, args, attrs),))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, n.shape) if n.dtype.kind == "i" else rng.normal(size=n.shape) for n in inputs]
    arrays = [np.sort(a) if op == "interp" else a.astype(n.dtype) for a, n in zip(arrays, inputs, strict=True)]
    emitted = emit_kernel(kernel("library", graph), ONE_THREAD)  # the first call leaves it the scratch memory it takes
    out = np.empty(graph.outputs[0].shape, graph.outputs[0].dtype)
    taken = traced(lambda: emitted.run([out], arrays))
    returned = out.nbytes if emitted.parts.returned else 0  # an array of its own, which the layout of a program counts
    said = emitted.needs.workspaces + emitted.needs.passing + emitted.needs.held + returned
    assert taken <= said + PYTHON
    assert said <= (3 if op in BOUNDED else 1.1) * taken + PYTHON


def traced(call: Callable[[], None]) -> int:
    """The most bytes that `call` holds: the least of two measurements, as other threads may allocate too."""
    return min(_traced(call) for _ in range(2))


def _traced(call: Callable[[], None]) -> int:
    with np.errstate(all="ignore"):
        call()
        with gc_paused():
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            call()
            _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


def f32(*shape: int) -> Any:
    return ef.spec(shape, np.float32)


def black_scholes(s: Any, k: Any, t: Any) -> Any:
    d = (np.log(s / k) + 0.04 * t) / (0.2 * np.sqrt(t))

    def normal(x: Any) -> Any:
        return 0.5 * (1 + ef.erf(x / np.float32(2**0.5)))

    return s * normal(d) - k * np.exp(-0.02 * t) * normal(d - 0.2 * np.sqrt(t))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gelu": (ef.gelu, (f32(100_000),)),
    "softmax": (ef.softmax, (f32(200, 500),)),
    "layer norm and gelu": (lambda x, g: ef.gelu(ef.layer_norm(x, g, g)), (f32(256, 1024), f32(1024))),
    "black scholes": (black_scholes, (f32(1 << 19), f32(1 << 19), f32(1 << 19))),
    "perceptron": (lambda x, w, v: ef.gelu(x @ w) @ v, (f32(512, 256), f32(256, 512), f32(512, 256))),
    "sums of columns": (lambda x: (x * x).sum(0), (f32(4000, 1000),)),
    "remainders": (lambda x, y: np.fmod(x * 9, y) - np.fmod(y, x[:1]), (f32(1000, 300), f32(1000, 300))),
    "positions": (lambda x: np.argmax(x, 0), (f32(400, 1000),)),
    "sorted, then taken": (lambda x: np.sort(x, 0)[::2] + np.take(x, np.arange(200) * 7 % 200, 0), (f32(400, 500),)),
    "product of slices": (lambda x, y: x[::2, ::3] @ y[::3, ::2], (f32(600, 900), f32(900, 600))),
    "where": (lambda x, y: np.where(x > 1, x * 2, y - 1), (f32(1000, 100), f32(1000, 100))),
    "heads joined": (lambda x: np.tanh(x.reshape(8, 64, 8, 32).transpose(0, 2, 1, 3)) @ x.reshape(8, 8, 32, 64),
                     (f32(512, 256),)),
    "heads transposed": (lambda x: (x @ x.T).reshape(4, 64, 4, 64).transpose(0, 2, 1, 3).reshape(256, 256),
                         (f32(256, 64),)),
    "image": (lambda x, w: ef.max_pool(np.maximum(ef.conv(x, w), 0), 2), (f32(4, 8, 34, 34), f32(16, 8, 3, 3))),
    "updates": (lambda x: np.cumsum(np.concatenate([x, x * 2]), 0) ** 2, (f32(200, 500),)),
    "half precision": (lambda x: np.exp(x).sum(1) + np.zeros(40_000, np.float16), (ef.spec((40_000, 8), np.float16),)),
}  # fmt: skip


@pytest.mark.parametrize("name", some(PROGRAMS, 2))
def test_a_call_takes_what_the_report_says(name: str) -> None:
    function, specs = PROGRAMS[name]
    arrays = [np.random.default_rng(0).uniform(0.5, 2, s.shape).astype(s.dtype) for s in specs]
    program = ef.compile(function, *arrays, laws="none")
    threads = program.plan.device.threads
    taken = call_bytes(program, arrays)
    assert taken <= 1.02 * program.report.peak_bytes + PYTHON
    assert program.report.peak_bytes <= threads * taken + PYTHON  # where one thread was done before the other began
