"""The programs of tests/programs, which are no part of the installed package. In: a checkout. Out: the programs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eqfuse.errors import EqfuseError


def checkout_programs() -> Sequence[Any]:
    """The `ExampleProgram`s of tests/programs/every.py. EqfuseError outside a checkout."""
    checkout = str(Path(__file__).parents[2])
    if checkout not in sys.path:
        sys.path.insert(0, checkout)
    try:
        programs: Sequence[Any] = importlib.import_module("tests.programs.every").PROGRAMS
    except ModuleNotFoundError:
        raise EqfuseError("the programs are those of tests/programs: run this in a checkout of eqfuse") from None
    return programs
