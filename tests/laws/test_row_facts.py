"""The facts that an operator's row states are true of what NumPy computes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from eqfuse.ops import TABLE, Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.index_map import Place
from eqfuse.ops.row import REALS, Rounding
from eqfuse.rewrites import EXACT, Law, apply, attrs, book, tensors
from eqfuse.rewrites.checking.check import check
from tests.laws.corners import drawn_call

FLOATS = np.array([*np.arange(-8, 8.5, 0.5), 1e-3, -1e-3, 20.25, -20.25, 1e10, -1e10, 0.0, -0.0])
WHOLE, TRUTHS = np.arange(-8, 9), np.array([False, True])
CLOSE = 4 * np.finfo(float).eps  # two calls of a library


def takes(op: str, x: np.ndarray) -> bool:
    try:
        UFUNCS[op].resolve_dtypes((*[x.dtype] * UFUNCS[op].nin, None))
    except TypeError:
        return False
    return True


def samples(op: str) -> list[np.ndarray]:
    return [x for x in (FLOATS, WHOLE, TRUTHS) if takes(op, x)]


def inside(op: str) -> np.ndarray:
    """Sorted numbers of the domain of `op`."""
    lower, upper = TABLE[op].domain
    x = np.unique(np.concatenate([FLOATS, np.linspace(-1, 1, 41)]))
    return x[(x >= lower) & (x <= upper)]


def called(op: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return UFUNCS[op](*arrays)


def having(fact: str) -> list[str]:
    return [name for name, op in TABLE.items() if getattr(op, fact)]


@pytest.mark.filterwarnings("ignore")  # SciPy's loops are not made for all of these numbers
@pytest.mark.parametrize("op", [name for name, ufunc in UFUNCS.items() if ufunc.nin == 2])
def test_arguments_change_places_where_the_row_says_so_and_nowhere_else(op: str) -> None:
    met = [np.append(x, [np.nan, np.inf, -np.inf]) if x is FLOATS else x for x in samples(op)]
    if op == "power":  # NumPy refuses 2 ** -1 of whole numbers
        met = [np.abs(x) for x in met]
    pairs = [(called(op, x[:, None], x), called(op, x, x[:, None])) for x in met]
    signs = [] if TABLE[op].either_zero else pairs
    same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
    same &= all(np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])) for a, b in signs if a.dtype.kind == "f")
    assert TABLE[op].commutes == same


@pytest.mark.parametrize("op", having("commutes"))
def test_a_law_says_that_the_arguments_change_places(op: str) -> None:
    law = f"{op}_commutes"
    assert law in {known.name for known in book()}, f"the row says that it commutes: rewrites/ has no law {law}"


@pytest.mark.parametrize("op", having("twice"))
def test_one_argument_twice_is_a_function_of_one(op: str) -> None:
    twice = TABLE[op].twice
    assert twice is not None
    for x in (FLOATS, WHOLE):
        np.testing.assert_array_equal(called(op, x, x), called(twice, x))


@pytest.mark.parametrize("op", having("monotone"))
def test_it_never_falls(op: str) -> None:
    values = called(op, inside(op))
    assert (values[1:] >= values[:-1]).all()


@pytest.mark.parametrize("op", having("odd"))
def test_it_is_odd(op: str) -> None:
    x = inside(op)
    np.testing.assert_allclose(called(op, -x), -called(op, x), rtol=CLOSE)


@pytest.mark.parametrize("op", having("even"))
def test_it_is_even(op: str) -> None:
    x = inside(op)
    np.testing.assert_allclose(called(op, -x), called(op, x), rtol=CLOSE)


@pytest.mark.parametrize("op", [name for name, op in UFUNCS.items() if op.nin == 1 and TABLE[name].domain != REALS])
def test_it_is_defined_on_its_domain_and_nowhere_else(op: str) -> None:
    lower, upper = TABLE[op].domain
    assert not np.isnan(called(op, inside(op))).any()
    below, above = math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf)
    outside = [x for x in (below, above) if math.isfinite(x)]
    assert np.isnan(called(op, np.array(outside))).all()


@pytest.mark.parametrize("op", having("joined_by"))
def test_the_results_of_two_parts_are_joined(op: str) -> None:
    join = TABLE[op].joined_by
    assert join is not None
    for x in (FLOATS[:8], WHOLE, TRUTHS):
        parts = [TABLE[op].meaning(part, (-1,)) for part in (x[:1], x[1:])]
        np.testing.assert_array_equal(UFUNCS[join](*parts), TABLE[op].meaning(x, (-1,)))


EXACTLY = [
    op for op in UFUNCS if TABLE[op].rounding is not Rounding.LIBRARY and takes(op, FLOATS) and op != "nextafter"
]


@pytest.mark.parametrize("op", EXACTLY)
def test_it_rounds_as_often_as_it_says(op: str) -> None:
    """What float64 computes of float32 numbers, rounded to float32 once; or what needs no rounding."""
    x = FLOATS.astype(np.float32)
    arguments = (x[:, None], x)[: UFUNCS[op].nin]
    wide = called(op, *(a.astype(np.float64) for a in arguments))
    with np.errstate(all="ignore"):
        once = wide.astype(np.float32)
    np.testing.assert_array_equal(called(op, *arguments), once)
    assert TABLE[op].rounding is Rounding.ONCE or np.array_equal(once, wide, equal_nan=True)


VIEWS = {
    "transpose": [((2, 3, 1, 4), (3, 0, 2, 1)), ((5,), (0,)), ((), ())],
    "reshape": [((2, 1, 3), (1, 2, 3, 1)), ((2, 6), (3, 4)), ((1, 1), ()), ((4,), (4,))],
    "broadcast_to": [((3, 1), (2, 3, 4)), ((), (2, 2)), ((1, 3), (1, 3))],
    "slice": [((6, 1, 5), ((1, 6, 2), (0, 1, 1), (0, 5, 3))), ((7,), ((2, 5, 1),))],
    "flip": [((3, 1, 4), (-3, -2)), ((5,), (-1,)), ((2, 3), ())],
    "sliding_window": [((5, 4), ((-2, 2),)), ((6, 1), ((-2, 3), (-1, 1), (-2, 2)))],
}


@pytest.mark.parametrize("op", [name for name, op in TABLE.items() if op.role is Role.VIEW])
def test_each_element_of_a_view_is_the_one_of_its_argument_that_the_index_map_names(op: str) -> None:
    assert TABLE[op].index_map is not None
    for shape, attr in VIEWS[op]:
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        view, places = TABLE[op].meaning(x, attr), TABLE[op].index_map(shape, (attr,))
        if places is None:
            assert op == "reshape" and shape == (2, 6)
            continue
        index = np.indices(view.shape)
        taken = tuple(place.start + sum(step * index[a] for a, step in place.terms) for place in places)
        np.testing.assert_array_equal(x[taken] if shape else np.broadcast_to(x, view.shape), view)
        assert all(place == Place() for place, extent in zip(places, shape, strict=True) if extent == 1)


@pytest.mark.parametrize("op", VIEWS)
def test_a_view_shows_an_element_more_than_once_where_the_row_says_so_and_nowhere_else(op: str) -> None:
    views = [TABLE[op].meaning(np.arange(np.prod(shape, dtype=int)).reshape(shape), attr) for shape, attr in VIEWS[op]]
    assert any(np.unique(view).size < view.size for view in views) == TABLE[op].repeats


@pytest.mark.parametrize("op", [name for name, op in TABLE.items() if op.role is Role.GATHER])
def test_an_index_is_that_of_one_element_where_the_row_says_so_and_else_of_a_row(op: str) -> None:
    x = np.arange(12.0).reshape(4, 3)
    indices = np.zeros((2, 3) if TABLE[op].by_element else 2, int)
    before = TABLE[op].meaning(x, indices, -2)
    indices.flat[1] = 2
    assert (TABLE[op].meaning(x, indices, -2) != before).sum() == (1 if TABLE[op].by_element else 3)


@pytest.mark.parametrize("op", [name for name, op in TABLE.items() if op.pieces is not None])
def test_pieces_lie_where_the_row_says_and_the_first_ones_cover_others(op: str) -> None:
    rng, random_arrays, drawn = random.Random(op), np.random.default_rng(1), 0
    while drawn < 100:
        types, attrs = drawn_call(op, np.dtype(np.float64), rng) or ([], ())
        places = TABLE[op].pieces
        if not types or places is None:
            continue
        drawn += 1
        arrays = [random_arrays.standard_normal(t.shape) for t in types]
        result = TABLE[op].meaning(*arrays, *attrs)
        laid, pieces = np.full(result.shape, np.nan), places(tuple([t.shape for t in types]), attrs)
        seen = np.full(result.shape, -1)
        for argument, ranges, _ in reversed(pieces):
            where = tuple([slice(*r) for r in ranges])
            laid[where], seen[where] = arrays[argument], argument
        np.testing.assert_array_equal(laid, result)
        for argument, _, boxes in pieces:
            left = np.zeros(result.shape, np.bool_)
            for box in boxes:
                left[tuple([slice(*r) for r in box])] = True
            assert left[seen == argument].all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [name for name, op in TABLE.items() if op.arity is not None and op.arity > 1])
def test_an_argument_has_a_dtype_of_its_own_where_the_row_says_so_and_nowhere_else(op: str) -> None:
    """Where others are float64 and it never is. (Operators of whole numbers alone say nothing.)"""
    rng, double, arity = random.Random(op), np.dtype(np.float64), TABLE[op].arity or 0
    dtypes: list[set[np.dtype]] = [set() for _ in range(arity)]
    for _ in range(2000):
        types, _ = drawn_call(op, double, rng) or ((), ())
        if any(t.dtype == double for t in types):
            for met, t in zip(dtypes, types, strict=True):
                met.add(t.dtype)
        if all(double in met for met in dtypes):
            break
    own = [TABLE[op].own_dtype(i) for i in range(arity)]
    assert [dtype is not None for dtype in own] == [bool(met) and double not in met for met in dtypes]
    assert all(dtype is None or dtype in met for dtype, met in zip(own, dtypes, strict=True))


APART = [name for name, op in TABLE.items() if any(op.own_dtypes) and not name.startswith("eval_")]


@pytest.mark.parametrize("op", APART)  # a polynomial of a random order may take years
def test_a_law_may_be_about_an_operator_with_an_argument_whose_dtype_stands_apart(op: str) -> None:
    term = apply(op, *tensors("x y z")[: TABLE[op].arity], attrs=attrs("p q")[: len(TABLE[op].attrs)])
    report = check(Law("_", np.negative(-term), term, exactness=EXACT), cases=20)
    assert report.ok, report
