"""Python numbers as arguments are NumPy's, for every value: weak dtypes, range checks, Python's own arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from tests.frontends.python_numbers import DTYPES, KINDS, OPERATORS, UNARY, beyond_int64, misfits, report, values
from tests.support.drawing import many


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_between_an_array_and_a_python_number_is_numpys_for_every_value(name: str) -> None:
    op = OPERATORS[name]

    def cases() -> Iterator[str]:
        turn = list(OPERATORS).index(name)  # many operators promote alike
        for (i, dtype), (j, (kind, numbers)) in product(enumerate(DTYPES[turn % 2 :: 2]), enumerate(KINDS.items())):
            if name == "pow" and dtype.kind == "b" and kind is int:
                continue  # see below
            # of infinities, NumPy's scalars take other powers than its arrays
            scalar = values(dtype)[:5][-1] if name == "pow" else values(dtype)[-2]
            array_first = bool((turn // 2 + i + j) % 2)
            for reflected, x in ((array_first, values(dtype)), (not array_first, scalar)):
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
    (f for f in TRACED_UFUNCS if f.nin == 2 and f.signature is None and hasattr(np, f.__name__)),
    key=lambda f: f.__name__,
)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_a_ufunc_of_an_array_and_a_python_number_is_numpys_for_every_value(ufunc: np.ufunc) -> None:
    def cases() -> Iterator[str]:
        dtypes = map(np.dtype, ("?", "u1", "i8", "f4", "c8"))
        for (i, dtype), (j, (kind, numbers)) in product(enumerate(dtypes), enumerate(KINDS.items())):
            reflected = (BINARY.index(ufunc) + i + j) % 2
            fn = (lambda x, n: ufunc(n, x)) if reflected else (lambda x, n: ufunc(x, n))
            x = np.abs(values(dtype)) if ufunc is np.float_power else values(dtype)  # which takes no square roots
            for text in misfits(fn, (x,), [(n,) for n in numbers]):
                yield f"{dtype.name}, {kind.__name__}: {text}"

    report(cases())


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_an_int_in_the_code_beyond_int64_is_computed_or_refused_as_numpy_does(ufunc: np.ufunc) -> None:
    """(Above, numbers are arguments.)"""

    def cases() -> Iterator[str]:
        for dtype, n in product(("?", "i8", "f8"), (2**63 - 1, 2**63, -(2**63) - 1, 10**400)):
            for text in misfits(lambda x, n=n: ufunc(x, n), (np.ones(2, dtype),), [()]):
                yield f"{dtype}, {n}: {text}"

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
        for kind in KINDS:
            yield from misfits(lambda n, m: (op(n, 2), op(2.5, m)), (), pairs((kind, kind), **small))

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
    function: Callable[..., Any] = names["f"]
    return function


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


@pytest.mark.parametrize("seeds", [range(100), range(100, 200)], ids=str)
def test_random_arithmetic_of_arrays_and_numbers_is_numpys(seeds: range) -> None:
    report(wrong for wrong in (differing(seed, ef.meaning) for seed in seeds) if wrong)


@pytest.mark.slow
def test_much_random_arithmetic_of_arrays_and_numbers_is_numpys() -> None:
    report(wrong for wrong in (differing(seed, ef.meaning) for seed in range(1000, 1000 + many(1200))) if wrong)


@pytest.mark.slow
def test_random_arithmetic_compiled_strictly_is_numpys() -> None:
    def run(graph: ef.Graph, *arguments: Any) -> Any:
        return ef.compile(graph, numerics="strict")(*arguments)

    report(wrong for wrong in (differing(seed, run) for seed in range(20_000, 20_000 + many(50))) if wrong)
