"""Saturation: the laws fill the e-graph with equal programs, round by round, within a budget.

In: a `Graph` and laws. Out: `Space`, frozen into plain, deterministic Python data. Next stop: `extract/`.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from eqfuse.budget import ALL_LAWS, CHEAP_LAWS, SECONDS_LIMIT, UNLIMITED, Allowance, Budget, Meter, Pace, budget_of
from eqfuse.egraph.alike import alike_graphs
from eqfuse.egraph.engine import Engine, Round
from eqfuse.egraph.rules import Operator, Rule, compile_law, reads
from eqfuse.egraph.segments import one_segment, segments
from eqfuse.egraph.space import EClass, ENode, Segment, Space, as_written
from eqfuse.errors import LawError
from eqfuse.ir.graph import Graph, Node, input_node, topological
from eqfuse.machine.gc_pause import gc_paused
from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import APPROXIMATE, Law
from eqfuse.rewrites.own import usable
from eqfuse.rewrites.procedures.shared_operands import PART_LAWS, shared_parts
from eqfuse.rewrites.procedures.short_axes import in_slices
from eqfuse.rewrites.simplifier import SIMPLIFIER

_ROOM, _BRIEF_ROOM = 2500, 1000  # nodes, and those of a graph whose calls are brief: they pay for no more search
_BRIEF_BYTES = 1 << 20  # of all values of such a graph
_MANY_MATCHES = 1000  # of one law in one round, or as many as there are nodes
_LITTLE_ROOM = 10  # a part of the nodes allowed for which no further round is begun
_LITTLE_USE = 16  # a part of the room for nodes: a second round that was cut, and made fewer, is the last
_MOST_CUTS = 3  # rounds that a limit of nodes cuts short when half of them are there: more make no cheaper plans


def saturate(graph: Graph, laws: Any = "all", numerics: str = "reassociate", budget: Budget | None = None) -> Space:
    """Every program the laws make of `graph`, as far as `budget` reaches; what was found by then is always returned.

    `laws`: "all", "none", a family, or a list of laws, families and law names. LawError names an unknown one, and a law
    of your own that is false.
    """
    return saturated(graph, usable(laws, numerics), numerics, Meter(budget_of(budget)))


@gc_paused()
def saturated(
    graph: Graph, laws: Sequence[Law], numerics: str, meter: Meter | None = None, uncut: bool = False
) -> Space:  # fmt: skip
    """`saturate` by these very laws, all of which `numerics` admits, within what the `meter` allows. The segments that
    run most often come first. Of a family, one is saturated. `uncut`: the graph is one segment."""
    meter = meter or Meter()
    pieces, uses = one_segment(graph) if uncut else segments(graph)
    times = Counter(use.segment for use in uses)
    others = alike_graphs(pieces, times)
    pace = Pace([0 if number in others else len(piece.operators) for number, piece in enumerate(pieces)])
    by_number = {number: replace(as_written(pieces[number]), like=first) for number, first in others.items()}
    for number in sorted(set(range(len(pieces))) - others.keys(), key=lambda number: -times[number]):
        meter.say(f"saturating segment {len(by_number) + 1} of {len(pieces)}")
        level = pace.level(number, meter.allowance)
        allowance = meter.allowance.part(pace.share(number))
        by_number[number] = saturate_segment(pieces[number], laws, meter.budget, allowance, level)
        pace.took(number, level, by_number[number].seconds)
        meter.ended(by_number[number].stop_reason)
    saturated = tuple(replace(by_number[number], strict=numerics == "strict") for number in range(len(pieces)))
    return Space(graph, saturated, tuple(uses), numerics)


def saturate_segment(
    graph: Graph, laws: Sequence[Law], budget: Budget, allowance: Allowance | None = None, level: str = ALL_LAWS
) -> Segment:
    """Saturate one graph on its own, by those of `laws` that `level` has, within `allowance`, or all of `budget`."""
    start = time.thread_time()
    allowance = allowance or Meter(budget).allowance
    admitted = [law for law in laws if level == ALL_LAWS or (level == CHEAP_LAWS and law.name in SIMPLIFIER)]
    admitted = [law for law in admitted if not law.slices or in_slices(law, graph.nodes, set())]
    nodes, rules = (*graph.inputs, *graph.nodes), reachable(graph, admitted)
    engine = Engine(nodes, rules)
    engine.add(nodes)
    is_brief = sum([n.type.nbytes for n in nodes]) < _BRIEF_BYTES
    run = Saturation(engine, rules, budget, allowance, _BRIEF_ROOM if is_brief else _ROOM)
    for _ in run:
        pass
    _share_operands(run, engine, graph, admitted)
    classes, origin = freeze(engine, graph)
    return Segment(
        graph,
        classes,
        tuple(origin.get(n, -1) for n in graph.inputs),
        tuple(origin[n] for n in graph.outputs),
        origin,
        run.reason if level == ALL_LAWS else allowance.spent() or SECONDS_LIMIT,
        len(run.sizes) - 1,
        dict(sorted(run.fired.items())),
        dict(sorted(run.seconds.items())),
        time.thread_time() - start,
        tuple(run.sizes),
        engine,
        tuple(admitted),
        level,
    )


def _share_operands(run: Saturation, engine: Engine, graph: Graph, laws: Sequence[Law]) -> None:
    """Offer what shares an operand as parts of one product. Only the laws that find them equal are applied to it: it is
    one more choice, from which no others grow."""
    rules = [rule for law in laws if law.name in PART_LAWS for rule in compile_law(law)]
    groups = shared_parts(graph.nodes, engine.constants()) if rules else []
    if groups:
        engine.add(topological([part for group in groups for part in group.values()]))
        run.finish(rules)


class Saturation:
    """Rounds of `rules` over `engine`, one per step of an iteration, until nothing changes or a limit ends them.

    `reason` then says which. `fired` counts the matches of each law and `seconds` is the time it took (`Engine.round`);
    `sizes` has the nodes before each round and after the last.

    Laws of class APPROXIMATE begin where the others have ended, with rounds of their own and room for half as many
    nodes at least, unless `budget` limits them: no facts are derived any more once they have begun, and the others
    would find less.
    """

    def __init__(
        self, engine: Engine, rules: Sequence[Rule], budget: Budget, allowance: Allowance = UNLIMITED, room: int = _ROOM
    ) -> None:
        self._approximate = [rule for rule in rules if rule.law.exactness is APPROXIMATE]
        engine.load([rule for rule in rules if rule.law.exactness is not APPROXIMATE])
        self._engine, self._budget, self._allowance = engine, budget, allowance
        self._most = max(room, 3 * engine.size) if budget.nodes is None else budget.nodes
        self._law_of = {rule.name: rule.law.name for rule in rules}
        self.fired: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.sizes = [engine.size]
        self.reason = "rounds"

    def __iter__(self) -> Iterator[None]:
        yield from self._rounds()
        if self._approximate:
            self._engine.load(self._approximate)
            if self._budget.nodes is None:
                self._most = max(self._most, self.sizes[-1] + self._most // 2)
            yield from self._rounds()

    def _rounds(self) -> Iterator[None]:
        engine, budget, sizes, back_off = self._engine, self._budget, self.sizes, BackOff()
        self.reason, cuts = "rounds", 0
        for _ in range(budget.rounds):
            if spent := self._allowance.spent():
                self.reason = spent
                return
            if sizes[-1] > self._most:
                self.reason = "nodes"
                return
            resting = back_off.resting(len(sizes))
            report = engine.round(self._most - sizes[-1], self._allowance, resting)
            for name, count in self._count(report).items():
                back_off.note(name, count, len(sizes), sizes[-1])
            sizes.append(engine.size)
            yield
            cuts += engine.cut == "nodes" and 2 * sizes[-1] > self._most
            if engine.cut and (cuts == _MOST_CUTS or not self._has_room(engine.cut, cuts)):
                self.reason = engine.cut
                return
            if not (report.updated or engine.cut):
                if not resting:
                    self.reason = "saturated"
                    return
                back_off.wake()

    def _has_room(self, cut: str, cuts: int) -> bool:
        """Whether the limit `cut` was one of nodes, of which the matches of the round made fewer than they might have:
        what it declined is offered again; but not where it was itself such an offer, of use to hardly any match."""
        *_, before, now = self.sizes
        least = (self._most - before) // _LITTLE_USE if cuts > 1 else 1
        is_idle = 0 <= now - before < least
        return cut == "nodes" and not is_idle and self._most - now > self._most // _LITTLE_ROOM

    def finish(self, rules: Sequence[Rule]) -> None:
        """Apply `rules`, and no others, to what was added since, until nothing changes: late as it may be."""
        self._engine.load([rule for rule in rules if rule.name not in self._law_of])
        self._law_of |= {rule.name: rule.law.name for rule in rules}
        resting = self._engine.others({rule.law.name for rule in rules})
        for _ in range(self._budget.rounds):
            report = self._engine.round(resting=resting)
            self._count(report)
            if not report.updated:
                return

    def _count(self, report: Round) -> dict[str, int]:
        """The matches of each rule in a round, which are counted for its law."""
        matches = {name: n for name, n in report.matches.items() if name in self._law_of}
        for name, count in matches.items():
            self.fired[self._law_of[name]] += count
        for name, seconds in self._engine.seconds.items():
            self.seconds[self._law_of[name]] += seconds
        return matches


class BackOff:
    """Rules that matched too often in a round rest for some rounds, longer each time, as in egg's scheduler."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._until: dict[str, int] = {}

    def note(self, rule: str, matches: int, round_number: int, size: int) -> None:
        """`rule` matched `matches` times in round `round_number`, which began with `size` nodes."""
        if matches > max(_MANY_MATCHES, size) << self._times[rule]:
            self._times[rule] += 1
            self._until[rule] = round_number + (1 << self._times[rule])

    def resting(self, round_number: int) -> frozenset[str]:
        """The rules that are left out of round `round_number`."""
        return frozenset(rule for rule, until in self._until.items() if round_number <= until)

    def wake(self) -> None:
        """Let every rule run in the next round."""
        self._until.clear()


