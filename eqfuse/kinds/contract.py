"""contract: one matrix product or convolution. Operands as views, a prologue on the left operand, an epilogue.
Compiled for a CPU, the right operand may have a pointwise prologue too.

Where BLAS computes the product by panels of whole rows, the prologue may be a row kernel over the last axis and the
epilogue may reduce over it, and read what rows like those of the left operand are reduced to. On a device that tiles
products, a lone matrix product is a library call; with elementwise work around it, it is a tiled kernel of our own
(`kinds/product.py`). A lone convolution is whichever is cheaper.
"""

from __future__ import annotations

from dataclasses import replace

from eqfuse.cost.targets import copies_operands
from eqfuse.kinds import row
from eqfuse.kinds.kind import EMITTERS, FUSED, OWN_PRODUCTS, Kind
from eqfuse.kinds.product import WIDEST_ROWS, call_is_dearer, has_template, has_tensor_cores, product_of
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "contract"
CUDA_PRODUCTS = "eqfuse.emit.cuda.scheduling.contract:contract_schedule"


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.CONTRACTION):
        return _product(call)
    anchors = [a for a in call.anchors if a.kind == NAME]
    if not anchors or not all(a in anchors or _of_rows(a, anchors[0], call) for a in call.anchors):
        return None
    first = anchors[0]
    tiled = call.device.tiles_products
    if tiled and first.product is None:
        return "the product is a library call on this device"
    if any(a.products != first.products for a in anchors):
        return "it needs two different products"
    if call.is_a(Role.ELEMENTWISE):
        axes = max((a.axes for a in anchors), key=len)
        reduced = State(NAME, (), first.space, axes=axes).reduced
        if call.out.shape != first.space and (not axes or call.out.shape != reduced):
            return "the epilogue of a product works on the product's own elements"
        unfinished = any(a.unfinished for a in anchors)
        return replace(first, shape=call.out.shape, axes=axes, fused=tiled, unfinished=unfinished)
    if call.is_a(Role.REDUCTION):
        if tiled and not first.panel:
            return "a reduction of a product is a kernel of its own on this device"
        if not first.panel or call.attr("axes") != (-1,) or first.shape != first.space:
            return "only a reduction over whole rows of a matrix product can follow it in one kernel"
        return replace(first, shape=call.out.shape, axes=(-1,), fused=tiled, unfinished=tiled)
    if call.is_a(Role.VIEW):
        return "a view of a product is taken by its reader"
    return None


def _of_rows(a: State, product: State, call: Call) -> bool:
    """Is it reduced from rows of the kind that the product multiplies, which its kernel has at hand?"""
    left = product.left
    if left is None or call.device.tiles_products or not call.is_a(Role.ELEMENTWISE):
        return False
    reduced = a.template.reduces and not a.template.scans and a.axes == (-1,)
    return reduced and a.space == left.shape and a.shape == (*product.space[:-1], 1) and product.panel


def _product(call: Call) -> State | str | None:
    left, right = call.states
    if not right.at_leaf and not (right.template.pointwise and _copies_operands(call)) and not _narrow(call):
        return "the right operand of a product is read from memory"
    matmul = call.row.name == "matmul"
    state = State(NAME, call.out.shape, call.out.shape, products=(call.name,), panel=matmul)
    if call.device.tiles_products:
        return _tiled(call, state)
    if left.at_leaf or (left.merged and _copies_operands(call)):
        return state
    if matmul and call.types[0].shape[:-2] != call.out.shape[:-2]:
        return "the left operand would be computed once per batch entry"
    if left.template.pointwise or (matmul and row.is_whole(left)):
        return replace(state, left=left if matmul else None)
    if left.kind == NAME:
        return None
    return f"the result of a kernel of kind {left.kind} is stored before a product reads it"


def _copies_operands(call: Call) -> bool:
    """Do kernels of the target copy operands, and may compute them on the way?"""
    return call.row.name == "matmul" and copies_operands(call.device)


def _narrow(call: Call) -> str:
    """The 16-bit type of both operands, where tensor cores multiply them before they are widened."""
    left, right = call.states
    return left.exact if left.exact == right.exact and has_tensor_cores(left.exact, call.device) else ""


def _tiled(call: Call, state: State) -> State | str | None:
    left = call.states[0]
    product = product_of(call.row.name, call.attrs, call.types, call.out, call.device, _narrow(call))
    state = replace(state, panel=state.panel and product.depth <= WIDEST_ROWS)
    if not has_template(product, call.device):
        return state if left.at_leaf else f"a product of {call.out} is a library call on this device"
    if left.at_leaf:
        return replace(state, product=product, fused=call_is_dearer(product, call.device))
    if left.template.pointwise:
        return replace(state, product=product, fused=True)
    return f"the result of a kernel of kind {left.kind} is stored before a product reads it"


def merge(a: State, b: State) -> State | None:
    if not a.kind == b.kind == NAME or a.products != b.products:
        return None
    axes = max(a.axes, b.axes, key=len)
    unfinished = a.unfinished or b.unfinished
    return replace(a, shape=a.space, axes=axes, fused=a.product is not None, unfinished=unfinished)


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": OWN_PRODUCTS, "cuda": CUDA_PRODUCTS}, emitters=EMITTERS, merge=merge,
    repeats=True, colour="#e58a8a",
)  # fmt: skip
