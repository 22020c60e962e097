"""The space of equal programs: the saturated e-graph as plain data, renumbered and sorted.

In: what `egraph.saturate` froze. Out: classes of nodes that are all equal, per distinct segment of the program.
Next stop: the extractors in `extract/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqfuse.budget import ALL_LAWS
from eqfuse.egraph.segments import Use
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ops import Op, row
from eqfuse.ops.types import TensorType
from eqfuse.summary import SummarisedValue, Summary, count, duration, rest

if TYPE_CHECKING:
    from eqfuse.cost.device import Device
    from eqfuse.egraph.engine import Engine
    from eqfuse.rewrites import Law


@dataclass(frozen=True, slots=True)
class ENode:
    """One operator over classes: any member of each argument class will do."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[Hashable, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.attrs)))

    def __hash__(self) -> int:
        return self._hash  # an extractor asks for it at every join

    @property
    def row(self) -> Op:
        """The operator's row."""
        return row(self.op)

    def attr(self, name: str) -> Any:
        """The attribute that the operator's row calls `name`."""
        return self.row.attr(self.attrs, name)

    def over(self, args: Iterable[Node]) -> Node:
        """The operator over nodes that stand for the classes."""
        return node(self.op, args, self.attrs)


@dataclass(frozen=True, slots=True)
class EClass:
    """Nodes that compute the same value. `constant`: the value can be computed when the program is built."""

    type: TensorType
    nodes: tuple[ENode, ...]
    constant: bool


@dataclass(frozen=True, repr=False)
class Segment(SummarisedValue):
    """One saturated graph. Classes that no root reaches are dropped; `inputs` and `roots` follow the graph's order.

    An input that no class needs has number -1. `origin` gives the class of every node of `graph` that is still alive.
    """

    graph: Graph
    classes: tuple[EClass, ...]
    inputs: tuple[int, ...]
    roots: tuple[int, ...]
    origin: dict[Node, int]
    stop_reason: str  # "saturated" | "nodes" | "seconds" | "bytes" | "rounds"
    rounds: int
    laws_fired: dict[str, int]
    law_seconds: dict[str, float]
    seconds: float
    nodes_per_round: tuple[int, ...]
    _engine: Engine | None = field(repr=False, compare=False)  # None where no law was applied
    laws: tuple[Law, ...] = field(default=(), repr=False, compare=False)  # that were admitted
    level: str = ALL_LAWS  # of `budget.LEVELS`, at which it is to be planned
    strict: bool = False  # its kernels round as the program does
    like: int | None = None  # the segment whose plan it takes, with other extents; no law was applied to this one

    @property
    def n_nodes(self) -> int:
        return sum(len(c.nodes) for c in self.classes)

    def summary(self) -> Summary:
        nodes = f"{count(self.n_nodes, 'node')} of {count(len(self.graph.operators), 'operator')}"
        return Summary(f"Segment: {nodes}; stopped: {self.stop_reason}, after {duration(self.seconds)}")


def as_written(graph: Graph) -> Segment:
    """`graph` as a segment that no law was applied to."""
    number: dict[Node, int] = {}
    classes: list[EClass] = []
    for n in dict.fromkeys((*graph.inputs, *graph.nodes)):
        args = tuple(number[a] for a in n.args)
        number[n] = len(classes)
        is_constant = n.is_constant_leaf or _all_constant(args, classes)
        classes.append(EClass(n.type, (ENode(n.op, args, n.attrs),), is_constant))
    return Segment(
        graph,
        classes=tuple(classes),
        inputs=tuple(number[i] for i in graph.inputs),
        roots=tuple(number[o] for o in graph.outputs),
        origin=number,
        stop_reason="saturated",
        rounds=0,
        laws_fired={},
        law_seconds={},
        seconds=0.0,
        nodes_per_round=(len(classes),),
        _engine=None,
    )


def _all_constant(args: tuple[int, ...], classes: list[EClass]) -> bool:
    return bool(args) and all(classes[a].constant for a in args)


_WORST_FIRST = ("seconds", "bytes", "nodes", "rounds", "saturated")


@dataclass(frozen=True, repr=False)
class Space(SummarisedValue):
    """All distinct segments of `graph`, and where each is used. `numerics`: the class of the laws that made
    them."""

    graph: Graph
    segments: tuple[Segment, ...]
    uses: tuple[Use, ...]
    numerics: str = "reassociate"

    @property
    def n_nodes(self) -> int:
        return sum(s.n_nodes for s in self.segments)

    @property
    def n_classes(self) -> int:
        return sum(len(s.classes) for s in self.segments)

    @property
    def stop_reason(self) -> str:
        """The most restrictive reason among the segments."""
        reasons = {s.stop_reason for s in self.segments}
        return next(r for r in _WORST_FIRST if r in reasons)

    @property
    def rounds(self) -> int:
        return max(s.rounds for s in self.segments)

    @property
    def seconds(self) -> float:
        return sum(s.seconds for s in self.segments)

    @property
    def laws_fired(self) -> dict[str, int]:
        """How often each law was applied, most often first."""
        total: Counter[str] = Counter()
        for s in self.segments:
            total.update(s.laws_fired)
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))

    @property
    def law_seconds(self) -> dict[str, float]:
        """The time that each law took, of the kinds that `Engine.round` tells apart."""
        total: Counter[str] = Counter()
        for s in self.segments:
            total.update(s.law_seconds)
        return dict(sorted(total.items()))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise EqfuseError("a space is not pickled: write it by space.save(path), read it by ef.load_space")

    def __copy__(self) -> Space:
        return self

    def __deepcopy__(self, _memo: Any) -> Space:
        return self

    def save(self, path: str | Path, target: str | Device = "cpu") -> None:
        """Write the space to the file `path`, in egraph-serialize's JSON: what extraction-gym reads. `ef.load_space`
        reads it. A node costs the seconds of a kernel of its own on `target`."""
        import_module("eqfuse.extract.space_json").save_space(self, path, target)  # it prices nodes: a later stop

    def summary(self) -> Summary:
        nodes = f"{count(self.n_nodes, 'node')} of {count(len(self.graph.operators), 'operator')}"
        title = f"Space: {nodes}; stopped: {self.stop_reason}, after {duration(self.seconds)}; laws that fired:"
        fired = list(self.laws_fired.items())
        rows = [[name, f"×{times:,}", duration(self.law_seconds.get(name, 0.0))] for name, times in fired]
        return Summary(title, rows, rest(len(fired), "other law"))

    def __str__(self) -> str:
        fired = ", ".join(f"{name} ×{count}" for name, count in self.laws_fired.items()) or "none"
        return (
            f"space of {len(self.graph.operators)} operators in {len(self.uses)} segments "
            f"({len(self.segments)} distinct): {self.n_nodes} nodes in {self.n_classes} classes\n"
            f"stopped: {self.stop_reason} after {self.rounds} rounds, {self.seconds:.3f} s\n"
            f"laws fired: {fired}"
        )
