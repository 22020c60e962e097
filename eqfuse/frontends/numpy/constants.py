"""What is known while tracing: the values of nodes that depend on no input.

In: a node. Out: its array, or None. Evaluated by the operators' rows, once per trace. Used by `tracer` and indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from eqfuse.ir.graph import Node

_LATER = np.empty(0)  # stands for the value of a node that depends on no input, until somebody asks for it


def value_of(n: Node, memo: dict[Node, np.ndarray | None]) -> np.ndarray | None:
    """The value of `n`, or None when it depends on an input. `memo` remembers both."""
    for m in _waiting(n, lambda a: a not in memo):
        memo[m] = None if m.op == "input" or any(memo[a] is None for a in m.args) else _LATER
    if memo[n] is _LATER:
        with np.errstate(all="ignore"):
            for m in _waiting(n, lambda a: memo[a] is _LATER):
                memo[m] = np.asarray(m.row.meaning(*(memo[a] for a in m.args), *m.attrs))
    return memo[n]


def _waiting(n: Node, waits: Callable[[Node], bool]) -> Iterator[Node]:
    """The nodes that `n` needs, and `n` itself, as far as they wait: arguments first."""
    stack = [n]
    while stack:
        missing = [a for a in stack[-1].args if waits(a)]
        if missing:
            stack += missing
        elif waits(m := stack.pop()):
            yield m
