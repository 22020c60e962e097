"""Law attribution: the laws that a plan and each of its kernels rest on, found by proving it with fewer laws.

In: a `Plan` and the laws it was chosen under. Out: `NeededLaws`. egglog gives no proofs to read, so each question is a
fresh saturation of a segment of the program under some of the laws: is what the plan computes then in the right class?
Only where all laws do not show that (a plan may have a view at a place no search built) do program and plan start
together. Constants fold in all of them: that is no law. Nor is fusion: a kernel's body is put in place of its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from eqfuse.budget import Allowance, Budget
from eqfuse.egraph.canonical import slice_of
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.saturate import Saturation, reachable
from eqfuse.egraph.segments import Use, crossings, one_segment, segments
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ops.literal import Literal
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import running
from eqfuse.rewrites import Law

ATTRIBUTION_SECONDS = 5.0  # for all proofs of a program
LATE = "the time for it ran out (eqfuse.show.attribution.rests_on takes as long as it is told)"
NUMBERS_SHOWN = 8  # numbers of kernels in one line
Goal = tuple[Node, Node]  # a pair that must be found equal


@dataclass(frozen=True)
class NeededLaws:
    """Names of laws. `laws`: with these alone a fresh search reaches the plan, and without any one it does not.

    `kernels`: for each kernel that is no view, the same of its results, as functions of values that the program has
    itself. A kernel may also make a value that the program does not have (``x @ w`` of ``(x / r) @ w``): then it rests
    on the laws of the kernels that read it, up to the next values that the program has. `doubt` is empty, or says why
    there may be fewer laws than are named, or why none are.
    """

    laws: tuple[str, ...]
    kernels: tuple[tuple[str, ...], ...]
    doubt: str = ""

    def __str__(self) -> str:
        if not self.laws:
            return "Rests on: " + (self.doubt or "no law needed, the operators are only fused")
        alike: dict[tuple[str, ...], list[int]] = {}
        for number, laws in enumerate(self.kernels):
            alike.setdefault(laws, []).append(number)
        needed = "" if self.doubt else ", without any one it does not"
        lines = [f"Rests on (with these laws alone a fresh search reaches this program{needed}):"]
        for laws, numbers in alike.items():
            more = f" and {len(numbers) - NUMBERS_SHOWN} more" if len(numbers) > NUMBERS_SHOWN else ""
            kernels = f"kernel{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:NUMBERS_SHOWN]))}{more}"
            lines.append(f"  {kernels}: {', '.join(laws) or 'no law needed'}")
        if {*self.laws} != {law for laws in self.kernels for law in laws}:
            lines.append(f"  the program: {', '.join(self.laws)}")
        return "\n".join([*lines, f"  {self.doubt}"] if self.doubt else lines)


class OpenQuestion(Exception):
    """A question stays open; the message says why."""


def rests_on(plan: Plan, laws: Sequence[Law], seconds: float = ATTRIBUTION_SECONDS) -> NeededLaws:
    """The laws among `laws` that `plan` rests on. Each distinct segment is looked at once."""
    until = time.thread_time() + seconds
    pieces = _pieces(plan)
    distinct = {piece.graph: piece for piece in pieces}
    proofs = {graph: Proofs(piece, piece.results, laws, until) for graph, piece in distinct.items()}
    try:
        candidates = {graph: proof.candidates() for graph, proof in proofs.items()}
    except OpenQuestion as why:
        return NeededLaws((), tuple(() for _ in running(plan)), f"the plan was not proved again: {why}")
    doubt = ""
    try:
        for graph, proof in proofs.items():
            fewest(candidates[graph], proof)
        program = _in_order(laws, candidates)
        fewest(program, lambda some: all(proof(some) for proof in proofs.values()))
    except OpenQuestion as why:
        program = _in_order(laws, candidates)
        doubt = f"fewer may do: {why}"
    try:
        rests = {
            graph: _by_kernel(piece, laws, program, until, proofs[graph].together) for graph, piece in distinct.items()
        }
    except OpenQuestion as why:
        rests = {graph: [program] * len(piece.kernels) for graph, piece in distinct.items()}
        doubt = doubt or f"of these, a kernel may need fewer: {why}"
    of_kernel = {
        id(kernel): tuple(law.name for law in its)
        for piece in pieces
        for kernel, its in zip(piece.kernels, rests[piece.graph], strict=True)
    }
    return NeededLaws(tuple(law.name for law in program), tuple(of_kernel[id(k)] for k in running(plan)), doubt)


def _in_order(laws: Sequence[Law], kept_laws: Mapping[Graph, list[Law]]) -> list[Law]:
    return [law for law in laws if any(law in kept for kept in kept_laws.values())]


def fewest(kept: list[Law], enough: Callable[[list[Law]], bool]) -> None:
    """Drop laws from `kept`, in groups that get smaller, until none can go. What is left is enough at any moment."""

    def drop(group: list[Law]) -> None:
        rest = [law for law in kept if law not in group]
        if enough(rest):
            kept[:] = rest
        elif len(group) > 1:
            drop(group[len(group) // 2 :])
            drop(group[: len(group) // 2])

    before: list[Law] = []
    drop(list(kept))
    while kept != before:
        before = list(kept)
        for law in before:
            drop([law])


@dataclass(frozen=True)
class SegmentUse:
    """One use of a segment in a plan: `kernels` leave the roots of `graph` in the values `roots`, from its `inputs`."""

    graph: Graph
    kernels: tuple[Kernel, ...]
    inputs: tuple[int, ...]
    roots: tuple[int, ...]

    @cached_property
    def values(self) -> dict[int, Node]:
        """Every value as a node over the inputs of `graph`."""
        values = dict(zip(self.inputs, self.graph.inputs, strict=True))
        for k in self.kernels:
            values |= zip(k.writes, _results(k, [values[v] for v in k.reads]), strict=True)
        return values

    @cached_property
    def results(self) -> list[Goal]:
        """That the plan computes what the program does."""
        return [(self.values[v], n) for v, n in zip(self.roots, self.graph.outputs, strict=True)]


def _results(kernel: Kernel, reads: Sequence[Node]) -> tuple[Node, ...]:
    """What `kernel` computes from `reads`."""
    values = dict(zip(kernel.body.inputs, reads, strict=True))
    for n in kernel.body.nodes:
        if n not in values:
            values[n] = n.over(values[a] for a in n.args)
    return tuple(values[o] for o in kernel.body.outputs)


class Proofs:
    """Which `goals` about a piece of a plan some laws prove. Raises OpenQuestion once the clock has passed `until`.

    Every answer is kept, and answers for other laws too: more laws prove what some do, and where some came to their end
    without a proof, fewer find none.
    """

    def __init__(
        self, piece: SegmentUse, goals: Iterable[Goal], laws: Sequence[Law], until: float, together: bool = False
    ) -> None:
        self._ordered = [(a, b) for a, b in goals if a is not b]
        self.goals = frozenset(self._ordered)
        self._piece, self._laws, self._until, self.together = piece, laws, until, together
        self._proved: dict[frozenset[str], frozenset[Goal]] = {}
        self._ended: set[frozenset[str]] = set()

    def __call__(self, laws: Sequence[Law], goals: frozenset[Goal] | None = None) -> bool:
        """Whether `laws` prove `goals` (all of them where none are given)."""
        goals = self.goals if goals is None else goals & self.goals
        if not goals:
            return True
        key = frozenset(law.name for law in laws)
        if key not in self._proved:
            for other, proved in self._proved.items():
                if other <= key and goals <= proved:
                    return True
                if key <= other and other in self._ended and not goals <= proved:
                    return False
            self._replay(laws)
        return goals <= self._proved[key]

    def candidates(self) -> list[Law]:
        """Laws that are enough: those that matched while all proved the goals. OpenQuestion when all are not enough."""
        if not self.goals:
            return []
        fired = self._replay(self._laws)
        if not self(self._laws):
            self.together = True
            self._proved.clear()
            self._ended.clear()
            fired = self._replay(self._laws)
        if not self(self._laws):
            raise OpenQuestion("laws it was chosen under are missing (a saved program keeps none of the user's own)")
        matched = [law for law in self._laws if law.name in fired]
        return matched if self(matched) else list(self._laws)

    def _replay(self, laws: Sequence[Law]) -> set[str]:
        """Find out what `laws` prove. The names of those that matched."""
        engine, run = self.saturated(laws)
        proved = frozenset(goal for goal in self.goals if engine.equal(*map(engine.name, goal)))
        if proved != self.goals and run.reason == "seconds":
            raise OpenQuestion(LATE)
        key = frozenset(law.name for law in laws)
        self._proved[key] = proved
        if run.reason == "saturated":
            self._ended.add(key)
        return set(run.fired)

    def saturated(self, laws: Sequence[Law]) -> tuple[Engine, Saturation]:
        """A fresh engine after `laws` were run on the program, which then meets the plan and the goals.

        Where they stand `together` from the start, it is only until the goals are proved.
        """
        if time.thread_time() > self._until:
            raise OpenQuestion(LATE)
        graph = self._piece.graph
        both = Graph(graph.inputs, (*graph.outputs, *self._piece.values.values(), *(a for a, _ in self._ordered)))
        begun = both if self.together else graph
        nodes, rules = (*begun.inputs, *begun.nodes), reachable(begun, laws)
        engine = Engine(nodes, rules)
        engine.add(nodes)
        engine.fold_constants()
        run = Saturation(engine, rules, Budget(), Allowance(self._until))
        names = [(engine.name(a), engine.name(b)) for a, b in self._ordered] if self.together else []
        for _ in run:
            if names and engine.all_equal(names):
                break
        engine.add((*both.inputs, *both.nodes))
        engine.settle()
        return engine, run


def _by_kernel(
    piece: SegmentUse, laws: Sequence[Law], program: list[Law], until: float, together: bool
) -> list[list[Law]]:
    """The laws of `program` that each kernel of `piece` rests on, as `NeededLaws` says."""
    stands = _stands(piece, program, until, together)
    front: dict[int, set[int]] = {}  # by value that the program does not have: those it has that come of it
    reaches: list[set[int]] = [set() for _ in piece.kernels]
    for number, k in reversed(list(enumerate(piece.kernels))):
        for v in k.writes:
            reaches[number] |= {v} if v in stands else front.get(v, set())
        for v in k.reads:
            if v not in stands:
                front.setdefault(v, set()).update(reaches[number])
    nodes = dict(stands)
    wanted = {v: [n] for v, n in stands.items()} | {v: [] for v in piece.roots}
    for v, n in zip(piece.roots, piece.graph.outputs, strict=True):
        wanted[v].append(n)
    goals: dict[int, list[Goal]] = {}
    for k in piece.kernels:
        for v, n in zip(k.writes, _results(k, [nodes[r] for r in k.reads]), strict=True):
            if v in stands:
                goals[v] = [(n, other) for other in wanted[v]]
            else:
                nodes[v] = n
    proofs = Proofs(piece, (goal for group in goals.values() for goal in group), laws, until, together)
    if not proofs(program):
        raise OpenQuestion("the laws of the program do not prove each kernel by itself")
    rests = []
    for reached in reaches:
        its = frozenset(goal for v in reached for goal in goals[v])
        rests.append(list(program))
        fewest(rests[-1], partial(proofs, goals=its))
    return rests


def _stands(piece: SegmentUse, program: list[Law], until: float, together: bool) -> dict[int, Node]:
    """The node of the program that each value equals under the laws `program`, where there is one."""
    own = dict.fromkeys((*piece.graph.inputs, *piece.graph.nodes))
    first: dict[object, Node] = {}
    class_of: Mapping[Node, object] = {}
    if any(n not in own for n in piece.values.values()):
        engine, _ = Proofs(piece, (), program, until, together).saturated(program)
        _, class_of = engine.rows()
        for n in (*piece.graph.outputs, *own):
            first.setdefault(class_of[n], n)
    nodes = {v: n if n in own else first.get(class_of[n]) for v, n in piece.values.items()}
    return {v: n for v, n in nodes.items() if n is not None}


def _pieces(plan: Plan) -> list[SegmentUse]:
    """The uses of segments in `plan`, in the order they run."""
    graphs, uses = segments(plan.graph)
    between = crossings(plan.graph, uses)
    if len(between) != len(plan.waists):
        graphs, uses = one_segment(plan.graph)
        between = ()
    value: dict[Node, int] = dict(zip(plan.graph.inputs, plan.inputs, strict=True))
    value |= zip(plan.graph.outputs, plan.outputs, strict=True)
    value |= zip(between, plan.waists, strict=False)
    stored = {literal: v for v, literal in plan.constants}
    writer = {v: k for k in (*plan.setup, *plan.kernels) for v in k.writes}
    return [
        _piece(graphs[use.segment], use, tuple(value[o] for o in use.outputs), value, stored, writer, plan)
        for use in uses
    ]


def _piece(
    graph: Graph, use: Use, roots: tuple[int, ...], value: dict[Node, int], stored: dict[Literal, int],
    writer: dict[int, Kernel], plan: Plan,
) -> SegmentUse:  # fmt: skip
    graph, nodes = _with_bases(graph, use.inputs, value, plan)
    inputs = tuple(value[n] if n in value else stored[n.literal] for n in nodes)
    return SegmentUse(graph, tuple(_between(inputs, roots, writer, plan)), inputs, roots)


def _with_bases(
    graph: Graph, inputs: Sequence[Node], value: dict[Node, int], plan: Plan
) -> tuple[Graph, Sequence[Node]]:
    """A segment's `graph` and its `inputs`; where kernels read what some of these are slices of, with that instead."""
    read = {v for k in plan.kernels if not k.is_view for v in k.reads}
    unread = [n for n in inputs if slice_of(n) is not n and value[n] not in read]
    bases = {b: input_node(f"base {i}", b.type) for i, b in enumerate(dict.fromkeys(map(slice_of, unread)))}
    if not bases:
        return graph, inputs
    pairs = [*zip(graph.inputs, inputs, strict=True)]
    slices = {own: substitute((n,), bases)[0] for own, n in pairs if slice_of(n) in bases}
    kept = [(own, n) for own, n in pairs if own not in slices]
    whole = Graph((*[own for own, _ in kept], *bases.values()), substitute(graph.outputs, slices))
    return whole, [*[n for _, n in kept], *bases]


def _between(inputs: Iterable[int], roots: Iterable[int], writer: dict[int, Kernel], plan: Plan) -> list[Kernel]:
    """The kernels that compute `roots` from `inputs`, in order."""
    needed: set[int] = set()
    seen, stack = set(inputs), list(roots)
    while stack:
        v = stack.pop()
        if v not in seen:
            seen.add(v)
            needed.add(id(writer[v]))
            stack += writer[v].reads
    return [k for k in (*plan.setup, *plan.kernels) if id(k) in needed]
