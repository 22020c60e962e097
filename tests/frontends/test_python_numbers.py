"""Python numbers as arguments behave as in NumPy, for every value: weak dtypes, range checks, Python's own arithmetic.

A function is traced for one value of each kind, and then called with all of them.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
import random
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.arithmetic import literal
from eqfuse.errors import RangeError
from eqfuse.frontends.registry import UFUNCS
from eqfuse.runtime_cuda import CudaProgram
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu

PYTHON = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)
OPERATORS = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift",
                 "lt", "le", "eq", "ne", "gt", "ge")
}  # fmt: skip
UNARY = (operator.neg, operator.pos, operator.inv, abs, round)
KINDS: dict[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (2, 0, 1, -1, 3, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1,
          2**64 - 1, 2**64, -(2**70), 10**400),
    float: (1.5, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-300, 65520.0, 1e300, float("inf"), float("-inf"),
            float("nan")),
    complex: (1 + 2j, 0j, complex(-0.0, -0.0), -1j, complex(float("inf"), 1), complex(float("nan"), 0)),
}  # fmt: skip
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8 and d.name not in ("int16", "uint16", "uint32")]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except Exception as error:
            return error


def values(dtype: np.dtype) -> np.ndarray:
    """Numbers among which all special ones are."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, limits.max, limits.min], dtype)
    found = np.array([0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan]).astype(dtype)
    return found + (found[::-1] * 1j).astype(dtype) if dtype.kind == "c" else found


def same(got: Any, wanted: Any) -> bool:
    """Equal in type, dtype and bits, but for the last digits of powers and the sign of a NaN."""
    if isinstance(wanted, tuple):
        return isinstance(got, tuple) and len(got) == len(wanted) and all(map(same, got, wanted))
    if type(wanted) in KINDS:
        return type(got) is type(wanted) and literal(got) == literal(wanted)
    g, w = np.asarray(got), np.asarray(wanted)
    if g.dtype != w.dtype or g.shape != w.shape or isinstance(got, np.generic) != isinstance(wanted, np.generic):
        return False
    if dtypes.kind(w.dtype) not in "fc":
        return bool((g == w).all())
    a, b = dtypes.parts(g).astype(np.float64), dtypes.parts(w).astype(np.float64)
    signs = np.isnan(b) | (np.signbit(a) == np.signbit(b))
    return bool(signs.all()) and np.allclose(a, b, rtol=4 * dtypes.epsilon(w.dtype), atol=0, equal_nan=True)


def refused_alike(got: Exception, wanted: Exception) -> bool:
    """Does the ``except`` that catches NumPy's error catch ours? Whose class is Python's own, or one of eqfuse's."""
    fits = all(isinstance(got, kind) >= isinstance(wanted, kind) for kind in PYTHON)
    return fits and (isinstance(got, ef.EqfuseError) or type(got) is type(wanted))


def beyond_int64(*numbers: Any) -> bool:
    return any(type(n) is int and not -(2**63) <= n < 2**63 for n in numbers)


def fits(got: Any, wanted: Any, numbers: tuple, kinds: Any) -> bool:
    """Is `got` what NumPy gives, or refused as NumPy does, or refused by name? `kinds`: of the example's result."""
    if not isinstance(got, Exception):
        return not isinstance(wanted, Exception) and same(got, wanted)
    if isinstance(wanted, Exception):
        return refused_alike(got, wanted) or (isinstance(got, ef.EqfuseError) and beyond_int64(*numbers))
    if "np.int64(…)" in str(got):
        return beyond_int64(*numbers)
    return "name its arguments in static_argnames" in str(got) and types_of(wanted) != kinds


def types_of(result: Any) -> Any:
    return tuple(map(type, result)) if isinstance(result, tuple) else type(result)


def misfits(
    function: Callable[..., Any], arrays: tuple, tried: Iterable[tuple], run: Callable[..., Any] = ef.meaning
) -> Iterator[str]:
    """What is wrong with ``function(*arrays, *numbers)`` for each `numbers` of `tried`, all of the same kinds."""
    graph, kinds = None, None
    for numbers in tried:
        wanted = outcome(function, *arrays, *numbers)
        if graph is None:  # what NumPy refuses gives no graph
            made = outcome(ef.trace, function, *arrays, *numbers)
            kinds, graph = types_of(wanted), None if isinstance(made, Exception) else made
        got = made if graph is None else outcome(run, graph, *arrays, *numbers)
        if not fits(got, wanted, numbers, kinds):
            yield f"{numbers}: {got!r}, NumPy gives {wanted!r}"


