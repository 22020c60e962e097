"""What of a graph is computed block by block, in which loops.

In: a graph, a large value of it and an axis. Out: a `Region`: the nodes that loops compute a block at a time, because
they are large or lie between such nodes, and in which loop each: a loop begins where a value is read whole that the one
before joins. Next stop: `blocks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from eqfuse.frontends.chunking.splits import AxisSplit, splits
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role


class Users:
    """Who reads each node of a graph; `varying`: the nodes that depend on an input."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers: dict[Node, list[Node]] = {n: [] for n in graph.nodes}
        for n in graph.nodes:
            for a in dict.fromkeys(n.args):
                self.readers[a].append(n)
        self.varying = {*graph.inputs}
        for n in graph.nodes:
            if not self.varying.isdisjoint(n.args):
                self.varying.add(n)


@dataclass(frozen=True)
class Region:
    """`axis`: of each node that has blocks, along which. `how`: how a node is computed from blocks. `members`: what
    loops compute block by block, `joined`: what they add up. `level`: the number of a node's loop; of others, that of
    the first loop that may read them."""

    users: Users
    axis: dict[Node, int]
    how: dict[Node, AxisSplit]
    members: frozenset[Node]
    joined: frozenset[Node]
    large: int

    @cached_property
    def level(self) -> dict[Node, int]:
        levels: dict[Node, int] = {}
        for n in self.users.graph.nodes:
            inside = n in self.members or n in self.joined
            levels[n] = max((self._ready(n, i, a, levels, inside) for i, a in enumerate(n.args)), default=0)
        return levels

    def _ready(self, n: Node, i: int, a: Node, level: dict[Node, int], inside: bool) -> int:
        if a in self.joined or (a in self.members and not (inside and self.by_block(n, i))):
            return level[a] + 1
        return level[a]

    def by_block(self, n: Node, i: int) -> bool:
        """Does a loop that computes `n` read a block of its argument `i`?"""
        wanted = self.how[n].args[i]
        return wanted is not None and self.axis.get(n.args[i]) == wanted

    @property
    def loops(self) -> int:
        return 1 + max((self.level[n] for n in (*self.members, *self.joined)), default=-1)

    @cached_property
    def kept(self) -> frozenset[Node]:
        """The members that are stored, block by block: those that are read whole, or are results, or are small and read
        by a later loop."""
        outputs = {*self.users.graph.outputs}
        readers = self.users.readers
        return frozenset(n for n in self.members if n in outputs or any(self._keeps(n, u) for u in readers[n]))

    def _keeps(self, n: Node, user: Node) -> bool:
        if user not in self.members and user not in self.joined:
            return True
        if not all(self.by_block(user, i) for i, a in enumerate(user.args) if a is n):
            return True
        return self.is_small(n) and not is_view(n) and any(self.level[u] > self.level[n] for u in self._behind(user))

    def _behind(self, user: Node) -> Iterator[Node]:
        """`user`; of a view, those who read it."""
        yield user
        if is_view(user):
            for u in self.users.readers[user]:
                yield from self._behind(u)

    def is_small(self, n: Node) -> bool:
        return n.type.nbytes <= self.large

    @cached_property
    def units(self) -> int:
        """In how many blocks of equal size all can be cut."""
        inside = [*self.members, *self.joined]
        read = [(a, axis) for n in inside for a, axis in zip(n.args, self.how[n].args, strict=True) if axis is not None]
        return math.gcd(*(n.shape[axis] for n, axis in [*read, *((n, self.axis[n]) for n in self.members)]))

    @cached_property
    def stored(self) -> int:
        """Bytes of the large values that are held whole all the same."""
        outside = {n for n in self.users.graph.operators if n not in self.members and not is_view(n)}
        results = {*self.users.graph.outputs}
        return sum(n.type.nbytes for n in {*outside, *self.kept} - results if not self.is_small(n))

    @cached_property
    def flops(self) -> int:
        """Arithmetic of all loops: large values that several need are computed in each."""
        return sum(flops_of(n) for k in range(self.loops) for n in self.needed(k))

    def rows(self, k: int) -> list[tuple[Node, int]]:
        """What loop `k` reads blocks of and does not compute, and along which axis."""
        needed = self.needed(k)
        inner = {*needed}
        read = [
            (a, axis) for n in needed for i, (a, axis) in enumerate(zip(n.args, self.how[n].args, strict=True))
            if axis is not None and not (a in inner and self.by_block(n, i))
        ]  # fmt: skip
        return list(dict.fromkeys(read))

    def roots(self, k: int) -> list[Node]:
        """What loop `k` gives: values joined, then values stored."""
        nodes = self.users.graph.nodes
        return [n for part in (self.joined, self.kept) for n in nodes if n in part and self.level[n] == k]

    def needed(self, k: int) -> list[Node]:
        """What loop `k` computes block by block, arguments first."""
        reached: set[Node] = set()
        stack = self.roots(k)
        while stack:
            n = stack.pop()
            if n not in reached:
                reached.add(n)
                read = [a for i, a in enumerate(n.args) if self.by_block(n, i)]
                stack += [a for a in read if a in self.members and not (a in self.kept and self.level[a] < k)]
        return [n for n in self.users.graph.nodes if n in reached]


