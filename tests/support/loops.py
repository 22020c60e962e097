"""Programs with loops: each beside what NumPy computes by Python's own statements, and the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import eqfuse as ef

RNG = np.random.default_rng(7)


class Looped(NamedTuple):
    """`fn` and `plain` compute the same of `args`."""

    fn: Callable[..., Any]
    plain: Callable[..., Any]
    args: tuple[Any, ...]
    exact: bool = False


def cg(a, b):
    def goes_on(s):
        _, r, _, n = s
        return (np.sqrt(r @ r) > 1e-9) & (n < 100)

    def step(s):
        x, r, p, n = s
        q = a @ p
        alpha = (r @ r) / (p @ q)
        new = r - alpha * q
        return x + alpha * p, new, new + (new @ new) / (r @ r) * p, n + 1

    return ef.while_loop(goes_on, step, (np.zeros_like(b), b, b, 0))[0]


def plain_cg(a, b):
    x, r, p, n = np.zeros_like(b), b, b, 0
    while np.sqrt(r @ r) > 1e-9 and n < 100:
        q = a @ p
        alpha = (r @ r) / (p @ q)
        new = r - alpha * q
        x, p, r, n = x + alpha * p, new + (new @ new) / (r @ r) * p, new, n + 1
    return x


def power_iteration(a, v):
    return ef.fori_loop(0, 50, lambda i, v: a @ v / np.linalg.norm(a @ v), v)


def plain_power_iteration(a, v):
    for _ in range(50):
        v = a @ v / np.linalg.norm(a @ v)
    return v


def kmeans(points, centres):
    def nearest(c):
        return ((points[:, None, :] - c[None]) ** 2).sum(-1).argmin(-1)

    def step(s):
        c, _ = s
        one_hot = (nearest(c)[:, None] == np.arange(len(c))).astype(float)
        new = one_hot.T @ points / np.maximum(one_hot.sum(0)[:, None], 1)
        return new, np.abs(new - c).max() > 1e-12

    c, _ = ef.while_loop(lambda s: s[1], step, (centres, True))
    return c, nearest(c)


def plain_kmeans(points, c):
    moved = True
    while moved:
        near = ((points[:, None, :] - c[None]) ** 2).sum(-1).argmin(-1)
        new = np.stack([points[near == k].mean(0) if (near == k).any() else np.zeros(2) for k in range(len(c))])
        moved, c = np.abs(new - c).max() > 1e-12, new
    return c, ((points[:, None, :] - c[None]) ** 2).sum(-1).argmin(-1)


def newton(a):
    return ef.while_loop(lambda s: abs(s[0] * s[0] - a) > 1e-12, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))


def plain_newton(a):
    x, n = a, 0
    while abs(x * x - a) > 1e-12:
        x, n = 0.5 * (x + a / x), n + 1
    return x, n


def adaptive(y, end):
    """An Euler step that is halved where two half steps disagree with it."""

    def step(s):
        t, y, h = s
        whole = y + h * -y
        halves = (y + h / 2 * -y) * (1 - h / 2)
        good = np.abs(whole - halves).max() < 1e-3
        return ef.cond(good, lambda: (t + h, halves, h * 1.5), lambda: (t, y, h / 2))

    return ef.while_loop(lambda s: s[0] < end, step, (0.0, y, 0.5))


def plain_adaptive(y, end):
    t, h = 0.0, 0.5
    while t < end:
        whole, halves = y + h * -y, (y + h / 2 * -y) * (1 - h / 2)
        if np.abs(whole - halves).max() < 1e-3:
            t, y, h = t + h, halves, h * 1.5
        else:
            h = h / 2
    return t, y, h


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(xs, w, u, b):
    def step(carry, x):
        h, c = carry
        i, f, g, o = np.split(x @ w + h @ u + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h

    zeros = np.zeros((xs.shape[1], u.shape[0]), xs.dtype)
    return ef.scan(step, (zeros, zeros), xs)


def plain_lstm(xs, w, u, b):
    h = c = np.zeros((xs.shape[1], u.shape[0]), xs.dtype)
    hs = []
    for x in xs:
        i, f, g, o = np.split(x @ w + h @ u + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return (h, c), np.stack(hs)


def monte_carlo(z, s0, rate):
    def step(i, s):
        total, s = s
        s = s * np.exp(rate / 50 + 0.2 / np.sqrt(50) * z[i])
        return total + s, s

    total, _ = ef.fori_loop(0, len(z), step, (np.zeros(z.shape[1]), np.full(z.shape[1], s0)))
    return np.maximum(total / len(z) - s0, 0).mean()


def plain_monte_carlo(z, s0, rate):
    total, s = np.zeros(z.shape[1]), np.full(z.shape[1], s0)
    for row in z:
        s = s * np.exp(rate / 50 + 0.2 / np.sqrt(50) * row)
        total = total + s
    return np.maximum(total / len(z) - s0, 0).mean()


def mixed(x, n):
    """Carries of many dtypes, of which one stays as it is and two change places."""

    def step(i, s):
        s["f"], s["g"] = s["g"], s["f"]
        return s | {
            "i": s["i"] + i, "b": ~s["b"], "c": s["c"] * 1j, "t": (s["t"][0] * 2, 7), "u": s["u"] + np.uint8(200),
        }  # fmt: skip

    init = {
        "f": x, "g": -x, "i": np.arange(3, dtype=np.int32).astype(np.int64), "b": True, "c": 1 + 2j,
        "t": (np.float32(1.5), 0), "u": np.array([100], np.uint8), "same": x * 2,
    }  # fmt: skip
    return ef.fori_loop(0, n, step, init)


def plain_mixed(x, n):
    f, g, i, b, c, t, k, u = x, -x, np.arange(3), True, 1 + 2j, np.float32(1.5), 0, np.array([100], np.uint8)
    for j in range(n):
        f, g, i, b, c, t, k, u = g, f, i + j, not b, c * 1j, t * 2, 7, u + np.uint8(200)
    return {"f": f, "g": g, "i": i, "b": b, "c": c, "t": (t, k), "u": u, "same": x * 2}


def nested(x, n):
    """Pascal's triangle of sums: a loop in a loop, whose bound is the outer index."""
    return ef.fori_loop(0, n, lambda i, v: ef.fori_loop(0, i, lambda j, w: w + x * j, v) * 0.5, x)


