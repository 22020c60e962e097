"""Further uses of NumPy's functions and of arrays' methods in which views, copies and memory order are what matters."""

from __future__ import annotations

import copy

import numpy as np

from tests.frontends.numpy_cases import Case, I

ORDERS = "CFAK"

COPIES: dict[str, tuple[Case, ...]] = {
    "np.array": (
        *(lambda x, o=o: np.array(x, order=o) for o in ORDERS),
        *(lambda x, o=o: np.array(x, copy=None, order=o) for o in ORDERS),
        *(lambda x, o=o: np.array(x, copy=False, order=o) for o in ORDERS),
        lambda x: np.array(x, "f4"), lambda x: np.array(x, "f4", copy=None, order="F"),
        lambda x: np.array(x, "f4", copy=False), lambda x: np.array(x, x.dtype, copy=False),
        lambda x: np.array(x, copy=None, ndmin=4), lambda x: np.array([x, x], order="F"), lambda x: np.array([x]),
        lambda x: np.array([x, x], copy=False), lambda x: np.array(x, copy=np._CopyMode.IF_NEEDED),
    ),
    "np.asarray": (
        *(lambda x, o=o: np.asarray(x, order=o) for o in ORDERS),
        *(lambda x, o=o: np.asarray(x, order=o, copy=True) for o in ORDERS),
        *(lambda x, o=o: np.asarray(x, order=o, copy=False) for o in ORDERS),
        *(lambda x, o=o: np.asarray(x, "f4", order=o) for o in ORDERS),
        lambda x: np.asarray(x, x.dtype), lambda x: np.asanyarray(x, order="F"), lambda x: np.asanyarray(x, copy=True),
        lambda x: np.asarray(x[0]), lambda x: np.asarray(x.T, order="C"), lambda x: np.asarray(x[::2], order="C"),
    ),
    "np.ascontiguousarray": (
        np.ascontiguousarray, lambda x: np.ascontiguousarray(x.T), lambda x: np.ascontiguousarray(x[:1]),
        lambda x: np.ascontiguousarray(x, "f4"), lambda x: np.ascontiguousarray(x[:, :1]),
        lambda x: np.ascontiguousarray(x[..., 0]),
    ),
    "np.asfortranarray": (
        np.asfortranarray, lambda x: np.asfortranarray(x.T), lambda x: np.asfortranarray(x, "f4"),
        lambda x: np.asfortranarray(x[0]), lambda x: np.asfortranarray(x + 1),
    ),
    "np.require": (
        np.require, *(lambda x, r=r: np.require(x, requirements=r) for r in ("C", "F", "W", "A", ["C", "W"], ["F",
        "A"], "fw", ["f_contiguous", "Writeable"])),
        lambda x: np.require(x, "f4", "F"), lambda x: np.require(np.broadcast_to(x, (2, *x.shape)), None, "W"),
    ),
    "astype": (
        *(lambda x, o=o: x.astype("f4", o) for o in ORDERS),
        *(lambda x, o=o: x.astype(x.dtype, o) for o in ORDERS),
        *(lambda x, o=o: x.astype(x.dtype, o, copy=False) for o in ORDERS),
        lambda x: np.astype(x, x.dtype), lambda x: np.astype(x, x.dtype, copy=False),
        lambda x: x.T.astype(x.dtype, "A", copy=False),
    ),
    "copy": (
        *(lambda x, o=o: x.copy(o) for o in ORDERS), *(lambda x, o=o: np.copy(x, o) for o in ORDERS),
        *(lambda x, o=o: x.T.copy(o) for o in ORDERS), copy.copy, copy.deepcopy, lambda x: (x + x.T.T).copy("K"),
        lambda x: x[::2].copy("A"), lambda x: np.swapaxes(x, 0, -1).copy("K"),
    ),
    "ravel": (
        *(lambda x, o=o: x.ravel(o) for o in ORDERS), *(lambda x, o=o: x.T.ravel(o) for o in ORDERS),
        *(lambda x, o=o: x.flatten(o) for o in ORDERS), *(lambda x, o=o: x[..., ::2].ravel(o) for o in ORDERS),
        *(lambda x, o=o: (x + 1).ravel(o) for o in ORDERS), *(lambda x, o=o: x[::-1].ravel(o) for o in ORDERS),
        lambda x: x[0].ravel(), lambda x: x[..., 0].ravel(), lambda x: x[:, :1].ravel("F"),
        lambda x: np.broadcast_to(x, (2, *x.shape)).ravel("K"),
    ),
    "reshape": (
        *(lambda x, o=o: x.reshape(-1, order=o) for o in "CFA"),
        *(lambda x, o=o: x.reshape(-1, order=o, copy=False) for o in "CFA"),
        *(lambda x, o=o: x.reshape(2, -1, order=o, copy=True) for o in "CFA"),
        *(lambda x, o=o: x.T.reshape(2, -1, order=o) for o in "CFA"),
        *(lambda x, o=o: (x * 2).reshape(-1, 2, order=o) for o in "CFA"),
        lambda x: x[:, ::2].reshape(-1), lambda x: x[:1].reshape(-1), lambda x: x[..., None].reshape(-1),
        lambda x: x[0].reshape(-1, 1), lambda x: x[::-1].reshape(-1), lambda x: x.reshape(x.shape),
    ),
    "like": (
        *(lambda x, o=o: np.zeros_like(x, order=o) for o in ORDERS),
        *(lambda x, o=o: np.full_like(x.T, 2, order=o) for o in ORDERS), lambda x: np.ones_like(x, "f4"),
        lambda x: np.zeros_like(x, shape=x.shape[::-1]), lambda x: np.zeros(x.shape, order="F"),
        lambda x: np.full(x.shape, 3.0, order="F"), lambda x: np.ones(x.shape[::-1]).T,
    ),
    "itself": (
        lambda x: x.round(), lambda x: np.round(x), lambda x: x.conj(), lambda x: x.real, lambda x: np.real(x),
        lambda x: np.diff(x, 0), lambda x: np.real_if_close(x), lambda x: np.linalg.matrix_power(x @ x.T, 1),
        lambda x: np.broadcast_arrays(x, x), lambda x: np.squeeze(x), lambda x: x.squeeze(), lambda x: x[()],
        lambda x: x[...],
        lambda x: np.rot90(x, 0), lambda x: np.rot90(x, 4), lambda x: np.tile(x, 1), lambda x: np.roll(x, 0),
        lambda x: np.repeat(x, 1, 0), lambda x: np.pad(x, 0), lambda x: np.positive(x), lambda x: x.view(),
        lambda x: np.nan_to_num(x, copy=False), lambda x: x.clip(None, None) if False else np.clip(x, -9, 9),
        lambda x: np.atleast_1d(x, x[0]), lambda x: np.atleast_2d(x, x[0]), lambda x: np.atleast_3d(x, x[0]),
        lambda x: np.concatenate([x]), lambda x: np.stack([x])[0], lambda x: np.delete(x, []),
        lambda x: np.resize(x, x.shape),
        lambda x: np.sum(x, ()), lambda x: np.max(x, ()), lambda x: np.block(x), lambda x: np.block([[x]]),
        lambda x: +x,
        lambda x: np.meshgrid(x[0], x[0], copy=False), lambda x: np.meshgrid(x[0], x[0], sparse=True),
        lambda x: np.meshgrid(x[0], x[0], sparse=True, copy=False),
        lambda x: np.ix_(x[0].astype(int), x[0].astype(int)),
        lambda x: np.unravel_index(abs(x[0]).astype(int), (9,)), lambda x: np.append(x, []), lambda x: x.flat[1:4],
        lambda x: x.flat[[0, 1]], lambda x: x.flat.copy(), lambda x: x.diagonal(),
        lambda x: np.histogram_bin_edges(x, x[0]), lambda x: np.gradient(x[0], x[0]), lambda x: np.trim_zeros(x[0]),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0),
        lambda x: np.piecewise(x, [x > 0], [x.dtype.type(1)]),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0, writeable=True),
    ),
    "einsum": (
        lambda x: np.einsum("ij->ji", x), lambda x: np.einsum("ij", x), lambda x: np.einsum("ii->i", x @ x.T),
        lambda x: np.einsum("ii->i", x[:2, :2]), lambda x: np.einsum("...", x),
        lambda x: np.einsum("ij->ij", x, dtype="f4"),
        lambda x: np.einsum("ij->i", x), lambda x: np.einsum("ij,ij->ij", x, x), lambda x: np.einsum(x, [0, 1], [1, 0]),
        lambda x: np.einsum("ij->ji", x, optimize=True), lambda x: np.einsum("ij->ji", x, order="C"),
    ),
    "indexing": (
        lambda x: x[[0, 1]], lambda x: x[:, [0, 1]], lambda x: x[:, I], lambda x: x[[[0], [1]], [0, 1]],
        lambda x: x[np.array([[0, 1], [1, 0]]).T], lambda x: x[..., np.arange(2)], lambda x: x[x[0].astype(int) * 0],
        lambda x: x[:, np.array([True] + [False] * (x.shape[1] - 1))], lambda x: x[[0, 1], :, None],
        lambda x: x.take([0, 1], axis=1), lambda x: np.take(x, [[0, 1], [1, 0]], axis=-1), lambda x: x[0, ..., [0, 1]],
        lambda x: x[:, None, [0, 1]], lambda x: x[[1, 0]][:, [0, 1]], lambda x: x.T[[0, 1]], lambda x: x.T[:, [0, 1]],
        lambda x: np.compress([True, True], x, axis=1), lambda x: x.compress([True, True], 0),
    ),
    "computed": (
        lambda x: x + 1, lambda x: x.T * 2, lambda x: x + x.T.T, lambda x: x[::-1] - x, lambda x: x + x[0],
        lambda x: x[:, None] + x[None], lambda x: x.T + x.T, lambda x: x.sum(0, keepdims=True) + x,
        lambda x: abs(x[:, ::2]),
        lambda x: np.where(x > 0, x, x.T.T), lambda x: np.where(x[0] > 0, x, 0),
        lambda x: np.add(x, x, out=np.ones_like(x), where=x > 0),
        lambda x: x @ x.T, lambda x: x.T @ x, lambda x: np.matmul(x[None], x.T[None]), lambda x: np.dot(x, x.T),
        lambda x: np.sum(x[None], 0), lambda x: np.cumsum(x, 0), lambda x: np.sort(x, 0), lambda x: np.sort(x.T, 0),
        lambda x: np.add.reduce(x[..., None], -1), lambda x: np.add.accumulate(x, 1),
        lambda x: np.multiply.outer(x[0], x[0]),
        lambda x: np.add.outer(x, x[0]), lambda x: np.stack([x, x]), lambda x: np.stack([x.T, x.T], -1),
        lambda x: divmod(x, 2),
        lambda x: np.modf(x / 2), lambda x: np.frexp(x / 2), lambda x: -x.T[::-1],
        lambda x: x.astype("f4") + x, lambda x: x.mean(0),
        lambda x: (x + 1)[::2] * 2, lambda x: (x.T + 1).T + 0, lambda x: np.exp(np.swapaxes(x[None], 0, 1)),
        lambda x: ~(x > 0),
        lambda x: np.argsort(x, 0, kind="stable"), lambda x: x.var(axis=0, keepdims=True) + x, lambda x: np.tril(x.T),
        lambda x: np.concatenate([x.T, x.T]), lambda x: np.hstack([x, x]), lambda x: np.vstack([x.T, x.T]),
        lambda x: np.pad(x.T, 1),
        lambda x: np.roll(x.T, 1, 0), lambda x: np.flip(x.T, 0) + 1, lambda x: np.fft.fft(x, axis=0),
        lambda x: np.diff(x.T, axis=0),
        lambda x: np.linalg.solve(x[:2, :2] + 9 * np.eye(2), x[:2]), lambda x: np.linalg.inv(x[:2, :2] + 9 * np.eye(2)),
        lambda x: np.linalg.qr(x), lambda x: np.cross(x[:, :3], x[:, :3]), lambda x: np.median(x[None], 0),
        lambda x: np.kron(x, x),
    ),
}  # fmt: skip
