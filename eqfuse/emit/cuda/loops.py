"""Loops and choices on a GPU: Python's loop over the launches of a step, the condition copied to the host.

In: a kernel with the plans of its steps. Out: `CudaLoop`. Next stop: `emit/cuda/executable.py`.
A carry that every step updates in place lies where the loop's result does, from the first step on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.emit.steps import begun_in_place, emitted_steps, held_results
from eqfuse.ir.graph import Node
from eqfuse.ir.loops import result_number
from eqfuse.ir.views import leaf_chain, taken
from eqfuse.machine.gpu import Gpu
from eqfuse.ops.loops import results_of, scan_indices, unpacked
from eqfuse.plan.loops import first_carries, is_indexed, loop_schedule, planned_loop
from eqfuse.plan.plan import Kernel

Run = Callable[..., Sequence[Any]]  # a step, on arrays of the device


class CudaLoop:
    """A loop over the programs of its steps."""

    def __init__(self, kernel: Kernel, device: Device, meter: Meter | None) -> None:
        self.loop = loop = planned_loop(kernel)
        self.body = kernel.body
        self.types = results_of(loop.op, [a.type for a in loop.args], loop.attrs)
        self.steps = emitted_steps(loop, kernel.inner, device, meter)
        self.kept, first = self.steps[-1].kept, first_carries(loop)
        self.first = {number: first[number] for number in self.kept}  # which arguments what is kept begins with
        self.carries = begun_in_place(kernel, {number: loop.args[argument] for number, argument in self.first.items()})
        held = max(s.peak_bytes for s in self.steps) + held_results(kernel, self.steps)
        self.schedule = loop_schedule(kernel, held)

    @property
    def source(self) -> str:
        names = ("first", "step") if len(self.steps) > 1 else ("step",)
        texts = [f"{name}:\n{step.source()}" for name, step in zip(names, self.steps, strict=True)]
        return "\n".join([f"{self.loop.op}, by the host", *texts])

    def bind(self, gpu: Gpu) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """What computes the loop, from the arrays that its kernel reads into those that it writes."""
        leaves = {n: gpu.upload(n.literal.array) for n in self.body.nodes if n.op == "const"}
        chains = [leaf_chain(a) for a in self.loop.args]
        steps = [partial(_on_device, step, gpu) for step in self.steps]
        run = _RUNS[self.loop.op]

        def call(reads: Sequence[Any], writes: Sequence[Any]) -> None:
            arrays = leaves | dict(zip(self.body.inputs, reads, strict=True))
            args = [taken(arrays[leaf], chain) for leaf, chain in chains]
            places = self._places(writes)
            for number, argument in self.first.items():
                if number not in places:
                    places[number] = gpu.empty(self.types[number].shape, self.types[number].dtype)
                _put(gpu, places[number], args[argument])
                args[argument] = places[number]
            results = [*run(gpu, self.loop, steps, args)]
            for number, other in self.kept.items():
                if number != other:  # two places have changed their values
                    results[number] = results[number].copy()
            for number, place in places.items():
                _put(gpu, place, results[number])

        return call

    def _places(self, writes: Sequence[Any]) -> dict[int, Any]:
        """Where results go, by number: each to an array of its own, or all one behind the other."""
        outputs = self.body.outputs
        if outputs[0].op == "loop_result":
            return {result_number(n): out for n, out in zip(outputs, writes, strict=True)}
        return dict(enumerate(unpacked(writes[0], self.types)))


def _put(gpu: Gpu, place: Any, value: Any) -> None:
    """Copy `value` to its place, if it does not lie there."""
    if gpu.address(place) != gpu.address(value):
        place[...] = value


def _on_device(step: Any, gpu: Gpu, *arrays: Any) -> Sequence[Any]:
    results: Sequence[Any] = step.on_device(gpu, arrays)
    return results


def _while(gpu: Gpu, n: Node, steps: Sequence[Run], args: Sequence[Any]) -> Sequence[Any]:
    first, step = steps
    count: int = n.attr("carries")
    state, shared = args[:count], args[count:]
    (goes_on,) = first(*args)
    while gpu.download(goes_on):
        *state, goes_on = step(*state, *shared)
    return state


def _fori(gpu: Gpu, n: Node, steps: Sequence[Run], args: Sequence[Any]) -> Sequence[Any]:
    (step,) = steps
    lower, upper = (int(gpu.download(bound)) for bound in args[:2])
    count: int = n.attr("carries")
    state, shared = args[2 : 2 + count], args[2 + count :]
    indices = gpu.upload(np.arange(lower, max(lower, upper)))
    for i in range(max(0, upper - lower)):
        state = step(_row(indices, i), *state, *shared)
    return state


def _scan(gpu: Gpu, n: Node, steps: Sequence[Run], args: Sequence[Any]) -> Sequence[Any]:
    (step,) = steps
    count, arrays, length, start = (n.attr(name) for name in ("carries", "stacked", "trips", "start"))
    indices = gpu.upload(np.arange(start, start + length) if is_indexed(n) else np.zeros(length, np.int64))
    state, stacked, shared = args[:count], args[count : count + arrays], args[count + arrays :]
    types = results_of("scan", [a.type for a in n.args], n.attrs)[count:]
    stacks = [gpu.empty(t.shape, t.dtype) for t in types]
    for i in scan_indices(length, n.attr("reverse")):
        results = step(_row(indices, i), *state, *(_row(x, i) for x in stacked), *shared)
        state = results[:count]
        for stack, value in zip(stacks, results[count:], strict=True):
            stack[i] = value
    return [*state, *stacks]


def _row(x: Any, i: int) -> Any:
    return x[i : i + 1].reshape(x.shape[1:])


def _choice(gpu: Gpu, n: Node, steps: Sequence[Run], args: Sequence[Any]) -> Sequence[Any]:
    yes, no = steps
    return (yes if gpu.download(args[0]) else no)(*args[1:])


_RUNS: dict[str, Callable[[Gpu, Node, Sequence[Run], Sequence[Any]], Sequence[Any]]] = {
    "while_loop": _while, "fori_loop": _fori, "scan": _scan, "if_else": _choice,
}  # fmt: skip
