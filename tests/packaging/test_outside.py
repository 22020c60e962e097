"""What needs a package that the test command leaves out is marked: CI runs it by its mark, once that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["torch", "onnx", "onnxruntime"])
def test_a_file_that_skips_without_a_package_has_tests_that_are_run_with_it(package: str) -> None:
    texts = {path.name: path.read_text() for path in TESTS.rglob("test_*.py")}
    skipping = {name for name, text in texts.items() if re.search(rf"importorskip\(\s*.{package}\b", text)}
    assert skipping
    assert not {name for name in skipping if not re.search(r"mark\.(outside|slow)", texts[name])}
