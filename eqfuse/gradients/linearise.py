"""Forward mode: how the values of a graph change where some of them do, as nodes linear in these changes.

In: nodes, and for some of the values they are made of the nodes of their changes. Out: the changes of the nodes, None
where there is none. Integers and bools do not change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from eqfuse.errors import UnsupportedOp, line_of
from eqfuse.frontends.numpy.origins import note_derived
from eqfuse.gradients.row import NoDerivative
from eqfuse.gradients.table import derivative
from eqfuse.ir.graph import Node, input_node, substitute, topological


def changes(
    outputs: Sequence[Node],
    seeds: Mapping[Node, Node | None],
    places: Mapping[Node, Any] | None = None,
    replaced: dict[Node, Node] | None = None,
    loops: dict[Node, Node] | None = None,
) -> list[Node | None]:
    """What `outputs` change by where the nodes of `seeds` change by its values. `places`: where nodes were made, for
    the message about one without a derivative. `replaced` gets loops and decompositions of which others take the
    place, that compute more, and calls in whose place stands what the forward pass of their rule computes. `loops` gets
    of each loop that computes changes the one whose they are.
    """
    try:
        return _changes(outputs, seeds, {} if replaced is None else replaced, loops)
    except _NoDerivativeOf as error:
        what = f"{error.node.op} of {_types(error.node)} has no derivative: {error}"
        raise UnsupportedOp(what + line_below(error.node, outputs, places)) from None


class _NoDerivativeOf(NoDerivative):
    """Says of which node."""

    def __init__(self, why: str, node: Node) -> None:
        super().__init__(why)
        self.node = node


def _changes(
    outputs: Sequence[Node], seeds: Mapping[Node, Node | None], replaced: dict[Node, Node],
    loops: dict[Node, Node] | None = None,
) -> list[Node | None]:  # fmt: skip
    tangents: dict[Node, Node | None] = dict(seeds)
    several: dict[Node, Sequence[Node | None]] = {}  # of loops: by result
    for n in topological(outputs):
        if n in tangents or not any(tangents.get(a) is not None or a in several for a in n.args):
            continue
        try:
            of_results = _of_results(n, [tangents.get(a) for a in n.args], several, replaced)
        except _NoDerivativeOf as error:
            why = f"in its body, {error.node.op} of {_types(error.node)} has none: {error}"
            raise _NoDerivativeOf(why, n) from None
        except NoDerivative as error:
            raise _NoDerivativeOf(str(error), n) from None
        note_derived(n, of_results, (n, *n.args))
        if loops is not None and derivative(n.op).several is not None:
            loops.update((m.args[0] if m.op == "loop_result" else m, n) for m in of_results if m is not None)
        if len(of_results) > 1:
            several[n] = of_results
            continue
        (change,) = of_results
        assert change is None or change.type == n.type, f"the tangent of {n.op} is {change}, not {n.type}"
        tangents[n] = change
    return [tangents.get(o) for o in outputs]


def _of_results(
    n: Node, of_args: list[Node | None], several: Mapping[Node, Sequence[Node | None]], replaced: dict[Node, Node]
) -> Sequence[Node | None]:
    """What each result of `n` changes by."""
    row = derivative(n.op)
    if row.part is not None:
        return [several[n.args[0]][row.part(n)]]
    if row.formula is not None:
        return [_of_formula(row.formula, n, of_args, replaced)]
    if row.several is None:
        return [row.tangent(n, of_args)]
    tangents, instead = row.several(n, of_args, _changes)
    replaced.update(instead)
    return tangents


_serial = itertools.count()


def _of_formula(
    formula: Callable[[Node], Node], n: Node, of_args: list[Node | None], replaced: dict[Node, Node]
) -> Node | None:
    """What `n` changes by, which is what `formula` makes of it. Inputs stand for the arguments that change: the formula
    of `x.T`, say, may cancel the transpose, and read `x` past the argument that has a change."""
    stands = [a if c is None else input_node(f"formula {next(_serial)}", a.type)
              for a, c in zip(n.args, of_args, strict=True)]  # fmt: skip
    within: dict[Node, Node] = {}
    seeds = {s: c for s, c in zip(stands, of_args, strict=True) if c is not None}
    (change,) = _changes([formula(n.over(stands))], seeds, within)
    nodes = [m for m in (change, *within, *within.values()) if m is not None]
    ends = {c: c for c in of_args if c is not None} | dict(zip(stands, n.args, strict=True))  # no stand-in is below
    whole = dict(zip(nodes, substitute(nodes, ends), strict=True))
    replaced.update({whole[loop]: whole[instead] for loop, instead in within.items()})
    return None if change is None else whole[change]


def reaching(outputs: Sequence[Node], sources: Collection[Node]) -> list[Node]:
    """The nodes that `outputs` need and that depend on `sources`, these among them, arguments first."""
    dependent: dict[Node, None] = {}
    for n in topological(outputs):
        if n in sources or any(a in dependent for a in n.args):
            dependent[n] = None
    return list(dependent)


def _types(n: Node) -> str:
    return ", ".join(str(a.type) for a in n.args)


def line_below(n: Node, outputs: Sequence[Node], places: Mapping[Node, Any] | None) -> str:
    """Where `n` was made, or the first known value that is made of it."""
    for m in reaching(outputs, {n}) if places else ():
        place = places.get(m)  # type: ignore[union-attr]
        if place is not None:
            return f"\n  made at {line_of(place)}"
    return ""
