"""Recurrent networks and transformers: NasRNN and BERT as TENSAT builds them, BERT, GPT-2, Llama, SwiGLU and LoRA.

In: sizes. Out: rows of `networks.NETWORKS`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from eqfuse.benches.corpus.network import Layers, Network, Weights
from eqfuse.benches.corpus.suite import floats
from eqfuse.functions import gelu, layer_norm, relu, rms_norm, sigmoid, silu, softmax
from eqfuse.ops.types import TensorType

_LEAST = np.float32(-1e4)  # what masked scores become: finite in half precision too


def nasrnn(hidden: int, length: int) -> Layers:
    def step(w: Weights, x: Any, h: Any) -> Any:
        t = [x @ w(hidden, hidden) + h @ w(hidden, hidden) for _ in range(8)]
        left = sigmoid(sigmoid(t[1]) + np.tanh(t[2])) + np.tanh(sigmoid(t[4]) * np.tanh(t[5]))
        right = np.tanh(relu(t[0]) + sigmoid(t[3])) * np.tanh(sigmoid(t[6]) * relu(t[7]))
        return np.tanh(np.tanh(left) * np.tanh(right))

    def network(w: Weights, *xs: Any) -> Any:
        h = w(1, hidden)
        for x in xs:
            h = step(w, x, h)
        return h

    return network, [floats(32, 1, hidden)] * length


def _split(x: Any, heads: int) -> Any:
    """``[heads, tokens, width]``"""
    return x.reshape(x.shape[0], heads, x.shape[1] // heads).transpose(1, 0, 2)


def _joined(x: Any) -> Any:
    return x.transpose(1, 0, 2).reshape(x.shape[1], x.shape[0] * x.shape[2])


def bert_of_tensat(tokens: int, width: int, heads: int, layers: int) -> Layers:
    """As in `bert.rs`: keys are not transposed, no softmax; a layer's attention is a result, its input goes on."""

    def network(w: Weights, x: Any) -> Any:
        x, results = relu(x), []
        for _ in range(layers):
            q, k, v = (_split(x @ w(width, width), heads) for _ in range(3))
            results.append(_joined((q @ k) @ v))
            x = x @ w(width, width)
        return (*results, x)

    return network, [floats(32, tokens, width)]


def _linear(w: Weights, x: Any, width: int) -> Any:
    return x @ w(x.shape[-1], width) + w(width)


