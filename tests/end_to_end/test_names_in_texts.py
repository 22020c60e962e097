"""The files, folders and modules that READMEs, examples and docstrings name are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("eqfuse", "rewrites", "extract", "tests", "benches")
READMES = sorted(p for folder in (".", *(f"{f}/**" for f in FOLDERS)) for p in ROOT.glob(f"{folder}/*.md"))
MODULES = sorted(p for folder in FOLDERS for p in ROOT.glob(f"{folder}/**/*.py"))
PATH = re.compile(r"(?<!`)`((?:[a-z_.]+/)+(?:[\w.*-]+)?|[\w.*-]+\.(?:py|hpp|md))`(?!`)")
LINK = re.compile(r"\]\(([\w./-]+)\)")
DOTTED = re.compile(r"`(eqfuse(?:\.\w+)+)`")


def docstrings(module: ast.Module) -> Iterator[str]:
    waiting: list[ast.AST] = [module]
    while waiting:
        n = waiting.pop()
        if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(n) or ""
        waiting += (child for child in ast.iter_child_nodes(n) if not isinstance(child, ast.expr))


def missing(text: str, beside: Path) -> Iterator[str]:
    """What `text`, of a file in the folder `beside`, names and is neither there nor at the root."""
    for name in (*PATH.findall(text), *LINK.findall(text)):
        places = [root / name.removesuffix("/") for root in (ROOT, ROOT / "eqfuse", beside)]
        if not any(place.exists() or any(place.parent.glob(place.name)) for place in places):
            yield name
    yield from (name for name in DOTTED.findall(text) if not is_a_name(name))


def is_a_name(name: str) -> bool:
    """Is `name` a module, or in one?"""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("readme", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_readme_names_only_what_is_there(readme: Path) -> None:
    assert list(missing(readme.read_text(), readme.parent)) == []


def test_docstrings_name_only_what_is_there() -> None:
    wrong = {}
    for module in MODULES:
        code = module.read_text()
        texts = docstrings(ast.parse(code)) if any(p.search(code) for p in (PATH, LINK, DOTTED)) else ()
        if names := [name for text in texts for name in missing(text, module.parent)]:
            wrong[str(module.relative_to(ROOT))] = names
    assert wrong == {}
