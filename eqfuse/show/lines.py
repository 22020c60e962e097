"""Which of the user's lines each kernel of a plan computes.

In: a `Plan`, whose graph knows where its values were made. Out: a text for each kernel that is no view.

A kernel computes what lies between the values that it reads and those that it writes. Laws may have changed how, and
have not made new what it reads and writes, as far as that is a value of the program as it is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from eqfuse.errors import line_number
from eqfuse.ir.graph import CodePlace, Node
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import running
from eqfuse.summary import cut

FILES_NAMED, NAME_LENGTH = 3, 40  # that are named for one kernel, and characters of a name


def kernel_lines(plan: Plan) -> tuple[str, ...]:
    """``model.py:12, 14–16`` for each kernel; of one that writes what laws have made, which kernels that is for."""
    if not plan.graph.places:
        return ()
    base: dict[int, int] = {}  # of values that are views of others
    for k in plan.kernels:
        if k.is_view:
            base |= dict.fromkeys(k.writes, base.get(k.reads[0], k.reads[0]))
    nodes = plan.graph.nodes
    own: dict[int, list[Node]] = defaultdict(list)
    for value, i in plan.sources:
        own[base.get(value, value)].append(nodes[i])
    readers: dict[int, list[str]] = defaultdict(list)
    for number, k in enumerate(running(plan)):
        for value in {base.get(v, v) for v in k.reads}:
            readers[value].append(str(number))
    stored = {*plan.graph.inputs, *(n for each in own.values() for n in each)}
    texts = []
    for k in running(plan):
        made_for = dict.fromkeys(number for v in k.writes for number in readers[v])
        lines = _lines([n for v in k.writes for n in own[v]], stored, plan.graph.places)
        texts.append(lines or (f"what laws have made for {', '.join(made_for)}" if made_for else ""))
    return tuple(texts)


def _lines(written: Sequence[Node], stored: set[Node], places: Mapping[Node, CodePlace]) -> str:
    """Of what lies between the `written` nodes and the `stored` ones below them."""
    stack, seen = [*written], set()
    begun = {*written}
    lines: dict[str, set[int]] = {}
    while stack:
        n = stack.pop()
        if n in seen or not n.args or (n in stored and n not in begun):
            continue
        seen.add(n)
        stack += n.args
        if n in places:
            lines.setdefault(places[n][0].co_filename, set()).add(line_number(places[n]))
    named = [(cut(PurePath(path).name, NAME_LENGTH), _ranges(sorted(numbers))) for path, numbers in lines.items()]
    return "; ".join(f"{name}:{numbers}" for name, numbers in named[:FILES_NAMED])


def _ranges(numbers: list[int]) -> str:
    """Numbers in order, those in a row as their first and last."""
    rows: list[list[int]] = []
    for n in numbers:
        if rows and n == rows[-1][-1] + 1:
            rows[-1].append(n)
        else:
            rows.append([n])
    return ", ".join(f"{row[0]}" if len(row) == 1 else f"{row[0]}–{row[-1]}" for row in rows)