def plain_nested(x, n):
    v = x
    for i in range(n):
        for j in range(i):
            v = v + x * j
        v = v * 0.5
    return v


def in_place(x):
    """Each step writes into its own array; the caller's stays as it is."""

    def step(i, v):
        v[i] = v.sum()
        v[1:] += v[:-1] * 0.5
        return v

    return ef.fori_loop(1, 4, step, x), x


def plain_in_place(x):
    v = x.copy()
    for i in range(1, 4):
        v[i] = v.sum()
        v[1:] += v[:-1] * 0.5
    return v, x


def twice(x):
    """A step that returns one value as two carries, which the next changes apart."""

    def step(i, s):
        a, b = s
        a[0] = i
        c = a + b
        return c, c

    return ef.fori_loop(0, 3, step, (x, x))


def plain_twice(x):
    a, b = x.copy(), x.copy()
    for i in range(3):
        a[0] = i
        c = a + b
        a, b = c.copy(), c.copy()
    return a, b


def backwards(xs, w):
    """A scan from the end over two arrays, whose rows have no axes in one of them; its carry is a constant."""
    return ef.scan(lambda c, row: (c, {"y": row[0] * row[1] @ w, "k": 3}), 5, (xs[:, 0], xs[:, 1:]), reverse=True)


def plain_backwards(xs, w):
    products = [row[0] * row[1:] @ w for row in xs]
    return 5, {"y": np.stack(products), "k": np.full(len(xs), 3)}


