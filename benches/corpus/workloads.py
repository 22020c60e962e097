"""Workloads in the words of the array API standard that NumPy, JAX and PyTorch share: `eqfuse bench cpu`, and, at the
sizes of `gpu_cases.py`, `eqfuse bench cuda`.

Functions read `np`, `erf`, `convolve` and `pool` from this module; `workload_in` gives them another library's.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import erf

Shapes = tuple[tuple[int, ...], ...]


def convolve(x: Any, w: Any) -> Any:
    """Of images (batch, channels, height, width) with 3 × 3 filters (channels out, channels in, 3, 3), zeros around."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("ncyxij,kcij->nkyx", windows, w, optimize=True)


def pool(x: Any) -> Any:
    """The largest of each 2 × 2."""
    n, c, h, w = x.shape
    return np.max(np.reshape(x, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    y = x - np.max(x, axis=-1, keepdims=True)
    return y - np.log(np.sum(np.exp(y), axis=-1, keepdims=True))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layer_norm(x: Any, gain: Any, shift: Any) -> Any:
    y = x - np.mean(x, axis=-1, keepdims=True)
    return y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + 1e-5) * gain + shift


def rms_norm(x: Any, gain: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def layer_norm_gelu(x: Any, gain: Any, shift: Any) -> Any:
    return gelu(layer_norm(x, gain, shift))


def black_scholes(s: Any, k: Any, t: Any) -> Any:
    s, k, t = 80 + 40 * s, 80 + 40 * k, 0.1 + t
    root = 0.3 * np.sqrt(t)
    d = (np.log(s / k) + (0.02 + 0.045) * t) / root
    phi, psi = 0.5 * (1 + erf(d * 0.70710678)), 0.5 * (1 + erf((d - root) * 0.70710678))
    discounted = k * np.exp(-0.02 * t)
    call = s * phi - discounted * psi
    return call, call - s + discounted


def logsumexp_loss(x: Any, y: Any) -> Any:
    top = np.max(x, axis=-1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(x - top), axis=-1)) + top[:, 0] - np.sum(x * y, axis=-1))


def swiglu(x: Any, gain: Any, w: Any, v: Any, out: Any) -> Any:
    y = rms_norm(x, gain)
    gate = y @ w
    return (gate * sigmoid(gate) * (y @ v)) @ out


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.permute_dims(k, (0, 2, 1)) / q.shape[-1] ** 0.5) @ v


def perceptron(x: Any, w: Any, b: Any, v: Any, gain: Any, shift: Any) -> Any:
    return layer_norm(x + gelu(x @ w + b) @ v, gain, shift)


def conv_block(x: Any, w: Any, gain: Any, shift: Any) -> Any:
    y = convolve(x, w) * gain[:, None, None] + shift[:, None, None]
    return pool(np.maximum(y, 0 * y))


def flux_limited(u: Any) -> Any:
    left, here, right = u[:, :-3], u[:, 1:-2], u[:, 2:-1]
    r = (here - left) / (right - here + 1e-6)
    limit = (r + np.abs(r)) / (1 + np.abs(r))
    flux = here + 0.5 * limit * (right - here)
    return u[:, 2:-2] - 0.3 * (flux[:, 1:] - flux[:, :-1])


def nearest_centre(x: Any, c: Any) -> Any:
    return np.argmin(np.sum(c * c, axis=-1) - 2 * (x @ c.T), axis=-1)


def cross_entropy(x: Any, y: Any) -> Any:
    return -np.mean(np.sum(y * log_softmax(x), axis=-1))


def scaled_rms(x: Any, gain: Any) -> Any:
    return rms_norm(x, gain)


def huber(x: Any, y: Any) -> Any:
    d = np.abs(x - y)
    return np.mean(np.where(d < 1, 0.5 * d * d, d - 0.5))


def k_means_step(x: Any, c: Any) -> Any:
    near = np.sum(c * c, axis=-1) - 2 * (x @ c.T)
    weights = softmax(-8 * near)
    return weights.T @ x / (np.sum(weights, axis=0)[:, None] + 1e-9)


def lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    gates = x @ w + h @ u + b
    n = c.shape[1]
    i, f, g, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
    state = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(state), state


def pairwise_distances(x: Any, y: Any) -> Any:
    squares = np.sum(x * x, axis=-1)[:, None] + np.sum(y * y, axis=-1) - 2 * (x @ y.T)
    return np.sqrt(np.maximum(squares, 0 * squares))


