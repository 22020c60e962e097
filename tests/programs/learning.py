"""Machine learning by hand: losses, attention, recurrent cells, convolutions, normalisation with gradients, Adam."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests.programs.program import ExampleProgram

MASKED = -np.inf


def softmax(x, axis=-1):
    z = x - x.max(axis=axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=axis, keepdims=True)
    return z


def losses(logits, labels, *, smoothing=0.1, gamma=2.0, ignore=-1):
    """Cross-entropy with label smoothing and ignored labels, focal and hinge losses, and the first one's gradient."""
    n, classes = logits.shape
    kept = labels != ignore
    safe = np.where(kept, labels, 0)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    picked = log_p[np.arange(n), safe]
    smooth = (1 - smoothing) * picked + smoothing * log_p.mean(axis=1)
    count = max(1, n) if kept is None else np.maximum(kept.sum(), 1)
    cross_entropy = -(smooth * kept).sum() / count
    focal = -np.mean((1 - np.exp(picked)) ** gamma * picked, where=kept)
    grad = np.exp(log_p)
    grad -= smoothing / classes
    grad[np.arange(n), safe] -= 1 - smoothing
    grad[~kept] = 0
    grad /= count
    margins = logits - logits[np.arange(n), safe][:, None] + 1
    margins[np.arange(n), safe] = 0
    hinge = np.maximum(margins, 0).sum(axis=1)
    accuracy = np.mean((logits.argmax(1) == safe)[...], where=kept)
    return cross_entropy, focal, hinge, grad, accuracy


def multi_head_attention(x, params, heads=2, causal=True):
    """Attention over a batch with rotary positions and a causal mask."""
    batch, tokens, width = x.shape
    head = width // heads
    qkv = x @ params["qkv"] + params["bias"]
    q, k, v = (part.reshape(batch, tokens, heads, head).swapaxes(1, 2) for part in np.split(qkv, 3, axis=-1))
    angle = np.outer(np.arange(tokens), 10000.0 ** (-np.arange(0, head, 2) / head)).astype(x.dtype)
    sin, cos = np.sin(angle), np.cos(angle)

    def rotate(t):
        turned = np.empty_like(t)
        turned[..., 0::2] = t[..., 0::2] * cos - t[..., 1::2] * sin
        turned[..., 1::2] = t[..., 0::2] * sin + t[..., 1::2] * cos
        return turned

    scores = rotate(q) @ rotate(k).mT / np.sqrt(head).astype(x.dtype)
    if causal:
        scores[..., np.triu(np.ones((tokens, tokens), dtype=bool), 1)] = MASKED
    weights = softmax(scores)
    mixed = np.moveaxis(weights @ v, 1, 2).reshape(batch, tokens, -1)
    return mixed @ params["out"], weights.sum(axis=-2)


