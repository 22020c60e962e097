"""Names are nouns of what they stand for: a `place`, a `kernel`, `matches`; `found`, `made`, `at` say nothing of it,
nor do, in the product, `given`, `known`, `plain`, `turn`, `answers`. (Tests draw by Hypothesis' `given`.)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.packaging.test_layers import MODULES, ROOT

EVERYWHERE = r"\b_?(?:found|made|at)\b"
PRODUCT = r"\b_?(?:found|made|at|given|known|plain|turn|answers)\b"
PUBLIC = {  # and why
    "eqfuse/specialise/symbolic_program.py: at": "users call `program.at(n=1000)`",
    "eqfuse/testing/cupy_stand_in.py: at": "CuPy's `ufunc.at`, which it stands in for",
}


def bound(text: str, word: str = PRODUCT) -> Iterator[str]:
    """Those of these names that a module gives to variables, parameters, attributes, functions, patterns or imports."""
    may_bind = rf"{word} *(?:[^\w\s]?=(?!=)|[,:)\]}}]|in\b)|(?:def|class|as) {word}"  # parsing is slow
    for n in ast.walk(ast.parse(text)) if re.search(may_bind, text) else ():
        match n:
            case (
                ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()) | ast.arg(name)
                | ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name) | ast.alias(_, str(name))
                | ast.MatchAs(_, str(name)) | ast.MatchStar(str(name)) | ast.MatchMapping(rest=str(name))
                | ast.ExceptHandler(_, str(name))
            ) if re.fullmatch(word, name):  # fmt: skip
                yield name


def test_names_are_nouns() -> None:
    words = dict.fromkeys(MODULES.values(), PRODUCT) | dict.fromkeys((ROOT / "tests").rglob("*.py"), EVERYWHERE)
    pairs = [(path, name) for path, word in words.items() for name in bound(path.read_text(), word)]
    assert {f"{path.relative_to(ROOT)}: {name}" for path, name in pairs} == {*PUBLIC}


@pytest.mark.parametrize("text", [
    "found = 1", "made: int = 1", "at += 1", "x, at = y", "for at, x in y: pass", "[0 for found in y]", "lambda at: 0",
    "def f(*made): pass", "def f(x, /, at, *, y=0): pass", "def at(): pass", "async def found(): pass", "x.made = 1",
    "with x as at: pass", "(found := 1)", "class A:\n at: int", "class made: pass", "import x as at", "x._found = {}",
    "try: pass\nexcept A as found: pass", "match x:\n case A(at): pass", "match x:\n case [*at]: pass",
    "match x:\n case {**at}: pass", "match x:\n case 1 as at: pass", "def _at(): pass", "*given, x = y", "known |= x",
    "def plain(): pass", "lambda turn: 0", "x.answers = 1",
])  # fmt: skip
def test_a_planted_name_is_seen(text: str) -> None:
    assert len([*bound(text)]) == 1


@pytest.mark.parametrize("text", [
    "np.add.at(x, at_, y)", "'found: at, made = 1'", "x == program.at(n=1)", "is_known = turns", "f(known, x)",
])  # fmt: skip
def test_what_only_has_the_letters_is_no_name(text: str) -> None:
    assert [*bound(text)] == []
