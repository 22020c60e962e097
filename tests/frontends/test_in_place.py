"""Assignment to items, in-place operators, out= and where=: what NumPy does to memory, a trace does to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import empty as new_buffer

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.dtypes import BFLOAT16
from eqfuse.plan.in_place import updates as updates_of
from tests.plans.test_extract import diffused
from tests.support.some import some

X = np.arange(12.0).reshape(3, 4) - 4
OUTSIDE = np.arange(4.0)


def agrees(fn: Callable[..., Any], *args: Any) -> None:
    """`fn` by the evaluator, compiled, and by NumPy: the same results, and the same arguments afterwards."""
    plain, fused = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    wanted = fn(*plain)
    results = [ef.meaning(ef.trace(fn, *args), *args), ef.jit(fn)(*fused)]
    for got in results:
        pairs = list(zip(wanted, got, strict=True)) if isinstance(wanted, tuple) else [(wanted, got)]
        for a, b in pairs:
            np.testing.assert_array_equal(b, a)
            assert np.asarray(b).dtype == np.asarray(a).dtype
    for a, b in zip(plain, fused, strict=True):
        np.testing.assert_array_equal(b, a)


def rows_columns_and_steps(x: Any) -> Any:
    y = x.copy()
    y[0] = 5
    y[:, 1] = x[:, 2]
    y[1:, ::-2] += 10
    y[-1, -1] = 99
    return y


def through_views(x: Any) -> Any:
    y = x + 0
    row, turned, flat = y[1], y.T, y.reshape(-1)
    row[2:] = 7
    turned[0] = -1
    flat[::5] *= 2
    y[0, ::2] = row[::2]
    return y, row, turned, flat


def an_alias_sees_the_change(x: Any) -> Any:
    y = x + 1
    alias, before = y, y.copy()
    y *= 2
    alias -= 1
    return y, alias, before


def scalars_are_values(x: Any) -> Any:
    total = x.sum()
    kept = total
    total += 1
    first = x[0, 0]
    y = x.copy()
    y[0, 0] = 100
    return total, kept, first, y


def buffers_filled_by_slices(x: Any) -> Any:
    out = new_buffer((4, 3))
    for i in range(4):
        out[i] = x[:, i] * i
    grid = np.zeros((5, 6), dtype=np.float32)
    grid[1:-1, 1:-1] = x
    grid[0] = grid[1]
    return out, grid


def a_recurrence(x: Any) -> Any:
    a = np.empty_like(x)
    a[0] = x[0]
    for i in range(1, len(x)):
        a[i] = 0.5 * a[i - 1] + x[i]
    return a


def masks(x: Any) -> Any:
    y = x.copy()
    y[y > 3] = 0
    y[:, 0][x[:, 0] < 0] = -1
    y[x[:, 1] > 0] += 1
    y[1, x[1] > 0] = np.arange(4.0).sum()
    return y


def known_masks_and_indices(x: Any) -> Any:
    y = x.copy()
    y[:, np.arange(4) % 2 == 0] = np.array([[1.0, 2.0]])
    y[[0, 2], [1, 1]] = x[0, :2]
    y[[0, 0, 1]] += 1
    np.add.at(y, ([0, 0, 1], [3, 3, 3]), 1.0)
    y[..., None][2, 0, 0] = 8
    return y


def traced_indices(x: Any, i: Any) -> Any:
    y = x.copy()
    y[i] = 1.5
    np.subtract.at(y, (i, i), 3.0)
    np.maximum.at(y, i, x[i] * 2)
    return y


def out_and_where(x: Any) -> Any:
    y = np.zeros_like(x)
    z = np.ones(x.shape, np.float32)
    np.add(x, 1, out=y)
    np.multiply(x, y, y, where=x > 0)
    np.negative(y, out=z)
    np.sum(x, axis=0, out=y[0])
    np.exp(x[0], out=y[1], where=[True, False, True, False])
    return y, z


def constants_stay_readable(x: Any) -> Any:
    weights = np.zeros(4)
    weights[1:3] = 0.5
    steps = [float(w) for w in weights]
    if weights.any() and int(np.arange(4)[2]) == 2:
        x = x * weights + steps[1]
    return x[np.argsort(-weights)[:2]]


def casts_on_the_way_in(x: Any) -> Any:
    whole = np.zeros(x.shape, np.int64)
    whole[...] = x
    whole[0] = 2.7
    whole += 1
    narrow = x.astype(np.float32)
    narrow *= np.float64(1 / 3)
    return whole, narrow


def reshapes_that_copy(x: Any) -> Any:
    y = x.copy()
    y.T.reshape(-1)[0] = 1000
    y[:, :2].ravel()[0] = 1000
    y[:, :2].reshape(3, 1, 2)[0] = 50
    y.flatten()[1] = 1000
    y.flat[3] = 77
    return y


def methods_that_change(x: Any) -> Any:
    y = x.copy()
    y[0].fill(3)
    y[1].sort()
    y.shape = (4, 3)
    return y


def what_a_mask_selects(x: Any) -> Any:
    y, mask = x.copy(), x > 2
    y[mask] *= 2
    y[mask] = np.sqrt(x[mask]) + y[mask]
    rows = x[:, 0] > 0
    y[rows] -= x[rows] / x[0]
    chosen = x[mask]
    return y, chosen.sum(), np.mean(chosen - 1), chosen.std(), x[rows].sum(axis=0), (x[mask] > 3).all()


def reductions_with_a_mask(x: Any) -> Any:
    some = x > 0
    return (
        np.sum(x, where=some), x.mean(axis=1, where=some), np.std(x, axis=0, where=x[0] < 100, ddof=1),
        np.max(x, where=some, initial=-9.0), some.any(where=x > 1),
    )  # fmt: skip


def bits_and_parts(x: Any) -> Any:
    y = x.copy()
    bits = y.view(np.int64)
    bits &= 0x7FFFFFFFFFFFFFFF
    y[0].view(np.uint64)[1] = 0
    z = y + 1j * x
    z.real[0] = 5
    z.imag *= 2
    return y, bits, z, x.view(np.uint64) >> 52


CASES = [
    rows_columns_and_steps, through_views, an_alias_sees_the_change, scalars_are_values, buffers_filled_by_slices,
    a_recurrence, masks, known_masks_and_indices, out_and_where, constants_stay_readable, casts_on_the_way_in,
    reshapes_that_copy, methods_that_change, what_a_mask_selects, reductions_with_a_mask,
    bits_and_parts,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_memory_changes_as_in_numpy(case):
    agrees(case, X)


def test_traced_indices_are_scattered_to():
    agrees(traced_indices, X, np.array([2, -2, 2]))


@pytest.mark.parametrize("dtype", some([bool, "i1", "f2", BFLOAT16], 2), ids=str)
def test_ufunc_at_computes_in_the_dtype_of_both_and_casts_back_whatever_there_is(dtype):
    """Of values in arrays, of Python numbers, and of an index that is a slice."""
    ufuncs = (np.add, np.multiply, np.maximum, np.floor_divide, np.arctan2)

    def changed(x: Any, floats: Any, wide: Any) -> list[Any]:
        arrays = []
        for i, ufunc in enumerate(ufuncs):
            for j, values in enumerate((floats, wide, 300, -1, 0.3, True)):
                arrays.append(x.copy())
                ufunc.at(arrays[-1], slice(1, 4) if (i + j) % 2 else [0, 0, 1], values)
        return arrays

    x, floats, wide = np.arange(1, 5).astype(dtype), np.array([0.7, 1e5, -3.3]), np.array([150, 200, 3])
    with np.errstate(all="ignore"):
        wanted, got = changed(x, floats, wide), ef.jit(changed, numerics="strict")(x, floats, wide)
        meant = ef.meaning(ef.trace(changed, x, floats, wide), x, floats, wide)
    for a, b, c in zip(wanted, got, meant, strict=True):
        np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(c, a)


# ---- refusals


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: np.diagonal(x).__setitem__(0, 1), "read-only"),
        (lambda x: x.sum().__setitem__((), 1), "item assignment"),
        (lambda x: x.__setitem__(0, np.ones(3)), "could not broadcast"),
        (lambda x: x.__setitem__(x > 0, np.ones((3, 4))), "depend on data"),
        (lambda x: np.add(x, 1, out=OUTSIDE), "made outside"),
        (lambda x: OUTSIDE.__iadd__(x[0]), "made outside"),
        (lambda x: np.asarray(OUTSIDE).__setitem__(0, 1), "read-only"),
        (lambda x: np.zeros(4, np.uint8).__setitem__(0, 300), "out of bounds"),
    ],
)
def test_a_write_that_numpy_or_tracing_cannot_do_is_refused(fn, message):
    with pytest.raises(ef.EqfuseError, match=message):
        ef.trace(fn, X)


# ---- memory


def test_a_loop_of_updates_writes_into_one_buffer():
    def steps(x: Any) -> Any:
        u = x * 1.0
        for _ in range(4):
            u[1:-1] = np.sqrt(u[1:-1] + u[:-2])
            u[0] = u[1]
        u[[0, 2]] += 1.0
        return u

    x = np.arange(400_000.0).reshape(400, 1000)
    program = ef.compile(steps, x, target=DEVICES["cpu"])
    np.testing.assert_allclose(program(x), steps(x), rtol=1e-14)
    updates = [k for k in program.plan.kernels if any(n.op in ("slice_scatter", "scatter") for n in k.body.operators)]
    assert len(updates) >= 5
    assert len(updates_of(program.plan).in_place) >= len(updates) // 2
    np.testing.assert_array_equal(x, np.arange(400_000.0).reshape(400, 1000))


@pytest.mark.parametrize("take", (lambda x: x[:, ::-1], lambda x: x[..., :2], lambda x: x.T, lambda x: x[None]))
def test_ravel_is_a_view_of_memory_without_gaps_only(take: Callable[[Any], Any]) -> None:
    def program(x):
        flat = take(x).ravel()
        flat += 1
        return flat

    for shape in ((1, 3), (3, 1), (2, 3)):
        x = np.arange(6.0)[: np.prod(shape)].reshape(shape)
        y = x.copy()
        np.testing.assert_array_equal(ef.jit(program)(y), program(x))
        np.testing.assert_array_equal(y, x)


def test_asarray_of_an_array_of_rank_0_is_the_array_itself() -> None:
    def program(x):
        same = np.asarray(x)
        same -= 1
        scalar = x[()]
        other = np.asarray(scalar)
        other += 5
        return x, scalar, other

    x, y = np.array(3), np.array(3)
    assert [np.asarray(v).item() for v in ef.jit(program)(y)] == [np.asarray(v).item() for v in program(x)] == [2, 2, 7]
    assert y == x


def test_a_stencil_with_its_border_is_one_kernel():
    def diffuse(u: Any) -> Any:
        return diffused(u, 3)

    x = np.random.default_rng(0).standard_normal((700, 703))
    program = ef.compile(diffuse, x, target=DEVICES["cpu"])
    np.testing.assert_allclose(program(x), diffuse(x), rtol=1e-12)
    assert [k.kind for k in program.plan.kernels] == ["map"] * 3, program.plan
    assert program.peak_bytes < 3.5 * x.nbytes  # two arrays by turns, beside tiles


def left_of_what_changes(x: Any) -> Any:
    u = x * 2.0
    left, both = u[:, :2], u[:, :3]
    seen = left + 0.5
    u[:, 3] = 7.0
    return u, seen, both.sum(axis=1), left * seen


def over_what_changes(x: Any) -> Any:
    u = x * 2.0
    v = u + 0.0
    v[:, 3] = 7.0
    return v, u[:, 1:] + v[:, 1:], u[::2, 3]


def two_writes_that_overlap(x: Any) -> Any:
    u = np.empty_like(x)
    u[1:] = np.sqrt(np.abs(x[1:])) + x[1:]
    u[:2] = x[:2] * 3
    w = u * 1.0
    w[1:, 1:] = u[:-1, :-1] - w[1:, 1:]
    w[0, 0] = w[2, 2]
    return w, u


@pytest.mark.parametrize("rows", (3, 600))
@pytest.mark.parametrize("fn", (left_of_what_changes, over_what_changes, two_writes_that_overlap))
def test_who_reads_an_array_before_it_changes_sees_what_was_there(fn: Callable[..., Any], rows: int):
    agrees(fn, np.random.default_rng(1).standard_normal((rows, 4)))
