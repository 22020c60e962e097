"""What a target makes of a plan: something that runs on arrays, and can show its source.

In: a `Plan`. Out: `Executable`, of which each target has its own. Next stop: `eqfuse/runtime/program.py`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from eqfuse.errors import DtypeError, EqfuseError, OptionError, ShapeError
from eqfuse.ir.evaluate import evaluate
from eqfuse.plan.plan import Kernel, Plan


class Executable(ABC):
    """A plan that can run. `peak_bytes`: the most memory that one call holds beside its arguments, its results and the
    constants."""

    peak_bytes: int

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._expected = [(v, n.dtype, n.shape) for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)]

    @abstractmethod
    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for `arrays`, one per graph input. Raises ShapeError when they are not what was compiled for."""

    @abstractmethod
    def source(self) -> str:
        """The text that was emitted."""

    @abstractmethod
    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        """Median seconds of each kernel that is no view, in order, on these arrays."""

    def use_graphs(self) -> None:
        """From now on start the kernels of a call all at once, as a CUDA graph. EqfuseError where that cannot be."""
        raise OptionError(f"graphs=True is for programs on a GPU; the target is {self.plan.device.target}")

    def schedules(self) -> list[str]:
        """How each kernel that is no view runs, in order; nothing where the target does not say."""
        return []

    def notes(self) -> str:
        """What an explanation adds below its totals."""
        return ""

    def _counted(self, arrays: Sequence[Any]) -> None:
        if len(arrays) != len(self._expected):
            raise ShapeError(f"the program has {len(self._expected)} inputs, {len(arrays)} arrays were given")

    def _refuse(self, value: int, array: np.ndarray) -> NoReturn:
        n = self.plan.graph.inputs[self.plan.inputs.index(value)]
        got = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
        if not array.dtype.isnative:
            got = f"in another byte order ({array.dtype.str})"
        misfit = ShapeError if array.dtype == n.dtype else DtypeError
        raise misfit(
            f"argument {n.attr('name')!r} is {got}, the program was compiled for {n.type}: convert it, or compile for "
            "it (ef.jit does so by itself)"
        )

    def _name(self, value: int) -> Any:
        return self.plan.graph.inputs[self.plan.inputs.index(value)].attr("name")


def constant_values(plan: Plan) -> dict[int, np.ndarray]:
    """The values that depend on constants alone, computed on the host, in C order: else calls may copy them.
    EqfuseError where NumPy refuses to compute one."""
    constants = {v: np.asarray(literal.array, order="C") for v, literal in plan.constants}
    with np.errstate(all="ignore"):
        for k in plan.setup:
            try:
                values = evaluate(k.body, [constants[v] for v in k.reads])
            except (ValueError, ArithmeticError, IndexError) as error:
                raise EqfuseError(f"what the program computes of constants alone has no value: {error}") from None
            constants |= zip(k.writes, [np.array(array, order="C") for array in values], strict=True)
    return constants


def function_name(kernel: Kernel) -> str:
    """The name of the compiled function of `kernel`: that of its kind, and a digest of what it computes."""
    return f"{kernel.kind}_{hashlib.blake2b(str(kernel.body).encode(), digest_size=6).hexdigest()}"


def in_order(array: np.ndarray) -> np.ndarray:
    """`array` in C order and aligned, as compiled kernels read it."""
    return np.require(array, None, ["C", "A"]) if array.ndim else array
