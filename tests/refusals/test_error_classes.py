"""What NumPy refuses is refused with an error that the same ``except`` catches."""

from __future__ import annotations

import importlib.util
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import errors

CAUGHT = (
    TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError, AttributeError,
    np.exceptions.AxisError, np.linalg.LinAlgError,
)  # fmt: skip

# of x = [[0., 1., 2.], [3., 4., 5.]] in float32, i in int64, u in uint8, b in bool, c in complex128
REFUSED: dict[str, Callable[..., Any]] = {
    "no loop for floats": lambda x, i, u, b, c: x & 1,
    "no loop for bools": lambda x, i, u, b, c: -b,
    "no subtraction of bools": lambda x, i, u, b, c: b - b,
    "no floor of complex numbers": lambda x, i, u, b, c: c // 2,
    "no shift of floats": lambda x, i, u, b, c: x << 1,
    "no inversion of floats": lambda x, i, u, b, c: ~x,
    "no gcd of floats": lambda x, i, u, b, c: np.gcd(x, 2),
    "no dtype of that name": lambda x, i, u, b, c: x.astype("floaty"),
    "no dtype of that name for a sum": lambda x, i, u, b, c: np.sum(x, dtype="floaty"),
    "no dtype of that name for zeros": lambda x, i, u, b, c: np.zeros(3, "floaty") + x,
    "a loop that is not there": lambda x, i, u, b, c: np.add(x, x, dtype=np.int8),
    "a cast against the rule": lambda x, i, u, b, c: x.astype(np.int8, casting="safe"),
    "an in-place result of another kind": lambda x, i, u, b, c: np.add(i, 0.5, out=i.copy()),
    "an in-place operator of another kind": lambda x, i, u, b, c: i.copy().__iadd__(x),
    "copyto of another kind": lambda x, i, u, b, c: np.copyto(i.copy(), x),
    "a complex number into an array of floats": lambda x, i, u, b, c: x.copy().__setitem__(0, 1j),
    "a NaN into an array of integers": lambda x, i, u, b, c: i.copy().__setitem__(0, float("nan")),
    "a float as an index": lambda x, i, u, b, c: x[1.5],
    "an array of floats as an index": lambda x, i, u, b, c: x[np.zeros(2)],
    "floats as places": lambda x, i, u, b, c: np.take(x, np.array([0.5])),
    "rfft of complex numbers": lambda x, i, u, b, c: np.fft.rfft(c),
    "packbits of floats": lambda x, i, u, b, c: np.packbits(x),
    "unpackbits of int64": lambda x, i, u, b, c: np.unpackbits(i),
    "choose by floats": lambda x, i, u, b, c: np.choose(x, [x, x]),
    "select by integers": lambda x, i, u, b, c: np.select([i], [x]),
    "a determinant of half precision": lambda x, i, u, b, c: np.linalg.det((x @ x.T).astype(np.float16)),
    "shapes that do not broadcast": lambda x, i, u, b, c: x + np.zeros(2),
    "matmul of extents that differ": lambda x, i, u, b, c: x @ x,
    "matmul of a scalar": lambda x, i, u, b, c: x @ 2,
    "reshape to another size": lambda x, i, u, b, c: x.reshape(7),
    "two unknown extents": lambda x, i, u, b, c: x.reshape(-1, -1),
    "concatenate of extents that differ": lambda x, i, u, b, c: np.concatenate([x, x[:, :2]], 0),
    "concatenate of nothing": lambda x, i, u, b, c: np.concatenate([]),
    "stack of shapes that differ": lambda x, i, u, b, c: np.stack([x, x[0]]),
    "broadcast_to a smaller shape": lambda x, i, u, b, c: np.broadcast_to(x, (3,)),
    "split into unequal parts": lambda x, i, u, b, c: np.split(x, 2, axis=1),
    "the largest of nothing": lambda x, i, u, b, c: x[:0].max(),
    "argmax of nothing": lambda x, i, u, b, c: np.argmax(x[:0]),
    "transpose by axes that are not a permutation": lambda x, i, u, b, c: x.transpose(0, 0),
    "squeeze of an axis that is not 1": lambda x, i, u, b, c: np.squeeze(x, 0),
    "einsum of extents that differ": lambda x, i, u, b, c: np.einsum("ij,ij->i", x, x.T),
    "an axis that is not there": lambda x, i, u, b, c: x.sum(axis=2),
    "an axis twice": lambda x, i, u, b, c: x.sum(axis=(0, 0)),
    "an axis to move that is not there": lambda x, i, u, b, c: np.moveaxis(x, 3, 0),
    "an axis to swap that is not there": lambda x, i, u, b, c: np.swapaxes(x, 0, 2),
    "an axis to sort that is not there": lambda x, i, u, b, c: np.sort(x, axis=5),
    "an axis to expand that is not there": lambda x, i, u, b, c: np.expand_dims(x, 5),
    "an axis to concatenate that is not there": lambda x, i, u, b, c: np.concatenate([x, x], 2),
    "an axis to stack that is not there": lambda x, i, u, b, c: np.stack([x, x], 4),
    "an axis to flip that is not there": lambda x, i, u, b, c: np.flip(x, 3),
    "an axis to take from that is not there": lambda x, i, u, b, c: np.take(x, 0, axis=2),
    "an axis that is a float": lambda x, i, u, b, c: x.sum(axis=0.5),
    "an index beyond the extent": lambda x, i, u, b, c: x[2],
    "a negative index beyond the extent": lambda x, i, u, b, c: x[:, -4],
    "an array index beyond the extent": lambda x, i, u, b, c: x[[0, 5]],
    "a place beyond the extent": lambda x, i, u, b, c: np.take(x, [7]),
    "too many indices": lambda x, i, u, b, c: x[0, 0, 0],
    "an axis to roll that is not there": lambda x, i, u, b, c: np.roll(x, 1, 5),
    "an axis to roll to that is not there": lambda x, i, u, b, c: np.rollaxis(x, 5),
    "an axis of a diagonal that is not there": lambda x, i, u, b, c: np.diagonal(x, 0, 0, 4),
    "an axis of a norm that is not there": lambda x, i, u, b, c: np.linalg.norm(x, axis=9),
    "an axis of a transform that is not there": lambda x, i, u, b, c: np.fft.fft(x, axis=9),
    "an inverse of what is not square": lambda x, i, u, b, c: np.linalg.inv(x),
    "a determinant of a vector": lambda x, i, u, b, c: np.linalg.det(x[0]),
    "a system with other rows": lambda x, i, u, b, c: np.linalg.lstsq(x, x[0]),
    "a diagonal along one axis": lambda x, i, u, b, c: np.diagonal(x, 0, 1, 1),
    "transpose by one axis of two": lambda x, i, u, b, c: x.transpose(0),
    "a mask of one element": lambda x, i, u, b, c: x[np.array([True])],
    "a mask that is longer than the axis": lambda x, i, u, b, c: x[[True, False, False]],
    "an assignment by a mask that is longer": lambda x, i, u, b, c: x.copy().__setitem__([True, False, False], 1),
    "einsum over a digit": lambda x, i, u, b, c: np.einsum("i1", x),
    "decimals that are no whole number": lambda x, i, u, b, c: np.round(x, 1.5),
    "a matrix to a power that is a float": lambda x, i, u, b, c: np.linalg.matrix_power(x @ x.T, 1.5),
    "two ellipses": lambda x, i, u, b, c: x[..., ...],
    "a mask of another shape": lambda x, i, u, b, c: x[np.ones(5, bool)],
    "index arrays that do not broadcast": lambda x, i, u, b, c: x[[0, 1], [0, 1, 2]],
    "an assignment beyond the extent": lambda x, i, u, b, c: x.copy().__setitem__(4, 0),
    "an assignment of another shape": lambda x, i, u, b, c: x.copy().__setitem__(0, np.zeros(2)),
    "deleting what is not there": lambda x, i, u, b, c: np.delete(x, 9),
    "inserting where nothing is": lambda x, i, u, b, c: np.insert(x, 99, 0),
    "an assignment to a scalar": lambda x, i, u, b, c: operator.setitem(x[0, 0], (), 1),
    "an assignment into a scalar": lambda x, i, u, b, c: operator.setitem(x[0, 0], (..., 0), 1),
    "the length of a scalar": lambda x, i, u, b, c: len(x.sum()),
    "an iteration over a scalar": lambda x, i, u, b, c: list(x.sum()),
    "a number beyond uint8": lambda x, i, u, b, c: u + 300,
    "a negative number beside uint8": lambda x, i, u, b, c: u * -1,
    "a number beyond int64": lambda x, i, u, b, c: i + 2**63,
    "a number beyond float64": lambda x, i, u, b, c: x + 10**400,
    "a number beyond uint8 assigned": lambda x, i, u, b, c: u.copy().__setitem__(0, 256),
    "a number beyond uint8 to fill": lambda x, i, u, b, c: u.copy().fill(256),
    "an infinity assigned to integers": lambda x, i, u, b, c: i.copy().__setitem__(0, float("inf")),
    "a negative power of integers": lambda x, i, u, b, c: i**-1,
    "a negative power of integers by the function": lambda x, i, u, b, c: np.power(i, -1),
    "an argument too many": lambda x, i, u, b, c: np.sum(x, 0, None, None, False, 0, True, 5),
    "an argument of no such name": lambda x, i, u, b, c: np.sum(x, axes=0),
    "a mode of no such name": lambda x, i, u, b, c: np.pad(x, 1, mode="nearest"),
    "a negative count": lambda x, i, u, b, c: np.linspace(x[0, 0], x[0, 1], -2),
    "an attribute that is not there": lambda x, i, u, b, c: x.shapes,
    "a method that is not there": lambda x, i, u, b, c: x.softmax(),
}  # fmt: skip


