"""The plan: which kernels run, in which order, and which values they pass through memory.

In: the extractor's choice. Out: `Plan`, which prints itself. Next stop: `emit`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from textwrap import indent

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.ir.graph import Graph
from eqfuse.kinds.kind import Kind, kind_of
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.summary import KernelLine, SummarisedValue, Summary, costs, count, cut, of_kernels

SETUP = "setup"  # the kind, outside the lattice, of a kernel that runs once, by the evaluator


@dataclass(frozen=True, repr=False)
class Kernel:
    """One kernel: `body` computes the values `writes` from the values `reads`.

    `body` is a graph of its own, with one input per read (named ``r0, r1, …``) and one output per write, so that
    `evaluate(kernel.body, arrays)` is its specification. `reads` and `writes` are value numbers of the plan. `inner`:
    of a loop, the plans of what its steps compute (`plan/loops.py`).
    """

    kind: str
    body: Graph
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    price: Price
    inner: tuple[Plan, ...] = ()

    @property
    def template(self) -> Kind:
        return kind_of(self.kind)

    @property
    def is_view(self) -> bool:
        return self.template.is_view

    def __repr__(self) -> str:
        return cut(f"<kernel {self}>")

    def __str__(self) -> str:
        reads, writes = (", ".join(f"v{v}" for v in values) for values in (self.reads, self.writes))
        p, ops = self.price, " ".join(n.op for n in self.body.operators)
        cost = f"{p.bytes_read:,} B read, {p.bytes_written:,} B written, {p.flops:,} flops, {p.seconds * 1e6:,.1f} µs"
        return f"{writes} = {self.kind}({reads})  # {ops}; {cost}, {p.bound}-bound"


@dataclass(frozen=True, repr=False)
class Plan(SummarisedValue):
    """Kernels in order over numbered values.

    `types[v]` is the type of value v. `inputs` numbers the graph's inputs in order; `constants` gives the values known
    when the program is built; `setup` kernels depend on those alone and run once, then; `kernels` run at every call.
    A kernel of kind ``view`` moves no data: its one output shares the memory of its one read. `waists` are the values
    that pass between the segments into which the graph was cut (`segments.crossings`). `bound`: seconds that no choice
    among the extractor's candidates can beat by prediction, where that is known. `numerics`: the class
    that its laws are of; kernels of an "approximate" plan need not round what they do not store. `sources`: of
    values that are the graph's own, their number and that of the node.
    """

    graph: Graph
    device: Device
    types: tuple[TensorType, ...]
    inputs: tuple[int, ...]
    constants: tuple[tuple[int, Literal], ...]
    setup: tuple[Kernel, ...]
    kernels: tuple[Kernel, ...]
    outputs: tuple[int, ...]
    waists: tuple[int, ...] = ()
    bound: float | None = None
    numerics: str = "reassociate"
    sources: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def seconds(self) -> float:
        """The predicted time of a call."""
        return sum(k.price.seconds for k in self.kernels)

    @property
    def gap(self) -> float | None:
        """How far the predicted time is from the optimum at most, as a share of the bound; None where none is known."""
        if self.bound is None or self.seconds <= self.bound:
            return None if self.bound is None else 0.0
        return self.seconds / self.bound - 1 if self.bound else math.inf

    def kernel_lines(self) -> list[KernelLine]:
        """What a short form says of the kernels that do something at every call: all but views."""
        return [
            KernelLine(
                k.kind, [n.op for n in k.body.operators], k.price.bytes_read + k.price.bytes_written, k.price.seconds,
                k.price.bound,
            )
            for k in self.kernels
            if not k.is_view
        ]  # fmt: skip

    def summary(self) -> Summary:
        lines = self.kernel_lines()
        return of_kernels(f"Plan: {count(len(lines), 'kernel')} for {self.device.name}, {costs(lines)}", lines)

    def __str__(self) -> str:
        inputs = zip(self.inputs, self.graph.inputs, strict=True)
        names = ", ".join(f"v{v}: {n.attr('name')} {n.type}" for v, n in inputs)
        lines = [f"plan for {self.device.name}, predicted {self.seconds * 1e6:,.1f} µs a call", f"given {names}"]
        lines += [f"once  {k}" for k in self.setup]
        for k in self.kernels:
            lines += [f"      {k}", *(indent(f"step of it, a {inner}", " " * 10) for inner in k.inner)]
        return "\n".join([*lines, f"return {', '.join(f'v{v}' for v in self.outputs)}"])


def value_names(values: Iterable[int]) -> str:
    """Values of a plan as its printed text names them."""
    return ", ".join(f"v{v}" for v in values)
