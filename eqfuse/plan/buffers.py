"""Where the values of a plan lie: new arrays that the caller gets, or places in an arena that calls share.

In: a `Plan`. Out: `Layout`. Next stops: `emit/numpy/program.py`, `runtime`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqfuse.ops.types import TensorType
from eqfuse.plan.in_place import Updates
from eqfuse.plan.loans import Loan, loans
from eqfuse.plan.memory import LiveRange, arena_offsets
from eqfuse.plan.plan import Plan


@dataclass(frozen=True)
class Layout:
    """`fresh`: values that each call makes anew. `outputs`: the results, and whether each is copied. `returned`: values
    that their kernels return as new arrays. `workspaces`: per kernel, numbers of arrays that it works in,
    counted after the plan's values. `slots`: place in the arena and type, by number. `nbytes`: of the arena. `peak`: of
    the arena and returned intermediates. `lent`: what lies in the memory of a result instead, by number.
    """

    fresh: tuple[int, ...]
    outputs: tuple[tuple[int, bool], ...]
    updates: Updates
    returned: frozenset[int]
    workspaces: dict[int, tuple[int, ...]]
    slots: dict[int, tuple[int, TensorType]]
    nbytes: int
    peak: int
    lent: dict[int, tuple[Loan, TensorType]] = field(default_factory=dict)

    def arrays(self, arena: np.ndarray) -> dict[int, np.ndarray]:
        """The arrays in `arena`, by number."""
        return {
            v: arena[start : start + t.nbytes].view(t.dtype).reshape(t.shape) for v, (start, t) in self.slots.items()
        }


def layout(
    plan: Plan, updates: Updates, returned: Collection[int], workspaces: Mapping[int, Sequence[TensorType]],
    carried: Mapping[int, int] | None = None, lends: bool = False,
) -> Layout:  # fmt: skip
    """`returned`: kernels that return their one result. `workspaces`: arrays that kernels work in. `carried`: of what a
    loop runs, as `updates` takes it: the loop writes into carries that are kept alone, and takes other results at once,
    so it needs no copies. `lends`: may values lie in the memory of results?"""
    parts = updates.parts
    in_place = {plan.kernels[i].writes[0]: base for i, base in updates.in_place.items()} | {**updates.over}
    root: dict[int, int] = {}
    spread: set[int] = set()  # views in which elements share memory: the caller could not write into them
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, k in enumerate(plan.kernels):
        if k.is_view:
            root[k.writes[0]] = root.get(k.reads[0], k.reads[0])
            if k.reads[0] in spread or any(n.row.repeats for n in k.body.nodes):
                spread.add(k.writes[0])
            continue
        for v in k.writes:
            if v in in_place:
                root[v] = root.get(in_place[v], in_place[v])
            else:
                first[v] = i
        last.update((root.get(v, v), i) for v in (*k.writes, *k.reads))
    for v, part in parts.items():
        del first[v]
        if part.whole in first:
            first[part.whole] = min(first[part.whole], part.maker)
    fresh: dict[int, None] = {}
    outputs = []
    for position, v in enumerate(plan.outputs):
        if position in updates.kept:
            outputs.append((v, False))
            continue
        owner = root.get(v, v)
        copied = owner not in first or owner in fresh or v in spread
        if carried is not None:
            copied = position in carried.values() and owner in updates.carried
        if owner in first:
            fresh[owner] = None
        outputs.append((v, copied))
    own = frozenset(plan.kernels[i].writes[0] for i in returned)
    types = {v: plan.types[v] for v in first if v not in fresh and v not in own}
    lives = [LiveRange(v, t.nbytes, first[v], last[v]) for v, t in types.items()]
    numbers: dict[int, tuple[int, ...]] = {}
    count = len(plan.types)
    for i, wanted in workspaces.items():
        numbers[i] = tuple(range(count, count + len(wanted)))
        types |= zip(numbers[i], wanted, strict=True)
        lives += [LiveRange(v, types[v].nbytes, i, i) for v in numbers[i]]
        count += len(wanted)
    fresh_values = tuple(v for v in fresh if v not in own)
    lenders = fresh_values if lends else ()
    lent = loans(lives, [LiveRange(v, plan.types[v].nbytes, first[v], last[v]) for v in lenders])
    offsets, nbytes = arena_offsets([life for life in lives if life.value not in lent])
    slots = {v: (offset, types[v]) for v, offset in offsets.items()}
    from_results = {v: (loan, types[v]) for v, loan in lent.items()}
    peak = nbytes + sum(plan.types[v].nbytes for v in own if v not in fresh)
    return Layout(fresh_values, tuple(outputs), updates, own, numbers, slots, nbytes, peak, from_results)
