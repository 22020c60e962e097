"""Validation of the options of `ef.compile` and `ef.jit`: a wrong one is refused before anything is traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqfuse.budget import budget_of
from eqfuse.cost.targets import target_named
from eqfuse.errors import EqfuseError, OptionError
from eqfuse.extract import extractor_named
from eqfuse.plan.memory import limit_of
from eqfuse.rewrites.own import allowed


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raise for a value that an option of `compile` does not have. Looks for no target and checks no law yet."""
    target_named(options["target"])
    allowed(options["laws"], options["numerics"])
    extractor_named(options["extractor"])
    budget_of(options["budget"])
    limit_of(options["memory_limit"])
    for name in ("verify", "wait", "graphs", "autotune"):
        if not isinstance(options.get(name, False), bool):
            raise OptionError(f"{name} is {options[name]!r}: it takes True or False")
    if options.get("autotune") and not options["wait"]:
        raise OptionError("autotune=True times programs, which wait=False would not wait for: leave out one of them")


def one_size(options: Mapping[str, Any], advice: str) -> None:
    """Raise for an option that no program of many sizes has."""
    for name, default in (("memory_limit", None), ("wait", True), ("autotune", False)):
        if options.get(name, default) is not default:
            raise EqfuseError(f"{name} holds for one size of the arguments: {advice}")
