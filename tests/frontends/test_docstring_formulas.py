"""What the docstrings of NumPy and SciPy say is equal: both spellings, traced and compiled, give NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.special as special

import eqfuse as ef
from tests.frontends.agreement import agrees
from tests.support.some import some

NUMERICS = ("strict", "approximate")

X = np.array([[0.1, 0.7, 1.3, 2.0], [-0.4, -1.1, 0.0, 3.2], [0.9, -2.5, 5.0, -0.05]])
P = np.array([[0.1, 0.25, 0.5], [0.75, 0.9, 0.6]])  # probabilities
Y = np.array([[1.5, 0.2, -1.0, 2.0], [2.0, 0.5, -0.3, 1.1], [-0.7, 1.0, 3.0, 0.4]])
A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
V = np.array([1.0, -2.0, 0.5])
Z = X[:, :3] + 1j * Y[:, :3]
N = np.array([[3, -7, 12], [0, 5, -1]])
M = np.array([[2, 3, -5], [7, -2, 4]])

# the object whose docstring says it, the arrays, and the two spellings
FORMULAS: dict[str, tuple[tuple[np.ndarray, ...], Callable[..., Any], Callable[..., Any]]] = {
    "np.logaddexp": ((X, Y), np.logaddexp, lambda x, y: np.log(np.exp(x) + np.exp(y))),
    "np.logaddexp2": ((X, Y), np.logaddexp2, lambda x, y: np.log2(2**x + 2**y)),
    "np.expm1": ((X,), np.expm1, lambda x: np.exp(x) - 1),
    "np.log1p": ((np.abs(X),), np.log1p, lambda x: np.log(1 + x)),
    "np.hypot": ((X, Y), np.hypot, lambda x, y: np.sqrt(x**2 + y**2)),
    "np.sinc": ((X + 0.01,), np.sinc, lambda x: np.sin(np.pi * x) / (np.pi * x)),
    "np.sinh": ((X,), np.sinh, lambda x: 0.5 * (np.exp(x) - np.exp(-x))),
    "np.cosh": ((X,), np.cosh, lambda x: 0.5 * (np.exp(x) + np.exp(-x))),
    "np.tanh": ((X,), np.tanh, lambda x: np.sinh(x) / np.cosh(x)),
    "np.tan": ((X,), np.tan, lambda x: np.sin(x) / np.cos(x)),
    "np.rad2deg": ((X,), np.rad2deg, lambda x: 180 * x / np.pi),
    "np.deg2rad": ((X,), np.deg2rad, lambda x: x * np.pi / 180),
    "np.exp2": ((X,), np.exp2, lambda x: 2.0**x),
    "np.reciprocal": ((Y,), np.reciprocal, lambda x: 1 / x),
    "np.square": ((X,), np.square, lambda x: x * x),
    "np.sign": ((X,), np.sign, lambda x: np.where(x < 0, -1.0, np.where(x > 0, 1.0, 0.0))),
    "np.heaviside": ((X, Y), np.heaviside, lambda x, y: np.select([x < 0, x == 0], [np.zeros_like(x), y], 1.0)),
    "np.copysign": ((X, Y), np.copysign, lambda x, y: np.where(np.signbit(y), -np.abs(x), np.abs(x))),
    "np.remainder": ((N, M), np.remainder, lambda x, y: x - np.floor_divide(x, y) * y),
    "np.divmod": ((N, M), lambda x, y: np.divmod(x, y)[0], lambda x, y: x // y),
    "np.fmod": ((X, Y), np.fmod, lambda x, y: x - np.trunc(x / y) * y),
    "np.modf": ((X,), lambda x: np.modf(x)[0] + np.modf(x)[1], lambda x: +x),
    "np.frexp": ((X,), lambda x: np.ldexp(*np.frexp(x)), lambda x: +x),
    "np.left_shift": ((np.abs(N), np.abs(M)), np.left_shift, lambda x, y: x * 2**y),
    "np.right_shift": ((np.abs(N), np.abs(M)), np.right_shift, lambda x, y: x // 2**y),
    "np.invert": ((N,), np.invert, lambda x: -(x + 1)),
    "np.bitwise_xor": ((N, M), np.bitwise_xor, lambda x, y: (x | y) & ~(x & y)),
    "np.lcm": ((N, M), np.lcm, lambda x, y: np.abs(x * y) // np.gcd(x, y)),
    "np.maximum": ((X, Y), np.maximum, lambda x, y: np.where(x >= y, x, y)),
    "np.clip": ((X,), lambda x: np.clip(x, -1, 2), lambda x: np.minimum(2, np.maximum(x, -1))),
    "np.nan_to_num": ((X,), np.nan_to_num, lambda x: np.where(np.isnan(x), 0.0, x)),
    "np.isclose": ((X, Y), np.isclose, lambda a, b: np.abs(a - b) <= (1e-8 + 1e-5 * np.abs(b))),
    "np.select": (
        (X,),
        lambda x: np.select([x < 0, x > 1], [x, x**2], 7),
        lambda x: np.where(x < 0, x, np.where(x > 1, x**2, 7)),
    ),
    "np.piecewise": ((X,), lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t]), np.abs),
    "np.interp": ((P,), lambda x: np.interp(x, [0, 1], [2, 4]), lambda x: 2 + 2 * x),
    "np.mean": ((X,), np.mean, lambda x: x.sum() / x.size),
    "np.average": ((X, np.abs(Y)), lambda a, w: np.average(a, weights=w), lambda a, w: (a * w).sum() / w.sum()),
    "np.var": ((X,), lambda x: np.var(x, axis=1), lambda x: np.mean(np.abs(x - x.mean(1, keepdims=True)) ** 2, axis=1)),
    "np.std": (
        (X,),
        lambda x: np.std(x, axis=0, ddof=1),
        lambda x: np.sqrt(np.sum((x - x.mean(0)) ** 2, 0) / (len(x) - 1)),
    ),
    "np.ptp": ((X,), lambda x: np.ptp(x, axis=1), lambda x: x.max(1) - x.min(1)),
    "np.count_nonzero": ((X,), lambda x: np.count_nonzero(x > 0, axis=0), lambda x: (x > 0).sum(axis=0)),
    "np.median": ((V,), np.median, lambda v: np.sort(v)[v.size // 2]),
    "np.percentile": ((V,), lambda v: np.percentile(v, 50), np.median),
    "np.diff": ((X,), lambda x: np.diff(x, axis=1), lambda x: x[:, 1:] - x[:, :-1]),
    "np.gradient": ((V,), lambda v: np.gradient(v)[1:-1], lambda v: (v[2:] - v[:-2]) / 2),
    "np.cumsum": ((V,), np.cumsum, lambda v: np.tri(3) @ v),
    "np.trapezoid": ((V,), np.trapezoid, lambda v: ((v[1:] + v[:-1]) / 2).sum()),
    "np.ediff1d": ((X,), np.ediff1d, lambda x: np.diff(x.ravel())),
    "np.cov": ((X,), np.cov, lambda m: (d := m - m.mean(1, keepdims=True)) @ d.T / (m.shape[1] - 1)),
    "np.corrcoef": ((X,), np.corrcoef, lambda m: (c := np.cov(m)) / np.sqrt(np.outer(np.diag(c), np.diag(c)))),
    "np.dot": ((A, V), np.dot, lambda a, v: np.sum(a * v, axis=-1)),
    "np.inner": ((A, X.T), lambda a, b: np.inner(a, b), lambda a, b: np.tensordot(a, b, axes=(-1, -1))),
    "np.outer": ((V, V), np.outer, lambda a, b: np.einsum("i,j->ij", a.ravel(), b.ravel())),
    "np.vdot": ((Z, Z), np.vdot, lambda a, b: (a.conj() * b).sum()),
    "np.kron": ((A, X), lambda a, b: np.kron(a, b), lambda a, b: np.einsum("ij,kl->ikjl", a, b).reshape(9, 12)),
    "np.tensordot": ((A, A), np.tensordot, lambda a, b: (a * b).sum()),
    "np.trace": ((A,), np.trace, lambda a: a.diagonal().sum()),
    "np.cross": (
        (A, V),
        np.cross,
        lambda a, v: np.stack([a[:, i - 2] * v[i - 1] - a[:, i - 1] * v[i - 2] for i in range(3)], -1),
    ),
    "np.linalg.norm": ((X,), np.linalg.norm, lambda x: np.sqrt(np.sum(np.abs(x) ** 2))),
    "np.linalg.norm by 1": ((X,), lambda x: np.linalg.norm(x, 1), lambda x: np.max(np.sum(np.abs(x), axis=0))),
    "np.linalg.norm by inf": ((X,), lambda x: np.linalg.norm(x, np.inf), lambda x: np.max(np.sum(np.abs(x), axis=1))),
    "np.linalg.solve": ((A, V), np.linalg.solve, lambda a, b: np.linalg.inv(a) @ b),
    "np.linalg.matrix_power": ((A,), lambda a: np.linalg.matrix_power(a, 3), lambda a: a @ a @ a),
    "np.linalg.cholesky": ((A,), lambda a: np.linalg.cholesky(a) @ np.linalg.cholesky(a).T, lambda a: +a),
    "np.linalg.qr": ((A,), lambda a: np.matmul(*np.linalg.qr(a)), lambda a: +a),
    "np.linalg.svd": (
        (X,),
        lambda a: (lambda u, s, vh: (u * s) @ vh)(*np.linalg.svd(a, full_matrices=False)),
        lambda a: +a,
    ),
    "np.linalg.eigh": ((A,), lambda a: np.linalg.eigh(a)[0].prod(), np.linalg.det),
    "np.linalg.multi_dot": ((X, X.T, A), lambda a, b, c: np.linalg.multi_dot([a, b, c]), lambda a, b, c: a @ b @ c),
    "np.linalg.slogdet": ((A,), lambda a: (lambda s, d: s * np.exp(d))(*np.linalg.slogdet(a)), np.linalg.det),
    "np.vander": ((V,), lambda v: np.vander(v, 4), lambda v: np.column_stack([v ** (3 - i) for i in range(4)])),
    "np.polyval": ((V, X), np.polyval, lambda p, x: p[0] * x**2 + p[1] * x + p[2]),
    "np.convolve": (
        (V, V),
        np.convolve,
        lambda a, v: np.array([sum(a[m] * v[n - m] for m in range(3) if 0 <= n - m < 3) for n in range(5)]),
    ),
    "np.correlate": ((X[0], V), lambda a, v: np.correlate(a, v), lambda a, v: np.convolve(a, v[::-1], mode="valid")),
    "np.fft.ifft": ((X,), lambda x: np.fft.ifft(np.fft.fft(x)).real, lambda x: +x),
    "np.fft.fft": ((V,), np.fft.fft, lambda a: np.exp(-2j * np.pi * np.outer(np.arange(3), np.arange(3)) / 3) @ a),
    "np.fft.fftshift": ((X,), lambda x: np.fft.fftshift(x, axes=1), lambda x: np.roll(x, 2, axis=1)),
    "np.abs of complex": ((Z,), np.abs, lambda z: np.sqrt(z.real**2 + z.imag**2)),
    "np.angle": ((Z,), np.angle, lambda z: np.arctan2(z.imag, z.real)),
    "np.conjugate": ((Z,), np.conjugate, lambda z: z.real - 1j * z.imag),
    "np.transpose": ((X,), np.transpose, lambda x: np.einsum("ij->ji", x)),
    "np.rot90": ((X,), np.rot90, lambda x: np.flip(np.transpose(x), 0)),
    "np.fliplr": ((X,), np.fliplr, lambda x: x[:, ::-1]),
    "np.roll": ((X,), lambda x: np.roll(x, 1, axis=1), lambda x: np.concatenate([x[:, -1:], x[:, :-1]], axis=1)),
    "np.tile": ((V,), lambda v: np.tile(v, (2, 2)), lambda v: np.concatenate([[*v, *v]] * 2).reshape(2, 6)),
    "np.repeat": ((V,), lambda v: np.repeat(v, 2), lambda v: np.stack([v, v], axis=1).ravel()),
    "np.column_stack": ((V, V), lambda a, b: np.column_stack((a, b)), lambda a, b: np.vstack([a, b]).T),
    "np.dstack": ((X, Y), lambda a, b: np.dstack((a, b)), lambda a, b: np.stack([a, b], axis=2)),
    "np.tril": ((A,), np.tril, lambda a: a * np.tri(3)),
    "np.diagflat": ((V,), np.diagflat, lambda v: np.diag(v.ravel())),
    "np.take": ((X,), lambda x: np.take(x, [2, 0], axis=1), lambda x: x[:, [2, 0]]),
    "np.take_along_axis": (
        (X,),
        lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
        lambda x: np.sort(x, axis=1),
    ),
    "np.digitize": (
        (X,),
        lambda x: np.digitize(x, [-1.0, 0.5, 2.0]),
        lambda x: np.searchsorted([-1.0, 0.5, 2.0], x, side="right"),
    ),
    "np.full_like": ((X,), lambda x: np.full_like(x, 3), lambda x: np.ones_like(x) * 3),
    "np.add.reduce": ((X,), lambda x: np.add.reduce(x, axis=1), lambda x: x.sum(axis=1)),
    "np.add.accumulate": ((V,), np.add.accumulate, np.cumsum),
    "np.multiply.outer": ((V, V), np.multiply.outer, lambda a, b: a[:, None] * b),
    "np.maximum.accumulate": ((V,), np.maximum.accumulate, lambda v: np.stack([v[0], v[:2].max(), v.max()])),
    "special.expit": ((X,), special.expit, lambda x: 1 / (1 + np.exp(-x))),
    "special.logit": ((P,), special.logit, lambda p: np.log(p / (1 - p))),
    "special.log_expit": ((X,), special.log_expit, lambda x: np.log(special.expit(x))),
    "special.erfc": ((X,), special.erfc, lambda x: 1 - special.erf(x)),
    "special.erfcx": ((X,), special.erfcx, lambda x: np.exp(x**2) * special.erfc(x)),
    "special.ndtr": ((X,), special.ndtr, lambda x: 0.5 * (1 + special.erf(x / np.sqrt(2)))),
    "special.log_ndtr": ((X,), special.log_ndtr, lambda x: np.log(special.ndtr(x))),
    "special.xlogy": ((np.abs(X), np.abs(Y)), special.xlogy, lambda x, y: x * np.log(y)),
    "special.xlog1py": ((X, np.abs(Y)), special.xlog1py, lambda x, y: x * np.log1p(y)),
    "special.entr": ((P,), special.entr, lambda p: -p * np.log(p)),
    "special.rel_entr": ((P, P[::-1].copy()), special.rel_entr, lambda x, y: x * np.log(x / y)),
    "special.kl_div": ((P, P[::-1].copy()), special.kl_div, lambda x, y: x * np.log(x / y) - x + y),
    "special.huber": (
        (X,),
        lambda r: special.huber(1.0, r),
        lambda r: np.where(np.abs(r) <= 1, r**2 / 2, np.abs(r) - 0.5),
    ),
    "special.pseudo_huber": ((X,), lambda r: special.pseudo_huber(1.0, r), lambda r: np.sqrt(1 + r**2) - 1),
    "special.exprel": ((Y,), special.exprel, lambda x: np.expm1(x) / x),
    "special.cosm1": ((X,), special.cosm1, lambda x: np.cos(x) - 1),
    "special.exp10": ((X,), special.exp10, lambda x: 10**x),
    "special.softmax": (
        (X,),
        lambda x: special.softmax(x, axis=1),
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
    ),
    "special.log_softmax": (
        (X,),
        lambda x: special.log_softmax(x, axis=1),
        lambda x: np.log(special.softmax(x, axis=1)),
    ),
    "special.logsumexp": ((X,), special.logsumexp, lambda x: np.log(np.sum(np.exp(x)))),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_both_spellings_of_a_documented_equality_are_traced_and_equal(name: str) -> None:
    arrays, left, right = FORMULAS[name]
    wanted, other = np.asarray(left(*arrays)), np.asarray(right(*arrays))
    np.testing.assert_allclose(other, wanted, rtol=1e-9, atol=1e-9)
    agrees(left, *arrays)
    agrees(right, *arrays)


def both(names: list[str], numerics: str) -> None:
    """All formulas of `names` as one program, so that the search may find their spellings equal."""
    arrays = [array for name in names for array in FORMULAS[name][0]]

    def program(*values: Any) -> list[Any]:
        rest = iter(values)
        results = []
        for name in names:
            given, left, right = FORMULAS[name]
            mine = [next(rest) for _ in given]
            results += [left(*mine), right(*mine)]
        return results

    wanted = program(*arrays)
    got = ef.compile(program, *arrays, numerics=numerics)(*arrays)
    for i, (g, w) in enumerate(zip(got, wanted, strict=True)):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), names[i // 2]
        np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-11, err_msg=names[i // 2])


@pytest.mark.parametrize("part_of", some([*product(range(0, len(FORMULAS), 16), NUMERICS)][::2], 4))
def test_compiled_together_both_spellings_give_numpys_numbers(part_of: tuple[int, str]) -> None:
    part, numerics = part_of
    both(list(FORMULAS)[part : part + 16], numerics)
