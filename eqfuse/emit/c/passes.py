"""The passes of a kernel over its rows: one for each stage of reductions, and one that writes what is left.

In: a body with views on leaves alone. Out: `Pass`es: what each computes for every element, keeps, reduces and writes.
Next stop: `schedule.py`. A body without reductions is one pass, which may read `Strip`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from eqfuse.emit.c import ops
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import TABLE, Role
from eqfuse.ops.row import PriceClass

REDUCING = frozenset(op.name for op in TABLE.values() if op.role is Role.REDUCTION)
SCANNING = frozenset(op.name for op in TABLE.values() if op.role is Role.SCAN)
GATHERING = frozenset(op.name for op in TABLE.values() if op.role is Role.GATHER)
LOADED = frozenset(op.name for op in TABLE.values() if not op.computes)

CHEAP_CLASSES = (PriceClass.FREE, PriceClass.SIMPLE, PriceClass.LOGIC)
CHEAP_OPERATORS = 3  # cheap operators that are computed again sooner than kept


@dataclass(frozen=True)
class Pass:
    """`nodes` are loaded or computed in this order, `reductions` made of them and `outputs` written, by their places
    among the results; `held`: nodes that are kept for later passes; `taken`: those of earlier ones that are read."""

    nodes: tuple[Node, ...]
    reductions: tuple[Node, ...]
    outputs: tuple[int, ...]
    taken: tuple[Node, ...]
    held: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Strip:
    """A value that neighbours share, computed by `nodes` before the loop that reads it, `turns` times for an element;
    these read `taken` of other strips. It has `length` elements of a row, `before` more before them and `ahead` behind;
    if some of `rows` that come after are needed too, the last that were computed are kept. `shifts`: how many rows and
    elements farther than `value` each node lies that is read from it."""

    value: Node
    nodes: tuple[Node, ...]
    taken: tuple[Node, ...]
    shifts: Mapping[Node, tuple[int, int]]
    length: int
    before: int
    ahead: int
    rows: int
    turns: float

    @property
    def width(self) -> int:
        return self.before + self.length + self.ahead


@dataclass(frozen=True, eq=False)
class Branch:
    """`results` are asked for where each of `conditions` is as it says, and computed by `nodes`, arguments first. Of a
    block in which at most `few` elements ask, these are computed alone: that saves `gain` additions, less `lane` for
    each."""

    conditions: tuple[tuple[Node, bool], ...]
    results: tuple[Node, ...]
    nodes: tuple[Node, ...]
    few: int
    gain: int
    lane: int

    def __str__(self) -> str:
        return " ".join(dict.fromkeys(n.op for n in self.nodes if not is_load(n)))


def is_reduction(n: Node) -> bool:
    return n.op in REDUCING


def is_scan(n: Node) -> bool:
    """Does each element of `n` depend on those before it?"""
    return n.op in SCANNING


def scanned(n: Node) -> int:
    """The axis along which `n` scans, from the end. UnsupportedOp where that has one element, or `n` has no row."""
    ops.scanned_reduction(n)
    axis: int = n.attr("axis")
    if n.shape[axis] == 1:
        raise UnsupportedOp("a c kernel scans no axis of one element")
    return axis


def by_scans(nodes: Sequence[Node]) -> list[Node]:
    """`nodes` ordered so that scans stand side by side where they can: between them even levels, theirs are odd."""
    level: dict[Node, int] = {}
    for n in nodes:
        if not is_load(n):
            below = max([level.get(a, 0) for a in n.args])
            level[n] = below + ((below % 2 == 0) if is_scan(n) else below % 2)
    for n in nodes:
        if is_load(n):
            level[n] = min([level[reader] for reader in level if n in reader.args], default=max(level.values()))
    return sorted(nodes, key=level.__getitem__)


def is_load(n: Node) -> bool:
    """Is `n` an array or a number, maybe behind views?"""
    return n.op in LOADED


def is_gather(n: Node) -> bool:
    """Are elements of an array taken by places that are computed?"""
    return n.op in GATHERING


def is_known_number(n: Node) -> bool:
    """Is `n` a number of the program, maybe behind views?"""
    return leaf_chain(n)[0].number is not None


def passes_of(body: Graph, differs: Callable[[Node], bool], hold: bool, writes: bool) -> tuple[Pass, ...]:
    """`differs`: does a row have a value of its own for each turn of the innermost loop? Where `hold`, such values that
    are dear to compute are kept from the pass that computes them to those that read them again. `writes`: the passes
    write the results too."""
    reducing = [n for n in body.nodes if n.op in REDUCING]
    if not reducing:
        outputs = tuple(range(len(body.outputs))) if writes else ()
        return (Pass(needed(body, body.outputs, set())[0], (), outputs, ()),) if outputs else ()
    stage_of = stages(body)
    last = max(map(stage_of.__getitem__, reducing))
    passes: list[Pass] = []
    kept: dict[Node, int] = {}
    done: set[Node] = set()
    dear: set[Node] = set()  # what is done, and held where it is read again
    for stage in range(last + 1):
        reductions = tuple([n for n in reducing if stage_of[n] == stage + 1])
        outputs = tuple(j for j, o in enumerate(body.outputs) if writes and stage_of[o] == stage)
        roots = [*(n.args[0] for n in reductions), *(body.outputs[j] for j in outputs)]
        nodes, taken = needed(body, roots, dear)
        kept |= {n: kept.get(n, _first(passes, n)) for n in taken}
        if hold and stage < last:
            fresh = {n for n in nodes if not is_load(n)} - done
            done |= fresh
            dear |= {n for n in fresh if differs(n) and _is_dear(n, differs)}
        passes.append(Pass(nodes, reductions, outputs, taken))
    holding = [replace(p, held=tuple(n for n, number in kept.items() if number == i)) for i, p in enumerate(passes)]
    return tuple(p for p in holding if p.reductions or p.outputs)


def stages(body: Graph) -> dict[Node, int]:
    """How many passes are over before each value is known."""
    stage_of: dict[Node, int] = {}
    for n in body.nodes:
        stage_of[n] = max([stage_of[a] for a in n.args], default=0) + (n.op in REDUCING)
    return stage_of


def _first(passes: list[Pass], n: Node) -> int:
    return next(i for i, p in enumerate(passes) if n in p.nodes)


def needed(body: Graph, roots: Iterable[Node], at_hand: Set[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What must be loaded or computed for `roots`, in order, and what is `at_hand`. So are results of reductions."""
    met: set[Node] = set()
    taken: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in met or n.op in REDUCING:
            continue
        if n in at_hand:
            taken[n] = None
            continue
        met.add(n)
        if n.op not in LOADED:
            stack += n.args
    return tuple([n for n in body.nodes if n in met]), tuple(taken)


def _is_dear(n: Node, differs: Callable[[Node], bool]) -> bool:
    """Does it take long to compute `n` for each element anew?"""
    seen: set[Node] = set()
    stack = [n]
    while stack:
        n = stack.pop()
        if n in seen or is_load(n) or is_reduction(n) or not differs(n):
            continue
        if n.row.price not in CHEAP_CLASSES:
            return True
        seen.add(n)
        if len(seen) > CHEAP_OPERATORS:
            return True
        stack += n.args
    return False
