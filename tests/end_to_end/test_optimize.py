"""`eqfuse optimize model.onnx`: from a model to a fused one on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cli import main
from eqfuse.machine.quiet import Look
from eqfuse.specialise import tuning

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
pytestmark = pytest.mark.outside

GELU = """<ir_version: 9, opset_import: ["": 21]>
main (float[batch, 6] x, float[6, 8] w) => (float[batch, 8] y) { h = MatMul (x, w) y = Gelu (h) }"""
STRANGE = """<ir_version: 9, opset_import: ["": 21]>
main (double[3, 3] x) => (double y) { y = Det (x) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(GELU), tmp_path / "gelu.onnx")
    return tmp_path / "gelu.onnx"


def test_a_model_is_fused_and_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model.parent / "fused.onnx"
    assert main(["optimize", str(model), "-o", str(out), "--size", "batch=4"]) == 0
    printed = capsys.readouterr().out
    assert "kernel" in printed and "Against one kernel per operator" in printed and f"written to {out}" in printed
    assert "Rests on" not in printed
    before, after = ef.from_onnx(model, batch=4), ef.from_onnx(out)
    assert after.signature == before.signature
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(n.shape).astype(n.dtype) for n in before.inputs]
    np.testing.assert_allclose(ef.meaning(after, *arrays), ef.meaning(before, *arrays), rtol=1e-5, atol=1e-6)
    functions = {f.name for f in onnx.load(out).functions}
    assert {n.op_type for n in onnx.load(out).graph.node} == functions


def test_autotune_prints_what_was_timed(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(model.parent))
    monkeypatch.setattr(tuning, "look_together", lambda threads: Look(0.01, 1.0))
    assert main(["optimize", str(model), "--size", "batch=4", "--autotune"]) == 0
    assert "Timed on random inputs: " in capsys.readouterr().out


def test_explain_names_the_laws_it_rests_on(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(model), "--size", "x=4,6", "--explain"]) == 0
    assert "Rests on" in capsys.readouterr().out
    assert [p.name for p in model.parent.iterdir()] == ["gelu.onnx"]


@pytest.mark.parametrize("arguments, message", [
    ([], "sizes without a number: 'batch' of 'x'"),
    (["--size", "batch"], "--size takes NAME=N"), (["--size", "batch=many"], "--size takes NAME=N"),
    (["--size", "bach=4"], "no symbolic size 'bach'"),
    (["--size", "batch=4", "-o", "fused.eqfuse"], "ends in .onnx"),
])  # fmt: skip
def test_what_is_asked_wrongly_is_an_error_with_code_two(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", str(model), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("eqfuse: ")
    assert message in error


def test_files_that_cannot_be_read_or_written_are_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(model.parent / "missing.onnx")]) == 2
    assert "missing.onnx" in capsys.readouterr().err
    assert main(["optimize", str(model), "--size", "batch=4", "-o", str(model / "inside.onnx")]) == 2
    assert "inside.onnx cannot be written" in capsys.readouterr().err


def test_a_model_that_standard_onnx_cannot_hold_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(onnx.parser.parse_model(STRANGE), tmp_path / "det.onnx")
    assert main(["optimize", str(tmp_path / "det.onnx"), "-o", str(tmp_path / "out.onnx")]) == 2
    assert "det(" in capsys.readouterr().err and not (tmp_path / "out.onnx").exists()
