"""Imports point one way: no circle between modules, and none from a lower folder to a higher one.

Every import of the installed sources is read, those inside functions and by `import_module` too. Imports for type
checkers alone do not count: they name types, and nothing waits for them. A module that a table names as text (a
target's package, the home of a public name) is a plug, not an import.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"eqfuse": "eqfuse", "eqfuse.rewrites": "rewrites", "eqfuse.extract": "extract", "eqfuse.benches": "benches"}

# From the lowest up: a folder, or a file at the root, imports from its own line and from those before it.
LAYERS = {
    "errors": "what is raised: needs nothing",
    "summary": "short forms of large values, as text and HTML",
    "dtypes": "the dtypes of tensors",
    "machine": "files, threads, clocks, compilers and GPUs of this computer: knows no arrays of ours",
    "budget": "what a compile may take, and what is left of it",
    "ops": "the operators: types, meanings, flops, ranges, one row each",
    "functions": "functions of deep learning, written in operators",
    "xp": "the Array API standard's namespace",
    "ir": "graphs of operators, what they mean, how arguments nest around them",
    "rewrites": "the law book, and what checks it",
    "frontends": "from functions and models to graphs",
    "gradients": "from a function to one that computes its derivative",
    "egraph": "from a graph and laws to the space of equal programs",
    "cost": "devices, targets, prices of work",
    "kinds": "which bodies a kernel may have, on a device, at what price",
    "plan": "the kernels that run, their order, where values lie",
    "extract": "from a space to the cheapest plan",
    "show": "why a plan looks as it does: tables, drawings, the laws it rests on",
    "emit": "from a plan to what runs it: one package per target",
    "runtime": "programs: called, kept, saved, loaded",
    "options": "what is refused where it is given",
    "compiler": "the road from a graph to a program in one call",
    "specialise": "many calls of one function: ef.compile, ef.jit, symbolic sizes",
    "demo": "three programs, compared",
    "__init__": "the public face",
    "testing": "for users' tests: an emulated GPU",
    "benches": "what is measured",
    "cli": "the command line, above everything",
    "__main__": "python -m eqfuse",
}
RANK = {layer: rank for rank, layer in enumerate(LAYERS)}

# What is allowed all the same, and why.
UPWARDS = {
    ("eqfuse.egraph.space", "eqfuse.extract.space_json"): "`space.save` prices each node, as a method for users",
}
# A target whose programs are those of another, but for some of their kernels.
STANDS_ON = {("c", "numpy"): "what C has no kernel for is a call of NumPy's, in one program with the kernels"}


def _modules() -> dict[str, Path]:
    modules = {}
    for package, folder in SOURCES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            modules[".".join((package, *parts)).removesuffix(".__init__")] = path
    return modules


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(text: str) -> Iterator[ast.AST]:
    """The nodes of a module that may import: expressions are looked into where they may call `import_module`."""
    skipped = () if "import_module" in text else (ast.expr,)
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if not _for_type_checkers(node):
            yield node
            waiting += (child for child in ast.iter_child_nodes(node) if not isinstance(child, skipped))


def _imported(node: ast.AST, modules: Collection[str]) -> set[str]:
    """The modules that a node imports: of ``from a import b``, a.b where that is one, and else a."""
    match node:
        case ast.Import(names):
            imported = {alias.name for alias in names}
        case ast.ImportFrom(package, names, level):
            assert not level, "imports are absolute"
            full = {f"{package}.{alias.name}" for alias in names}
            imported = {name if name in modules else package for name in full}
        case ast.Call(ast.Name("import_module"), [ast.Constant(str(name)), *_]):
            imported = {name}
        case _:
            imported = set()
    return {name for name in imported if name in modules}


MODULES = _modules()


@cache
def _imports_of(name: str) -> set[str]:
    """The modules that module `name` imports, but for those that it may import from above."""
    nodes = _imports(MODULES[name].read_text())
    above = {above for below, above in UPWARDS if below == name}
    return {module for node in nodes for module in _imported(node, MODULES)} - {name} - above


def _layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_folder_has_a_place_among_the_layers() -> None:
    assert {_layer(m) for m in MODULES} == set(LAYERS)


def test_nothing_imports_upwards() -> None:
    upwards = {(a, b) for a in MODULES for b in _imports_of(a) if RANK[_layer(b)] > RANK[_layer(a)]}
    assert not upwards, f"these import from a higher layer: {sorted(upwards)}"


def test_no_target_imports_another() -> None:
    def target(module: str) -> str | None:
        below = MODULES[module].relative_to(ROOT).parts
        return below[2] if below[:2] == ("eqfuse", "emit") and len(below) > 3 else None

    pairs = {(a, b) for a in MODULES for b in _imports_of(a) if target(a) and target(b)}
    assert not {(a, b) for a, b in pairs if target(a) != target(b) and (target(a), target(b)) not in STANDS_ON}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not {m for m in MODULES if m in _reached(m)}


@cache
def _reached(start: str) -> set[str]:
    """What is imported with `start`, which is among it where it stands in a circle."""
    seen: set[str] = set()
    stack = [start]
    while stack:
        new = _imports_of(stack.pop()) - seen
        seen |= new
        stack += new
    return seen