def gaussian_sums(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y
    return np.sum(np.exp(-np.sum(d * d, axis=-1)), axis=1)


def colours(rgb: Any) -> Any:
    r, g, b = rgb[0], rgb[1], rgb[2]
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return y, 0.564 * (b - y) + 0.5, 0.713 * (r - y) + 0.5


def polynomial(x: Any) -> Any:
    return ((((((x * 0.1 - 0.3) * x + 0.5) * x - 0.7) * x + 0.9) * x - 1.1) * x + 1.3) * x - 1.5


def mandelbrot_step(x: Any, y: Any, a: Any, b: Any) -> Any:
    for _ in range(4):
        inside = x * x + y * y < 4
        x, y = np.where(inside, x * x - y * y + a, x), np.where(inside, 2 * x * y + b, y)
    return x, y


def pyramid(x: Any) -> Any:
    y = 0.25 * (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2])
    return y, 0.25 * (y[::2, ::2] + y[1::2, ::2] + y[::2, 1::2] + y[1::2, 1::2])


def heat_3d(u: Any) -> Any:
    c = u[1:-1, 1:-1, 1:-1]
    around = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
    return c + 0.1 * (around + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * c)


def rolled_step(u: Any) -> Any:
    around = np.roll(u, 1, axis=0) + np.roll(u, -1, axis=0) + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1)
    return u + 0.1 * (around - 4 * u)


def path(s: Any, z: Any) -> Any:
    total = 0 * s
    for i in range(8):
        s = s * np.exp(0.001 + 0.1 * z[i])
        total = total + s
    return np.maximum(total / 8 - 1, 0 * s)


def column_statistics(x: Any) -> Any:
    mean = np.mean(x, axis=0)
    return mean, np.mean((x - mean) ** 2, axis=0), np.max(x, axis=0)


def small_products(a: Any, b: Any) -> Any:
    return np.tanh(a @ b)


def like(x: Any, y: Any) -> Any:
    """`x` in the dtype of `y`: NumPy widens bfloat16 where Python's numbers and products meet it."""
    return x.astype(y.dtype)


def turned_sum(x: Any, y: Any) -> Any:
    return np.tanh(np.permute_dims(x, (1, 0)) + y)


def narrow_attention(q: Any, k: Any, v: Any) -> Any:
    """The weights in the dtype of the values."""
    return like(softmax(q @ np.permute_dims(k, (0, 2, 1)) * 0.125), v) @ v


def product_gelu(x: Any, w: Any, b: Any) -> Any:
    return gelu(x @ w + b)


def convolution_bias(x: Any, w: Any, b: Any) -> Any:
    return np.tanh(convolve(x, w) + b)


def residual_norm(x: Any, y: Any, gain: Any, shift: Any) -> Any:
    return layer_norm(x + y, gain, shift)


