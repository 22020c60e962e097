"""How an argument lies in memory decides what is a view of it: every call does what NumPy does for its arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.evaluate import evaluate


def write_through_a_reshape(x: Any) -> Any:
    x.reshape(-1)[3] = 5.0
    return x.sum()


def write_through_a_reshape_of_the_transpose(x: Any) -> Any:
    x.T.reshape(-1)[3] = 5.0
    return x.sum(axis=0)


def write_then_read_the_reshape(x: Any) -> Any:
    flat = x.T.reshape(-1)
    x += 1
    return flat


def write_to_the_copy_or_itself(x: Any) -> Any:
    y = np.ascontiguousarray(x)
    y[0] = 7
    z = np.asfortranarray(x)
    z[:, 0] -= 1
    return y, z, x * 2


def read_as_it_lies(x: Any) -> Any:
    return x.ravel("K"), x.ravel("A"), np.reshape(x, (-1,), order="A"), x.flatten("K")


def copies_that_keep_the_order(x: Any) -> Any:
    y = np.array(x)
    y.reshape(-1)[1] = 9
    z = (x.T * 2 + y.T).ravel("F")
    z[0] = 3
    w = x.copy()
    w.ravel()[2] = 4
    return y, z, w


def a_copy_of_a_copy(x: Any) -> Any:
    y = x.T.reshape(-1)[::2]
    z = y.ravel()
    z[0] = 100
    return x.sum(), y + 0


def flags_decide(x: Any) -> Any:
    """As NumPy's np.pad, np.insert and np.kron do."""
    order = "F" if x.flags.fnc else "C"
    y = np.empty(x.shape, order=order)
    y[...] = x
    z = x[:, 1]
    some = z * 2 if z.flags["C_CONTIGUOUS"] or not x.T.flags.contiguous else z * 3
    return y.ravel("K"), some, x.sum() * (1 + x.flags.forc) - x[0, 0].flags.c_contiguous


FUNCTIONS = (
    write_through_a_reshape, write_through_a_reshape_of_the_transpose, write_then_read_the_reshape,
    write_to_the_copy_or_itself, read_as_it_lies, copies_that_keep_the_order, a_copy_of_a_copy, flags_decide,
)  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a.copy(), "F": lambda a: a.copy("F"), "rows": lambda a: a.repeat(2, 0)[::2],
    "columns": lambda a: a.repeat(3, 1)[:, ::3], "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "F with gaps": lambda a: a.repeat(2, 0).copy("F")[::2],
}  # fmt: skip
X = np.arange(12.0).reshape(3, 4)


def same(fn: Callable[..., Any], jitted: Callable[..., Any], lay: Callable[[np.ndarray], np.ndarray], x: Any) -> None:
    given, changed = lay(x), lay(x)
    wanted, got = fn(given), jitted(changed)
    many = isinstance(wanted, tuple)
    for w, g in zip(wanted if many else (wanted,), got if many else (got,), strict=True):
        np.testing.assert_array_equal(g, w)
    np.testing.assert_array_equal(changed, given)
    if given.base is not None:
        np.testing.assert_array_equal(changed.base, given.base)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_calls_with_arguments_of_every_layout_do_what_numpy_does(fn: Callable[..., Any]) -> None:
    jitted = ef.jit(fn, laws="none")
    for lay in [*LAYOUTS.values(), *list(LAYOUTS.values())[::-1]]:
        same(fn, jitted, lay, X)
    for lay in LAYOUTS.values():
        same(fn, jitted, lay, X[:, :3])


@pytest.mark.parametrize("fn", FUNCTIONS[:4], ids=lambda f: f.__name__)
def test_so_do_calls_with_dynamic_sizes(fn: Callable[..., Any]) -> None:
    jitted = ef.jit(fn, dynamic=True, laws="none")
    for n in (3, 5, 60):
        for lay in LAYOUTS.values():
            same(fn, jitted, lay, np.arange(4.0 * n).reshape(n, 4))


def test_flags_of_a_line_are_those_of_each_call() -> None:
    def scaled(x: Any) -> Any:
        return x * 2 if x.flags.c_contiguous else x * 3

    jitted = ef.jit(scaled)
    for line in (np.ones(6), np.ones(12)[::2], np.ones(6)[::-1], np.ones(6), np.ones(1)[::-1], np.ones(0)):
        np.testing.assert_array_equal(jitted(line), scaled(line))


@pytest.mark.parametrize("call", [
    lambda x: x.flags.writeable, lambda x: x.flags["OWNDATA"], lambda x: setattr(x.flags, "writeable", False),
])  # fmt: skip
def test_other_flags_are_refused_by_name(call: Callable[..., Any]) -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"ndarray\.flags\.\w+ cannot be traced"):
        ef.trace(call, X)


