"""Elementary functions as C text: the error in units of the last place, special values, and whether loops vectorise.

Inputs: the texts of eqfuse/emit/c/vector_math. The reference is the system's libm in a wider type.
"""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
import pytest

from eqfuse.benches.vector_math import PLAIN, FunctionSubject, samples
from eqfuse.emit.c import vector_math
from eqfuse.ir.graph import node
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, run_all
from tests.support.kernels import body, read
from tests.support.some import some

ULPS = 2.0
CASES = [(name, dtype) for name in vector_math.ARGUMENTS for dtype in vector_math.SUFFIXES]
TRIED_WHOLE = [(name, dtype) for name, dtype in CASES if dtype == "float32" and vector_math.ARGUMENTS[name] == 1]
UNFUSED = [(*case, PLAIN) for case in CASES]  # for machines without fused products
SAMPLED = [case for case in CASES if case not in TRIED_WHOLE]


@needs_compiler
@pytest.mark.parametrize("case", [*((*case, ()) for case in CASES[::4]), *some(UNFUSED, 16)], ids=str)
def test_a_vectorised_loop_is_within_two_units_of_the_last_place(case: tuple[str, str, tuple[str, ...]]) -> None:
    """(Below, all cases on many more samples.)"""
    subject = FunctionSubject(*case)
    error = subject.worst(subject.ours, samples(subject.dtype, subject.arguments, 50_000))
    assert error.ulps <= ULPS, error
    assert subject.vector_bytes is None or subject.vector_bytes >= 16


@needs_compiler
@pytest.mark.parametrize("dtype", some(vector_math.SUFFIXES, 2))
def test_a_nan_in_any_argument_and_every_pair_of_special_values_gives_what_libm_gives(dtype: str) -> None:
    for name in vector_math.ARGUMENTS:
        subject = FunctionSubject(name, dtype)
        special = next(samples(subject.dtype, subject.arguments, 0))
        tried = [special]
        for place in range(subject.arguments):
            tried.append(tuple(np.full_like(x, np.nan) if i == place else x for i, x in enumerate(special)))
        error = subject.worst(subject.ours, tried)
        assert error.ulps <= ULPS, (name, error)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name, dtype", TRIED_WHOLE)
def test_one_float32_in_1021_is_within_two_units(name: str, dtype: str) -> None:
    subject = FunctionSubject(name, dtype)
    error = subject.worst_float32(subject.ours, stride=1021, threads=2)
    assert error.ulps <= ULPS, error


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name, dtype", SAMPLED)
def test_many_samples_are_within_two_units(name: str, dtype: str) -> None:
    subject = FunctionSubject(name, dtype)
    error = subject.worst(subject.ours, samples(subject.dtype, subject.arguments, 300_000, seed=1), threads=2)
    assert error.ulps <= ULPS, error


@needs_compiler
@pytest.mark.parametrize("dtype", vector_math.SUFFIXES)
def test_the_measure_of_errors_counts_units_and_sees_a_wrong_sign_and_a_lost_infinity(dtype: str) -> None:
    subject = FunctionSubject("sqrt", dtype)
    tiny, largest = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    cases = [(4.0, 2.0, 0), (4.0, np.nextafter(2, 3, dtype=dtype), 1), (4.0, np.nextafter(2, 1, dtype=dtype), 0.5),
             (0.0, tiny, 1), (0.0, -0.0, np.inf), (4.0, -2.0, np.inf), (-1.0, 0.0, np.inf), (-1.0, np.nan, 0),
             (4.0, np.nan, np.inf), (np.inf, np.inf, 0), (np.inf, largest, np.inf)]  # fmt: skip
    for x, got, wanted in cases:
        arrays = np.array([x], dtype), np.array([got], dtype)
        assert subject.error(arrays[1], arrays[0]).ulps == wanted, (x, got)


