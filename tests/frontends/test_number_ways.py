"""Python numbers as arguments, in every way to make and run a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import RangeError
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.frontends.python_numbers import U, X, fits, outcome, report, same, types_of
from tests.support.gpu import program_on


def mixed(x: Any, u: Any, n: Any, m: Any) -> Any:
    """Numbers that meet arrays of several dtypes, that are compared, computed with alone, and returned."""
    k = n * n + 1
    return {
        "scaled": x * n + k, "less": u < n, "most": u >= n - 7, "share": x * (m / 4), "power": x**m,
        "k": (k, n // 3, -n), "chosen": np.where(n > 2, x, -x), "wide": u.astype(np.int64) + k, "item": x[n % 3],
        "shifted": u + n % 5,
    }  # fmt: skip


CALLS = [
    (2, 0.5), (0, 2.0), (-3, -1.0), (1000, 0.0), (3 * 10**9, 0.25), (-(3 * 10**9), -0.0), (2**31, 3.0), (255, 1.0),
]  # fmt: skip
REFUSED = [(2**62, 1.0, RangeError, "meets int64"), (10**400, 1.0, OverflowError, "")]
OPTIONS: dict[str, dict[str, Any]] = {
    "compile": {}, "verify": {"verify": True}, "strict": {"numerics": "strict"}, "unfused": {"extractor": "unfused"},
    "numpy": {"target": "numpy"},
}  # fmt: skip
WAYS = ("meaning", "jit", *OPTIONS, "save", "dynamic", "named", "symbols", "cuda")


def program(way: str, folder: Path, function: Callable[..., Any], n: Any = 1, m: Any = 1.0) -> Callable[..., Any]:
    """`function` of x, u, n and m, made to run in one of the ways there are; `n` and `m` are examples."""
    if way == "meaning":
        return partial(ef.meaning, ef.trace(function, X, U, n, m))
    if way == "jit":
        return ef.jit(function)
    if way == "dynamic":
        return ef.jit(function, dynamic=True)
    if way == "named":
        return ef.jit(function, dynamic={"x": ("k", None)})
    if way == "symbols":
        return ef.compile(function, ef.spec(("k", 4), np.float32), U, n, m)
    if way == "cuda":
        if cudasim.cudasim_missing():
            pytest.skip(cudasim.cudasim_missing())
        plan = ef.extract(ef.saturate(ef.trace(function, X, U, n, m)), target="cuda:h100")
        return program_on(plan, EmulatedGpu())
    compiled = ef.compile(function, X, U, n, m, **OPTIONS.get(way, {}))
    if way == "save":
        compiled.save(folder / "program")
        return ef.load(folder / "program")
    return compiled


@pytest.mark.parametrize("way", WAYS)
def test_a_program_computes_with_the_numbers_of_each_call_however_it_is_made(way: str, tmp_path: Path) -> None:
    run = program(way, tmp_path, mixed)
    for i, (n, m) in enumerate(CALLS):
        x = np.repeat(X, 1 + i % 3, axis=0) if way in ("dynamic", "named", "symbols") else X
        wanted, got = mixed(x, U, n, m), run(x, U, n, m)
        for name, value in wanted.items():
            assert same(got[name], value), (name, n, m, got[name], value)
    for n, m, kind, message in REFUSED:
        with pytest.raises(OverflowError):
            mixed(X, U, n, m)
        with pytest.raises(kind, match=message or None):
            run(X, U, n, m)
        assert same(run(X, U, 2, 0.5)["scaled"], mixed(X, U, 2, 0.5)["scaled"])


@pytest.mark.parametrize("way", WAYS)
def test_pythons_errors_come_at_the_call_whose_numbers_raise_them(way: str, tmp_path: Path) -> None:
    run = program(way, tmp_path, lambda x, u, n, m: (x * (1 / n), u * (7 % n), 1 << n))
    assert run(X, U, 4, 1.0)[2] == 16
    for n, error, note in (
        (0, ZeroDivisionError, "in 1 / n, with n = 0"), (-8, RangeError, "7 % n = -1 meets uint8"),
        (-1, ValueError, "in 1 << n, with n = -1"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            run(X, U, n, 1.0)
        assert note in str(getattr(caught.value, "__notes__", caught.value))
    assert run(X, U, 5, 1.0)[2] == 32


SURPRISES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a threshold beyond uint8": (lambda x, u, n, m: (u < n, n <= u, u == n), (7, 256, -1, 0, 255, 2**70, -(2**70))),
    "a large square": (lambda x, u, n, m: (n * n, x * (n * n)), (3, 3 * 10**9, 2**62, -(10**12), 10**30)),
    "int8 and a number": (lambda x, u, n, m: u.astype(np.int8) + n, (1, 127, -128, 128, 300, -129, 2**70)),
    "uint8 less a number": (lambda x, u, n, m: u - n, (1, 255, -1, 256)),
    "a quotient of ints": (lambda x, u, n, m: (1 // n, x + 7 % n), (2, 0, -3, 10**30)),
    "a power": (lambda x, u, n, m: (2**n, x * 2**n), (3, 0, -1, 70)),
    "a negative power": (lambda x, u, n, m: (2**n, x * 2**n), (-1, -3, 2)),
    "a shift": (lambda x, u, n, m: (1 << n, (1 << n) >> 60), (2, 70, 0, -1, 500)),
    "an array shifted by a shift": (lambda x, u, n, m: u + (1 << n), (2, 7, 8, 70)),
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_beyond_an_arrays_dtype_are_numpys_however_the_program_is_made(way: str, tmp_path: Path) -> None:
    def cases() -> Iterator[str]:
        for name, (function, numbers) in SURPRISES.items():
            run = program(way, tmp_path / name, function, numbers[0])
            kinds = types_of(function(X, U, numbers[0], 1.0))
            for n in numbers:
                wanted, got = outcome(function, X, U, n, 1.0), outcome(run, X, U, n, 1.0)
                if not fits(got, wanted, (n,), kinds):
                    yield f"{name}, n = {n}: {got!r}, NumPy gives {wanted!r}"

    report(cases())


@pytest.mark.slow
def test_a_plan_that_computes_values_again_computes_with_the_numbers_of_each_call() -> None:
    x = np.random.default_rng(0).normal(size=(40, 25))

    def chain(x: Any, n: Any, m: Any) -> Any:
        values = [x * m]
        for i in range(4):
            values.append(np.cumsum(np.tanh(values[-1] * (n + i)), axis=i % 2))
        total = values[-1]
        for value in reversed(values):
            total = np.cumsum(total * value, axis=0) / (n * n)
        return total

    free = ef.compile(chain, x, 2, 0.5)
    with pytest.raises(ef.MemoryLimitError) as refused:
        ef.compile(chain, x, 2, 0.5, memory_limit=0)
    tight = ef.compile(chain, x, 2, 0.5, memory_limit=refused.value.least)
    assert tight.peak_bytes < free.peak_bytes
    assert sum(len(k.body.nodes) for k in tight.plan.kernels) > sum(len(k.body.nodes) for k in free.plan.kernels)
    for n, m in ((2, 0.5), (5, -1.5), (3 * 10**9, 2.0)):
        np.testing.assert_allclose(tight(x, n, m), chain(x, n, m), rtol=1e-9)
    with pytest.raises(OverflowError):
        tight(x, 10**400, 1.0)


def test_one_program_serves_all_numbers_of_a_kind() -> None:
    f = ef.jit(lambda x, n: x * n)
    for n in (1, 2, -5, 10**30, 0.5, -0.0, 0.0, float("nan"), True, False, 2j):
        assert same(f(X, n), X * n)
    assert "4 program(s)" in repr(f)


def test_a_size_that_is_compiled_later_is_traced_with_the_numbers_of_its_own_call() -> None:
    f = ef.jit(lambda x, n: x * (1 / (n - x.shape[0])), dynamic=True)
    for size, n in ((2, 5), (5, 2), (3, 9), (9, 3)):
        np.testing.assert_array_equal(f(np.ones(size), n), np.ones(size) / (n - size))
    with pytest.raises(ZeroDivisionError):
        f(np.ones(7), 7)
    np.testing.assert_array_equal(f(np.ones(7), 6), -np.ones(7))


def test_a_first_call_that_raises_leaves_nothing_behind() -> None:
    for dynamic in (False, True):
        f = ef.jit(lambda x, n: x * (1 / n), dynamic=dynamic)
        with pytest.raises(ZeroDivisionError):
            f(X, 0)
        np.testing.assert_array_equal(f(X, 4), X * 0.25)


def test_a_power_whose_kind_depends_on_the_value_is_refused_where_it_is_another() -> None:
    f = ef.jit(lambda x, n: x * 2**n)
    np.testing.assert_array_equal(f(X, 3), X * 8)
    with pytest.raises(TypeError, match=r"2 \*\* n is of type float here.*Python int.*static_argnames"):
        f(X, -1)
