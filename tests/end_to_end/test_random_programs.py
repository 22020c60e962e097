"""Random programs: whatever eqfuse makes of them, the answer is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

import eqfuse as ef
from tests.support.c_kernels import needs_compiler
from tests.support.drawing import drawn_alike, many
from tests.support.programs import RandomProgram, programs


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def compare_with_numpy(program: RandomProgram, **options: Any) -> None:
    """Run `program` both ways; results may differ by rounding, which a float64 run tells."""
    note(program.reproducer)
    function, arguments = program.build()
    with np.errstate(all="ignore"):
        wanted = [np.asarray(w) for w in function(*arguments)]
        precise, precise_arguments = program.build(precise=True)
        exact = [np.asarray(e) for e in precise(*precise_arguments)]
    before = [a.copy() for a in arguments]
    got = ef.compile(function, *arguments, **options)(*arguments)
    for a, b in zip(arguments, before, strict=True):
        assert np.array_equal(a, b), "an argument was changed"
    for g, w, e in zip(got, wanted, exact, strict=True):
        assert np.asarray(g).dtype == w.dtype
        assert np.asarray(g).shape == w.shape
        np.testing.assert_allclose(
            np.asarray(g, np.float64), w.astype(np.float64), rtol=0, atol=tolerance(program, arguments, w, e)
        )


def tolerance(program: RandomProgram, arguments: tuple, wanted: np.ndarray, exact: np.ndarray) -> float:
    if wanted.dtype.kind != "f":
        return 0.0
    text = program.definition + program.arguments
    coarsest = next((d for d in (np.float16, np.float32) if f"np.{d.__name__}" in text), np.float64)
    own = np.abs(wanted.astype(np.float64) - exact.astype(np.float64)).max(initial=0)
    return 8 * float(own) + 128 * float(np.finfo(coarsest).eps) * program.scale


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
def test_many_larger_random_programs_as_c_give_numpys_answer(numerics: str) -> None:
    @drawn_alike(101)
    @settings(max_examples=many(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs(steps=30))
    def run(program: RandomProgram) -> None:
        compare_with_numpy(program, numerics=numerics, target="c")

    run()


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
def test_many_larger_random_programs_give_numpys_answer(numerics: str) -> None:
    @drawn_alike(100)
    @settings(max_examples=many(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs(steps=30))
    def run(program: RandomProgram) -> None:
        compare_with_numpy(program, numerics=numerics)

    run()
