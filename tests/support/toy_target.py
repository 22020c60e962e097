"""A target made outside: it runs each kernel by the evaluator. It has no form for tanh, which is then a call alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqfuse.cost import profiles
from eqfuse.cost.device import Device
from eqfuse.emit.executable import Executable, constant_values
from eqfuse.ir.evaluate import evaluate
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan


class ToyExecutable(Executable):
    peak_bytes = 0

    def run(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        self._counted(arrays)
        values = constant_values(self.plan) | dict(zip(self.plan.inputs, arrays, strict=True))
        for kernel in self.plan.kernels:
            values |= zip(kernel.writes, evaluate(kernel.body, [values[v] for v in kernel.reads]), strict=True)
        return tuple(values[v] for v in self.plan.outputs)

    def source(self) -> str:
        return "\n".join(str(kernel.body) for kernel in self.plan.kernels)

    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        return [1.0 for kernel in self.plan.kernels if not kernel.is_view]

    def notes(self) -> str:
        return "interpreted"


def device() -> Device:
    return replace(profiles.device("cpu"), name="toy", target="toy")


def emits(op: str, dtypes: Sequence[np.dtype]) -> bool:
    return op != "tanh"


def emit(plan: Plan) -> ToyExecutable:
    return ToyExecutable(plan)


def needs(kernel: Kernel, device: Device) -> Needs:
    return Needs()
