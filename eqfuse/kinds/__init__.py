"""The lattice of kinds: which bodies one kernel may have.

In: an operator and the states of its arguments. Out: the state of the larger body, or the reason why there is none.
One module per kind; each accepts, refuses with a reason, or leaves the operator to the next. `register` adds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.targets import package
from eqfuse.cost.work import Work
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds import (
    back_to_back,
    contract,
    library,
    loop,
    map,
    reduce,
    row,
    scan,
    scatter,
    side_by_side,
    total,
    view,
    window,
)  # fmt: skip
from eqfuse.kinds.kind import KINDS, Kind, kind_of
from eqfuse.kinds.seams import seams_of
from eqfuse.kinds.state import Call, State, leaf, runs_after
from eqfuse.ops import Role
from eqfuse.ops import row as op_row
from eqfuse.ops.types import TensorType

_OWN = (view, map, side_by_side, scan, scatter, reduce, row, total, contract, back_to_back, window, loop, library)
KINDS.update({module.KIND.name: module.KIND for module in _OWN})
_REGISTERED: list[Kind] = []


def register(kind: Kind) -> None:
    """Let programs compiled from now on hold kernels of `kind`, which is asked before `library`, the last resort.

    EqfuseError when the name is taken.
    """
    if kind.name in KINDS:
        raise EqfuseError(f"there is a kernel kind {kind.name!r} already; give this one another name")
    last = KINDS.pop(library.NAME)
    KINDS.update({kind.name: kind, library.NAME: last})
    _REGISTERED.append(kind)


def registered() -> tuple[Kind, ...]:
    """The kinds that `register` has added."""
    return tuple(_REGISTERED)


def kind_named(name: str) -> Kind:
    """The kind `name`. EqfuseError when this process has none, as with a saved program whose kind is not registered."""
    if name not in KINDS:
        raise EqfuseError(f"no kernel kind is named {name!r} here; eqfuse.kinds.register it before the program is used")
    return KINDS[name]


def price(
    state: State, read: int, written: int, work: Work, device: Device, arguments: int, itemsize: int = 4
) -> Price:
    """What a kernel of `state` costs by its kind's price; `read`, `written` in bytes, `arguments` counts arrays."""
    return state.template.price(state, read, written, work, device, arguments, itemsize)


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
    reason, target, mapped = "", device.target, any(s.mapped for s in states)
    for kind in KINDS.values() if _has_form(call) else (KINDS[library.NAME],):
        if not kind.is_on(target):
            continue
        state = kind.accept(call)
        if isinstance(state, State) and mapped and not kind.takes_maps:
            state = f"a kernel of kind {kind.name} reads arrays as they lie: what is joined of pieces is stored before"
        if isinstance(state, State):
            return _completed(state, call, mapped)
        reason = reason or state or ""
    return reason or f"no kind of kernel holds {op} on the {target} target"


def _completed(state: State, call: Call, mapped: bool) -> State:
    runs, mapped = runs_after(call), mapped or state.mapped
    seams = seams_of(call) if mapped and not state.seams else state.seams
    same = (state.runs, state.mapped, state.seams) == (runs, mapped, seams)
    return state if same else replace(state, runs=runs, mapped=mapped, seams=seams)


def _has_form(call: Call) -> bool:
    """May the target have the operator in a kernel with others? If not, it is a library call."""
    if call.row.role not in (Role.ELEMENTWISE, Role.REDUCTION, Role.PIECES, Role.GATHER, Role.SCAN):
        return True
    return package(call.device.target).emits(call.row.name, [t.dtype for t in call.types], call.out.dtype)


def merge(a: State, b: State, device: Device) -> State | str:
    """The state of a kernel that computes two values at once on `device`, or why none can."""
    alike = a.space == b.space
    for kind in KINDS.values():
        state = kind.merge(a, b) if kind.is_on(device.target) and (alike or kind.of_any_spaces) else None
        if isinstance(state, State) and (a.mapped or b.mapped):
            return replace(state, mapped=True, seams=a.seams | b.seams)
        if state is not None:
            return state
    return f"kernels of kind {a.kind} and {b.kind} do not merge" if alike else "their iteration spaces differ"


def classify(body: Graph, device: Device) -> State | str:
    """The state of a whole kernel body, or why it is none. Inputs are leaves; so are constants."""
    states: dict[Node, State] = {}
    for n in body.nodes:
        if not n.args:
            states[n] = leaf(n.shape)
            continue
        state = join(n.op, n.attrs, n.type, [a.type for a in n.args], [states[a] for a in n.args], device, n)
        if isinstance(state, str):
            return state
        states[n] = state
    whole = states[body.outputs[0]]
    for output in body.outputs[1:]:
        merged = merge(whole, states[output], device)
        if isinstance(merged, str):
            return merged
        whole = merged
    return whole


__all__ = [
    "KINDS",
    "Call",
    "Kind",
    "State",
    "classify",
    "join",
    "kind_named",
    "kind_of",
    "leaf",
    "merge",
    "price",
    "register",
    "registered",
]
