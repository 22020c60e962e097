"""Benchmarks in processes of their own.

In: a command. Out: the row that it prints last, as JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

PATIENCE = 600  # seconds that a process may take


def last_row(command: Sequence[str], patience: int = PATIENCE) -> dict[str, Any]:
    """The row that a benchmark's process prints last; where it did not end, why."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {patience} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1][:100]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row
