"""Where the values of a plan lie: new arrays that the caller gets, or places in an arena that calls share.

In: a `Plan`. Out: `Layout`. Next stops: `emit/numpy_program.py`, `runtime`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.ir import Node, TensorType, input_node, node, topological
from eqfuse.memory import Life, place
from eqfuse.ops import Role, row
from eqfuse.plan import Plan


@dataclass(frozen=True)
class Part:
    """Written by kernel `maker` as a `slice` of the value `of`, into which kernel `user` would copy it."""

    of: int
    slice: Node
    maker: int
    user: int


@dataclass(frozen=True)
class Layout:
    """`fresh`: values that each call makes anew. `outputs`: the results, and whether each is copied. `in_place`: which
    kernels write into the array they update, and that value. `parts`: values that are written where a later kernel
    would copy them. `returned`: values that their kernels return as new arrays. `rooms`: per kernel, numbers of arrays
    that it works in, counted after the plan's values. `slots`: place in the arena and type, by number. `nbytes`: of the
    arena. `peak`: of the arena and returned intermediates.
    """

    fresh: tuple[int, ...]
    outputs: tuple[tuple[int, bool], ...]
    in_place: dict[int, int]
    parts: dict[int, Part]
    returned: frozenset[int]
    rooms: dict[int, tuple[int, ...]]
    slots: dict[int, tuple[int, TensorType]]
    nbytes: int
    peak: int

    def arrays(self, arena: np.ndarray) -> dict[int, np.ndarray]:
        """The arrays in `arena`, by number."""
        return {
            v: arena[at : at + t.nbytes].view(t.dtype).reshape(t.shape) for v, (at, t) in self.slots.items()
        }


def layout(
    plan: Plan,
    in_place: dict[int, int],
    parts: dict[int, Part],
    returned: Collection[int],
    rooms: Mapping[int, Sequence[TensorType]],
) -> Layout:
    """`in_place`: kernels that write into the array they update. `returned`: kernels that return their one result.
    `rooms`: arrays that kernels work in.
    """
    root: dict[int, int] = {}
    spread: set[int] = set()  # views in which elements share memory: the caller could not write into them
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, k in enumerate(plan.kernels):
        if k.kind == "view":
            root[k.writes[0]] = root.get(k.reads[0], k.reads[0])
            if k.reads[0] in spread or any(n.op in ("broadcast_to", "sliding_window") for n in k.body.nodes):
                spread.add(k.writes[0])
            continue
        if i in in_place:
            root[k.writes[0]] = root.get(in_place[i], in_place[i])
        else:
            first.update(dict.fromkeys(k.writes, i))
        last.update((root.get(v, v), i) for v in (*k.writes, *k.reads))
    for v, part in parts.items():
        del first[v]
        if part.of in first:
            first[part.of] = min(first[part.of], part.maker)
    fresh: dict[int, None] = {}
    outputs = []
    for v in plan.outputs:
        owner = root.get(v, v)
        copied = owner not in first or owner in fresh or v in spread
        if owner in first:
            fresh[owner] = None
        outputs.append((v, copied))
    own = frozenset(plan.kernels[i].writes[0] for i in returned)
    loose = sum(plan.types[v].nbytes for v in own if v not in fresh)
    types = {v: plan.types[v] for v in first if v not in fresh and v not in own}
    lives = [Life(v, t.nbytes, first[v], last[v]) for v, t in types.items()]
    numbers: dict[int, tuple[int, ...]] = {}
    count = len(plan.types)
    for i, wanted in rooms.items():
        numbers[i] = tuple(range(count, count + len(wanted)))
        types |= zip(numbers[i], wanted, strict=True)
        lives += [Life(v, types[v].nbytes, i, i) for v in numbers[i]]
        count += len(wanted)
    offsets, nbytes = place(lives)
    slots = {v: (at, types[v]) for v, at in offsets.items()}
    made = tuple(v for v in fresh if v not in own)
    return Layout(made, tuple(outputs), in_place, parts, own, numbers, slots, nbytes, nbytes + loose)


def updates_in_place(plan: Plan) -> dict[int, int]:
    """The kernels that may write their result into the memory of the array they update, and which value that is.

    It must come from another kernel, and nobody may read it later, nor one write of the update after another.
    """
    owner = {v: v for v in range(len(plan.types))}
    last: dict[int, int] = {}
    made: set[int] = set()
    for i, k in enumerate(plan.kernels):
        last.update((owner[v], i) for v in k.reads)
        if k.kind == "view":
            owner[k.writes[0]] = owner[k.reads[0]]
        else:
            made.update(k.writes)
    results = {owner[v] for v in plan.outputs}
    found = {}
    for i, k in enumerate(plan.kernels):
        n = k.body.outputs[0]
        if k.kind != "library" or len(k.writes) != 1 or row(n.op).role is not Role.UPDATE or n.args[0].op != "input":
            continue
        base = k.reads[k.body.inputs.index(n.args[0])]
        others = [owner[v] for v in k.reads if v != base]
        read_again = len(n.args) > 2 and any(leaf is n.args[0] for a in n.args[1:] for leaf in topological([a]))
        if base in made and last[base] == i and base not in results and base not in others and not read_again:
            found[i] = base
    return found


def written_in_parts(plan: Plan, in_place: dict[int, int], safe: Collection[int]) -> dict[int, Part]:
    """Values that only one kernel reads, to copy them into a slice of an array: they can be written there at once.

    Their makers must be `safe`: what they write may share memory with what they read. Meanwhile nobody may read the
    array, which is complete by then.
    """
    memory = {v: v for v in range(len(plan.types))}
    maker: dict[int, int] = {}
    readers: dict[int, list[int]] = {}  # of memory
    for i, k in enumerate(plan.kernels):
        for v in k.reads:
            readers.setdefault(memory[v], []).append(i)
        for v in k.writes:
            maker[v] = i
            memory[v] = memory[k.reads[0]] if k.kind == "view" else memory[in_place[i]] if i in in_place else v
    results = {memory[v] for v in plan.outputs}
    found = {}
    for i, k in enumerate(plan.kernels):
        n = k.body.outputs[0]
        if n.op != "slice_scatter" or len(k.writes) != 1 or len(k.body.operators) != 1 or len(n.args) != 2:
            continue
        if n.args[1] not in k.body.inputs:
            continue
        v = k.reads[k.body.inputs.index(n.args[1])]
        (made,) = k.writes
        at = maker.get(v, -1)
        if at not in safe or memory[v] != v or v in results or readers[v] != [i]:
            continue
        of = in_place.get(i, made)
        if i in in_place and (maker[of] >= at or any(at < j < i for j in readers[memory[of]])):
            continue
        whole = input_node("whole", plan.types[made])
        found[v] = Part(of, node("slice", (whole,), (n.attrs[0][0],)), at, i)  # type: ignore[index]
    return found
