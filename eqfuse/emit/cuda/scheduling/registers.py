"""How many registers the threads of a map take. In: a map body. Out: for how many blocks the registers of a
multiprocessor are to have room. Used by `map.py`.

ptxas spends registers on computing several elements at once, though other threads hide the latency of one element as
well: with half the threads resident, nothing hides that of memory. Asked for more than there are, it spills.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from eqfuse.dtypes import BFLOAT16
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role
from eqfuse.ops.row import PriceClass

# Threads of a multiprocessor, and how many registers of each of them, beside those of places and functions, are enough:
# where threads compute 4 elements, and where 8.
REGISTERS_OF_MAPS = {4: ((2048, 12), (1536, 26)), 8: ((2048, 11),)}
# CUDA has these without loops, calls and tests, which keep what they need beside all else.
QUICK_CLASSES = {
    4: (PriceClass.SIMPLE, PriceClass.LOGIC, PriceClass.DIVISION, PriceClass.EXPONENTIAL, PriceClass.ERF),
    8: (PriceClass.SIMPLE, PriceClass.LOGIC),
}
ALSO_QUICK = ("where", "cast", "exp", "exp2", "tanh")
ONE_REGISTER = (np.dtype(np.float32), np.dtype(np.float16), BFLOAT16, np.dtype(np.bool_))  # computed in one register


def resident(body: Graph, threads: int, width: int) -> int:
    """As many blocks of `threads` as leave each thread, which computes `width` elements of float32 one after the other,
    enough registers; one where that is not sure."""
    work = body.of_role(Role.ELEMENTWISE)
    if any(n.dtype not in ONE_REGISTER for n in (*body.inputs, *body.outputs, *work)):
        return 1
    if width not in QUICK_CLASSES or not all(n.row.price in QUICK_CLASSES[width] or n.op in ALSO_QUICK for n in work):
        return 1
    read = dict.fromkeys(a for n in work for a in n.args if a.row.role is not Role.ELEMENTWISE and a.type.size > 1)
    if any(a.row.role not in (Role.LEAF, Role.VIEW) for a in read):
        return 1
    vectors = sum(-(-width * n.dtype.itemsize // 4) for n in (*read, *body.outputs))
    wanted = vectors + _alive(work)
    return next((most // threads for most, enough in REGISTERS_OF_MAPS[width] if wanted <= enough), 1)


def _alive(work: list[Node]) -> int:
    """The most values of an element that are wanted later, at any point of `work`, which is in order."""
    last = {a: position for position, n in enumerate(work) for a in n.args}
    changes = [0] * (len(work) + 1)
    for position, n in enumerate(work):
        if n in last:
            changes[position] += 1
            changes[last[n]] -= 1
    return max(accumulate(changes))
