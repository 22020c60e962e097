"""Records the arithmetic on Python numbers while a function is traced, each step computed at once for an example.

In: numbers of the example call, and operators on them. Out: the `Arithmetic` of all calls, and the inputs of the graph
where numbers met arrays. Used by `eqfuse/frontends/numpy/number.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from eqfuse.ir.arithmetic import (
    ARRAY,
    NUMBER_KINDS,
    Arithmetic,
    ScalarOperation,
    explained,
    literal,
    step_function,
    value_text,
)
from eqfuse.ir.graph import Node, input_node
from eqfuse.ops.types import TensorType


class Recorder:
    """The steps so far, and their values for the example. A step that comes again is the same value."""

    def __init__(self) -> None:
        self._steps: list[ScalarOperation] = []
        self._values: list[Any] = []
        self._places: dict[tuple, int] = {}
        self._inputs: dict[int, Node] = {}
        self._names: set[str] = set()

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, place: int) -> Any:
        """The example's value."""
        return self._values[place]

    def argument(self, op: str, attr: Any, value: Any) -> int:
        """The place of an argument, or of a number that a generator draws."""
        return self._add(ScalarOperation(op, (), attr, type(value).__name__), value)

    def literal(self, value: Any) -> int:
        """The place of a number that the function has itself."""
        kind = next(k for k in NUMBER_KINDS if isinstance(value, k))  # an enumeration's number counts as the int it is
        attr = literal(kind(value))
        place = self._places.get(("literal", (), attr))
        return self._add(ScalarOperation("literal", (), attr, kind.__name__), kind(value)) if place is None else place

    def computed(self, op: str, args: tuple[int, ...], attr: Any = None) -> int:
        """The place of `op` of the values at `args`; raises what computing it for the example raises."""
        place = self._places.get((op, args, attr))
        if place is not None:
            return place
        try:
            with np.errstate(all="ignore"):
                value = step_function(op, attr)(*[self._values[a] for a in args])
        except Exception as error:
            steps = [*self._steps, ScalarOperation(op, args, attr, ARRAY)]
            raise explained(error, steps, len(self._steps), self._values) from None
        kind = ARRAY if isinstance(value, np.ndarray) else type(value).__name__
        return self._add(ScalarOperation(op, args, attr, kind), value)

    def input(self, place: int) -> Node:
        """The input of the graph that is the array at `place`."""
        if place not in self._inputs:
            name = self.text(place)
            name = f"{name} #{place}" if name in self._names else name
            self._names.add(name)
            self._inputs[place] = input_node(name, TensorType(self._values[place].dtype, ()))
        return self._inputs[place]

    def text(self, place: int) -> str:
        """The value at `place` as a user would write it."""
        return value_text(self._steps, place)

    def finished(self, reached: Collection[Node]) -> tuple[Arithmetic, list[Node]]:
        """All that was recorded, and those of its inputs that are among `reached`."""
        inputs = {place: n for place, n in self._inputs.items() if n in reached}
        return Arithmetic(tuple(self._steps), tuple(inputs)), list(inputs.values())

    def _add(self, step: ScalarOperation, value: Any) -> int:
        self._steps.append(step)
        self._values.append(value)
        self._places[step[:3]] = len(self._steps) - 1
        return len(self._steps) - 1
