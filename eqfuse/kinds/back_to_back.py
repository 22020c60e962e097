"""back_to_back: product, work on whole rows, product; the matrix between them is never stored.

Attention is one, a perceptron of two layers another (cuBLAS and CUTLASS literature: back-to-back GEMM).
"""

from __future__ import annotations

from eqfuse.kinds import contract
from eqfuse.kinds.kind import EMITTERS, FUSED, OWN_PRODUCTS, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "back_to_back"
TILED = "eqfuse.emit.cuda.scheduling.back_to_back:back_to_back_schedule"


def accept(call: Call) -> State | str | None:
    if call.row.name == "matmul":
        left, right = call.states
        if left.kind != contract.NAME or not (right.at_leaf or right.exact):
            return None
        if not left.panel or left.shape != left.space or call.types[0].shape[:-2] != call.out.shape[:-2]:
            return "the rows between two products must stay whole"
        products = (*left.products, call.name)
        held = call.types[0].shape[-1]
        return State(NAME, call.out.shape, call.out.shape, products=products, held=held)
    anchors = call.anchors
    last = next((a for a in anchors if a.kind == NAME), None)
    if last is None or not call.is_a(Role.ELEMENTWISE):
        return None if last is None else "only elementwise work can follow the second product in one kernel"
    for a in anchors:
        row_value = a.kind == contract.NAME and a.products == last.products[:1] and a.shape == (*last.space[:-1], 1)
        if not row_value and a.products != last.products:
            return "it needs a third product"
    if call.out.shape != last.space:
        return "the epilogue of a product works on the product's own elements"
    return State(NAME, call.out.shape, last.space, products=last.products, held=last.held)


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": OWN_PRODUCTS, "cuda": TILED}, emitters=EMITTERS, has_levels=True,
    colour="#e57fc0",
)  # fmt: skip
