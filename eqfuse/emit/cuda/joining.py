"""How threads of a block join what each has, and how blocks find out which of them is the last. In: the name of what a
thread has, and its reduction. Out: statements. Next stop: `row.py`, `split_rows.py`, `totals.py`, `split_products.py`.
"""

from __future__ import annotations

from eqfuse.emit.cuda import ops
from eqfuse.kinds.product import WARP


def over_lanes(name: str, how: ops.Reduction, lanes: int, mask: str = "0xffffffffu") -> str:
    """The loop that joins what so many neighbouring lanes of a warp have."""
    kind = how.kind
    other = f"__shfl_xor_sync({mask}, {name}, step)"
    if kind.startswith("eqf_"):
        other = f"eqf_shuffle({name}, step)"
    if kind in ("bool", "signed char", "unsigned char", "short", "unsigned short"):
        other = f"({kind})__shfl_xor_sync({mask}, (int){name}, step)"
    joined = f"{kind} b = {other}; {name} = {how.step.format(a=name, b='b')};"
    return f"for (int step = {lanes // 2}; step; step >>= 1) {{ {joined} }}"


def over_block(name: str, how: ops.Reduction, thread: str, threads: int) -> list[str]:
    """What so many threads, a power of two, have becomes that of their block, known to all of them, by way of the array
    `shared`."""
    kind, warps = how.kind, threads // WARP
    if warps < 2:
        return [over_lanes(name, how, threads, hex((1 << threads) - 1) + "u")] if threads > 1 else []
    return [
        over_lanes(name, how, WARP),
        f"{{ {kind}* all = ({kind}*)shared;",
        f"  if ({thread} % {WARP} == 0) all[{thread} / {WARP}] = {name};",
        "  __syncthreads();",
        f"  {name} = all[{thread} % {warps}];",
        f"  {over_lanes(name, how, warps)}",
        "  __syncthreads(); }",
    ]


def until_last(last: str, counter: str, others: str) -> list[str]:
    """All blocks that count themselves in `counter` return, but for the one that arrives last, after so many `others`,
    which sees what they have written."""
    return [  # the fences of one thread are those of all that have waited for one another with it
        f"__shared__ bool {last};",
        "__syncthreads();",
        "if (threadIdx.x == 0 && threadIdx.y == 0) {",
        "    __threadfence();",
        f"    {last} = atomicInc(&{counter}, {others}) == {others};",
        "    __threadfence();",
        "}",
        "__syncthreads();",
        f"if (!{last}) return;",
    ]
