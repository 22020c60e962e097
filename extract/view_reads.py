"""Views inside of the kernels that read them, on targets whose kernels read arrays in C order: elsewhere a call would
copy them.

Segments read slices of values as if these were arrays, so that alike steps are one segment: no search could put them
inside. In: a `Plan`. Out: the plan, of whose kernels some read the array that a view is of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eqfuse.cost.targets import TARGETS
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.view_strides import contiguous
from eqfuse.plan.plan import Kernel, Plan

WORTH_A_TEXT = 20e-6  # seconds of a call that are to be saved for each kernel that is compiled more


@dataclass(frozen=True)
class _View:
    """The value `base`, and what the view is of it: `body`, of one input. `copying`: seconds, none in C order."""

    base: int
    body: Graph
    copying: float


def views_inside(plan: Plan) -> Plan:
    """`plan`, with views inside of its elementwise kernels and reductions where that saves copies. Kernels that were
    alike stay so, unless the texts that they become are worth it."""
    target = TARGETS.get(plan.device.target)
    if target is None or not target.searches_schedules:
        return plan
    views = _views(plan)
    saved: dict[int, float] = {}
    changes: dict[int, Kernel] = {}
    alike: dict[tuple[str, Graph], list[int]] = defaultdict(list)
    for i, k in enumerate(plan.kernels):
        inside = _worth_trying(k, views) if k.template.pointwise or k.template.reduces else {}
        changed = _reading_bases(k, inside, plan) if inside else None
        if changed is not None:
            changes[i] = changed
            saved[i] = k.price.seconds + sum(view.copying for view in inside.values()) - changed.price.seconds
            alike[k.kind, k.body].append(i)
    for numbers in alike.values():
        texts = {(changes[i].kind, changes[i].body) for i in numbers}
        if min(saved[i] for i in numbers) < 0 or sum(saved[i] for i in numbers) < WORTH_A_TEXT * len(texts):
            for i in numbers:
                del changes[i]
    if not changes:
        return plan
    kernels = [changes.get(i, k) for i, k in enumerate(plan.kernels)]
    return replace(plan, kernels=_without_unread_views(plan, kernels), bound=None)


def _without_unread_views(plan: Plan, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    needed = {*plan.outputs, *plan.waists}
    left: list[Kernel] = []
    for k in reversed(kernels):
        if not k.is_view or not needed.isdisjoint(k.writes):
            left.append(k)
            needed.update(k.reads)
    return tuple(reversed(left))


def _views(plan: Plan) -> dict[int, _View]:
    """The values that are views."""
    views: dict[int, _View] = {}
    for k in plan.kernels:
        if k.is_view:
            (base,), (value,), body = k.reads, k.writes, k.body
            if base in views:
                inner = views[base]
                outputs = substitute(body.outputs, {body.inputs[0]: inner.body.outputs[0]})
                base, body = inner.base, Graph(inner.body.inputs, outputs)
            answer = priced(body, plan.device)
            if not isinstance(answer, str):
                state, of_copy = answer
                in_order = state.strides == contiguous(state.shape)
                views[value] = _View(base, body, 0.0 if in_order else of_copy.seconds)
    return views


def _worth_trying(kernel: Kernel, views: Mapping[int, _View]) -> dict[int, _View]:
    """The views among what `kernel` reads that a call copies, and others of the same arrays."""
    read = {v: views[v] for v in kernel.reads if v in views}
    bases = {view.base for view in read.values() if view.copying}
    return {v: view for v, view in read.items() if view.base in bases}


def _reading_bases(kernel: Kernel, inside: Mapping[int, _View], plan: Plan) -> Kernel | None:
    """`kernel`, with the views `inside`; None where there is no such kernel."""
    reads = tuple(dict.fromkeys(inside[v].base if v in inside else v for v in kernel.reads))
    constants = {v for v, n in zip(kernel.reads, kernel.body.inputs, strict=True) if n.is_constant_leaf}
    inputs = {v: input_node(f"r{i}", plan.types[v], v in constants) for i, v in enumerate(reads)}
    values: dict[Node, Node] = {}
    for v, n in zip(kernel.reads, kernel.body.inputs, strict=True):
        if v in inside:
            view = inside[v]
            (values[n],) = substitute(view.body.outputs, {view.body.inputs[0]: inputs[view.base]})
        else:
            values[n] = inputs[v]
    body = Graph(tuple(inputs.values()), substitute(kernel.body.outputs, values))
    answer = priced(body, plan.device)
    if isinstance(answer, str):
        return None
    state, price = answer
    return Kernel(state.kind, body, reads, kernel.writes, price)
