"""Golden files: emitted text kept beside the tests that emit it, renewed by `pytest --update-golden`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what is emitted now")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with the file `golden/<name>` beside the test."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path.name}: run pytest --update-golden and read what it wrote"
        assert text == path.read_text(), f"{path.name} differs from what is emitted: see pytest --update-golden"

    return compare
