"""The statements on whole arrays that compute nodes one after another: what each reads, and how it is written.

In: nodes, arguments first. Out: a `Statement` for each. Used by schedules, which count calls, and by `source`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqfuse.emit.numpy.bounds import clipped, repeated
from eqfuse.emit.numpy.narrow import column_calls
from eqfuse.emit.numpy.ops import CHOOSE_FROM, LAID_OVER, WINDOWED, replaced_calls, right_is_copied
from eqfuse.emit.numpy.table import are_numbers
from eqfuse.ir.graph import Node, node
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.ops import Role

BY_COPY = ("where", "take_along_axis")  # into an array that exists, by a copy beside their own call

@dataclass(frozen=True)
class Statement:
    """How a node is computed from `reads` in `calls` NumPy calls.

    `form`: "part" (of a complex array; nothing is computed), "number" (made of numbers), "choose" (elements by a
    condition), "fresh" (into a new array), or "into" (an array that exists). `over`: the operand whose memory the
    result takes; `freed`: those computed before whose memory is free again afterwards.
    """

    reads: tuple[Node, ...]
    form: str
    calls: int
    over: Node | None = None
    freed: tuple[Node, ...] = ()


def statements(
    nodes: Sequence[Node], placed: Collection[Node], kept: Iterable[Node], inline: bool
) -> dict[Node, Statement]:
    """How `nodes` are computed on whole arrays; those that no statement needs, as another takes them in, are left out.

    `placed`: results that go into arrays that exist; `kept`: what is read again later; `inline`: others go into memory
    that the program gives, and not into new arrays.
    """
    wanted = [*placed, *kept]
    reads = clipped(nodes, [*wanted, *(behind_views(a) for n in nodes for a in n.args if not computes(a))])
    nodes = list(reads)
    numbers = _numbers(reads, placed, wanted) if inline else set()
    last = last_uses([[*map(behind_views, args)] for args in reads.values()], wanted)
    owned: set[Node] = set()
    by_node: dict[Node, Statement] = {}
    for position, n in enumerate(nodes):
        read = reads[n] if reads[n] != n.args else repeated(n, n.shape[-1] if n.shape else 0)
        read = _without_axes(n, read)
        if n not in wanted and is_part(n, reads):
            by_node[n] = Statement(read, "part", 0)
            continue
        seen = [behind_views(a) for a in dict.fromkeys(read)]
        dying = next((a for a in read if _reusable(a, n, position, last, owned) and seen.count(a) == 1), None)
        takes = n.row.role is Role.ELEMENTWISE and n.op not in ("where", "cast") and n not in placed
        over = dying if takes else None
        freed = tuple(a for a in dict.fromkeys(seen) if a in owned and a is not over and last[a] == position)
        one = Statement(read, "number", int(n in placed)) if n in numbers else None
        statement = one or _statement(n, read, n in placed, over, inline)
        by_node[n] = replace(statement, freed=freed)
        owned.difference_update(freed, () if over is None else (over,))
        if n not in placed and n not in numbers:
            owned.add(n)
    return by_node


def _statement(n: Node, read: tuple[Node, ...], placed: bool, over: Node | None, inline: bool) -> Statement:
    if n.op in LAID_OVER:
        return Statement(read, "into", replaced_calls(n))
    if n.op == "where" and n.type.size >= CHOOSE_FROM and bits_dtype(n.dtype) and n.shape in [a.shape for a in n.args]:
        return Statement(read, "choose", 1)
    if placed or over is not None or (inline and n.op not in WINDOWED):
        copies = n.op in (*BY_COPY, *WINDOWED) or (n.op == "matmul" and right_is_copied(n))
        calls = 2 if copies else column_calls(n, read, reduced_axes(n)) or 1
        return Statement(read, "into", calls, over)
    return Statement(read, "fresh", 1)


def _numbers(reads: Mapping[Node, Sequence[Node]], placed: Collection[Node], wanted: Collection[Node]) -> set[Node]:
    """The nodes that are computed as numbers, which only such nodes read; and those of them that are `placed`."""
    numbers: set[Node] = set()
    of_arrays = {*wanted} - {*placed}
    for n in reversed(list(reads)):
        if n not in of_arrays and are_numbers(n.op, n.type, [a.type for a in n.args]) and reads[n] == n.args:
            numbers.add(n)
            of_arrays.update(behind_views(a) for a in n.args if behind_views(a) is not a)
        else:
            of_arrays.update(map(behind_views, reads[n]))
    return numbers


def reduced_axes(n: Node) -> tuple[int, ...]:
    return n.attr("axes") if n.row.role is Role.REDUCTION else ()


def bits_dtype(dtype: np.dtype) -> str | None:
    """The integer dtype that holds the bits of `dtype`, where NumPy has one."""
    return f"i{dtype.itemsize}" if dtype.itemsize in (1, 2, 4, 8) else None


def last_uses(reads: Sequence[Sequence[Node]], outputs: Iterable[Node]) -> dict[Node, int]:
    """Position of the last statement that reads each value, given what each one reads; outputs never die."""
    last: dict[Node, int] = {}
    for position, args in enumerate(reads):
        for a in args:
            last[a] = position
    return last | dict.fromkeys(outputs, len(reads))


def behind_views(n: Node) -> Node:
    """What `n` is a view of, or itself."""
    return leaf_chain(n)[0]


def is_part(n: Node, reads: dict[Node, tuple[Node, ...]]) -> bool:
    """Is `n` the real or imaginary part of a complex array at hand, for one reader? No copy is made of it."""
    if n.op not in ("real", "imag"):
        return False
    (whole,) = n.args
    at_hand = whole.dtype.kind == "c" and behind_views(whole) not in reads
    return at_hand and sum(args.count(n) for args in reads.values()) == 1


def _without_axes(n: Node, read: tuple[Node, ...]) -> tuple[Node, ...]:
    """What `n` reads, each one number beside an array of all its elements without axes: NumPy sets up no loop over
    several axes, 0.15 us of a call."""
    if n.row.role is not Role.ELEMENTWISE or n.type.size <= 1 or all(a.shape != n.shape for a in read):
        return read
    numbers = [a.type.size == 1 and a.shape != () and not computes(a) for a in read]
    return tuple([node("reshape", (a,), ((),)) if bare else a for a, bare in zip(read, numbers, strict=True)])


def _reusable(a: Node, n: Node, step: int, last: dict[Node, int], owned: set[Node]) -> bool:
    return a in owned and last[a] == step and a.type == n.type and a.shape != ()
