"""The pass: graphs that hold less, by computing large values block by block.

In: a graph. Out: other graphs of the same results, each of which holds less and goes through more blocks than the one
before; `rolled` says what they do in words. Next stop: `egraph.saturate`. Which of them runs is for the planner to say,
who knows what they hold and cost (`eqfuse/compiler.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eqfuse.frontends.chunking.blocks import BlockLoops
from eqfuse.frontends.chunking.regions import Region, Users, region
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role, row
from eqfuse.ops.loops import LOOPS
from eqfuse.summary import count

RUNGS = ((2, 4), (8, 16), (32, 64))  # values of more than that share of the largest, in so many blocks
MOST = 8  # regions of one graph
LEAST_BYTES = 1 << 14  # values up to this size are left whole
ARRAYS = 3  # as large as a block that a step holds, about


def chunked(graph: Graph) -> Iterator[Graph]:
    """`graph` in ever more blocks."""
    largest = max((n.type.nbytes for n in graph.operators if _may_be_large(n)), default=0)
    before = graph
    for share, blocks in RUNGS:
        large = max(largest // share, LEAST_BYTES) - 1
        found = _in_blocks(graph, large, blocks)
        if found not in (graph, before):
            yield found
        before = found


def _in_blocks(graph: Graph, large: int, blocks: int) -> Graph:
    """`graph` without values of more than `large` bytes, as far as they can be computed in `blocks` blocks."""
    said = [*(graph.rolled or ())]
    whole: set[Node] = set()  # that no region holds
    while len(said) < MOST:
        users = Users(graph)
        seeds = [n for n in graph.operators if n.type.nbytes > large and _may_be_large(n) and n not in whole]
        seed = max(seeds, key=lambda n: n.type.nbytes, default=None)
        if seed is None:
            break
        best = _region_of(users, seed, large, blocks)
        if best is None:
            whole.add(seed)
            continue
        made = BlockLoops(best, _size(best.units, blocks))
        graph = made.graph()
        said.append(_said(best, made, seed))
    return replace(graph, rolled=tuple(said))


def _may_be_large(n: Node) -> bool:
    return row(n.op).role is not Role.VIEW and n.op not in LOOPS and n.op != "loop_result"


def _region_of(users: Users, seed: Node, large: int, blocks: int) -> Region | None:
    """The region around `seed` that holds least, and of those the one that computes least again."""
    found = [region(users, seed, axis, large) for axis, extent in enumerate(seed.shape) if extent > 1]
    rank = {(_held(r, blocks), r.flops, at): r for at, r in enumerate(found) if r is not None and seed not in r.kept}
    return rank[min(rank)] if rank else None


def _held(r: Region, blocks: int) -> int:
    """Bytes held, about."""
    largest = max((n.type.nbytes for n in r.members), default=0)
    return r.stored + ARRAYS * largest // min(blocks, r.units)


def _size(units: int, blocks: int) -> int:
    """Of one in about so many blocks, of which none is left over where that can be."""
    most = -(-units // blocks)
    return next((size for size in range(most, most // 2, -1) if units % size == 0), most)


def _said(r: Region, loops_over: BlockLoops, seed: Node) -> str:
    loops = count(r.loops, "loop")
    more = len([n for n in r.members if n.type.nbytes > r.large]) - 1
    others = f" and {count(more, 'other value')}" if more > 0 else ""
    return f"{seed.type}{others} are computed in {count(loops_over.count + bool(loops_over.left), 'block')}, by {loops}"
