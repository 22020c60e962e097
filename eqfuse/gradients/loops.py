"""Derivatives of loops and choices.

A scan is linearised as a scan over changes, whose steps compute again what they need of a step from its carries and
rows: the carries that they read are stacked by a loop that is run in place of the first one. Its transpose is a scan
the other way round, which carries cotangents, and adds up those of what does not change. A while loop, and a loop over
bounds that are known only when it is run, carry values and changes together: forward mode alone. A choice chooses
between the changes of its branches, which compute again what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.dtypes import FLOAT32, NARROW_FLOATS
from eqfuse.frontends.numpy.origins import body_inputs
from eqfuse.gradients.expr import Expr, cast, filled, zeros_like
from eqfuse.gradients.row import Changes, DerivativeRow, refused
from eqfuse.ir.graph import Body, Graph, Node, input_node, node, substitute, topological
from eqfuse.ir.loops import loop_results, result_number
from eqfuse.ops.types import TensorType

Linearise = Callable[..., list[Node | None]]
GraphTranspose = Callable[..., list[Node]]


def _body(outputs: Sequence[Node], **inputs: Sequence[Node]) -> Body:
    """The graph of `outputs` over `inputs`, which are named by their kind and number, in this order."""
    named = {old: f"{kind} {i}" for kind, group in inputs.items() for i, old in enumerate(group)}
    new = body_inputs(named.values(), [old.type for old in named])
    return Body(Graph(tuple(new), substitute(outputs, dict(zip(named, new, strict=True)))))


def _changing(inputs: Sequence[Node]) -> list[Node]:
    """Inputs that stand for the changes of `inputs`, or for their cotangents."""
    return [input_node(f"change of {n.attr('name')}", n.type) for n in inputs]


def _or_zeros(changes: Sequence[Node | None], like: Sequence[Node]) -> list[Node]:
    return [zeros_like(n).node if d is None else d for d, n in zip(changes, like, strict=True)]


def _fixpoint(
    outputs: Sequence[Node], carries: Sequence[Node], at_first: Collection[int], steps: Mapping[Node, Node],
    others: Collection[Node], linearise: Linearise,
) -> tuple[list[int], list[Node | None], list[Node]]:  # fmt: skip
    """Which of the `carries` change sooner or later, where those `at_first` and `others` change by `steps`; what the
    `outputs` change by then; and the `outputs`, whose calls of functions with a rule are what that computes."""
    changing = set(at_first)
    while True:
        seeds = {c: steps[c] for i, c in enumerate(carries) if i in changing} | {o: steps[o] for o in others}
        replaced: dict[Node, Node] = {}
        of_outputs = linearise(outputs, seeds, replaced)
        more = {i for i in range(len(carries)) if of_outputs[i] is not None} - changing
        if not more:
            return sorted(changing), *_replaced(of_outputs, outputs, replaced)
        changing |= more


def _replaced(
    changes: Sequence[Node | None], outputs: Sequence[Node], replaced: dict[Node, Node]
) -> tuple[list[Node | None], list[Node]]:
    """`changes`, with the nodes in them that others take the place of; and `outputs`, where these hold calls of
    functions with a rule: loops that take the place of others compute more, which the outputs do not read."""
    tangents = [d for d in changes if d is not None]
    new = dict(zip(tangents, substitute(tangents, replaced), strict=True))
    made_of = substitute(outputs, replaced) if _has_rules(outputs) else outputs
    return [None if d is None else new[d] for d in changes], list(made_of)


def _has_rules(nodes: Sequence[Node]) -> bool:
    """Is a function with a rule called in `nodes`, or in the body of a loop among them?"""
    bodies = [a.graph.outputs for n in topological(nodes) for a in n.attrs if isinstance(a, Body)]
    return any(n.op == "custom_call" for n in topological(nodes)) or any(map(_has_rules, bodies))


@dataclass(frozen=True)
class _Scan:
    """The parts of a scan, outside and inside of it."""

    index: Node
    carries: Sequence[Node]
    rows: Sequence[Node]
    shared: Sequence[Node]
    first: Sequence[Node]
    arrays: Sequence[Node]
    shared_arguments: Sequence[Node]
    outputs: Sequence[Node]

    @classmethod
    def parts_of(cls, n: Node) -> _Scan:
        graph, c, s = n.attr("body").graph, n.attr("carries"), n.attr("stacked")
        index, *inside = graph.inputs
        first, arrays, shared = n.args[:c], n.args[c : c + s], n.args[c + s :]
        return cls(index, inside[:c], inside[c : c + s], inside[c + s :], first, arrays, shared, graph.outputs)


def _scan(
    n: Node, outputs: Sequence[Node], index: Node, carries: Mapping[Node, Node], rows: Mapping[Node, Node],
    shared: Mapping[Node, Node], turned: bool = False,
) -> list[Node]:  # fmt: skip
    """The results of a scan of as many steps as `n`: inputs of its step, and what they stand for."""
    used = set(topological(outputs))
    rows = {r: x for r, x in rows.items() if r in used}
    shared = {s: x for s, x in shared.items() if s in used}
    body = _body(outputs, index=[index], carry=[*carries], row=[*rows], shared=[*shared])
    attrs = (body, len(carries), len(rows), n.attr("trips"), n.attr("start"), n.attr("reverse") != turned)
    return loop_results(node("scan", (*carries.values(), *rows.values(), *shared.values()), attrs))


def _scan_changes(n: Node, d: Changes, linearise: Linearise) -> tuple[list[Node | None], Mapping[Node, Node]]:
    p = _Scan.parts_of(n)
    c, s = len(p.carries), len(p.rows)
    inside = [*p.carries, *p.rows, *p.shared]
    steps = dict(zip(inside, _changing(inside), strict=True))
    others = [i for i, change in zip(inside[c:], d[c:], strict=True) if change is not None]
    at_first = [i for i in range(c) if d[i] is not None]
    changing, of_outputs, made_of = _fixpoint(p.outputs, p.carries, at_first, steps, others, linearise)
    stacked = [j for j in range(c, len(p.outputs)) if of_outputs[j] is not None]
    of_carries = _or_zeros([of_outputs[i] for i in changing], [p.carries[i] for i in changing])
    outputs = [*of_carries, *(of_outputs[j] for j in stacked)]
    used = set(topological(outputs))  # type: ignore[arg-type]
    read = [carry for carry in p.carries if carry in used]
    stacks, instead = _stacked(n, p, made_of, read)
    carries = {steps[p.carries[i]]: d[i] or zeros_like(p.carries[i]).node for i in changing}
    rows = {steps[r]: x for r, x in zip(p.rows, d[c : c + s], strict=True) if x is not None}
    rows |= dict(zip(read, stacks, strict=True)) | dict(zip(p.rows, p.arrays, strict=True))
    shared = {steps[r]: x for r, x in zip(p.shared, d[c + s :], strict=True) if x is not None}
    shared |= dict(zip(p.shared, p.shared_arguments, strict=True))
    of_results = _scan(n, outputs, p.index, carries, rows, shared) if outputs else []  # type: ignore[arg-type]
    changes = dict(zip([*changing, *stacked], of_results, strict=True))
    return [changes.get(k) for k in range(len(p.outputs))], instead


def _stacked(
    n: Node, p: _Scan, outputs: Sequence[Node], carries: Sequence[Node]
) -> tuple[list[Node], Mapping[Node, Node]]:
    """What the `carries` of the scan `n` were before each step; and the scan of the same `outputs` that stacks them, in
    place of `n`."""
    if not carries and [*outputs] == [*p.outputs]:
        return [], {}
    body = Body(Graph(n.attr("body").graph.inputs, (*outputs, *carries)))
    more = node("scan", n.args, (body, *n.attrs[1:]))
    values = loop_results(more)
    return values[len(outputs) :], {n: more if len(outputs) > 1 else values[0]}


def _scan_transpose(
    n: Node, cts: Mapping[int, Expr], linear: set[int], transpose: GraphTranspose
) -> dict[int, Expr]:
    p = _Scan.parts_of(n)
    c, s = len(p.carries), len(p.rows)
    inside = [*p.carries, *p.rows, *p.shared]
    rows = [r for i, r in enumerate(p.rows) if c + i in linear]
    summed = [r for i, r in enumerate(p.shared) if c + s + i in linear]
    after = _changing(p.carries)
    stacked = [j for j in range(c, len(p.outputs)) if j in cts]
    stack_cotangents = [input_node(f"cotangent {j}", p.outputs[j].type) for j in stacked]
    results_read = [*p.outputs[:c], *(p.outputs[j] for j in stacked)]
    cotangents = transpose(results_read, [*p.carries, *rows, *summed], [*after, *stack_cotangents])
    sums = [input_node(f"sum {i}", TensorType(_wide(r), r.shape)) for i, r in enumerate(summed)]
    added = [(Expr(a) + cast(Expr(x), a.dtype)).node for a, x in zip(sums, cotangents[c + len(rows) :], strict=True)]
    begin = [(cts[i] if i in cts else zeros_like(x)).node for i, x in enumerate(p.carries)]
    carries = dict(zip(after, begin, strict=True)) | {a: filled(0, a.type).node for a in sums}
    row_arrays = dict(zip(p.rows, p.arrays, strict=True))
    stacks = {g: cts[j].node for g, j in zip(stack_cotangents, stacked, strict=True)}
    arrays = stacks | {r: x for r, x in row_arrays.items() if r not in rows}
    shared = {r: x for r, x in zip(p.shared, p.shared_arguments, strict=True) if r not in summed}
    outputs = [*cotangents[:c], *added, *cotangents[c : c + len(rows)]]
    loop_results = _scan(n, outputs, p.index, carries, arrays, shared, turned=True)
    parts = dict(zip([*p.carries, *summed, *rows], loop_results, strict=True))
    return {i: cast(Expr(parts[x]), x.dtype) for i, x in enumerate(inside) if x in parts}


def _wide(x: Node) -> np.dtype:
    return FLOAT32 if x.dtype in NARROW_FLOATS else x.dtype


# ---- loops of which data decide how often they run


def _joint_changes(
    n: Node, d: Changes, linearise: Linearise, lead: int
) -> tuple[list[Node | None], Mapping[Node, Node]]:
    """Of a loop whose step takes `lead` inputs before its carries, and as many bounds outside."""
    bodies = [a.graph for a in n.attrs if isinstance(a, Body)]
    step, c, bounds = bodies[-1], n.attr("carries"), 2 * lead
    inside = step.inputs[lead:]
    carries, shared = inside[:c], inside[c:]
    steps = dict(zip(inside, _changing(inside), strict=True))
    of_args = d[bounds:]
    others = [x for x, change in zip(shared, of_args[c:], strict=True) if change is not None]
    at_first = [i for i in range(c) if of_args[i] is not None]
    changing, of_outputs, _ = _fixpoint(step.outputs, carries, at_first, steps, others, linearise)
    moved = [carries[i] for i in changing]
    after = [*step.outputs, *_or_zeros([of_outputs[i] for i in changing], moved)]
    groups = {"carry": [*carries, *(steps[x] for x in moved)], "shared": [*shared, *(steps[x] for x in others)]}
    joint_bodies = [_body(after, **({"index": step.inputs[:lead]} if lead else {}), **groups)]
    for condition in bodies[:-1]:
        renamed = substitute(condition.outputs, dict(zip(condition.inputs, inside, strict=True)))
        joint_bodies.insert(0, _body(renamed, **groups))
    begin = [of_args[i] or zeros_like(carries[i]).node for i in changing]
    rest = [x for x in of_args[c:] if x is not None]
    args = (*n.args[: bounds + c], *begin, *n.args[bounds + c :], *rest)
    joint = loop_results(node(n.op, args, (*joint_bodies, c + len(changing))))
    changes = dict(zip(changing, joint[c:], strict=True))
    return [changes.get(i) for i in range(c)], {}


def _while_changes(n: Node, d: Changes, linearise: Linearise) -> tuple[list[Node | None], Mapping[Node, Node]]:
    return _joint_changes(n, d, linearise, 0)


def _fori_changes(n: Node, d: Changes, linearise: Linearise) -> tuple[list[Node | None], Mapping[Node, Node]]:
    return _joint_changes(n, d, linearise, 1)


# ---- choices


def _choice_changes(n: Node, d: Changes, linearise: Linearise) -> tuple[list[Node | None], Mapping[Node, Node]]:
    branches = [n.attr("yes").graph, n.attr("no").graph]
    moved = [i for i, change in enumerate(d[1:]) if change is not None]
    of_branches, again = [], []  # `again`: what takes the place of the branches
    for branch in branches:
        steps = _changing([branch.inputs[i] for i in moved])
        replaced: dict[Node, Node] = {}
        seeds = dict(zip([branch.inputs[i] for i in moved], steps, strict=True))
        changes, made_of = _replaced(linearise(branch.outputs, seeds, replaced), branch.outputs, replaced)
        of_branches.append((branch, steps, changes))
        again.append(Body(Graph(branch.inputs, tuple(made_of))))
    changing = [k for k in range(len(branches[0].outputs)) if any(after[k] is not None for *_, after in of_branches)]
    if not changing:
        return [None] * len(branches[0].outputs), {}
    bodies = []
    for branch, steps, changes in of_branches:
        outputs = _or_zeros([changes[k] for k in changing], [branch.outputs[k] for k in changing])
        bodies.append(_body(outputs, shared=branch.inputs, change=steps))
    tangents = loop_results(node("if_else", (*n.args, *(change for change in d[1:] if change is not None)), bodies))
    by_place = dict(zip(changing, tangents, strict=True))
    return [by_place.get(k) for k in range(len(branches[0].outputs))], {n: node("if_else", n.args, again)}


def _choice_transpose(
    n: Node, cts: Mapping[int, Expr], linear: set[int], transpose: GraphTranspose
) -> dict[int, Expr]:
    positions = sorted(cts)
    bodies = []
    for branch in (n.attr("yes").graph, n.attr("no").graph):
        sources = [branch.inputs[i - 1] for i in sorted(linear)]
        steps = [input_node(f"cotangent {k}", branch.outputs[k].type) for k in positions]
        outputs = transpose([branch.outputs[k] for k in positions], sources, steps)
        kept = [x for i, x in enumerate(branch.inputs) if i + 1 not in linear]
        bodies.append(_body(outputs, shared=kept, change=steps))
    kept_args = [a for i, a in enumerate(n.args) if i not in linear]
    cotangents = loop_results(node("if_else", (*kept_args, *(cts[k].node for k in positions)), bodies))
    return {i: Expr(x) for i, x in zip(sorted(linear), cotangents, strict=True)}


ROWS: dict[str, DerivativeRow] = {
    "scan": DerivativeRow(several=_scan_changes, transpose_several=_scan_transpose),
    "while_loop": DerivativeRow(several=_while_changes),
    "fori_loop": DerivativeRow(several=_fori_changes),
    "if_else": DerivativeRow(several=_choice_changes, transpose_several=_choice_transpose),
    "loop_result": DerivativeRow(part=result_number),
    "pure_callback": refused("a function that is called as it is has a derivative by ef.custom_vjp alone"),
}
