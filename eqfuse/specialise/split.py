"""`ef.split_vjp`: forward and backward pass as two programs, with residuals between them.

In: a function and example arguments. Out: `SplitVjp`, for use where somebody else decides when the backward pass runs,
such as another framework's autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eqfuse.budget import Budget
from eqfuse.compiler import compile_graph
from eqfuse.cost.device import Device
from eqfuse.cost.roofline import work
from eqfuse.cost.targets import device_for
from eqfuse.errors import OptionError
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.trace import Spec, trace
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.gradients.call import DifferentiatedCall, argument_places, name_of
from eqfuse.gradients.derived import DerivedFunction
from eqfuse.gradients.partition import POLICIES, Cost, never
from eqfuse.gradients.products import backward_of, of_cotangents
from eqfuse.ir.graph import Body, Node
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.types import TensorType
from eqfuse.options import refuse_unknown
from eqfuse.runtime.program import Program


@dataclass(frozen=True)
class SplitVjp:
    """``result, residuals = split.forward(*args)``, and then ``split.backward(residuals, cotangent)``, a tuple of the
    cotangents of the arguments.

    `residual_bytes` lie between the two beside the arguments: of the residuals, those that are arguments are these
    themselves, and must not be changed meanwhile. `programs`: of both passes.
    """

    programs: tuple[Program, Program]
    residuals: tuple[TensorType, ...]
    residual_bytes: int
    _name: str = field(repr=False)
    _places: tuple[int | None, ...] = field(repr=False)  # of residuals among the leaves of the arguments

    def forward(self, *args: Any) -> tuple[Any, tuple[Any, ...]]:
        result, kept = self.programs[0](*args)
        leaves, rest = tree_leaves((args, {}))[0], iter(kept)
        return result, tuple([next(rest) if place is None else leaves[place] for place in self._places])

    def backward(self, residuals: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
        cotangents: tuple[Any, ...] = self.programs[1](tuple(residuals), cotangent)
        return cotangents

    def __str__(self) -> str:
        return f"<forward and backward of {self._name}, {self.residual_bytes:,} bytes of residuals between them>"


def split_vjp(
    fun: Callable[..., Any],
    *args: Any,
    argnums: int | tuple[int, ...] | None = None,
    partition: str = "price",
    target: str | Device = "cpu",
    numerics: str = "reassociate",
    laws: Any = "all",
    extractor: str = "flow",
    budget: Budget | None = None,
    memory_limit: float | None = None,
    verify: bool = False,
) -> SplitVjp:
    """The forward and the backward pass of `fun` for arguments like `args` (arrays or `ef.spec`s), compiled apart.

    `argnums`: in which arguments it is differentiated (all). `partition`: what the backward pass does not find among
    the arguments is kept or computed again: "price", which costs the fewest seconds together; "min_cut", which keeps
    the fewest bytes and computes again what is elementwise alone; "store_all"; "recompute_all". The other options are
    those of `compile`, for both programs.
    """
    options = {
        "target": target, "numerics": numerics, "laws": laws, "extractor": extractor, "budget": budget,
        "memory_limit": memory_limit, "verify": verify, "wait": True, "graphs": False,
    }  # fmt: skip
    refuse_unknown(options)
    keep, again = _costs(partition, device_for(target, numerics))
    wanted = tuple(range(len(args))) if argnums is None else argnums
    chosen, _ = argument_places(wanted, len(args), "ef.split_vjp", name_of(fun))
    calls: list[tuple[DifferentiatedCall, Body, list[int | None]]] = []

    def compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = DifferentiatedCall("ef.split_vjp", fun, args, kwargs, chosen, False)
        body, residuals = backward_of(call, keep, again)
        nodes = [x.node if isinstance(x, Tracer) else None for x in tree_leaves((args, kwargs))[0]]
        places = [nodes.index(r) if r in nodes else None for r in residuals]
        calls.append((call, body, places))
        result = call.result.tree(call.back(call.result.nodes))
        stored = [r for r, place in zip(residuals, places, strict=True) if place is None]
        return result, tuple([wrap(r, Rights.WRITABLE) for r in stored])

    forward = trace(DerivedFunction("ef.split_vjp", fun, compute, lambda _count: chosen), *args)
    call, body, places = calls[-1]
    types = [n.type for n in body.graph.inputs[len(call.result.nodes) :]]

    def pull_back(residuals: tuple[Any, ...], cotangent: Any) -> Any:
        return of_cotangents(call, body, [r.node for r in residuals], cotangent)

    cotangent_specs = call.result.nested([Spec(n.type) for n in call.result.nodes])
    backward = trace(pull_back, tuple(map(Spec, types)), cotangent_specs)
    programs = [compile_graph(graph, **options) for graph in (forward, backward)]
    kept = sum(t.nbytes for t, place in zip(types, places, strict=True) if place is None)
    return SplitVjp((programs[0], programs[1]), tuple(types), kept, name_of(fun), tuple(places))


def _costs(partition: str, device: Device) -> tuple[Cost, Cost]:
    """What it costs to keep a value, and to compute it again."""
    if partition in POLICIES:
        return POLICIES[partition]
    if partition != "price":
        raise OptionError(f"partition is {partition!r}: it is one of 'price', {', '.join(map(repr, POLICIES))}")

    def keep(n: Node) -> float:
        """It is written and read; an argument is read alone."""
        return (1 if n.op == "input" else 2) * n.type.nbytes / device.memory_bytes_per_second

    def again(n: Node) -> float:
        if n.op in LOOPS or n.row.role is Role.LIBRARY:
            return never(n)
        done = work(n.op, n.attrs, n.type, [a.type for a in n.args], device)
        return done.seconds + done.whole

    return keep, again
