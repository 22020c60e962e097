"""The lattice of kinds: which bodies one kernel may have.

In: an operator and the states of its arguments. Out: the state of the larger body, or the reason why there is none.
One module per kind; each accepts, refuses with a reason, or leaves the operator to the next. Prices: `eqfuse/cost.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from eqfuse.hardware import Device
from eqfuse.ir import Graph, Node, TensorType
from eqfuse.kinds import attention, contract, library, map, reduce, row, view, window
from eqfuse.kinds.reduce import same_pass
from eqfuse.kinds.state import Call, State, leaf
from eqfuse.ops import row as op_row

ORDER: tuple[ModuleType, ...] = (view, map, reduce, row, contract, attention, window, library)
KINDS = tuple(module.__name__.rpartition(".")[2] for module in ORDER)
ACCEPT: tuple[Callable[[Call], State | str | None], ...] = tuple(module.accept for module in ORDER)


def join(
    op: str,
    attrs: tuple,
    out: TensorType,
    types: Sequence[TensorType],
    states: Sequence[State],
    device: Device,
    name: object,
) -> State | str:
    """The state of `op` applied to values of `states`, or why no kernel holds them all. `name` identifies a product."""
    call = Call(op_row(op), attrs, out, tuple(types), tuple(states), device, name)
    reason = ""
    for accept in ACCEPT:
        found = accept(call)
        if isinstance(found, State):
            return found
        reason = reason or found or ""
    return reason


def merge(a: State, b: State) -> State | str:
    """The state of a kernel that computes two values at once, or why none can."""
    kinds = {a.kind, b.kind}
    if a.space != b.space:
        return "their iteration spaces differ"
    if kinds == {"map"}:
        return State("map", a.shape, a.space)
    if kinds <= {"map", "row", "reduce"}:
        anchors = [s for s in (a, b) if s.kind != "map"]
        if not same_pass(anchors[0], anchors[-1]):
            return "they reduce different axes"
        kind = "reduce" if kinds == {"reduce"} else "row"
        return State(kind, a.space, a.space, axes=anchors[0].axes)
    if kinds == {"contract"} and a.products == b.products:
        axes = max(a.axes, b.axes, key=len)
        return State("contract", a.space, a.space, axes=axes, products=a.products, panel=a.panel)
    return f"kernels of kind {a.kind} and {b.kind} do not merge"


def classify(body: Graph, device: Device) -> State | str:
    """The state of a whole kernel body, or why it is none. Inputs are leaves; so are constants."""
    states: dict[Node, State] = {}
    for n in body.nodes:
        if not n.args:
            states[n] = leaf(n.shape)
            continue
        found = join(n.op, n.attrs, n.type, [a.type for a in n.args], [states[a] for a in n.args], device, n)
        if isinstance(found, str):
            return found
        states[n] = found
    whole = states[body.outputs[0]]
    for output in body.outputs[1:]:
        merged = merge(whole, states[output])
        if isinstance(merged, str):
            return merged
        whole = merged
    return whole


__all__ = ["KINDS", "ORDER", "State", "classify", "join", "leaf", "merge"]
