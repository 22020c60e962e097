"""The check of a law finds what is false of it anywhere, makes the counterexample small, and says what it has shown."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse import ops
from eqfuse.dtypes import TENSORS
from eqfuse.errors import LawError, TargetUnavailable
from eqfuse.ops.row import Op, PriceClass, Role, no_flops
from eqfuse.rewrites import (  # fmt: skip
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    apply,
    attrs,
    book,
    bounded,
    floating,
    guard,
    tensors,
)
from eqfuse.rewrites.checking import checked, smt  # fmt: skip
from eqfuse.rewrites.checking.check import Counterexample
from eqfuse.rewrites.checking.data import layout_name
from eqfuse.rewrites.language.law import Term
from eqfuse.rewrites.language.words import copysign, cos, equal, exp, function, log, maximum, minimum, sqrt, where
from eqfuse.rewrites.refuted import REFUTED
from tests.support.drawing import many

x, y, z, c = tensors("x y z c")
p, q = attrs("p q")


def counterexample(lhs: object, rhs: object, exactness: object = EXACT) -> Counterexample:
    refutation = ef.check(Law("false", lhs, rhs, exactness=exactness)).counterexample  # type: ignore[arg-type]
    assert refutation is not None
    return refutation


# a false law gets its smallest counterexample


def test_what_is_false_at_rank_four_only_is_found_there() -> None:
    term = x
    for _ in range(6):  # a permutation of three axes has order 1, 2 or 3; one of four may have order 4
        term = term.transpose(p)
    refutation = ef.check(Law("false", term, x), cases=200).counterexample
    assert refutation is not None
    (array,) = refutation.arrays.values()
    assert array.ndim == 4 and array.size == 4
    assert sorted(array.ravel()) == [0, 0, 0, 1]


def test_what_is_false_of_one_number_is_found_at_that_number() -> None:
    refutation = counterexample(where(equal(x, 1234.0), x + x, x), x)
    assert refutation.arrays["x"].shape == () and refutation.arrays["x"] == 1234
    assert (refutation.left, refutation.right) == (2468, 1234)


def test_what_is_false_of_one_pair_of_bytes_is_found() -> None:
    off = where(equal(x * 100.0 + y, 1741.0), x, y)  # x = 17 and y = 41, and few others
    refutation = counterexample(where(equal(off, off), where(equal(x, 17.0), where(equal(y, 41.0), x, y), y), y), y)
    assert (refutation.arrays["x"], refutation.arrays["y"]) == (17, 41)


def test_what_is_false_of_subnormal_numbers_only_is_found_there() -> None:
    (array,) = counterexample(x * 0.5 * 2.0, x).arrays.values()
    assert array.shape == () and abs(array) == ml_dtypes.finfo(array.dtype).smallest_subnormal


def test_what_is_false_of_minus_zero_only_is_found_there() -> None:
    (array,) = counterexample(x + 0.0, x).arrays.values()
    assert array.shape == () and array == 0 and np.signbit(array)


@pytest.mark.parametrize("exactness", [EXACT, REASSOCIATES, APPROXIMATE])
def test_what_is_false_beyond_a_bound_is_found_just_beyond_it(exactness: object) -> None:
    (array,) = counterexample(minimum(maximum(x, -7.0), 7.0), x, exactness).arrays.values()
    assert array.shape == () and abs(array) == 8
    (array,) = counterexample(maximum(x, -20.0).sum(p), x.sum(p), exactness).arrays.values()
    assert array.size == 1 and array.item() == -21


def test_what_is_false_of_empty_arrays_only_is_found_there() -> None:
    refutation = counterexample((x / y).sum(p), x.sum(p) / y, REASSOCIATES)
    assert refutation.arrays["x"].size == 0 and refutation.arrays["y"].item() == 0


def test_what_is_false_of_strided_arrays_only_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_stored(array: np.ndarray) -> np.ndarray:
        return array.ravel(order="K").reshape(array.shape)

    op = Op("as_stored", Role.VIEW, 1, (), lambda types, _: types[0], as_stored, no_flops, PriceClass.FREE)
    monkeypatch.setitem(ops.TABLE, "as_stored", op)
    refutation = counterexample(apply("as_stored", x), x)
    assert layout_name(refutation.arrays["x"]) and f"in {layout_name(refutation.arrays['x'])}" in str(refutation)
    assert refutation.arrays["x"].size == 2 or refutation.arrays["x"].shape == (2, 2)


@pytest.mark.slow
def test_rounding_alone_refutes_a_law_that_claims_the_same_bits() -> None:
    for lhs, rhs in (
        (x * y * z, x * (y * z)),
        (x / 3.0, x * (1.0 / 3.0)),
        (x.sum(p).sum(q), x.sum((-2, -1), keepdims=True)),
        ((x @ y) @ z, x @ (y @ z)),
    ):
        assert not ef.check(Law("rounds", lhs, rhs, exactness=EXACT, float16=APPROXIMATE)).ok


@pytest.mark.parametrize(
    "lhs, rhs",
    [(x + y + z, x + (y + z)), ((x + 1.5) * y, x * y + y * 1.5),
     (log(abs(x)) + log(abs(y)), log(abs(x * y))), (x - (x - y), y)],
)  # fmt: skip
def test_what_may_cancel_or_overflow_is_not_as_accurate_though_equal_over_the_reals(lhs: Term, rhs: Term) -> None:
    report = ef.check(Law("may_cancel", lhs, rhs, exactness=REASSOCIATES))
    assert report.measured == APPROXIMATE and not report.ok


@pytest.mark.slow
def test_a_law_that_overflows_in_float16_alone_is_told_to_say_so() -> None:
    law = Law("factors", x * y + x * z, x * (y + z), exactness=REASSOCIATES)
    report = ef.check(law)
    assert not report.ok and "float16=APPROXIMATE" in str(report)
    assert ef.check(replace(law, float16=APPROXIMATE)).ok


def test_the_sign_of_a_nan_is_nobodys_promise() -> None:
    """NumPy's own varies with the length of an array: nan + -nan."""
    signbit = function("signbit")
    assert ef.check(Law("of_a_difference", signbit(x + -y), signbit(x - y))).ok
    assert ef.check(Law("of_a_difference", copysign(z, x + -y), copysign(z, x - y))).ok
    assert not ef.check(Law("of_a_difference", signbit(x - y), signbit(y - x))).ok


