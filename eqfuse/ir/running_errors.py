"""The running error bound of a program: how far each element that it computes may be from the reals.

In: a `Graph` and arrays. Out: an `Approximation` for every node. Each operator adds the rounding of its own result to
what it makes of the errors of its arguments, element by element and to first order (N. J. Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 3.3). What numerics="reassociate" promises is said in terms of
this bound: `eqfuse.rewrites.checking.check` judges laws by it, and tests judge programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ir.evaluate import every_value
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import row
from eqfuse.ops.approximation import SAFE, Approximation, ErrorModel, Operation
from eqfuse.ops.error_bounds import PRODUCTS, SUM_OPERATORS, WITH_ROUNDING, error_bound
from eqfuse.ops.row import Role, Rounding

ULPS = 4  # how far NumPy's functions are from the reals at most, in units in the last place


def running_errors(
    graph: Graph, arrays: Sequence[Any], arithmetic: ErrorModel = SAFE
) -> dict[Node, Approximation]:
    """Every node of `graph` for `arrays`, one per graph input, with its running error bound."""
    with np.errstate(all="ignore"):
        return errors_of_values(graph.nodes, every_value(graph, arrays), arithmetic)


def errors_of_values(
    nodes: Iterable[Node], values: Mapping[Node, np.ndarray], arithmetic: ErrorModel
) -> dict[Node, Approximation]:
    """The same of `nodes`, arguments first, whose `values` are computed."""
    approximations: dict[Node, Approximation] = {}
    for n in nodes:
        step = Operation(n, [approximations[a] for a in n.args], values[n], arithmetic)
        error = 0.0 if n.op == "input" else _error(step)
        approximations[n] = _limited(step, np.zeros(n.shape) + error)
    return approximations


def _error(s: Operation) -> np.ndarray:
    """What the errors of the arguments make of the result, and its own rounding."""
    error, op = error_bound(s), s.node.op
    exact = not s.floating or row(op).rounding is Rounding.NEVER or op in WITH_ROUNDING
    return error if exact else error + _rounding(s, error)


def _rounding(s: Operation, error: np.ndarray) -> np.ndarray:
    """What rounding the result adds."""
    unit = s.unit if s.node.row.rounding is Rounding.ONCE else s.unit * 2 * ULPS
    size = s.result.magnitude + np.where(np.isinf(error), 0.0, error)
    lost = 0.0 if s.least or s.node.op in SUM_OPERATORS else s.underflow
    return np.where(_keeps_digits(s), 0.0, unit * size) + lost


def _keeps_digits(s: Operation) -> Any:
    """Where a product or quotient by a power of two is exact, or a sum is twice a number."""
    if s.node.op == "add" and s.node.args[0] is s.node.args[1]:
        return True
    if s.node.op not in ("multiply", "divide") or s.node.dtype.kind == "c":
        return False
    by = s.args if s.node.op == "multiply" else s.args[1:]
    return reduce(np.logical_or, [np.frexp(a.magnitude)[0] == 0.5 for a in by])


def _limited(s: Operation, error: np.ndarray) -> Approximation:
    """The value with the bound that is left by the range of its dtype."""
    error = np.where(np.isnan(error) | _undefined(s), np.inf, error)
    if s.floating:
        small = s.result.magnitude < s.least
        if small.any():
            small &= ~np.isnan(s.result.wide) & ((s.value != 0) | _underflown(s))
            error = np.where(small, error + s.underflow, error)
        error = np.where(s.result.magnitude + s.arithmetic.margin * error > s.largest, np.inf, error)
    return s.result.within(error)


def _undefined(s: Operation) -> Any:
    """Where a function of elements is NaN, though no argument is."""
    if not s.floating or s.node.row.role is not Role.ELEMENTWISE:
        return False
    undefined = np.isnan(s.result.wide)
    if not undefined.any():
        return False
    nan_args = [np.isnan(a.wide) for a in s.args if kind(a.value.dtype) in "fc"]
    return undefined & ~reduce(np.logical_or, nan_args, False)


def _underflown(s: Operation) -> Any:
    """Where a result of zero is not one over the reals."""
    if s.node.op not in PRODUCTS:
        return False
    return reduce(np.logical_and, [a.value != 0 for a in s.args])
