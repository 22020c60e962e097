"""CUDA graphs: the launches of a program, captured once and then started all at once, in a few microseconds.

In: `BoundLaunches`. Out: `Graphs`, called with the arguments of a call. A graph knows arrays by address: one is kept
for each combination of those that the arguments and the new results of a call have, as long as these are few. Arrays
that have others again and again are copied, to and from memory of the graph's own; where there are as many copies as
kernels, the program runs without graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqfuse.emit.cuda.calls import CudaCalls
from eqfuse.emit.cuda.kernels import Emitted
from eqfuse.emit.cuda.launches import BoundLaunches
from eqfuse.emit.cuda.loops import CudaLoop
from eqfuse.errors import EqfuseError
from eqfuse.machine.gpu import Gpu
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.plan.plan import Plan

GRAPHS_KEPT = 16  # graphs of one program on one stream
# library calls, beside elementwise ones and views, that neither wait for the device nor copy from the host
CAPTURED = {"where", "cast", "bitcast", "real", "imag", "matmul", "sum", "prod", "max", "min", "any", "all"} | {*UFUNCS}
ADVICE = "leave out graphs=True"


def refuse_capture(plan: Plan, functions: Sequence[Emitted | None]) -> None:
    """Raise where a kernel of `plan` cannot be captured."""
    for i, (k, f) in enumerate(zip(plan.kernels, functions, strict=True)):
        if isinstance(f, CudaLoop):
            raise EqfuseError(
                f"a program with the loop {f.loop.op} (kernel {i}) runs no CUDA graph, as the host starts its steps: "
                f"{ADVICE}, or jit what a step computes with graphs=True"
            )
        if isinstance(f, CudaCalls):
            hosts = set(f.schedule.host)
            for n in k.body.operators:
                if n in hosts:
                    raise EqfuseError(f"{n.op} (kernel {i}) runs on the host, which no CUDA graph does: {ADVICE}")
                if n.op not in CAPTURED and n.row.role is not Role.VIEW:
                    raise EqfuseError(
                        f"{n.op} (kernel {i}) is a call of CuPy's that may wait for the device or copy from the host, "
                        f"which no CUDA graph does: {ADVICE}"
                    )


class Graphs:
    """The graphs of `bound` launches, on one stream. Its first call starts them one by one, so that what they need is
    there before they are captured."""

    def __init__(self, gpu: Gpu, bound: BoundLaunches) -> None:
        self._gpu, self._bound = gpu, bound
        self._captures = False  # not yet, or no more
        self._is_warm = False
        self._graphs: dict[tuple[int, ...], Callable[[], None]] = {}  # by the addresses of what is not copied
        self._own: dict[int, Any] = {}  # what is copied, by its place among the arguments and the new results

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        bound, copy, address = self._bound, self._gpu.copy, self._gpu.address
        if not self._captures:
            results = bound.call(*arguments)
            self._captures, self._is_warm = not self._is_warm, True
            return results
        arrays = [*arguments, *bound.fresh()]
        addresses = tuple(map(address, arrays))
        graph = self._graphs.get(self._key(addresses)) or self._captured(addresses, arrays)
        for i, own in self._own.items():
            if i < len(arguments):
                copy(own, arrays[i])
        graph()
        for i, own in self._own.items():
            if i >= len(arguments):
                copy(arrays[i], own)
        return bound.results(*arrays)

    def _key(self, addresses: tuple[int, ...]) -> tuple[int, ...]:
        if not self._own:
            return addresses
        return tuple([a for i, a in enumerate(addresses) if i not in self._own])

    def _captured(self, addresses: tuple[int, ...], arrays: Sequence[Any]) -> Callable[[], None]:
        """A new graph for arrays at these addresses. Where there are too many, those that changed most are copied from
        now on."""
        graphs, own = self._graphs, self._own
        if len(graphs) >= GRAPHS_KEPT:
            still = [i for i in range(len(arrays)) if i not in own]
            counts = [len(set(column)) for column in zip(*graphs, strict=True)]
            moved = [i for i, count in zip(still, counts, strict=True) if count == max(counts)]
            if len(own) + len(moved) >= self._bound.kernels:
                self._captures = False
                self._graphs, self._own = {}, {}
                return lambda: self._bound.launch(*arrays)
            graphs, own = {}, own | {i: self._gpu.empty(arrays[i].shape, arrays[i].dtype) for i in moved}
        worked_on = [own.get(i, array) for i, array in enumerate(arrays)]
        try:
            graph = self._gpu.capture(lambda: self._bound.launch(*worked_on))
        except Exception as error:
            raise EqfuseError(f"the program cannot be captured into a CUDA graph: {ADVICE} ({error})") from error
        self._graphs, self._own = graphs, own
        graphs[self._key(addresses)] = graph
        return graph
