"""A map whose result is an array with slices replaced, by one update after another: boundary conditions.

Later updates may copy, or compute with, what earlier ones have written. In: a body. Out: `Replacement`: which values
may be computed where they stay before all else, and the steps on whole arrays that follow. Next stop: `scheduling.py`,
and `replaced.py`, which writes the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.emit.numpy.ops import ONE_RUN
from eqfuse.emit.numpy.statements import behind_views, statements
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute, topological
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import computes, leaf_chain, push_views
from eqfuse.ops import Role
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import Ranges, apart, left_of, uncovered, whole_of


@dataclass(frozen=True)
class Write:
    """`value`, over leaves alone, goes to the slice `place`. `first`: it may be written there before anything else."""

    value: Node
    place: Ranges
    first: bool


@dataclass(frozen=True)
class UpdateStep:
    """Statements of `nodes` on whole arrays, of which those in `placed` write into slices of the result and those
    `kept` are read later; then assignments to slices of the result."""

    nodes: tuple[Node, ...]
    placed: dict[Node, Ranges]
    kept: tuple[Node, ...]
    assigned: tuple[tuple[Ranges, Node], ...]

    def calls(self, inline: bool) -> int:
        computed = statements(self.nodes, list(self.placed), self.kept, inline).values()
        return sum(s.calls for s in computed) + len(self.assigned)


@dataclass(frozen=True)
class Replacement:
    """`first`: what the first update changes; `body`: the values of all writes, over inputs and over `stands`,
    which stand for the array as it is between two updates. `unwritten`: slices of the first array that are seen where
    no value covers them; `updates`: the writes of each."""

    first: Node
    body: Graph
    stands: tuple[Node, ...]
    unwritten: tuple[tuple[Ranges, Node], ...]
    updates: tuple[tuple[Write, ...], ...]

    @property
    def largest(self) -> dict[Node, Ranges]:
        """Where to write the values that tiles may compute: all that have the extents of the largest."""
        first = [w for writes in self.updates for w in writes if w.first]
        most = max(first, key=lambda w: w.value.type.size, default=None)
        return {w.value: w.place for w in first if most is not None and w.value.shape == most.value.shape}

    @property
    def late(self) -> set[Node]:
        """What is computed of the array between two updates."""
        late = set(self.stands)
        for n in self.body.nodes:
            if not late.isdisjoint(n.args):
                late.add(n)
        return late

    def steps(self, tiled: Collection[Node]) -> list[UpdateStep]:
        """What is done on whole arrays, after what is unwritten is copied and values are `tiled`."""
        late = self.late
        rest = [[w for w in writes if w.value not in tiled] for writes in self.updates]
        values = [w.value for writes in rest for w in writes]
        order = [n for n in evaluation_order(Graph(self.body.inputs, tuple(values))) if computes(n)] if values else []
        read = {behind_views(a) for n in order if n in late for a in n.args}
        placed = {w.value: w.place for writes in rest for w in writes if w.first and w.value not in read}
        wanted = {*values, *(read - late)}
        kept = tuple([n for n in order if n in wanted and n not in placed])
        steps = [UpdateStep(tuple([n for n in order if n not in late]), placed, kept, ())]
        for writes in rest:
            own = {*topological([w.value for w in writes])}
            assigned = tuple([(w.place, w.value) for w in writes if w.value not in placed])
            steps.append(UpdateStep(tuple([n for n in order if n in late and n in own]), {}, kept, assigned))
        return steps

    def may_lie_over_first(self, tiled: Mapping[Node, Ranges], inline: bool) -> bool:
        """Is nothing of the first array read after it is written, where the result lies in its memory? What is computed
        element by element may read those that it writes."""
        if self.first.op != "input":
            return False
        written = [*tiled.values()]
        for value, place in tiled.items():
            nodes = [n for n in topological([value]) if computes(n)]
            own = place if all(_by_element(n) and n.shape == value.shape for n in nodes) else None
            if not self._unwritten_yet([a for n in nodes for a in n.args], written, own):
                return False
        for step in self.steps(tiled):
            for n, statement in statements(step.nodes, list(step.placed), step.kept, inline).items():
                own = step.placed.get(n)
                written += [own] if own else []
                if not self._unwritten_yet(statement.reads, written, own if _by_element(n) else None):
                    return False
            for place, value in step.assigned:
                written.append(place)
                if not computes(value) and not self._unwritten_yet([value], written, None):
                    return False
        return True

    def _unwritten_yet(self, read: Iterable[Node], written: Sequence[Ranges], own: Ranges | None) -> bool:
        """Is all that is `read` of the first array apart from what is `written`, or, element by element, `own`?"""
        views = [a for a in read if behind_views(a) is self.first]
        if own is not None:
            views = [a for a in views if a is not _sliced(self.first, own)]
        return all(apart(_hull(leaf_chain(a)[1], self.first), other) for a in views for other in written)


def replacement(body: Graph) -> Replacement | None:
    """Of a body whose one result is an array in memory with slices replaced; None for any other body, and where values
    of an update are read from where another one of it is written. TooManyCopies as `push_views`."""
    (root, *more) = body.outputs
    if more or root.op != "slice_scatter" or not root.type.size:
        return None
    chain = [root]
    while chain[-1].args[0].op == "slice_scatter":
        chain.append(chain[-1].args[0])
    base = chain[-1].args[0]
    chain.reverse()
    if computes(leaf_chain(base)[0]):
        return None
    stands = {n: input_node(f"updated {k}", n.type) for k, n in enumerate(chain[:-1])}
    values = [v for n in chain for v in substitute(n.args[1:], stands)]
    pushed = push_views(Graph((*body.inputs, *stands.values()), tuple(values)))
    updates = _updates(chain, stands, pushed.outputs)
    if updates is None:
        return None
    unwritten = tuple([(place, _sliced(base, place)) for place in _unwritten(chain, stands, updates)])
    return Replacement(base, pushed, tuple(stands.values()), unwritten, updates)


def _updates(
    chain: Sequence[Node], stands: dict[Node, Node], values: Sequence[Node]
) -> tuple[tuple[Write, ...], ...] | None:
    """The writes of each update of `chain`."""
    remaining, times = iter(values), Counter(values)
    updates: list[tuple[Write, ...]] = []
    before: list[Ranges] = []  # what is read or written until then
    for k, n in enumerate(chain):
        writes = [(next(remaining), place) for place in n.attr("slices")]
        reads = [_read(value, {*stands.values()}) for value, _ in writes]
        if any(stand is not stands.get(chain[k - 1]) for read in reads for stand, _ in read):
            return None
        before += [place for read in reads for _, place in read]
        done: list[Write] = []
        for (value, place), read in zip(writes, reads, strict=True):
            if not computes(value) and not all(apart(w.place, there) for w in done for _, there in read):
                return None
            early = computes(value) and not read and times[value] == 1 and value.op not in ONE_RUN
            done.append(Write(value, place, early and all(apart(place, other) for other in before)))
            before.append(place)
        updates.append(tuple(done))
    return tuple(updates)


def _unwritten(
    chain: Sequence[Node], stands: dict[Node, Node], updates: Sequence[Sequence[Write]]
) -> list[Ranges]:
    """Slices that hold all of the first array that is read by an update, or left by the last."""
    places, kept = [*uncovered(chain[0].shape, chain[0].attr("slices"))], []
    for n, writes in zip(chain[1:], updates[1:], strict=True):
        read = [there for w in writes for _, there in _read(w.value, {*stands.values()})]
        kept += [place for place in places if not all(apart(place, there) for there in read)]
        places = [part for place in places if place not in kept for part in left_of(place, n.attr("slices"))]
    return [*kept, *places]


def _read(value: Node, stands: Collection[Node]) -> list[tuple[Node, Ranges]]:
    """What `value` reads of arrays between updates: which array, and the slice that holds all of it."""
    read = []
    for view in [value, *(a for n in topological([value]) if computes(n) for a in n.args)]:
        leaf, views = leaf_chain(view)
        if leaf in stands:
            read.append((leaf, _hull(views, leaf)))
    return read


def _hull(views: Sequence[Node], leaf: Node) -> Ranges:
    """The slice of `leaf` that holds all that `views` show of it."""
    ranges: Ranges = views[0].attr("ranges") if views and views[0].op == "slice" else whole_of(leaf.shape)
    return ranges


def _by_element(n: Node) -> bool:
    return n.row.role is Role.ELEMENTWISE


def _sliced(n: Node, place: Ranges) -> Node:
    return n if place == whole_of(n.shape) else node("slice", (n,), (place,))


def slice_strides(place: Ranges, whole: Shape) -> Shape:
    """Element strides of the slice `place` of a C-ordered array of shape `whole`."""
    return tuple([step * stride for (_, _, step), stride in zip(place, contiguous(whole), strict=True)])
