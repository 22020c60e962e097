"""A name has one meaning: no two modules of the product give it to functions or constants, unless these are the same.

They are the same in three cases. A protocol gives a name to what others find in several modules. A function for an
operator has the name that NumPy, ONNX or our own table has for it, whether it takes arrays, tracers, nodes or terms.
What two targets call alike is the same part of each. Names that begin with an underscore are their module's own, as are
the variables of laws, such as `x`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ops import TABLE
from tests.packaging.test_layers import MODULES, ROOT

PROTOCOLS = {  # which modules share a name: patterns of their paths, each with the reason
    "accept": r"eqfuse/kinds/\w+\.py",  # a kind of kernels: the state of a body with one more operator
    "merge": r"eqfuse/kinds/\w+\.py",  # and of two bodies at once
    "KIND": r"eqfuse/kinds/\w+\.py",  # its row in the table of kinds
    "NAME": r"eqfuse/kinds/\w+\.py",  # and its name there
    "apply": r"eqfuse/(functions|frontends/numpy/promotion)\.py|rewrites/language/term\.py",  # an operator applied
    "emit": r"eqfuse/emit/\w+/__init__\.py|eqfuse/runtime/program\.py",  # `ef.emit` asks the target's
    "extract": r"extract/\w+\.py|eqfuse/(compiler|frontends/numpy/sorting)\.py",  # ours, `ef`'s, NumPy's
    "main": r"eqfuse/(cli|frontends/numpy/reference)\.py",  # the entrance of a command
    "ROWS": r"eqfuse/(ops|gradients)/\w+\.py|rewrites/checking/smt\.py",  # a family of a table: one row per operator
    "LAWS": r"rewrites/(procedures/)?\w+\.py",  # a family of the law book
    "EXPANSION": r"rewrites/\w+\.py",  # its laws that never end, which are opted into
    "CONV": r"rewrites/\w+\.py",  # the attributes of a convolution, as variables of its laws
    "WINDOW": r"rewrites/\w+\.py",  # and those of a window
}
OPERATORS = re.compile(r"eqfuse/(demo|emit|frontends|xp)/.*|eqfuse/(functions|gradients/expr)\.py|rewrites/.*")
OPERATOR_NAMES = {*TABLE, *ef.__all__, *dir(np), *dir(np.linalg)}
# Decorators that enter a function into a table:
REGISTERS = {"aten", "implements", "operator", "of_arrays", "writer_of"}
CONSTANT = re.compile(r"[A-Z][A-Z\d_]+")


def definitions(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The names of functions and constants, and whether a table has them for an operator."""
    for n in tree.body:
        match n:
            case ast.FunctionDef(name) if name[0] != "_":
                calls = [d.func for d in n.decorator_list if isinstance(d, ast.Call)]
                yield name, any(d.id in REGISTERS for d in (*calls, *n.decorator_list) if isinstance(d, ast.Name))
            case ast.Assign() | ast.AnnAssign():
                for t in n.targets if isinstance(n, ast.Assign) else [n.target]:
                    names = [m.id for m in ast.walk(t) if isinstance(m, ast.Name)]
                    yield from ((name, False) for name in names if CONSTANT.fullmatch(name))


def meaning(path: str, name: str, in_table: bool) -> str:
    """What `name` means in the module `path`: the same word where it is the same."""
    if name in PROTOCOLS and re.fullmatch(PROTOCOLS[name], path):
        return "protocol"
    if OPERATORS.fullmatch(path) and (in_table or name.rstrip("_") in OPERATOR_NAMES):
        return "operator"
    return "target" if path.startswith("eqfuse/emit/") else path


def ambiguous(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The names with several meanings, and the modules that give them these. A target has one function of a name."""
    modules: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, text in texts.items():
        for name, in_table in definitions(ast.parse(text)):
            modules[name][meaning(path, name, in_table)].add(path)
    several = {name: set.union(*places.values()) for name, places in modules.items() if len(places) > 1}
    for name, places in modules.items():
        targets = [path.split("/")[2] for path in places.get("target", ())]
        if len(targets) > len({*targets}):
            several.setdefault(name, places["target"])
    return several


def test_a_name_has_one_meaning() -> None:
    paths = [path for path in MODULES.values() if path.relative_to(ROOT).parts[0] != "benches"]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    assert len(texts) > 500
    assert ambiguous(texts) == {}


def test_each_protocol_is_one_of_several_modules() -> None:
    """A name that one module alone has left, or that none has, needs no protocol."""
    paths = {path: path.relative_to(ROOT).as_posix() for path in MODULES.values()}
    for name, pattern in PROTOCOLS.items():
        shared = [path for path, text in paths.items() if re.fullmatch(pattern, text)]
        having = [p for p in shared if name in {n for n, _ in definitions(ast.parse(p.read_text()))}]
        assert len(having) > 1, name


@pytest.mark.parametrize("texts", [
    {"eqfuse/ir/a.py": "def f(): pass", "extract/b.py": "def f(x): pass"},
    {"eqfuse/ir/a.py": "MOST = 1", "extract/b.py": "LEAST, MOST = 1, 2"},
    {"eqfuse/ir/a.py": "MOST: int = 1", "eqfuse/emit/c/b.py": "MOST = 2"},
    {"eqfuse/emit/c/a.py": "def f(): pass", "eqfuse/emit/c/b.py": "def f(): pass"},
    {"eqfuse/kinds/a.py": "def accept(): pass", "extract/b.py": "def accept(): pass"},
    {"eqfuse/xp/__init__.py": "def pad(): pass", "eqfuse/ir/b.py": "def pad(): pass"},
])  # fmt: skip
def test_planted_meanings_are_seen(texts: dict[str, str]) -> None:
    assert len(ambiguous(texts)) == 1


@pytest.mark.parametrize("texts", [
    {"eqfuse/ir/a.py": "def _f(): pass", "extract/b.py": "def _f(x): pass"},
    {"eqfuse/emit/c/a.py": "def f(): pass", "eqfuse/emit/cuda/b.py": "def f(): pass"},
    {"eqfuse/kinds/a.py": "def accept(): pass", "eqfuse/kinds/b.py": "def accept(): pass"},
    {"eqfuse/xp/__init__.py": "def pad(): pass", "eqfuse/frontends/numpy/b.py": "def pad(): pass"},
    {"eqfuse/emit/onnx/a.py": "@writer_of('x')\ndef f(): pass", "rewrites/b.py": "@operator('X')\ndef f(): pass"},
    {"rewrites/a.py": "x, y = tensors('x y')", "rewrites/b.py": "x = tensors('x')"},
])  # fmt: skip
def test_what_is_the_same_may_share_a_name(texts: dict[str, str]) -> None:
    assert ambiguous(texts) == {}
