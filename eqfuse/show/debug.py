"""The debug levels EQFUSE_DEBUG=1…5: what each stage of a compilation found, printed to stderr.

In: the Space, Plan and sources of one compilation. 1: stop reason and sizes. 2: laws that fired. 3: chosen kernels with
prices. 4: emitted source. 5: the e-graph. Each level prints those below it too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from eqfuse.egraph.space import Segment, Space
from eqfuse.errors import EqfuseError
from eqfuse.plan.plan import Plan
from eqfuse.summary import duration


def level() -> int:
    """The level that the environment variable EQFUSE_DEBUG asks for; 0 when it is not set."""
    text = os.environ.get("EQFUSE_DEBUG", "").strip() or "0"
    if not text.isdecimal():
        raise EqfuseError(f"EQFUSE_DEBUG is {text!r}; it takes a number from 0 to 5")
    return int(text)


def show_space(space: Space) -> None:
    """Levels 1, 2 and 5: sizes, stop reason, laws, the e-graph."""
    rung = level()
    if rung >= 1:
        classes = sum(len(s.classes) for s in space.segments)
        _say(f"saturated {len(space.graph.operators)} operators in {len(space.uses)} segment(s), "
             f"{len(space.segments)} of them distinct: {space.n_nodes} nodes in {classes} classes, "
             f"stopped: {space.stop_reason}, {duration(space.seconds)}")  # fmt: skip
    if rung >= 2:
        seconds = space.law_seconds
        for name, count in space.laws_fired.items():
            _say(f"  law {name} ×{count}, {duration(seconds[name])}")
        idle = sum(s for name, s in seconds.items() if name not in space.laws_fired)
        _say(f"  laws that never matched, {duration(idle)}")
    if rung >= 5:
        for i, segment in enumerate(space.segments):
            _say(f"segment {i}: roots {', '.join(f'c{r}' for r in segment.roots)}\n{_classes(segment)}")


def show_plan(plan: Plan) -> None:
    """Level 3: the kernels that were chosen."""
    if level() >= 3:
        total = plan.seconds
        _say(f"plan for {plan.device.name}: {len(plan.kernels)} kernels, predicted {duration(total)}; "
             f"{len(plan.setup)} more run once")  # fmt: skip
        for kernel in plan.kernels:
            _say(f"  {kernel}")


def show_source(source: Callable[[], str]) -> None:
    """Level 4: the emitted source."""
    if level() >= 4:
        _say(source())


def _classes(segment: Segment) -> str:
    lines = []
    for i, c in enumerate(segment.classes):
        terms = (f"{n.op}({', '.join([*(f'c{a}' for a in n.args), *map(repr, n.attrs)])})" for n in c.nodes)
        lines.append(f"  c{i} {c.type}{' known' if c.constant else ''}: " + " | ".join(terms))
    return "\n".join(lines)


def _say(text: str) -> None:
    print(f"eqfuse: {text}", file=sys.stderr)