def arguments() -> tuple[np.ndarray, ...]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return x, x.astype(np.int64), x.astype(np.uint8), x > 2, x.astype(np.complex128)


@pytest.mark.parametrize("case", REFUSED)
def test_what_numpy_refuses_is_refused_so_that_the_same_except_catches_it(case: str) -> None:
    function = REFUSED[case]
    with pytest.raises(CAUGHT) as numpys:
        function(*arguments())
    with pytest.raises(Exception) as ours:
        ef.trace(function, *arguments())
    for kind in CAUGHT:
        assert isinstance(ours.value, kind) >= isinstance(numpys.value, kind), (numpys.value, ours.value)


def test_every_class_of_errors_is_what_a_user_of_numpy_would_catch() -> None:
    caught = {
        errors.ShapeError: ValueError, errors.DtypeError: TypeError, errors.BoundsError: IndexError,
        errors.RangeError: OverflowError, errors.AxisError: np.exceptions.AxisError,
        errors.MatrixError: np.linalg.LinAlgError, errors.OptionError: ValueError,
        errors.UnsupportedOp: NotImplementedError, errors.LawError: ValueError,
        errors.MemoryLimitError: MemoryError, errors.TargetUnavailable: RuntimeError,
    }  # fmt: skip
    for ours, theirs in caught.items():
        assert issubclass(ours, theirs) and issubclass(ours, ef.EqfuseError)
    assert {errors.DtypeError.__base__, errors.BoundsError.__base__, errors.RangeError.__base__} == {ef.ShapeError}


