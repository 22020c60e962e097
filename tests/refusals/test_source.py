"""Generated source holds no text of the user's: names, strings and constants are data that it refers to."""

from __future__ import annotations

import ast
import json
import keyword
import re
import zipfile
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

HOSTILE = [
    "x'];import os#",
    'x"];__import__("os").system("true")#',
    "x\n    import os\n",
    "*/ __global__ void stolen() {} /*",
    "\\\n#include <stolen>",
    "{stolen}",
    "%s%n",
    "stolen\x00\u202e",
    "r0",
    "k0",
    "None",
]
TARGETS = ["numpy", "cuda:a100"]
TELLTALES = ("import os", "__import__", "system", "stolen", "%s%n", "\x00", "\u202e")


def weighted(params: dict[str, Any]) -> dict[str, Any]:
    total: Any = 0
    for value in params.values():
        total = np.tanh(total + value * 2)
    return {f"result {name}": total + i for i, name in enumerate(params)}


def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


@pytest.mark.parametrize("target, size", zip(TARGETS, (100_000, 6), strict=True))
def test_hostile_names_of_arguments_never_reach_the_source(target: str, size: int) -> None:
    params = {name: ef.spec(size, np.float32) for name in HOSTILE}
    source = ef.compile(weighted, params, target=target).source()
    assert not [text for text in TELLTALES if text in source]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_names_give_the_source_of_plain_ones(target: str) -> None:
    hostile = {name: ef.spec(100, np.float32) for name in HOSTILE}
    plain = {f"p{i}": ef.spec(100, np.float32) for i in range(len(HOSTILE))}
    assert ef.compile(weighted, hostile, target=target).source() == ef.compile(weighted, plain, target=target).source()


def test_programs_with_hostile_names_run_and_give_the_names_back() -> None:
    params = {name: np.full(6, i, np.float32) for i, name in enumerate(HOSTILE)}
    got, wanted = ef.compile(weighted, params, target="numpy")(params), weighted(params)
    assert list(got) == list(wanted)
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-5)


def test_hostile_names_survive_saving_and_loading(tmp_path: Any) -> None:
    params = {name: np.full(6, i, np.float32) for i, name in enumerate(HOSTILE)}
    program = ef.compile(weighted, params, target="numpy")
    program.save(tmp_path / "saved")
    loaded = ef.load(tmp_path / "saved")
    assert loaded.source() == program.source()
    for name, value in program(params).items():
        np.testing.assert_array_equal(loaded(params)[name], value)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_static_values_never_reach_the_source(name: str) -> None:
    def scaled(x: Any, mode: str) -> Any:
        return {mode: x * (2 if mode else 3)}

    x = np.ones(8, np.float32)
    for target in TARGETS:
        jitted = ef.jit(static_argnames="mode", target=target)(scaled)
        assert not [text for text in TELLTALES if text in jitted.program(x, mode=name).source()]
    assert list(ef.jit(static_argnames="mode", target="numpy")(scaled)(x, mode=name)) == [name]


VALUES = [np.nan, np.inf, -np.inf, 3.0e38, 1e-45, 123456.7890625, -0.0, 0.1]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", TARGETS)
def test_constants_are_bound_by_name_and_never_written(value: float, target: str) -> None:
    def shifted(x: Any) -> Any:
        return np.maximum(np.tanh(x) * np.float32(value), x)

    x = np.linspace(-1, 1, 7, dtype=np.float32)
    program = ef.compile(shifted, x, target=target)
    text = re.sub(r"(#|//).*", "", program.source())
    shown = {repr(float(np.float32(value))), repr(float(value)), f"{value:g}", str(np.float32(value))}
    assert not [s for s in shown - {"-0.0", "-0"} if re.search(rf"(?<![\w.]){re.escape(s)}(?![\w.])", text)]
    if target == "numpy":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(program(x), shifted(x))


def test_a_huge_integer_constant_is_data_too() -> None:
    def masked(x: Any) -> Any:
        return (x ^ 0x7EDCBA9876543210) + x

    x = np.arange(5)
    for target in TARGETS:
        source = ef.compile(masked, x, target=target).source()
        assert str(0x7EDCBA9876543210) not in source
    np.testing.assert_array_equal(ef.compile(masked, x, target="numpy")(x), masked(x))


def normalised(x: Any, weight: Any) -> Any:
    y = np.maximum(x @ weight + 1.25, 0)
    return ef.layer_norm(y, 1.5, 2.5), y.sum(axis=0), (y * 77.5).mean(), np.concatenate([y, y], axis=1)[:, ::2]


@pytest.mark.parametrize("shape", [(3, 4), (611, 977)])
def test_numpy_source_holds_names_and_whole_numbers_alone(shape: tuple[int, int]) -> None:
    program = ef.compile(normalised, ef.spec(shape), ef.spec((shape[1], shape[1])), target="numpy")
    nodes = nodes_of(program.source())
    assert not [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Lambda)]
    einsums = ("...i->...", "...i,...i->...")  # sums of rows, the same in every kernel
    constants = [n.value for n in nodes if isinstance(n, ast.Constant) and n.value not in einsums]
    assert all(value is None or value is ... or isinstance(value, int) for value in constants), constants
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) and not keyword.iskeyword(name) for name in names)
    assert not names & {"eval", "exec", "open", "getattr", "globals", "compile"}


def test_a_name_in_a_saved_file_cannot_reach_the_source(tmp_path: Any) -> None:
    path = tmp_path / "saved"
    ef.compile(lambda x: np.tanh(x) + 1, ef.spec(10), target="numpy").save(path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("program.json"))
    plan = json.loads(header["plan"])
    for kernel in plan["kernels"]:
        kernel[0] = "map\n__import__('os')\n"
    header["plan"] = json.dumps(plan)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("program.json", json.dumps(header))
    with pytest.raises(ef.EqfuseError):
        ef.load(path)
