"""The table of what random models are made of: one row per operator, which draws its inputs and attributes.

In: rows, from the families in this package. Out: the row of an operator. Used by `models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from tests.frontends.onnx_random.judges import Array
from tests.frontends.onnx_random.numbers import COMPUTED, Tolerance, moderate
from tests.frontends.onnx_random.run import DrawnValue


@dataclass(frozen=True)
class NodeSpec:
    """What a row has drawn: inputs (None where one is left out), attributes, and how many outputs."""

    inputs: Sequence[DrawnValue | None]
    attributes: Mapping[str, Any]
    outputs: int = 1


Domain = Callable[..., Any]  # of the inputs' arrays, and the attributes
Judge = Callable[..., str | None]  # of the opset version, the inputs' arrays, and the attributes


@dataclass(frozen=True)
class CaseRow:
    """One operator. `domain`: for which values the standard says what it gives; `finite`: only for moderate ones.
    `judge`: where the judges differ, which of them is right, "reference" or "onnxruntime", by the standard's text."""

    draw: Callable[[Any], NodeSpec | None]
    rounding: Tolerance
    finite: bool
    domain: Domain | None
    judge: Judge | str | None
    since: int
    until: int

    def defined(self, n: onnx.NodeProto, arrays: Mapping[str, Array], every: bool = False) -> bool:
        """Does the standard say what `n` gives for these values? `every`: NaN among them counts as any other."""
        if self.finite and not every and not all(map(moderate, arrays.values())):
            return False
        given = [arrays[i] if i else None for i in n.input]
        return self.domain is None or bool(self.domain(*given, **attributes(n)))

    def right(self, n: onnx.NodeProto, arrays: Mapping[str, Array], opset: int) -> str | None:
        if self.judge is None or isinstance(self.judge, str):
            return self.judge
        return self.judge(opset, *(arrays[i] if i else None for i in n.input), **attributes(n))


TABLE: dict[str, CaseRow] = {}


def row(
    *names: str, rounding: Tolerance = COMPUTED, finite: bool = False, domain: Domain | None = None,
    judge: Judge | str | None = None, until: int = 99,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Make the decorated function how nodes of the operators `names` are drawn."""

    def add(draw: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            since = min(s.since_version for s in _versions(name))
            TABLE[name] = CaseRow(draw, rounding, finite, domain, judge, since, until)
        return draw

    return add


def _versions(name: str) -> list[Any]:
    return [s for s in _ALL if s.name == name and s.domain == ""]


_ALL = onnx.defs.get_all_schemas_with_history()


def attributes(n: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as Python has them."""
    return {a.name: _value(a) for a in n.attribute}


def _value(a: onnx.AttributeProto) -> Any:
    given = onnx.helper.get_attribute_value(a)
    return given.decode() if isinstance(given, bytes) else given
