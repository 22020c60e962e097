"""What a plan loses by reading large arguments from main memory more than once.

In: a `Plan`. Out: `Rereads`. Next stop: `eqfuse/compiler.py`, which may have such arguments read once, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.cost.targets import reads_blocks
from eqfuse.plan.plan import Plan

# A block is to take one part in so many of the level-2 caches: other values lie there too. On a Zen 4 with 32 MB behind
# them a block of 10 MB that was read once came from memory again: 312 us for its second product, and 350 for its first.
ROOM = 2


@dataclass(frozen=True)
class Rereads:
    """`seconds` that a plan would win at most if what it reads again came from near; `blocks`: of the largest argument
    read again, so that one stays near."""

    seconds: float
    blocks: int


def rereads(plan: Plan) -> Rereads:
    """Of kernels that wait for memory alone: others hide what they read."""
    device = plan.device
    if not reads_blocks(device):
        return Rereads(0.0, 1)
    near = device.l2_bytes * device.threads // ROOM
    argument = {v: v for v in plan.inputs}  # of each view of one
    times: dict[int, int] = {}
    for k in plan.kernels:
        read = {argument[v] for v in k.reads if v in argument}
        if k.is_view:
            argument.update(dict.fromkeys(k.writes, next(iter(read))) if read else {})
        elif k.price.bound == "memory":
            for v in read:
                times[v] = times.get(v, 0) + 1
    again = {v: n - 1 for v, n in times.items() if n > 1 and plan.types[v].nbytes > ROOM * near}
    pace = 1 / device.memory_bytes_per_second - 1 / device.bandwidth(near)
    largest = max((plan.types[v].nbytes for v in again), default=1)
    return Rereads(sum(n * plan.types[v].nbytes * pace for v, n in again.items()), -(-largest // near))