def test_a_nan_that_gets_lost_refutes_a_law_that_only_reassociates() -> None:
    law = Law("absorbs", maximum(x, minimum(x, y)), x, exactness=REASSOCIATES)
    refutation = ef.check(law).counterexample
    assert refutation is not None and np.isnan(refutation.left) != np.isnan(refutation.right)
    assert ef.check(replace(law, exactness=APPROXIMATE)).measured == APPROXIMATE


@pytest.mark.slow
def test_a_counterexample_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    for lhs, rhs in ((x @ y, y @ x), (x.max(p) + y, (x + y).max(p)), (where(c, x, y), where(c, y, x))):
        refutation = counterexample(lhs, rhs)
        with np.errstate(all="ignore"):
            exec(refutation.snippet, {})
        assert capsys.readouterr().out.split() == f"{refutation.left} {refutation.right}".split()


def test_a_check_says_the_same_every_time() -> None:
    for law in (REFUTED[0][0], book()[0]):
        assert str(ef.check(law)) == str(ef.check(law))


@pytest.mark.slow
def test_a_check_says_the_same_in_every_process() -> None:
    """Whatever the order is in which a set of strings is met there."""
    script = "from eqfuse import check, rewrites; print(*map(check, rewrites.laws_named('concat_of_3_flattens')))"
    said = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(said) == 1, "\n".join(said)


SWAPPED = {
    "add": "subtract", "subtract": "add", "multiply": "add", "divide": "multiply", "maximum": "minimum", "max": "min",
    "minimum": "maximum", "min": "max", "exp": "negative", "negative": "abs", "abs": "negative", "sqrt": "abs",
    "less": "less_equal", "greater": "greater_equal", "less_equal": "less", "greater_equal": "greater",
}  # fmt: skip


def mutants(term: Term) -> Iterator[Term]:
    """`term` with one operator exchanged."""
    if term.op in SWAPPED:
        yield Term(SWAPPED[term.op], term.args, term.attrs)
    if term.op == "where":
        yield Term("where", (term.args[0], term.args[2], term.args[1]))
    for i, arg in enumerate(term.args):
        for mutant in mutants(arg):
            yield Term(term.op, (*term.args[:i], mutant, *term.args[i + 1 :]), term.attrs)


@pytest.mark.slow
def test_hardly_a_law_of_the_book_holds_with_another_operator_on_its_made_side() -> None:
    rng, holding = random.Random(0), []
    for law in rng.sample([law for law in book() if len(law.rights) == 1], many(14)):
        candidates = list(mutants(law.rights[0]))
        if candidates:
            try:
                false = replace(law, rhs=rng.choice(candidates), grows=True, both=False)
            except LawError:  # of types that never fit
                continue
            report = ef.check(false, cases=60)
            if report.counterexample is None:
                holding.append(str(report))
    assert len(holding) <= 1, "\n".join(holding)  # such as square(abs(x)), of which the sign does not matter


