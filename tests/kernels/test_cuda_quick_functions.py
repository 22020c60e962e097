"""Functions that CUDA has with branches, or with instructions that change nothing, are our own by default: how exact
they are on the emulator, where reciprocals and powers of two are exact, and what NVRTC makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.ir.graph import Node, node
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.kernels.test_cuda_budgets import instructions, missing
from tests.support.kernels import PRICE, body, read

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(missing), reason=missing or "available")
FUNCTIONS = {"divide": "eqf_divided(", "sqrt": "eqf_sqrt(", "tanh": "eqf_tanh(", "reciprocal": "eqf_divided("}


def quick(*calls: tuple) -> list[np.ndarray]:
    """What operators make of arrays. All are compiled together."""
    kernels = []
    for op, *arrays in calls:
        args = [read(j, a.shape, a.dtype) for j, a in enumerate(arrays)]
        kernels.append(emit_kernel(Kernel("map", body(args, node(op, tuple(args))), (), (), PRICE), profile("h100")))
        assert FUNCTIONS[op] in kernels[-1].source
    code, results = "#define EQF_QUICK\n" + module_source([cuda.source for cuda in kernels]), []
    for (_, *arrays), cuda in zip(calls, kernels, strict=True):
        results.append(np.empty_like(arrays[0]))
        cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, (*arrays, results[-1]))
    return results


def drawn(exponents: tuple[int, int], seed: int = 0, n: int = 100_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.ldexp(rng.uniform(1, 2, n), rng.integers(*exponents, n)).astype(np.float32)


@emulated
def test_quotients_and_roots_are_rounded_once() -> None:
    x, y = drawn((-100, 127)), -drawn((-20, 20), 1)
    quotients, roots, reciprocals = quick(("divide", x, y), ("sqrt", x), ("reciprocal", y))
    with np.errstate(over="ignore"):
        assert np.array_equal(quotients, x / y)
    assert np.array_equal(roots, np.sqrt(x))
    assert np.array_equal(reciprocals, 1 / y)


@emulated
def test_quotients_and_roots_are_whole_where_they_can_be() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 4096, (2, 100_000)).astype(np.float32)
    quotients, roots = quick(("divide", x * y, y), ("sqrt", x * x))
    assert np.array_equal(quotients, x) and np.array_equal(roots, x)


@emulated
def test_zeros_infinities_and_huge_numbers_divide_as_in_numpy() -> None:
    every = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -3, 2.0**126, -(2.0**127), 3.4e38, 2.0**-126], np.float32)
    x, y = (np.ascontiguousarray(a).reshape(-1) for a in np.meshgrid(every, every))
    quotients, roots = quick(("divide", x, y), ("sqrt", every))
    with np.errstate(all="ignore"):
        normal = ~(np.abs(x / y) < 2.0**-126) | (x == 0) | np.isinf(y)
        np.testing.assert_array_equal(quotients[normal], (x / y)[normal])
        np.testing.assert_array_equal(roots, np.sqrt(every))


@emulated
def test_hyperbolic_tangents_are_off_by_little_more_than_two_units_in_the_last_place() -> None:
    x = np.concatenate([drawn((-126, 127)), np.random.default_rng(0).uniform(-10, 10, 1_000_000).astype(np.float32)])
    every = np.array([0, -0.0, np.inf, -np.inf, np.nan, 100, -100], np.float32)
    (got, of_every), want = quick(("tanh", x), ("tanh", every)), np.tanh(x.astype(np.float64))
    assert (np.abs(got - want) / np.spacing(np.abs(want.astype(np.float32)))).max() < 2.2
    np.testing.assert_array_equal(of_every, np.tanh(every))
    assert np.array_equal(np.signbit(of_every), np.signbit(every))


@compiled
def test_quotients_roots_and_hyperbolic_tangents_take_no_branches(tmp_path: Path) -> None:
    """Beside those of the loop."""

    def kernel(dtype: type, root: Callable[[Node, Node], Node]) -> CudaKernel:
        x, y = read(0, (1 << 20,), dtype), read(1, (1 << 20,), dtype)
        return emit_kernel(Kernel("map", body([x, y], root(x, y)), (), (), PRICE), profile("h100"))

    pairs = [(kernel(dtype, lambda x, y: node("multiply", (x, y))),
              kernel(dtype, lambda x, y: node("divide", (node("sqrt", (x,)), node("tanh", (y,))))))
             for dtype in (np.float32, np.float16, ml_dtypes.bfloat16)]  # fmt: skip
    names_of = instructions([cuda for pair in pairs for cuda in pair], "sm_90", tmp_path)
    for plain, cuda in pairs:
        names = names_of[cuda.name]
        assert not {"CALL", "BSSY"} & {name.split(".")[0] for name in names}, cuda.source
        assert sum(n.startswith("BRA") for n in names) <= sum(n.startswith("BRA") for n in names_of[plain.name])