def reachable(graph: Graph, laws: Iterable[Law]) -> list[Rule]:
    """The rules whose left side can occur, given the operators of `graph` and what other rules make."""
    places, readers, missing = _by_operator(tuple(laws))
    missing = list(missing)
    waiting = [(n.op, len(n.args)) for n in graph.nodes]
    loaded = {i: compile_law(law)[direction] for i, (law, direction) in enumerate(places) if not missing[i]}
    waiting += [operator for rule in loaded.values() for operator in rule.makes]
    present: set[Operator] = set()
    while waiting:
        operator = waiting.pop()
        for i in () if operator in present else readers.get(operator, ()):
            missing[i] -= 1
            if not missing[i]:
                law, direction = places[i]
                loaded[i] = compile_law(law)[direction]
                waiting += loaded[i].makes
        present.add(operator)
    return [loaded[i] for i in sorted(loaded)]


@lru_cache(maxsize=64)
def _by_operator(laws: tuple[Law, ...]) -> tuple[list[tuple[Law, int]], dict[Operator, list[int]], list[int]]:
    """The rules of `laws`, by number: law and direction; which of them read each operator; how many each reads."""
    places = [(law, direction, wanted) for law in laws for direction, wanted in enumerate(reads(law))]
    readers: dict[Operator, list[int]] = {}
    for i, (_, _, wanted) in enumerate(places):
        for operator in wanted:
            readers.setdefault(operator, []).append(i)
    return [(law, direction) for law, direction, _ in places], readers, [len(wanted) for _, _, wanted in places]


