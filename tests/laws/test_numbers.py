"""A law is used on the numbers it is about, and on no others."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.errors import LawError
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import APPROXIMATE, EXACT, REASSOCIATES, Law, admitted, apply, book, laws_named, tensors
from eqfuse.rewrites.checking.check import check
from eqfuse.rewrites.language.law import over_complex
from eqfuse.rewrites.language.match import literal_matches
from eqfuse.rewrites.language.words import exp, log, maximum, sign, sqrt

x, y = tensors("x y")
Z = np.array([[1 - 2j, -3 + 0.5j, 2j], [-1, 0.5 - 1j, -2 - 2j]])

FALSE_OF_COMPLEX = {
    "the square root of a square": (Law("_", sqrt(x * x), abs(x), exactness=APPROXIMATE), lambda z: np.sqrt(z * z)),
    "the root of a product": (
        Law("_", sqrt(x) * sqrt(y), sqrt(x * y), exactness=APPROXIMATE),
        lambda z: np.sqrt(z) * np.sqrt(z[::-1]),
    ),
    "the log of an exp": (Law("_", log(exp(x)), x, exactness=APPROXIMATE), lambda z: np.log(np.exp(3 * z))),
    "a sum of logs": (
        Law("_", log(x) + log(y), log(x * y), exactness=APPROXIMATE),
        lambda z: np.log(z) + np.log(z[::-1]),
    ),
    "the largest of negatives": (
        Law("_", maximum(x, -x), maximum(-x, x), exactness=EXACT),
        lambda z: np.maximum(z, -z),
    ),
    "the absolute value of a square": (Law("_", abs(x * x), x * x, exactness=EXACT), lambda z: np.abs(z * z)),
    "a sign and its size": (Law("_", sign(x) * abs(x), x, exactness=EXACT), lambda z: np.sign(z) * np.abs(z)),
    "an absolute value that is one": (Law("_", abs(exp(x)), exp(x), exactness=EXACT), lambda z: np.abs(np.exp(z))),
}


@pytest.mark.parametrize("name", FALSE_OF_COMPLEX)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_what_is_false_of_complex_numbers_is_never_done_to_them(name, dtype):
    _, program = FALSE_OF_COMPLEX[name]
    z = Z.astype(dtype)
    for numerics in ("strict", "approximate"):
        got = ef.compile(program, z, numerics=numerics)(z)
        np.testing.assert_allclose(got, program(z), rtol=16 * dtypes.epsilon(z.dtype))


@pytest.mark.slow
def test_a_law_of_real_numbers_that_claims_to_be_of_complex_ones_is_found_out():
    for law in (
        Law("logs", log(exp(x)), x, exactness=APPROXIMATE, complex=APPROXIMATE),
        Law("one", x * 1.0, x, exactness=EXACT, complex=EXACT),
        Law("half", apply("floor_divide", x, 2), x, complex=EXACT),
    ):
        assert check(replace(law, complex=None)).ok or law.name == "half"
        assert not check(law).ok, str(law)


def test_a_check_measures_real_and_complex_numbers_apart():
    report = check(Law("one", x * 1.0, x, exactness=EXACT, complex=EXACT))
    assert (report.measured, report.measured_complex) == (EXACT, REASSOCIATES)  # infinity times 0j is NaN
    assert report.counterexample is not None and report.counterexample.left.dtype.kind == "c"
    assert check(Law("one", x * 1.0, x, exactness=EXACT, complex=REASSOCIATES)).ok


def test_strict_numerics_leave_complex_products_as_they_are():
    commutes = laws_named("multiply_commutes")
    assert commutes[0].complex == REASSOCIATES
    assert admitted(commutes, "reassociate") == commutes
    (strict,) = admitted(commutes, "strict")
    assert strict.claims([np.dtype(complex)]) is None and strict.claims([np.dtype(float)]) == EXACT
    assert strict is admitted(commutes, "strict")[0]

    def swapped(a, b):
        return a * b - b * a

    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=999) + 1j * rng.normal(size=999)) for _ in range(2))
    assert ef.compile(swapped, a, b, numerics="strict")(a, b).tobytes() == swapped(a, b).tobytes()


def test_algebra_of_complex_numbers_is_found():
    report = ef.compile(lambda a, b: a * b + a * b[::-1], Z, Z).report
    assert "factor_of_sum" in report.laws_fired
    assert "associate_products" in ef.compile(lambda a, b, c: (a @ b.T) @ c, *[Z] * 3).report.laws_fired


@pytest.mark.parametrize("dtype", sorted(dtypes.FLOAT8, key=str), ids=str)
def test_only_laws_that_keep_every_bit_are_about_float8(dtype):
    for law in book():
        assert (law.claims([dtype]) is None) == (law.exactness > EXACT)
    v = np.arange(-4, 4).astype(dtype)
    fired = ef.compile(lambda a: a * a + a * a[::-1] + (a + a), v).report.laws_fired
    assert "factor_of_sum" not in fired and "double" in fired


def test_sums_of_bfloat16_are_left_in_numpys_order():
    ones = np.ones((100, 100), ml_dtypes.bfloat16)
    for fn in (lambda a: a.sum(axis=1).sum(axis=0), lambda a: a.sum(), lambda a: (a * a).sum(axis=0)):
        assert ef.compile(fn, ones)(ones).tobytes() == fn(ones).tobytes()
    assert ones.sum() != ones.sum(axis=1).sum(axis=0)


def wrapping(a, b):
    return -(a - b), np.abs(-a) + b, np.maximum(-a, -b), a * b + a * a, np.maximum(a + b, b + b)


@pytest.mark.slow
def test_the_laws_of_unsigned_and_small_integers_wrap_as_numpy_does():
    for dtype in (np.uint8, np.uint16, np.int8, np.int16, np.uint32, np.uint64):
        a, b = np.array([0, 1, 200, 255], np.int64).astype(dtype), np.array([255, 3, 100, 1], np.int64).astype(dtype)
        for got, wanted in zip(ef.compile(wrapping, a, b)(a, b), wrapping(a, b), strict=True):
            assert got.tolist() == wanted.tolist()


def test_what_a_family_says_of_complex_numbers_is_said_of_laws_it_has():
    laws = [Law("a", x + y, y + x), Law("b", x * 1.0, x)]
    assert [law.complex for law in over_complex(laws, REASSOCIATES, b=EXACT)] == [REASSOCIATES, EXACT]
    with pytest.raises(LawError, match="no law c here"):
        over_complex(laws, EXACT, c=None)


def test_a_number_in_a_law_is_that_number_in_every_dtype():
    from eqfuse.ops.literal import Literal

    for dtype in dtypes.TENSORS:
        one = Literal(np.ones((), dtype))
        assert literal_matches(one, 1.0) == (dtype.kind != "b")
        assert one.type == TensorType(dtype, ())
    assert not literal_matches(Literal(np.array(1 + 1j)), 1.0)
    assert not literal_matches(Literal(np.array(complex(0.0, -0.0))), 0.0)
    assert not literal_matches(Literal(np.zeros((), ml_dtypes.bfloat16)), -0.0)