def test_a_function_that_layouts_do_not_change_is_compiled_once() -> None:
    def read(x: Any) -> Any:
        return x.reshape(-1) + np.ascontiguousarray(x).ravel()

    jitted = ef.jit(read)
    for lay in LAYOUTS.values():
        same(read, jitted, lay, X)
    assert "1 program(s)" in repr(jitted)


def test_a_program_compiled_for_one_layout_refuses_others() -> None:
    program = ef.compile(write_through_a_reshape, ef.spec((3, 4)))
    same(write_through_a_reshape, program, np.array, X)
    given = LAYOUTS["F"](X)
    with pytest.raises(ef.ShapeError, match=r"np\.ascontiguousarray"):
        program(given)
    np.testing.assert_array_equal(given, X)
    for lay in LAYOUTS.values():
        same(write_to_the_copy_or_itself, ef.compile(write_to_the_copy_or_itself, lay(X)), lay, X)


def test_a_saved_program_remembers_the_layout(tmp_path: Path) -> None:
    lay = LAYOUTS["F"]
    ef.compile(write_then_read_the_reshape, lay(X)).save(tmp_path / "p")
    program = ef.load(tmp_path / "p")
    same(write_then_read_the_reshape, program, lay, X)
    with pytest.raises(ef.ShapeError, match="lies in memory"):
        program(X.copy())


def test_an_argument_that_is_asked_to_be_in_order_is_the_result_itself_where_it_is() -> None:
    def change(x: Any) -> Any:
        x = np.ascontiguousarray(x)
        x += 1
        return x

    jitted, u = ef.jit(change), X.copy()
    assert jitted(u) is u
    v = LAYOUTS["F"](X)
    assert jitted(v) is not v
    np.testing.assert_array_equal(v, X)


def test_what_is_not_known_of_a_computed_array_is_refused_when_it_matters() -> None:
    def counts(x: Any) -> Any:
        return np.histogramdd(x, 3, range=[(0, 12)] * 4)[0]

    def unclear(x: Any) -> Any:
        y = counts(x)
        y.reshape(-1)[3] = 5.0
        return y

    def clear(x: Any) -> Any:
        y = counts(x).copy()
        y.reshape(-1)[3] = 5.0
        return y

    same(clear, ef.jit(clear), np.array, X)
    same(counts, ef.jit(counts), np.array, X)
    with pytest.raises(ef.TraceError, match=r"x\.copy\(\)"):
        ef.jit(unclear)(X.copy())


def test_the_shape_of_an_argument_stays_as_it_is() -> None:
    def change(x: Any) -> Any:
        x.shape = (4, 3)
        return x + 1

    with pytest.raises(ef.TraceError, match="reshape"):
        ef.jit(change)(X.copy())


REPEATED: dict[str, Callable[[Any], Any]] = {
    "first axis": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "middle axis": lambda x: np.broadcast_to(x[:, None], (3, 2, 4)),
    "last axis": lambda x: np.broadcast_to(x[..., None], (3, 4, 2)),
    "two axes": lambda x: np.broadcast_to(x[0], (3, 3, 4)),
    "of the transpose": lambda x: np.broadcast_to(x.T[::-1], (2, 4, 3)),
}
MAKERS: dict[str, Callable[[Any], Any]] = {
    "copy": np.copy, "copy in order": lambda b: b.copy(), "array": lambda b: np.array(b),
    "astype": lambda b: b.astype("f4"),
    "sort": lambda b: np.sort(b, axis=1), "partition": lambda b: np.partition(b, 1), "roll": lambda b: np.roll(b, 1, 0),
    "concatenate": lambda b: np.concatenate([b, b], 1), "median": lambda b: np.median(b, axis=1),
    "gradient": lambda b: np.gradient(b, axis=1), "unwrap": np.unwrap, "nan_to_num": np.nan_to_num,
    "zeros_like": np.zeros_like, "ufuncs": lambda b: np.exp(b) + b, "cumsum": lambda b: np.cumsum(b, axis=1),
    "where": lambda b: np.where(b > 1, b, 0), "fancy index": lambda b: b[:, [0, 1]], "pad": lambda b: np.pad(b, 1),
}  # fmt: skip


@pytest.mark.parametrize("view", REPEATED)
@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_made_of_a_view_that_repeats_elements_lies_as_numpy_lays_it(maker: str, view: str) -> None:
    """Its reshapes are views or copies, as writes through them tell. A repeated axis has stride 0: to a copy it is the
    shortest, to a ufunc as good as any."""

    def written(x: Any) -> Any:
        results = []
        for turn in (lambda a: a, lambda a: a.T, lambda a: np.moveaxis(a, 0, -1), lambda a: np.moveaxis(a, -1, 0)):
            array = MAKERS[maker](REPEATED[view](x))
            turn(array).reshape(-1)[:3] = 7
            results += [array, array.ravel("K")]
        return tuple(results)

    for got, wanted in zip(evaluate(ef.trace(written, X), [X]), written(X), strict=True):
        np.testing.assert_array_equal(got, wanted)
