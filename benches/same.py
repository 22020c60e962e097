"""Do two plans of one program run the same kernels? Then they take the same time, whatever a clock says.

In: a `Plan`. Out: `kernels_of`, equal for plans that differ at most in numbering, in the order of the operands of
commutative operators, and in how values are computed that are known before a call.
"""

from __future__ import annotations

import hashlib

from eqfuse.ir.graph import Node
from eqfuse.ops.literal import Literal
from eqfuse.plan.plan import Kernel, Plan


def kernels_of(plan: Plan) -> tuple[str, ...]:
    """The kernels by what they compute from what, sorted."""
    constants = {v for v, _ in plan.constants} | {v for k in plan.setup for v in k.writes}
    values = {v: f"known {plan.types[v]}" if v in constants else f"input {i}" for i, v in enumerate(plan.inputs)}
    values |= {v: f"known {plan.types[v]}" for v in constants}
    names = []
    for kernel in plan.kernels:
        name = _digest(kernel, values)
        values |= {v: f"{name}.{output}" for v, output in zip(kernel.writes, _outputs(kernel, values), strict=True)}
        if not kernel.is_view:
            names.append(name)
    return tuple(sorted(names))


def _digest(kernel: Kernel, values: dict[int, str]) -> str:
    return _short(f"{kernel.kind} {sorted(_outputs(kernel, values))}")


def _outputs(kernel: Kernel, values: dict[int, str]) -> list[str]:
    names = {n: values[v] for n, v in zip(kernel.body.inputs, kernel.reads, strict=True)}
    for n in kernel.body.nodes:
        if n not in names:
            names[n] = _short(_described(n, [names[a] for a in n.args]))
    return [names[o] for o in kernel.body.outputs]


def _described(n: Node, args: list[str]) -> str:
    attrs = [a.digest() if isinstance(a, Literal) else repr(a) for a in n.attrs]
    return f"{n.op} {n.type} {attrs} {sorted(args) if n.row.commutes else args}"


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
