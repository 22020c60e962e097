"""`import eqfuse` is quick: heavy modules are imported at first use, and every public name is there and typed."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

import pytest

import eqfuse as ef
from tests.packaging.test_layers import MODULES

STUB = ast.parse(Path(ef.__file__).with_suffix(".pyi").read_text())
NAMED = ("emit", "extract")  # functions and packages
HEAVY = {"torch", "egglog", "scipy", "opt_einsum", "rich", "onnx", "cupy", "eqfuse.rewrites", "eqfuse.frontends"}


def _typed() -> dict[str, str]:
    """Public names and their modules, as type checkers see them."""
    imports = [statement for statement in STUB.body if isinstance(statement, ast.ImportFrom)]
    return {alias.name: str(i.module) for i in imports for alias in i.names}


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", [m for m, path in MODULES.items() if "__all__ = [" in path.read_text()])
def test_what_a_module_lists_is_there(module: str) -> None:
    home = import_module(module)
    assert [name for name in home.__all__ if not hasattr(home, name)] == []


def test_importing_leaves_out_what_is_heavy_and_a_jitted_function_egglog_until_it_is_called() -> None:
    imported = "import sys, eqfuse.cli, eqfuse as ef; print(*sys.modules)"
    loaded, jitted = _run(f"{imported}; ef.jit(lambda x: x + 1); print('egglog' in sys.modules)").splitlines()
    assert "eqfuse" in loaded.split() and not HEAVY & set(loaded.split())
    assert jitted == "False"


def test_every_public_name_is_reachable_listed_and_typed() -> None:
    typed = _typed()
    assert sorted(ef.__all__) == sorted(typed)
    assert set(dir(ef)) >= {*typed, "__version__"}
    for name, module in typed.items():
        here, there = getattr(ef, name), import_module(module)
        assert here is (import_module(f"{module}.{name}") if module == "eqfuse" else getattr(there, name))


def test_every_public_function_class_and_method_says_what_it_does() -> None:
    public = {name: getattr(ef, name) for name in ef.__all__ if callable(getattr(ef, name))}
    methods = {
        f"{name}.{method}": value
        for name, thing in public.items() if inspect.isclass(thing) and thing.__module__.startswith("eqfuse")
        for method, value in vars(thing).items()
        if not method.startswith("_") and isinstance(value, (FunctionType, property, staticmethod, classmethod))
    }  # fmt: skip
    assert len(methods) > 20
    assert [name for name, thing in {**public, **methods}.items() if not inspect.getdoc(thing)] == []


def test_the_stub_exports_what_the_package_exports() -> None:
    (exported,) = [s.value for s in STUB.body if isinstance(s, ast.Assign)]
    assert sorted(ast.literal_eval(exported)) == sorted(ef.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fuse'"):
        ef.fuse  # noqa: B018


def test_a_function_with_the_name_of_a_package_stays_the_function() -> None:
    package_first, function_first = "import eqfuse.{0}; ef.{0}", "ef.{0}; import eqfuse.{0}"
    for order in (package_first, function_first):
        steps = [order.format(name) + f"; print(callable(ef.{name}), eqfuse.{name} is ef.{name})" for name in NAMED]
        assert _run("; ".join(["import eqfuse as ef", *steps])) == "True True\n" * len(NAMED)


def test_star_imports_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from eqfuse import *", names)
    assert names.keys() >= set(ef.__all__)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, a space, a program and a model, each in a file of its own."""
    folder = tmp_path_factory.mktemp("files")
    graph = ef.trace(lambda x: ef.relu(x * 2) + 1, ef.spec(3))
    (folder / "graph.txt").write_text(str(graph))
    ef.saturate(graph).save(folder / "space.json", target="cpu")
    program = ef.compile(graph)
    program.save(folder / "program")
    if find_spec("onnx"):
        program.to_onnx(folder / "model.onnx")
    return folder


FIRST = {  # in a child each
    "a text": "ef.compile(ef.parse(open('graph.txt').read()))",
    "a space": "ef.emit(ef.extract(ef.load_space('space.json')))",
    "a program": "ef.load('program')",
} | ({"a model": "ef.compile(ef.from_onnx('model.onnx'))"} if find_spec("onnx") else {})
TORCH = """
import torch
import eqfuse as ef

compiled = torch.compile(lambda x: torch.relu(x * 2) + 1, backend=ef.torch_backend())
print(compiled(torch.tensor([-1.0, 0.5, 2.0])).numpy())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_and_a_fork_may_begin_with_a_file_that_another_has_written(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each child that is forked begins anew, and so does the process itself at the end."""
    monkeypatch.chdir(files)
    code = f"""
import os
import eqfuse as ef
import numpy as np

def ran(name, program):
    print(name, np.ravel(eval(program)(np.array([-1.0, 0.5, 2.0]))), flush=True)

for name, program in {FIRST!r}.items():
    child = os.fork()
    if not child:
        ran(name, program)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
ran("itself", "ef.jit(lambda x: ef.relu(x * 2) + 1)")
"""
    assert _run(code).splitlines() == [f"{name} [1. 2. 5.]" for name in (*FIRST, "itself")]


@pytest.mark.outside
@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
def test_a_process_may_begin_with_a_graph_of_torch() -> None:
    assert _run(TORCH) == "[1. 2. 5.]\n"


def test_threads_may_use_eqfuse_first_at_the_same_time() -> None:
    code = """
import threading
import eqfuse as ef
import numpy as np

start, sums = threading.Barrier(4), []

def first(i):
    start.wait()
    if i % 2:
        sums.append(ef.jit(lambda x: x * 2 + 1)(np.ones(3)).sum())
    else:
        sums.append(ef.compile(lambda x: ef.relu(x) * 3, ef.spec(3))(np.ones(3)).sum())

threads = [threading.Thread(target=first, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(sums))
"""
    assert _run(code) == f"{[9.0] * 4}\n".replace("9.0", "np.float64(9.0)")
