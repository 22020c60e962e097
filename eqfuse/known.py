"""What is known while tracing: the values of nodes that depend on no input.

In: a node. Out: its array, or None. Evaluated by the operators' rows, once per trace. Used by `tracer` and indexing.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ir import Node
from eqfuse.ops import row


def known(n: Node, memo: dict[Node, np.ndarray | None]) -> np.ndarray | None:
    """The value of `n`, or None when it depends on an input. `memo` remembers both."""
    stack = [n]
    while stack:
        current = stack[-1]
        if current in memo:
            stack.pop()
            continue
        missing = [a for a in current.args if a not in memo]
        if missing:
            stack.extend(missing)
            continue
        values = [memo[a] for a in current.args]
        unknown = current.op == "input" or any(v is None for v in values)
        with np.errstate(all="ignore"):
            memo[current] = None if unknown else np.asarray(row(current.op).meaning(*values, *current.attrs))
        stack.pop()
    return memo[n]
