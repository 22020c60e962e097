"""The adversarial suite: programs on which greedy fusion chooses worse than a search over algebra and fusion.

In: nothing. Out: `GRAPHS`, one `Case` per row and variant, for the tests and benchmarks. The table in
`benches/corpus/README.md` says what a greedy fuser and what the joint search does with each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.functions import conv, max_pool, relu, sigmoid
from eqfuse.ops.types import TensorType

TypedFunction = tuple[Callable[..., Any], list[TensorType]]


@dataclass(frozen=True)
class Case:
    """One program. `build(**sizes)` gives the function and the types of its arguments; `better`: the better plan.

    `exactness`: E, E*, R or A. `factor`: predicted time of a greedy plan over that of the better one, on a textbook
    A100. `benches/corpus/README.md` defines both.
    """

    id: str
    build: Callable[..., TypedFunction]
    full: dict[str, int]
    small: dict[str, int]
    better: str
    exactness: str = "E"
    factor: float = 1.0

    def program(self, small: bool) -> TypedFunction:
        return self.build(**(self.small if small else self.full))


GRAPHS: dict[str, Case] = {}


def graph(id: str, full: dict, small: dict, better: str, exactness: str = "E", factor: float = 1.0) -> Callable:
    """Put the decorated builder into `GRAPHS`; it may stand for several rows."""

    def add(build: Callable[..., TypedFunction]) -> Callable[..., TypedFunction]:
        GRAPHS[id] = Case(id, build, full, small, better, exactness, factor)
        return build

    return add


def floats(bits: int, *shape: int) -> TensorType:
    return TensorType(np.dtype(f"float{bits}"), shape)


def f32(*shape: int) -> TensorType:
    return floats(32, *shape)


def i32(*shape: int) -> TensorType:
    return TensorType(np.dtype(np.int32), shape)


def f16(*shape: int) -> TensorType:
    return floats(16, *shape)


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    """A constant of the program."""
    scale = np.float32(shape[0] ** -0.5)
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * scale


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def chain(x: Any, operators: int) -> Any:
    for i in range(operators // 2):
        x = x * 0.5 + (i % 7) * 0.25
    return x


@graph("G1", {"n": 8192}, {"n": 6}, "recompute a in both sums", factor=2.00)
def row_and_column_sums(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        a = 2 * x + 1
        return a.sum(axis=1), a.sum(axis=0)

    return program, [f32(n, n)]


@graph("G2", {"m": 65536, "w": 512, "k": 250}, {"m": 8, "w": 3, "k": 10}, "store h: 256 KB", factor=3.22)
def chain_under_a_broadcast(m: int, w: int, k: int) -> TypedFunction:
    return lambda x, z: chain(x, k)[:, None] + z, [f32(m), f32(m, w)]


@graph("G3 k=8", {"n": 4096, "k": 8}, {"n": 5, "k": 8}, "recompute the chain in every sum", factor=1.66)
@graph("G3 k=200", {"n": 4096, "k": 200}, {"n": 5, "k": 20}, "store the chain's result", factor=1.90)
def chain_with_three_readers(n: int, k: int) -> TypedFunction:
    def program(x: Any) -> Any:
        e = chain(x, k)
        return e.sum(axis=1), e.sum(axis=0), (e.T + 1).sum()

    return program, [f32(n, n)]


@graph("G4 N=4096", {"m": 4096, "k": 4096, "n": 4096}, {"m": 4, "k": 6, "n": 8}, "store gelu(x)", factor=2.09)
@graph("G4 N=64", {"m": 4096, "k": 4096, "n": 64}, {"m": 4, "k": 6, "n": 2}, "gelu as a prologue", factor=1.47)
def gelu_before_a_product(m: int, k: int, n: int, bits: int = 16) -> TypedFunction:
    return lambda x, w: gelu(x) @ w, [floats(bits, m, k), floats(bits, k, n)]


@graph("G5", {"m": 8192, "n": 1024}, {"m": 4, "n": 6}, "bias joins the pointwise kernel", "R", 1.02)
def pointwise_after_linear(m: int, n: int) -> TypedFunction:
    return lambda x, w, b, g, r: gelu(x @ w + b) * g + r, [f32(m, n), f32(n, n), f32(n), f32(n), f32(m, n)]


@graph("G6", {"n": 4096}, {"n": 6}, "one kernel, or a cut at the narrow waist", factor=11.9)
def narrow_wide_narrow(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        narrow = np.tanh(x * 2 + 1)
        wide = np.broadcast_to(narrow, (n, n)) * 0.5 + np.arange(n, dtype=np.float32)
        s = (np.abs(wide) - 0.25).sum(axis=1)
        return np.sqrt(s * s + 1)

    return program, [f32(n, 1)]


@graph("G7", {"n": 2048}, {"n": 5}, "A @ (B + C)", "R", 1.94)
def two_products_with_one_left(n: int) -> TypedFunction:
    return lambda a, b, c: a @ b + a @ c, [f32(n, n)] * 3


@graph("G8", {"n": 4096}, {"n": 5}, "s * (A @ (B @ v))", "R", 104.4)
def scaled_chain(n: int) -> TypedFunction:
    return lambda a, b, s, v: (s * (a @ b)) @ v, [f32(n, n), f32(n, n), f32(), f32(n, 1)]


@graph("G8 transposed", {"n": 4096}, {"n": 5}, "Bᵀ @ (Aᵀ @ v)", "R", 105.4)
def transposed_chain(n: int) -> TypedFunction:
    return lambda a, b, v: (a @ b).T @ v, [f32(n, n), f32(n, n), f32(n, 1)]


@graph("G9", {"h": 16, "s": 4096, "d": 64}, {"h": 2, "s": 8, "d": 2}, "Q @ (Kᵀ @ V)", "R", 61.8)
def linear_attention(h: int, s: int, d: int) -> TypedFunction:
    return lambda q, k, v: (q @ k.transpose(0, 2, 1)) @ v, [f32(h, s, d)] * 3


@graph("G10", {"m": 65536, "k": 1024, "n": 64}, {"m": 6, "k": 4, "n": 2}, "x @ (diag(g) W), folded", "R", 1.59)
def scaled_columns(m: int, k: int, n: int) -> TypedFunction:
    g, w = weight(k), weight(k, n, seed=1)
    return lambda x: (x * g) @ w, [f32(m, k)]


@graph("G11", {"m": 65536, "k": 1024, "n": 64}, {"m": 6, "k": 4, "n": 2}, "(x @ W) / rms", "R", 1.46)
def root_mean_square_norm(m: int, k: int, n: int) -> TypedFunction:
    def program(x: Any, w: Any) -> Any:
        return (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)) @ w

    return program, [f32(m, k), f32(k, n)]


@graph("G12", {"m": 128, "n": 1024}, {"m": 4, "n": 6}, "one product with [Wq Wk Wv]", "E*", 1.05)
def three_projections(m: int, n: int) -> TypedFunction:
    q, k, v = (weight(n, n, seed=i) for i in range(3))
    return lambda x: (x @ q, x @ k, x @ v), [f32(m, n)]


@graph("G13", {"m": 4096, "k": 4096, "n": 11008}, {"m": 4, "k": 6, "n": 8}, "one product, epilogue", "E*", 1.06)
def gated_unit(m: int, k: int, n: int, bits: int = 16) -> TypedFunction:
    def program(x: Any, w1: Any, w2: Any) -> Any:
        a = x @ w1
        return a / (1 + np.exp(-a)) * (x @ w2)

    return program, [floats(bits, m, k), floats(bits, k, n), floats(bits, k, n)]


@graph("G14", {"n": 8192}, {"n": 6}, "one kernel per row", factor=2.00)
def layer_norm(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)

    return program, [f32(n, n)]


@graph("G15", {"m": 32768, "n": 8192}, {"m": 4, "n": 6}, "one kernel per row", factor=2.00)
def softmax_of_rows(m: int, n: int) -> TypedFunction:
    return softmax, [f32(m, n)]


@graph("G16", {"h": 16, "s": 4096, "d": 64}, {"h": 2, "s": 6, "d": 2}, "divide after the product", "R", 1.44)
def weighted_values(h: int, s: int, d: int) -> TypedFunction:
    return lambda scores, v: softmax(scores) @ v, [f32(h, s, s), f32(h, s, d)]


def batch_norm(y: Any, filters: int) -> Any:
    gain, shift, mean = (weight(filters, 1, 1, seed=i) for i in range(3))
    variance = weight(filters, 1, 1, seed=3) ** 2 + 1
    return (y - mean) / np.sqrt(variance + 1e-5) * gain + shift


@graph("G17", {"n": 64, "c": 32, "f": 64, "s": 56}, {"n": 2, "c": 3, "f": 4, "s": 6}, "fold into filters", "R", 1.13)
def convolution_and_batch_norm(n: int, c: int, f: int, s: int) -> TypedFunction:
    w = weight(f, c, 3, 3, seed=9)
    return lambda x: np.maximum(batch_norm(conv(x, w, padding=1), f), 0), [f32(n, c, s, s)]


@graph("G18", {"n": 64, "c": 32, "f": 64, "s": 56}, {"n": 2, "c": 3, "f": 4, "s": 6}, "relu after the pool", "E", 1.12)
def convolution_and_pool(n: int, c: int, f: int, s: int) -> TypedFunction:
    w = weight(f, c, 3, 3)
    return lambda x: max_pool(np.maximum(conv(x, w, padding=1), 0), 2), [f32(n, c, s, s)]


@graph("G19", {"n": 4096}, {"n": 5}, "sum(A, 0) · sum(B, 1)", "R", 102.4)
def sum_of_a_product(n: int) -> TypedFunction:
    return lambda a, b: (a @ b).sum(), [f32(n, n)] * 2


@graph("G20", {"m": 65536, "n": 1024}, {"m": 6, "n": 4}, "mean(x, 0) @ W + b", "R", 52.0)
def mean_of_a_linear(m: int, n: int) -> TypedFunction:
    return lambda x, w, b: (x @ w + b).mean(axis=0), [f32(m, n), f32(n, n), f32(n)]


@graph("G21", {"n": 4096}, {"n": 5}, "sum(A * Bᵀ)", "R", 105.5)
def trace_of_a_product(n: int) -> TypedFunction:
    return lambda a, b: np.trace(a @ b), [f32(n, n)] * 2


@graph("G22", {"n": 8192}, {"n": 5}, "relu(x + b′)", factor=3.00)
def transposes_around_pointwise(n: int) -> TypedFunction:
    return lambda x, b: np.maximum(x.T + b, 0).T, [f32(n, n), f32(n)]


@graph("G23", {"s": 8, "t": 1024, "k": 4096, "n": 32000}, {"s": 2, "t": 4, "k": 6, "n": 8}, "slice first", "E*", 425.7)
def logits_of_the_last_token(s: int, t: int, k: int, n: int) -> TypedFunction:
    return lambda h, w: (h @ w)[:, -1], [f32(s, t, k), f32(k, n)]


@graph("G24", {"m": 8192, "n": 32000}, {"m": 4, "n": 6}, "logsumexp(x) - x[t]", "A", 5.00)
def cross_entropy(m: int, n: int) -> TypedFunction:
    labels = np.arange(m)[:, None] * 7 % n
    return lambda x: -np.take_along_axis(np.log(softmax(x)), labels, axis=-1), [f32(m, n)]


@graph("G25 M=1", {"m": 1, "n": 4096, "r": 16}, {"m": 1, "n": 6, "r": 2}, "keep factored", "R", 2.79)
@graph("G25 M=65536", {"m": 65536, "n": 4096, "r": 16}, {"m": 12, "n": 6, "r": 2}, "x @ (W + A @ B)", "R", 1.01)
def low_rank_update(m: int, n: int, r: int) -> TypedFunction:
    return lambda x, w, a, b: x @ w + (x @ a) @ b, [f32(m, n), f32(n, n), f32(n, r), f32(r, n)]


@graph("G25 constants", {"m": 64, "n": 512, "r": 16}, {"m": 4, "n": 6, "r": 2}, "merged when built", "R", 2.0)
def low_rank_update_of_constants(m: int, n: int, r: int) -> TypedFunction:
    w, a, b = weight(n, n), weight(n, r, seed=1), weight(r, n, seed=2)
    return lambda x: x @ w + (x @ a) @ b, [f32(m, n)]


@graph("G26", {"m": 32768, "n": 8192}, {"m": 4, "n": 6}, "one kernel for both", factor=2.33)
def sum_of_softmaxes(m: int, n: int) -> TypedFunction:
    return lambda a, b: softmax(a) + softmax(b), [f32(m, n)] * 2


@graph("G27", {"n": 8192}, {"n": 5}, "p and its map in one kernel", factor=1.25)
def value_read_by_a_map_and_a_library(n: int) -> TypedFunction:
    def program(x: Any, y: Any) -> Any:
        p = x * 2 + 1
        return np.tanh(p) + y, np.cumsum(p, axis=1)

    return program, [f32(n, n)] * 2


@graph("G28", {"n": 8192}, {"n": 5}, "one kernel for all three", factor=3.00)
def three_statistics(n: int) -> TypedFunction:
    return lambda x: (x.mean(axis=1), x.max(axis=1), (x * x).sum(axis=1)), [f32(n, n)]


@graph("G29", {"n": 8192}, {"n": 5}, "one kernel in either form", "R", 1.0)
def interpolation(n: int) -> TypedFunction:
    return lambda a, b, w: a * (1 - w) + b * w, [f32(n, n), f32(n, n), f32()]


@graph("G30", {"n": 8192}, {"n": 5}, "forward and backward share a·c", "R", 1.0)
def forward_and_backward(n: int) -> TypedFunction:
    def program(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
        value = (a * c) * x + b * y + ((a * b) * c) * z
        return value, a * c, b, (a * b) * c

    return program, [f32(n, n)] * 6


@graph("G31", {"n": 8192}, {"n": 5}, "sigmoid(x)", factor=1.0)
def relu_of_sigmoid(n: int) -> TypedFunction:
    return lambda x: relu(sigmoid(x)), [f32(n, n)]
