"""Which laws the others derive within the same search.

In: laws. Out: those that are redundant. A law is so where, in every generated case of it, other laws that are as exact
make of its left side, in at most two rounds more than it takes itself, its right side, or a smaller term, no larger
than the right side and soon found equal to it; and the reverse, where it is read both ways. (The left side itself is no
such term: a law that makes parts of a whole is not derived by one that joins them.) Laws go one at a time: what only
laws that have gone derive stays.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from eqfuse.budget import Budget, Meter
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.saturate import Saturation, reachable
from eqfuse.ir.graph import Graph, Node, input_node, substitute, topological
from eqfuse.ops.facts import Fact
from eqfuse.rewrites import APPROXIMATE, EXACT, REASSOCIATES, Law, admitted
from eqfuse.rewrites.checking.cases import LawCase, drawn
from eqfuse.rewrites.procedures.shared_operands import PART_LAWS

CASES, TRIES, FEWEST = 24, 1500, 6
ROUNDS = 3  # the law itself needs one
NUMERICS = {EXACT: "strict", REASSOCIATES: "reassociate", APPROXIMATE: "approximate"}


def redundant(laws: Sequence[Law], candidates: Iterable[Law]) -> Iterator[Law]:
    """Those of `candidates`, in their order, that `laws` without them, and without those found before, derive."""
    left = list(laws)
    for law in candidates:
        others = [other for other in left if other is not law]
        if derivable(law, others):
            left = others
            yield law


def derivable(law: Law, others: Sequence[Law]) -> bool:
    """Whether `others` derive every generated case of `law`; no, where no case can be made to be as its guards say."""
    procedural = law.has_procedure or law.name in PART_LAWS
    if procedural or any(g.judged or (g.wanted and len(g.tensors) > 1) for g in law.when):
        return False
    answered = 0
    for case, constants in islice(cases(law), 4 * CASES):
        answer = derived(case, constants, others)
        if answer is False:
            return False
        answered += answer is not None
        if answered == CASES:
            break
    return answered >= FEWEST


def cases(law: Law) -> Iterator[tuple[LawCase, frozenset[str]]]:
    """Cases in which `law` is applied, each with those of its variables that are constants: what it asks for, and now
    and then others."""
    rng = random.Random(zlib.crc32(law.name.encode()))
    asked = frozenset(t.attrs[0] for g in law.when if g.constant for t in g.tensors)
    varying = frozenset(t.attrs[0] for g in law.when if g.varies for t in g.tensors)
    in_vain = 0
    for attempt in range(TRIES):
        case = drawn(law, rng)
        if case is None or any(0 in t.shape for t in case.types.values()):
            continue
        others = [name for name in case.types if name not in varying and attempt % 3 == 0 and rng.random() < 0.5]
        constants = asked.union(others)
        if constants >= case.types.keys():
            continue
        if derived(case, constants, [law], rounds=1):
            in_vain = 0
            yield case, constants
        elif (in_vain := in_vain + 1) == FEWEST:
            return


def derived(
    case: LawCase, constants: frozenset[str], others: Sequence[Law], rounds: int = ROUNDS
) -> bool | None:
    """Whether `others` make the right sides of `case` of its left sides, and the reverse where its law is read so.
    None where an operator of a side does nothing, and so the law makes a longer way to what is there."""
    laws = admitted(tuple(others), NUMERICS[case.claimed])
    inputs = {n: input_node(name, n.type, name in constants) for name, n in case.inputs.items()}
    outputs = substitute(case.graph.outputs, dict(inputs))
    half = len(outputs) // 2
    facts = {inputs[case.inputs[g.tensors[0].attrs[0]]]: g.wanted() for g in case.guards if g.wanted}
    sides = [(outputs[:half], outputs[half:])]
    if case.law.both:
        sides.append((outputs[half:], outputs[:half]))
    verdicts = [_leads(start, end, facts, laws, rounds) for start, end in sides]
    return False if False in verdicts else None if None in verdicts else True


def _leads(
    start: tuple[Node, ...], end: tuple[Node, ...], facts: Mapping[Node, Fact], laws: Sequence[Law], rounds: int
) -> bool | None:
    """Whether `laws` make of `start` what is `end`, or a smaller term, no larger than `end` and soon found equal to it;
    `facts` hold of inputs."""
    graph = Graph(tuple(n for n in topological(start) if n.op == "input"), start)
    both = Graph(graph.inputs, (*start, *end))
    nodes, rules = (*graph.inputs, *graph.nodes), reachable(both, laws)
    engine = Engine(nodes, rules)
    engine.add(nodes)
    if facts:
        engine.assume(facts)
    budget = Budget(rounds=rounds)
    run = Saturation(engine, rules, budget, Meter(budget).allowance)
    for _ in run:
        pass
    rows, class_of = engine.rows()
    if any(class_of[n] == class_of[a] for n in graph.nodes for a in n.args):
        return None
    sizes = _sizes(rows, class_of, start)
    engine.add(topological(end))
    engine.settle()
    names = [(engine.name(a), engine.name(b)) for a, b in zip(start, end, strict=True)]
    for i in range(rounds):
        if engine.all_equal(names):
            least = zip(sizes, _sizes_of(start), _sizes_of(end), strict=True)
            return i == 0 or all(n < left and n <= right for n, left, right in least)
        engine.round()
    return False


def _sizes(rows: Sequence[tuple], class_of: Mapping[Node, object], nodes: Iterable[Node]) -> list[float]:
    """How many operators the smallest term has that equals each of `nodes`."""
    least: dict[object, float] = {}
    changed = True
    while changed:
        changed = False
        for op, _, args, owner in rows:
            size = _weight(op) + sum(least.get(a, math.inf) for a in args)
            if size < least.get(owner, math.inf):
                least[owner], changed = size, True
    return [least[class_of[n]] for n in nodes]


def _sizes_of(nodes: Iterable[Node]) -> list[float]:
    """How many operators each of `nodes` has, as a term."""
    least: dict[Node, float] = {}
    for n in topological(nodes):
        least[n] = _weight(n.op) + sum(least[a] for a in n.args)
    return [least[n] for n in nodes]


def _weight(op: str) -> int:
    return int(op not in ("input", "const"))
