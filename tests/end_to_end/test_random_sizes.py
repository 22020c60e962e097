"""Random programs at other sizes than their own: with ``dynamic=True`` the answer is NumPy's at each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

import eqfuse as ef
from tests.end_to_end.test_random_programs import tolerance
from tests.support.drawing import drawn_alike, many
from tests.support.programs import RandomProgram, programs

EXTENTS = ({2: 2, 3: 3, 5: 5}, {2: 4, 3: 6, 5: 9}, {2: 7, 3: 4, 5: 3}, {2: 1, 3: 2, 5: 6}, {2: 3, 3: 2, 5: 0})
NUMPYS = (ValueError, IndexError)  # what does not fit at another size


def resized(array: np.ndarray, extents: dict[int, int]) -> np.ndarray:
    shape = tuple(extents.get(n, n) for n in array.shape)
    order = "C" if array.flags.c_contiguous else "F"
    return np.array(np.resize(array, shape), order=order)  # type: ignore[call-overload]


def compare_at_all_sizes(program: RandomProgram) -> None:
    note(program.reproducer)
    function, arguments = program.build()
    precise, precise_arguments = program.build(precise=True)
    jitted = ef.jit(function, dynamic=True, budget=ef.Budget(nodes=500, rounds=5))
    for extents in EXTENTS:
        note(f"at {extents}")
        given_arguments = [resized(a, extents) for a in arguments]
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            try:
                wanted = [np.asarray(w) for w in function(*given_arguments)]
                exact = [np.asarray(w) for w in precise(*(resized(a, extents) for a in precise_arguments))]
            except NUMPYS:
                with pytest.raises((ef.EqfuseError, *NUMPYS)):
                    jitted(*given_arguments)
                continue
        if not all(np.isfinite(a.astype(np.float64)).all() for a in (*wanted, *exact)):
            continue  # the program is tame at its own sizes alone
        try:
            got: Any = jitted(*given_arguments)
        except ef.ShapeError:
            assert 0 in extents.values()  # a reduction over nothing, or an index into it, that NumPy lets pass
            continue
        for g, w, e in zip(got, wanted, exact, strict=True):
            assert np.asarray(g).dtype == w.dtype and np.asarray(g).shape == w.shape
            if w.dtype.kind == "f":
                most = max(1.0, float(np.abs(w.astype(np.float64)).max(initial=0)) / program.scale)
                atol = 8 * most * tolerance(program, arguments, w, e)
                np.testing.assert_allclose(np.asarray(g, np.float64), w.astype(np.float64), rtol=0, atol=atol)


def test_random_programs_give_numpys_answer_at_every_size() -> None:
    @drawn_alike(200)
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program: RandomProgram) -> None:
        compare_at_all_sizes(program)

    run()


@pytest.mark.slow
def test_many_larger_random_programs_give_numpys_answer_at_every_size() -> None:
    @drawn_alike(300)
    @settings(max_examples=many(16), deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs(steps=30))
    def run(program: RandomProgram) -> None:
        compare_at_all_sizes(program)

    run()
