"""Values may lie in the memory of results, until these are written."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import eqfuse as ef
from eqfuse.benches.traced_memory import call_bytes
from eqfuse.plan import loans as lending
from eqfuse.plan.loans import loans
from eqfuse.plan.memory import LEAST_RESULT, LiveRange
from tests.end_to_end.test_random_programs import compare_with_numpy
from tests.runtime.test_peak_bytes import PYTHON
from tests.support.c_kernels import needs_compiler
from tests.support.programs import RandomProgram, programs

RNG = np.random.default_rng(0)


def _lives(values: range, steps: int) -> list[LiveRange]:
    lives = []
    for v in values:
        first, last = sorted(RNG.integers(0, steps, 2).tolist())
        lives.append(LiveRange(v, int(RNG.integers(1, 9)) * LEAST_RESULT + int(RNG.integers(0, 99)), first, last))
    return lives


def test_a_result_lends_its_memory_to_one_value_at_a_time_and_before_it_is_written() -> None:
    lent_at_all = 0
    for _ in range(200):
        lives, results = _lives(range(8), 12), _lives(range(8, 11), 12)
        by_value = {v.value: v for v in (*lives, *results)}
        lent = loans(lives, results)
        lent_at_all += len(lent)
        for v, loan in lent.items():
            life, result = by_value[v], by_value[loan.lender]
            assert life.first == loan.first
            assert life.last < result.first
            assert 0 <= loan.offset <= result.nbytes - life.nbytes
        for (v, a), (w, b) in combinations(lent.items(), 2):
            one, other = by_value[v], by_value[w]
            together = a.lender == b.lender and one.first <= other.last and other.first <= one.last
            apart = a.offset + one.nbytes <= b.offset or b.offset + other.nbytes <= a.offset
            assert apart or not together
    assert lent_at_all > 20


def test_nothing_is_lent_that_would_leave_as_much_held() -> None:
    big, small, result = LiveRange(0, 64 << 20, 3, 4), LiveRange(1, 1 << 20, 0, 1), LiveRange(2, 1 << 20, 2, 4)
    assert loans([big, small], [result]) == {}
    assert loans([small], [result]).keys() == {1}


def _scaled_by_sums(x: Any) -> Any:
    """The running sums are dead before the result is written."""
    return np.cumsum(x, axis=0).std() * x


@needs_compiler
def test_a_call_holds_less_beside_a_result_that_lends_its_memory() -> None:
    x = RNG.normal(size=(400, 400))
    program = ef.compile(_scaled_by_sums, x, target="c")
    first = program(x)
    kept = first.copy()
    np.testing.assert_allclose(first, _scaled_by_sums(x), rtol=1e-10)
    np.testing.assert_allclose(program(x + 1), _scaled_by_sums(x + 1), rtol=1e-10)
    np.testing.assert_array_equal(first, kept)
    assert program.peak_bytes < x.nbytes
    assert call_bytes(program, (x,)) <= program.peak_bytes + PYTHON


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_give_numpys_answer_where_every_result_lends(program: RandomProgram) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lending, "LEAST_RESULT", 1)
        compare_with_numpy(program, target="numpy", extractor="unfused", laws="none")
