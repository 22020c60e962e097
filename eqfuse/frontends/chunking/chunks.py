"""The pass: graphs that hold less, by computing large values block by block.

In: a graph. Out: other graphs of the same results, each of which holds less and goes through more blocks than the one
before; `rolled` says what they do in words. Next stop: `egraph.saturate`. Which of them runs is for the planner to say,
who knows what they hold and cost (`eqfuse/compiler.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from eqfuse.frontends.chunking.blocks import BlockLoops
from eqfuse.frontends.chunking.regions import Region, Users, flops_of, is_view, region, terms_region
from eqfuse.frontends.chunking.splits import splits
from eqfuse.ir.graph import Body, Graph, Node
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.summary import count

# Values of more than that share of the largest, in so many blocks.
RUNGS = ((2, 2), (4, 2), (2, 4), (4, 8), (8, 16), (32, 64))
TERMS = 4  # blocks of the terms of one contraction
GRAPH_REGIONS = 8  # regions of one graph
LEAST_BYTES = 1 << 14  # values up to this size are left whole
CLOSE = 1.35  # times as much may be held as is wanted, by a count of values that knows no kernels
BLOCKS_HELD = 3  # as large as a block that a step holds, about


def chunked(graph: Graph, share: float = 1.0) -> Iterator[Graph]:
    """`graph` with the terms of contractions in blocks; then with large values in blocks, in the order of what may be
    held: those that may hold that `share` of what `graph` holds, and the last."""
    terms = _terms_in_blocks(graph)
    if terms != graph:
        yield terms
    graphs = dict.fromkeys(in_blocks(graph, blocks, part) for part, blocks in RUNGS)
    held = {g: _alive(g) for g in graphs if g not in (graph, terms)}
    fitting = sorted((g for g in held if held[g] < CLOSE * share * _alive(graph)), key=lambda g: -held[g])
    yield from fitting or sorted(held, key=lambda g: held[g])[:1]


def in_blocks(graph: Graph, blocks: int, share: int = 2) -> Graph:
    """`graph`, its values of more than one part in `share` of the largest in so many blocks."""
    largest = max((n.type.nbytes for n in graph.operators if _may_be_large(n)), default=0)
    return _in_blocks(graph, max(largest // share, LEAST_BYTES) - 1, blocks)


def _alive(graph: Graph) -> int:
    """The most bytes of values that are alive at a time, were each an array, but for results and what one operator
    takes in element by element: of loops, those of a step as well."""
    readers: dict[Node, list[Node]] = {}
    root: dict[Node, Node] = {}
    for n in graph.nodes:
        root[n] = root[n.args[0]] if n.args and (is_view(n) or n.op == "loop_result") else n
        for a in dict.fromkeys(n.args):
            readers.setdefault(a, []).append(n)
    last: dict[Node, int] = {}
    for i, n in enumerate(graph.nodes):
        last |= dict.fromkeys((root[a] for a in (n, *n.args)), i)
    results = {root[o] for o in graph.outputs}
    ends: dict[int, int] = {}
    now = most = 0
    for i, n in enumerate(graph.nodes):
        if n.args and root[n] is n and n not in results and not _is_taken_in(n, readers.get(n, [])):
            now += n.type.nbytes
            ends[last[n]] = ends.get(last[n], 0) + n.type.nbytes
        inside = [_alive(body.graph) for body in n.attrs if isinstance(body, Body)]
        most = max(most, now + max(inside, default=0))
        now -= ends.pop(i, 0)
    return most


def _is_taken_in(n: Node, readers: Sequence[Node]) -> bool:
    """Does one operator alone read `n`, element by element?"""
    return len(readers) == 1 and readers[0].row.role is Role.ELEMENTWISE and readers[0].shape == n.shape


def _in_blocks(graph: Graph, large: int, blocks: int) -> Graph:
    """`graph` without values of more than `large` bytes, as far as they can be computed in `blocks` blocks."""
    said = [*(graph.rolled or ())]
    whole: set[Node] = set()  # that no region holds
    while len(said) < GRAPH_REGIONS:
        users = Users(graph)
        seeds = [n for n in graph.operators if n.type.nbytes > large and _may_be_large(n) and n not in whole]
        seed = max(seeds, key=lambda n: n.type.nbytes, default=None)
        if seed is None:
            break
        best = _region_of(users, seed, large, blocks)
        if best is None:
            whole.add(seed)
            continue
        loops = BlockLoops(best, _size(best.units, blocks))
        graph = loops.graph()
        said.append(_said(best, loops, seed))
    return replace(graph, rolled=tuple(said))


def _terms_in_blocks(graph: Graph) -> Graph:
    """`graph`, of whose contractions those that copy more than they read are sums of blocks of their terms."""
    said = [*(graph.rolled or ())]
    while len(said) < GRAPH_REGIONS:
        users = Users(graph)
        regions = (terms_region(users, n) for n in graph.operators if _copies_more(n))
        r = next((r for r in regions if r is not None), None)
        if r is None:
            break
        (n,) = r.joined
        loops = BlockLoops(r, _size(r.units, TERMS))
        graph = loops.graph()
        said.append(f"the terms of {n.op}, {n.type}, are added in {_blocks(loops)}, by {count(1, 'loop')}")
    return replace(graph, rolled=tuple(said))


def _copies_more(n: Node) -> bool:
    """Is the result of the contraction `n` small beside its operands, one of which its kernel may copy into an array
    larger than both? Convolutions as products copy each window."""
    if n.row.role is not Role.CONTRACTION:
        return False
    argument_bytes = sum(a.type.nbytes for a in n.args)
    read = [(n.shape[s.out], s.args) for s in splits(n) if s.out is not None]
    again = [math.prod(extent for extent, args in read if args[i] is None) for i in range(len(n.args))]
    copied = flops_of(n) // 2 // min(again) * n.dtype.itemsize
    return copied > max(argument_bytes, LEAST_BYTES) and TERMS * n.type.nbytes < argument_bytes


def _may_be_large(n: Node) -> bool:
    return not is_view(n) and n.op not in LOOPS and n.op != "loop_result"


def _region_of(users: Users, seed: Node, large: int, blocks: int) -> Region | None:
    """The region around `seed` that holds least, and of those the one that computes least again."""
    regions = [region(users, seed, axis, large) for axis, extent in enumerate(seed.shape) if extent > 1]
    rank = {(_held(r, blocks), r.flops, i): r for i, r in enumerate(regions) if r is not None and seed not in r.kept}
    return rank[min(rank)] if rank else None


def _held(r: Region, blocks: int) -> int:
    """Bytes held, about."""
    largest = max((n.type.nbytes for n in r.members), default=0)
    return r.stored + BLOCKS_HELD * largest // min(blocks, r.units)


def _size(units: int, blocks: int) -> int:
    """Of one in about so many blocks, of which none is left over where that can be."""
    most = -(-units // blocks)
    return next((size for size in range(most, most // 2, -1) if units % size == 0), most)


def _said(r: Region, loops_over: BlockLoops, seed: Node) -> str:
    loops = count(r.loops, "loop")
    more = len([n for n in r.members if n.type.nbytes > r.large]) - 1
    others = f" and {count(more, 'other value')}" if more > 0 else ""
    return f"{seed.type}{others} are computed in {_blocks(loops_over)}, by {loops}"


def _blocks(loops: BlockLoops) -> str:
    return count(loops.count + bool(loops.left), "block")
