"""Cached plans and saved programs that are damaged, foreign or out of reach: never trusted, and never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.demo.programs import convolution
from eqfuse.machine.files import sealed, write_atomically
from eqfuse.runtime import disk_cache

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def f(x: Any) -> Any:
    return np.tanh(x * 2) + x.sum(axis=1, keepdims=True)


def g(x: Any) -> Any:
    return np.exp(x) - 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; `compiled` fills it."""
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk_cache, "_memory", {})
    disk_cache._warn_unwritable.cache_clear()
    return tmp_path / "cache" / "plans"


def compiled(function: Callable[..., Any] = f, target: str = "cpu") -> ef.Program:
    """Compiled as in a new process: what is cached is on the disk alone."""
    disk_cache._memory.clear()
    return ef.compile(function, X, target=target)


def was_cached(program: ef.Program) -> bool:
    return set(program.report.seconds) == {"cache"}


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*" + disk_cache.PLAN_SUFFIX)
    return path


def assert_set_aside_and_rebuilt(path: Path) -> None:
    """The next compilation warns, keeps the bad file under another name, and is right; the one after finds its plan."""
    bad = path.read_bytes()
    with pytest.warns(UserWarning, match=r"damaged.*moved to .*\.corrupt"):
        program = compiled()
    assert not was_cached(program)
    np.testing.assert_allclose(program(X), f(X), rtol=1e-5)
    assert path.with_suffix(".corrupt").read_bytes() == bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert was_cached(compiled())


def test_a_plan_is_found_again_on_disk() -> None:
    first, second = compiled(), compiled()
    assert not was_cached(first)
    assert was_cached(second)
    assert second.plan == first.plan
    np.testing.assert_array_equal(second(X), first(X))


