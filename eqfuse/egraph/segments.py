"""Cuts a graph into segments where no kernel could span the cut, so that each distinct one is searched once.

In: a `Graph`. Out: the distinct pieces, and where each is used. Next stop: `egraph.saturate`.
The cut is taken where every tensor that crosses it is stored anyway, however many there are, and where it does not part
operators that one kernel could compute together. Repeated layers and the steps of an unrolled loop then are one piece,
and what only the first or the last of them has is another. Where the steps differ in extents each is a piece: they are
a family, of which one is searched (`alike.py`).
Products that share an operand, as those of a loop's inputs do, run together before the steps that read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise, takewhile

from eqfuse.egraph.alike import FEWEST_ALIKE, look, operators, repetitions
from eqfuse.egraph.canonical import canonical_piece, slice_of
from eqfuse.ir.graph import Graph, Node, constants, topological
from eqfuse.ops import Role
from eqfuse.rewrites.procedures.shared_operands import SharedProducts, shared_products

SEGMENT_OPERATORS = 24  # fewer are not worth a segment of their own
CUT_OF_STEPS, CUT_OF_SIZES = 150, 1500  # operators, from which on steps that differ in extents, or layers, are pieces
FEWER = 2  # times fewer operators are to be searched, for each such step to be a piece
LONGEST_STEP, LONGEST_LAYER = 64, 200  # operators of a step on a few numbers, and of a layer
SMALL_VALUES = 1024  # at most of each of its values
CACHED_BYTES = 16 << 10  # at most of each value of steps that are cut two by two: a core's nearest cache holds them
READERS_APART = 200  # operators apart that two readers of a value may be and still be computed together
_PRODUCTS = {Role.CONTRACTION, Role.WINDOW}
_CALLS = {Role.UPDATE, Role.LIBRARY}  # whose results are stored
_POINTWISE = {Role.ELEMENTWISE, Role.REDUCTION}


@dataclass(frozen=True)
class Use:
    """One place where a distinct segment stands: the original nodes behind its inputs and outputs, in order.

    An input is an input of the graph, a large constant, an output of a use before, or a view of one of these.
    """

    segment: int
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


def segments(graph: Graph) -> tuple[list[Graph], list[Use]]:
    """The distinct segments of `graph` in order of first use, and all uses in the order they run."""
    order = _ordered(graph)
    pieces = order.pieces(order.ends)
    partition, sliced = _distinct(pieces, sliced=False), False
    if len(partition[0]) > 1:
        by_slices = _distinct(pieces, sliced=True)  # the steps of a loop differ in what they take of an array
        if len(by_slices[0]) < len(partition[0]):
            partition, sliced = by_slices, True
        partition = _finer(order, pieces, partition, sliced)
    return _by_steps(order, partition) if operators(partition[0]) > CUT_OF_STEPS else partition


def _by_steps(order: _OrderedOperators, default: tuple[list[Graph], list[Use]]) -> tuple[list[Graph], list[Use]]:
    """The steps of loops as pieces, where far fewer operators are to be searched then; else `default`."""
    ways: list[Callable[[], list[int]]] = [order.ends_of_steps, partial(order.ends_of_small_steps, SMALL_VALUES)]
    ways += [partial(order.ends_of_small_steps, CACHED_BYTES, 2)]
    for ends_of in ways + [order.ends_of_layers] * (operators(default[0]) > CUT_OF_SIZES):
        ends = ends_of()
        by_steps = _distinct(order.pieces(ends), sliced=False) if ends else default
        if operators(by_steps[0]) <= operators(default[0]) // FEWER:
            return by_steps
    return default


def one_segment(graph: Graph) -> tuple[list[Graph], list[Use]]:
    """`graph` as one segment."""
    return _distinct([_Piece(graph.outputs, frozenset())], sliced=False)


def crossings(graph: Graph, uses: list[Use] | tuple[Use, ...]) -> tuple[Node, ...]:
    """What passes from one use to another, in order: neither inputs of the graph, nor results, nor constants."""
    values = dict.fromkeys(n for u in uses for n in (*u.inputs, *u.outputs) if n.op not in ("input", "const"))
    return tuple(n for n in values if n not in graph.outputs)


@dataclass(frozen=True)
class _Piece:
    """What to compute, the nodes to stop at, and the operators between. `gathers`: it holds products that run together
    before what reads them."""

    outputs: tuple[Node, ...]
    boundary: frozenset[Node]
    operators: tuple[Node, ...] = ()
    gathers: bool = False


def _distinct(pieces: list[_Piece], sliced: bool) -> tuple[list[Graph], list[Use]]:
    distinct: dict[Graph, int] = {}
    uses = []
    for piece in pieces:
        segment, inputs = canonical_piece(piece.outputs, piece.boundary, sliced and not piece.gathers)
        uses.append(Use(distinct.setdefault(segment, len(distinct)), inputs, piece.outputs))
    return list(distinct), uses


def _finer(
    order: _OrderedOperators, pieces: list[_Piece], coarse: tuple[list[Graph], list[Use]], sliced: bool
) -> tuple[list[Graph], list[Use]]:
    """`coarse`, with a piece that stands once cut in two where one of the parts is another piece: the first layer, with
    what is done but once before it, and the last."""
    graphs, uses = coarse
    times = Counter(use.segment for use in uses)
    coarse_graphs, sizes = {*graphs}, {len(piece.operators) for piece in pieces}
    distinct: dict[Graph, int] = {}
    finer = []
    for piece, use in zip(pieces, uses, strict=True):
        replaced = [(graphs[use.segment], use.inputs, use.outputs)]
        for end in order.places_in(piece, sizes) if times[use.segment] == 1 else ():
            parts = order.parts(piece, end)
            cut = [(*canonical_piece(p.outputs, p.boundary, sliced and not p.gathers), p.outputs) for p in parts]
            if any(graph in coarse_graphs for graph, *_ in cut):
                replaced = cut
                break
        for graph, inputs, outputs in replaced:
            finer.append(Use(distinct.setdefault(graph, len(distinct)), inputs, outputs))
    return list(distinct), finer


def _ordered(graph: Graph) -> _OrderedOperators:
    """The operators of `graph`. Products that share an operand and would be in several pieces run together first."""
    order = _OrderedOperators(graph)
    parted = [
        g for g in shared_products(order.nodes, order.constants)
        if len({bisect_left(order.ends, order.position[m]) for m in g.members}) > 1
    ]  # fmt: skip
    return _OrderedOperators(graph, parted) if parted else order


class _OrderedOperators:
    """The operators of a graph in the order in which it is cut, and who reads what. Views are their readers'.

    The members of each group of `gathered` stand together, and are stored.
    """

    def __init__(self, graph: Graph, gathered: Sequence[SharedProducts] = ()) -> None:
        self.gathered = gathered
        self.together = {m for g in gathered for m in g.members}
        self.constants = constants(graph.nodes)
        nodes = self.nodes = [n for n in _scheduled(graph, gathered) if n not in self.constants]
        self.source: dict[Node, Node] = {}
        for n in nodes:
            self.source[n] = self.source[n.args[0]] if n.row.role is Role.VIEW else n
        self.operators = [n for n in nodes if self.source[n] is n and n.op != "input"]
        self.position = {n: i for i, n in enumerate(self.operators)}
        self.reads = {
            n: list(dict.fromkeys(self.source[a] for a in n.args if a in self.source)) for n in self.operators
        }
        self.readers: dict[Node, list[Node]] = {n: [] for n in nodes if self.source[n] is n}
        for n, reads in self.reads.items():
            for a in reads:
                self.readers[a].append(n)
        self.outputs = graph.outputs
        self.results = {self.source[o] for o in graph.outputs if o in self.source}
        self.last = {n: self.position[readers[-1]] if readers else -1 for n, readers in self.readers.items()}
        self.last.update(dict.fromkeys(self.results, len(self.operators)))

    @cached_property
    def ends(self) -> list[int]:
        """The operators behind which to cut. Of the places for a cut that is taken which the fewest values cross."""
        live, count = self._live(), len(self.operators)
        ends: list[int] = []
        start = 0
        while count - start >= 2 * SEGMENT_OPERATORS:
            places = (end for end in self.places(start) if end - start + 1 >= SEGMENT_OPERATORS <= count - 1 - end)
            end = next(places, None)
            if end is None:
                break
            while (other := next(places, count)) < start + 2 * SEGMENT_OPERATORS:
                end = min(other, end, key=live.__getitem__)  # the later of equals
            ends.append(end)
            start = end + 1
        return ends

    def ends_of_steps(self) -> list[int]:
        """The operators behind which to cut so that each step of a loop is a piece; none where no steps are alike."""
        fine: list[int] = []
        while (end := next(self.places(fine[-1] + 1 if fine else 0), None)) is not None:
            fine.append(end)
        looks = [tuple(map(look, self.operators[a + 1 : b + 1])) for a, b in pairwise([-1, *fine])]
        grids = iter(repetitions(looks))
        grid = next(grids, None)
        ends: list[int] = []
        for step, end in enumerate(fine[:-1]):
            while grid is not None and step >= grid[0] + grid[1] * grid[2] and (following := next(grids, None)):
                grid = following
            if grid is not None:
                first, period, turns = grid
                is_near = first - period <= step + 1 and step < first + period * (turns + 1)
                if (step + 1 - first) % period == 0 if is_near else end - (ends or [-1])[-1] >= SEGMENT_OPERATORS:
                    ends.append(end)
        return ends

    def ends_of_small_steps(self, most: int, fewest: int = 1) -> list[int]:
        """Where to cut between some steps, `fewest` or more, of a loop on values of `most` bytes: to store these costs
        next to nothing. Steps that need no more than the step before them may all be one kernel."""
        small = [n.type.nbytes <= most for n in self.operators]
        live = self._live()
        ends: list[int] = []
        for first, period, turns in repetitions(self._looks, LONGEST_STEP):
            if self._takes_more(first + period, period) and all(small[first : first + period * turns]):
                phase = min(range(period), key=lambda start: sum(live[first + start : first + period * turns : period]))
                apart = period * max(fewest, SEGMENT_OPERATORS // 2 // period)
                ends += range(first + phase, min(first + period * turns, len(small) - 1), apart)
        return ends

    def ends_of_layers(self) -> list[int]:
        """Where to cut between alike layers of a program too large to be searched as one, so that the next layer reads
        the fewest values of the last. What others read is stored then, even where it might be computed again."""
        ends: list[int] = []
        for first, period, turns in repetitions(self._looks, LONGEST_LAYER, FEWEST_ALIKE):
            middle = self.operators[first + period * (turns // 2 - 1) :]
            reads = [{a for m in middle[i + period : i + 2 * period] for a in self.reads[m]} for i in range(period)]
            phase = min(range(period), key=lambda i: len(reads[i].intersection(middle[i : i + period])))
            apart = period * max(1, SEGMENT_OPERATORS // 2 // period)
            ends += range(first + (phase - 1) % period, min(first + period * turns, len(self.operators) - 1), apart)
        return ends

    @cached_property
    def _looks(self) -> list[int]:
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(look(n), len(numbers)) for n in self.operators]

    def _takes_more(self, start: int, period: int) -> bool:
        """Does the step of `period` operators at `start` take elements of arrays, or values older than the last one?"""
        taken = [a for n in self.operators[start : start + period] for a in n.args]
        return any(slice_of(a) is not a or self.position.get(a, start) < start - period for a in taken)

    def pieces(self, ends: Sequence[int]) -> list[_Piece]:
        """The program cut behind each of `ends`."""
        pieces: list[_Piece] = []
        boundary: set[Node] = set()
        start = 0
        for end in ends:
            members = self.operators[start : end + 1]
            pieces.append(self._piece(self._crossing(members, end), boundary, members))
            boundary.update(pieces[-1].outputs)
            start = end + 1
        left = tuple(o for o in self.outputs if o not in boundary)
        return [*pieces, self._piece(left, boundary, self.operators[start:])] if left or not pieces else pieces

    def places_in(self, piece: _Piece, sizes: Collection[int]) -> Iterator[int]:
        """Operators behind which `piece` may be cut in two, so that a part has one of these numbers of operators."""
        count = len(piece.operators)
        start = self.position[piece.operators[0]] if count else 0
        for end in takewhile(lambda end: end < start + count - 1, self.places(start)):
            if end - start + 1 in sizes or start + count - 1 - end in sizes:
                yield end

    def parts(self, piece: _Piece, end: int) -> tuple[_Piece, _Piece]:
        """`piece` cut behind the operator at position `end`."""
        count = end - self.position[piece.operators[0]] + 1
        first, second = piece.operators[:count], piece.operators[count:]
        crossing = self._crossing(first, end)
        left = tuple(o for o in piece.outputs if o not in crossing)
        return self._piece(crossing, piece.boundary, first), self._piece(left, {*piece.boundary, *crossing}, second)

    def _crossing(self, nodes: Sequence[Node], end: int) -> tuple[Node, ...]:
        return tuple(n for n in nodes if self.last[n] > end)

    def _piece(self, outputs: tuple[Node, ...], boundary: Collection[Node], nodes: Sequence[Node]) -> _Piece:
        return _Piece(outputs, frozenset(boundary), tuple(nodes), not self.together.isdisjoint(nodes))

    def _live(self) -> list[int]:
        """How many values made by then are read behind each operator."""
        change = [0] * (len(self.operators) + 1)
        for i, n in enumerate(self.operators):
            if self.readers[n]:
                change[i] += 1
                change[self.position[self.readers[n][-1]]] -= 1
        return list(accumulate(change))

    def places(self, start: int) -> Iterator[int]:
        """Operators behind which there may be a cut, if the last one was before operator `start`."""
        later, parted = self._later, self._parted
        heavy: set[Node] = set()  # values made since that take more than pointwise work to compute again
        multiplied: set[Node] = set()  # and those with a product in that work
        loose: Counter[int] = Counter()  # how many values must not cross a cut before each position
        open_ = 0
        for position, n in enumerate(self.operators[start:], start):
            role = n.row.role
            if role in _PRODUCTS or any(a in multiplied for a in self.reads[n]):
                multiplied.add(n)
            if role is not Role.ELEMENTWISE or any(a in heavy for a in self.reads[n]):
                heavy.add(n)
            open_ -= loose.pop(position, 0)
            until = self._loose_until(n, n in heavy, n in multiplied)
            if until > position:
                loose[until] += 1
                open_ += 1
            in_memory = n in self.results or n in self.together
            if in_memory or any(later[r] >> position & 1 for r in self.readers[n]):
                heavy.discard(n)
                multiplied.discard(n)
            if not open_ and not parted[position]:
                yield position

    def _loose_until(self, n: Node, heavy: bool, multiplied: bool) -> int:
        """The last position before which no cut is free, as `n` may be no array in memory there, or its kernel may
        compute a reader too."""
        if n in self.together:
            return -1
        readers, position = self.readers[n], self.position[n]
        apart = [r for r in readers if _is_apart(n, r)]
        late = [r for r in readers if self._later[r] >> position & 1]
        called = any(r.row.role in _CALLS for r in (n, *apart))
        stored = called or n in self.results or (heavy and bool(late))
        if not stored and multiplied:  # two products may be one kernel, as in attention, with `n` between them
            apart = [r for r in apart if not (r.op == "matmul" and self.source.get(r.args[0]) is n)]
        stored = stored or (heavy and bool(apart))
        if stored or len(apart) == len(readers):
            return max((self.position[r] for r in readers if r not in apart and r not in late), default=-1)
        return self.last[n]

    @cached_property
    def _above(self) -> dict[Node, int]:
        """Of each operator those that it depends on and itself, a bit for each."""
        above: dict[Node, int] = {}
        for n, reads in self.reads.items():
            above[n] = 1 << self.position[n]
            for a in reads:
                above[n] |= above.get(a, 0)
        return above

    @cached_property
    def _later(self) -> dict[Node, int]:
        """Of each operator those with a product or a call between, which must have run first, or run before all uses
        of its result."""
        above, later = self._above, dict[Node, int]()
        for n, reads in self.reads.items():
            later[n] = 0
            for a in reads:
                if a in above:
                    called = a.row.role in _PRODUCTS | _CALLS
                    later[n] |= later[a] | (above[a] ^ (1 << self.position[a]) if called else 0)
        for n in reversed(self.operators):
            if n.row.role is Role.ELEMENTWISE and n not in self.results and self.readers[n]:
                common = -1
                for r in self.readers[n]:
                    common &= later[r]
                later[n] |= common
        return later

    @cached_property
    def _parted(self) -> list[bool]:
        """Would a cut behind each operator part a group, or two readers of a value that one kernel could compute?"""
        above = self._above
        change = [0] * (len(self.operators) + 1)
        for value, readers in self.readers.items():
            if value.type.size == 1:
                continue
            for i, a in enumerate(readers):
                for b in readers[i + 1 :]:
                    if self.position[b] - self.position[a] > READERS_APART:
                        break
                    if _alike(a, b) and not above[b] >> self.position[a] & 1:
                        change[self.position[a]] += 1
                        change[self.position[b]] -= 1
        for group in self.gathered:
            places = [self.position[m] for m in group.members]
            change[min(places)] += 1
            change[max(places)] -= 1
        return [n > 0 for n in accumulate(change)]


def _is_apart(n: Node, reader: Node) -> bool:
    """Is `n` stored before `reader` is computed? A kernel that computes slices may replace them, and borders around
    them. What reads other elements of an array with slices replaced is the next step."""
    if _replaces(reader):
        base, *values = reader.args
        return _replaces(n) and base is n and 2 * sum([v.type.size for v in values]) > n.type.size
    role = reader.row.role
    return role in _PRODUCTS | _CALLS or (role is Role.ELEMENTWISE and _replaces(n) and n not in reader.args)


def _replaces(n: Node) -> bool:
    return n.row.role is Role.UPDATE and n.row.pieces is not None


def _alike(a: Node, b: Node) -> bool:
    """Could one kernel compute both readers of a value, read once?"""
    if a.row.role in _POINTWISE and b.row.role in _POINTWISE:
        return max(a.type.size, *(x.type.size for x in a.args)) == max(b.type.size, *(x.type.size for x in b.args))
    return a.op == b.op and a.row.role is Role.CONTRACTION and a.args[0] is b.args[0]


def _scheduled(graph: Graph, gathered: Sequence[SharedProducts]) -> list[Node]:
    """The nodes of `graph`, arguments first: `gathered`, then writes into arrays late, as they link a loop's steps."""
    first = [m for g in gathered for m in g.members]
    written = [a for n in graph.of_role(Role.UPDATE) for a in n.args[1:]]
    return topological((*first, *written, *graph.outputs))
