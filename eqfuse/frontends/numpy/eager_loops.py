"""Loops where nothing is traced: Python calls the user's functions, with the checks that a traced loop makes.

In: functions and what they begin with, as `Carries`. Out: NumPy's arrays. A step gets arrays of its own: writing into
them changes nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.carries import Carries, condition, pair
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from eqfuse.ops.loops import scan_indices

Step = Callable[..., Any]


def while_loop(goes_on: Step, step: Step, carry: Carries) -> Any:
    state = carry.values
    while condition(goes_on(carry.tree(_own(state)))):
        state = carry.after(step(carry.tree(state)))
    return carry.tree(state)


def fori_loop(indices: range, step: Step, carry: Carries) -> Any:
    state = carry.values
    for i in indices:
        state = carry.after(step(np.int64(i), carry.tree(state)))
    return carry.tree(state)


def scan(step: Step, loop: Callable[..., Any], carry: Carries, stacked: Carries, length: int, reverse: bool) -> Any:
    """`loop` is the scan itself, which is traced where there is no step that tells what is stacked."""
    if not length:
        trees = carry.tree(carry.values), stacked.tree(stacked.values)
        return meaning(trace(lambda init, xs: loop(step, init, xs, length, reverse), *trees), *trees)
    state = carry.values
    first: Carries | None = None
    rows: list[list[Any]] = []
    for i in scan_indices(length, reverse):
        after, y = pair(step(carry.tree(state), stacked.tree(_own([x[i] for x in stacked.values]))))
        state = carry.after(after)
        first = first or Carries("ef.scan", "y", y)
        rows.append(first.after(y))
    assert first is not None
    stacks = [np.stack(values[:: -1 if reverse else 1]) for values in zip(*rows, strict=True)]
    return carry.tree(state), first.tree(stacks)


def _own(state: list[Any]) -> list[Any]:
    return [np.array(v, order="C")[()] for v in state]


def cond(branch: Step, carries: Carries) -> Any:
    result = Carries("ef.cond", "result", branch(*carries.tree(carries.values)))
    return result.tree(result.values)
