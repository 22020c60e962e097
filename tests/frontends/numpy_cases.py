"""Uses of NumPy's overridable functions, by name: each a function of one array that NumPy and a trace must agree on.

A case that NumPy itself refuses for some shape or dtype must be refused when traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], Any]
I = np.array([2, 0, -1])  # noqa: E741


def _mask(x: Any) -> Any:
    return x > 0


MOVES: dict[str, tuple[Case, ...]] = {
    "np.append": (lambda x: np.append(x, 3), lambda x: np.append(x, x, 0), lambda x: np.append(x, x, axis=-1)),
    "np.array_split": (lambda x: np.array_split(x, 3), lambda x: np.array_split(x, [1, 3], axis=-1)),
    "np.astype": (lambda x: np.astype(x, "float64"), lambda x: np.astype(x, "int16", copy=False)),
    "np.atleast_1d": (np.atleast_1d, lambda x: np.atleast_1d(x, x)),
    "np.atleast_2d": (np.atleast_2d, lambda x: np.atleast_2d(x, 2.5)),
    "np.atleast_3d": (np.atleast_3d,),
    "np.block": (lambda x: np.block([x, x]), lambda x: np.block([[x, x], [x, x]]), lambda x: np.block([[x], [1]])),
    "np.broadcast_arrays": (lambda x: np.broadcast_arrays(x, np.zeros((3, 1))), lambda x: np.broadcast_arrays(x)),
    "np.broadcast_to": (lambda x: np.broadcast_to(x, (2, *x.shape)), lambda x: np.broadcast_to(x, (7, 7))),
    "np.choose": (
        lambda x: np.choose(np.array([[0, 1, 1]]), [x, x[::-1]]), lambda x: np.choose(x % 9, [7, x, 2], mode="wrap"),
        lambda x: np.choose(x, [7, x, 2], mode="clip"), lambda x: np.choose(abs(x).astype(int) % 2, [x, 1]),
        lambda x: np.choose(x, [x, x]),
    ),
    "np.column_stack": (lambda x: np.column_stack([x, x]), lambda x: np.column_stack([x[0], x[-1], I])),
    "np.compress": (
        lambda x: np.compress([True, False], x), lambda x: np.compress([0, 1, 1], x, axis=-1),
        lambda x: np.compress([[True]], x), lambda x: np.compress([True, False], x.sum(), axis=0),
    ),
    "np.concatenate": (
        lambda x: np.concatenate((x, x)), lambda x: np.concatenate((x, x, x[..., :1]), axis=-1),
        lambda x: np.concatenate((x, [1.5]), axis=None), lambda x: np.concatenate([x, x], dtype="f4", casting="unsafe"),
        lambda x: np.concatenate([x, x], 0, dtype="i2"), lambda x: np.concatenate(x), lambda x: np.concatenate([]),
    ),
    "np.copy": (np.copy, lambda x: np.copy(x, order="F", subok=True)),
    "np.delete": (
        lambda x: np.delete(x, 1), lambda x: np.delete(x, [0, -1], axis=0), lambda x: np.delete(x, slice(1, None), -1),
        lambda x: np.delete(x, [True, False, True], -1), lambda x: np.delete(x, 9, 0),
    ),
    "np.diag": (np.diag, lambda x: np.diag(x, 1), lambda x: np.diag(x, k=-2)),
    "np.diagflat": (np.diagflat, lambda x: np.diagflat(x, -1)),
    "np.diagonal": (np.diagonal, lambda x: np.diagonal(x, 1, -1, 0)),
    "np.dsplit": (lambda x: np.dsplit(x, 2), lambda x: np.dsplit(x, [1])),
    "np.dstack": (lambda x: np.dstack([x, x]), lambda x: np.dstack([x[0], I])),
    "np.expand_dims": (lambda x: np.expand_dims(x, 0), lambda x: np.expand_dims(x, (0, -1))),
    "np.extract": (lambda x: np.extract([True, False, True], x), lambda x: np.extract(np.ones((2, 3), bool), x)),
    "np.flip": (np.flip, lambda x: np.flip(x, 0), lambda x: np.flip(x, axis=(0, -1))),
    "np.fliplr": (np.fliplr,),
    "np.flipud": (np.flipud,),
    "np.hsplit": (lambda x: np.hsplit(x, 3), lambda x: np.hsplit(x, [1, 2])),
    "np.hstack": (lambda x: np.hstack([x, x]), lambda x: np.hstack([x, I, 1.5]), lambda x: np.hstack([x], dtype="f8")),
    "np.insert": (
        lambda x: np.insert(x, 1, 7), lambda x: np.insert(x, [0, 2], 7, axis=0),
        lambda x: np.insert(x, 1, x[..., 0], -1),
        lambda x: np.insert(x, [1], x[..., :1], -1), lambda x: np.insert(x, slice(0, 2), [1, 2]),
        lambda x: np.insert(x, 99, 7),
    ),
    "np.ix_": (lambda x: np.ix_(x.ravel().astype(int), [1, 2]),),
    "np.matrix_transpose": (np.matrix_transpose,),
    "np.linalg.matrix_transpose": (np.linalg.matrix_transpose,),
    "np.meshgrid": (
        lambda x: np.meshgrid(x.ravel(), [1, 2]), lambda x: np.meshgrid(x, x, indexing="ij", sparse=True),
        lambda x: np.meshgrid(x, [1.5], x, copy=False), lambda x: np.meshgrid(x),
    ),
    "np.moveaxis": (lambda x: np.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, [0, 1], [1, 0])),
    "np.pad": (
        lambda x: np.pad(x, 1), lambda x: np.pad(x, ((2, 1),), constant_values=3), lambda x: np.pad(x, 2, "edge"),
        lambda x: np.pad(x, 3, "reflect"), lambda x: np.pad(x, (1, 4), "symmetric"), lambda x: np.pad(x, 5, "wrap"),
        lambda x: np.pad(x, 1, constant_values=(1, 2)), lambda x: np.pad(x, {-1: (0, 3)}, "edge"),
    ),
    "np.permute_dims": (np.permute_dims,),
    "np.ravel": (np.ravel, lambda x: np.ravel(x, "F")),
    "np.repeat": (
        lambda x: np.repeat(x, 2), lambda x: np.repeat(x, [1, 0, 2], axis=-1), lambda x: np.repeat(x, 0, axis=0),
    ),
    "np.reshape": (
        lambda x: np.reshape(x, -1), lambda x: np.reshape(x, (3, -1), order="F"),
        lambda x: np.reshape(x, (1, *x.shape)),
        lambda x: np.reshape(x, x.shape[::-1], copy=True),
    ),
    "np.resize": (lambda x: np.resize(x, 7), lambda x: np.resize(x, (2, 2)), lambda x: np.resize(x, (0, 3))),
    "np.roll": (
        lambda x: np.roll(x, 1), lambda x: np.roll(x, -9), lambda x: np.roll(x, -5, axis=0),
        lambda x: np.roll(x, (1, 2), (0, -1)), lambda x: np.roll(x, 1, axis=(0, 1)),
    ),
    "np.rollaxis": (lambda x: np.rollaxis(x, 1), lambda x: np.rollaxis(x, -1, 0)),
    "np.rot90": (
        np.rot90, lambda x: np.rot90(x, 2), lambda x: np.rot90(x, -1, (1, 0)), lambda x: np.rot90(x, 1, (0, 0)),
    ),
    "np.split": (lambda x: np.split(x, 2), lambda x: np.split(x, [1], axis=-1), lambda x: np.split(x, 3, axis=-1)),
    "np.squeeze": (np.squeeze, lambda x: np.squeeze(x[None], 0), lambda x: np.squeeze(x, axis=-1)),
    "np.stack": (
        lambda x: np.stack([x, x]), lambda x: np.stack([x, x, x], axis=-1), lambda x: np.stack(x),
        lambda x: np.stack((x, x), dtype="f4", casting="unsafe"), lambda x: np.stack([x, [1]]),
    ),
    "np.swapaxes": (lambda x: np.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, 5)),
    "np.take": (
        lambda x: np.take(x, I), lambda x: np.take(x, I, axis=-1), lambda x: np.take(x, [[1, 7]], 0, mode="wrap"),
        lambda x: np.take(x, 9, axis=0, mode="clip"), lambda x: np.take(x, 0, axis=-1), lambda x: np.take(x, 99),
    ),
    "np.take_along_axis": (
        lambda x: np.take_along_axis(x, np.argsort(np.zeros(x.shape), axis=-1), -1),
        lambda x: np.take_along_axis(x, I, None), lambda x: np.take_along_axis(x, np.zeros((1,) * x.ndim, int), 0),
    ),
    "np.tile": (lambda x: np.tile(x, 2), lambda x: np.tile(x, (2, 1, 3)), lambda x: np.tile(x, 0)),
    "np.transpose": (np.transpose, lambda x: np.transpose(x, (1, 0)), lambda x: np.transpose(x, range(x.ndim))),
    "np.tril": (np.tril, lambda x: np.tril(x, -1)),
    "np.triu": (np.triu, lambda x: np.triu(x, k=1)),
    "np.unstack": (np.unstack, lambda x: np.unstack(x, axis=-1)),
    "np.vsplit": (lambda x: np.vsplit(x, 2), lambda x: np.vsplit(x, [1])),
    "np.vstack": (lambda x: np.vstack([x, x]), lambda x: np.vstack((x, I), dtype="f4", casting="unsafe")),
    "np.where": (
        lambda x: np.where(x > 0, x, 2), lambda x: np.where(x, x, x[..., :1]), lambda x: np.where(I > 0, x, -1.5),
    ),
    "np.select": (
        lambda x: np.select([_mask(x), x < 0], [x, x[::-1]], default=2), lambda x: np.select([_mask(x)], [1.5]),
        lambda x: np.select([x], [x]),
    ),
    "np.piecewise": (
        lambda x: np.piecewise(x, [x < 1, x > 1], [1, 2]), lambda x: np.piecewise(x, x < 1, [lambda v: v * 2 + 1, 7]),
        lambda x: np.piecewise(x, [x > 1], [lambda v, k: v + k, 5], 3), lambda x: np.piecewise(x, [x > 1], [1, 2, 3]),
    ),
    "np.apply_along_axis": (
        lambda x: np.apply_along_axis(lambda row: row[::-1], -1, x), lambda x: np.apply_along_axis(np.max, 0, x),
        lambda x: np.apply_along_axis(lambda row, k: np.outer(row[:2], row) * k, 1, x, k=3),
    ),
    "np.apply_over_axes": (
        lambda x: np.apply_over_axes(np.max, x, 0), lambda x: np.apply_over_axes(np.sum, x, [0, -1]),
    ),
    "np.zeros_like": (np.zeros_like, lambda x: np.zeros_like(x, dtype="i2", order="F", shape=(2, 2))),
    "np.ones_like": (np.ones_like, lambda x: np.ones_like(x, "f4", subok=False)),
    "np.full_like": (lambda x: np.full_like(x, 2), lambda x: np.full_like(x, 2.5, dtype="f8", shape=3)),
    "np.empty_like": (lambda x: np.empty_like(x).shape, lambda x: np.empty_like(x, "f4", shape=(3,)).dtype),
    "np.unravel_index": (
        lambda x: np.unravel_index(abs(x), (3, 30)), lambda x: np.unravel_index(x, (2, 2)),
        lambda x: np.unravel_index(abs(x), (5, 7), order="F"),
    ),
    "np.ravel_multi_index": (
        lambda x: np.ravel_multi_index((abs(x), abs(x)), (30, 20)), lambda x: np.ravel_multi_index((x, x), (2, 2)),
        lambda x: np.ravel_multi_index((x, 1), (3, 4), mode=("wrap", "clip"), order="F"),
    ),
    "np.tril_indices_from": (np.tril_indices_from, lambda x: np.tril_indices_from(x, 1)),
    "np.triu_indices_from": (np.triu_indices_from, lambda x: np.triu_indices_from(x, -1)),
    "np.diag_indices_from": (np.diag_indices_from,),
    "np.packbits": (
        np.packbits, lambda x: np.packbits(x, axis=0), lambda x: np.packbits(x, axis=-1, bitorder="little"),
    ),
    "np.unpackbits": (
        lambda x: np.unpackbits(x.astype("u1")), lambda x: np.unpackbits(x, axis=-1),
        lambda x: np.unpackbits(x.astype("u1"), axis=0, count=-2, bitorder="little"),
    ),
    "np.isin": (lambda x: np.isin(x, [1, 2.5]), lambda x: np.isin(x, x[..., :1], invert=True), lambda x: np.isin(I, x)),
}  # fmt: skip


def _changed(change: Case) -> Case:
    """What `change` leaves in a copy of the array."""

    def changed_copy(x: Any) -> Any:
        copy = np.array(x)
        change(copy)
        return copy

    return changed_copy


WRITES: dict[str, tuple[Case, ...]] = {
    "np.copyto": tuple(map(_changed, (
        lambda x: np.copyto(x, 1), lambda x: np.copyto(x, x[::-1]), lambda x: np.copyto(x, 1.5),
        lambda x: np.copyto(x, 7, where=x > 0), lambda x: np.copyto(x, I, casting="unsafe", where=[True, False, True]),
    ))),
    "np.fill_diagonal": tuple(map(_changed, (
        lambda x: np.fill_diagonal(x, 3), lambda x: np.fill_diagonal(x, [1, 2]),
        lambda x: np.fill_diagonal(x.T, 1, wrap=True),
    ))),
    "np.place": tuple(map(_changed, (
        lambda x: np.place(x, x > 0, [1, 2]), lambda x: np.place(x, x == 0, x[:1] + x[:1]),
        lambda x: np.place(x, x > 0, 3),
    ))),
    "np.put": tuple(map(_changed, (
        lambda x: np.put(x, [0, 2], [3, 4]), lambda x: np.put(x, [1, 1, -1], x), lambda x: np.put(x, 9, 1, mode="clip"),
        lambda x: np.put(x, [9, -7], 1, mode="wrap"), lambda x: np.put(x, 99, 1), lambda x: np.put(x, [0, 1, 2], [5]),
    ))),
    "np.put_along_axis": tuple(map(_changed, (
        lambda x: np.put_along_axis(x, np.zeros((*x.shape[:-1], 1), int), 3, axis=-1),
        lambda x: np.put_along_axis(x, np.argsort(np.zeros(x.shape), 0), x[::-1], axis=0),
        lambda x: np.put_along_axis(x, I, [1, 2, 3], None),
    ))),
    "np.putmask": tuple(map(_changed, (
        lambda x: np.putmask(x, x > 0, 2), lambda x: np.putmask(x, x > 0, x[..., ::-1]),
        lambda x: np.putmask(x, x < 1, [1, 2]),
    ))),
}  # fmt: skip

LIKE: dict[str, tuple[Case, ...]] = {
    "np.arange": (lambda x: np.arange(3, like=x) + x[..., :1], lambda x: np.arange(1, 9, 2.5, dtype="f4", like=x)),
    "np.array": (lambda x: np.array(x), lambda x: np.array([x, x]), lambda x: np.array([1, 2], "f4", like=x, ndmin=2)),
    "np.asanyarray": (lambda x: np.asanyarray(x), lambda x: np.asanyarray([1, 2], like=x)),
    "np.asarray": (lambda x: np.asarray(x), lambda x: np.asarray([x, x], "f4"), lambda x: np.asarray(5, like=x)),
    "np.ascontiguousarray": (lambda x: np.ascontiguousarray(x), lambda x: np.ascontiguousarray(3, like=x)),
    "np.asfortranarray": (lambda x: np.asfortranarray(x), lambda x: np.asfortranarray([[1, 2]], like=x)),
    "np.empty": (lambda x: np.empty((2, 3), like=x).shape,),
    "np.eye": (lambda x: np.eye(2, 3, 1, like=x),),
    "np.frombuffer": (lambda x: np.frombuffer(b"12345678", "i4", like=x),),
    "np.fromfunction": (lambda x: np.fromfunction(lambda i, j: i + j, (2, 3), like=x),),
    "np.fromiter": (lambda x: np.fromiter([1, 2], float, like=x),),
    "np.fromstring": (lambda x: np.fromstring("1 2", sep=" ", like=x),),
    "np.full": (lambda x: np.full((2, 3), 7, like=x), lambda x: np.full(3, x[0], dtype="f4")),
    "np.identity": (lambda x: np.identity(3, "i2", like=x),),
    "np.ones": (lambda x: np.ones(3, like=x) + x[..., :1],),
    "np.require": (lambda x: np.require(x, "f8"), lambda x: np.require([1, 2], requirements="C", like=x)),
    "np.tri": (lambda x: np.tri(2, 3, like=x),),
    "np.zeros": (lambda x: np.zeros((2, 1), "i4", like=x),),
}  # fmt: skip

QUESTIONS: dict[str, tuple[Case, ...]] = {
    "np.all": (np.all, lambda x: np.all(x, axis=-1), lambda x: np.all(x, 0, keepdims=True)),
    "np.any": (np.any, lambda x: np.any(x, axis=(0, -1)), lambda x: np.any(x > 0, axis=0)),
    "np.allclose": (lambda x: np.allclose(x, x), lambda x: np.allclose(x, x + 1, rtol=2, atol=0, equal_nan=True)),
    "np.array_equal": (
        lambda x: np.array_equal(x, x), lambda x: np.array_equal(x, x + 1),
        lambda x: np.array_equal(x, x, equal_nan=True),
        lambda x: np.array_equal(x, [1]),
    ),
    "np.array_equiv": (lambda x: np.array_equiv(x, x), lambda x: np.array_equiv(x, 1), lambda x: np.array_equiv(x, I)),
    "np.argmax": (np.argmax, lambda x: np.argmax(x, 0), lambda x: np.argmax(x, axis=-1, keepdims=True)),
    "np.argmin": (np.argmin, lambda x: np.argmin(x, 0), lambda x: np.argmin(x, axis=-1, keepdims=True)),
    "np.can_cast": (lambda x: np.can_cast(x.dtype, "f8"),),
    "np.common_type": (np.common_type, lambda x: np.common_type(x, np.zeros(1, "f4"))),
    "np.count_nonzero": (np.count_nonzero, lambda x: np.count_nonzero(x, axis=-1, keepdims=True)),
    "np.einsum_path": (lambda x: np.einsum_path("ij,kj->ik", x, x)[0][1],),
    "np.isclose": (
        lambda x: np.isclose(x, 1), lambda x: np.isclose(x, x, equal_nan=True),
        lambda x: np.isclose(x, x + 1, rtol=2, atol=0),
    ),
    "np.iscomplexobj": (np.iscomplexobj,),
    "np.isrealobj": (np.isrealobj,),
    "np.iscomplex": (np.iscomplex,),
    "np.isreal": (np.isreal,),
    "np.isneginf": (np.isneginf, lambda x: np.isneginf(-1 / x)),
    "np.isposinf": (np.isposinf, lambda x: np.isposinf(1 / x)),
    "np.min_scalar_type": (lambda x: np.min_scalar_type(x[None]),),
    "np.ndim": (np.ndim,),
    "np.result_type": (lambda x: np.result_type(x, np.float32), lambda x: np.result_type(x, 1)),
    "np.shape": (np.shape,),
    "np.size": (np.size, lambda x: np.size(x, 0)),
}  # fmt: skip

NUMBERS: dict[str, tuple[Case, ...]] = {
    "np.amax": (lambda x: np.amax(x), lambda x: np.max(x, (0, -1))),
    "np.amin": (lambda x: np.amin(x), lambda x: np.min(x, 0, keepdims=True)),
    "np.max": (np.max, lambda x: np.max(x, axis=-1), lambda x: np.max(x, 0, initial=1)),
    "np.min": (np.min, lambda x: np.min(x, axis=-1), lambda x: np.min(x, 0, initial=1)),
    "np.angle": (np.angle, lambda x: np.angle(x, deg=True)),
    "np.around": (np.around, lambda x: np.around(x, 1)),
    "np.average": (
        np.average, lambda x: np.average(x, axis=0, returned=True), lambda x: np.average(x, -1, weights=abs(x) + 1),
    ),
    "np.clip": (
        lambda x: np.clip(x, 0, 1), lambda x: np.clip(x, None, 2), lambda x: np.clip(x, min=x[..., :1]),
        lambda x: np.clip(x, 0, 1.5, dtype="f8"),
    ),
    "np.cross": (
        lambda x: np.cross(x, x[..., ::-1]), lambda x: np.cross(x, I), lambda x: np.cross(x, x, axis=0),
        lambda x: np.cross(x, [1, 2], axisc=0), lambda x: np.cross(x[0, :2], x[1, :2]),
    ),
    "np.cumsum": (np.cumsum, lambda x: np.cumsum(x, axis=0), lambda x: np.cumsum(x, -1, dtype="f8")),
    "np.diff": (
        np.diff, lambda x: np.diff(x, 2, axis=0), lambda x: np.diff(x, prepend=0),
        lambda x: np.diff(x, append=x, axis=0),
    ),
    "np.dot": (lambda x: np.dot(x, x), lambda x: np.dot(x, x.T), lambda x: np.dot(x, 3)),
    "np.ediff1d": (np.ediff1d, lambda x: np.ediff1d(x, to_end=[1, 2], to_begin=x)),
    "np.einsum": (
        lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.einsum("...i->...", x),
        lambda x: np.einsum(x, [0, 1], [1, 0]),
        lambda x: np.einsum("i,i", x, x, optimize=False),
    ),
    "np.fix": (np.fix,),
    "np.geomspace": (
        lambda x: np.geomspace(abs(x) + 1, 64, 4), lambda x: np.geomspace(-1, -8 - abs(x), 3, endpoint=False, axis=-1),
    ),
    "np.inner": (lambda x: np.inner(x, x), lambda x: np.inner(x, I)),
    "np.kron": (lambda x: np.kron(x, x), lambda x: np.kron(x, [[1, 2]])),
    "np.linalg.matmul": (lambda x: np.linalg.matmul(x, np.swapaxes(x, -1, -2)),),
    "np.linalg.norm": (
        np.linalg.norm, lambda x: np.linalg.norm(x, 1, axis=-1), lambda x: np.linalg.norm(x, np.inf, keepdims=True),
    ),
    "np.linalg.outer": (lambda x: np.linalg.outer(x, x),),
    "np.linalg.tensordot": (lambda x: np.linalg.tensordot(x, x, axes=1),),
    "np.linspace": (
        lambda x: np.linspace(x, 2, 5), lambda x: np.linspace(0, x, 3, endpoint=False, axis=-1),
        lambda x: np.linspace(x, x + 1, 1, retstep=True), lambda x: np.linspace(x, 9, 4, dtype="i4"),
        lambda x: np.linspace(x, 1, 0),
    ),
    "np.logspace": (
        lambda x: np.logspace(x / 4, 2, 4), lambda x: np.logspace(0, x / 4, 3, base=2, endpoint=False, axis=-1),
    ),
    "np.mean": (np.mean, lambda x: np.mean(x, axis=0), lambda x: np.mean(x, -1, dtype="f8", keepdims=True)),
    "np.nan_to_num": (
        np.nan_to_num, lambda x: np.nan_to_num(x / 0), lambda x: np.nan_to_num(x / 0, nan=1, posinf=2, neginf=3),
    ),
    "np.nanprod": (np.nanprod, lambda x: np.nanprod(x, axis=0)),
    "np.nansum": (np.nansum, lambda x: np.nansum(x / x, axis=-1)),
    "np.outer": (lambda x: np.outer(x, x), lambda x: np.outer(x, I)),
    "np.pad (computed)": (
        lambda x: np.pad(x, 3, "linear_ramp", end_values=(2, 1)), lambda x: np.pad(x, 1, "maximum"),
        lambda x: np.pad(x, (2, 1), "mean", stat_length=2), lambda x: np.pad(x, 2, "minimum", stat_length=(1, 2)),
        lambda x: np.pad(x, 4, "reflect", reflect_type="odd"), lambda x: np.pad(x, 4, "symmetric", reflect_type="odd"),
    ),
    "np.polyval": (lambda x: np.polyval([1, 2, 3], x), lambda x: np.polyval(x, 2)),
    "np.prod": (np.prod, lambda x: np.prod(x, axis=0), lambda x: np.prod(x, -1, dtype="f8", initial=2)),
    "np.ptp": (np.ptp, lambda x: np.ptp(x, axis=-1, keepdims=True)),
    "np.imag": (np.imag,),
    "np.real": (np.real,),
    "np.real_if_close": (lambda x: np.real_if_close(x.real, tol=1),),
    "np.round": (np.round, lambda x: np.round(x / 3, 2), lambda x: np.round(x, -1)),
    "np.sinc": (np.sinc,),
    "np.sort": (np.sort, lambda x: np.sort(x, axis=0), lambda x: np.sort(x, None, kind="stable")),
    "np.std": (np.std, lambda x: np.std(x, axis=0, ddof=1), lambda x: np.std(x, -1, keepdims=True)),
    "np.sum": (np.sum, lambda x: np.sum(x, axis=(0, -1)), lambda x: np.sum(x, 0, dtype="f8", initial=1, keepdims=True)),
    "np.tensordot": (lambda x: np.tensordot(x, x, axes=1), lambda x: np.tensordot(x, x, ([0], [0]))),
    "np.trace": (np.trace, lambda x: np.trace(x, 1, 1, 0, dtype="f8")),
    "np.var": (np.var, lambda x: np.var(x, axis=0, ddof=1), lambda x: np.var(x, -1, correction=1)),
    "np.vdot": (lambda x: np.vdot(x, x),),
}  # fmt: skip
