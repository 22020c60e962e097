"""Loops and choices that stay what they are: `while_loop`, `fori_loop`, `scan` and `cond`, with JAX's conventions.

In: functions of the user's, on arrays. Out: in a function that is traced, an operator whose attributes are the graphs
of those functions; elsewhere what Python computes by calling them (`eager_loops`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy import eager_loops
from eqfuse.frontends.numpy.bodies import body_tracers, closed, stands_for, traced_within
from eqfuse.frontends.numpy.carries import Carries, array_of, condition, like, pair, tree_text, type_of
from eqfuse.frontends.numpy.number import is_number
from eqfuse.frontends.numpy.rows import Rows, indexed, products_before
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import current
from eqfuse.ir.graph import Node, const, node, substitute
from eqfuse.ir.loops import unpacked_results
from eqfuse.ir.pytree import paths, tree_leaves, unflatten
from eqfuse.ops import row as op_row
from eqfuse.ops.loops import INDEX_TYPE, results_of
from eqfuse.ops.types import TensorType

Step = Callable[..., Any]


def while_loop(cond_fun: Step, body_fun: Step, init_val: Any) -> Any:
    """``while cond_fun(val): val = body_fun(val)``, from ``val = init_val``: its last value.

    `val` is an array, a number or a container of these; a step must not change their types. `cond_fun` gives one bool.
    """
    carry = Carries("ef.while_loop", "init_val", init_val)
    if current() is None:
        return eager_loops.while_loop(cond_fun, body_fun, carry)
    carry_inputs = stands_for(carry.types)
    goes_on, _ = traced_within(lambda: [condition(cond_fun(carry.tree(body_tracers(carry_inputs))))])
    after, _ = traced_within(lambda: carry.after(body_fun(carry.tree(body_tracers(carry_inputs)))))
    return carry.tree(_while(carry.values, carry_inputs, goes_on, after))


def fori_loop(lower: Any, upper: Any, body_fun: Step, init_val: Any) -> Any:
    """``for i in range(lower, upper): val = body_fun(i, val)``, from ``val = init_val``: its last value.

    The bounds may be known only when the program is called; `i` is an int64 scalar. A step must not change the types of
    what `val` holds.
    """
    carry = Carries("ef.fori_loop", "init_val", init_val)
    bounds = [_bound(lower, "lower"), _bound(upper, "upper")]
    if current() is None:
        return eager_loops.fori_loop(range(*bounds), body_fun, carry)
    index, *carry_inputs = stands_for([INDEX_TYPE, *carry.types])
    after, _ = traced_within(
        lambda: carry.after(body_fun(*body_tracers([index]), carry.tree(body_tracers(carry_inputs))))
    )
    constants = [b.constant_value() for b in bounds]
    if constants[0] is None or constants[1] is None:
        return carry.tree(_fori([b.node for b in bounds], carry.values, index, carry_inputs, after))
    first, end = map(int, constants)
    return carry.tree(_scan(range(first, max(first, end)), carry.values, index, carry_inputs, after)[0])


def scan(f: Step, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """``for x in xs: carry, y = f(carry, x)``, from ``carry = init``: its last value, and the values of `y` stacked.

    `xs` is an array or a container of arrays, which are gone through together along their first axes, backwards where
    `reverse`; or None, with a `length`. `y` may be None. A step must not change the types of what the carry holds.
    """
    carry = Carries("ef.scan", "init", init)
    stacked = Carries("ef.scan", "xs", xs)
    count = _length(stacked, length)
    if current() is None:
        return eager_loops.scan(f, scan, carry, stacked, count, reverse)
    index, *carry_inputs = stands_for([INDEX_TYPE, *carry.types])
    row = stands_for([TensorType(t.dtype, t.shape[1:]) for t in stacked.types])
    structure: list[Any] = []

    def step() -> list[Tracer]:
        after, y = pair(f(carry.tree(body_tracers(carry_inputs)), stacked.tree(body_tracers(row))))
        leaves, nesting = tree_leaves(y)
        structure.append(nesting)
        ys = [array_of(leaf, path) for leaf, path in zip(leaves, paths(nesting, "y"), strict=True)]
        return [*carry.after(after), *ys]

    results, _ = traced_within(step)
    rows = {r: x.node for r, x in zip(row, stacked.values, strict=True)}
    after, ys = results[: len(carry_inputs)], results[len(carry_inputs) :]
    last, stacks = _scan(range(count), carry.values, index, carry_inputs, after, rows, ys, bool(reverse))
    return carry.tree(last), unflatten(structure[0], stacks)


def cond(pred: Any, true_fun: Step, false_fun: Step, *operands: Any) -> Any:
    """``true_fun(*operands) if pred else false_fun(*operands)``. Both return arrays of the same types."""
    arguments = Carries("ef.cond", "operands", operands)
    chosen = condition(pred)
    constant = chosen.constant_value() if isinstance(chosen, Tracer) else chosen
    if constant is not None:
        return eager_loops.cond(true_fun if constant else false_fun, arguments)
    branches = [_Branch(f, arguments) for f in (true_fun, false_fun)]
    results = _alike(branches)
    captured = {n for branch in branches for n in branch.trace.captured}
    bodies, shared = closed([], results, captured | {v.node for v in arguments.values})
    return unflatten(branches[0].structure, _results("if_else", [chosen.node, *shared], tuple(bodies)))


class _Branch:
    """What a function returns for the operands: `leaves`, of which Python numbers may yet become arrays."""

    def __init__(self, f: Step, carries: Carries) -> None:
        self.leaves: list[Any] = []

        def call() -> list[Tracer]:
            self.leaves, self.structure = tree_leaves(f(*carries.tree([wrap(v.node) for v in carries.values])))
            self.paths = paths(self.structure, "result")
            arrays = [(leaf, path) for leaf, path in zip(self.leaves, self.paths, strict=True) if not is_number(leaf)]
            results = [array_of(leaf, path) for leaf, path in arrays]
            self.types = [t.tensor_type for t in results]
            return results

        self.nodes, self.trace = traced_within(call)

    def typed(self, other: _Branch) -> list[Node]:
        """The results, Python numbers among them as the `other` branch has them."""
        arrays, theirs = iter(self.nodes), iter(other.types)
        nodes = []
        for mine, its in zip(self.leaves, other.leaves, strict=True):
            wanted = None if is_number(its) else next(theirs)
            if not is_number(mine):
                nodes.append(next(arrays))
            else:
                nodes += traced_within(lambda m=mine, t=wanted: [array_of(m, "result") if t is None else like(m, t)])[0]  # type: ignore[misc]
        return nodes


def _alike(branches: Sequence[_Branch]) -> tuple[list[Node], list[Node]]:
    """The results of both branches, of the same types."""
    a, b = branches
    if a.structure != b.structure:
        raise TraceError(
            f"the branches of ef.cond return {tree_text(a.structure)} and {tree_text(b.structure)}: let them return "
            "the same containers, of as many arrays"
        )
    yes, no = a.typed(b), b.typed(a)
    for path, m, n in zip(a.paths, yes, no, strict=True):
        if m.type != n.type:
            kind = DtypeError if m.shape == n.shape else ShapeError
            raise kind(f"the {path} of ef.cond is {m.type} by true_fun and {n.type} by false_fun: give it one type")
    return yes, no


# ---- operators


def _while(values: Sequence[Tracer], inside: list[Node], goes_on: list[Node], after: list[Node]) -> list[Tracer]:
    changing, (goes_on, after) = _without_fixed(values, inside, after, [goes_on, after])
    bodies, shared = closed([(f"carry {i}", inside[place]) for i, place in enumerate(changing)], [goes_on, after])
    args = [*(values[place].node for place in changing), *shared]
    return _around(values, changing, _results("while_loop", args, (*bodies, len(changing))))


def _fori(
    bounds: list[Node], values: Sequence[Tracer], index: Node, inside: list[Node], after: list[Node]
) -> list[Tracer]:
    changing, (after,) = _without_fixed(values, inside, after, [after])
    names = [("index", index), *((f"carry {i}", inside[place]) for i, place in enumerate(changing))]
    (body,), shared = closed(names, [after])
    args = [*bounds, *(values[place].node for place in changing), *shared]
    return _around(values, changing, _results("fori_loop", args, (body, len(changing))))


def _scan(
    steps: range, values: Sequence[Tracer], index: Node, inside: list[Node], after: list[Node],
    rows: Rows | None = None, stacked: Sequence[Node] = (), reverse: bool = False,
) -> tuple[list[Tracer], list[Tracer]]:  # fmt: skip
    """The carries after all `steps` and what is `stacked` of each, of which the step reads its index and `rows`."""
    changing, (after, ys) = _without_fixed(values, inside, after, [after, [*stacked]])
    results, more = indexed([*after, *ys], inside, index, steps)
    results, all_rows = products_before(results, [*inside, index], (rows or {}) | more)
    names = [("index", index), *((f"carry {i}", inside[place]) for i, place in enumerate(changing))]
    names += [(f"row {i}", r) for i, r in enumerate(all_rows)]
    (body,), shared = closed(names, [results])
    args = [*(values[place].node for place in changing), *all_rows.values(), *shared]
    attrs = (body, len(changing), len(all_rows), len(steps), steps.start, reverse)
    outputs = _results("scan", args, attrs)
    return _around(values, changing, outputs[: len(changing)]), outputs[len(changing) :]


def _without_fixed(
    values: Sequence[Tracer], inside: list[Node], after: list[Node], results: list[list[Node]]
) -> tuple[list[int], list[list[Node]]]:
    """The places of the carries that a step changes; and the `results` over the others' values before the loop, those
    `after` a step without theirs."""
    fixed = {g: v.node for g, v, a in zip(inside, values, after, strict=True) if a is g}
    changing = [place for place, g in enumerate(inside) if g not in fixed]
    kept = [[each[place] for place in changing] if each is after else each for each in results]
    return changing, [list(substitute(each, fixed)) for each in kept] if fixed else kept


def _around(values: Sequence[Tracer], changing: list[int], changed: Sequence[Tracer]) -> list[Tracer]:
    """All carries after a loop that changes some of them."""
    last = dict(zip(changing, changed, strict=True))
    return [last[place] if place in last else wrap(v.node) for place, v in enumerate(values)]


def _results(op: str, args: list[Node], attrs: tuple) -> list[Tracer]:
    """The results of a loop or a choice."""
    types = results_of(op, [a.type for a in args], attrs)
    if not types:
        return []
    return taken_apart(node(op, args, attrs) if args else const(op_row(op).meaning(*attrs)), types)


def taken_apart(packed: Node, types: Sequence[TensorType]) -> list[Tracer]:
    """The results of `types` that the operator `packed` gives together."""
    return [wrap(n) for n in unpacked_results(packed, types)]


# ---- what the user gives


def _bound(value: Any, which: str) -> Any:
    """A bound of `fori_loop`, as an int64 scalar."""
    array = array_of(value, f"{which} bound of ef.fori_loop")
    if array.shape or array.dtype.kind not in "iu":
        raise DtypeError(f"the {which} bound of ef.fori_loop is {type_of(array)}: give an int")
    return array.astype(np.int64)


def _length(stacked: Carries, length: int | None) -> int:
    """How many steps a scan has."""
    for path, t in zip(stacked.paths, stacked.types, strict=True):
        if not t.rank:
            raise ShapeError(f"{path} of ef.scan has no axes: it is gone through along its first one")
        length = t.shape[0] if length is None else length
        if t.shape[0] != length:
            raise ShapeError(f"{path} of ef.scan has {t.shape[0]} rows, and {length} are gone through")
    if length is None:
        raise ShapeError("ef.scan has no xs to go through: say how often it runs, as length=100")
    return operator.index(length)
