"""Products and convolutions that share an operand, as parts of one: what they do not share stands side by side.

In: the nodes of a program. Out: nodes for the e-graph, which the laws `PARTS` of the book find equal to the program's
own. They are few and made once; laws that put pairs side by side (`grouping`) make pairs of pairs. The extractors
choose between one kernel and several by price. Weights are put side by side when the program is built.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eqfuse.ir import Node, node

FEW = 4  # parts of one concatenation: the laws know so many; more stand in concatenations of concatenations
PARTS = (
    "slice_into_product", "slice_into_conv", "slice_identity",
    *(f"slice_of_part_{at + 1}_of_{count}" for count in range(2, FEW + 1) for at in range(count)),
)  # fmt: skip


def parts(nodes: Sequence[Node], known: Collection[Node]) -> list[dict[Node, Node]]:
    """For every group of `nodes` (arguments first) that share an operand: the part of one large product that each is.

    `known`: those that are computed when the program is built. Anything else would be put side by side at every call:
    that is offered where it moves fewer bytes than reading the shared operand again and again.
    """
    groups: dict[tuple, list[Node]] = {}
    for n in nodes:
        if n not in known and n.op in ("matmul", "conv"):
            for own, axis, alike in _ways(n):
                groups.setdefault((own, axis, n.args[1 - own], n.attrs, *alike, n.args[own] in known), []).append(n)
    found = []
    for (own, axis, shared, *_, constant), members in groups.items():
        if not constant:
            members = _independent(nodes, members, own)
            copied = 2 * sum(n.args[own].type.nbytes for n in members)
            if copied >= (len(members) - 1) * shared.type.nbytes:
                continue
        if len(members) > 1:
            found.append(_parts(members, own, axis))
    return found


def _ways(n: Node) -> list[tuple[int, int, tuple]]:
    """(which operand is its own, the axis along which it meets those of others, what must be alike of them)."""
    left, right = n.args
    if n.op == "matmul":
        return [(1, -1, right.shape[:-1]), (0, -2, (*left.shape[:-2], left.shape[-1]))]
    *_, groups = n.attrs
    return [(1, -right.type.rank, right.shape[1:])] if groups == 1 else []


def _independent(nodes: Sequence[Node], members: Sequence[Node], own: int) -> list[Node]:
    """Those of `members` whose own operand needs none of the others kept."""
    kept: list[Node] = []
    needs: set[Node] = set()
    for n in nodes:
        if not needs.isdisjoint(n.args):
            needs.add(n)
        if n in members and n.args[own] not in needs:
            kept.append(n)
            needs.add(n)
    return kept


def _parts(members: Sequence[Node], own: int, axis: int) -> dict[Node, Node]:
    beside = [n.args[own] for n in members]
    while len(beside) > 1:
        beside = [_concat(beside[at : at + FEW], axis) for at in range(0, len(beside), FEW)]
    first = members[0]
    whole = node(first.op, (first.args[0], beside[0]) if own else (beside[0], first.args[1]), first.attrs)
    along = 1 if first.op == "conv" else whole.type.rank + axis  # filters are the channels of the result
    found, start = {}, 0
    for n in members:
        stop = start + n.shape[along]
        ranges = [(0, extent, 1) for extent in whole.shape]
        ranges[along] = (start, stop, 1)
        found[n] = node("slice", (whole,), (tuple(ranges),))
        start = stop
    return found


def _concat(beside: Sequence[Node], axis: int) -> Node:
    return node("concat", beside, (axis,)) if len(beside) > 1 else beside[0]
