"""Saving and loading programs."""

from __future__ import annotations

import base64
import gc
import mmap
import os
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.trace import trace
from eqfuse.frontends.signature_text import write_signature
from eqfuse.ir.graph import Graph, const, input_node, node
from eqfuse.ir.signature import NamedSignature
from eqfuse.machine.memory import ALIGNMENT
from eqfuse.ops.types import TensorType
from eqfuse.runtime.load import load
from eqfuse.runtime.program import Program
from tests.runtime.test_program import one_kernel_per_operator
from tests.support.kernels import add, read, softmax


def program(seed: int = 0) -> Program:
    x = read(0, (20, 30))
    weight = const(np.random.default_rng(seed).normal(size=(30, 40)).astype(np.float32))
    return Program(one_kernel_per_operator([x], softmax(add(node("matmul", (x, weight)), const(np.float32(2))))))


def test_a_saved_program_gives_the_same_bits(tmp_path):
    saved = program()
    saved.save(tmp_path / "p.eqfuse")
    x = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32)
    loaded = load(tmp_path / "p.eqfuse")
    np.testing.assert_array_equal(loaded(x)[0], saved(x)[0])
    assert loaded.plan == saved.plan


def test_constants_are_stored_once_as_arrays_wherever_they_stand(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).normal(size=(96, 96)).astype(np.float32) / 10

    def steps(x):
        return ef.fori_loop(0, 20, lambda i, h: np.tanh(h @ weight), x), x @ weight

    x = np.ones((2, 96), np.float32)
    saved = ef.compile(steps, x)
    saved.save(tmp_path / "program")
    with zipfile.ZipFile(tmp_path / "program") as archive:
        arrays = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        text = archive.read("program.json").decode()
        np.testing.assert_array_equal(np.load(archive.open("constant0.npy")), weight)
    assert [member.file_size for member in arrays] == [128 + weight.nbytes]
    assert base64.b64encode(weight.tobytes())[:100].decode() not in text
    for loaded, wanted in zip(load(tmp_path / "program")(x), saved(x), strict=True):
        np.testing.assert_array_equal(loaded, wanted)


@pytest.mark.skipif(sys.platform == "win32", reason="files are not mapped here, as no mapped file can be replaced")
def test_constants_lie_in_the_file_until_kernels_read_them(tmp_path: Path) -> None:
    x = np.ones((20, 30), np.float32)
    saved = program(seed=1)
    saved.save(tmp_path / "program")
    wanted = saved(x)[0]
    del saved  # equal constants are one while both are held
    gc.collect()
    loaded = load(tmp_path / "program")
    (constant,) = [literal.array for literal in loaded.plan.graph.literals if literal.type.shape == (30, 40)]
    assert isinstance(constant.base, mmap.mmap) and not constant.flags.writeable
    assert constant.ctypes.data % ALIGNMENT == 0
    program(seed=2).save(tmp_path / "program")  # in one step: the file that is mapped stays as it is
    np.testing.assert_array_equal(loaded(x)[0], wanted)


def test_a_changed_element_of_a_constant_is_found(tmp_path: Path) -> None:
    path = tmp_path / "program"
    program().save(path)
    content = bytearray(path.read_bytes())
    place = content.index(np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32).tobytes())
    content[place + 8] ^= 1
    path.write_bytes(content)
    with pytest.raises(ef.EqfuseError, match=r"not a saved program.*constant0\.npy are not those that were written"):
        load(path)


def test_arguments_and_results_nest_as_before(tmp_path):
    def f(params, x, scale=2.0):
        return {"y": x @ params["w"] + params["b"], "z": [x, None]}

    params = {"w": np.ones((3, 4), np.float32), "b": np.zeros(4, np.float32)}
    x = np.ones((2, 3), np.float32)
    graph = trace(f, params, x)
    plan = one_kernel_per_operator(graph.inputs, *graph.outputs)
    plan = type(plan)(graph, *(getattr(plan, name) for name in list(plan.__dataclass_fields__)[1:]))
    Program(plan).save(tmp_path / "p.eqfuse")
    got = load(tmp_path / "p.eqfuse")(params=params, x=x)
    assert got["z"][1] is None
    np.testing.assert_array_equal(got["y"], f(params, x)["y"])


def test_names_of_inputs_and_outputs_are_kept_whatever_made_the_graph(tmp_path):
    x, y = (input_node(name, TensorType(np.dtype(np.float32), (3,))) for name in "xy")
    outputs = node("add", (x, y)), node("multiply", (x, y))
    graph = Graph((x, y), outputs, NamedSignature(("x", "y"), ("sum", "product")))
    ef.compile(graph).save(tmp_path / "program")
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    results = load(tmp_path / "program")(two, y=one)
    np.testing.assert_array_equal(results.sum, [3, 3, 3])
    np.testing.assert_array_equal(results.product, two)


def test_a_signature_of_an_unknown_class_is_not_saved_without_its_names():
    with pytest.raises(ef.EqfuseError, match="a program with a signature of class SimpleNamespace cannot be saved"):
        write_signature(SimpleNamespace(inputs=("x",)))


@pytest.mark.skipif(os.name != "posix", reason="files have other permissions here")
def test_a_saved_program_is_readable_as_the_umask_says(tmp_path):
    before = os.umask(0o022)
    try:
        program().save(tmp_path / "p.eqfuse")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "p.eqfuse").stat().st_mode) == 0o644


@pytest.mark.parametrize("damage", ["empty", "text", "other zip", "cut"])
def test_a_damaged_or_foreign_file_is_refused(tmp_path, damage):
    path = tmp_path / "p.eqfuse"
    program().save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:500])
    elif damage == "other zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("program.json", "{}")
    else:
        path.write_bytes(b"" if damage == "empty" else b"hello")
    with pytest.raises(ef.EqfuseError, match="not a saved program"):
        load(path)


@pytest.mark.parametrize("what", ["program", "space"])
def test_a_file_that_lost_or_changed_some_bytes_is_refused_or_read(tmp_path: Path, what: str) -> None:
    path, random = tmp_path / "p.eqfuse", np.random.default_rng(0)
    if what == "space":
        ef.saturate(ef.trace(np.exp, np.ones(3))).save(path, target="numpy")
    else:
        program().save(path)
    whole, read = path.read_bytes(), ef.load_space if what == "space" else load
    for _ in range(150 if what == "space" else 60):
        offset, count = int(random.integers(len(whole))), int(random.integers(1, 20))
        changed = bytes(random.integers(0, 256, count, np.uint8)) if random.random() < 0.5 else b""
        path.write_bytes(whole[:offset] + changed + whole[offset + count :])
        try:
            assert read(path) is not None
        except ef.EqfuseError as error:
            assert str(error)


@pytest.mark.parametrize("path", [None, 3, b"program"])
def test_what_is_no_path_is_no_saved_program(path: object) -> None:
    with pytest.raises(ef.EqfuseError, match="takes the path"):
        ef.load(path)  # type: ignore[arg-type]


def test_a_program_is_saved_to_a_file_and_to_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ef.EqfuseError, match="is a folder"):
        ef.compile(lambda x: x + 1, np.ones(3)).save(tmp_path)
    assert not [*tmp_path.iterdir()]
