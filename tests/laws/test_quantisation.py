"""Quantising and dequantising: what folds, what it may cost, and the bounds that the laws rest on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqfuse.frontends.numpy.trace import spec
from tests.support.meeting import meet

F = np.float32
S, R = F(0.05), F(0.02)  # steps of activations and weights


def quantised(x: Any, step: Any = S) -> Any:
    return np.rint(x / step)


BYTES, HALVES, REALS, STEPS = spec((4, 6), np.int8), spec((6, 5), np.int8), (4, 6), (4, 1)

EXACTLY = {
    "rounding what is whole": (lambda q: np.rint(q.astype(F)), lambda q: q.astype(F), BYTES),
    "a clamp to whole numbers before or after rounding": (
        lambda x: np.clip(quantised(x), -128, 127), lambda x: np.rint(np.clip(x / S, -128, 127)), REALS),
    "the product of dequantised operands is dequantised once": (
        lambda q, w: (q.astype(F) * S) @ (w.astype(F) * R), lambda q, w: ((q.astype(F) @ w.astype(F)) * S) * R, BYTES,
        HALVES),
}  # fmt: skip

NEARLY = {
    "quantising what was dequantised": (
        lambda q, s: quantised(q.astype(F) * s, s), lambda q, s: q.astype(F), BYTES, STEPS),
    "quantising twice": (lambda x, s: quantised(quantised(x, s) * s, s), quantised, REALS, STEPS),
}


@pytest.mark.parametrize("rule", EXACTLY.values(), ids=EXACTLY)
def test_both_sides_meet(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", NEARLY.values(), ids=NEARLY)
def test_pairs_of_quantising_and_dequantising_fold_when_approximation_is_allowed(rule: tuple) -> None:
    assert meet(*rule, numerics="approximate")
    assert not meet(*rule)


def test_dequantised_is_never_taken_for_the_number_itself() -> None:
    assert not meet(lambda x: quantised(x) * S, lambda x: x, REALS, numerics="approximate")


def test_dequantised_is_off_by_half_a_step_at_most() -> None:
    x = np.random.default_rng(0).uniform(-6, 6, 100_000).astype(F)
    error = np.abs(quantised(x).astype(np.float64) * S - x)
    rounding = np.finfo(F).eps * np.abs(x)  # of x / s, then of q * s, in units of x
    assert (error <= S / 2 + 2 * rounding).all()
    assert error.max() > 0.49 * S  # and no better


def test_every_byte_survives_every_step_of_half_precision() -> None:
    q = np.arange(-128, 128, dtype=np.int8).astype(np.float16)
    steps = np.arange(1, 0x7C00, 5, dtype=np.uint16).view(np.float16)[:, None]  # positive, subnormal ones included
    with np.errstate(over="ignore"):
        dequantised = q * steps
    back = np.rint(dequantised / steps)
    assert (back == q)[np.isfinite(dequantised)].all()
