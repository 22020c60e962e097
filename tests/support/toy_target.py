"""A target made outside: it runs each kernel by the evaluator. It has no form for tanh, which is then a call alone.

`schedule` and `closure` are what the rows of kinds name for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from eqfuse.cost import profiles
from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.emit.executable import Executable, constant_values
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.kinds import kind_named
from eqfuse.kinds.schedule import Schedule
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan

SECONDS = 3e-6  # of a kernel


@dataclass(frozen=True)
class ToySchedule(Schedule):
    def price(self, device: Device, work: Work | None = None) -> Price:
        return Price(SECONDS, sum(self.reads), sum(self.writes), 0, "launch")

    def __str__(self) -> str:
        return f"interpreted, {self.calls} operators"


def schedule(body: Graph, device: Device) -> ToySchedule:
    reads, writes = (tuple(n.type.nbytes for n in nodes) for nodes in (body.inputs, body.outputs))
    return ToySchedule(reads, writes, len(body.operators))


def closure(body: Graph, schedule: ToySchedule) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    return partial(evaluate, body)


class ToyExecutable(Executable):
    peak_bytes = 0

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._functions, self._schedules = [], []
        for k in plan.kernels:
            kind = kind_named(k.kind)
            if k.is_view:
                self._functions.append(partial(evaluate, k.body))
                continue
            self._schedules.append(kind.schedule(k.body, plan.device))
            self._functions.append(kind.emit(k.body, self._schedules[-1], plan.device))

    def schedules(self) -> list[str]:
        return list(map(str, self._schedules))

    def run(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        self._counted(arrays)
        values = constant_values(self.plan) | dict(zip(self.plan.inputs, arrays, strict=True))
        for kernel, function in zip(self.plan.kernels, self._functions, strict=True):
            values |= zip(kernel.writes, function([values[v] for v in kernel.reads]), strict=True)
        return tuple(values[v] for v in self.plan.outputs)

    def source(self) -> str:
        return "\n".join(str(kernel.body) for kernel in self.plan.kernels)

    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        return [1.0 for kernel in self.plan.kernels if not kernel.is_view]

    def notes(self) -> str:
        return "interpreted"


def device() -> Device:
    return replace(profiles.profile("cpu"), name="toy", target="toy")


def emits(op: str, dtypes: Sequence[np.dtype], result: np.dtype) -> bool:
    return op != "tanh"


def emit(plan: Plan) -> ToyExecutable:
    return ToyExecutable(plan)


def needs(kernel: Kernel, device: Device) -> Needs:
    return Needs()
