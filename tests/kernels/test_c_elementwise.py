"""Every elementwise operator that has a row in C, in every dtype, on special values: what compiled text computes is
what NumPy computes, bit for bit where the result of the operator is exactly defined."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from eqfuse import dtypes
from eqfuse.dtypes import BFLOAT16, FLOAT16
from eqfuse.emit.c import ops, rates
from eqfuse.emit.c.functions import needed_functions
from eqfuse.emit.c.vector_math import ARGUMENTS
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Node, const, input_node, node
from eqfuse.ops import TABLE
from eqfuse.ops.types import TensorType
from tests.kernels.test_cuda_elementwise import body, casts, constants, judged, operators, special_values, specials
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, run_all
from tests.support.some import some

COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8 and d.kind != "c"]
FLOATS = [d for d in DTYPES if dtypes.kind(d) == "f"]


def rows(dtype: np.dtype) -> Iterator[tuple[str, Node]]:
    """What has a row. Elementary functions of 16-bit floats are those of float32: either dtype has every second one."""
    others = {BFLOAT16: [*ARGUMENTS][::2], FLOAT16: [*ARGUMENTS][1::2]}.get(dtype, ())
    for name, n in (*operators(dtype, ops.emits), *casts(dtype), *constants(dtype)):
        if n.op not in others and ops.emits(n.op, [a.dtype for a in n.args], n.dtype):
            yield name, n


@needs_compiler
@pytest.mark.parametrize("dtype", [*some(DTYPES, 2), *COMPLEX], ids=str)
def test_every_operator_cast_and_constant_gives_what_numpy_gives_for_special_values(dtype: np.dtype) -> None:
    named = list(rows(dtype))
    bodies = [body([n]) for _, n in named]
    data = [[specials(b)[n] for n in b.inputs] for b in bodies]
    wrong = []
    results = run_all([emitted("map", b) for b in bodies], data)
    for (name, n), b, arrays, (got,) in zip(named, bodies, data, results, strict=True):
        with np.errstate(all="ignore"):
            (want,) = evaluate(b, arrays)
        right = judged(name, n, got, want, special_values(dtype))
        for index in map(tuple, np.argwhere(~right)[:1]):
            values = [np.broadcast_to(specials(b)[a], want.shape)[index] for a in n.args if a.op == "input"]
            wrong.append(f"{name} of {values}: {got[index]!r}, NumPy has {want[index]!r}; {(~right).sum()} such")
    assert not wrong, "\n".join(wrong)


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other CPUs take another of two zeros")
def test_the_larger_and_the_smaller_of_two_zeros_have_numpys_sign() -> None:
    kernels, data, wanted = [], [], []
    for dtype, op in product(FLOATS, ("maximum", "minimum")):
        x, y = (input_node(name, TensorType(dtype, (40,))) for name in "xy")
        zeros = [np.array([0.0, -0.0] * 20).astype(dtype), np.array([-0.0, 0.0, 0.0, -0.0] * 10).astype(dtype)]
        kernels.append(emitted("map", body([node(op, (x, y))])))
        data.append(zeros)
        wanted.append((f"{op} of {dtype}", getattr(np, op)(*zeros)))
    for (text, want), (got,) in zip(wanted, run_all(kernels, data), strict=True):
        assert got.tobytes() == want.tobytes(), text


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other CPUs take another of two zeros")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_number_bounds_values_as_numpys(dtype: np.dtype) -> None:
    x = input_node("x", TensorType(dtype, (40,)))
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 6, 7, -1.5] * 5).astype(dtype)
    kernels, wanted = [], []
    for bound, ufunc in product([0.0, -0.0, 6.0, -1.5, np.inf, np.nan], (np.maximum, np.minimum)):
        op, number = ufunc.__name__, const(np.array(bound, dtype))
        kernels.append(emitted("map", body([node(op, (x, number)), node(op, (number, x))])))
        both = ufunc(values, number.literal.array), ufunc(number.literal.array, values)
        wanted.append((f"{op} with {bound}", both))
    for (text, both), results in zip(wanted, run_all(kernels, [[values]] * len(kernels)), strict=True):
        for got, want in zip(results, both, strict=True):
            np.testing.assert_array_equal(got.astype(float), want.astype(float), text)
            assert [*np.signbit(got[got == 0])] == [*np.signbit(want[want == 0])], text


def test_a_clamp_by_numbers_asks_for_no_nan() -> None:
    x = input_node("x", TensorType(np.dtype(np.float32), (40,)))
    low, high, odd = (const(np.float32(value)) for value in (0, 6, np.nan))
    clamp = node("minimum", (node("maximum", (x, low)), high))
    assert "eqf_max" not in emitted("map", body([clamp])).text.source
    assert "eqf_max" in emitted("map", body([node("maximum", (x, odd))])).text.source


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers_have_the_rows_that_are_exact(dtype: np.dtype) -> None:
    names = {name for name, n in operators(dtype) if ops.emits(n.op, [a.dtype for a in n.args], n.dtype)}
    assert names == {"real", "imag", "conj", "negative", "add", "subtract"}


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_nothing_is_computed_in_dtypes_that_have_no_row(dtype: np.dtype) -> None:
    assert not any(ops.emits(n.op, [a.dtype for a in n.args], n.dtype) for _, n in operators(dtype))
    assert not ops.emits("cast", [np.dtype(np.float32)], dtype)
    assert not ops.emits("sum", [dtype], dtype)


def test_a_text_has_each_function_once_after_what_it_calls() -> None:
    text = needed_functions("eqf_lcm_i16(a, b) + eqf_logaddexp_f64(x, y) + eqf_lcm_i16(c, d)")
    defined = [line.split("(")[0].split()[-1] for line in text.splitlines() if line.startswith("static inline")]
    assert len(defined) == len(set(defined))
    assert defined.index("eqf_size_i16") < defined.index("eqf_gcd_i16") < defined.index("eqf_lcm_i16")
    assert defined.index("eqf_log1p_f64") < defined.index("eqf_logaddexp_f64")


@pytest.mark.parametrize("half", [FLOAT16, BFLOAT16], ids=str)
def test_functions_of_16_bit_floats_cost_what_those_of_float32_do_that_they_call(half: np.dtype) -> None:
    for op in (name for name in ARGUMENTS if name in TABLE):
        times, base = rates.additions(op, np.dtype(np.float32))
        assert times < rates.ONE_BY_ONE, op
        assert rates.additions(op, half) == (times + rates.HALF_ROUNDING, base), op


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="what does not fit is left to the processor")
def test_floats_beyond_an_integer_give_what_numpy_gives_for_one_element_alone() -> None:
    powers = [sign * scale * 2.0**p for p in (7, 8, 15, 16, 31, 32, 40, 63, 64, 100) for sign in (1, -1)
              for scale in (1, 1.3)]  # fmt: skip
    numbers = np.array([*powers, -1, -1.5, np.inf, -np.inf, np.nan])
    pairs = [(numbers.astype(a), b) for a in ("f4", "f8") for b in DTYPES if b.kind in "iu"]
    kernels = [emitted("map", body([node("cast", (input_node("x", TensorType(x.dtype, x.shape)),), (to,))]))
               for x, to in pairs]  # fmt: skip
    for (x, to), (got,) in zip(pairs, run_all(kernels, [[x] for x, _ in pairs]), strict=True):
        with np.errstate(all="ignore"):
            alone = [x[i : i + 1].astype(to)[0] for i in range(x.size)]
        np.testing.assert_array_equal(got, alone, f"{x.dtype} to {to} of {x}")