def _attention(w: Weights, x: Any, heads: int, mask: Any = None) -> Any:
    width = x.shape[-1]
    q, k, v = (_split(_linear(w, x, width), heads) for _ in range(3))
    scores = q @ k.transpose(0, 2, 1) / (width // heads) ** 0.5
    if mask is not None:
        scores = np.where(mask, scores, _LEAST)
    return _linear(w, _joined(softmax(scores) @ v), width)


def _norm(w: Weights, x: Any) -> Any:
    return layer_norm(x, w(x.shape[-1]), w(x.shape[-1]))


def bert(tokens: int, width: int, heads: int, layers: int) -> Layers:
    """The encoder: each half of a layer is residual and normalised behind."""

    def network(w: Weights, x: Any) -> Any:
        for _ in range(layers):
            x = _norm(w, x + _attention(w, x, heads))
            x = _norm(w, x + _linear(w, gelu(_linear(w, x, 4 * width)), width))
        return x

    return network, [floats(32, tokens, width)]


def gpt2(tokens: int, width: int, heads: int, layers: int, words: int) -> Layers:
    """From token numbers to logits; each half of a layer is normalised before."""
    mask = np.tri(tokens, dtype=bool)

    def network(w: Weights, ids: Any) -> Any:
        embedding = w(words, width)
        x = embedding[ids] + w(tokens, width)
        for _ in range(layers):
            x = x + _attention(w, _norm(w, x), heads, mask)
            x = x + _linear(w, gelu(_linear(w, _norm(w, x), 4 * width), "tanh"), width)
        return _norm(w, x) @ embedding.T

    return network, [TensorType(np.dtype(np.int64), (tokens,))]


def _turned(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary positions: pairs of (first half, second half) of each head turned by angles that grow along the tokens."""
    half = x.shape[-1] // 2
    return x * cosine + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sine


def llama(tokens: int, width: int, heads: int, kv_heads: int, hidden: int, layers: int, bits: int) -> Layers:
    size = width // heads
    angles = np.arange(tokens)[:, None] * 5e5 ** (-np.arange(0, size, 2) / size)
    cosine, sine = (np.tile(f(angles), 2).astype(f"float{bits}") for f in (np.cos, np.sin))
    mask = np.tri(tokens, dtype=bool)
    least = _LEAST.astype(f"float{bits}")

    def attention(w: Weights, x: Any) -> Any:
        q = _turned(_split(x @ w(width, width), heads), cosine, sine)
        k = _turned(_split(x @ w(width, kv_heads * size), kv_heads), cosine, sine)
        v = _split(x @ w(width, kv_heads * size), kv_heads)
        k, v = (np.repeat(t, heads // kv_heads, axis=0) for t in (k, v))
        scores = np.where(mask, q @ k.transpose(0, 2, 1) * size**-0.5, least)
        return _joined(softmax(scores) @ v) @ w(width, width)

    def network(w: Weights, x: Any) -> Any:
        for _ in range(layers):
            x = x + attention(w, rms_norm(x, w(width)))
            x = x + _swiglu(w, rms_norm(x, w(width)), hidden)
        return x

    return network, [floats(bits, tokens, width)]


def _swiglu(w: Weights, x: Any, hidden: int) -> Any:
    width = x.shape[-1]
    return (silu(x @ w(width, hidden)) * (x @ w(width, hidden))) @ w(hidden, width)


def swiglu(tokens: int, width: int, hidden: int, bits: int) -> Layers:
    return partial(_swiglu, hidden=hidden), [floats(bits, tokens, width)]


def lora(tokens: int, width: int, rank: int, bits: int) -> Layers:
    """A linear layer with a fixed weight and an update of low rank that is still being trained."""

    def network(w: Weights, x: Any, a: Any, b: Any) -> Any:
        return x @ w(width, width) + (x @ a) @ b * (2 / rank)

    return network, [floats(bits, tokens, width), floats(bits, width, rank), floats(bits, rank, width)]


_BERT = {"tokens": 64, "width": 1024, "heads": 16, "layers": 8}
_SMALL_BERT = {"tokens": 6, "width": 12, "heads": 2, "layers": 2}
NETWORKS = (
    Network("NasRNN", nasrnn, "example of TASO, network of TENSAT", {"hidden": 512, "length": 5},
            {"hidden": 6, "length": 2}, searched=(177.3, 0.5)),
    Network("BERT of TENSAT", bert_of_tensat, "network of TENSAT", _BERT, {**_SMALL_BERT, "tokens": 6},
            searched=(13.6, 1.4)),
    Network("BERT", bert, "the shapes of TENSAT's, with softmax, norms, residuals and perceptrons", _BERT, _SMALL_BERT),
    Network("GPT-2 small", gpt2, "GPT-2, 124 M parameters",
            {"tokens": 1024, "width": 768, "heads": 12, "layers": 12, "words": 50257},
            {"tokens": 6, "width": 12, "heads": 2, "layers": 2, "words": 20},
            {"tokens": 256, "layers": 3, "words": 4096}),
    Network("Llama blocks", llama, "four blocks of Llama 3 8B",
            {"tokens": 2048, "width": 4096, "heads": 32, "kv_heads": 8, "hidden": 14336, "layers": 4, "bits": 16},
            {"tokens": 6, "width": 16, "heads": 4, "kv_heads": 2, "hidden": 20, "layers": 2, "bits": 32},
            {"tokens": 256, "width": 1024, "heads": 8, "kv_heads": 2, "hidden": 2816, "layers": 2, "bits": 32}),
    Network("SwiGLU block", swiglu, "perceptron of Llama 2 7B",
            {"tokens": 2048, "width": 4096, "hidden": 11008, "bits": 16},
            {"tokens": 4, "width": 6, "hidden": 10, "bits": 32},
            {"tokens": 1024, "width": 1024, "hidden": 2816, "bits": 32}),
    Network("LoRA block", lora, "a projection of Llama 2 7B, rank 16",
            {"tokens": 2048, "width": 4096, "rank": 16, "bits": 16}, {"tokens": 8, "width": 6, "rank": 2, "bits": 32},
            {"tokens": 2048, "width": 1024, "bits": 32}),
)  # fmt: skip
