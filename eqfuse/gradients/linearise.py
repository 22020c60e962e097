"""Forward mode: how the values of a graph change where some of them do, as nodes linear in these changes.

In: nodes, and for some of the values they are made of the nodes of their changes. Out: the changes of the nodes, None
where there is none. Integers and bools do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from eqfuse.errors import UnsupportedOp, line_of
from eqfuse.gradients.row import NoDerivative
from eqfuse.gradients.table import derivative
from eqfuse.ir.graph import Node, topological


def changes(
    outputs: Sequence[Node], given: Mapping[Node, Node | None], places: Mapping[Node, Any] | None = None
) -> list[Node | None]:
    """What `outputs` change by where the nodes of `given` change by its values. `places`: where nodes were made, for
    the message about one without a derivative."""
    found: dict[Node, Node | None] = dict(given)
    for n in topological(outputs):
        if n in found or all(found.get(a) is None for a in n.args):
            continue
        try:
            change = _change(n, [found.get(a) for a in n.args])
        except NoDerivative as error:
            what = f"{n.op} of {_types(n)} has no derivative: {error}"
            raise UnsupportedOp(what + _line(n, outputs, places)) from None
        assert change is None or change.type == n.type, f"the tangent of {n.op} is {change}, not {n.type}"
        found[n] = change
    return [found.get(o) for o in outputs]


def _change(n: Node, of_args: list[Node | None]) -> Node | None:
    row = derivative(n.op)
    if row.formula is None:
        return row.tangent(n, of_args)
    (change,) = changes([row.formula(n)], dict(zip(n.args, of_args, strict=True)))
    return change


def reaching(outputs: Sequence[Node], sources: Collection[Node]) -> list[Node]:
    """The nodes that `outputs` need and that depend on `sources`, these among them, arguments first."""
    found: dict[Node, None] = {}
    for n in topological(outputs):
        if n in sources or any(a in found for a in n.args):
            found[n] = None
    return list(found)


def _types(n: Node) -> str:
    return ", ".join(str(a.type) for a in n.args)


def _line(n: Node, outputs: Sequence[Node], places: Mapping[Node, Any] | None) -> str:
    """Where `n` was made, or the first known value that is made of it."""
    for m in reaching(outputs, {n}) if places else ():
        place = places.get(m)  # type: ignore[union-attr]
        if place is not None:
            return f"\n  made at {line_of(place)}"
    return ""
