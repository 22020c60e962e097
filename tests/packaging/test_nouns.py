"""Names are nouns of what they stand for: a `place`, a `kernel`, `matches`; `found`, `made`, `at` say nothing of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.packaging.test_layers import MODULES, ROOT

WORD = r"\b_?(?:found|made|at)\b"
MAY_BIND = re.compile(rf"{WORD} *(?:[^\w\s]?=(?!=)|[,:)\]}}]|in\b)|(?:def|class|as) {WORD}")  # parsing is slow
PUBLIC = {  # and why
    "eqfuse/specialise/symbolic_program.py: at": "users call `program.at(n=1000)`",
    "eqfuse/testing/cupy_stand_in.py: at": "CuPy's `ufunc.at`, which it stands in for",
}


def bound(text: str) -> Iterator[str]:
    """Those of these names that a module gives to variables, parameters, attributes, functions, patterns or imports."""
    for n in ast.walk(ast.parse(text)) if MAY_BIND.search(text) else ():
        match n:
            case (
                ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()) | ast.arg(name)
                | ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name) | ast.alias(_, str(name))
                | ast.MatchAs(_, str(name)) | ast.MatchStar(str(name)) | ast.MatchMapping(rest=str(name))
                | ast.ExceptHandler(_, str(name))
            ) if re.fullmatch(WORD, name):  # fmt: skip
                yield name


def test_names_are_nouns() -> None:
    paths = [*MODULES.values(), *sorted((ROOT / "tests").rglob("*.py"))]
    assert {f"{path.relative_to(ROOT)}: {name}" for path in paths for name in bound(path.read_text())} == {*PUBLIC}


@pytest.mark.parametrize("text", [
    "found = 1", "made: int = 1", "at += 1", "x, at = y", "for at, x in y: pass", "[0 for found in y]", "lambda at: 0",
    "def f(*made): pass", "def f(x, /, at, *, y=0): pass", "def at(): pass", "async def found(): pass", "x.made = 1",
    "with x as at: pass", "(found := 1)", "class A:\n at: int", "class made: pass", "import x as at", "x._found = {}",
    "try: pass\nexcept A as found: pass", "match x:\n case A(at): pass", "match x:\n case [*at]: pass",
    "match x:\n case {**at}: pass", "match x:\n case 1 as at: pass", "def _at(): pass",
])  # fmt: skip
def test_a_planted_name_is_seen(text: str) -> None:
    assert len([*bound(text)]) == 1


@pytest.mark.parametrize("text", ["np.add.at(x, at_, y)", "'found: at, made = 1'", "x == program.at(n=1)"])
def test_what_only_has_the_letters_is_no_name(text: str) -> None:
    assert [*bound(text)] == []
