"""Totals of what rows give are computed in the kernel of the rows, where that pays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from tests.support.c_target import C

CPU, A100 = DEVICES["cpu"], DEVICES["a100"]


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def log_softmax(x):
    z = x - x.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def cross_entropy(x, y):
    return -log_softmax(x)[np.arange(len(y)), y].mean()


def log_sums(x):
    top = x.max(1)
    return (np.log(np.exp(x - top[:, None]).sum(1)) + top).mean()


def norms(x):
    return np.sqrt((x * x).sum(1)).sum()


def largest_norm(x):
    return np.sqrt((x * x).sum(1)).max()


def entropy(x):
    p = softmax(x)
    return -(p * np.log(p)).sum(1).mean()


def norm_error(x, t):
    centred = x - x.mean(1, keepdims=True)
    return ((centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) - t) ** 2).mean()


def probabilities_too(x):
    p = softmax(x)
    return p, -np.log((p * p).sum(1)).mean()


PROGRAMS = (cross_entropy, log_sums, norms, largest_norm, entropy, norm_error, probabilities_too)


def kinds(program: Callable, rows: int, columns: int, device: ef.Device, numerics: str = "reassociate") -> list[str]:
    x = ef.spec((rows, columns), np.float32)
    more = {cross_entropy: [ef.spec((rows,), np.int64)], norm_error: [x]}.get(program, [])
    plan = ef.extract(ef.saturate(ef.trace(program, x, *more), numerics=numerics), target=device)
    return [k.kind for k in plan.kernels if not k.is_view]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("rows", [64, 1024])
def test_on_a_gpu_each_is_one_launch(program: Callable, rows: int) -> None:
    assert kinds(program, rows, 4096, A100) == ["total"]


@pytest.mark.parametrize("program", [cross_entropy, norms, norm_error])
@pytest.mark.parametrize("device", [CPU, C], ids=["numpy", "c"])
def test_on_a_cpu_they_are_one_kernel_too(program: Callable, device: ef.Device) -> None:
    assert kinds(program, 1024, 4096, device) == ["total"]


def test_strict_numerics_have_totals_of_what_keeps_its_axes() -> None:
    """Where it does not, no exact law takes the reshape between the two sums away."""
    kept = lambda x: np.sqrt((x * x).sum(1, keepdims=True)).sum()  # noqa: E731
    assert kinds(kept, 1024, 4096, A100, "strict") == ["total"]
    assert kinds(norms, 1024, 4096, A100, "strict") == ["reduce", "reduce"]


def test_what_a_block_alone_would_join_for_long_is_a_second_kernel() -> None:
    assert kinds(norms, 1 << 22, 2048, A100) == ["reduce", "reduce"]


def test_a_sum_of_all_elements_needs_no_rows() -> None:
    assert kinds(lambda x: (x * x).sum(), 1024, 4096, A100) == ["reduce"]
