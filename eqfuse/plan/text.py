"""A plan and its report as JSON and back: what the disk cache and saved programs hold. No pickle: reading runs nothing.

In: a `Plan`. Out: JSON text that `plan_of_text` turns into the same plan, given its graph (of whose constants it has
the numbers) and its device (whose profile is longer than most plans).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, checked_graph
from eqfuse.ir.text import parse
from eqfuse.kinds import KINDS
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import tensor_type
from eqfuse.plan.loops import inner_graphs, loop_of
from eqfuse.plan.plan import SETUP, Kernel, Plan
from eqfuse.plan.report import KernelReport, Report
from eqfuse.rewrites import numerics_named


def plan_text(plan: Plan) -> str:
    """`plan` as JSON text, without its graph, constants of it and its device."""
    return _text(plan, plan.graph.literals)


def _text(plan: Plan, literals: Mapping[Literal, int]) -> str:
    bodies: dict[Graph, int] = {}
    where = {n.literal: i for i, n in enumerate(_constants(plan.graph))}

    def kernel(k: Kernel) -> list[Any]:
        body = bodies.setdefault(k.body, len(bodies))
        return [k.kind, body, k.reads, k.writes, astuple(k.price), [_text(inner, literals) for inner in k.inner]]

    def constant(literal: Literal) -> str:
        return str(literals[literal]) if literal in literals else literal.text()

    return json.dumps(
        {
            "graph": plan.graph.key,
            "types": [str(t) for t in plan.types],
            "inputs": plan.inputs,
            "constants": [[value, where[literal]] for value, literal in plan.constants],
            "setup": [kernel(k) for k in plan.setup],
            "kernels": [kernel(k) for k in plan.kernels],
            "outputs": plan.outputs,
            "waists": plan.waists,
            "bound": plan.bound,
            "numerics": plan.numerics,
            "sources": plan.sources,
            "bodies": [b.text(constant) for b in bodies],
        }
    )


def plan_of_text(text: str, graph: Graph, device: Device) -> Plan:
    """The plan that `plan_text` wrote for `graph` and `device`. EqfuseError when the text is something else or of
    another graph."""
    return _of_text(text, graph, device, [*graph.literals])


def _of_text(text: str, graph: Graph, device: Device, literals: Sequence[Literal]) -> Plan:
    try:
        data = json.loads(text)
        if data["graph"] != graph.key:
            raise EqfuseError("this plan was made for another graph")
        bodies = [checked_graph(parse(body, literals)) for body in data["bodies"]]
        constants = _constants(graph)
        held = [(int(value), constants[index].literal) for value, index in data["constants"]]

        def kernel(
            kind: str, body: int, reads: list[int], writes: list[int], price: list[Any], inner: list[str]
        ) -> Kernel:
            plans = _inner(bodies[body], inner, device, literals)
            return Kernel(kind, bodies[body], tuple(reads), tuple(writes), Price(*price), plans)

        plan = Plan(
            graph=graph,
            device=device,
            types=tuple(map(tensor_type, data["types"])),
            inputs=tuple(data["inputs"]),
            constants=tuple((v, literal) for v, literal in held if isinstance(literal, Literal)),
            setup=tuple(kernel(*k) for k in data["setup"]),
            kernels=tuple(kernel(*k) for k in data["kernels"]),
            outputs=tuple(data["outputs"]),
            waists=tuple(data["waists"]),
            bound=None if data["bound"] is None else float(data["bound"]),
            numerics=numerics_named(data["numerics"]),
            sources=tuple((int(value), int(n)) for value, n in data["sources"]),
        )
        _check(plan)
        return plan
    except EqfuseError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise EqfuseError(f"this is not the text of a plan: {type(error).__name__}: {error}") from error


def _inner(body: Graph, texts: list[str], device: Device, literals: Sequence[Literal]) -> tuple[Plan, ...]:
    """The plans of the steps of a loop."""
    if not texts:
        return ()
    loop = loop_of(body)
    if loop is None:
        raise ValueError("there are plans of steps, and no loop")
    steps = zip(texts, inner_graphs(loop), strict=True)
    return tuple([_of_text(text, graph, device, literals) for text, graph in steps])


def report_text(report: Report) -> dict[str, Any]:
    """`report` as what JSON holds."""
    return asdict(report)


def report_of_text(data: dict[str, Any]) -> Report:
    """The report that `report_text` wrote. EqfuseError when it is something else."""
    try:
        kernels = tuple(KernelReport(**(k | {"ops": tuple(k["ops"])})) for k in data["kernels"])
        return Report(**(data | {"kernels": kernels, "rolled": tuple(data["rolled"])}))
    except (KeyError, TypeError) as error:
        raise EqfuseError(f"this is not a report: {type(error).__name__}: {error}") from error


def _check(plan: Plan) -> None:
    """Every kernel is of a kind there is and reads values that exist by then, of the types its body says; else
    ValueError."""
    types = plan.types
    available = {v: literal.type for v, literal in plan.constants}
    inputs = {v: n.type for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)}
    for stage, arguments, kinds in ((plan.setup, {}, (*KINDS, SETUP)), (plan.kernels, inputs, KINDS)):
        available |= arguments
        for k in stage:
            reads = [n.type for n in k.body.inputs]
            if k.kind not in kinds or [available[v] for v in k.reads] != reads:
                raise ValueError(f"a kernel of kind {k.kind!r} does not fit the values it reads")
            available |= zip(k.writes, [o.type for o in k.body.outputs], strict=True)
    if [available[v] for v in plan.outputs] != [o.type for o in plan.graph.outputs]:
        raise ValueError("the results are not those of the graph")
    if not available.keys() >= set(plan.waists):
        raise ValueError("the graph is cut at values that no kernel computes")
    if any(not 0 <= v < len(types) or types[v] != t for v, t in available.items()):
        raise ValueError("the table of types does not fit the kernels")


def _constants(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "const"]
