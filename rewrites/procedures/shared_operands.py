"""Products and convolutions that share an operand, as parts of one: what they do not share stands side by side.

In: the nodes of a program. Out: nodes for the e-graph, which the laws `PART_LAWS` of the book find equal to the
program's own. They are few and made once; laws that put pairs side by side (`grouping`) make pairs of pairs. The
extractors choose between one kernel and several by price. Weights are put side by side when the program is built.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eqfuse.ir.graph import Node, node

PARTS_KNOWN = 4  # parts of one concatenation: the laws know so many; more stand in concatenations of concatenations
PART_LAWS = (
    "slice_into_product", "slice_into_conv", "slice_identity", "product_of_merged_rows",
    *(f"slice_of_part_{i + 1}_of_{count}" for count in range(2, PARTS_KNOWN + 1) for i in range(count)),
)  # fmt: skip


@dataclass(frozen=True)
class SharedProducts:
    """Products that share all but operand `own`: those of the others could stand beside it along `axis`, or do stand
    together in `base`, of which they are slices."""

    members: tuple[Node, ...]
    own: int
    axis: int
    base: Node | None


def shared_parts(nodes: Sequence[Node], constants: Collection[Node]) -> list[dict[Node, Node]]:
    """For every group of `nodes` that share an operand: the part of one large product that each member is."""
    return [_parts(group) for group in shared_products(nodes, constants)]


def shared_products(nodes: Sequence[Node], constants: Collection[Node]) -> list[SharedProducts]:
    """The products among `nodes` (arguments first) that share an operand and need none of each other.

    `constants`: those that are computed when the program is built. Anything else, unless it is of one tensor, would be
    put side by side at every call: that is offered where it moves fewer bytes than reading the shared operand often.
    """
    sharing: dict[tuple, list[Node]] = {}
    for n in nodes:
        if n not in constants and n.op in ("matmul", "conv"):
            for own, axis, alike in _ways(n):
                key = (own, axis, n.args[1 - own], n.attrs, *alike, n.args[own] in constants)
                sharing.setdefault(key, []).append(n)
    groups = []
    place = {n: i for i, n in enumerate(nodes)}
    for (own, axis, shared, *_, constant), members in sharing.items():
        base = None
        if not constant:
            members = _independent(nodes[place[members[0]] : place[members[-1]] + 1], members, own)
            base = _base(members) if own == 0 and shared.type.rank == 2 else None
        if not constant and base is None:
            copied = 2 * sum(n.args[own].type.nbytes for n in members)
            if copied >= (len(members) - 1) * shared.type.nbytes:
                continue
        if len(members) > 1:
            groups.append(SharedProducts(tuple(members), own, axis, base))
    return groups


def _ways(n: Node) -> list[tuple[int, int, tuple]]:
    """(which operand is its own, the axis along which it meets those of others, what must be alike of them)."""
    left, right = n.args
    if n.op == "matmul":
        return [(1, -1, right.shape[:-1]), (0, -2, (*left.shape[:-2], left.shape[-1]))]
    *_, groups = n.attrs
    return [(1, -right.type.rank, right.shape[1:])] if groups == 1 else []


def _independent(nodes: Sequence[Node], members: Sequence[Node], own: int) -> list[Node]:
    """Those of `members` whose own operand needs none of the others kept. `nodes`: from the first to the last of them,
    so that finding the groups of many equal layers takes no longer for each."""
    kept: list[Node] = []
    needs: set[Node] = set()
    among = set(members)
    for n in nodes:
        if not needs.isdisjoint(n.args):
            needs.add(n)
        if n in among and n.args[own] not in needs:
            kept.append(n)
            needs.add(n)
    return kept


def _parts(group: SharedProducts) -> dict[Node, Node]:
    members, own, axis = group.members, group.own, group.axis
    if group.base is not None:
        return _slices(node("matmul", (group.base, members[0].args[1])), members)
    beside = [n.args[own] for n in members]
    while len(beside) > 1:
        beside = [_concat(beside[i : i + PARTS_KNOWN], axis) for i in range(0, len(beside), PARTS_KNOWN)]
    first = members[0]
    whole = first.over((first.args[0], beside[0]) if own else (beside[0], first.args[1]))
    along = 1 if first.op == "conv" else whole.type.rank + axis  # filters are the channels of the result
    slices, start = {}, 0
    for n in members:
        stop = start + n.shape[along]
        ranges = [(0, extent, 1) for extent in whole.shape]
        ranges[along] = (start, stop, 1)
        slices[n] = node("slice", (whole,), (tuple(ranges),))
        start = stop
    return slices


def _base(members: Sequence[Node]) -> Node | None:
    """The tensor of whose rows the left operands of `members` together are more than half, if there is one."""
    rows = [_slice(n.args[0]) for n in members]
    bases = {n.args[0] if n.op == "slice" else None for n in rows}
    base = bases.pop()
    if bases or base is None or any(n.shape[-1] != base.shape[-1] for n in (*rows, *(m.args[0] for m in members))):
        return None
    return base if 2 * sum(n.type.size for n in rows) > base.type.size else None


def _slices(product: Node, members: Sequence[Node]) -> dict[Node, Node]:
    """The rows of `product` that each of `members` has."""
    slices = {}
    for n in members:
        ranges = _slice(n.args[0]).attr("ranges")
        part = node("slice", (product,), ((*ranges[:-1], (0, product.shape[-1], 1)),))
        slices[n] = part if part.shape == n.shape else node("reshape", (part,), (n.shape,))
    return slices


def _slice(n: Node) -> Node:
    return n.args[0] if n.op == "reshape" else n


def _concat(beside: Sequence[Node], axis: int) -> Node:
    return node("concat", beside, (axis,)) if len(beside) > 1 else beside[0]