# what a check tries


def test_cases_have_every_rank_and_dtype() -> None:
    report = ef.check(Law("keeps", apply("negative", -x), x, exactness=EXACT, complex=EXACT), cases=400)
    assert set(report.coverage.ranks) == {0, 1, 2, 3, 4} and min(report.coverage.ranks.values()) >= 3
    assert report.coverage.dtypes == set(TENSORS) - {np.dtype(bool)}  # NumPy does not negate truth values


def test_a_check_says_how_often_a_law_applied_and_where() -> None:
    report = ef.check(Law("halves", x / 2.0, x * 0.5))
    text = "applied to {} of {:,} draws: rank 0 to 4, float16, float32, float64, bfloat16, float8"
    assert text.format(report.cases, report.tries) in str(report) and report.remarks == []
    matrices = ef.check(Law("matrices", (x @ y).T, y.T @ x.T, exactness=REASSOCIATES))
    assert matrices.ok and "draws: rank 2, " in str(matrices) and "integers, float16" in str(matrices)
    scalar = ef.check(Law("filled", apply("pad", x, c, attrs=(p,)), apply("pad", x, c * 1.0, attrs=(p,)), grows=True))
    assert "; c only of one element" in str(scalar) and scalar.remarks == []


def test_a_law_that_holds_of_trifles_alone_is_told_so() -> None:
    report = ef.check(Law("idempotent", x.max(p), x))
    assert report.ok and "; max only along axes of extent 1" in str(report)
    assert report.remarks == ["it applies to max only along axes of extent 1: a guard could say so"]
    said = bounded("x has extent 1 along p", lambda t, axes: all(t.extent(a) == 1 for a in axes), x, p)
    assert ef.check(Law("idempotent", x.max(p), x, (said,))).remarks == []


def test_every_value_of_small_dtypes_is_tried_and_said() -> None:
    report = ef.check(Law("keeps", apply("negative", -x), x, exactness=EXACT))
    assert {s.dtype.name: s.tuples for s in report.sweeps if s.all} == {
        "int8": 256, "uint8": 256, "int16": 65536, "uint16": 65536, "float16": 65536, "bfloat16": 65536,
        "float8_e4m3fn": 256, "float8_e5m2": 256,
    }  # fmt: skip
    assert "holds on all the values of int8" in str(report)
    pairs = ef.check(Law("commutes", x * y, y * x, exactness=EXACT))
    assert {s.dtype.name: s.tuples for s in pairs.sweeps if s.all}["int8"] == 65536
    assert all(s.tuples > 150_000 for s in pairs.sweeps if not s.all)
    assert "a dense sample of the values of int16, uint16, float16, bfloat16" in str(pairs)


def test_dtypes_of_which_numpy_refuses_some_values_are_not_swept() -> None:
    report = ef.check(Law("powers", x**y, x**y))
    assert report.ok and {s.dtype.kind for s in report.sweeps} & {"i", "f"} == {"f"}


def test_laws_with_axes_are_not_swept() -> None:
    report = ef.check(Law("over_one", x.max(p), x))
    assert report.sweeps == () and report.proof is None


# what a check says of guards and exactness


def test_a_guard_is_needed_idle_or_bounds_growth() -> None:
    nonempty = guard("x is not empty", lambda t: t.size > 0, x)
    small = bounded("x is small", lambda t: t.size < 5, x)
    report = ef.check(Law("guarded", abs(-x), abs(x), (floating(x), nonempty, small)))
    assert report.ok
    assert [g.status for g in report.guards] == ["needed", "idle", "bounds growth"]
    needed = report.guards[0].counterexample
    assert needed is not None and needed.arrays["x"].dtype.kind in "iu"  # where -x wraps around
    assert report.remarks == ["no counterexample without the guard that x is not empty"]


def test_a_law_that_claims_too_little_is_told_so_and_holds() -> None:
    report = ef.check(Law("modest", x * 1.0, x, exactness=REASSOCIATES))
    assert report.ok and report.measured == EXACT
    assert report.remarks == ["claims REASSOCIATES, measured EXACT"]
    assert "note: claims REASSOCIATES, measured EXACT" in str(report)
    assert ef.check(Law("right", x * 1.0, x, exactness=EXACT)).remarks == []