def lstm(inputs, weights):
    """A layer over time; hidden states into one buffer."""
    w_x, w_h, b = weights
    batch, steps, _ = inputs.shape
    hidden = w_h.shape[0]
    h = np.zeros((batch, hidden), inputs.dtype)
    c = np.zeros_like(h)
    outputs = np.empty((batch, steps, hidden), inputs.dtype)

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for t in range(steps):
        gates = inputs[:, t] @ w_x + h @ w_h + b
        i, f, g, o = np.array_split(gates, 4, axis=1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs[:, t] = h
    return outputs, (h, c)


@dataclasses.dataclass
class BatchNorm:
    """Running statistics change in place while training."""

    gain: Any
    shift: Any
    mean: Any
    variance: Any
    momentum: float = 0.1

    def forward(self, x):
        mu = x.mean(axis=(0, 2, 3), keepdims=True)
        var = x.var(axis=(0, 2, 3), keepdims=True)
        self.mean *= 1 - self.momentum
        self.mean += self.momentum * mu.squeeze()
        self.variance[:] = (1 - self.momentum) * self.variance + self.momentum * var.ravel()
        inv = 1 / np.sqrt(var + np.float32(1e-5))
        hat = (x - mu) * inv
        return self.gain[:, None, None] * hat + self.shift[:, None, None], hat, inv


def batch_norm_step(x, upstream, layer: BatchNorm):
    """Forward with ReLU, then the gradients of the input, gain and shift."""
    y, hat, inv = layer.forward(x)
    active = y > 0
    y[~active] = 0
    dy = upstream * active
    d_gain, d_shift = (dy * hat).sum((0, 2, 3)), dy.sum(axis=(0, 2, 3))
    n = x.size // x.shape[1]
    dx = (layer.gain[None, :, None, None] * inv / n) * (n * dy - d_shift[:, None, None] - hat * d_gain[:, None, None])
    return {"y": y, "dx": dx, "gain": d_gain, "shift": d_shift}


def train_step(params, state, batch, step, lr=1e-2, betas=(0.9, 0.99), decay=1e-3, clip=1.0):
    """A perceptron's forward and backward passes, a clipped gradient and Adam, all parameters updated in place."""
    x, target = batch
    hidden = x @ params["w1"] + params["b1"]
    active = np.maximum(hidden, 0)
    error = active @ params["w2"] + params["b2"] - target
    loss = 0.5 * np.mean(np.sum(error**2, axis=1))
    grads = {}
    error /= len(x)
    grads["w2"] = active.T @ error
    grads["b2"] = error.sum(0)
    back = error @ params["w2"].T
    back[hidden <= 0] = 0
    grads["w1"] = x.T @ back
    grads["b1"] = back.sum(axis=0)
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    scale = np.minimum(1, clip / (norm + 1e-6))
    for name in params:
        p, m, v = params[name], state[name]["m"], state[name]["v"]
        g = grads[name] * scale
        m *= betas[0]
        m += (1 - betas[0]) * g
        np.multiply(v, betas[1], out=v)
        v += (1 - betas[1]) * np.square(g)
        m_hat = m / (1 - betas[0] ** step)
        v_hat = v / (1 - betas[1] ** step)
        if p.ndim > 1:
            p -= lr * decay * p
        p -= lr * m_hat / (np.sqrt(v_hat) + 1e-8)
    return loss, norm


def convolved(images, kernels):
    size = kernels.shape[0]
    height, width = images.shape[1] - size + 1, images.shape[2] - size + 1
    out = np.empty((images.shape[0], height, width, kernels.shape[3]), dtype=images.dtype)
    for i in range(height):
        for j in range(width):
            window = images[:, i : i + size, j : j + size, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * kernels[np.newaxis], axis=(1, 2, 3))
    return out


def pooled(images):
    out = np.empty((images.shape[0], images.shape[1] // 2, images.shape[2] // 2, images.shape[3]), dtype=images.dtype)
    for i in range(images.shape[1] // 2):
        for j in range(images.shape[2] // 2):
            out[:, i, j, :] = np.max(images[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def digits(images, kernels, first, second, third):
    """A small convolutional network on two images: loops over places, then three layers of few rows."""
    x = images
    for k, bias in kernels:
        x = pooled(np.maximum(convolved(x, k) + bias, 0))
    x = np.reshape(x, (len(images), -1))
    x = np.maximum(x @ first[0] + first[1], 0)
    x = np.maximum(x @ second[0] + second[1], 0)
    return x @ third[0] + third[1]


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def make_attention(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    width = 16
    params = {
        "qkv": normal(rng, width, 3 * width) / 4,
        "bias": normal(rng, 3 * width),
        "out": normal(rng, width, width),
    }
    return normal(rng, 2, n, width), params


def make_norm(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    layer = BatchNorm(normal(rng, 5), normal(rng, 5), normal(rng, 5), normal(rng, 5) ** 2)
    return normal(rng, 4, 5, n, n), normal(rng, 4, 5, n, n), layer


def make_training(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    params = {
        "w1": rng.standard_normal((6, n)), "b1": np.zeros(n), "w2": rng.standard_normal((n, 3)), "b2": np.zeros(3)
    }  # fmt: skip
    state = {k: {"m": 0.1 * rng.standard_normal(p.shape), "v": 0.1 * rng.random(p.shape)} for k, p in params.items()}
    return params, state, (rng.standard_normal((32, 6)), rng.standard_normal((32, 3))), 3


def make_digits(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    left = ((n - 2) // 2 - 2) // 2
    layers = [(normal(rng, rows, columns), normal(rng, columns)) for rows, columns in ((16 * left**2, 120), (120, 84))]
    kernels = [(normal(rng, 3, 3, 1, 6), normal(rng, 6)), (normal(rng, 3, 3, 6, 16), normal(rng, 16))]
    return normal(rng, 2, n, n, 1), kernels, *layers, (normal(rng, 84, 10), normal(rng, 10))


PROGRAMS = [
    ExampleProgram(losses, lambda rng, n: (normal(rng, n, 10), rng.integers(-1, 10, n)), 12, 20_000),
    ExampleProgram(multi_head_attention, make_attention, 6, 300, ("heads", "causal")),
    ExampleProgram(
        lstm,
        lambda rng, n: (normal(rng, n, 5, 4), [normal(rng, 4, 32), normal(rng, 8, 32) / 3, normal(rng, 32)]),
        3,
        6000,
    ),
    ExampleProgram(batch_norm_step, make_norm, 4, 150),
    ExampleProgram(train_step, make_training, 7, 4000),
    ExampleProgram(digits, make_digits, 12, 28),
]
