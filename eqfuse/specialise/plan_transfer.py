"""Transfer of a plan to another size: the same kernels, with other extents, proved equal to the program of that size.

In: a plan and the laws it may rest on; then the graph of the same function traced at another size. Out: the plan of
that graph, or `NoTransfer`, which says why. No search takes place. Where every extent and constant goes is read off
the two traces, side by side; since that is only evidence, nothing rests on it: the transferred plan, its kernels put
back into one another, must be the new graph node for node, or be proved equal to it by egglog.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from eqfuse.cost.price import Price
from eqfuse.egraph.equality import PROOF_ROUNDS, equality
from eqfuse.errors import ShapeError
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.correspondence import Correspondence, NoTransfer
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.plan.loops import inner_graphs, loop_of, loop_price
from eqfuse.plan.plan import SETUP, Kernel, Plan
from eqfuse.rewrites import Law

FREE = Price(0.0, 0, 0, 0, "memory")


class PlanTransfer:
    """Transfers `plan` to other sizes. `laws`: those it rests on besides fusion, found by proving it at its own size.

    Raises NoTransfer where that proof fails: it would at every other size.
    """

    def __init__(self, plan: Plan, laws: Sequence[Law]) -> None:
        self.plan = plan
        self._inlined = value_nodes(plan)
        self._graph = program_of(plan, self._inlined)
        for kernel in (*plan.setup, *plan.kernels):
            _checked(kernel, plan)
        proof = equality(plan.graph, self._graph, laws)
        if proof is None:
            raise NoTransfer(f"the proof of the plan takes more than {PROOF_ROUNDS} rounds of its laws")
        self.laws, self._rounds, self._folds = proof.laws, proof.rounds, proof.folds

    @property
    def rests_on(self) -> str:
        """What shows that a transferred plan is the program."""
        if not self._rounds:
            return "the same node for node"
        names = sorted(law.name for law in self.laws)
        more = f" and {len(names) - 4} more laws" if len(names) > 4 else ""
        return f"proved equal with {', '.join(names[:4])}{more}"

    def plan_for(self, graph: Graph) -> Plan:
        """The plan for `graph`, the same function traced at another size."""
        try:
            plan = self._transferred(graph)
        except ShapeError as error:
            raise NoTransfer(f"a kernel does not fit: {error}") from error
        same = program_of(plan, value_nodes(plan))
        if equality(graph, same, self.laws, self._rounds) is None:
            raise NoTransfer("egglog does not prove the plan equal to the program of this size")
        return plan

    def _transferred(self, graph: Graph) -> Plan:
        new = Correspondence(self.plan.graph, graph)
        new.compute(self._folds)
        values = {v: new.node(n) for v, n in self._inlined.items()}

        def kernel(k: Kernel) -> Kernel:
            body = self._body(k, new, values)
            return replace(k, body=body, price=_price(k, body, self.plan))

        return replace(
            self.plan,
            graph=graph,
            types=tuple(values[v].type for v in range(len(self.plan.types))),
            constants=tuple((v, values[v].literal) for v, _ in self.plan.constants),
            setup=tuple(map(kernel, self.plan.setup)),
            kernels=tuple(map(kernel, self.plan.kernels)),
        )

    def _body(self, k: Kernel, new: Correspondence, values: dict[int, Node]) -> Graph:
        """The body of `k` with the extents and constants of the new size."""
        stands = dict(zip(k.body.inputs, (self._inlined[v] for v in k.reads), strict=True))
        read = zip(k.body.inputs, k.reads, strict=True)
        nodes = {n: input_node(n.attr("name"), values[v].type, n.is_constant_leaf) for n, v in read}
        inputs = tuple(nodes.values())
        for n in k.body.nodes:
            if n not in nodes:
                stands[n] = n.over(stands[a] for a in n.args)
                nodes[n] = node(n.op, (nodes[a] for a in n.args), new.node(stands[n]).attrs)
        return Graph(inputs, tuple(nodes[o] for o in k.body.outputs))


def value_nodes(plan: Plan) -> dict[int, Node]:
    """Every value of `plan` as a node over the inputs of its graph."""
    values = dict(zip(plan.inputs, plan.graph.inputs, strict=True))
    values |= {v: node("const", (), (literal,)) for v, literal in plan.constants}
    for k in (*plan.setup, *plan.kernels):
        nodes = dict(zip(k.body.inputs, (values[v] for v in k.reads), strict=True))
        for n in k.body.nodes:
            if n not in nodes:
                nodes[n] = n.over(nodes[a] for a in n.args)
        values.update(zip(k.writes, (nodes[o] for o in k.body.outputs), strict=True))
    return values


def program_of(plan: Plan, values: dict[int, Node]) -> Graph:
    """What `plan` computes, as one graph."""
    return Graph(plan.graph.inputs, tuple(values[v] for v in plan.outputs))


def _price(k: Kernel, body: Graph, plan: Plan) -> Price:
    """The price of `k` with `body`. NoTransfer when that is another kind of kernel, or none the device can run."""
    if k.kind == SETUP:
        return FREE
    if k.inner:
        return _loop_price(k, body, plan)
    answer = priced(body, plan.device, k.kind if k.template.of_any_spaces else "")
    if isinstance(answer, str):
        raise NoTransfer(f"a kernel of kind {k.kind} does not exist at this size: {answer}")
    state, price = answer
    copy = state.at_leaf and (k.is_view or k.template.pointwise)  # a view that is stored is a copy
    if state.kind != k.kind and not copy:
        raise NoTransfer(f"a kernel of kind {k.kind} would be of kind {state.kind} at this size")
    if math.isinf(price.seconds):
        raise NoTransfer(f"a kernel of kind {k.kind} is too large for {plan.device.name} at this size")
    return FREE if k.is_view else price


def _loop_price(k: Kernel, body: Graph, plan: Plan) -> Price:
    """The same of a loop, whose steps do at each size what they were planned for."""
    n = loop_of(body)
    if n is None or inner_graphs(n) != tuple([step.graph for step in k.inner]):
        raise NoTransfer("a step of a loop has other extents at this size, and is planned anew")
    return loop_price(n, k.inner, plan.device)


def _checked(k: Kernel, plan: Plan) -> None:
    _price(k, k.body, plan)
