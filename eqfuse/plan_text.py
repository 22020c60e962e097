"""A plan as JSON and back: what the disk cache and saved programs hold. No pickle, so reading one runs nothing.

In: a `Plan`. Out: JSON text that `read` turns into the same plan, given its graph (large constants stay in the graph).
"""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from eqfuse.errors import EqfuseError
from eqfuse.hardware import Device
from eqfuse.ir import Graph, Literal, Node, check, parse, tensor_type
from eqfuse.plan import Kernel, Plan, Price


def write(plan: Plan) -> str:
    """`plan` as JSON text, without its graph."""
    bodies: dict[Graph, int] = {}
    where = {n.attrs[0]: i for i, n in enumerate(_constants(plan.graph))}

    def kernel(k: Kernel) -> list[Any]:
        return [k.kind, bodies.setdefault(k.body, len(bodies)), k.reads, k.writes, astuple(k.price)]

    return json.dumps(
        {
            "graph": plan.graph.key,
            "device": json.loads(plan.device.to_json()),
            "types": [str(t) for t in plan.types],
            "inputs": plan.inputs,
            "constants": [[value, where[literal]] for value, literal in plan.constants],
            "setup": [kernel(k) for k in plan.setup],
            "kernels": [kernel(k) for k in plan.kernels],
            "outputs": plan.outputs,
            "bodies": [str(b) for b in bodies],
        }
    )


def read(text: str, graph: Graph) -> Plan:
    """The plan that `write` wrote for `graph`. EqfuseError when the text is something else or of another graph."""
    try:
        data = json.loads(text)
        if data["graph"] != graph.key:
            raise EqfuseError("this plan was made for another graph")
        bodies = [check(parse(body)) for body in data["bodies"]]
        constants = _constants(graph)
        literals = [(int(value), constants[at].attrs[0]) for value, at in data["constants"]]

        def kernel(kind: str, body: int, reads: list[int], writes: list[int], price: list[Any]) -> Kernel:
            return Kernel(kind, bodies[body], tuple(reads), tuple(writes), Price(*price))

        return Plan(
            graph=graph,
            device=Device.from_json(json.dumps(data["device"])),
            types=tuple(map(tensor_type, data["types"])),
            inputs=tuple(data["inputs"]),
            constants=tuple((v, literal) for v, literal in literals if isinstance(literal, Literal)),
            setup=tuple(kernel(*k) for k in data["setup"]),
            kernels=tuple(kernel(*k) for k in data["kernels"]),
            outputs=tuple(data["outputs"]),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise EqfuseError(f"this is not the text of a plan: {type(error).__name__}: {error}") from error


def _constants(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "const"]
