"""The options of a compilation: what is none is refused where it is given, before anything is traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqfuse.cost.targets import target_named
from eqfuse.egraph.saturate import budget_of
from eqfuse.extract import named
from eqfuse.plan.memory import limit_of
from eqfuse.rewrites.own import allowed


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Refuse a value that an option of `compile` does not have. Targets are not looked for, nor laws checked, yet."""
    target_named(options["target"])
    allowed(options["laws"], options["numerics"])
    named(options["extractor"])
    budget_of(options["budget"])
    limit_of(options["memory_limit"])
