"""Of a NumPy scalar and of an array of rank 0, functions give scalars where NumPy does, and arrays where it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.laid_out import _NO_SCALARS
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_UFUNCS
from eqfuse.frontends.numpy.tracer import Tracer

VALUES = (np.float64(1.5), np.int64(2), np.complex64(1 + 2j))
CALLS: dict[Any, Callable[[Any], Any]] = {
    np.full_like: lambda x: np.full_like(x, 2), np.isin: lambda x: np.isin(x, [1, 2]), np.pad: lambda x: np.pad(x, 1),
    np.piecewise: lambda x: np.piecewise(x, [x > 0], [1, 2]), np.where: lambda x: np.where(x > 0, x, 2),
    np.clip: lambda x: np.clip(x, 0, 1), np.maximum: lambda x: np.maximum(x, 1), np.power: lambda x: np.power(x, 2),
    np.select: lambda x: np.select([x > 0], [x]), np.choose: lambda x: np.choose(x > 0, [x, x]),
    np.real: lambda x: (np.real(x), x.real), np.imag: lambda x: (np.imag(x), x.imag),
    np.take: lambda x: np.take(np.arange(3.0), np.astype(x.real, int)),
    np.interp: lambda x: np.interp(x.real, [0, 1], [0, 2]),
    np.cross: lambda x: np.cross(np.stack([x, x]), [1, 2]),
    np.copy: lambda x: (np.copy(x), x.copy()), np.reshape: lambda x: (np.reshape(x, ()), np.reshape(x, (1,))[0]),
    np.linalg.matrix_rank: lambda x: np.linalg.matrix_rank(x) + np.int64(0),  # NumPy gives a Python int
}  # fmt: skip


def scalars(results: Any) -> list[bool]:
    """Which of `results`, NumPy's or traced ones, are scalars."""
    parts = results if isinstance(results, (tuple, list)) else [results]
    return [part.scalar if isinstance(part, Tracer) else isinstance(part, np.generic) for part in parts]


class Told(Exception):
    def __init__(self, scalars: list[bool]) -> None:
        self.scalars = scalars


def by_numpy(function: Callable[[Any], Any], x: Any) -> list[bool] | None:
    """None where NumPy refuses a single number."""
    try:
        with np.errstate(all="ignore"):
            return scalars(function(x))
    except Exception:  # whatever it has against one number
        return None


def traced(function: Callable[[Any], Any], x: Any) -> list[bool] | None:
    """None where it cannot be traced."""

    def program(x: Any) -> Any:
        raise Told(scalars(function(x)))  # a trace may not fill a list outside of it

    try:
        ef.trace(program, x)
    except Told as told:
        return told.scalars
    except (ef.EqfuseError, TypeError):
        return None
    raise AssertionError("a program returned that cannot")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "function", sorted({*TRACED_FUNCTIONS, *TRACED_UFUNCS, *CALLS}, key=str), ids=lambda f: f.__name__
)
def test_a_result_of_one_number_is_a_scalar_or_an_array_as_in_numpy(function: Any) -> None:
    call = CALLS.get(function, function)
    for x in (*VALUES, *map(np.asarray, VALUES)):
        wanted = by_numpy(call, x)
        ours = wanted and traced(call, x)
        if ours:
            assert ours == wanted, repr(x)


@pytest.mark.parametrize("function", sorted(_NO_SCALARS, key=str), ids=lambda f: f.__name__)
def test_what_is_said_to_give_arrays_of_scalars_does_so_in_numpy(function: Any) -> None:
    call = CALLS.get(function, function)
    assert all(by_numpy(call, x) == [False] == traced(call, x) for x in (np.float64(1.5), np.int64(2)))


def test_a_scalar_comes_out_of_a_compiled_program_as_one_and_an_array_as_one() -> None:
    def program(x: Any) -> Any:
        return {f.__name__: CALLS[f](x) for f in CALLS if f is not np.select}

    for x in (np.float64(1.5), np.asarray(1.5)):
        results = ef.compile(program, x)(x)
        for name, wanted in program(x).items():
            assert scalars(results[name]) == scalars(wanted), name


def test_what_is_put_into_the_imaginary_part_of_a_scalar_is_lost_as_in_numpy() -> None:
    def program(x: Any) -> Any:
        part = np.imag(x.sum())
        np.put(part, [0], 5)
        return part

    x = np.ones(3)
    assert ef.compile(program, x)(x) == program(x) == 0


@pytest.mark.parametrize("times", [lambda x: x[0] * [1, 2], lambda x: [1, 2] * x.sum(), lambda x: (1, 2) * x[1]])
def test_a_list_times_a_scalar_is_no_array_as_in_numpy(times: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        times(np.arange(3.0))
    with pytest.raises(ef.errors.DtypeError, match="can't multiply a"):
        ef.trace(times, np.arange(3.0))
    with pytest.raises(ef.TraceError, match="as often as data say"):
        ef.trace(times, np.arange(3))

    def known(x: Any) -> Any:
        return np.stack([x] * np.arange(3)[2])

    assert np.array_equal(ef.jit(known)(np.arange(3.0)), known(np.arange(3.0)))


def test_rounding_to_a_python_int_needs_the_value() -> None:
    with pytest.raises(ef.TraceError, match=r"round\(\), which gives a Python int.*np\.rint"):
        ef.trace(lambda x: round(x[0]) * x, np.ones(3, np.float32))

    def known(x: Any) -> Any:
        return round(np.array([2.5, 3.7])[1]) * x + round(x[0], 1)

    x = np.ones(3, np.float32)
    assert ef.jit(known)(x).dtype == known(x).dtype == np.float32


def test_what_only_a_value_can_tell_is_refused_by_name() -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"numpy\.float64\.is_integer of a traced"):
        ef.trace(lambda x: x if x[0].is_integer() else -x, np.ones(3))
    with pytest.raises(AttributeError):
        ef.trace(lambda x: x[0].shapes, np.ones(3))
