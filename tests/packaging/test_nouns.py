"""Names are nouns of what they stand for: a `place`, a `kernel`, `matches`; `found`, `made`, `at`, `of` say nothing of
it, nor do, in the product, `given`, `known`, `plain`, `turn`, `answers`. (Tests draw by Hypothesis' `given`.) A class
of the product is no participle, and no other class or type has its name, a class of another target apart.
`test_one_meaning.py` says the same of functions and constants.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.test_layers import MODULES, ROOT

EVERYWHERE = r"\b_?(?:found|made|at|of)\b"
PRODUCT = r"\b_?(?:found|made|at|of|given|known|plain|turn|answers)\b"
PARTICIPLE = r"\w*[a-z](?:ed|tten|own)|_?(?:\w*[a-z])?(?:Fed|Held|Found|Made|Kept|Built|Taken|Given|Drawn|Sent|Seen)"
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


@cache
def _classes() -> list[tuple[str, Path]]:
    texts = {path.relative_to(ROOT): path.read_text() for path in MODULES.values()}
    pattern = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)
    return [(name, path) for path, text in texts.items() for name in pattern.findall(text)]


def test_classes_are_no_participles() -> None:
    assert [f"{path}: {name}" for name, path in _classes() if re.fullmatch(PARTICIPLE, name)] == []


@pytest.mark.parametrize("name", ["Fed", "Joined", "_Loaded", "Written", "NodesHeld", "NotTransferred"])
def test_a_planted_participle_is_seen(name: str) -> None:
    assert re.fullmatch(PARTICIPLE, name)


def _types() -> Iterator[tuple[str, Path]]:
    """Types with a name that is no class: ``Shape = tuple[int, ...]``."""
    for path in MODULES.values():
        for name in re.findall(r"^([A-Z]\w*[a-z]\w*) = ", path.read_text(), re.MULTILINE):
            yield name, path.relative_to(ROOT)


def test_no_type_has_the_name_of_a_class() -> None:
    classes = {name for name, _ in _classes()}
    assert [f"{path}: {name}" for name, path in _types() if name in classes] == []


def test_no_two_classes_have_one_name() -> None:
    """A target's classes are named as those of other targets that are the same there."""
    targets = [(name, path.parts[2] if path.parts[1] == "emit" else "") for name, path in _classes() if name[0] != "_"]
    elsewhere = {name for name, target in targets if not target}
    counts = Counter(targets)
    assert [n for (n, target), count in counts.items() if count > 1 or (target and n in elsewhere)] == []


@pytest.mark.parametrize("text", [
    "found = 1", "made: int = 1", "at += 1", "x, at = y", "for at, x in y: pass", "[0 for found in y]", "lambda at: 0",
    "def f(*made): pass", "def f(x, /, at, *, y=0): pass", "def at(): pass", "async def found(): pass", "x.made = 1",
    "with x as at: pass", "(found := 1)", "class A:\n at: int", "class made: pass", "import x as at", "x._found = {}",
    "try: pass\nexcept A as found: pass", "match x:\n case A(at): pass", "match x:\n case [*at]: pass",
    "match x:\n case {**at}: pass", "match x:\n case 1 as at: pass", "def _at(): pass", "*given, x = y", "known |= x",
    "def plain(): pass", "lambda turn: 0", "x.answers = 1", "[0 for of in y]", "def f(of): pass",
])  # fmt: skip
def test_a_planted_name_is_seen(text: str) -> None:
    assert len([*bound(text)]) == 1


@pytest.mark.parametrize("text", [
    "np.add.at(x, at_, y)", "'found: at, made = 1'", "x == program.at(n=1)", "is_known = turns", "f(known, x)",
])  # fmt: skip
def test_what_only_has_the_letters_is_no_name(text: str) -> None:
    assert [*bound(text)] == []