def counted(n):
    """A scan over nothing."""
    return ef.scan(lambda c, _: (c * n, c), 1.0, None, length=5)


def plain_counted(n):
    return n**5.0, np.array([float(n) ** k for k in range(5)])


def branches(x, flag):
    return ef.cond(flag, lambda v: (v * 2, 1.0), lambda v: (np.sqrt(v), v.sum()), x)


def plain_branches(x, flag):
    return (x * 2, 1.0) if flag else (np.sqrt(x), x.sum())


def unrolled_choice(x):
    return ef.fori_loop(0, 6, lambda i, v: ef.cond((i % 2 == 0) & (v.sum() < 50), lambda: v * 2, lambda: v + x), x)


def plain_unrolled_choice(x):
    v = x
    for i in range(6):
        v = v * 2 if i % 2 == 0 and v.sum() < 50 else v + x
    return v


def _spd(n):
    a = RNG.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


F32 = np.float32
LOOPED = {
    "cg": Looped(cg, plain_cg, (_spd(20), RNG.normal(size=20))),
    "power": Looped(power_iteration, plain_power_iteration, (_spd(8), RNG.normal(size=8))),
    "kmeans": Looped(kmeans, plain_kmeans, (RNG.normal(size=(60, 2)), RNG.normal(size=(3, 2)))),
    "newton": Looped(newton, plain_newton, (7.0,)),
    "newton at once": Looped(newton, plain_newton, (1.0,)),
    "adaptive": Looped(adaptive, plain_adaptive, (RNG.normal(size=5), 2.0)),
    "lstm": Looped(
        lstm, plain_lstm,
        (RNG.normal(size=(6, 2, 3)).astype(F32), *(RNG.normal(size=s).astype(F32) for s in ((3, 16), (4, 16), 16))),
    ),
    "monte carlo": Looped(monte_carlo, plain_monte_carlo, (RNG.normal(size=(50, 40)), 100.0, 0.03)),
    "mixed": Looped(mixed, plain_mixed, (RNG.normal(size=(2, 3)), 3), exact=True),
    "mixed, no trips": Looped(mixed, plain_mixed, (RNG.normal(size=(2, 3)), 0), exact=True),
    "nested": Looped(nested, plain_nested, (RNG.normal(size=4), 5)),
    "nested, no trips": Looped(nested, plain_nested, (RNG.normal(size=4), -1)),
    "in place": Looped(in_place, plain_in_place, (RNG.normal(size=6),)),
    "twice": Looped(twice, plain_twice, (RNG.normal(size=3),)),
    "backwards": Looped(backwards, plain_backwards, (RNG.normal(size=(4, 4)), RNG.normal(size=(3, 2)))),
    "backwards, empty": Looped(
        backwards, lambda xs, w: (5, {"y": np.zeros((0, 2)), "k": np.zeros(0, int)}),
        (np.zeros((0, 4)), RNG.normal(size=(3, 2))),
    ),
    "counted": Looped(counted, plain_counted, (3,)),
    "branches, true": Looped(branches, plain_branches, (np.arange(4.0), True)),
    "branches, false": Looped(branches, plain_branches, (np.arange(4.0), False)),
    "choices": Looped(unrolled_choice, plain_unrolled_choice, (np.arange(3.0),)),
}  # fmt: skip


def assert_same(got: Any, wanted: Any, exact: bool = False) -> None:
    """The same containers of arrays of the same types, and values but for rounding."""
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for key in wanted:
            assert_same(got[key], wanted[key], exact)
    elif isinstance(wanted, tuple):
        assert type(got) is tuple and len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert_same(a, b, exact)
    else:
        b = np.asarray(wanted)
        assert (got.dtype, got.shape) == (b.dtype, b.shape)
        if exact or b.dtype.kind not in "fc":
            np.testing.assert_array_equal(got, b)
        else:
            np.testing.assert_allclose(got, b, rtol=200 * np.finfo(b.dtype).eps ** 0.75)