def is_view(n: Node) -> bool:
    return n.row.role is Role.VIEW


def flops_of(n: Node) -> int:
    return n.row.flops([a.type for a in n.args], n.type, n.attrs)


def region(users: Users, seed: Node, axis: int, large: int) -> Region | None:
    """What is computed block by block so that values of more than `large` bytes, with `seed`, are not held whole."""
    axes, how = _spread(users, seed, axis)
    cut = {n for n, split in how.items() if n in axes and split.out is not None}
    blocked = [n for n in users.graph.nodes if n in cut and n in users.varying]
    big = {n for n in blocked if n.type.nbytes > large and not is_view(n)}
    if seed not in big:
        return None
    members = _between(users, blocked, big)
    joined = {
        n for n, split in how.items()
        if split.joined and any(a in members for a in n.args) and _reads_blocks(n, split, axes)
    }  # fmt: skip
    members = _with_views(users, members, joined, how, axes)
    candidate = Region(users, axes, how, frozenset(members), frozenset(joined), large)
    return candidate if candidate.units > 1 else None


def _reads_blocks(n: Node, split: AxisSplit, axes: dict[Node, int]) -> bool:
    return all(axes.get(a) == wanted for a, wanted in zip(n.args, split.args, strict=True) if wanted is not None)


def _spread(users: Users, seed: Node, axis: int) -> tuple[dict[Node, int], dict[Node, AxisSplit]]:
    """The axis along which each value that hangs together with `seed` is cut, nearest first, and how it is computed."""
    axes, how = {seed: axis}, {}
    waiting = [seed]
    for n in waiting:  # (grows)
        near: list[Node] = []
        own = next((s for s in splits(n) if s.out == axes[n]), None)
        if own is not None and n not in how:
            how[n] = own
            near += _cut(n, own, axes)
        for u in users.readers[n]:
            if u in how:
                continue
            split = next((s for s in splits(u) if _follows(u, s, n, axes)), None)
            if split is not None:
                how[u] = split
                near += _cut(u, split, axes)
        waiting += near
    return axes, how


def _follows(u: Node, split: AxisSplit, n: Node, axes: dict[Node, int]) -> bool:
    """Is `u` computed by `split` from blocks of `n`, and from none of what is cut otherwise?"""
    pairs = [*zip(u.args, split.args, strict=True)]
    if not any(a is n and wanted == axes[n] for a, wanted in pairs):
        return False
    if split.out is not None and axes.get(u, split.out) != split.out:
        return False
    return all(axes.get(a, wanted) == wanted for a, wanted in pairs if wanted is not None)


def _cut(n: Node, split: AxisSplit, axes: dict[Node, int]) -> Iterator[Node]:
    """The nodes whose axis is known by `split` of `n`, and was not."""
    for x, axis in [*zip(n.args, split.args, strict=True), (n, split.out)]:
        if axis is not None and x not in axes:
            axes[x] = axis
            yield x


def _between(users: Users, blocked: list[Node], big: set[Node]) -> set[Node]:
    """`big`, what reads them, and what lies between."""
    below: set[Node] = set()
    for n in blocked:
        if any(a in big or a in below for a in n.args):
            below.add(n)
    above: set[Node] = set()
    for n in reversed(blocked):
        if any(u in big or u in above for u in users.readers[n]):
            above.add(n)
    return big | {n for n in below if n in above or any(a in big for a in n.args)}


def _with_views(
    users: Users, members: set[Node], joined: set[Node], how: dict[Node, AxisSplit], axes: dict[Node, int]
) -> set[Node]:
    """`members`, and the views that they and `joined` read, and nobody else."""
    all_members = {*members}
    outputs = {*users.graph.outputs}
    for n in reversed(users.graph.nodes):
        if n in all_members or n in outputs or not is_view(n) or n not in how:
            continue
        inside = all(u in all_members or u in joined for u in users.readers[n])
        if inside and all(_reads_block(u, n, how[u], axes) for u in users.readers[n]):
            all_members.add(n)
    return all_members


def _reads_block(user: Node, n: Node, split: AxisSplit, axes: dict[Node, int]) -> bool:
    pairs = zip(user.args, split.args, strict=True)
    return all(axis is not None and axes.get(n) == axis for a, axis in pairs if a is n)


def terms_region(users: Users, n: Node) -> Region | None:
    """The sums of the contraction `n` alone, some of its terms at a time, with the views that only it reads."""
    for split in splits(n):
        if split.joined is None or split.args[0] is None:
            continue
        axes, how = _spread(users, n.args[0], split.args[0])
        if how.get(n) == split and _reads_blocks(n, split, axes):
            members = _with_views(users, set(), {n}, how, axes)
            candidate = Region(users, axes, how, frozenset(members), frozenset({n}), 0)
            return candidate if candidate.units > 1 else None
    return None