def report(found: Iterable[str]) -> None:
    lines = list(found)
    assert not lines, "\n".join(lines[:20])


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_between_an_array_and_a_python_number_is_numpys_for_every_value(name: str) -> None:
    op = OPERATORS[name]

    def cases() -> Iterator[str]:
        for dtype, (kind, numbers) in product(DTYPES, KINDS.items()):
            if name == "pow" and dtype.kind == "b" and kind is int:
                continue  # see below
            # of infinities, NumPy's scalars take other powers than its arrays
            scalar = values(dtype)[:5][-1] if name == "pow" else values(dtype)[-2]
            for reflected, x in product((False, True), (values(dtype), scalar)):
                if reflected and kind is complex and type(x) is np.float64:
                    continue  # which Python takes for a float, and computes with
                fn = (lambda x, n: op(n, x)) if reflected else (lambda x, n: op(x, n))
                for text in misfits(fn, (x,), [(n,) for n in numbers]):
                    yield f"{dtype.name}{np.shape(x)}, {kind.__name__}: {text}"

    report(cases())


def test_a_bool_array_to_the_power_of_a_python_int_is_refused_as_its_dtype_would_depend_on_the_value() -> None:
    with pytest.raises(ef.TraceError, match="its dtype would depend on the value"):
        ef.trace(lambda x, n: x**n, np.array([True]), 2)
    x, two = np.array([True]), ef.jit(lambda x, n: x**n, static_argnames="n")
    assert (two(x, 2).dtype, two(x, 3).dtype) == ((x**2).dtype, (x**3).dtype)


BINARY = sorted(
    (f for f in UFUNCS if f.nin == 2 and f.signature is None and hasattr(np, f.__name__)), key=lambda f: f.__name__
)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_a_ufunc_of_an_array_and_a_python_number_is_numpys_for_every_value(ufunc: np.ufunc) -> None:
    def cases() -> Iterator[str]:
        for dtype, (kind, numbers) in product(map(np.dtype, ("?", "u1", "i8", "f4", "c8")), KINDS.items()):
            for fn in (lambda x, n: ufunc(x, n), lambda x, n: ufunc(n, x)):
                x = np.abs(values(dtype)) if ufunc is np.float_power else values(dtype)  # which takes no square roots
                for text in misfits(fn, (x,), [(n,) for n in numbers]):
                    yield f"{dtype.name}, {kind.__name__}: {text}"

    report(cases())


def pairs(kinds: tuple[type, type], right: tuple[int, ...] = (2, 0, 1, -1, 3, 70, 2**63, -(2**64))) -> list[tuple]:
    """`right`: the ints on the right side; a large one makes a power or a shift that no memory holds."""
    few = {kind: numbers[::2] for kind, numbers in KINDS.items()} | {int: (2, 0, 1, -1, 3, 70, 2**63, -(2**64))}
    return list(product(few[kinds[0]], right if kinds[1] is int else few[kinds[1]]))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_between_python_numbers_is_pythons(name: str) -> None:
    op = OPERATORS[name]

    def cases() -> Iterator[str]:
        small = {"right": (2, 0, 1, -1, 3, 70)} if name in ("pow", "lshift") else {}
        for kinds in product(KINDS, repeat=2):
            yield from misfits(lambda n, m: op(n, m), (), pairs(kinds, **small))
            yield from misfits(lambda n, m: (op(n, 2), op(2.5, m)), (), pairs(kinds, **small))

    report(cases())


def test_unary_operators_and_roundings_of_python_numbers_are_pythons() -> None:
    def cases() -> Iterator[str]:
        for kind, numbers in KINDS.items():
            for op in UNARY:
                yield from misfits(lambda n, op=op: op(n), (), [(n,) for n in numbers])
            if kind is not complex:
                yield from misfits(lambda n: (round(n, 1), divmod(n, 3)), (), [(n,) for n in numbers])
            yield from misfits(lambda n: (n.real, n.imag, n.conjugate()), (), [(n,) for n in numbers])

    report(cases())


