"""Negative controls of the adversarial suite: programs that must stay as they are, or stay safe.

In: nothing. Out: `CONTROLS`, cases like those of `suite.GRAPHS`. N6 (random operators) has no case: a generator that a
traced function calls runs once, while it is traced, and gives a constant. N7 is the pair G4 of the suite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.suite import Case, TypedFunction, batch_norm, chain, f16, f32, gelu, softmax


def _relu_then_batch_norm(n: int) -> TypedFunction:
    return lambda x: batch_norm(np.maximum(x, 0), 3), [f32(n, 3, n, n)]


def _attention(h: int, s: int, d: int) -> TypedFunction:
    return lambda q, k, v: softmax(q @ k.transpose(0, 2, 1)) @ v, [f32(h, s, d)] * 3


def _around_a_library_call(n: int) -> TypedFunction:
    def program(x: Any) -> Any:
        a = x * 2 + 1
        return a + np.cumsum(a, axis=1)

    return program, [f32(n, n)]


def _variance(n: int) -> TypedFunction:
    return lambda x: (x + 10000).var(axis=1), [f32(n, n)]


def _times_zero(n: int) -> TypedFunction:
    return lambda x: x * 0, [f32(n)]


def _half_precision_linear(m: int, n: int) -> TypedFunction:
    return lambda x, w, b, g, r: gelu(x @ w + b) * g + r, [f16(m, n), f16(n, n), f16(n), f16(n), f16(m, n)]


def _strided_residual(n: int) -> TypedFunction:
    return lambda x, r: np.maximum(x, 0) + r[:, ::2].T, [f32(n, n), f32(n, 2 * n)]


def _long_chain(n: int, k: int) -> TypedFunction:
    return lambda x: chain(x, k), [f32(n)]


_N = {"n": 5}
CONTROLS: dict[str, Case] = {
    case.id: case
    for case in (
        Case("N1", _relu_then_batch_norm, {"n": 32}, _N, "no folding through relu"),
        Case("N2", _attention, {"h": 16, "s": 4096, "d": 64}, {"h": 2, "s": 8, "d": 2}, "no reassociation", "R"),
        Case("N3", _around_a_library_call, {"n": 8192}, _N, "never a kernel with the call in the middle"),
        Case("N4", _variance, {"n": 8192}, {"n": 64}, "never the one-pass form"),
        Case("N5", _times_zero, {"n": 1 << 20}, {"n": 4}, "not 0: NaN and infinity stay non-finite"),
        Case("N8", _half_precision_linear, {"m": 8192, "n": 1024}, {"m": 4, "n": 6}, "no truncation added", "R"),
        Case("N9", _strided_residual, {"n": 4096}, _N, "right values"),
        Case("N10", _attention, {"h": 4, "s": 64, "d": 16}, {"h": 2, "s": 8, "d": 2}, "one plan in every process"),
        Case("N11", _long_chain, {"n": 1 << 20, "k": 5000}, {"n": 5, "k": 200}, "budget honoured"),
    )
}