def test_a_function_is_pasted_with_all_that_it_calls_once_and_first() -> None:
    text = vector_math.texts([("tanh", "float32"), ("exp", "float32")])
    names = [line.split("(")[0].split()[-1] for line in text.splitlines() if line.startswith("static")]
    assert len(names) == len(set(names))
    assert names.index("eqf_exp_tail_f32") < names.index("eqf_exp_near_f32") < names.index("eqf_tanh_f32")
    assert "eqf_exp_f32" in names and "f64" not in text


def test_every_name_is_defined_once() -> None:
    folder = resources.files(vector_math)
    paragraphs = [p for f in folder.iterdir() if f.name.endswith(".c") for p in f.read_text().split("\n\n")]
    names = re.findall(r"^static .*?(eqf_\w+)[(\[]", "\n\n".join(paragraphs), re.MULTILINE)
    assert len(names) == len(set(names))
    assert len(names) == sum("static" in p for p in paragraphs)


def test_there_is_no_text_of_other_operators_and_dtypes() -> None:
    assert vector_math.definition_text("exp", "float16") is None
    assert vector_math.definition_text("digamma", "float32") is None
    definition = vector_math.definition_text("exp", "float64")
    assert definition is not None and "static inline double eqf_exp_f64(double x)" in definition


def test_the_text_includes_nothing_and_has_no_branches() -> None:
    text = vector_math.texts(CASES)
    assert "#include" not in text
    assert not any(word in text for word in ("if (", "for (", "while (", "goto"))


@needs_compiler
@pytest.mark.parametrize("dtype", vector_math.SUFFIXES)
@pytest.mark.parametrize("name", ["sigmoid", "rsqrt"])
def test_what_is_no_number_gives_none_by_functions_that_are_no_operators(name: str, dtype: str) -> None:
    assert np.isnan(FunctionSubject(name, dtype).ours(np.full(64, np.nan, dtype))).all()


EXACT: list[tuple[str, list, list]] = [
    ("exp", [[0.0]], [1.0]),
    ("exp2", [np.arange(-30.0, 31.0)], 2.0 ** np.arange(-30, 31)),
    ("log", [[1.0]], [0.0]),
    ("log2", [2.0 ** np.arange(-30, 31)], np.arange(-30.0, 31.0)),
    ("log10", [10.0 ** np.arange(0, 10)], np.arange(0.0, 10.0)),
    ("power", [np.full(15, 3.0), np.arange(15.0)], 3.0 ** np.arange(15)),
    ("power", [[4.0, 0.25, -2.0, -0.0], [0.5, -1.5, 3.0, 3.0]], [2.0, 8.0, -8.0, -0.0]),
    ("sqrt", [np.arange(200.0) ** 2], np.arange(200.0)),
    ("cbrt", [np.arange(-200.0, 200.0) ** 3], np.arange(-200.0, 200.0)),
    ("hypot", [[3.0, -5.0], [4.0, 12.0]], [5.0, 13.0]),
    ("tanh", [[-np.inf, -50.0, 50.0]], [-1.0, -1.0, 1.0]),
    ("erf", [[-np.inf, -20.0, 20.0]], [-1.0, -1.0, 1.0]),
]


@needs_compiler
@pytest.mark.parametrize("dtype", vector_math.SUFFIXES)
def test_exact_results_are_exact_and_what_is_no_number_gives_none(dtype: str) -> None:
    arrays = [[np.resize(x, 400).astype(dtype) for x in arguments] for _, arguments, _ in EXACT]
    reads = [read(i, (400,), dtype) for i in range(2)]
    kernels = [emitted("map", body(used, node(name, tuple(used))))
            for name, arguments, _ in EXACT for used in (reads[: len(arguments)],)]  # fmt: skip
    missing = [[np.full(400, np.nan, dtype) for _ in given] for given in arrays]
    results = run_all([*kernels, *kernels], [*arrays, *missing])
    for (name, _, wanted), (got,), (none,) in zip(EXACT, results, results[len(kernels) :], strict=False):
        assert np.isnan(none).all(), name
        want = np.resize(wanted, 400).astype(dtype)
        np.testing.assert_array_equal(got, want, name)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want), name)
    np.testing.assert_array_equal(FunctionSubject("sigmoid", dtype).ours(np.zeros(64, dtype)), 0.5)
