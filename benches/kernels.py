"""Emitted NumPy kernels against plain NumPy: answers checked first, then both timed in turn; medians.

Each takes turns of a pause, one untimed and a few timed calls, so that it finds the machine as it leaves it itself.

Run: eqfuse bench kernels [name…]. The exit status tells whether every answer was right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.targets import device_for
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel
from eqfuse.show.progress import progress

F = np.dtype(np.float32)
CALLS = 5  # timed in one turn
PAUSE = 0.15  # seconds before every turn: BLAS threads of the one before spin that long and would take a core


@dataclass(frozen=True)
class KernelCase:
    """One kernel, the NumPy function it stands for, and how many times faster it should be."""

    name: str
    kind: str
    body: Graph
    reference: Callable[..., object]
    target: float = 0.95


def read(i: int, *shape: int) -> Node:
    return input_node(f"r{i}", TensorType(F, shape))


def c(value: float) -> Node:
    return const(value, F)


def op(name: str, *args: Node) -> Node:
    return node(name, args)


def over(name: str, x: Node, *axes: int) -> Node:
    return node(name, (x,), (axes or (-1,),))


def gelu(x: Node) -> Node:
    inner = op(
        "multiply", op("add", x, op("multiply", op("multiply", op("multiply", x, x), x), c(0.044715))), c(0.79788456)
    )
    return op("multiply", op("multiply", x, c(0.5)), op("add", op("tanh", inner), c(1)))


def plain_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.float32(0.79788456) * (x + np.float32(0.044715) * x * x * x)))


def softmax(x: Node) -> Node:
    e = op("exp", op("subtract", x, over("max", x)))
    return op("divide", e, over("sum", e))


def plain_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x: Node) -> Node:
    n = c(x.shape[-1])
    d = op("subtract", x, op("divide", over("sum", x), n))
    return op("divide", d, op("sqrt", op("add", op("divide", over("sum", op("multiply", d, d)), n), c(1e-5))))


def plain_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))


def normal_cdf(x: Node) -> Node:
    return op("multiply", op("add", op("erf", op("divide", x, c(2**0.5))), c(1)), c(0.5))


def black_scholes(s: Node, k: Node, t: Node) -> tuple[Node, ...]:
    root = op("multiply", op("sqrt", t), c(0.2))
    d1 = op("divide", op("add", op("log", op("divide", s, k)), op("multiply", t, c(0.05 + 0.02))), root)
    d2 = op("subtract", d1, root)
    discounted = op("multiply", k, op("exp", op("multiply", t, c(-0.05))))
    call = op("subtract", op("multiply", s, normal_cdf(d1)), op("multiply", discounted, normal_cdf(d2)))
    return call, normal_cdf(d1)


def plain_black_scholes(s: np.ndarray, k: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, ...]:
    def cdf(x: np.ndarray) -> np.ndarray:
        return 0.5 * (1 + erf(x / np.float32(2**0.5)))

    root = np.float32(0.2) * np.sqrt(t)
    d1 = (np.log(s / k) + t * np.float32(0.07)) / root
    d2 = d1 - root
    delta = cdf(d1)
    return s * delta - k * np.exp(t * np.float32(-0.05)) * cdf(d2), delta


def attention(q: Node, k: Node, v: Node) -> Node:
    scores = op("matmul", op("multiply", q, c(0.125)), node("transpose", (k,), ((0, 2, 1),)))
    return op("matmul", softmax(scores), v)


def plain_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return plain_softmax((q * np.float32(0.125)) @ k.swapaxes(-1, -2)) @ v


def plain_conv(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    y = np.tensordot(windows, w, axes=([1, 4, 5], [1, 2, 3]))
    return np.maximum(np.moveaxis(y, -1, 1) + b, 0)


def plain_pool(x: np.ndarray) -> np.ndarray:
    n, k, h, w = x.shape
    return np.maximum(x, 0).reshape(n, k, h // 2, 2, w // 2, 2).max((3, 5))


def cases() -> list[KernelCase]:
    big, rows = 4 << 20, (4096, 1024)
    x, m, s10, cache = read(0, big), read(0, *rows), read(0, 10), read(0, 50000)
    y, z, w, v = read(1, big), read(2, big), read(1, 512, 512), read(0, 2048, 512)
    heads = [read(i, 8, 1024, 64) for i in range(3)]
    image, filters, bias = read(0, 16, 32, 56, 56), read(1, 64, 32, 3, 3), read(2, 64, 1, 1)
    pooled = read(0, 32, 64, 56, 56)
    conv = node("conv", (image, filters), ((1, 1), ((1, 1), (1, 1)), (1, 1), 1))
    pool = node("window_max", (op("maximum", pooled, c(0)),), ((2, 2), (2, 2), ((0, 0), (0, 0))))
    relu = node("where", (node("greater", (x, c(0))), x, op("multiply", x, c(0.1))))

    def case(
        name: str, kind: str, reads: list[Node], outs: tuple[Node, ...], reference: Callable, target: float = 0.95
    ) -> KernelCase:
        return KernelCase(name, kind, Graph(tuple(reads), outs), reference, target)

    linear = gelu(op("matmul", v, w))

    def squares(x: np.ndarray) -> np.ndarray:
        return (x * x).sum(-1, keepdims=True)

    tall, wide, vector = read(0, 1 << 20, 4), read(0, 512, 8192), read(0, big)
    return [
        case("gelu 4M", "map", [x], (gelu(x),), plain_gelu, 3.0),
        case("leaky relu (where) 4M", "map", [x], (relu,), lambda x: np.where(x > 0, x, x * np.float32(0.1))),
        case("gelu 10", "map", [s10], (gelu(s10),), plain_gelu),
        case("gelu 50k", "map", [cache], (gelu(cache),), plain_gelu),
        case("add 4M", "map", [x, y], (op("add", x, y),), np.add),
        case("softmax 4096x1024", "row", [m], (softmax(m),), plain_softmax, 2.5),
        case("norm+gelu 4096x1024", "row", [m], (gelu(norm(m)),), lambda x: plain_gelu(plain_norm(x)), 2.5),
        case("softmax 1M rows of 4", "row", [tall], (softmax(tall),), plain_softmax),
        case("softmax of one row 4M", "row", [vector], (softmax(vector),), plain_softmax),
        case("softmax 16x16", "row", [t := read(0, 16, 16)], (softmax(t),), plain_softmax),
        case("black-scholes 4M", "map", [x, y, z], black_scholes(x, y, z), plain_black_scholes, 2.5),
        case("attention 8x1024x64", "back_to_back", heads, (attention(*heads),), plain_attention, 2.0),
        case("linear+gelu 2048x512x512", "contract", [v, w], (linear,), lambda a, b: plain_gelu(a @ b)),
        case("matmul 2048x512x512", "library", [v, w], (op("matmul", v, w),), np.matmul),
        case("row sums 4096x1024", "reduce", [m], (over("sum", op("multiply", m, m)),), squares),
        case("column sums 4096x1024", "reduce", [m], (over("sum", m, -2),), lambda x: x.sum(0, keepdims=True)),
        case("column sums 512x8192", "reduce", [wide], (over("sum", wide, -2),), lambda x: x.sum(0, keepdims=True)),
        case("sum of squares 4M", "reduce", [x], (over("sum", op("multiply", x, x)),), squares),
        case("sum 4M", "reduce", [x], (over("sum", x),), lambda x: x.sum(keepdims=True)),
        case("conv+bias+relu 16x32x56x56", "contract", [image, filters, bias],
             (op("maximum", op("add", conv, bias), c(0)),), plain_conv),
        case("relu+maxpool 32x64x56x56", "window", [pooled], (pool,), plain_pool),
    ]  # fmt: skip


def bench(case: KernelCase, device: Device) -> tuple[float, float]:
    """Median seconds of plain NumPy and of the kernel, after the answers agree."""
    rng = np.random.default_rng(0)
    shift = 1.5 if case.name.startswith("black") else 0.0
    arrays = [
        np.abs(rng.normal(size=n.shape) * (0.2 if shift else 1)).astype(F) + F.type(0.5) if shift
        else rng.normal(size=n.shape).astype(F) for n in case.body.inputs
    ]  # fmt: skip
    k = Kernel(case.kind, case.body, tuple(range(len(arrays))), (99,), Price(0, 0, 0, 0, "memory"))
    emitted = emit_kernel(k, device)

    def ours() -> list[np.ndarray]:
        outs = [np.empty(o.shape, o.dtype) for o in case.body.outputs]
        emitted.run(outs, arrays)
        return outs

    for got, wanted in zip(ours(), evaluate(case.body, arrays), strict=True):
        scale = float(np.abs(wanted).max())
        if not np.allclose(got, wanted, rtol=1e-3, atol=1e-4 * scale):
            raise SystemExit(f"{case.name}: the kernel is wrong\n{emitted.source}")
    times: tuple[list[float], list[float]] = ([], [])
    functions = (lambda: case.reference(*arrays), ours)
    started = time.perf_counter()
    while time.perf_counter() - started < 2.0 or len(times[0]) < 15:
        for samples, function in zip(times, functions, strict=True):
            time.sleep(PAUSE)
            function()
            for _ in range(CALLS):
                begin = time.perf_counter()
                function()
                samples.append(time.perf_counter() - begin)
    return float(np.median(times[0])), float(np.median(times[1]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench kernels", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name", help="words of names of kernels; without any, all of them")
    chosen = parser.parse_args(arguments).names
    device = device_for("numpy")
    print(f"{'kernel':32} {'NumPy ms':>10} {'eqfuse ms':>10} {'ratio':>7} {'wanted':>7}")
    selection = [case for case in cases() if not chosen or any(name in case.name for name in chosen)]
    with progress(len(selection)) as display:
        for case in selection:
            display.step(case.name)
            baseline, ours = bench(case, device)
            missed = "" if baseline / ours >= case.target else "  MISSED"
            times = f"{baseline * 1e3:10.3f} {ours * 1e3:10.3f} {baseline / ours:7.2f} {case.target:7.2f}{missed}"
            print(f"{case.name:32} {times}", flush=True)


if __name__ == "__main__":
    main()
