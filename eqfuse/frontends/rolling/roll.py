"""The pass: loops that were unrolled while tracing become loops again, and alike pieces one computation.

In: a graph, and what a step of a loop costs. Out: the graph with `scan`s, and with operators on more rows. Next stop:
`egraph.saturate`. A chain of few operators is left as it is: its steps fuse with one another, and are planned in a
second or two. The steps of a longer one become those of a loop, several in one where going from step to step would be
felt; if it is not long, only where that hardly is, and each reads something of its own. Pointwise steps fuse with one
another into a few kernels, which a loop would leave at every turn: where what they carry is more than lies near a core,
they stay until there are too many to plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from eqfuse.frontends.rolling.alignment import Misalignment
from eqfuse.frontends.rolling.chains import FEWEST_STEPS, chains
from eqfuse.frontends.rolling.families import as_reduction, made_together
from eqfuse.frontends.rolling.loops import Steps, steps_of
from eqfuse.ir.graph import Graph, Node, substitute
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.summary import count

FEW_OPERATORS = 200  # of a chain that is left as it is
MANY_OPERATORS = 400  # of one that is always a loop
FEW_ON_WINDOWS = 1000  # of one whose steps read or write windows that overlap: a kernel for all steps reads these once
FEW_APART = 60  # of one whose steps hardly fuse with one another: see `_steps_are_apart`
FEW_POINTWISE = 5000  # of one whose steps are pointwise work on more than lies near a core
STEP_OPERATORS = 64  # at most in one step that is made of several
FEWEST_TURNS = 4  # of a loop whose steps are made of several
FELT = 0.05  # of what a step takes
HARDLY = 0.02  # of it
MOST_LOOPS = 64  # loops of one graph


@dataclass(frozen=True)
class Costs:
    """Seconds that a step takes, and to go from it to the next with carries of so many bytes. `near`: bytes near a
    core."""

    step: Callable[[Graph], float]
    advance: Callable[[Graph, int], float]
    near: int


def rolled(graph: Graph, costs: Costs, exactly: bool = False) -> Graph:
    """`graph` with loops where many steps are alike. `exactly`: sums are added up in the order they are written in."""
    if graph.rolled is not None:
        return graph
    said: list[str] = []
    while len(said) < MOST_LOOPS and (replacement := _once(graph, costs, exactly)):
        graph, text = replacement
        said.append(text)
    graph, more = made_together(graph)
    return replace(graph, rolled=(*said, *more))


def _once(graph: Graph, costs: Costs, exactly: bool) -> tuple[Graph, str] | None:
    """`graph` with one loop more, and what it is made of, in words."""
    if len(graph.operators) < FEWEST_STEPS:
        return None
    for paths in chains(graph.nodes):
        choices = [steps for steps in map(steps_of, paths) if steps is not None]
        steps = max(choices, key=lambda steps: steps.count * steps.operators, default=None)
        replacement = None if steps is None else _in_place_of(steps, graph, costs, exactly)
        if replacement is not None:
            values, text = replacement
            return replace(graph, outputs=substitute(graph.outputs, values)), text
    return None


def _in_place_of(steps: Steps, graph: Graph, costs: Costs, exactly: bool) -> tuple[dict[Node, Node], str] | None:
    """What stands for the values of `steps` that are read elsewhere, and why; None where they are left as they are."""
    said = count(steps.count, "alike step")
    total = as_reduction(steps, graph, exactly)
    if total is not None:
        return total, f"{said} were rolled into one reduction"
    operators = steps.count * steps.operators
    on_windows = steps.on_windows or steps.aligned.slides
    apart = _steps_are_apart(steps)
    few = FEW_ON_WINDOWS if on_windows else FEW_APART if apart else FEW_OPERATORS
    if operators < few:
        return None
    if operators <= FEW_POINTWISE and sum(t.nbytes for t in steps.carries) > costs.near and _is_pointwise(steps):
        return None
    bound = FELT if operators >= MANY_OPERATORS or apart else HARDLY
    several, felt = _together(steps, costs, bound)
    if operators < MANY_OPERATORS and (felt > bound or not (apart or steps.aligned.reads_arrays)):
        return None
    if several > 1:
        with suppress(Misalignment):
            left = steps.count % several
            whole = Steps(steps.chain[left:]) if left else steps
            said = f"{count(whole.count, 'alike step')} were rolled into a loop of {whole.count // several}"
            return whole.in_place_of(graph, several), f"{said}, {several} in each"
    with suppress(Misalignment):
        return steps.in_place_of(graph), f"{said} were rolled into a loop"
    return None


def _steps_are_apart(steps: Steps) -> bool:
    """Does a step take or write places of a carry that move, or compute a product?"""
    return steps.aligned.moves or any(n.row.role is Role.CONTRACTION for n in steps.body().nodes)


def _is_pointwise(steps: Steps) -> bool:
    """Is a step pointwise work on its carries, all of one shape, and reads nothing of its own?"""
    shapes = {t.shape for t in steps.carries}
    pointwise = (n.row.role is Role.ELEMENTWISE and n.shape in shapes for n in steps.body().nodes if n.args)
    return len(shapes) == 1 and not steps.aligned.reads_arrays and all(pointwise)


def _together(steps: Steps, costs: Costs, bound: float) -> tuple[int, float]:
    """How many steps are made one of the loop's, for turns to take the share `bound` of it; and what they take."""
    body = steps.body()
    if any(n.op in LOOPS for n in body.nodes):
        return 1, 0.0
    carried = 0 if steps.aligned.moves else sum(t.nbytes for t in steps.carries)  # unrolled steps write these, too
    overhead = costs.advance(body, carried) / costs.step(body)
    several = max(1, min(math.ceil(overhead / bound), STEP_OPERATORS // steps.operators, steps.count // FEWEST_TURNS))
    return several, overhead / several
