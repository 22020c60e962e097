"""Loops over arrays in any order in memory: arguments, constants, views of them, and carries that a step turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device

RNG = np.random.default_rng(5)
BY_COLUMNS = np.asfortranarray(RNG.normal(size=(6, 5)))
APART = RNG.normal(size=(6, 10))[:, ::2]


def turned_while(x: Any) -> Any:
    return ef.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, (np.sin(s[1]) + 1)[::-1, ::-1]), (0, x))[1]


def chosen(s: Any, i: Any) -> Any:
    return ef.cond(i > 1, lambda u: np.cos(u) + 1, lambda u: np.sin(u)[::-1], s[::-1])


def nested(s: Any) -> Any:
    return ef.fori_loop(0, 2, lambda j, u: np.cos(u) + s[::-1] * j, s[:, ::-1])


LOOPED: dict[str, Callable[[Any], Any]] = {
    "the argument": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) + x * i, x),
    "views of the argument": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) + x[:, 1] * i, x[:, 2]),
    "rows of the argument": lambda x: ef.scan(lambda s, row: (np.sin(s) + row, s * 2), x[0], x)[1],
    "rows of a view": lambda x: ef.scan(lambda s, row: (np.sin(s) + row, s * 2), x[:, 0], x.T[::2])[1],
    "a constant": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) + BY_COLUMNS, x),
    "a constant with gaps": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) * APART, x),
    "a view of a constant": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) + BY_COLUMNS.T, x.T),
    "first a constant": lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s) + x.T, BY_COLUMNS.T),
    "a carry that is turned": lambda x: ef.fori_loop(0, 3, lambda i, s: (np.sin(s) + 1)[::-1], x),
    "a carry that a scan turns": lambda x: ef.scan(lambda s, v: ((np.sin(s) + v)[::-1], s.T), x, x[:, 0])[1],
    "a carry that a while loop turns": turned_while,
    "a loop in a loop": lambda x: ef.fori_loop(0, 3, lambda i, s: nested(s), x),
    "a choice in a loop": lambda x: ef.fori_loop(0, 3, lambda i, s: chosen(s, i), x),
    "a choice": lambda x: ef.cond(x.sum() > -1e9, lambda v: np.sin(v) + x, lambda v: np.cos(v), x[::-1]),
    "a gradient": ef.grad(lambda x: ef.fori_loop(0, 3, lambda i, s: np.sin(s)[::-1] + BY_COLUMNS, x).sum()),
}


def together(x: Any) -> dict[str, Any]:
    return {name: fn(x) for name, fn in LOOPED.items()}


@pytest.mark.slow
@pytest.mark.parametrize("device", [DEVICES["cpu"], compiled_device(DEVICES["cpu"])], ids=["numpy", "c"])
def test_loops_read_elements_whatever_their_order_in_memory(device: ef.Device) -> None:
    x = np.ascontiguousarray(APART)
    wanted = {name: ef.meaning(ef.trace(fn, x), x) for name, fn in LOOPED.items()}
    program = ef.compile(together, x, target=device, laws="none", extractor="greedy-priority")
    unaligned = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[:] = x
    for order, given in {"C": x, "Fortran": np.asfortranarray(x), "with gaps": APART, "unaligned": unaligned}.items():
        results = program(given)
        for name in LOOPED:
            np.testing.assert_allclose(results[name], wanted[name], rtol=1e-12, err_msg=f"{name}, {order}")