def test_what_numpy_raises_within_a_function_names_the_users_line() -> None:
    with pytest.raises(errors.AxisError) as refused:
        ef.trace(lambda x: np.rollaxis(x, 5), np.zeros((2, 3)))
    assert str(refused.value.where).startswith(__file__) and __file__ in str(refused.value)
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value)


def test_an_error_of_a_function_that_numpy_calls_is_the_users_own() -> None:
    def picky(row):
        raise ValueError("no rows today")

    with pytest.raises(ValueError, match="no rows today") as raised:
        ef.trace(lambda x: np.apply_along_axis(picky, 0, x), np.zeros((2, 3)))
    assert not isinstance(raised.value, ef.EqfuseError)


def test_masked_arrays_and_functions_of_elements_are_refused_by_name() -> None:
    with pytest.raises(ef.TraceError, match=r"of np\.ma, of masked arrays") as masked:
        ef.trace(lambda x: np.ma.mean(x), np.zeros((2, 3)))
    assert str(masked.value.where).startswith(__file__)
    with pytest.raises(ef.TraceError, match="one element after another"):
        ef.trace(lambda x: np.vectorize(abs)(x), np.zeros((2, 3)))


def test_an_error_of_tracing_itself_is_caught_by_nobody_else() -> None:
    """Code that tries something and goes on otherwise would go another way than without a trace."""

    def f(x):
        try:
            return np.full(2, float(x))
        except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError, AttributeError):
            return np.zeros(2)

    with pytest.raises(ef.TraceError, match=r"float\(\)"):
        ef.trace(f, np.float64(1.0))


@pytest.mark.parametrize("folder", ["usr/lib/python3/dist-packages", ".local/lib/python3.11/site-packages"])
def test_the_line_is_the_users_wherever_a_library_is_installed(folder: str, tmp_path: Path) -> None:
    where = tmp_path / folder
    where.mkdir(parents=True)
    (where / "sign_library.py").write_text("def sign(x):\n    return 1 if x > 0 else -1\n")
    spec = importlib.util.spec_from_file_location("sign_library", where / "sign_library.py")
    assert spec is not None and spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    with pytest.raises(ef.TraceError) as refused:
        ef.trace(lambda x: library.sign(x), np.float32(1))
    assert str(refused.value.where).startswith(__file__)


@pytest.mark.parametrize("call", [
    lambda x, out: np.sum(x, 0, out=out), lambda x, out: x.max(0, out=out), lambda x, out: np.mean(x, 0, out=out),
    lambda x, out: x.any(0, out=out), lambda x, out: np.median(x, 0, out=out), lambda x, out: np.ptp(x, 0, out),
    lambda x, out: np.add.reduce(x, 0, out=out), lambda x, out: np.take(x, 1, 0, out=out),
    lambda x, out: np.einsum("ij->j", x, out=out), lambda x, out: np.nanmax(x, 0, out=out),
    lambda x, out: np.stack([x[0]], out=out),
])  # fmt: skip
def test_a_result_goes_into_an_array_of_its_own_shape_where_numpy_asks_for_it(call: Callable[..., Any]) -> None:
    x, wide = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    with pytest.raises(ValueError):
        call(x, wide)
    with pytest.raises(ef.ShapeError):
        ef.trace(call, x, wide)


@pytest.mark.parametrize("call", [
    lambda x, out: np.sqrt(x, out=out, where=x > 1), lambda x, out: np.add(x, 0.5, out=out, where=x > 1),
])  # fmt: skip
def test_a_result_that_does_not_fit_by_the_casting_rule_is_refused_with_a_mask_too(call: Callable[..., Any]) -> None:
    x = np.arange(3.0)
    with pytest.raises(TypeError):
        call(x, np.zeros(3, np.int64))
    with pytest.raises(errors.DtypeError):
        ef.trace(call, x, np.zeros(3, np.int64))
