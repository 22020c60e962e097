"""contract: one matrix product or convolution. Operands as views, a prologue on the left operand, an epilogue.

On a CPU the product is computed by panels of whole rows, so the prologue may be a row kernel over the last axis and the
epilogue may reduce over it. On a GPU the product is a library call and its consumers fuse among themselves.
"""

from __future__ import annotations

from eqfuse.kinds.kind import Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.CONTRACTION):
        return _product(call)
    anchors = call.anchors
    if not anchors or not all(a.kind == "contract" for a in anchors):
        return None
    if call.device.kind == "gpu":
        return "the product is a library call on this device"
    first = anchors[0]
    if any(a.products != first.products for a in anchors):
        return "it needs two different products"
    if call.is_a(Role.ELEMENTWISE):
        axes = max((a.axes for a in anchors), key=len)
        reduced = State("contract", (), first.space, axes=axes).reduced
        if call.out.shape != first.space and (not axes or call.out.shape != reduced):
            return "the epilogue of a product works on the product's own elements"
        return State("contract", call.out.shape, first.space, axes=axes, products=first.products, panel=first.panel)
    if call.is_a(Role.REDUCTION):
        if not first.panel or call.attrs[0] != (-1,) or first.shape != first.space:
            return "only a reduction over whole rows of a matrix product can follow it in one kernel"
        return State("contract", call.out.shape, first.space, axes=(-1,), products=first.products, panel=True)
    if call.is_a(Role.VIEW):
        return "a view of a product is taken by its reader"
    return None


def _product(call: Call) -> State | str | None:
    left, right = call.states
    if not right.at_leaf:
        return "the right operand of a product is read from memory"
    matmul = call.row.name == "matmul"
    done = State("contract", call.out.shape, call.out.shape, products=(call.name,), panel=matmul)
    if left.at_leaf:
        return done
    if call.device.kind == "gpu":
        return "the product is a library call on this device"
    if matmul and call.types[0].shape[:-2] != call.out.shape[:-2]:
        return "the left operand would be computed once per batch entry"
    if left.kind == "map":
        return done
    row = left.kind == "row" and left.axes == (-1,) and left.shape == left.space
    if matmul and row:
        return done
    if left.kind == "contract":
        return None
    return f"the result of a kernel of kind {left.kind} is stored before a product reads it"


KIND = Kind("contract", accept)