def freeze(engine: Engine, graph: Graph) -> tuple[tuple[EClass, ...], dict[Node, int]]:
    """The live classes below the roots of `graph`, densely numbered in an order that depends on structure alone."""
    rows, of_node = engine.rows()
    members: dict[Any, list[tuple[str, tuple, tuple]]] = {}
    for op, attrs, args, owner in rows:
        members.setdefault(owner, []).append((op, attrs, args))
    labels = _labels(members)

    def key(member: tuple[str, tuple, tuple]) -> tuple:
        op, attrs, args = member
        return (op, len(args), _digest(op, attrs), tuple(labels[a] for a in args))

    original = {
        (of_node[n], n.op, n.attrs, tuple(of_node[a] for a in n.args)) for n in graph.nodes if n.row.commutes
    }
    number: dict[Any, int] = {}
    ordered: list[tuple[Any, list[tuple[str, tuple, tuple]]]] = []
    stack = [of_node[n] for n in reversed(graph.outputs)]
    while stack:
        owner = stack.pop()
        if owner in number:
            continue
        number[owner] = len(ordered)
        nodes = sorted(_without_mirrors(owner, members[owner], original), key=key)
        ordered.append((owner, nodes))
        stack.extend(a for _, _, args in reversed(nodes) for a in reversed(args) if a not in number)
    numbered = [[(op, attrs, [number[a] for a in args]) for op, attrs, args in nodes] for _, nodes in ordered]
    constant_flags = constant_classes(numbered)
    types = _types(ordered, {of_node[n]: n.type for n in (*graph.inputs, *graph.nodes)})
    classes = tuple(
        EClass(types[owner], tuple(ENode(op, tuple(number[a] for a in args), attrs) for op, attrs, args in nodes), k)
        for (owner, nodes), k in zip(ordered, constant_flags, strict=True)
    )
    return classes, {n: number[c] for n, c in of_node.items() if c in number}