def test_a_plan_with_work_on_constants_alone_is_found_again_too() -> None:
    function, (x,) = convolution(batch=2, channels=4, filters=4, size=8).build(np.float32)
    first = ef.compile(function, x)
    disk_cache._memory.clear()
    second = ef.compile(function, x)
    assert first.plan.setup
    assert was_cached(second)
    np.testing.assert_array_equal(second(x), first(x))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "text": lambda data: b"hello",
    "not text": lambda data: bytes(range(256)),
    "zeros, as after a crash": lambda data: bytes(len(data)),
    "nested too deeply": lambda data: b"[" * 100_000,
    "JSON of something else": lambda data: b'{"plan": 1}',
    "one digit changed": lambda data: data[::-1].replace(b"0", b"1", 1)[::-1],
    "twice": lambda data: data + data,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_set_aside_with_a_warning_and_rebuilt(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    compiled()
    path = only_file(folder)
    damaged = damage(path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    assert_set_aside_and_rebuilt(path)


def test_the_plan_of_another_program_under_this_name_is_refused_and_rebuilt(folder: Path) -> None:
    compiled(g)
    foreign = only_file(folder).read_bytes()
    only_file(folder).unlink()
    compiled()
    only_file(folder).write_bytes(foreign)
    assert_set_aside_and_rebuilt(only_file(folder))


def test_the_plan_of_the_same_program_for_another_target_is_refused_and_rebuilt(folder: Path) -> None:
    compiled(target="cuda:h100")
    foreign = only_file(folder).read_bytes()
    only_file(folder).unlink()
    compiled()
    only_file(folder).write_bytes(foreign)
    assert_set_aside_and_rebuilt(only_file(folder))


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The cached plan of `f` after `change`, with a digest that fits."""
    compiled()
    path = only_file(folder)
    content = json.loads(path.read_bytes().partition(b"\n")[2])
    plan = json.loads(content["plan"])
    change(plan)
    body = json.dumps(content | {"plan": json.dumps(plan)}).encode()
    path.write_bytes(sealed(path.stem, body))
    return path


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a kind that is code": lambda p: p["kernels"][0].__setitem__(0, "map\nimport os"),
    "a read that nothing writes": lambda p: p["kernels"][0][2].__setitem__(0, 99),
    "a write out of range": lambda p: p["kernels"][-1].__setitem__(3, [99]),
    "no results": lambda p: p.__setitem__("outputs", []),
    "an argument too many": lambda p: p["inputs"].append(0),
    "a larger type": lambda p: p.__setitem__("types", [t.replace("4]", "4000]") for t in p["types"]]),
    "a body that is no graph": lambda p: p["bodies"].__setitem__(0, "__import__('os')"),
    "an unknown operator": lambda p: p["bodies"].__setitem__(0, p["bodies"][0].replace("tanh", "system")),
    "no kernels": lambda p: p.__setitem__("kernels", []),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_plan_that_does_not_fit_together_is_set_aside(folder: Path, change: Callable[..., Any]) -> None:
    assert_set_aside_and_rebuilt(forged(folder, change))


def test_an_unwritable_folder_costs_only_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = ef.compile(f, X).plan.device
    (tmp_path / "file").write_text("a regular file")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    disk_cache._memory.clear()
    with pytest.warns(UserWarning, match=r"not kept across processes.*EQFUSE_CACHE_DIR names another folder"):
        program = ef.compile(f, X, target=device)
    np.testing.assert_allclose(program(X), f(X), rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert was_cached(ef.compile(f, X, target=device)), "memory still serves"


def test_a_folder_in_the_place_of_a_file_costs_only_the_cache(folder: Path) -> None:
    compiled()
    path = only_file(folder)
    path.unlink()
    path.mkdir()
    with pytest.warns(UserWarning, match="not kept across processes"):
        program = compiled()
    np.testing.assert_allclose(program(X), f(X), rtol=1e-5)
    assert not list(folder.glob("*.tmp"))


def test_a_failed_write_leaves_the_old_file_and_no_part_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(tmp_path / "kept", b"old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "kept", b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir() if p.is_file()] == [("kept", b"old")]


WRITER = """
import warnings
import eqfuse as ef
from eqfuse.runtime import disk_cache
from tests.refusals.test_cache import X, f
warnings.simplefilter("error")
disk_cache._code = lambda: "one version"
disk_cache.find = lambda *_: None  # so that every compilation writes
print("ready", flush=True)
for _ in range(2):
    ef.compile(f, X, target="cuda:h100")
"""


@pytest.mark.slow
def test_processes_that_write_the_same_entry_leave_it_whole_for_readers_at_all_times(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_code", lambda: "one version")
    compiled(target="cuda:h100")
    path = only_file(folder)
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while any(writer.poll() is None for writer in writers):
            assert was_cached(compiled(target="cuda:h100"))
            time.sleep(1e-3)  # for what else runs here
    assert [writer.wait() for writer in writers] == [0, 0]
    assert [p for p in folder.iterdir() if not p.is_dir()] == [path]


def test_the_oldest_plans_go_when_there_are_too_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "PLANS_ON_DISK", 2)
    monkeypatch.setattr(disk_cache, "LOOK", 1)
    for function in (f, g, np.tanh, np.sqrt):
        compiled(function)
    assert len(list(folder.glob("*" + disk_cache.PLAN_SUFFIX))) == 2
    assert was_cached(compiled(np.sqrt))


def header_of(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        header: dict[str, Any] = json.loads(archive.read("program.json"))
    return header


def rewritten(path: Path, header: Any) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("program.json", header if isinstance(header, str) else json.dumps(header))


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another format": lambda h: h | {"format": 99},
    "no header": lambda h: [],
    "missing constants": lambda h: h | {"large": 3},
    "no graph": lambda h: h | {"graph": "print('hello')"},
    "the graph of another program": lambda h: h | {"graph": h["graph"].replace("tanh", "exp")},
    "a signature of nothing": lambda h: h | {"signature": {}},
    "a device of nothing": lambda h: h | {"device": "{}"},
    "an unknown container": lambda h: h | {"signature": h["signature"] | {"arguments": ["os.system", [], []]}},
    "a report of nothing": lambda h: h | {"report": {"kernels": []}},
    "nested too deeply": lambda h: "[" * 100_000,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_saved_program_that_is_foreign_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = tmp_path / "saved"
    compiled().save(path)
    rewritten(path, change(header_of(path)))
    with pytest.raises(ef.EqfuseError):
        ef.load(path)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_saved_program_with_a_changed_byte_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "saved"
    compiled().save(path)
    data = bytearray(path.read_bytes())
    data[int(share * len(data))] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ef.EqfuseError):
        ef.load(path)


def test_a_saved_array_of_objects_is_refused_without_unpickling(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    weight = np.ones((4, 100), np.float32)
    compiled(lambda x: x @ weight).save(path)
    header = header_of(path)
    with zipfile.ZipFile(path, "w") as archive, archive.open("constant0.npy", "w") as member:
        np.lib.format.write_array(member, np.array([print], object), allow_pickle=True)
        member.close()  # before the next member opens
        archive.writestr("program.json", json.dumps(header))
    with pytest.raises(ef.EqfuseError, match="not a saved program"):
        ef.load(path)
