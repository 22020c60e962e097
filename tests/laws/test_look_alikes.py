"""Programs that look equal and that NumPy tells apart: the book proves none of them equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqfuse.frontends.numpy.trace import spec
from eqfuse.functions import (
    gelu,
    layer_norm,
    leaky_relu,
    logsumexp,
    relu,
    rms_norm,
    sigmoid,
    softmax,
    softplus,
)
from tests.laws.test_identities import F, same_class
from tests.support.some import some

# (left, right, arrays on which NumPy itself tells them apart)
ONE, TWO = np.ones((4, 6), F), np.full((4, 6), 2, F)
NANS, INFS = np.full((4, 6), np.nan, F), np.full((4, 6), np.inf, F)
RAMP = np.arange(-12, 12, dtype=F).reshape(4, 6) / 4
TRUE = np.ones((4, 6), bool)
AMONG = np.where(np.eye(4, 6) > 0, np.nan, ONE).astype(F)
LOOK_ALIKES: dict[str, tuple[Callable, Callable, list[np.ndarray]]] = {
    "x - y and y - x": (lambda x, y: x - y, lambda x, y: y - x, [ONE, TWO]),
    "x - (y - z) and x - y - z": (lambda x, y, z: x - (y - z), lambda x, y, z: x - y - z, [ONE, ONE, ONE]),
    "x / (y / z) and x / y / z": (lambda x, y, z: x / (y / z), lambda x, y, z: x / y / z, [ONE, ONE, TWO]),
    "0 x and 0": (lambda x: 0 * x, lambda x: np.zeros_like(x), [NANS]),
    "x - x and 0": (lambda x: x - x, lambda x: np.zeros_like(x), [INFS]),
    "x / x and 1": (lambda x: x / x, lambda x: np.ones_like(x), [0 * ONE]),
    "(x + y)² and x² + y²": (lambda x, y: (x + y) ** 2, lambda x, y: x**2 + y**2, [ONE, ONE]),
    "√(x + y) and √x + √y": (lambda x, y: np.sqrt(x + y), lambda x, y: np.sqrt(x) + np.sqrt(y), [ONE, ONE]),
    "√x² and x": (lambda x: np.sqrt(x * x), lambda x: x + 0.0, [-ONE]),
    "(x²)^½ and x": (lambda x: np.power(np.square(x), F(0.5)), lambda x: x + 0.0, [-ONE]),
    "√x √x and x": (lambda x: np.sqrt(x) * np.sqrt(x), lambda x: x + 0.0, [-ONE]),
    "exp(x + y) and exp x + exp y": (lambda x, y: np.exp(x + y), lambda x, y: np.exp(x) + np.exp(y), [ONE, ONE]),
    "log(x + y) and log x + log y": (lambda x, y: np.log(x + y), lambda x, y: np.log(x) + np.log(y), [ONE, ONE]),
    "log x y and log x log y": (lambda x, y: np.log(x * y), lambda x, y: np.log(x) * np.log(y), [TWO, TWO]),
    "log x y and log x + log y of negatives": (
        lambda x, y: np.log(x * y), lambda x, y: np.log(x) + np.log(y), [-ONE, -ONE]),
    "exp log x and x": (lambda x: np.exp(np.log(x)), lambda x: x + 0.0, [-ONE]),
    "sin 2x and 2 sin x": (lambda x: np.sin(2 * x), lambda x: 2 * np.sin(x), [ONE]),
    "sin(x + y) and sin x + sin y": (lambda x, y: np.sin(x + y), lambda x, y: np.sin(x) + np.sin(y), [ONE, ONE]),
    "cos(-x) and -cos x": (lambda x: np.cos(-x), lambda x: -np.cos(x), [ONE]),
    "cos² - sin² and 1": (lambda x: np.cos(x) ** 2 - np.sin(x) ** 2, np.ones_like, [ONE]),
    "arcsin sin x and x": (lambda x: np.arcsin(np.sin(x)), lambda x: x + 0.0, [2 * TWO]),
    "tanh(x + y) and tanh x + tanh y": (
        lambda x, y: np.tanh(x + y), lambda x, y: np.tanh(x) + np.tanh(y), [ONE, ONE]),
    "1 - sigmoid x and sigmoid x": (lambda x: 1 - sigmoid(x), sigmoid, [ONE]),
    "relu of a sum": (lambda x, y: relu(x + y), lambda x, y: relu(x) + relu(y), [ONE, -ONE]),
    "relu of a product": (lambda x, y: relu(x * y), lambda x, y: relu(x) * relu(y), [-ONE, -ONE]),
    "relu of a multiple": (lambda x: relu(x * -2), lambda x: relu(x) * -2, [-ONE]),
    "relu and |x|": (relu, np.abs, [-ONE]),
    "|x + y| and |x| + |y|": (lambda x, y: np.abs(x + y), lambda x, y: np.abs(x) + np.abs(y), [ONE, -ONE]),
    "max(-x, -y) and -max(x, y)": (lambda x, y: np.maximum(-x, -y), lambda x, y: -np.maximum(x, y), [ONE, TWO]),
    "max of a multiple": (lambda x: (x * -2).max(-1), lambda x: x.max(-1) * -2, [RAMP]),
    "max of a square": (lambda x: (x * x).max(-1), lambda x: x.max(-1) ** 2, [RAMP]),
    "max of a reciprocal": (lambda x: (1 / x).max(-1), lambda x: 1 / x.max(-1), [RAMP + 10]),
    "max of a sum": (lambda x, y: (x + y).max(-1), lambda x, y: x.max(-1) + y.max(-1), [RAMP, -RAMP]),
    "clip of clip, bounds apart": (lambda x: np.clip(np.clip(x, 0, 1), 2, 3), lambda x: np.clip(x, 0, 3), [ONE]),
    "clip with crossed bounds": (
        lambda x: np.minimum(np.maximum(x, 2), 1), lambda x: np.maximum(np.minimum(x, 1), 2), [ONE]),
    "relu by where, of NaN": (lambda x: np.where(x > 0, x, 0), relu, [NANS]),
    "maximum by where, of NaN": (lambda x, y: np.where(x > y, x, y), np.maximum, [NANS, ONE]),
    "maximum and fmax": (np.maximum, np.fmax, [NANS, ONE]),
    "not (x < y) and x >= y": (lambda x, y: ~(x < y), lambda x, y: x >= y, [NANS, ONE]),
    "x == x and true": (lambda x: x == x, lambda x: np.ones((4, 6), bool), [NANS]),
    "x < y and x <= y": (lambda x, y: x < y, lambda x, y: x <= y, [ONE, ONE]),
    "x y > 0 and x > 0": (lambda x, y: x * y > 0, lambda x, y: x > 0, [ONE, -ONE]),
    "any above and maximum above": (lambda x: (x > 0).any(-1), lambda x: x.max(-1) > 0, [AMONG]),
    "all and any": (lambda c: c.all(-1), lambda c: c.any(-1), [np.eye(4, 6) > 0]),
    "not all and all not": (lambda c: ~c.all(-1), lambda c: (~c).all(-1), [np.eye(4, 6) > 0]),
    "xor and or": (np.logical_xor, np.logical_or, [TRUE, TRUE]),
    "not (c and d) and not c and not d": (lambda c, d: ~(c & d), lambda c, d: ~c & ~d, [TRUE, ~TRUE]),
    "where with its branches exchanged": (
        lambda c, x, y: np.where(c, x, y), lambda c, x, y: np.where(c, y, x), [TRUE, ONE, TWO]),
    "where of or": (
        lambda c, d, x, y: np.where(c, x, np.where(d, x, y)), lambda c, d, x, y: np.where(c & d, x, y),
        [TRUE, ~TRUE, ONE, TWO]),
    "mask times x, of NaN": (lambda c, x: c * x, lambda c, x: np.where(c, x, 0), [~TRUE, NANS]),
    "sum of a product": (lambda x, y: (x * y).sum(-1), lambda x, y: x.sum(-1) * y.sum(-1), [ONE, ONE]),
    "sum of quotients": (lambda x, y: (x / y).sum(-1), lambda x, y: x.sum(-1) / y.sum(-1), [ONE, ONE]),
    "sum of squares": (lambda x: (x * x).sum(-1), lambda x: x.sum(-1) ** 2, [ONE]),
    "sum of exp": (lambda x: np.exp(x).sum(-1), lambda x: np.exp(x.sum(-1)), [ONE]),
    "sum of a shift": (lambda x, y: (x + y).sum(-1), lambda x, y: x.sum(-1) + y[:, 0], [ONE, ONE[:, :1]]),
    "mean of a mean and of a sum": (lambda x: x.mean(-1).sum(), lambda x: x.mean(), [ONE]),
    "variance and mean square": (lambda x: x.var(-1), lambda x: (x**2).mean(-1), [ONE]),
    "one-pass variance": (lambda x: (x**2).mean(-1) - x.mean(-1) ** 2, lambda x: x.var(-1), [RAMP + 1e4]),
    "sample and population variance": (lambda x: x.var(-1), lambda x: x.var(-1, ddof=1), [RAMP]),
    "log-sum-exp without its maximum": (lambda x: np.log(np.exp(x).sum(-1, keepdims=True)), logsumexp, [100 * ONE]),
    "softmax without its maximum": (
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), softmax, [100 * ONE]),
    "softmax of scaled scores": (lambda x: softmax(2 * x), softmax, [RAMP]),
    "softplus without care": (lambda x: np.log(1 + np.exp(x)), softplus, [100 * ONE]),
    "argmax of |x|": (lambda x: np.abs(x).argmax(-1), lambda x: x.argmax(-1), [-RAMP - 5]),
    "argmax of exp, which overflows": (lambda x: np.exp(x).argmax(-1), lambda x: x.argmax(-1), [100 * RAMP]),
    "argmax and argmin": (lambda x: x.argmax(-1), lambda x: x.argmin(-1), [RAMP]),
    "argmax of a shift by rows": (lambda x, y: (x + y).argmax(-1), lambda x, y: x.argmax(-1), [RAMP, -2 * RAMP]),
    "product of a sum": (lambda x, y: (x + y).prod(-1), lambda x, y: x.prod(-1) + y.prod(-1), [ONE, ONE]),
    "running sum of a flip": (
        lambda x: np.cumsum(x[:, ::-1], -1), lambda x: np.cumsum(x, -1)[:, ::-1], [RAMP]),
    "floor of a sum": (lambda x, y: np.floor(x + y), lambda x, y: np.floor(x) + np.floor(y), [ONE / 2, ONE / 2]),
    "floor(-x) and -floor x": (lambda x: np.floor(-x), lambda x: -np.floor(x), [ONE / 2]),
    "round and floor of half more": (np.rint, lambda x: np.floor(x + 0.5), [ONE / 2]),
    "x // y and floor(x / y)": (lambda x, y: x // y, lambda x, y: np.floor(x / y), [ONE, ONE / 10]),
    "cast before a sum": (
        lambda x: x.astype(np.float16).sum(-1), lambda x: x.sum(-1).astype(np.float16), [ONE + 2**-11]),
    "cast to whole numbers of a sum": (
        lambda x, y: (x + y).astype(np.int64), lambda x, y: x.astype(np.int64) + y.astype(np.int64),
        [ONE / 2, ONE / 2]),
    "casts through a narrow dtype": (lambda x: x.astype(np.float16).astype(F), lambda x: x + 0.0, [ONE / 3]),
    "transpose and flip": (lambda x: x.T, lambda x: np.rot90(x), [RAMP]),
    "reshape and transpose": (lambda x: x.reshape(6, 4), lambda x: x.T, [RAMP]),
    "roll left and right": (lambda x: np.roll(x, 1, 0), lambda x: np.roll(x, -1, 0), [RAMP]),
    "parts exchanged": (
        lambda x, y: np.concatenate([x, y]), lambda x, y: np.concatenate([y, x]), [ONE, TWO]),
    "tile and repeat": (lambda x: np.tile(x, (2, 1)), lambda x: np.repeat(x, 2, 0), [RAMP]),
    "exp of padded": (lambda x: np.exp(np.pad(x, 1)), lambda x: np.pad(np.exp(x), 1), [ONE]),
    "max of padded": (lambda x: np.pad(x, 1).max(), lambda x: x.max(), [-ONE]),
    "sum of padded with ones": (
        lambda x: np.pad(x, 1, constant_values=1).sum(), lambda x: x.sum(), [ONE]),
    "gathers exchanged": (lambda x, i, j: x[i][j], lambda x, i, j: x[j][i],
                          [RAMP, np.array([1, 2, 0]), np.array([0, 2, 1])]),
    "leaky relu as maximum": (lambda x: np.maximum(x, 2 * x), lambda x: leaky_relu(x, 2.0), [-ONE]),
    "the two GELUs": (lambda x: gelu(x, "tanh"), gelu, [RAMP]),
    "layer norm and RMS norm": (layer_norm, rms_norm, [RAMP + 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", some(LOOK_ALIKES, 2))
def test_what_numpy_tells_apart_is_not_proved_equal(name: str) -> None:
    left, right, arrays = LOOK_ALIKES[name]
    with np.errstate(all="ignore"):
        values = left(*arrays), right(*arrays)
    assert not np.allclose(*values, rtol=1e-5, equal_nan=True)
    assert not same_class(left, right, [spec(a.shape, a.dtype) for a in arrays])