def thaw(
    graph: Graph, classes: Sequence[EClass], origin: Mapping[Node, int], laws: Sequence[Law]
) -> Engine:
    """The e-graph that `classes` froze: equal is what stands in one class, on the word of whoever made them.

    Raises ShapeError or LawError where a node does not fit its class, or a class has no value.
    """
    engine = Engine()
    engine.add((*graph.inputs, *graph.nodes))
    engine.load(reachable(graph, laws))
    engine.run("(constructor class (i64) Tensor)")  # a name for each class: globals would be a table each
    lines = [f"(union (class {c}) {engine.name(n)})" for n, c in origin.items()]
    stands = [input_node(f"class {i}", c.type) for i, c in enumerate(classes)]
    reached: set[int] = set()
    waiting = [(i, enode) for i, c in enumerate(classes) for enode in c.nodes]
    while waiting:
        missing = []
        for i, enode in waiting:
            if not reached.issuperset(enode.args):
                missing.append((i, enode))
                continue
            n = enode.over(stands[a] for a in enode.args)
            if n.type != classes[i].type:
                raise LawError(f"class {i} is {classes[i].type}, its node {enode.op} gives {n.type}")
            reached.add(i)
            term = engine.term(n, [f"(class {a})" for a in enode.args], lines)
            lines.append(f"(union (class {i}) {term})")
        if len(missing) == len(waiting):
            raise LawError(f"class {missing[0][0]} has only nodes that need themselves")
        waiting = missing
    engine.run_once(lines)
    return engine


def _without_mirrors(owner: Any, nodes: list, original: set) -> list:
    """`nodes` with one of each commuted pair: the program's own, else the first."""
    kept: dict[tuple, tuple] = {}
    for op, attrs, args in nodes:
        if not row(op).commutes:
            kept[op, attrs, args] = (op, attrs, args)
            continue
        pair = (op, frozenset(args))
        if pair not in kept or (owner, op, attrs, args) in original:
            kept[pair] = (op, attrs, args)
    return list(kept.values())


@lru_cache(maxsize=65536)
def _digest(op: str, attrs: tuple[Hashable, ...]) -> int:
    texts = (a.text() if isinstance(a, Literal) else a.str if isinstance(a, np.dtype) else str(a) for a in attrs)
    return zlib.crc32("|".join([op, *texts]).encode())


def _labels(members: dict[Any, list[tuple[str, tuple, tuple]]]) -> dict[Any, int]:
    """A number per class that depends on the structure near it (integers hash alike in every process)."""
    labels = dict.fromkeys(members, 0)
    for _ in range(6):
        labels = {
            owner: hash(
                tuple(sorted(hash((_digest(op, attrs), *(labels[a] for a in args))) for op, attrs, args in nodes))
            )
            for owner, nodes in members.items()
        }
    return labels


def constant_classes(classes: list[list[tuple[str, tuple, list[int]]]]) -> list[bool]:
    """Which classes can be computed when the program is built."""
    constant_flags = [False] * len(classes)
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(classes))):
            if not constant_flags[i] and any(
                (op != "input" or row(op).attr(attrs, "constant")) and all(constant_flags[a] for a in args)
                for op, attrs, args in classes[i]
            ):
                constant_flags[i] = changed = True
    return constant_flags


def _types(ordered: list, types: dict[Any, TensorType]) -> dict[Any, TensorType]:
    """The type of every class, from nodes whose arguments have one. LawError when two members disagree."""
    waiting = ordered
    while waiting:
        missing = []
        for owner, nodes in waiting:
            for op, attrs, args in nodes:
                if owner not in types and all(a in types for a in args):
                    types[owner] = row(op).type([types[a] for a in args], attrs)
            if owner not in types:
                missing.append((owner, nodes))
        if len(missing) == len(waiting):
            raise LawError("a class of the e-graph has only nodes that need themselves")
        waiting = missing
    for owner, nodes in ordered:
        for op, attrs, args in nodes:
            if row(op).type([types[a] for a in args], attrs) != types[owner]:
                raise LawError(f"a law changed the type {types[owner]} of a value: {op} with {attrs}")
    return types
