"""Files and functions stay of a size that can be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.packaging.test_layers import MODULES, ROOT

LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 400, 60


def _long_files() -> Iterator[str]:
    for path in (*MODULES.values(), *(ROOT / "tests").rglob("*.py")):
        if (lines := len(path.read_text().splitlines())) > LINES_OF_A_FILE:
            yield f"{path.relative_to(ROOT)}: {lines} lines"


def _long_functions() -> Iterator[str]:
    """Of the product: those of tests may be lists of cases."""
    for path in MODULES.values():
        text, name = path.read_text(), path.relative_to(ROOT)
        for n in _functions(ast.parse(text)) if len(text.splitlines()) > LINES_OF_A_FUNCTION else ():
            if (lines := (n.end_lineno or 0) - n.lineno + 1) > LINES_OF_A_FUNCTION:
                yield f"{name}: {n.name} has {lines} lines"


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions among statements: an expression holds none."""
    waiting = [tree]
    while waiting:
        n = waiting.pop()
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef):
            yield n
        waiting += (child for child in ast.iter_child_nodes(n) if not isinstance(child, ast.expr))


def test_no_file_and_no_function_is_long() -> None:
    assert [*_long_files(), *_long_functions()] == []