@pytest.mark.parametrize("ufunc", [
    np.add, np.multiply, np.power, np.less, np.equal, np.maximum, np.hypot, np.sqrt, np.negative, np.isnan, np.sign,
    np.bitwise_and,
], ids=lambda f: f.__name__)  # fmt: skip
def test_a_ufunc_of_python_numbers_alone_is_numpys(ufunc: np.ufunc) -> None:
    def cases() -> Iterator[str]:
        for kinds in product(KINDS, repeat=ufunc.nin):
            tried = [(n,) for n in KINDS[kinds[0]]] if ufunc.nin == 1 else pairs(kinds)  # type: ignore[arg-type]
            yield from misfits(lambda *numbers: ufunc(*numbers), (), tried)

    report(cases())


EXPRESSIONS = (
    "np.where(x == 0, n, x)", "np.where(x == 0, n, 7)", "np.where(n == 2, x, n)", "np.clip(x, n, None)",
    "np.clip(x, None, n)", "np.clip(x, n, n)", "np.clip(x, n, 2.5)", "np.full(3, n)", "np.full(3, n, x.dtype)",
    "np.full_like(x, n)", "np.array(n)", "np.array([n, 1])", "np.array(n, x.dtype)", "np.asarray([n, 1], x.dtype)",
    "np.append(x, n)", "np.concatenate([x, [n]])", "np.insert(x, 1, n)", "np.pad(x, 1, constant_values=n)",
    "np.stack([n, 1])", "np.sum(n)", "np.sum(x, initial=n)", "np.max(x, initial=n)", "np.isclose(x, n)",
    "np.outer(x, n)", "np.multiply.outer(x, n)", "np.select([x == 0], [n], 1)", "np.choose(x == 0, [n, 1])",
    "np.nan_to_num(x, nan=n)", "np.searchsorted(np.sort(x), n)", "np.isin(x, n)", "np.digitize(n, [0, 3, 5])",
    "np.interp(n, [0, 1], [2, 5])", "np.linspace(0, n, 3)", "np.var(x, ddof=n)", "np.maximum(x, n)",
    "np.copysign(1.0, n)", "np.zeros(2, np.result_type(x, n))", "np.ndim(n) + np.size(n)", "x * np.iscomplexobj(n)",
    "np.asarray(n).astype(np.float32)", "x + (n + n)", "x * (n == 2)", "x[0] * n", "np.float32(3) * n",
    "n * np.int8(3)", "np.take(x, n)", "x[n]", "x[:, None][n, 0]", "x[-1:][n]",
)  # fmt: skip
STATEMENTS = (
    "x[0] = n", "x[:] = n", "x[1:] = n", "x[[0, 1]] = n", "x[x == 0] = n", "x[n] = 1", "x.fill(n)", "np.copyto(x, n)",
    "np.copyto(x, n, casting='unsafe')", "np.putmask(x, x == 0, n)", "np.place(x, x == 0, [n])", "np.put(x, [0], n)",
    "x += n", "x *= n", "x /= n", "x //= n", "x **= n", "x &= n", "np.add(x, n, out=x)",
)  # fmt: skip


def written(text: str) -> Callable[..., Any]:
    """The function of an array x and a number n that is `text`."""
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x, n):\n    x = x.copy()\n    {text}\n    return x" if text in STATEMENTS
         else f"def f(x, n):\n    return {text}", names)  # fmt: skip
    made: Callable[..., Any] = names["f"]
    return made


def undefined(text: str, dtype: np.dtype, n: Any) -> bool:
    """Where NumPy's own answer is none, or is an accident of how it gets there."""
    if text.startswith(("np.clip", "np.max(")) and dtype.kind == "c":
        return n != n  # of NaNs, whose other part wins
    if text.startswith("np.pad"):  # casts that overflow
        return type(n) in (float, complex) and dtype.kind in "iu" and not abs(n) < 100
    if text.startswith("np.var"):
        return beyond_int64(n) or type(n) is complex  # divides by int64 on the way
    if "take" in text:
        return type(n) is not int  # NumPy cuts off what follows the point
    if "[n" in text:
        return type(n) is bool  # adds an axis, which is refused
    return text == "x **= n" and dtype.kind == "b" and type(n) is int  # see above


