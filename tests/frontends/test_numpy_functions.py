"""Traced NumPy functions give NumPy's dtypes, shapes and values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.special
from numpy.testing.overrides import get_overridable_numpy_ufuncs

from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_UFUNCS
from tests.frontends.agreement import DTYPES, agrees, sample

# NumPy's own are tried by test_dtypes.py, in every combination of dtypes, and by test_overrides.py, of every shape
SPECIAL = sorted(TRACED_UFUNCS.keys() - get_overridable_numpy_ufuncs(), key=lambda f: f.__name__)
UNARY = [f for f in SPECIAL if f.nin == 1]
BINARY = [f for f in SPECIAL if f.nin == 2 and f.signature is None]
SHAPES = ((), (0,), (1,), (3, 1), (2, 3, 4))


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda f: f.__name__)
def test_a_special_function_of_one_argument_agrees_for_every_dtype_and_shape(ufunc):
    for dtype, shape in product(DTYPES, SHAPES):
        agrees(ufunc, sample(shape, dtype))


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_a_special_function_of_two_arguments_agrees_for_every_pair_of_dtypes(ufunc):
    for dtype, other in product(DTYPES, repeat=2):
        agrees(ufunc, sample((2, 1, 4), dtype), sample((3, 1), other, 1))


@pytest.mark.parametrize("scalar", [2, -1, 0.5, True, 0, np.float32(1.5), np.int64(3)], ids=repr)
def test_divmod_with_a_scalar_promotes_as_numpy_does(scalar):
    """(As the operators do, of which test_dtypes.py has all.)"""
    for dtype in DTYPES:
        agrees(lambda a: divmod(a, scalar), sample((2, 3), dtype))
        agrees(lambda a: divmod(scalar, a), sample((2, 3), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_operators_agree_with_numpy(dtype):
    x = sample((3, 4), dtype)
    for fn in (lambda a: -a, lambda a: +a, abs, lambda a: ~a, lambda a: a @ a.T, lambda a: a**2, lambda a: a**0.5):
        agrees(fn, x)


REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "var": np.var, "std": np.std,
    "any": np.any, "all": np.all, "ptp": np.ptp, "count_nonzero": np.count_nonzero, "average": np.average,
    "nansum": np.nansum, "nanprod": np.nanprod,
    "add.reduce": np.add.reduce, "multiply.reduce": np.multiply.reduce, "maximum.reduce": np.maximum.reduce,
    "minimum.reduce": np.minimum.reduce, "logical_and.reduce": np.logical_and.reduce,
    "logical_or.reduce": np.logical_or.reduce,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_agrees_with_numpy_for_every_axis(name):
    function = REDUCTIONS[name]
    for (i, dtype), shape in product(enumerate(DTYPES), SHAPES):
        axes = [None, (), -1, 0, (0, -1)] if len(shape) > 1 else [None, -1]
        for turn, axis in enumerate(axes, i):
            agrees(lambda a, ax=axis, k=bool(turn % 2): function(a, axis=ax, keepdims=k), sample(shape, dtype))


@pytest.mark.parametrize("function", [np.argmax, np.argmin, np.cumsum, np.sort], ids=lambda f: f.__name__)
def test_a_scan_or_search_agrees_with_numpy(function):
    for dtype, shape in product(DTYPES, SHAPES):
        for axis in (None, 0, -1):
            agrees(lambda a, ax=axis: function(a, axis=ax), sample(shape, dtype))


@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.var, np.std, np.cumsum], ids=lambda f: f.__name__)
def test_an_accumulator_dtype_is_obeyed(function):
    for wanted, dtype in product(("float32", "float64", "int32", "float16"), DTYPES):
        agrees(lambda a, wanted=wanted: function(a, axis=0, dtype=wanted), sample((3, 4), dtype))


def test_ddof_initial_and_given_means_agree_with_numpy():
    x = sample((5, 4), "float32")
    for fn in (
        lambda a: np.var(a, 0, ddof=1), lambda a: a.std(axis=1, ddof=2, keepdims=True), lambda a: np.var(a, ddof=20),
        lambda a: np.var(a, 1, correction=1), lambda a: np.std(a, 1, mean=a.mean(1, keepdims=True)),
        lambda a: np.sum(a, 0, initial=3), lambda a: np.max(a, 1, initial=0), lambda a: np.prod(a, initial=2),
        lambda a: np.average(a, axis=1, weights=[1, 2, 3, 4]), lambda a: np.average(a, weights=a * a),
        lambda a: np.average(a, axis=0, weights=np.arange(5.0), returned=True), lambda a: np.average(a, returned=True),
        lambda a: np.average(a[None], axis=(1, 0), weights=np.ones((5, 1))),
        lambda a: np.diff(a), lambda a: np.diff(a, 2, axis=0), lambda a: np.diff(a > 0),
    ):  # fmt: skip
        agrees(fn, x)


NORMS = [None, 1, 2, 0, np.inf, -np.inf, 3, -1, 0.5, "fro", "nuc"]


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("order", [o for o in NORMS if o != "nuc"], ids=str)
def test_norms_agree_with_numpy(order, dtype):
    x = sample((3, 4), dtype)
    for axis in (None, 0, -1, (0, 1), (1, 0)):
        if order in (0, 3, 0.5, 2) and axis in (None, (0, 1), (1, 0)):
            continue
        for keepdims in (False, True) if dtype == "float64" else (axis != 0,):
            agrees(lambda a, ax=axis, k=keepdims: np.linalg.norm(a, order, ax, keepdims=k), x)
    agrees(lambda a: np.linalg.norm(a[0]), x)


LAYOUT = [
    lambda a: a.reshape(6, 4), lambda a: a.reshape(-1), lambda a: a.reshape((4, -1), order="F"), lambda a: a.ravel("F"),
    lambda a: a.T, lambda a: a.mT, lambda a: a.transpose(1, 0, 2), lambda a: a.transpose((2, 0, 1)), np.transpose,
    lambda a: np.swapaxes(a, 0, -1), lambda a: np.moveaxis(a, 0, -1), lambda a: np.moveaxis(a, [0, 1], [-1, 0]),
    lambda a: np.rollaxis(a, 2), lambda a: np.expand_dims(a, (0, -1)), lambda a: np.squeeze(a[:1]),
    lambda a: a[:1].squeeze(0), lambda a: np.broadcast_to(a, (5, 2, 3, 4)), lambda a: np.broadcast_to(a[0, 0], (2, 4)),
    lambda a: np.flip(a), lambda a: np.flip(a, (0, 2)), np.fliplr, np.flipud, lambda a: np.rot90(a),
    lambda a: np.rot90(a, 2), lambda a: np.rot90(a, 3, (1, 2)), lambda a: np.rot90(a, -1),
    lambda a: np.concatenate([a, a[:1]]), lambda a: np.concatenate([a, a], axis=None), lambda a: np.stack([a, a], -1),
    lambda a: np.vstack([a, a]), lambda a: np.hstack([a, a]), lambda a: np.dstack([a, a]),
    lambda a: np.hstack(list(a[0])),
    lambda a: np.column_stack([a[0, 0], a[1, 1]]), lambda a: np.append(a, 3), lambda a: np.append(a, a, 1),
    lambda a: np.concatenate([a, np.ones((1, 3, 4))]), lambda a: np.stack([a[0, 0, 0], 1.5]),
    lambda a: np.concatenate([a, a], dtype="float64"),
    lambda a: np.split(a, 2), lambda a: np.split(a, [1, 2], axis=1), lambda a: np.array_split(a, 3, axis=-1),
    lambda a: np.hsplit(a, 3), lambda a: np.vsplit(a, 2), lambda a: np.unstack(a, axis=1), lambda a: np.split(a, 5),
    lambda a: np.array_split(a, [3, 1], axis=2),
    lambda a: np.tile(a, 2), lambda a: np.tile(a, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 1, 1)),
    lambda a: np.repeat(a, 2), lambda a: np.repeat(a, 3, 1), lambda a: np.repeat(a, [1, 0, 2], axis=1),
    lambda a: a.repeat(2, axis=0),
    lambda a: np.roll(a, 2), lambda a: np.roll(a, 1, 0), lambda a: np.roll(a, (1, -2), (0, 2)),
    lambda a: np.roll(a, 9, 2),
    lambda a: np.pad(a, 1), lambda a: np.pad(a, ((0, 0), (1, 2), (0, 1)), constant_values=2),
    lambda a: np.pad(a, (1, 2)),
    lambda a: np.pad(a, 1, "edge"), lambda a: np.pad(a, ((0, 0), (1, 2), (2, 0)), "reflect"),
    lambda a: np.pad(a, 2, "wrap"), lambda a: np.pad(a, {1: (1, 1)}),
    lambda a: np.diagonal(a), lambda a: np.diagonal(a, 1, 1, 2), lambda a: np.diagonal(a, -1, 2, 1),
    lambda a: np.diagonal(a, 5), lambda a: np.diag(a[0]), lambda a: np.diag(a[0, 0]), lambda a: np.diag(a[0, 0], -2),
    lambda a: np.tril(a), lambda a: np.triu(a, 1), lambda a: np.tril(a[0, 0], -1), lambda a: np.trace(a),
    lambda a: np.trace(a, 1, 1, 2), lambda a: np.atleast_1d(a[0, 0, 0]), lambda a: np.atleast_2d(a[0, 0], a),
    lambda a: np.atleast_3d(a[0, 0], a[0]), lambda a: np.copy(a), lambda a: np.astype(a, "float32"),
    lambda a: a.flatten(), lambda a: np.broadcast_arrays(a, a[0, 0]), lambda a: a.astype("int64"),
    lambda a: np.meshgrid(a[0, 0], a[0, :, 0]), lambda a: np.meshgrid(a[0, 0], a[0, :, 0], [1, 2], indexing="ij"),
    lambda a: np.meshgrid(a[0, 0], a[0, 1], sparse=True), lambda a: [x + 1 for x in a], lambda a: a.real,
    lambda a: np.zeros_like(a), lambda a: np.ones_like(a, dtype="float32"), lambda a: np.full_like(a, 2.5),
    lambda a: np.full_like(a, a[0, 0]), lambda a: np.zeros_like(a, shape=(2, 2)), lambda a: np.empty_like(a).shape,
    lambda a: np.permute_dims(a, (2, 1, 0)), lambda a: np.matrix_transpose(a), lambda a: a.swapaxes(0, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(LAYOUT)))
def test_a_layout_function_agrees_with_numpy(case):
    for dtype in ("bool", "int32", "float16", "float64"):
        agrees(LAYOUT[case], sample((2, 3, 4), dtype))


I = np.array([2, 0, -1])  # noqa: E741
INDICES = [
    np.s_[0], np.s_[-1], np.s_[:], np.s_[...], np.s_[None], np.s_[1:], np.s_[:, ::2], np.s_[:, ::-1],
    np.s_[::-1, 1:0:-1],
    np.s_[..., 0], np.s_[0, ..., None], np.s_[:, None, 1], np.s_[1, 2, 3], np.s_[5:], np.s_[:, :, -1:-9:-2],
    np.s_[0, 5],
    np.s_[:, :, I], np.s_[:, [0, 2]], np.s_[I[:2] // 2], np.s_[0, :, I], np.s_[0, I], np.s_[:, I, I], np.s_[:, I, 1],
    np.s_[I[:2, None] // 2, I], np.s_[[1, 0], :, [2, 3]], np.s_[None, :, I], np.s_[:, I.reshape(3, 1)], np.s_[:, 1, I],
    np.s_[[True, False]], np.s_[:, [True, False, True]], np.s_[()], np.s_[[]], np.s_[:, [7]], np.s_[0, 0, 0, 0],
    np.s_[:, I, :, None], np.s_[..., I], np.s_[I[1], I[1:2]], np.s_[:, np.int64(1)], np.s_[[0, 5], [0, 0]], np.s_[1.5],
    np.s_[:, ::-1, ::-1], np.s_[3:1], np.s_[I[:2] - 1, ..., None], np.s_[:, [0, 1], ..., [0, 3]],
    np.s_[:, 1, ..., [0, 3]], np.s_[:, [0, 1], None, ..., [0, 3]], np.s_[..., [0, 1], [0, 3]],
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(INDICES)))
def test_an_index_agrees_with_numpy(case):
    agrees(lambda a: a[INDICES[case]], sample((2, 3, 4), "float32"))


def test_traced_indices_gather_as_numpy_does():
    x, i = sample((5, 3), "float32"), np.array([4, 0, -2, 1])
    agrees(lambda a, k: a[k], x, i)
    agrees(lambda a, k: a[np.arange(4), k % 3], x, i)
    agrees(lambda a, k: np.take(a, k, axis=0), x, i)
    agrees(lambda a, k: np.take(a, k), x, i)
    agrees(lambda a, k: a.take(k, axis=1, mode="wrap"), x, i)
    agrees(lambda a, k: np.take(a, k, axis=1, mode="clip"), x, i)
    agrees(lambda a, k: np.take_along_axis(a, k[:3][None], 0), x, i)
    agrees(lambda a: np.take_along_axis(a, np.argmax(a, 1, keepdims=True), 1), x)
    agrees(lambda a: np.take_along_axis(a, np.array([1, 2]), None), x)


PRODUCTS = [
    (np.matmul, (3,), (3,)), (np.matmul, (2, 3), (3,)), (np.matmul, (3,), (3, 2)), (np.matmul, (2, 3), (3, 4)),
    (np.matmul, (5, 1, 2, 3), (4, 3, 2)), (np.matmul, (3,), (2, 3, 4)), (np.matmul, (2, 4, 3), (3,)),
    (np.matmul, (0, 3), (3, 2)), (np.matmul, (2, 0), (0, 3)), (np.matmul, (2, 3), (2, 3)), (np.matmul, (), (3,)),
    (np.dot, (), (3,)), (np.dot, (3,), (3,)), (np.dot, (2, 3), (3, 4)), (np.dot, (2, 4, 3), (3,)),
    (np.dot, (3,), (2, 3, 4)),
    (np.dot, (2, 4, 3), (5, 3, 2)), (np.inner, (2, 3), (4, 3)), (np.inner, (3,), (3,)), (np.inner, (), (3,)),
    (np.outer, (2, 3), (4,)), (np.vdot, (2, 3), (3, 2)), (np.kron, (2, 3), (3,)), (np.kron, (2,), (2, 2)),
    (np.tensordot, (2, 3, 4), (3, 4, 5)), (lambda a, b: np.tensordot(a, b, ([0, 2], [1, 0])), (2, 3, 4), (4, 2)),
    (lambda a, b: np.tensordot(a, b, 0), (2,), (3,)), (lambda a, b: np.tensordot(a, b, 1), (2, 3), (3,)),
    (np.vecdot, (2, 3), (2, 3)), (np.matvec, (2, 3), (3,)), (np.vecmat, (2,), (2, 3)),
    (np.linalg.matmul, (2, 2), (2, 2)),
    (np.multiply.outer, (2, 1), (3,)), (np.add.outer, (), (2,)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_a_product_agrees_with_numpy(case):
    function, m, n = PRODUCTS[case]
    for dtype in DTYPES:
        agrees(function, sample(m, dtype), sample(n, dtype, 1))
    agrees(function, sample(m, "float32"), sample(n, "int64", 1))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (2, 3)),
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->", (2, 3)), ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("i...->...", (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ijk,ilm,njm,nlk,abc->", (2, 3, 2), (2, 3, 2), (2, 3, 2), (2, 3, 2), (2, 2, 2)),
    ("ij,ij->i", (2, 3), (2, 3)), ("ab,bc->", (2, 3), (3, 4)), ("iij->j", (2, 2, 3)), ("iji->j", (2, 3, 2)),
    ("ij,kj->k", (2, 3), (4, 3)), ("ij,jk->ik", (2, 1), (3, 4)), ("a,a,a->a", (3,), (3,), (3,)),
    (",ij->ij", (), (2, 3)),
    ("iii->", (2, 2, 2)), ("ij,jk->ik", (2, 3), (4, 5)), ("bi,bi->b", (1, 3), (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("equation", EINSUMS, ids=lambda e: e[0])
def test_einsum_agrees_with_numpy(equation):
    text, *shapes = equation
    for dtype in ("int64", "float32", "float64"):
        agrees(lambda *a: np.einsum(text, *a), *(sample(s, dtype, i) for i, s in enumerate(shapes)))


def test_einsum_by_lists_of_axes_agrees_with_numpy():
    a, b = sample((2, 3), "float64"), sample((3, 4), "float64", 1)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), a, b)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), a, b)
    agrees(lambda x, y: np.einsum("ij,jk->ik", x, y, optimize=True, dtype="float32"), a.astype("f4"), b.astype("f4"))


CHOICES = [
    lambda a: np.where(a > 0, a, 0), lambda a: np.where(a, a, 1.5), lambda a: np.where(a > 0, 1, 0),
    lambda a: np.where(a > 0, 1.0, 0), lambda a: np.where([True, False, True], a, -a),
    lambda a: np.clip(a, 0, 1), lambda a: np.clip(a, None, 1), lambda a: np.clip(a, -1, None), lambda a: a.clip(0.5, 2),
    lambda a: np.clip(a, a.min(), np.float64(1)), lambda a: np.clip(a, min=0), lambda a: np.clip(a, None, None),
    lambda a: np.nan_to_num(a / 0), lambda a: np.nan_to_num(a),
    lambda a: np.nan_to_num(a / 0, nan=1, posinf=2, neginf=3),
    lambda a: np.isclose(a, 1), lambda a: np.isclose(a, a + 1e-9), lambda a: np.isclose(a / 0, a / 0, equal_nan=True),
    lambda a: np.round(a), lambda a: np.round(a / 3, 2), lambda a: a.round(1), lambda a: np.around(a / 7.0, 3),
    lambda a: np.sinc(a), lambda a: np.polyval([1.0, 2, 3], a), lambda a: np.fix(a), lambda a: np.real(a),
    lambda a: np.select([a > 1, a > 0], [a, a * 2], 7), lambda a: np.select([a > 1], [1.5]),
    lambda a: (np.shape(a), np.ndim(a), np.size(a), np.size(a, 0), len(a), a.size, a.ndim, a.shape),
    lambda a: a.astype(np.result_type(a, np.float32)),
    lambda a: (np.iscomplexobj(a), np.isrealobj(a), np.can_cast(a.dtype, "f8")),
    lambda a: np.allclose(a, a), lambda a: np.array_equal(a, a), lambda a: np.array_equal(a, a[0]),
    lambda a: np.add(a, 1, dtype="float64"), lambda a: np.multiply(a, a, dtype="float32"),
    lambda a: np.sqrt(a * a, dtype="f8"),
    lambda a: a + [1, 2, 3],  # noqa: RUF005
    lambda a: np.float32(2) * a,
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CHOICES)))
def test_a_choice_or_question_agrees_with_numpy(case):
    for dtype in DTYPES:
        agrees(CHOICES[case], sample((2, 3), dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64"])
def test_integers_beyond_the_dtype_agree_with_numpy(dtype):
    x = np.array([0, 1, 100], dtype)
    for fn in (
        lambda a: a < 300,
        lambda a: a > -1,
        lambda a: a == 2**70,
        lambda a: a + 300,
        lambda a: a >= -(2**70),
        lambda a: a * -1,
    ):
        agrees(fn, x)


def test_scipy_ufuncs_agree_where_intermediate_values_are_extreme():
    x = np.array([-1e4, -30, 0, 30, 1e4, np.inf, -np.inf, np.nan])
    for function in (scipy.special.expit, scipy.special.erf, scipy.special.erfc, scipy.special.ndtr):
        agrees(function, x)
    agrees(np.logaddexp2, x, x[::-1].copy())
    agrees(np.fmod, x, np.full(8, 3.0))
    agrees(np.modf, x)


def test_every_registered_function_is_a_numpy_function():
    assert all(callable(f) and f.__module__.split(".")[0] == "numpy" for f in TRACED_FUNCTIONS)
