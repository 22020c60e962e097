"""Tests of many alike, of which some run by default and all with `-m "slow or not slow"`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], every: int) -> list[Any]:
    """`values` as parameters of a test, all but one of `every` marked slow."""
    return [
        pytest.param(value, marks=pytest.mark.slow) if i % every else pytest.param(value)
        for i, value in enumerate(values)
    ]