@pytest.mark.parametrize("text", EXPRESSIONS + STATEMENTS)
def test_what_takes_a_number_is_numpys_for_every_value(text: str) -> None:
    def cases() -> Iterator[str]:
        for dtype, (kind, numbers) in product(map(np.dtype, ("?", "u1", "i8", "f4", "c8")), KINDS.items()):
            tried = [(n,) for n in numbers if not undefined(text, dtype, n)]
            for wrong in misfits(written(text), (values(dtype)[:5],), tried):
                yield f"{dtype.name}, {kind.__name__}: {wrong}"

    report(cases())


# ---- every way to run a program


def mixed(x: Any, u: Any, n: Any, m: Any) -> Any:
    """Numbers that meet arrays of several dtypes, that are compared, computed with alone, and returned."""
    k = n * n + 1
    return {
        "scaled": x * n + k, "less": u < n, "most": u >= n - 7, "share": x * (m / 4), "power": x**m,
        "k": (k, n // 3, -n), "chosen": np.where(n > 2, x, -x), "wide": u.astype(np.int64) + k, "item": x[n % 3],
        "shifted": u + n % 5,
    }  # fmt: skip


X, U = np.array([[0.5, -1.5, 2.0, 3.0]] * 3, np.float32), np.array([0, 1, 200, 255], np.uint8)
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
        if cudasim.available():
            pytest.skip(cudasim.available())
        plan = ef.extract(ef.saturate(ef.trace(function, X, U, n, m)), target="cuda:h100")
        return CudaProgram(plan, EmulatedGpu())
    made = ef.compile(function, X, U, n, m, **OPTIONS.get(way, {}))
    if way == "save":
        made.save(folder / "program")
        return ef.load(folder / "program")
    return made


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


def test_a_plan_that_computes_values_again_computes_with_the_numbers_of_each_call() -> None:
    x = np.random.default_rng(0).normal(size=(40, 25))

    def chain(x: Any, n: Any, m: Any) -> Any:
        made = [x * m]
        for i in range(4):
            made.append(np.cumsum(np.tanh(made[-1] * (n + i)), axis=i % 2))
        total = made[-1]
        for value in reversed(made):
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


# ---- what is a number


class Mode(enum.IntEnum):
    NEAR = 1


class Metres(float):
    pass


SUBCLASSES = (Mode.NEAR, Metres(2), Fraction(1, 2), Decimal("0.5"))


@pytest.mark.parametrize("value", SUBCLASSES, ids=lambda v: type(v).__name__)
def test_a_number_with_a_class_of_its_own_is_refused_by_name(value: Any) -> None:
    name = type(value).__name__
    with pytest.raises(ef.TraceError, match=rf"'n' is a .*{name}, a number with a class of its own.*static_argnames"):
        ef.jit(lambda x, n: x * float(n))(X, value)
    f = ef.jit(lambda x, n: x * float(n), static_argnames="n")
    np.testing.assert_array_equal(f(X, value), X * float(value))


def test_an_enumeration_in_the_function_is_as_strong_as_in_numpy() -> None:
    f = lambda u, n: (u + Mode.NEAR, n + Mode.NEAR, u + Metres(1.5), n * Metres(1.5))  # noqa: E731
    assert same(ef.jit(f)(U, 3), f(U, 3))


@pytest.mark.parametrize("value", [
    np.float32(2), np.float64(2), np.int8(2), np.bool_(True), np.array(2), np.array(2.0, "f4"), np.complex64(2),
], ids=repr)  # fmt: skip
def test_numpys_scalars_and_arrays_of_rank_0_are_strong(value: Any) -> None:
    f = lambda u, x, n: (u + n, x * n, u < n, n * n, x**n)  # noqa: E731
    run = ef.jit(f)
    for times in (1, -1, 0):
        v = value * type(value)(times) if isinstance(value, np.generic) else value * times
        assert all(map(same, run(U, X, v), f(U, X, v)))


def test_a_program_takes_numbers_of_the_kind_it_was_compiled_for() -> None:
    run = ef.compile(lambda x, n: x * n, X, 2)
    for wrong in (2.0, True, 2j, np.int64(2), np.array(2), "2", None, Mode.NEAR):
        with pytest.raises(ef.ShapeError):
            run(X, wrong)
    np.testing.assert_array_equal(run(X, 3), X * 3)


def test_huge_integers_go_through_and_are_never_printed() -> None:
    huge = 10**5000
    assert ef.jit(lambda n: n * n + 1)(huge) == huge * huge + 1
    with pytest.raises(OverflowError, match="an int of 16610 bits"):
        ef.jit(lambda x, n: x + n)(X, huge)


@dataclasses.dataclass
class Settings:
    rate: float
    steps: int
    rest: tuple


def test_numbers_nest_and_come_back_as_they_would_from_python() -> None:
    def f(x: Any, settings: Settings, more: Any) -> Any:
        total = sum(more["rates"], settings.rate)
        return Settings(total, settings.steps + 1, (x * total, 2)), [total > 1, {"n": -more["n"]}], None

    arguments = (X, Settings(0.25, 3, ("a",)), {"rates": [1, 2.5], "n": 7})
    got, wanted = ef.jit(f)(*arguments), f(*arguments)
    assert repr(got) == repr(wanted)


# ---- what a traced number cannot do

KEPT = type("Kept", (), {})()
IMPOSSIBLE = {
    "if": lambda x, n: x if n else -x, "if compared": lambda x, n: x if n > 2 else -x, "and": lambda x, n: n and x,
    "float()": lambda x, n: x * float(n), "int()": lambda x, n: x * int(n), "range": lambda x, n: [x for _ in range(n)],
    "list index": lambda x, n: [x, x, x][n], "slice": lambda x, n: x[:n], "dict key": lambda x, n: {n: x},
    "in": lambda x, n: x * (n in {1, 2}), "bit_length": lambda x, n: x * n.bit_length(), "text": lambda x, n: f"{n:3}",
    "zeros": lambda x, n: np.zeros(n), "reshape": lambda x, n: x.reshape(n, -1), "axis": lambda x, n: x.sum(axis=n),
    "tile": lambda x, n: np.tile(x, n), "repeat": lambda x, n: np.repeat(x, n), "roll": lambda x, n: np.roll(x, n),
    "eye": lambda x, n: x[:, :n] @ np.eye(n, dtype=np.float32), "tri": lambda x, n: x[0, 0] * np.tri(n),
    "eye's diagonal": lambda x, n: x * np.eye(3, 4, n), "arange": lambda x, n: x[0, 0] * np.arange(n),
    "a window": lambda x, n: x[0, 0] * np.hanning(n), "indices": lambda x, n: x[np.tril_indices(n)],
    "fromfunction": lambda x, n: x[0, 0] * np.fromfunction(lambda i: i, (n,)),
    "linspace": lambda x, n: x[0, 0] * np.linspace(0, 1, n), "full": lambda x, n: x[0, 0] * np.full((2, n), 1),
    "list repetition": lambda x, n: [x] * n, "max()": lambda x, n: x * max(n, 3),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_needs_its_value_names_the_remedy(case: str) -> None:
    with pytest.raises(ef.EqfuseError, match="static_argnames"):
        ef.trace(IMPOSSIBLE[case], X, 2)
    f = ef.jit(IMPOSSIBLE[case], static_argnames="n")
    wanted = IMPOSSIBLE[case](X, 1)
    if case != "text":
        assert repr(f(X, 1)) == repr(wanted)


def test_a_number_that_leaks_is_an_error_that_names_the_line() -> None:
    leaked: list[Any] = []
    with pytest.raises(ef.TraceError, match=r"Python int, made at .*leaked\.append.* is kept as leaked\[0\]"):
        ef.trace(lambda x, n: leaked.append(n * 2) or x, X, 2)
    assert leaked == []


def test_a_number_that_leaks_where_nobody_looks_is_named_when_it_is_used() -> None:
    hidden: Any = weakref.WeakKeyDictionary()  # of a library, which is not looked into
    with pytest.raises(ef.TraceError, match=r"Python int, made at .*setdefault.* is kept in a dict"):
        ef.trace(lambda x, n: (hidden.setdefault(KEPT, n * 2), x)[1], X, 2)
    with pytest.raises(ef.TraceError, match="a traced Python int is used outside the call that made it"):
        hidden[KEPT] + 1
    with pytest.raises(ef.TraceError, match="outside the call"):
        ef.trace(lambda x: x + hidden[KEPT], X)


def test_python_numbers_that_a_generator_draws_are_weak_and_drawn_anew() -> None:
    def f(x: Any, rng: Any, s: Any) -> Any:
        a, b = rng.random(), rng.normal(0.0, s)
        return x * a + b, (a < 0.5, a * 2), rng.integers(0, 5, 3)

    run = ef.jit(f)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for s in (0.5, 2.0, 0.0):
        got, wanted = run(X, ours, s), f(X, theirs, s)
        assert same(got[0], wanted[0]) and same(got[1], wanted[1]) and same(got[2], wanted[2])


# ---- as indices, which give views

INDICES = (
    "n", "n, m", "n, 1", ":, n", "..., n", "n, :, m", "1:, n", "n, ::-1", "None, n", "-1, n, 1:", "n, ..., None",
    "::2, m, n",
)  # fmt: skip
USES = (
    "row += 1", "row[...] = 7", "row *= x[0, 0, 0]", "row = row.T; row -= 2", "row = row[..., None]; row[...] = 3",
    "x[...] = 0; row = row + 1", "x[{at}] += 5; row = row * 2", "x[{at}] = row * 2", "x[1] = 4; row += row",
    "row = row.copy(); row += 1", "row = row.reshape(-1) + 1",
)  # fmt: skip


@pytest.mark.parametrize("at", INDICES)
def test_a_number_as_an_index_takes_a_view_as_in_numpy(at: str) -> None:
    def cases() -> Iterator[str]:
        for use, number in [*((use, int) for use in USES), *((use, np.int64) for use in USES[:2])]:
            names: dict[str, Any] = {"np": np}
            body = ("x = x.copy()", f"row = x[{at}]", use.format(at=at), "return x, row")
            exec("\n    ".join(("def f(x, n, m):", *body)), names)
            f, x = names["f"], np.arange(24.0).reshape(2, 3, 4)
            graph = ef.trace(f, x, number(1), number(0))
            run = ef.compile(graph) if use == USES[0] and number is int else partial(ef.meaning, graph)
            for n, m in ((1, 0), (0, 1), (-1, -2), (1, 2), (2, 5)):
                wanted, got = outcome(f, x, number(n), number(m)), outcome(run, x, number(n), number(m))
                if not (isinstance(got, IndexError) if isinstance(wanted, Exception) else same(got, wanted)):
                    yield f"{at}, {use}, {(n, m)}: {got!r}, NumPy gives {wanted!r}"

    report(cases())


@pytest.mark.parametrize("number", [1, -1, np.int64(1), np.uint8(1), np.intp(-1), np.array(1)], ids=repr)
def test_an_index_of_every_kind_gives_a_scalar_or_an_array_of_rank_0_as_numpy_does(number: Any) -> None:
    def cases() -> Iterator[str]:
        keys = ("n", "n, ...", "..., n", ":, n", "n, n", "n, n, ...", "n, None")
        for shape, at in product(((4,), (3, 4), (2, 3, 4)), keys):
            x = np.arange(np.prod(shape)).reshape(shape)
            yield from (f"{shape}, {at}: {text}" for text in misfits(eval(f"lambda x, n: x[{at}]"), (x,), [(number,)]))

    report(cases())


MASKED = (
    "x[n, mask[n]] = 5", "x[n, :, mask[n, :, 0]] += 2", "x[mask[:, 0, 0], n] = 3", "x[..., n, mask[0, 0]] = 1",
    "x[n, mask[n]] *= x[n, mask[n]]", "x[n, 1, mask[0, 0]] = n",
)  # fmt: skip


@pytest.mark.parametrize("statement", MASKED)
def test_a_number_beside_a_mask_selects_what_it_does_in_numpy(statement: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def f(x, n, mask):\n    x = x.copy()\n    {statement}\n    return x", names)
    x = np.arange(24.0).reshape(2, 3, 4)
    report(misfits(names["f"], (x,), [(n, x % 5 < 3) for n in (1, 0, -1, 2)]))


def test_what_is_assigned_to_flat_must_fit_the_dtype() -> None:
    def first(x: Any, n: Any) -> Any:
        x = x.copy()
        x.flat[1:3] = n
        return x

    def two(x: Any, n: Any) -> Any:
        x = x.copy()
        x.flat[[2, 0]] = [n, 1]
        return x

    for f, dtype, numbers in product((first, two), (np.int8, np.uint32, float, bool), ((3, -1, 300), (1.5,), (2j,))):
        report(misfits(f, (np.arange(4).astype(dtype),), [(n,) for n in numbers]))


# ---- the memory of what they make

LAID = (
    "x + n", "n - x", "x < n", "u >= n", "x ** n", "x ** (n / 2)", "h ** n", "np.where(x > 2, n, x)",
    "np.where(n > 1, x, x + 1)", "np.maximum(x, n)", "np.clip(x, n, 9)", "np.full_like(x, n)", "x[:, n]", "x[n]",
    "x[..., n, None]", "x[n, [1, 2]]", "x[[1, 0]] * n", "np.nan_to_num(x * n, nan=n)", "np.stack([x, x + n])",
    "np.isclose(x, n)", "np.array([x.T, x.T * n], order='F')", "np.full((2, 3), n, order='F')", "np.modf(x * n)[0]",
)  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.copy, "F": np.asfortranarray, "reversed": lambda a: a[::-1].copy()[::-1],
    "strided": lambda a: np.repeat(a, 2, 1)[:, ::2],
}  # fmt: skip


@pytest.mark.parametrize("made", LAID)
def test_what_a_number_makes_lies_in_memory_as_in_numpy(made: str) -> None:
    def cases() -> Iterator[str]:
        names: dict[str, Any] = {"np": np}
        body = (
            f"made = {made}", "seen = made.copy('K').ravel('A'), made.ravel('K')",
            "made.reshape(-1)[...] = 1",  # where it is a view, the array changes with it
            "return seen, made, x",
        )  # fmt: skip
        exec("\n    ".join(("def f(x, u, h, n):", *body)), names)
        run, x = ef.jit(names["f"], laws="none", extractor="unfused"), np.arange(12.0).reshape(3, 4)
        for (lay, laid), n in product(LAYOUTS.items(), (1, 2, 0)):
            given = [tuple(map(laid, (x, x.astype("u8"), x.astype("f2")))) for _ in range(2)]
            wanted, got = outcome(names["f"], *given[0], n), outcome(run, *given[1], n)
            if not same(got, wanted) or not same(given[0], given[1]):
                yield f"{made}, {lay}, {n}: {got!r}, NumPy gives {wanted!r}"

    report(cases())


# ---- random arithmetic


ATOMS = ("x", "u", "i", "n", "n", "m", "b", "2", "0.5", "-1", "3", "True", "np.float32(1.5)", "np.int8(3)")
SIGNS = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "max", "where", "neg", "abs")


def expression(rng: random.Random, depth: int) -> str:
    """Arithmetic on the arrays x, u and the numbers n (an int), m (a float), b (a bool)."""
    if not depth or rng.random() < 0.15:
        return rng.choice(ATOMS)
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    op = rng.choice(SIGNS)
    if op == "max":
        return f"np.maximum({left}, {right})"
    if op == "where":
        return f"np.where({left} > 0, {right}, n)"
    return f"(-{left})" if op == "neg" else f"abs({left})" if op == "abs" else f"({left} {op} {right})"


def differing(seed: int, run: Callable[..., Any]) -> str | None:
    rng = random.Random(seed)
    text = expression(rng, rng.randrange(1, 5))
    f = eval(f"lambda x, u, i, n, m, b: {text}", {"np": np})
    arrays = (np.array([0.5, -1.5, 2.0], np.float32), np.array([0, 7, 255], np.uint8), np.array([-3, 0, 9]))
    ints, floats = (0, 1, -1, 3, 200, 300, -200, 2**31, 2**63, -(2**70)), (0.0, -0.0, 1.5, -2.0, 1e39, float("inf"))
    tried = [(rng.choice(ints), rng.choice(floats), rng.random() < 0.5) for _ in range(6)]
    return next((f"seed {seed}: {text}: {wrong}" for wrong in misfits(f, arrays, tried, run)), None)


@pytest.mark.parametrize("seeds", [range(400), range(400, 800)], ids=str)
def test_random_arithmetic_of_arrays_and_numbers_is_numpys(seeds: range) -> None:
    report(wrong for wrong in (differing(seed, ef.meaning) for seed in seeds) if wrong)


@pytest.mark.slow
def test_much_random_arithmetic_of_arrays_and_numbers_is_numpys() -> None:
    report(wrong for wrong in (differing(seed, ef.meaning) for seed in range(1000, 12_000)) if wrong)


@pytest.mark.slow
def test_random_arithmetic_compiled_strictly_is_numpys() -> None:
    def run(graph: ef.Graph, *arguments: Any) -> Any:
        return ef.compile(graph, numerics="strict")(*arguments)

    report(wrong for wrong in (differing(seed, run) for seed in range(20_000, 20_300)) if wrong)
