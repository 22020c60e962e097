"""Which of the user's lines each kernel of a plan computes.

In: a `Plan`, whose graph knows where its values were made. Out: a text for each kernel that is no view.

A kernel computes what lies between the values that it reads and those that it writes. Laws may have changed how, and
have not made new what it reads and writes, as far as that is a value of the program as it is written.
"""

from __future__ import annotations

from pathlib import PurePath

from eqfuse.errors import line_number
from eqfuse.ir.graph import Node
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import running
from eqfuse.summary import cut

FILES, NAME = 3, 40  # that are named for one kernel, and characters of a name


def kernel_lines(plan: Plan) -> tuple[str, ...]:
    """``model.py:12, 14-16`` for each kernel, nothing where that is not known."""
    if not plan.graph.places:
        return ()
    nodes = plan.graph.nodes
    node_of = {value: nodes[i] for value, i in plan.sources}
    stored = {*node_of.values(), *plan.graph.inputs}
    return tuple([_lines(plan, k, node_of, stored) for k in running(plan)])


def _lines(plan: Plan, kernel: Kernel, node_of: dict[int, Node], stored: set[Node]) -> str:
    places = plan.graph.places
    assert places is not None
    stack = [node_of[v] for v in kernel.writes if v in node_of]
    own, seen = {*stack}, set()
    lines: dict[str, set[int]] = {}
    while stack:
        n = stack.pop()
        if n in seen or not n.args or (n in stored and n not in own):
            continue
        seen.add(n)
        stack += n.args
        if n in places:
            lines.setdefault(places[n][0].co_filename, set()).add(line_number(places[n]))
    named = [(cut(PurePath(path).name, NAME), _ranges(sorted(numbers))) for path, numbers in lines.items()]
    return "; ".join(f"{name}:{numbers}" for name, numbers in named[:FILES])


def _ranges(numbers: list[int]) -> str:
    """Numbers in order, those in a row as their first and last."""
    rows: list[list[int]] = []
    for n in numbers:
        if rows and n == rows[-1][-1] + 1:
            rows[-1].append(n)
        else:
            rows.append([n])
    return ", ".join(f"{row[0]}" if len(row) == 1 else f"{row[0]}–{row[-1]}" for row in rows)