@pytest.mark.slow
def test_a_law_whose_sides_never_fit_was_not_tested() -> None:
    report = ef.check(Law("never", x @ y, x @ y, (guard("false", lambda t: False, x),)))
    assert not report.ok and "was not tested" in str(report)


def test_a_guard_that_has_no_answer_is_an_error_that_names_the_types() -> None:
    law = Law("asks", x + x, x * 2.0, (guard("x has three columns", lambda t: t.shape[-1] == 3, x),))
    with pytest.raises(LawError, match=r"law 'asks': a guard .* raises IndexError: .* for x = \w+\[\]"):
        ef.check(law)


# proofs over the reals


@pytest.fixture
def z3() -> object:
    return pytest.importorskip("z3", reason="needs z3-solver: pip install 'eqfuse[smt]'")


def test_laws_of_real_arithmetic_are_proved(z3: object) -> None:
    for lhs, rhs in (
        (x * y + x * z, x * (y + z)),
        (maximum(x, y) + minimum(x, y), x + y),
        (where(x < y, x, y), minimum(x, y)),
        (maximum(exp(x), 0.0), exp(x)),
        (sqrt(x * x), abs(x)),
        (cos(x + y), cos(y + x)),
    ):
        proof = smt.prove_over_reals(Law("true", lhs, rhs))
        assert proof.proved and str(proof) == "proved over the reals"


def test_a_proof_says_what_it_assumes(z3: object) -> None:
    assert str(smt.prove_over_reals(Law("t", x / y / z, x / (y * z)))) == "proved over the reals where (y * z) is not 0"
    assert smt.prove_over_reals(Law("t", sqrt(x) * sqrt(x), x)).where == ("x is not negative",)
    assert smt.prove_over_reals(Law("t", x / (exp(y) + 1.0), x / (1.0 + exp(y)))).where == ()


def test_nothing_is_proved_that_was_not_shown(z3: object) -> None:
    for lhs, rhs, why in (
        (x * x, x, "sides differ at x = "),
        (exp(x) * exp(y), exp(x + y), "needs more than is known here of exp"),
        (log(x) + log(-x), x * 5.0, "nothing is such that x is positive and negative(x) is positive"),
        (apply("bitwise_and", x, y), apply("bitwise_and", y, x), "unsupported: bitwise_and"),
        (x.sum(p), x.sum(p), "not pointwise"),
        (x**y, x**y, "exponent y"),
    ):
        proof = smt.prove_over_reals(Law("open", lhs, rhs))
        assert not proof.proved and why in str(proof) and str(proof).startswith("not proved over the reals")


@pytest.mark.slow
def test_what_is_false_of_real_numbers_is_never_proved(z3: object) -> None:
    for law, _ in REFUTED:
        proof = smt.prove_over_reals(law)
        doubtful = law.exactness == EXACT or proof.where  # of NaN and zeros alone, or elsewhere
        assert not proof.proved or doubtful or ef.check(replace(law, exactness=APPROXIMATE)).ok


def test_without_z3_the_error_names_the_extra_and_the_check_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    law = Law("one", x * 1.0, x)
    with pytest.raises(TargetUnavailable, match=r"pip install 'eqfuse\[smt\]'"):
        smt.prove_over_reals(law)
    report = ef.check(law)
    assert report.ok and "not tried: pip install 'eqfuse[smt]'" in str(report)


# what is kept of checks


def test_what_was_found_is_kept_until_the_law_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    law = book()[0]
    (verdict,) = checked.verdicts([law])
    assert checked.stored_verdicts()[law.name] == verdict
    monkeypatch.setattr(checked, "book", lambda: (replace(law, exactness=APPROXIMATE), *book()[1:]))
    assert law.name not in checked.stored_verdicts()


def test_a_law_changes_with_the_code_of_its_guards() -> None:
    def law(most: int) -> Law:
        return Law("guarded", x + x, x * 2.0, (guard("x is small", lambda t: t.size < most, x),))

    assert checked.law_digest(law(4)) == checked.law_digest(law(4)) != checked.law_digest(law(5))


def test_a_damaged_list_of_checked_laws_is_set_aside() -> None:
    list(checked.verdicts([book()[0]]))
    checked.path().write_text("{")
    with pytest.warns(UserWarning, match="list of checked laws .* is damaged"):
        assert checked.stored_verdicts() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checked.stored_verdicts() == {}


@pytest.mark.slow
def test_processes_find_what_one_process_finds() -> None:
    laws = (*book()[:4], REFUTED[0][0])
    assert [v.text for v in checked.verdicts(laws)] == [str(ef.check(law)) for law in laws]
