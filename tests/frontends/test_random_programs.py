"""Random straight-line programs over the whole operator table: dtype, shape, values and NaNs are NumPy's.

The default run draws a few hundred, `pytest -m slow` two thousand. A failure prints a test to paste.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

import eqfuse as ef
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import meaning
from tests.support.drawing import drawn_alike, many
from tests.support.statements import REFUSED, Statements, random_statements, smallest, statements

SHORT = ef.Budget(nodes=500, rounds=5)
Results = list[np.ndarray]


def run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Results:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(value) for value in function(*arguments)]


def alternatives(program: Statements) -> list[Results]:
    """What the program gives in other precisions, and when last bits of its arguments change: what rounding may do."""
    results = []
    for real, complex in (("longdouble", "clongdouble"), ("float64", "complex128")):
        try:
            results.append(run(*program.build(real, complex)))
        except REFUSED:
            continue
    rng = np.random.default_rng(0)
    for _ in range(2):
        function, arguments = program.build()
        for a in arguments:
            if a.dtype.kind in "fc":
                with np.errstate(all="ignore"):
                    a *= (1 + rng.integers(-1, 2, a.shape) * np.finfo(a.dtype).eps).astype(a.dtype)
        results.append(run(function, arguments))
    return results


def judge(got: Any, wanted: Results, others: list[Results], rounding: float) -> None:
    """Integers equal, floats near, where `others` agree on what they are; `rounding` is allowed beside their spread."""
    for i, (g, w) in enumerate(zip(got, wanted, strict=True)):
        g = np.asarray(g)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), f"result {i}: {g.dtype}{g.shape}, NumPy {w.dtype}{w.shape}"
        alike = [other[i] for other in others if other[i].shape == w.shape]
        if w.dtype.kind in "biu":
            settled = np.all([a == w for a in alike], axis=0)
            np.testing.assert_array_equal(g[settled], w[settled], err_msg=f"result {i}")
            continue
        finite = np.isfinite(w)
        settled = np.all([np.isfinite(a) == finite for a in alike], axis=0)
        assert (np.isfinite(g) == finite)[settled].all(), f"result {i}: {g}, NumPy {w}"
        if w.dtype.kind == "f":
            special = settled & ~finite & np.all([(a == w) | (np.isnan(a) & np.isnan(w)) for a in alike], axis=0)
            np.testing.assert_array_equal(g[special], w[special], err_msg=f"result {i}")
        usual = settled & finite
        with np.errstate(all="ignore"):
            spread = max((float(np.abs(a[usual] - w[usual]).max(initial=0)) for a in alike), default=0.0)
            largest = float(np.abs(w[usual]).max(initial=0))
        tolerance = 32 * spread + rounding * (np.finfo(w.dtype).eps * largest + np.finfo(w.dtype).smallest_subnormal)
        np.testing.assert_allclose(g[usual], w[usual], rtol=0, atol=tolerance, err_msg=f"result {i}")


REFUSALS = (
    "view only of arrays in C order",  # the argument lies otherwise, and a reshape of it is written to
    "a write through a reshape",  # of a computed array, which NumPy may have laid out either way
    "out of bounds for extent 0",  # of an array without elements, where NumPy does not look
    "does not support item assignment",  # NumPy makes some results of rank 0 arrays, not scalars
    "does not fit the axes of extent",  # NumPy lets a mask of no elements stand for any extent
    "indexing with a mask of rank 0",
    "cannot be cast to",  # NumPy sums in the dtype of out=
    "in-place result of shape",
    "integers to negative integer powers",  # of no elements at all
    "at of a bool array with",  # whose sums NumPy makes bools one after the other
    "is read-only",  # NumPy's add.at does not ask
)


def traced(program: Statements) -> None:
    function, arguments = program.build()
    wanted = run(function, arguments)
    _, given = program.build()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = meaning(ef.trace(function, *given), *given)
    judge(got, wanted, alternatives(program), 1024)


def compiled(program: Statements, **options: Any) -> None:
    function, arguments = program.build()
    wanted = run(function, arguments)
    _, given = program.build()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = ef.jit(**options)(function)(*given)
    judge((*got, *given), [*wanted, *arguments], [[*o, *o[: len(arguments)]] for o in alternatives(program)], 1024)


def fails(program: Statements, check: Callable[[Statements], None]) -> bool:
    """Whether NumPy runs the program and `check` does not pass."""
    try:
        run(*program.build())
    except REFUSED:
        return False
    try:
        check(program)
    except Exception:
        return True
    return False


def every(strategy: Any, examples: int, part: int, check: Callable[[Statements], None]) -> None:
    @drawn_alike(part)
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(strategy)
    def draw(program: Statements) -> None:
        tried.append(program)
        try:
            check(program)
        except EqfuseError as refusal:
            refused.append(str(refusal))
            if not any(reason in str(refusal) for reason in REFUSALS):
                note(smallest(program, lambda part: fails(part, check)).reproducer)
                raise
        except Exception:
            note(smallest(program, lambda part: fails(part, check)).reproducer)
            raise

    tried: list[Statements] = []
    refused: list[str] = []
    draw()
    assert len(refused) <= 0.15 * len(tried), "\n".join(refused)


def test_the_judge_notices_a_changed_number() -> None:
    noticed = []
    for number in range(30):
        program = random_statements(number, steps=8)
        wanted = run(*program.build())
        got = [w.copy() for w in wanted]
        changed = next((g for g in reversed(got) if g.size and np.isfinite(g).all()), None)
        if changed is not None:
            changed.flat[0] = changed.flat[0] ^ 1 if changed.dtype.kind in "biu" else changed.flat[0] * 1.02 + 0.05
            try:
                judge(got, wanted, alternatives(program), 32)
            except AssertionError:
                noticed.append(True)
            else:
                noticed.append(False)
    assert np.mean(noticed) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_hundreds_of_random_programs_traced_mean_what_numpy_computes(part: int) -> None:
    every(statements(steps=20), many(60), 100 + part, traced)


@pytest.mark.slow
def test_many_random_programs_of_small_numbers_give_numpys_answer() -> None:
    every(statements(wild=False), many(14), 200, lambda p: compiled(p, budget=SHORT))


@pytest.mark.slow
def test_many_random_programs_compiled_strictly_give_numpys_infinities_too() -> None:
    every(statements(), many(14), 300, lambda p: compiled(p, numerics="strict", budget=SHORT))
