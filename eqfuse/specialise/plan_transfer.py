"""Transfer of a plan to another size: the same kernels, with other extents, proved equal to the program of that size.

In: a plan and the laws it may rest on; then the graph of the same function traced at another size. Out: the plan of
that graph, or `NotTransferred`, which says why. No search takes place. Where every extent and constant goes is read off
the two traces, side by side; since that is only evidence, nothing rests on it: the transferred plan, its kernels put
back into one another, must be the new graph node for node, or be proved equal to it by egglog.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqfuse.cost.price import Price
from eqfuse.egraph.equality import ROUNDS, equality
from eqfuse.errors import ShapeError
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.plan.loops import inner_graphs, loop_of, loop_price
from eqfuse.plan.plan import SETUP, Kernel, Plan
from eqfuse.rewrites import Law

FREE = Price(0.0, 0, 0, 0, "memory")
NO_EXTENTS = ("axis", "axes")  # attributes whose numbers are never sizes


class NotTransferred(Exception):
    """The plan does not fit this size; the message says why."""


class Ambiguous(NotTransferred):
    """Two extents or constants are one number at the size of the plan: one made at another size may do."""


class PlanTransfer:
    """Transfers `plan` to other sizes. `laws`: those it rests on besides fusion, found by proving it at its own size.

    Raises NotTransferred where that proof fails: it would at every other size.
    """

    def __init__(self, plan: Plan, laws: Sequence[Law]) -> None:
        self.plan = plan
        self._inlined = inlined(plan)
        self._graph = program_of(plan, self._inlined)
        for kernel in (*plan.setup, *plan.kernels):
            _checked(kernel, plan)
        found = equality(plan.graph, self._graph, laws)
        if found is None:
            raise NotTransferred(f"the proof of the plan takes more than {ROUNDS} rounds of its laws")
        self.laws, self._rounds, self._folds = found.laws, found.rounds, found.folds

    @property
    def rests_on(self) -> str:
        """What shows that a transferred plan is the program."""
        if not self._rounds:
            return "the same node for node"
        names = sorted(law.name for law in self.laws)
        more = f" and {len(names) - 4} more laws" if len(names) > 4 else ""
        return f"proved equal with {', '.join(names[:4])}{more}"

    def at(self, graph: Graph) -> Plan:
        """The plan for `graph`, the same function traced at another size."""
        try:
            plan = self._transferred(graph)
        except ShapeError as error:
            raise NotTransferred(f"a kernel does not fit: {error}") from error
        same = program_of(plan, inlined(plan))
        if equality(graph, same, self.laws, self._rounds) is None:
            raise NotTransferred("egglog does not prove the plan equal to the program of this size")
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
        made = {n: input_node(n.attr("name"), values[v].type) for n, v in zip(k.body.inputs, k.reads, strict=True)}
        inputs = tuple(made.values())
        for n in k.body.nodes:
            if n not in made:
                stands[n] = n.over(stands[a] for a in n.args)
                made[n] = node(n.op, (made[a] for a in n.args), new.node(stands[n]).attrs)
        return Graph(inputs, tuple(made[o] for o in k.body.outputs))


def inlined(plan: Plan) -> dict[int, Node]:
    """Every value of `plan` as a node over the inputs of its graph."""
    values = dict(zip(plan.inputs, plan.graph.inputs, strict=True))
    values |= {v: node("const", (), (literal,)) for v, literal in plan.constants}
    for k in (*plan.setup, *plan.kernels):
        made = dict(zip(k.body.inputs, (values[v] for v in k.reads), strict=True))
        for n in k.body.nodes:
            if n not in made:
                made[n] = n.over(made[a] for a in n.args)
        values.update(zip(k.writes, (made[o] for o in k.body.outputs), strict=True))
    return values


def program_of(plan: Plan, values: dict[int, Node]) -> Graph:
    """What `plan` computes, as one graph."""
    return Graph(plan.graph.inputs, tuple(values[v] for v in plan.outputs))


def _price(k: Kernel, body: Graph, plan: Plan) -> Price:
    """The price of `k` with `body`. NotTransferred when that is another kind of kernel, or none the device can run."""
    if k.kind == SETUP:
        return FREE
    if k.inner:
        return _loop_price(k, body, plan)
    found = priced(body, plan.device)
    if isinstance(found, str):
        raise NotTransferred(f"a kernel of kind {k.kind} does not exist at this size: {found}")
    state, price = found
    copy = state.at_leaf and (k.is_view or k.template.pointwise)  # a view that is stored is a copy
    if state.kind != k.kind and not copy:
        raise NotTransferred(f"a kernel of kind {k.kind} would be of kind {state.kind} at this size")
    if math.isinf(price.seconds):
        raise NotTransferred(f"a kernel of kind {k.kind} is too large for {plan.device.name} at this size")
    return FREE if k.is_view else price


def _loop_price(k: Kernel, body: Graph, plan: Plan) -> Price:
    """The same of a loop, whose steps do at each size what they were planned for."""
    n = loop_of(body)
    if n is None or inner_graphs(n) != tuple([step.graph for step in k.inner]):
        raise NotTransferred("a step of a loop has other extents at this size, and is planned anew")
    return loop_price(n, k.inner, plan.device)


def _checked(k: Kernel, plan: Plan) -> None:
    _price(k, k.body, plan)


class Correspondence:
    """Which node, extent and constant of one trace stand for which of another. NotTransferred where they differ."""

    def __init__(self, old: Graph, new: Graph) -> None:
        self._nodes: dict[Node, Node] = {}
        self._extents: dict[int, int] = {0: 0, 1: 1}
        self._unclear: set[int] = set()
        self._literals: dict[Literal, Literal] = {}
        if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
            raise NotTransferred("the function has other inputs or results at this size")
        for pair in (*zip(old.inputs, new.inputs, strict=True), *zip(old.outputs, new.outputs, strict=True)):
            self._align(*pair)

    def _align(self, old: Node, new: Node) -> None:
        stack = [(old, new)]
        while stack:
            a, b = stack.pop()
            known = self._nodes.get(a)
            if known is not None:
                if known is not b:
                    raise Ambiguous(f"two values that are one {a.op} at the planned size differ at this one")
                continue
            if a.op != b.op or len(a.args) != len(b.args) or a.dtype != b.dtype or len(a.shape) != len(b.shape):
                raise NotTransferred(f"the function computes {_described(b)} where it had {_described(a)}")
            self._nodes[a] = b
            for m, n in zip(a.shape, b.shape, strict=True):
                self._extent(m, n)
            if a.op == "const":
                self._literals[a.literal] = b.literal
            elif a.op != "input":
                self._pair(a, a.attrs, b.attrs)
            stack.extend(zip(a.args, b.args, strict=True))

    def _pair(self, where: Node, a: Hashable, b: Hashable) -> None:
        """Note which numbers of one attribute stand for which of the other."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            for m, n in zip(a, b, strict=True):
                self._pair(where, m, n)
        elif type(a) is int and type(b) is int:
            self._extent(a, b)
        elif a != b:
            raise NotTransferred(f"an attribute of {where.op} is {b} where it was {a}")

    def _extent(self, a: int, b: int) -> None:
        if self._extents.setdefault(a, b) != b:
            self._unclear.add(a)

    def compute(self, folds: Iterable[tuple[str, tuple, tuple[Literal, ...], Literal]]) -> None:
        """Follow the constants that laws computed from the program's own."""
        if all(a == b for a, b in self._literals.items()):
            return
        for op, attrs, args, value in folds:
            if value not in self._literals and any(a in self._literals for a in args):
                arrays = [self._literals.get(a, a).array for a in args]
                with np.errstate(all="ignore"):
                    array = row(op).meaning(*arrays, *(self._attribute(a) for a in attrs))
                self._literals[value] = Literal(np.asarray(array))

    def node(self, old: Node) -> Node:
        """The node that stands for `old`: a node of the trace, or one that a law made from it."""
        stack = [old]
        while stack:
            n = stack[-1]
            missing = [a for a in n.args if a not in self._nodes]
            if n in self._nodes or not missing:
                stack.pop()
            if n not in self._nodes:
                if missing:
                    stack.extend(missing)
                else:
                    self._nodes[n] = self._made(n)
        return self._nodes[old]

    def _made(self, n: Node) -> Node:
        if n.op == "const":
            return node("const", (), (self._literals.get(n.literal, n.literal),))
        names = row(n.op).attrs
        attrs = [a if name in NO_EXTENTS else self._attribute(a) for name, a in zip(names, n.attrs, strict=True)]
        return node(n.op, (self._nodes[a] for a in n.args), attrs)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._attribute(v) for v in value)
        return self._number(value) if type(value) is int else value

    def _number(self, value: int) -> int:
        """The number that stands for `value`: an extent, a product of extents, or the number itself."""
        if value in self._unclear:
            raise Ambiguous(f"{value} stands for two extents at the planned size")
        if value in self._extents:
            return self._extents[value]
        for a, b in self._extents.items():
            if 1 < a < value and a != b and value % a == 0 and a not in self._unclear:
                return b * self._number(value // a)
        return value


def _described(n: Node) -> str:
    return f"{n.op} of {TensorType(n.dtype, n.shape)}"
