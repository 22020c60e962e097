"""What a user's type checker knows of the public names: mypy reads this file on an installed copy, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np

import eqfuse as ef


@ef.jit
def double(x: np.ndarray) -> np.ndarray:
    return x * 2


assert_type(double(np.ones(3)), np.ndarray)
assert_type(ef.load(Path("program.eqf")), ef.Program)
assert_type(ef.compile(double.fn, np.ones(3)), ef.Program)
assert_type(ef.trace(double, ef.spec(3)), ef.Graph)
assert_type(ef.emit(ef.extract(ef.saturate(ef.parse("")))), ef.Program)
assert_type(ef.Budget(seconds=1.0), ef.Budget)
ef.fuse  # type: ignore[attr-defined]  # noqa: B018