def transformer_block(x: Any, qkv: Any, out: Any, gain: Any, shift: Any, w: Any, b: Any, v: Any) -> Any:
    """The norm before, of one sequence (places, width); heads of 64."""
    n, width = x.shape
    joined = like(like(layer_norm(x, gain, shift), x) @ qkv, x)
    heads = np.permute_dims(np.reshape(joined, (n, 3, width // 64, 64)), (1, 2, 0, 3))
    mixed = np.permute_dims(narrow_attention(heads[0], heads[1], heads[2]), (1, 0, 2))
    x = like(x + np.reshape(like(mixed, x), (n, width)) @ out, x)
    return like(x + like(gelu(like(layer_norm(x, gain, shift), x) @ w + b), x) @ v, x)


@dataclass(frozen=True)
class Workload:
    """`shapes(n)`: of the arguments, which have some `n` elements together. `numexpr`: the same as an expression over
    `x0`, `x1`…; `positive`: drawn from 0 to 1, and else from a normal distribution."""

    name: str
    function: Callable[..., Any]
    shapes: Callable[[int], Shapes]
    numexpr: str = ""
    positive: bool = False


def _root(n: int, parts: int = 1) -> int:
    return max(8, round((n / parts) ** 0.5) // 8 * 8)


def _row(*more: int) -> Callable[[int], Shapes]:
    """Rows of 1024, and vectors as long."""
    return lambda n: ((max(1, n // 1024), 1024), *((1024,),) * len(more))


def _flat(count: int) -> Callable[[int], Shapes]:
    return lambda n: ((n // count,),) * count


WORKLOADS = [
    Workload("GELU", gelu, _flat(1), "0.5*x0*(1 + tanh(0.7978845608*(x0 + 0.044715*x0*x0*x0)))"),
    Workload("Black–Scholes", black_scholes, _flat(3), positive=True),
    Workload("softmax", softmax, _row()),
    Workload("layer norm + GELU", layer_norm_gelu, _row(1, 1)),
    Workload("logsumexp loss", logsumexp_loss, lambda n: ((max(1, n // 2048), 1024),) * 2),
    Workload(
        "RMS norm + SwiGLU", swiglu,
        lambda n: ((max(8, n // 4096), 512), (512,), (512, 1376), (512, 1376), (1376, 512)),
    ),
    Workload("attention", attention, lambda n: ((8, max(16, n // 8192), 64),) * 3),
    Workload(
        "MLP + norm", perceptron,
        lambda n: ((max(8, n // 4096), 512), (512, 1024), (1024,), (1024, 512), (512,), (512,)),
    ),
    Workload(
        "conv–bn–relu–pool", conv_block, lambda n: ((max(1, n // 65536), 32, 56, 56), (32, 32, 3, 3), (32,), (32,))
    ),
    Workload("flux-limited stencil", flux_limited, lambda n: ((_root(n), _root(n)),)),
    Workload("nearest centre", nearest_centre, lambda n: ((n // 64, 16), (64, 16))),
    Workload("cross-entropy", cross_entropy, lambda n: ((max(1, n // 2048), 1024),) * 2),
    Workload("log-softmax", log_softmax, _row()),
    Workload("RMS norm", scaled_rms, _row(1)),
    Workload("Huber loss", huber, _flat(2), "sum(where(abs(x0 - x1) < 1, 0.5*(x0 - x1)**2, abs(x0 - x1) - 0.5))"),
    Workload("k-means step", k_means_step, lambda n: ((n // 64, 16), (64, 16))),
    Workload(
        "LSTM cell", lstm_cell,
        lambda n: ((max(8, n // 4096), 256), *((max(8, n // 4096), 256),) * 2, (256, 1024), (256, 1024), (1024,)),
    ),
    Workload("pairwise distances", pairwise_distances, lambda n: ((_root(n), 32), (_root(n), 32))),
    Workload("Gaussian sums over pairs", gaussian_sums, lambda n: ((_root(n), 3), (_root(n), 3))),
    Workload("colour conversion", colours, lambda n: ((3, _root(n, 3), _root(n, 3)),), positive=True),
    Workload(
        "polynomial", polynomial, _flat(1),
        "((((((x0*0.1 - 0.3)*x0 + 0.5)*x0 - 0.7)*x0 + 0.9)*x0 - 1.1)*x0 + 1.3)*x0 - 1.5",
    ),
    Workload("Mandelbrot, 4 steps", mandelbrot_step, _flat(4)),
    Workload("image pyramid", pyramid, lambda n: ((_root(n), _root(n)),)),
    Workload("3-D heat step", heat_3d, lambda n: ((max(8, round(n ** (1 / 3))),) * 3,)),
    Workload("step of rolls", rolled_step, lambda n: ((_root(n), _root(n)),)),
    Workload("Monte-Carlo paths", path, lambda n: ((n // 9,), (8, n // 9)), positive=True),
    Workload("statistics of columns", column_statistics, _row()),
    Workload("small products", small_products, lambda n: ((max(1, n // 512), 16, 16),) * 2),
]  # fmt: skip


def arguments(workload: Workload, elements: int, dtype: Any) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    draw = rng.random if workload.positive else rng.standard_normal
    return tuple([draw(shape).astype(dtype) for shape in workload.shapes(elements)])


def workload_in(function: Callable[..., Any], names: Mapping[str, Any], wrap: Any = lambda f: f) -> Callable[..., Any]:
    """`function` and what it calls here, reading `names` instead of this module's; each function wrapped by `wrap`."""
    own = dict(globals())
    scope = {**own, **names}
    del scope["__name__"]  # or torch.compile reads the names of this module
    for name, value in own.items():
        if isinstance(value, types.FunctionType) and value.__module__ == __name__ and name not in names:
            rebuilt = types.FunctionType(value.__code__, scope, name, value.__defaults__, value.__closure__)
            scope[name] = wrap(rebuilt)
    return scope[function.__name__]
